"""Lance datasets: a directory that is one shard, one version of it, read by fragments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest

from mmlake import sources
from mmlake.errors import SettingsError, UnreadableItem
from mmlake.formats.columnar.process import CHILDREN
from mmlake.landing import Entry, Landing, LocalLanding
from mmlake.records import SourceRef
from tests.sources.source_builders import SETTINGS, brief, land, png, rows_of, sha, wav

lance = pytest.importorskip("lance")


def write(root: Path, columns: dict[str, list], *, name: str = "x.lance", mode: str = "create") -> Path:
    root.mkdir(parents=True, exist_ok=True)
    lance.write_dataset(pa.table(columns), str(root / name), mode=mode)
    return root


def three(first: int = 0) -> dict[str, list]:
    return {
        "id": [f"p{first + at}" for at in range(3)],
        "image": [png(first + at) for at in range(3)],
        "caption": [f"picture {first + at}" for at in range(3)],
    }


def data_file(root: Path, fragment: int) -> Path:
    found = lance.dataset(str(root / "x.lance")).get_fragment(fragment)
    return root / "x.lance" / "data" / found.data_files()[0].path


def test_rows_are_those_of_the_columns_with_version_and_address(tmp_path):
    rows = rows_of(write(tmp_path / "in", three()))
    images = [row for row in rows if row["modality"] == "image"]
    assert [(row["digest"], row["sample_text"]) for row in images] == [
        (sha(png(at)), f"picture {at}") for at in range(3)
    ]
    assert [row["sample_id"] for row in images] == ["x.lance/p0", "x.lance/p1", "x.lance/p2"]
    assert SourceRef.from_json(images[1]["source_ref"]).member == "version:1/row:2/image"
    assert json.loads(images[1]["metadata_json"])["lance"] == {
        "version": 1,
        "fragment": 0,
        "row_id": 1,
        "row_address": 1,
    }


def test_the_directory_is_one_shard_next_to_others(tmp_path):
    root = write(land(tmp_path / "in", {"a.txt": b"beside", "sub/b.png": png(9)}), three())
    assert [(shard.key, shard.format) for shard in sources.scan(root, settings=SETTINGS)] == [
        ("root", "folder"),
        ("sub", "folder"),
        ("x.lance", "lance"),
    ]


def test_an_unchanged_dataset_is_not_opened_again_and_an_append_is_a_new_revision(tmp_path, monkeypatch):
    root = write(tmp_path / "in", three())
    known = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    with monkeypatch.context() as patched:
        patched.setattr(CHILDREN, "take", None)
        assert sources.scan(root, settings=SETTINGS, known=known) == list(known.values())
    write(root, three(3), mode="append")
    assert sources.scan(root, settings=SETTINGS, known=known)[0].revision != known["x.lance"].revision


def test_deleted_rows_are_not_read_and_locators_still_lead_to_the_right_bytes(tmp_path):
    root = write(write(tmp_path / "in", three()), three(3), mode="append")
    lance.dataset(str(root / "x.lance")).delete("id = 'p1'")
    rows = [row for row in rows_of(root) if row["modality"] == "image"]
    assert [row["digest"] for row in rows] == [sha(png(at)) for at in (0, 2, 3, 4, 5)]


def test_a_pinned_version_is_read_and_named(tmp_path):
    root = write(write(tmp_path / "in", three()), three(3), mode="append")
    rows = rows_of(root, settings=sources.SourceSettings(lance_versions=("x.lance@1",)))
    assert len(rows) == 6
    assert {json.loads(row["metadata_json"])["lance"]["version"] for row in rows} == {1}


@pytest.mark.parametrize("pin", ["x.lance", "x.lance@", "x.lance@latest", "@3", "x.lance@0"])
def test_a_pin_that_names_no_version_is_a_settings_error(tmp_path, pin):
    with pytest.raises(SettingsError, match="lance_versions"):
        sources.scan(write(tmp_path / "in", three()), settings=sources.SourceSettings(lance_versions=(pin,)))


def test_a_locator_of_an_older_version_gives_its_bytes_after_the_dataset_grew(tmp_path):
    root = write(tmp_path / "in", three())
    ref = SourceRef(path="x.lance", member="version:1/row:2/image")
    write(root, three(3), mode="overwrite")
    assert sources.fetch(ref, landing=root) == png(1)


@pytest.mark.parametrize(
    "member", ["version:9/row:1/image", "version:1/row:4/image", "version:1/row:1/nothing", "row:1/image", None]
)
def test_a_locator_that_leads_nowhere_says_so(tmp_path, member):
    with pytest.raises(UnreadableItem):
        sources.fetch(SourceRef(path="x.lance", member=member), landing=write(tmp_path / "in", three()))


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "zeros"])
def test_a_broken_fragment_is_a_row_and_the_others_are_read(tmp_path, damage):
    root = write(write(tmp_path / "in", three()), three(3), mode="append")
    path = data_file(root, 0)
    data = path.read_bytes()
    path.unlink() if damage == "missing" else path.write_bytes(
        {"empty": b"", "cut": data[: len(data) // 2], "zeros": bytes(len(data))}[damage]
    )
    rows = rows_of(root)
    assert [row["error_code"] for row in rows if row["status"] != "ok"] == [1001]
    assert rows[0]["materialize_error"] == "fragment 0: rows 1 to 3 cannot be read"
    assert [row["digest"] for row in rows if row["modality"] == "image"] == [sha(png(at)) for at in (3, 4, 5)]


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:40], lambda data: bytes(len(data))])
def test_a_broken_manifest_is_one_row(tmp_path, damage):
    root = write(tmp_path / "in", three())
    for manifest in (root / "x.lance" / "_versions").glob("*.manifest"):
        manifest.write_bytes(damage(manifest.read_bytes()))
    (row,) = rows_of(root)
    assert row["error_code"] == 1001


def test_a_dataset_whose_manifests_are_gone_is_a_row(tmp_path):
    root = write(tmp_path / "in", three())
    for path in (root / "x.lance" / "_versions").iterdir():
        path.unlink()
    (row,) = rows_of(root)
    assert row["error_code"] == 1001


def test_a_data_file_that_is_a_link_out_of_the_landing_zone_is_refused(tmp_path):
    root = write(tmp_path / "in", three())
    path = data_file(root, 0)
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    assert [row["error_code"] for row in rows_of(root)] == [1007]


def test_a_stray_file_inside_a_dataset_is_a_row(tmp_path):
    root = write(tmp_path / "in", three())
    (root / "x.lance" / "notes.txt").write_text("mine")
    assert [row["error_code"] for row in rows_of(root)].count(1005) == 1


def test_a_directory_that_only_sounds_like_a_dataset_holds_loose_files(tmp_path):
    assert brief(rows_of(land(tmp_path / "in", {"freelance/a.txt": b"one", "my.lance/b.txt": b"two"}))) == [
        ("freelance/a.txt", "text", "document", None),
        ("my.lance/b.txt", "text", "document", None),
    ]


def test_a_dataset_without_a_column_for_us_is_a_row(tmp_path):
    (row,) = rows_of(write(tmp_path / "in", {"vector": [[1.0, 2.0]]}))
    assert row["error_code"] == 1003


def test_blob_columns_are_read_as_bytes(tmp_path):
    schema = pa.schema(
        [pa.field("audio", pa.large_binary(), metadata={"lance-encoding:blob": "true"}), pa.field("id", pa.string())]
    )
    (tmp_path / "in").mkdir()
    lance.write_dataset(
        pa.table({"audio": [wav(8), wav(16)], "id": ["a", "b"]}, schema=schema),
        str(tmp_path / "in" / "x.lance"),
        data_storage_version="2.1",
    )
    assert [row["digest"] for row in rows_of(tmp_path / "in")] == [sha(wav(8)), sha(wav(16))]


class Remote(Landing):
    """A landing zone whose files can only be opened, one by one."""

    def __init__(self, root: Path) -> None:
        self._inner, self.location, self.opened = LocalLanding(root), "test://remote", []

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        return self._inner.directories()

    def files(self, directory: str) -> list[Entry]:
        return self._inner.files(directory)

    def stat(self, path: str) -> Entry | None:
        return self._inner.stat(path)

    def open(self, path: str) -> IO[bytes]:
        self.opened.append(path)
        return self._inner.open(path)


def test_a_remote_dataset_gives_the_same_rows_and_its_manifests_alone_name_the_modalities(tmp_path):
    root = write(write(tmp_path / "in", three()), three(3), mode="append")
    lance.dataset(str(root / "x.lance")).delete("id = 'p1'")
    remote = Remote(root)
    (shard,) = sources.scan(remote, settings=SETTINGS)
    assert not [path for path in remote.opened if "/data/" in path]
    here, there = (list(sources.read(shard, landing=landing, settings=SETTINGS)) for landing in (root, remote))
    assert [(item.ref, item.sample_id, item.fault) for item in there] == [
        (item.ref, item.sample_id, item.fault) for item in here
    ]
    assert sources.fetch(here[-2].ref, landing=remote) == png(5)


def test_a_blob_at_an_address_is_not_fetched(tmp_path):
    """Lance would open any file of this machine that a dataset names, and its bytes would stand in a row."""
    import lance

    (tmp_path / "secret.txt").write_bytes(b"geheim")
    schema = pa.schema([pa.field("text", pa.string()), lance.blob.blob_field("image")])
    columns = {"text": ["words"], "image": lance.blob.blob_array([(tmp_path / "secret.txt").as_uri()])}
    root = tmp_path / "in"
    root.mkdir()
    lance.write_dataset(
        pa.table(columns, schema=schema),
        str(root / "x.lance"),
        data_storage_version="2.2",
        allow_external_blob_outside_bases=True,
    )
    rows = rows_of(root)
    assert [(row["text_content"], row["error_code"]) for row in rows] == [(None, 1007), ("words", None)]
    assert "geheim" not in str(rows) and "Z2VoZWlt" not in str(rows)
