"""A catalog whose writer was killed or lost power: read whole before it is written again, made anew where it is not
sound, and kept where it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mmlake.catalog import Catalog
from mmlake.catalog.files import TableFiles
from mmlake.catalog.indexes import index_text
from tests.catalog.test_catalog_table import simple

DAMAGES: dict[str, Callable[[Path], object]] = {
    "an empty manifest": lambda root: min((root / "catalog.lance" / "_versions").glob("*.manifest")).write_bytes(b""),
    "an older manifest of zeros": lambda root: max(
        (root / "catalog.lance" / "_versions").glob("*.manifest")
    ).write_bytes(bytes(500)),
    "an empty data file": lambda root: next((root / "catalog.lance" / "data").iterdir()).write_bytes(b""),
    "a data file that is gone": lambda root: next((root / "catalog.lance" / "data").iterdir()).unlink(),
    "no versions": lambda root: [path.unlink() for path in (root / "catalog.lance" / "_versions").iterdir()],
}


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A catalog of two rows whose writer died before it wrote down its files."""
    catalog = Catalog(tmp_path, modalities=("text", "image", "video", "audio"))
    with monkeypatch.context() as patch:
        patch.setattr(TableFiles, "finish", lambda self: None)
        catalog.upsert(simple("x", "y"))
    return catalog


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_cannot_be_read_is_made_anew(catalog: Catalog, tmp_path: Path, damage: Callable[[Path], object]) -> None:
    version = catalog.data_version()
    damage(tmp_path)
    assert catalog.damage()
    catalog.drop()
    assert catalog.count() == 0
    catalog.upsert(simple("x", "y"))
    assert catalog.data_version() == version
    assert catalog.damage(anew=True) == []


def test_sound_rows_stay_and_are_found_by_indexes_that_were_made_anew(catalog: Catalog, tmp_path: Path) -> None:
    version = catalog.data_version()
    for path in (tmp_path / "catalog.lance" / "_indices").rglob("*.lance"):
        path.write_bytes(b"")
    assert catalog.damage() == []
    catalog.settle()
    assert catalog.data_version() == version
    assert catalog.search(catalog.read(["text"])["text"][0].as_py().split()[0]).num_rows


def lost(path: Path, rng: random.Random) -> None:
    """A write that the disk lost: the bytes of another one stand in its place."""
    data = path.read_bytes()
    start = rng.randrange(len(data) - 1)
    path.write_bytes(data[:start] + data[rng.randrange(start + 1, len(data)) :])


def test_a_write_that_the_disk_lost_is_an_error_and_is_not_written_down(tmp_path: Path) -> None:
    """Lance did not notice that a part of an index was never written; every search ended in an error of its own."""
    whole = Catalog(tmp_path / "whole", modalities=("text", "image", "video", "audio"))
    whole.upsert(simple("x", "y"))
    table, rng = tmp_path / "whole" / "catalog.lance", random.Random(13)
    files = TableFiles(table, tmp_path / "whole" / "files.json")
    for path in [path for ending in ("lance", "manifest") for path in sorted(table.rglob(f"*.{ending}"))] * 3:
        before = path.read_bytes()
        lost(path, rng)
        (tmp_path / "whole" / "files.json").unlink(missing_ok=True)
        with pytest.raises(OSError, match="lost a part"):
            files.finish()
        path.write_bytes(before)
    files.finish()
    assert whole.damage(anew=True) == []


def test_an_index_that_lost_a_write_is_made_anew_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog(tmp_path, modalities=("text", "image", "video", "audio"))

    def index(table: object) -> None:
        index_text(table)
        path = next((tmp_path / "catalog.lance" / "_indices").rglob("part_0_tokens.lance"))
        path.write_bytes(path.read_bytes()[-320:])

    with monkeypatch.context() as patch:
        patch.setattr("mmlake.catalog.catalog.index_text", index)
        with pytest.raises(OSError, match="lost a part"):
            catalog.upsert(simple("x", "y"))
    assert catalog.damage() == []
    catalog.settle()
    assert catalog.search(catalog.read(["text"])["text"][0].as_py().split()[0]).num_rows


@pytest.mark.parametrize("error", [OSError(5, "disk"), RuntimeError("lance error: Input/output error (os error 5)")])
def test_a_machine_that_fails_does_not_cost_the_catalog(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(self: Catalog) -> list[str]:
        raise error

    monkeypatch.setattr(Catalog, "verify", fails)
    with pytest.raises(type(error)):
        catalog.damage()
    assert catalog.count() == 2
