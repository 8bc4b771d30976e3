"""Files are recognised anew where settings say that other ones are tables of records: none is left between a table
that it has become and the directory that it was a document of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mmlake.lake import Lake
from mmlake.landing import LocalLanding
from mmlake.pipeline import refresh
from mmlake.settings import Settings
from mmlake.sources import SourceSettings
from mmlake.steps import ROW_STEPS, run_step
from mmlake.tables import Slot
from tests import make

TABLE = "Rating,Remark\n" + "".join(f"{at},A stone lies at ford {at}.\n" for at in range(4))


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    return make.land(tmp_path / "in", {"notes.txt": b"A boat is at the pier.", "remarks.csv": TABLE.encode()})


def texts(root: Path, landing: Path, settings: Settings) -> dict[str, list[str]]:
    """The texts of each shard after a scan."""
    lake = Lake(root, landing=landing, settings=settings)
    refresh(lake)
    found = {}
    for key in lake.registry.keys("text"):
        run_step(ROW_STEPS["items"], lake, "text", key)
        found[key] = [row["text_content"] for row in lake.tables.read(Slot("items", "text", key)).to_pylist()]
    return found


def test_a_table_that_settings_make_one_is_read_as_records(tmp_path: Path, landing: Path) -> None:
    named = Settings(sources=SourceSettings(text_fields=("remark",)))
    root, expected = tmp_path / "lake", texts(tmp_path / "fresh", landing, named)
    (before,) = texts(root, landing, Settings()).values()
    assert len(before) == 2 and any("Rating" in one for one in before)
    assert texts(root, landing, named) == expected
    assert expected["remarks.csv"] == [f"A stone lies at ford {at}." for at in range(4)]
    assert list(texts(root, landing, Settings()).values()) == [before]  # and back


def test_files_are_opened_again_where_other_code_reads_them_and_then_no_more(tmp_path, landing, monkeypatch) -> None:
    settings, opened = Settings(sources=SourceSettings(text_fields=("remark",))), set[str]()

    class Noted(LocalLanding):
        def head(self, path: str, size_bytes: int) -> bytes:
            opened.add(path)
            return super().head(path, size_bytes)

    def files_opened() -> set[str]:
        opened.clear()
        refresh(Lake(tmp_path / "lake", landing=Noted(landing), settings=settings))
        return set(opened)

    assert (files_opened(), files_opened()) == ({"notes.txt", "remarks.csv"}, set())
    later = replace(ROW_STEPS["items"], code_version="later")
    monkeypatch.setattr("mmlake.pipeline.ROW_STEPS", ROW_STEPS | {"items": later})
    assert (files_opened(), files_opened()) == ({"notes.txt", "remarks.csv"}, set())


def test_a_scan_that_may_open_few_files_leaves_many_to_one_that_may_open_all(tmp_path, landing, caplog) -> None:
    """A sensor's tick would end at its time limit, and begin anew at the next."""
    make.land(landing, {"more.jsonl": make.jsonl([make.prose(1)])})
    before, named = Settings(), Settings(sources=SourceSettings(text_fields=("remark", "text")))
    root, expected = tmp_path / "lake", texts(tmp_path / "fresh", landing, named)
    texts(root, landing, before)
    listing = refresh(Lake(root, landing=landing, settings=named), at_most=1)
    assert (listing.unchanged, listing.gone, "mmlake run" in caplog.text) == (2, (), True)
    assert texts(root, landing, named) == expected
    assert refresh(Lake(root, landing=landing, settings=named), at_most=1).unchanged == 3
