"""The stage: one row per digest, independent of order, and no item stops another."""

from __future__ import annotations

import errno

import numpy as np
import pyarrow as pa
import pytest
from preprocess_media import encoded, items, photo, scene, tone, video, wav

from mmlake import preprocess, schemas
from mmlake.errors import SettingsError
from mmlake.modalities import MODALITIES
from mmlake.preprocess import PreprocessSettings, decoding
from mmlake.store import BlobStore
from tests.blobs import rot


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path / "blobs")


def tracks(rows: pa.Table, modality: str, **more) -> pa.Table:
    return preprocess.tracks(rows, modality, **({"decoder": MODALITIES[modality].decoder} | more))


def row_of(table: pa.Table) -> dict:
    [row] = table.to_pylist()
    return row


def test_one_row_per_digest_with_the_strictest_role(store):
    rows = pa.concat_tables(
        [
            items(store, [b"a short note"], "text", item_id=f"s#{index}", role=role)
            for index, role in enumerate(("caption", "document", "transcript"))
        ]
    )
    assert row_of(tracks(rows, "text", store=store))["role"] == "document"


def test_the_table_does_not_depend_on_the_order_of_the_items(store):
    rows = items(store, [b"one", b"two", b"three", b"one"], "text")
    shuffled = rows.take([3, 1, 0, 2])
    assert tracks(rows, "text", store=store).equals(tracks(shuffled, "text", store=store))


def test_one_broken_item_does_not_stop_the_others(store):
    table = tracks(items(store, [encoded(photo()), b"junk", encoded(photo(2))[:400]], "image"), "image", store=store)
    assert {(row["status"], row["error_code"]) for row in table.to_pylist()} == {
        ("ok", None),
        ("unreadable", 3001),
        ("unreadable", 3002),
    }


def test_an_item_that_was_unreadable_at_its_source_keeps_its_code(store):
    row = row_of(
        tracks(
            items(store, [b"x"], "text", status="unreadable", error_code=1004, materialize_error="why"),
            "text",
            store=store,
        )
    )
    assert (row["status"], row["error_code"], row["error"]) == ("unreadable", 1004, "why")


def test_items_without_bytes_have_no_track(store):
    rows = items(store, [b"x"], "text", digest=None, status="unreadable", error_code=1002, materialize_error="cut off")
    assert tracks(rows, "text", store=store).num_rows == 0


def test_items_of_other_modalities_are_left_alone(store):
    assert tracks(items(store, [b"x"], "text"), "image", store=store).num_rows == 0


@pytest.mark.parametrize("modality", ["text", "image", "video", "audio"])
def test_a_lost_blob_is_a_row(store, modality):
    row = row_of(tracks(items(store, [b"x"], modality, digest="0" * 64), modality, store=store))
    assert (row["status"], row["error_code"]) == ("unreadable", 2001)


@pytest.mark.parametrize("modality", ["text", "image", "video", "audio"])
def test_a_rotten_blob_is_a_row(store, modality):
    rows = items(store, [b"some bytes"], modality)
    rot(store, rows.column("digest")[0].as_py())
    assert row_of(tracks(rows, modality, store=store))["error_code"] == 2002


def test_an_unforeseen_error_of_a_decoder_is_a_row(store, monkeypatch):
    monkeypatch.setattr(decoding, "image_track", lambda *_, **__: [][1])
    row = row_of(tracks(items(store, [b"x"], "image"), "image", store=store))
    assert (row["error_code"], row["error"]) == (3001, "the bytes do not decode as image (IndexError)")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("where", ["put", "local"])
def test_a_failing_disk_stops_the_run(store, monkeypatch, where, number):
    rows = items(store, [wav(tone(0.5))], "audio")
    monkeypatch.setattr(BlobStore, where, lambda *_, **__: (_ for _ in ()).throw(OSError(number, "of the disk")))
    with pytest.raises(OSError, match="of the disk"):
        tracks(rows, "audio", store=store)


@pytest.mark.parametrize("number", [errno.EIO, errno.EDQUOT, errno.EROFS, errno.ENOMEM])
def test_a_fault_of_the_machine_within_a_decoder_stops_the_run(store, monkeypatch, number):
    monkeypatch.setattr(
        decoding, "image_track", lambda *_, **__: (_ for _ in ()).throw(OSError(number, "of the machine"))
    )
    with pytest.raises(OSError, match="of the machine"):
        tracks(items(store, [b"x"], "image"), "image", store=store)


def test_keyframes_and_sound_are_in_the_store(store, tmp_path):
    data = video(tmp_path / "a.mp4", scene(1, 30), sound=[(0.0, tone(1))])
    row = row_of(tracks(items(store, [data], "video"), "video", store=store))
    assert row["status"] == "ok"
    assert row["audio_digest"] in store
    assert row["keyframes"]
    assert all(frame["digest"] in store for frame in row["keyframes"])


def test_a_transcript_from_the_source_is_kept_without_its_times(store):
    srt = "1\n00:00:00,100 --> 00:00:00,900\nHello <b>there</b>\n"
    row = row_of(tracks(items(store, [wav(tone(1))], "audio", sample_text=srt), "audio", store=store))
    assert (row["transcript"], row["transcript_source"]) == ("Hello there", "source")
    assert row["cues"] == [{"text": "Hello there", "start_s": 0.1, "end_s": 0.9, "score": None}]


def test_without_a_transcript_the_row_says_so(store):
    row = row_of(tracks(items(store, [wav(tone(1))], "audio"), "audio", store=store))
    assert (row["transcript"], row["transcript_source"], row["cues"]) == (None, "none", [])


def test_every_item_advances_once(store):
    counts: list[int] = []
    tracks(items(store, [b"one", b"two"], "text"), "text", store=store, advance=counts.append)
    assert sum(counts) == 2


def test_an_empty_partition_gives_an_empty_table(store):
    assert tracks(schemas.empty(schemas.ITEMS), "audio", store=store).equals(schemas.empty(schemas.TRACKS))


@pytest.mark.parametrize("setting", [{"max_pixels": 0}, {"analysis_side_px": 20}])
def test_settings_that_no_run_could_use_are_refused(setting):
    with pytest.raises(SettingsError, match=next(iter(setting))):
        PreprocessSettings(**setting)


def test_random_bytes_never_escape_the_border(store):
    rng = np.random.default_rng(3)
    blobs = [
        head + rng.bytes(600)
        for head in (
            b"\xff\xd8\xff\xe0",
            b"RIFF\x00\x01\x00\x00WAVEfmt ",
            b"\x00\x00\x00\x18ftypmp42",
            b"\x1aE\xdf\xa3",
            b"OggS\x00\x02",
            b"fLaC\x00\x00\x00\x22",
            b"GIF89a",
        )
    ]
    for modality in ("text", "image", "video", "audio"):
        assert set(tracks(items(store, blobs, modality), modality, store=store).column("status").to_pylist()) == {
            "unreadable"
        }
