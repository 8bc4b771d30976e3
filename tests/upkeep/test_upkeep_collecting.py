"""Garbage collection: two passes, a grace period, and nothing that anything names."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from mmlake.errors import BlobCorrupt, LakeLocked, SettingsError
from mmlake.lake import Lake
from mmlake.upkeep import collect, usage
from mmlake.upkeep.references import is_named, marks_of, referenced
from mmlake.versions import RECIPES, VERSION_SAMPLES
from tests import make

STRAY = b"nobody asked for these bytes"
DAY_S = 86_400.0


def test_a_finished_lake_has_no_garbage(done) -> None:
    found = collect(done.lake, now_s=0.0, dry_run=True)
    assert (found.condemned, found.deleted) == (0, 0)
    assert found.blobs == found.named == len(list(done.lake.store.digests())) > 10


def test_a_stray_blob_is_condemned_at_first_and_deleted_after_its_grace(own) -> None:
    lake = own.lake
    digest = lake.store.put(STRAY)
    first = collect(lake, now_s=0.0, grace_s=DAY_S)
    assert (first.condemned, first.condemned_bytes, first.deleted) == (1, len(STRAY), 0)
    assert collect(lake, now_s=DAY_S - 1, grace_s=DAY_S).deleted == 0
    last = collect(lake, now_s=DAY_S, grace_s=DAY_S)
    assert (last.condemned, last.deleted, last.deleted_bytes) == (0, 1, len(STRAY))
    assert digest not in lake.store


def test_the_grace_of_a_blob_condemned_by_a_clock_that_was_ahead_begins_anew(own) -> None:
    """It was kept until the clock came there again, years where that was wrong by years."""
    lake = own.lake
    digest = lake.store.put(STRAY)
    assert collect(lake, now_s=900 * DAY_S, grace_s=DAY_S).condemned == 1
    back = collect(lake, now_s=0.0, grace_s=DAY_S)
    assert (back.condemned, back.deleted) == (1, 0)
    assert collect(lake, now_s=DAY_S - 1, grace_s=DAY_S).deleted == 0
    assert collect(lake, now_s=DAY_S, grace_s=DAY_S).deleted == 1
    assert digest not in lake.store


def test_everything_that_is_named_is_there_after_a_collection_without_grace(own) -> None:
    lake = own.lake
    before = set(lake.store.digests())
    lake.store.put(STRAY)
    assert collect(lake, now_s=0.0, grace_s=0.0).deleted == 1
    assert set(lake.store.digests()) == before
    assert [digest for digest in before if lake.store.verify(digest) is not None] == []


def test_keyframes_and_sound_tracks_are_named(done) -> None:
    tracks = (
        done.lake.tables.concat("tracks", "video").to_pylist() + done.lake.tables.concat("tracks", "audio").to_pylist()
    )
    derived = [frame["digest"] for row in tracks for frame in row["keyframes"]] + [
        row["audio_digest"] for row in tracks if row["audio_digest"]
    ]
    assert len(derived) >= 3
    assert is_named(marks_of(derived), referenced(done.lake)).all()


def test_a_blob_that_is_named_again_is_spared(own) -> None:
    lake, text = own.lake, make.prose(77)
    digest = lake.store.put(text.encode())
    assert collect(lake, now_s=0.0).condemned == 1
    make.land(lake.landing.root, {"text/c.jsonl": make.jsonl([text])})
    own.again()
    found = collect(own.lake, now_s=10 * DAY_S)
    assert (found.spared, found.deleted) == (1, 0)
    assert digest in own.lake.store


def test_what_only_an_old_version_names_is_kept(own) -> None:
    lake = own.lake
    held = lake.versions.items("everything-v001").column("digest").to_pylist()
    make.land(lake.landing.root, {"text/a.jsonl": make.jsonl([make.prose(50)])})
    own.again()
    assert collect(own.lake, now_s=0.0, grace_s=0.0).blobs > 0
    assert [digest for digest in held if digest not in own.lake.store] == []


def test_a_running_step_keeps_the_collector_out(own) -> None:
    with own.lake.naming_blobs(), own.lake.naming_blobs(), pytest.raises(LakeLocked, match="a step that puts blobs"):
        collect(own.lake, now_s=0.0)


def test_a_held_digest_is_kept_without_any_table(own) -> None:
    lake = own.lake
    digest = lake.store.put(STRAY)
    (lake.root / "holds").mkdir()
    (lake.root / "holds" / "case-12.txt").write_text(f"# kept for the audit\n\n{digest} the contract\n")
    found = collect(lake, now_s=0.0, grace_s=0.0)
    assert (found.condemned, found.deleted) == (0, 0)


def test_a_hold_that_is_no_digest_stops_the_collection(own) -> None:
    (own.lake.root / "holds").mkdir()
    (own.lake.root / "holds" / "case").write_text("3f2a\n")
    with pytest.raises(SettingsError, match="line 1: '3f2a' is no digest"):
        collect(own.lake, now_s=0.0)


def test_a_dry_run_changes_nothing(own) -> None:
    lake = own.lake
    digest = lake.store.put(STRAY)
    found = collect(lake, now_s=0.0, grace_s=0.0, dry_run=True)
    assert (found.deleted, digest in lake.store) == (1, True)
    assert not (lake.root / "condemned.json").exists()


def test_a_collector_that_dies_while_deleting_is_finished_by_the_next(own, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = own.lake
    digest = lake.store.put(STRAY)
    collect(lake, now_s=0.0)

    def killed(digests):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(lake.store), "remove_all", lambda self, digests: killed(digests))
    with pytest.raises(KeyboardInterrupt):
        collect(lake, now_s=2 * DAY_S)
    monkeypatch.undo()
    assert collect(lake, now_s=3 * DAY_S).condemned == 1  # its grace begins anew
    assert collect(lake, now_s=5 * DAY_S).deleted == 1
    assert digest not in lake.store


@pytest.mark.parametrize("text", ["{", "[]", '{"condemned": 3}'])
def test_a_damaged_list_of_the_condemned_is_named(own, text: str) -> None:
    (own.lake.root / "condemned.json").write_text(text)
    with pytest.raises(SettingsError, match=r"condemned\.json is damaged"):
        collect(own.lake, now_s=0.0)


def test_marks_are_the_first_sixteen_characters() -> None:
    digests = [hashlib.sha256(bytes([number])).hexdigest() for number in range(50)]
    assert marks_of(digests).tolist() == [int(digest[:16], 16) for digest in digests]
    named = np.sort(marks_of(digests[::2]))
    assert is_named(marks_of(digests), named).tolist() == [number % 2 == 0 for number in range(50)]
    assert not is_named(marks_of(digests), np.empty(0, np.uint64)).any()


def test_usage_counts_each_blob_once_and_says_whose_it_is_alone(own) -> None:
    lake = own.lake
    lake.store.put(STRAY)
    found = usage(lake)
    items = [
        row
        for modality in ("text", "image", "video", "audio")
        for row in lake.tables.concat("items", modality, columns=["digest", "source", "size_bytes"]).to_pylist()
    ]
    for share in found.sources:
        rows = {row["digest"]: row["size_bytes"] for row in items if row["source"] == share.name and row["digest"]}
        assert (share.num_items, share.num_blobs, share.size_bytes) == (
            sum(row["source"] == share.name for row in items),
            len(rows),
            sum(rows.values()),
        )
    assert (found.unnamed_blobs, found.unnamed_bytes) == (1, len(STRAY))
    everything, curated = (
        next(share for share in found.versions if share.name == name) for name in ("everything-v001", "curated-v001")
    )
    assert everything.exclusive_bytes == everything.size_bytes - curated.size_bytes
    assert json.dumps(found.to_dict())


def test_usage_reports_a_version_that_nothing_came_into(tmp_path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.versions.build(
        VERSION_SAMPLES.empty_table(), recipe=RECIPES["curated"], settings_digest="", encoders={}, name="curated-v001"
    )
    assert [(share.name, share.num_items, share.num_blobs, share.size_bytes) for share in usage(lake).versions] == [
        ("curated-v001", 0, 0, 0)
    ]


def test_a_version_with_two_names_still_has_its_bytes_alone(own) -> None:
    before = {share.name: share.exclusive_bytes for share in usage(own.lake).versions}
    own.lake.versions.tag("second-name", "everything-v001")
    after = {share.name: share.exclusive_bytes for share in usage(own.lake).versions}
    assert after == {
        "everything-v001, second-name" if name == "everything-v001" else name: size for name, size in before.items()
    }


def test_usage_counts_no_blob_as_gone_whose_pack_lost_its_index(own) -> None:
    index = next((own.lake.root / "blobs" / "packs").glob("*.idx"))
    data = index.read_bytes()
    for harm in (index.unlink, lambda: index.write_bytes(b""), lambda: index.write_bytes(data[: len(data) // 2])):
        harm()
        with pytest.raises(BlobCorrupt, match="has lost its index, or it is damaged; run `mmlake fsck --repair`"):
            usage(Lake(own.lake.root))
    index.write_bytes(data)
    assert usage(own.lake).missing_blobs == 0
    own.lake.store.remove(own.lake.tables.concat("items", "image", columns=["digest"])["digest"][0].as_py())
    assert usage(own.lake).missing_blobs == 1
