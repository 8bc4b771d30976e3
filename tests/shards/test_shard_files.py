from __future__ import annotations

import hashlib
import io
import json
import os
import random
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from mmlake import checked_json
from mmlake.errors import BlobCorrupt, BlobMissing, LakeLocked, SettingsError, ShardCorrupt
from mmlake.formats.tar_writer import TarWriter, header
from mmlake.loader.entries import entries
from mmlake.locks import exclusive_lock
from mmlake.shards import ShardIndex, ShardSettings, verify_shards
from mmlake.shards.index import read_idx
from mmlake.shards.verify import written_members
from mmlake.store import BlobStore
from tests.blobs import file_of
from tests.made_samples import part, sample, shards_of

MANIFEST = "ab" * 32
SMALL = ShardSettings(shard_bytes=12_000)


def put(store: BlobStore, data: bytes, *, weight: float = 1.0, **facts) -> dict:
    """A sample of one part."""
    return sample([part(store, data, **facts)], weight=weight)


def pictures(store: BlobStore, count: int) -> list[dict]:
    """Samples of a picture each, in the order of their names."""
    rng = random.Random(0)
    made = [put(store, rng.randbytes(rng.randrange(1, 3000)), weight=0.5) for _ in range(count)]
    return sorted(made, key=lambda row: row["sample"])


def digest(row: dict) -> str:
    return row["parts"][0]["digest"]


def write(rows: list[dict], store: BlobStore, out: Path, **fields) -> ShardIndex:
    return shards_of(rows, store, out, manifest_id=MANIFEST, **({"settings": SMALL} | fields))


def tar_members(index: ShardIndex) -> dict[str, bytes]:
    found = {}
    for shard in index.shards:
        with tarfile.open(index.directory / f"{shard.name}.tar") as tar:
            found |= {member.name: tar.extractfile(member).read() for member in tar}
    return found


def weights(index: ShardIndex) -> dict[str, float]:
    """Sample -> its weight in the index of its shard."""
    tables = [read_idx((index.directory / f"{shard.name}.idx").read_bytes())[0] for shard in index.shards]
    return {row["key"]: row["weight"] for table in tables for row in table.to_pylist()}


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.name != "writer.lock"}


@pytest.fixture
def store(tmp_path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def test_every_sample_has_its_bytes_and_its_facts(store, tmp_path) -> None:
    rows = pictures(store, 20)
    index = write(rows, store, tmp_path)
    members = tar_members(index)
    assert index.num_samples == index.num_items == 20 == len(members) / 2
    for row in rows:
        assert members[f"{row['sample']}.jpg"] == store.read(digest(row))
        facts = json.loads(members[f"{row['sample']}.json"])
        same = ("sample", "modality", "sources", "licences", "sample_ids", "num_occurrences")
        assert {name: facts[name] for name in same} == {name: row[name] for name in same}
    assert weights(index) == {row["sample"]: row["weight"] for row in rows}


def test_shards_keep_their_target_size_and_sample_bound(store, tmp_path) -> None:
    rows = pictures(store, 20)
    assert all(shard.size_bytes <= SMALL.shard_bytes for shard in write(rows, store, tmp_path / "a").shards)
    index = write(rows, store, tmp_path / "b", settings=ShardSettings(max_samples=7))
    assert all(shard.num_samples <= 7 for shard in index.shards) and index.num_samples == 20
    assert len(index.shards) <= 7  # half full at the least, or nearly


def test_normalized_text_replaces_the_raw_blob(store, tmp_path) -> None:
    row = put(store, b"<p>words</p>", modality="text", role="document", content_type="text/html")
    assert tar_members(write([row], store, tmp_path / "a"))[f"{row['sample']}.html"] == b"<p>words</p>"
    normalized = tar_members(write([row], store, tmp_path / "b", texts=lambda digest: "words"))
    assert normalized[f"{row['sample']}.txt"] == b"words"


def test_unknown_content_never_gets_an_executable_extension(store, tmp_path) -> None:
    row = put(store, b"x", content_type="application/x-python-pickle")
    assert f"{row['sample']}.bin" in tar_members(write([row], store, tmp_path))


def test_tar_bytes_depend_on_the_samples_alone(store, tmp_path) -> None:
    rows = pictures(store, 20)
    one = write(rows, store, tmp_path / "one")
    other = write(rows[::-1], store, tmp_path / "other")
    assert contents(one.directory) == contents(other.directory)


def test_headers_are_those_of_ustar_with_fixed_fields() -> None:
    info = tarfile.TarInfo.frombuf(header("name.jpg", 1234), "ascii", "strict")
    assert (info.name, info.size, info.mode, info.uid, info.gid, info.mtime, info.type) == (
        "name.jpg",
        1234,
        0o644,
        0,
        0,
        0,
        tarfile.REGTYPE,
    )


@pytest.mark.parametrize("size_bytes", [0, 1, 511, 512, 513, 8**11 - 1, 8**11, 8**12])
def test_sizes_on_both_sides_of_the_octal_limit_are_read_by_tarfile(size_bytes: int) -> None:
    assert tarfile.TarInfo.frombuf(header("x", size_bytes), "ascii", "strict").size == size_bytes


def test_the_writer_agrees_with_tarfile_byte_for_byte_up_to_padding() -> None:
    ours, theirs = io.BytesIO(), io.BytesIO()
    writer = TarWriter(ours)
    with tarfile.open(fileobj=theirs, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        large = random.Random(1).randbytes(200_001)
        for name, data in (("a.txt", b"x" * 700), ("b.json", b""), ("c.bin", bytes(1536)), ("d.bin", large)):
            writer.add(name, data)
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    digest = writer.finish()
    assert digest == hashlib.sha256(ours.getvalue()).hexdigest()
    assert theirs.getvalue().startswith(ours.getvalue())


def test_a_file_that_takes_a_part_of_what_is_written_is_given_the_rest() -> None:
    class Reluctant(io.BytesIO):
        def write(self, data) -> int:
            return super().write(bytes(data)[:50_000])

    ours, whole = Reluctant(), io.BytesIO()
    digests = []
    for file in (ours, whole):
        writer = TarWriter(file)
        writer.add("a.bin", b"x" * 170_000)
        writer.add("b.txt", b"y" * 700)
        digests.append(writer.finish())
    assert ours.getvalue() == whole.getvalue()
    assert digests[0] == digests[1] == hashlib.sha256(whole.getvalue()).hexdigest()


_READ_BY_WEBDATASET = """
import hashlib, json, sys, webdataset
samples = webdataset.WebDataset(sys.argv[1:], shardshuffle=False, empty_check=False)
blobs = {sample["__key__"]: sample.get("jpg", sample.get("txt")) for sample in samples}
print(json.dumps({key: hashlib.sha256(data).hexdigest() for key, data in blobs.items()}))
"""


def test_webdataset_reads_the_shards(store, tmp_path) -> None:
    """The real library, in a process of its own, because its secure mode is read at import."""
    rows = [*pictures(store, 6), put(store, b"words", modality="text", role="document")]
    index = write(rows, store, tmp_path)
    urls = [str(index.directory / f"{shard.name}.tar") for shard in index.shards]
    run = subprocess.run(
        [sys.executable, "-c", _READ_BY_WEBDATASET, *urls],
        env=os.environ | {"WDS_SECURE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(run.stdout) == {row["sample"]: digest(row) for row in rows}


def test_a_version_without_samples_is_a_finished_set(store, tmp_path) -> None:
    index = write([], store, tmp_path)
    assert (index.num_samples, index.num_items, verify_shards(index.directory)) == (0, 0, [])


def test_a_second_run_writes_nothing(store, tmp_path) -> None:
    rows = pictures(store, 20)
    directory = write(rows, store, tmp_path).directory
    before = {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}
    write(rows, store, tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in directory.iterdir()} == before


def test_only_damaged_shards_are_written_again(store, tmp_path) -> None:
    index = write(rows := pictures(store, 20), store, tmp_path)
    whole = contents(index.directory)
    flip(index.directory / "image-000001.tar", 700)
    untouched = (index.directory / "image-000000.tar").stat().st_ino
    write(rows, store, tmp_path)
    assert contents(index.directory) == whole
    assert (index.directory / "image-000000.tar").stat().st_ino == untouched


def test_other_settings_replace_the_shards_and_leave_no_remains(store, tmp_path) -> None:
    directory = write(rows := pictures(store, 20), store, tmp_path).directory
    index = write(rows, store, tmp_path, settings=ShardSettings())
    assert sorted(contents(directory)) == ["image-000000.idx", "image-000000.tar", "index.json"]
    assert (index.num_samples, verify_shards(directory)) == (20, [])


def test_a_missing_blob_stops_the_writing(store, tmp_path) -> None:
    rows = pictures(store, 3)
    store.remove(digest(rows[1]))
    with pytest.raises(BlobMissing):
        write(rows, store, tmp_path)
    assert not (tmp_path / MANIFEST / "index.json").exists()


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data + b"x", lambda data: bytes([data[0] ^ 1]) + data[1:]]
)
def test_a_corrupt_blob_never_reaches_a_shard(store, tmp_path, damage) -> None:
    row = put(store, b"a picture of a fox")
    file_of(store, digest(row)).write_bytes(damage(b"a picture of a fox"))
    with pytest.raises(BlobCorrupt):
        write([row], store, tmp_path)
    assert list((tmp_path / MANIFEST).glob("*.tar*")) == []


@pytest.mark.parametrize("manifest_id", ["", "../x", "AB" * 32])
def test_a_manifest_id_that_is_no_digest_is_refused(store, tmp_path, manifest_id: str) -> None:
    with pytest.raises(SettingsError):
        shards_of(pictures(store, 1), store, tmp_path, manifest_id=manifest_id)


def test_a_second_writer_is_asked_to_wait(store, tmp_path) -> None:
    with exclusive_lock(tmp_path / MANIFEST / "writer.lock", what="it"), pytest.raises(LakeLocked):
        write(pictures(store, 1), store, tmp_path)


def flip(path: Path, position: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def test_every_flipped_bit_and_every_truncation_is_found(store, tmp_path) -> None:
    index = write(pictures(store, 4), store, tmp_path)
    rng = random.Random(1)
    for path in sorted(index.directory.glob("image-000000.*")):
        whole = path.read_bytes()
        for _ in range(150):
            flip(path, rng.randrange(len(whole)), rng.randrange(8))
            assert len(verify_shards(index.directory)) == 1
            path.write_bytes(whole[: rng.randrange(len(whole))])
            assert len(verify_shards(index.directory)) == 1
            path.write_bytes(whole)
    assert verify_shards(index.directory) == []


def test_missing_and_extra_files_are_distinguished(store, tmp_path) -> None:
    directory = write(pictures(store, 20), store, tmp_path).directory
    (directory / "image-000000.tar").unlink()
    (directory / "image-999999.tar").write_bytes(b"")
    problems = verify_shards(directory)
    assert [("missing" in problem, "does not name" in problem) for problem in problems] == [
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema":"mmlake.shards/2","manifest":"x","num_samples":5,"shards":[]}', "\x00"]
)
def test_a_damaged_index_is_one_problem(tmp_path, text: str) -> None:
    (tmp_path / "index.json").write_text(text)
    assert len(verify_shards(tmp_path)) == 1


def test_no_flipped_bit_of_an_index_is_read(store, tmp_path) -> None:
    """Its checksum stands in its own text: a name, a number or a key of others that changed is damage."""
    path = write(pictures(store, 2), store, tmp_path).directory / "index.json"
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        for read in (ShardIndex.read, entries):
            with pytest.raises(ShardCorrupt, match="index"):
                read(path.parent)
    path.write_text(json.dumps(checked_json.loads(data)))  # as releases before wrote it
    assert ShardIndex.read(path.parent).to_json() == data


def test_a_folder_without_index_was_never_finished(tmp_path) -> None:
    with pytest.raises(ShardCorrupt, match="never finished"):
        ShardIndex.read(tmp_path)


@pytest.mark.parametrize("tail", [b"", bytes(512), bytes(1536), b"x" * 1024])
def test_the_strict_reader_demands_two_zero_blocks_at_the_end(tail: bytes) -> None:
    data = header("a", 0) + tail
    with pytest.raises(ShardCorrupt):
        list(written_members(io.BytesIO(data)))


@pytest.mark.parametrize("size_bytes", [0, 1000])
def test_the_strict_reader_refuses_what_another_program_writes(size_bytes: int) -> None:
    """One reader reads all tars; a shard has no record, no folder and no time that our writer does not write."""
    for form, change in ((tarfile.PAX_FORMAT, {"mtime": 1.5}), (tarfile.USTAR_FORMAT, {"mtime": 1})):
        info = tarfile.TarInfo("a")
        info.size, info.mtime = size_bytes, change["mtime"]
        data = info.tobuf(form) + bytes(-(-size_bytes // 512) * 512) + bytes(1024)
        with pytest.raises(ShardCorrupt, match="damaged"):
            list(written_members(io.BytesIO(data)))


def test_the_strict_reader_refuses_links() -> None:
    link = tarfile.TarInfo("a")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    data = link.tobuf(tarfile.USTAR_FORMAT) + bytes(1024)
    with pytest.raises(ShardCorrupt, match="damaged"):
        list(written_members(io.BytesIO(data)))


class _Killed(BaseException):
    pass


def _dying(monkeypatch, countdown: int) -> None:
    """Let the writer die at the nth operation that makes something durable, visible or gone."""
    left = [countdown]
    for operation in ("replace", "fsync", "unlink"):
        real = getattr(os, operation)

        def call(*args, real=real, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                raise _Killed
            return real(*args, **kwargs)

        monkeypatch.setattr(os, operation, call)


def test_a_writer_killed_at_any_step_is_taken_up_again(store, tmp_path, monkeypatch) -> None:
    """Readers see a finished, sound set or none; the next run ends with the very bytes of a run that never died."""
    rows = pictures(store, 8)
    expected, deaths = contents(write(rows, store, tmp_path / "whole").directory), 0
    for countdown in range(200):
        out = tmp_path / str(countdown)
        write(rows, store, out, settings=ShardSettings())  # an older plan lies there
        with monkeypatch.context() as patch:
            _dying(patch, countdown)
            try:
                write(rows, store, out)
                break
            except _Killed:
                deaths += 1
        finished = (out / MANIFEST / "index.json").exists()
        assert (
            not finished
            or [problem for problem in verify_shards(out / MANIFEST) if "does not name" not in problem] == []
        )
        write(rows, store, out)
        assert contents(out / MANIFEST) == expected
    assert deaths > 10
