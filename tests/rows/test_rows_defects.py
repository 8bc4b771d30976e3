"""Thirteen ways in which a reader or writer of interleaved rows was seen to lose data or to give wrong ones; ours
does none of it."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from rows_media import MemoryLanding, batch_of, column, gz, land, one, png, read, record, tar, tiff
from zstandard import compress

from mmlake import rows, sources
from mmlake.records import SourceRef
from mmlake.rows import Places, materialize


@pytest.mark.parametrize("packed", [gz, compress], ids=["gzip", "zstd"])
def test_a_range_of_a_compressed_tar_never_gives_wrong_bytes(packed):
    noise = bytes(range(256)) * 3000
    held = tar({"0.bin": noise, "1.png": png(1), "2.png": png(2)})
    wrong = [
        SourceRef("s.tar.x", name, held.index(data), len(data)).to_json()
        for name, data in (("1.png", png(1)), ("2.png", png(2)), ("0.bin", noise))
    ]
    done = materialize(
        batch_of([{"source_ref": ref} for ref in wrong]), Places(landing=MemoryLanding({"s.tar.x": packed(held)}))
    )
    assert column(done, "binary_content") == [png(1), png(2), noise] and column(done, "materialize_error") == [None] * 3


@pytest.mark.parametrize("packed", [gz, compress], ids=["gzip", "zstd"])
def test_members_of_compressed_tars_have_no_range_and_are_read_later(tmp_path, packed):
    batch = one(
        tmp_path, {"s.tar.x": packed(tar({"0.json": record(texts=["t"], images=[None, "p"]), "0.p.png": png()}))}
    )
    assert [SourceRef.parse(value).byte_offset for value in column(batch, "source_ref", "image")] == [None]
    assert column(materialize(batch, Places(landing=tmp_path)), "binary_content", "image") == [png()]


def test_a_frame_of_a_loose_file_is_picked():
    done = materialize(
        batch_of([{"source_ref": SourceRef("a.tif", frame_index=1).to_json()}]),
        Places(landing=MemoryLanding({"a.tif": tiff(3)})),
    )
    assert len(column(done, "binary_content")[0]) < len(tiff(3))


BROKEN = {
    "a bad record": b'{"texts":',
    "no record": b"",
    "another encoding": b'{"texts":["\xe9\xff"]}',
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_record_costs_its_own_sample_alone(tmp_path, case):
    batch = one(
        tmp_path,
        {
            "s.tar": tar(
                {
                    "0.json": record(texts=["before"]),
                    "1.json": BROKEN[case],
                    "1.p.png": png(),
                    "2.json": record(texts=["after"]),
                }
            )
        },
        materialize="read",
    )
    assert [text for text in column(batch, "text_content", "text") if text] == ["before", "after"] and png() in column(
        batch, "binary_content"
    )
    assert [code for code in column(batch, "error_code") if code] in ([1003], [1004], [1006])


def test_a_list_next_to_a_medium_is_its_metadata(tmp_path):
    batch = one(tmp_path, {"s.tar": tar({"1.json": b"[1]", "1.p.png": png()})}, materialize="read")
    assert [content for content in column(batch, "binary_content") if content] == [png()]
    assert [code for code in column(batch, "error_code") if code] == []


def test_a_cut_tar_keeps_its_whole_samples(tmp_path):
    whole = tar([(f"{at}.json", record(texts=[f"text {at}"])) for at in range(4)])
    batch = one(tmp_path, {"s.tar": whole[: 3 * 1024 + 300]})
    assert [text for text in column(batch, "text_content", "text") if text] == [
        "text 0",
        "text 1",
        "text 2",
    ] and column(batch, "error_code")[-1] == 1002


def test_a_field_that_only_a_late_sample_has_is_there_for_it(tmp_path):
    files = {
        "s.tar": tar([(f"{at}.json", record(texts=["t"], **({"late": "x"} if at == 9 else {}))) for at in range(10)])
    }
    assert column(one(tmp_path, files), "late", "metadata")[-1:] == ["x"]


def test_a_field_of_two_types_is_text_and_reported(tmp_path):
    batch = one(
        tmp_path,
        {"s.tar": tar({"0.json": record(texts=["t"], year=1999), "1.json": record(texts=["t"], year="unknown")})},
    )
    assert column(batch, "year", "metadata") == ["1999", "unknown"]
    assert [(conflict.field, conflict.sample_id) for conflict in batch.conflicts] == [("year", "s.tar/1")]


def test_one_stem_in_two_folders_is_two_samples_with_their_own_pictures(tmp_path):
    members = {
        f"{folder}/0.{name}": data
        for number, folder in enumerate("ab")
        for name, data in (("json", record(images=["p"])), ("p.png", png(number)))
    }
    batch = one(tmp_path, {"s.tar": tar(members)}, materialize="read")
    assert dict(zip(column(batch, "sample_id", "image"), column(batch, "binary_content", "image"), strict=True)) == {
        "s.tar/a/0": png(0),
        "s.tar/b/0": png(1),
    }


def test_an_entry_that_is_an_object_is_stored_as_json(tmp_path):
    batch = one(tmp_path, {"s.tar": tar({"0.json": record(texts=[{"b": None, "a": True}, "t"])})})
    assert column(batch, "text_content", "text") == ['{"a":true,"b":null}', "t"]
    assert json.loads(column(batch, "text_content", "text")[0]) == {"a": True, "b": None}


def test_a_tar_of_pairs_without_records_gives_rows_of_every_kind(tmp_path):
    from tests.sources.source_builders import mp4, wav

    batch = one(
        tmp_path,
        {"s.tar": tar({"0.png": png(), "0.txt": b"a caption", "1.wav": wav(), "2.mp4": mp4(b"vide")})},
        fields=["score"],
    )
    assert sorted(column(batch, "modality")) == ["audio", "image", "text", "video"] and column(
        batch, "text_content", "text"
    ) == ["a caption"]
    assert set(column(batch, "score")) == {None}


def test_a_member_that_comes_twice_is_two_rows_and_reported(tmp_path, caplog):
    from mmlake.store import BlobStore

    files = {"s.tar": tar([("0.png", png(1)), ("0.png", png(2))])}
    batch = one(tmp_path / "in", files, materialize="read")
    assert column(batch, "binary_content") == [png(1), png(2)] and column(batch, "status") == ["ok", "ok"]
    assert [json.loads(value) if value else None for value in column(batch, "metadata_json")] == [
        None,
        {"duplicate_member": True},
    ]
    assert [conflict.reason for conflict in batch.conflicts] == [
        "1009: the archive has the member 0.png#dup=1 more than once"
    ]
    (shard,) = sources.scan(tmp_path / "in", settings=sources.SourceSettings())
    sources.ingest(
        shard, "image", landing=tmp_path / "in", store=BlobStore(tmp_path / "store"), settings=sources.SourceSettings()
    )
    assert "s.tar: num_duplicate_members=1 (1009)" in caplog.text


def test_no_setting_of_a_storage_reaches_a_batch():
    class Keyed(MemoryLanding):
        key, secret = "the-key", "the-secret"

    (batch,) = read(Keyed({"s.tar": tar({"0.json": record(texts=["t"])})}))
    output = repr((batch, batch.table.to_pylist(), batch.table.schema.metadata))
    assert (
        "the-key" not in output
        and "the-secret" not in output
        and set(vars(batch)) == {"table", "source_files", "name", "conflicts"}
    )


def test_memory_holds_one_batch_and_not_the_shard(tmp_path):
    picture = bytes(range(256)) * 800
    members = [
        (f"{at:03d}.{name}", data)
        for at in range(150)
        for name, data in (("json", record(images=["p"])), ("p.png", png()[:8] + picture))
    ]
    land(tmp_path, {"s.tar": tar(members)})
    (shard,) = sources.scan(tmp_path, settings=sources.SourceSettings())
    tracemalloc.start()
    num_rows = sum(
        batch.count("image")
        for batch in rows.read_rows(shard, landing=tmp_path, materialize="read", max_batch_bytes=1_000_000)
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert num_rows == 150 and peak < 8_000_000  # the shard is 31 MB
