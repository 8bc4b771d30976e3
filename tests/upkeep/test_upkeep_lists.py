"""Trying the failed addresses of a list again, and fetching a lost blob of a list anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mmlake import pipeline
from mmlake.lake import Lake
from mmlake.publish import update_dead_letters
from mmlake.settings import Settings
from mmlake.steps import ROW_STEPS, run_step
from mmlake.upkeep import failed_rows, repair_blobs, request_retries
from tests import make
from tests.sources.source_builders import png
from tests.sources.web.site import QUICK, Site, running


@dataclass
class Listed:
    lake: Lake
    site: Site

    def ingest(self) -> dict[str, str]:
        """URL -> status, once items of every modality are up to date."""
        shard = self.lake.registry.known()["web.urls"]
        found: dict[str, str] = {}
        for modality in shard.modalities:
            run_step(ROW_STEPS["items"], self.lake, modality, shard.key)
            run_step(ROW_STEPS["tracks"], self.lake, modality, shard.key)
            for row in self.lake.tables.concat("items", modality, columns=["source_ref", "status"]).to_pylist():
                assert row["source_ref"] not in found, "an address has a row in two tables"
                found[row["source_ref"]] = row["status"]
        return dict(zip(("good", "busy", "gone"), (found[ref] for ref in sorted(found)), strict=True))


@pytest.fixture
def listed(tmp_path: Path) -> Iterator[Listed]:
    with running() as site:
        lines = [
            site.serve("/good.png", png(1)),
            site.does("/busy", lambda visit: visit.reply(status=503)),
            site.url("/gone"),
        ]
        landing = make.land(tmp_path / "in", {"web.urls": "".join(f"{line}\n" for line in lines).encode()})
        lake = Lake(tmp_path / "lake", landing=landing, settings=Settings.of({"web": dict(QUICK)}))
        pipeline.refresh(lake)
        yield Listed(lake, site)


def test_only_what_was_asked_again_was_tried_again(listed: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry asks every address of the list that failed with the same code; the table is stamped anew with the rows
    of the others in it."""
    list_at = Path(listed.lake.landing.location) / "web.urls"
    list_at.write_text(f"{list_at.read_text()}{listed.site.does('/late', lambda visit: visit.reply(status=503))}\n")
    pipeline.refresh(listed.lake)
    shard = listed.lake.registry.get("web.urls")
    first = [run_step(ROW_STEPS["items"], listed.lake, modality, shard.key) for modality in shard.modalities]
    assert len(first) == 4
    dead_letters = {row["key"]: row for row in failed_rows(listed.lake)}
    busy, gone, late = sorted(dead_letters)
    request_retries(listed.lake, [dead_letters[busy]])
    before = dict(listed.site.asked)
    monkeypatch.setattr(
        "mmlake.tables.Stopwatch.fields",
        lambda self, **spent: {"seconds": 0.0, "cpu_seconds": 0.0, "written_at": "2099-01-01T00:00:00+00:00"},
    )
    for modality in shard.modalities:
        run_step(ROW_STEPS["items"], listed.lake, modality, shard.key)
    assert {path for path, count in listed.site.asked.items() if count != before[path]} == {"/busy", "/late"}
    update_dead_letters(listed.lake)
    found = {row["key"]: (row["attempts"], row["last_failed_at"]) for row in failed_rows(listed.lake)}
    assert found == {
        busy: (2, "2099-01-01T00:00:00+00:00"),
        late: (2, "2099-01-01T00:00:00+00:00"),
        gone: (1, dead_letters[gone]["last_failed_at"]),
    }


def test_an_address_that_was_busy_is_read_on_retry_whatever_it_holds_and_the_others_are_not_asked(
    listed: Listed,
) -> None:
    assert listed.ingest() == {"good": "ok", "busy": "unreadable", "gone": "unreadable"}
    dead_letters = failed_rows(listed.lake, transient=True)
    assert [row["error_code"] for row in dead_letters] == [1105]
    listed.site.serve("/busy", png(2))
    before = dict(listed.site.asked)
    request_retries(listed.lake, dead_letters)
    assert listed.ingest() == {"good": "ok", "busy": "ok", "gone": "unreadable"}
    assert {path: count - before[path] for path, count in listed.site.asked.items() if count != before[path]} == {
        "/busy": 1
    }
    assert failed_rows(listed.lake, transient=True) == []


def test_nothing_is_asked_again_without_a_request(listed: Listed) -> None:
    listed.ingest()
    before = dict(listed.site.asked)
    listed.site.serve("/busy", png(2))
    assert listed.ingest()["busy"] == "unreadable"
    assert listed.site.asked == before


def test_a_lost_blob_of_a_list_is_fetched_again(listed: Listed) -> None:
    listed.ingest()
    lake = listed.lake
    digest = lake.tables.concat("items", "image", columns=["digest"]).column("digest")[0].as_py()
    lake.store.remove(digest)
    assert [repair.outcome for repair in repair_blobs(lake, [digest])] == ["requested"]
    listed.ingest()
    assert lake.store.verify(digest) is None
    assert listed.site.asked["/good.png"] == 2
