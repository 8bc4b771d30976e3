"""A shard that grew, shrank or changed in places: only what is new is made, and the tables are those of a lake that saw
nothing but the last state."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mmlake import embed, pipeline, publish, steps, upkeep
from mmlake.border import InProcess
from mmlake.compute import Executor
from mmlake.lake import Lake
from mmlake.landing import LocalLanding
from mmlake.records import digest_of
from mmlake.settings import Settings
from mmlake.steps import run_step
from mmlake.steps import running as step_module
from mmlake.steps.step import Job, Step
from mmlake.tables import Slot
from mmlake.upkeep.references import marks_of, referenced
from mmlake_assets.page import line, row_metadata
from tests import make
from tests.stamp_clock import Clock

MODALITIES = ("text", "image", "video", "audio")
CUE = b"1\n00:00:00,000 --> 00:00:00,500\nA boat on the lake.\n"
FIRST = {
    "text/a.jsonl": make.jsonl([make.prose(1), "Too short.", make.prose(2)]),
    "image/a.tar": make.tar({"0.png": make.picture(1), "1.jpg": make.picture(2, kind="JPEG"), "2.png": b"\x89PNG"}),
    "video/a.tar": make.tar({"0.mp4": make.film(1, seconds=0.75)}),
    "audio/a.tar": make.tar({"0.wav": make.sound(1, seconds=0.75), "1.wav": make.sound(2, seconds=0.75)}),
}
# what stands before, between and behind the others is new, one is gone, one that failed is still there, and what comes
# with a recording says something else
SECOND = {
    "text/a.jsonl": make.jsonl([make.prose(3), make.prose(1), make.prose(4), make.prose(2)]),
    "image/a.tar": make.tar({"0.png": make.picture(1), "00.png": make.picture(3), "2.png": b"\x89PNG"}),
    "video/a.tar": make.tar({"0.mp4": make.film(1, seconds=0.75), "1.mp4": make.film(2, seconds=0.75)}),
    "audio/a.tar": make.tar({"0.wav": make.sound(1, seconds=0.75), "1.wav": make.sound(2, seconds=0.75), "1.srt": CUE}),
}
PICTURES = [*map(make.picture, range(1, 4)), b"\x89PNG"]
SHARDS_MOVED = (
    ("text", "text/b.jsonl"), ("image", "image/b.tar"), ("video", "video/b.tar"), ("audio", "audio/b.tar"),
    ("image", "pictures/old"),
)  # fmt: skip
BY_ROWS = ("tracks", "units", "measures", "fingerprints", "embeddings")
NUM_NEW = {"text": 2, "image": 1, "video": 1, "audio": 1}  # items, those that say something else included


def opened(base: Path, files: dict[str, bytes], **sections: object) -> Lake:
    """The lake in the folder, once its landing zone holds just these files and all its tables are made."""
    shutil.rmtree(base / "landing", ignore_errors=True)
    lake = Lake(
        base / "lake",
        landing=make.land(base / "landing", files),
        settings=Settings.of(sections),
        executor=Executor("cpu"),
        runner=InProcess(),
    )
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    publish.update_samples(lake)
    return lake


def versions(lake: Lake) -> dict[str, str]:
    """Slot -> data version, of each table of a shard; of vectors of texts, whose last digit is float noise of what was
    encoded with them, without it."""
    slots = [
        Slot(step.name, modality, shard)
        for modality in MODALITIES
        for step in steps.row_steps(lake.parts.modality(modality))
        for shard in lake.tables.shards(step.name, modality)
    ]
    found = {str(slot): lake.tables.stamp(slot).data_version for slot in slots}  # type: ignore[union-attr]
    for slot in slots:
        if (slot.table, slot.modality) == ("embeddings", "text"):
            rows = lake.tables.read(slot).to_pylist()
            found[str(slot)] = repr([row | {"vector": np.round(row["vector"], 3).tolist()} for row in rows])
    return found


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int | None]:
    """Step of a modality -> the number of keys that were made again; None where its whole table was."""
    seen: dict[str, int | None] = {}
    original = step_module._changed

    def watched(step: Step, job: Job, *given: Any) -> Any:
        part = original(step, job, *given)
        seen[f"{job.modality}/{step.name}"] = num = None if part is None else len(part.before.keys)
        seen[f"{job.modality}/{step.name}[{job.shard}]"] = num
        return part

    monkeypatch.setattr(step_module, "_changed", watched)
    return seen


def test_tables_of_shards_that_changed_are_those_of_a_lake_that_saw_only_this(tmp_path, parts) -> None:
    opened(tmp_path / "grown", FIRST)
    grown = opened(tmp_path / "grown", SECOND)
    made = {f"{modality}/{step}": parts[f"{modality}/{step}"] for modality in MODALITIES for step in BY_ROWS}
    assert versions(grown) == versions(opened(tmp_path / "new", SECOND))
    assert made == {name: NUM_NEW[name.split("/")[0]] for name in made}


def test_what_is_taken_away_makes_no_row_again(tmp_path, parts) -> None:
    opened(tmp_path / "shrunk", {"text/a.jsonl": SECOND["text/a.jsonl"]})
    fewer = {"text/a.jsonl": make.jsonl([make.prose(3), make.prose(2)])}
    shrunk = opened(tmp_path / "shrunk", fewer)
    assert {parts[f"text/{step}"] for step in BY_ROWS} == {0}
    assert versions(shrunk) == versions(opened(tmp_path / "new", fewer))


@given(st.lists(st.lists(st.sampled_from(PICTURES), max_size=4), min_size=2, max_size=3))
@settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_any_number_of_changes_ends_at_the_tables_of_the_last_state(states) -> None:
    """Pictures that come, go, move and repeat, one that does not decode among them."""
    landed = [{"a.tar": make.tar({f"{at}.png": data for at, data in enumerate(state)})} for state in states]
    with tempfile.TemporaryDirectory() as folder:
        for files in landed:
            grown = opened(Path(folder) / "grown", files)
        assert versions(grown) == versions(opened(Path(folder) / "new", landed[-1]))


@pytest.mark.parametrize("harm", ["gone", "of another table", "damaged"])
def test_without_what_was_kept_the_whole_table_is_made(harm, tmp_path, parts) -> None:
    lake = opened(tmp_path, {"text/a.jsonl": make.jsonl([make.prose(1), make.prose(2)])})
    held = {path: path.read_bytes() for path in (lake.root / "kept").rglob("*.rows")}
    for (path, data), other in zip(held.items(), [*list(held.values())[1:], next(iter(held.values()))], strict=True):
        if harm == "gone":
            path.unlink()
        elif harm == "damaged":
            path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
        else:
            path.write_bytes(other)
    lake = opened(tmp_path, {"text/a.jsonl": make.jsonl([make.prose(1), make.prose(2), make.prose(3)])})
    assert {parts[f"text/{step}"] for step in BY_ROWS} == {None}
    assert lake.tables.read(Slot("embeddings", "text", "text/a.jsonl")).num_rows == 3


def test_a_damaged_table_is_replaced_by_a_whole_one(tmp_path, parts) -> None:
    lake = opened(tmp_path, {"text/a.jsonl": make.jsonl([make.prose(1), make.prose(2)])})
    path = lake.tables.path(Slot("measures", "text", "text/a.jsonl"))
    path.write_bytes(path.read_bytes()[:-1])
    three = {"text/a.jsonl": make.jsonl([make.prose(1), make.prose(2), make.prose(3)])}
    grown = opened(tmp_path, three)
    assert parts["text/measures"] is None and parts["text/fingerprints"] == 1
    assert versions(grown) == versions(opened(tmp_path / "new", three))


def test_other_settings_make_the_whole_table(tmp_path, parts) -> None:
    lake = opened(tmp_path, {"text/a.jsonl": make.jsonl([make.prose(1), make.prose(2)])})
    three = {"text/a.jsonl": make.jsonl([make.prose(1), make.prose(2), make.prose(3)])}
    lake = opened(tmp_path, three, embed={"text_window_tokens": 64})
    assert parts["text/tracks"] == 1 and parts["text/embeddings"] is None
    assert lake.tables.read(Slot("embeddings", "text", "text/a.jsonl")).num_rows == 3


def test_vectors_of_other_weights_never_stand_next_to_those_of_the_ones_before(tmp_path, monkeypatch) -> None:
    opened(tmp_path, {"text/a.jsonl": make.jsonl([make.prose(1), make.prose(2)])})
    original = embed.embed
    monkeypatch.setattr(embed, "embed", lambda *given, **named: revised(original(*given, **named)))
    lake = opened(tmp_path, {"text/a.jsonl": make.jsonl([make.prose(1), make.prose(2), make.prose(3)])})
    found = lake.tables.read(Slot("embeddings", "text", "text/a.jsonl"))
    assert found["revision"].to_pylist() == ["another"] * 3


def revised(table: pa.Table) -> pa.Table:
    """The vectors, as other weights under the same settings say that they made them."""
    at = table.schema.get_field_index("revision")
    return table.set_column(at, table.schema.field(at), pa.array(["another"] * table.num_rows))


def test_a_row_that_failed_before_the_shard_grew_counts_one_attempt(tmp_path, monkeypatch) -> None:
    """It was not tried again; a request tries it."""
    Clock(monkeypatch)
    lake = opened(tmp_path, {"image/a.tar": FIRST["image/a.tar"]})
    publish.update_dead_letters(lake)
    lake = opened(tmp_path, {"image/a.tar": SECOND["image/a.tar"]})
    publish.update_dead_letters(lake)
    (letter,) = [row for row in publish.read_dead_letters(lake, "image").to_pylist() if row["stage"] == "preprocess"]
    assert letter["attempts"] == 1
    lake.retries.request(Slot("tracks", "image", "image/a.tar"), [letter["key"]])
    pipeline.run_tables(lake)
    publish.update_dead_letters(lake)
    assert [row["attempts"] for row in publish.read_dead_letters(lake, "image").to_pylist()] == [2]


def test_a_shard_that_went_before_what_came_of_it_was_settled_is_put_aside_once_that_is_there(tmp_path) -> None:
    """And so is one that an earlier release left next to what came of it."""
    few = {f"photos/{at}.png": make.picture(at) for at in range(1, 5)}
    lake = opened(tmp_path, few, sources={"max_loose_files": 4})
    make.land(tmp_path / "landing", {"photos/9.png": make.picture(9)})
    lake = Lake(lake.root, landing=tmp_path / "landing", settings=lake.settings, runner=InProcess())
    assert pipeline.refresh(lake, settled_before_s=1.0).gone == ("photos",) and lake.registry.known() == {}
    assert lake.tables.shards("items", "image") == ["photos"]  # nothing else has its rows yet
    pipeline.refresh(lake)
    assert lake.tables.shards("items", "image") == [] and len(lake.registry.known()) > 1
    pipeline.run_tables(lake)
    assert lake.tables.concat("items", "image").num_rows == 5


def test_a_run_says_how_many_rows_it_took_over(tmp_path) -> None:
    opened(tmp_path, {"text/a.jsonl": make.jsonl([make.prose(1), make.prose(2)])})
    make.land(tmp_path / "landing", {"text/a.jsonl": make.jsonl([make.prose(1), make.prose(2), make.prose(3)])})
    lake = Lake(tmp_path / "lake", landing=tmp_path / "landing", executor=Executor("cpu"), runner=InProcess())
    pipeline.refresh(lake)
    made = [run_step(steps.ROW_STEPS[name], lake, "text", "text/a.jsonl") for name in ("items", "tracks")]
    assert [one.num_taken_over for one in made] == [0, 2]
    assert row_metadata(made[1], num_rows=None)["rows_taken_over"] == 2
    assert "3 rows (ok 3), 2 of them taken over in " in line(made[1]) and line(made[1]).endswith(" s in all")
    lake.retries.request(
        Slot("tracks", "text", "text/a.jsonl"), lake.tables.concat("tracks", "text")["digest"][:1].to_pylist()
    )
    assert run_step(steps.ROW_STEPS["tracks"], lake, "text", "text/a.jsonl").num_taken_over == 2


def test_rows_that_are_taken_over_keep_what_they_cost(tmp_path, monkeypatch) -> None:
    """Else the estimate of making a version again would fall with each file that is added."""
    lake = opened(tmp_path, {"text/a.jsonl": make.jsonl([make.prose(1), make.prose(2)])})
    slot = Slot("tracks", "text", "text/a.jsonl")
    lake.tables.mark(slot, replace(lake.tables.stamp(slot), seconds=100.0, cpu_seconds=80.0))
    lake = opened(tmp_path, {"text/a.jsonl": make.jsonl([make.prose(1), make.prose(2), make.prose(3)])})
    stamp = lake.tables.stamp(slot)
    assert 100 < stamp.seconds < 110 and 80 < stamp.cpu_seconds < 90


def test_what_was_kept_is_checked_and_goes_with_its_table(tmp_path) -> None:
    lake = opened(tmp_path, {"text/a.tar": make.tar({"0.png": make.picture(1), "0.txt": make.prose(1).encode()})})
    path = lake.root / "kept/text/tracks/text/a.tar.rows"
    assert path.exists() and kept_problems(lake) == []
    path.write_bytes(path.read_bytes()[:-1])
    assert kept_problems(lake) == [("text/tracks/text/a.tar.rows", f"{path} is not what was written")]
    opened(tmp_path, {"text/a.tar": make.tar({"0.png": make.picture(1)})})
    assert not path.exists()


def kept_problems(lake: Lake) -> list[tuple[str, str]]:
    """What upkeep finds in what is kept to go on from."""
    (kind,) = (kind for kind in upkeep.KINDS if kind.name == "kept")
    return [problem for unit in kind.units(lake) for problem in kind.check(lake, unit)]


def test_large_files_that_did_not_change_are_not_read_again(tmp_path, monkeypatch) -> None:
    """Until now a film laid next to others had all of them read, and those of a bucket downloaded."""
    large = {f"sounds/{at}.wav": make.sound(at, seconds=2) for at in (1, 2, 3)}
    lake = opened(tmp_path, {name: large[name] for name in ("sounds/1.wav", "sounds/2.wav")})
    before = lake.tables.read(Slot("items", "audio", "sounds"))
    opened_files: list[str] = []
    original = LocalLanding.open

    def watched(self: LocalLanding, path: str, *given: Any, **named: Any) -> Any:
        opened_files.append(path)
        return original(self, path, *given, **named)

    monkeypatch.setattr(LocalLanding, "open", watched)
    make.land(tmp_path / "landing", {"sounds/3.wav": large["sounds/3.wav"], "sounds/2.wav": large["sounds/1.wav"]})
    lake = Lake(tmp_path / "lake", landing=tmp_path / "landing", executor=Executor("cpu"), runner=InProcess())
    pipeline.refresh(lake)
    opened_files.clear()
    run_step(steps.ROW_STEPS["items"], lake, "audio", "sounds")
    assert sorted(set(opened_files)) == ["sounds/2.wav", "sounds/3.wav"]
    after = lake.tables.read(Slot("items", "audio", "sounds"))
    assert after["digest"].to_pylist() == [digest_of(large[f"sounds/{at}.wav"]) for at in (1, 1, 3)]
    assert after["size_bytes"][0] == before["size_bytes"][0] == pa.scalar(len(large["sounds/1.wav"]))


def test_a_file_whose_blob_is_lost_is_read_again(tmp_path) -> None:
    data = make.sound(1, seconds=2)
    lake = opened(tmp_path, {"sounds/1.wav": data})
    for path in (lake.root / "blobs").rglob("*"):
        if path.is_file():
            path.unlink()
    lake = Lake(lake.root, landing=tmp_path / "landing", executor=Executor("cpu"), runner=InProcess())
    run_step(steps.ROW_STEPS["items"], lake, "audio", "sounds", force=True)
    assert lake.store.read(digest_of(data)) == data


def test_a_shard_under_another_name_makes_no_row_again(tmp_path, parts) -> None:
    """A directory that was renamed, and files that were."""
    photos = {f"photos/{at}.png": picture for at, picture in enumerate(PICTURES)}
    opened(tmp_path / "grown", FIRST | photos)
    parts.clear()
    moved = {name.replace("/a.", "/b."): data for name, data in FIRST.items()}
    moved |= {name.replace("photos/", "pictures/old/"): data for name, data in photos.items()}
    grown = opened(tmp_path / "grown", moved)
    made = {f"{modality}/{table}[{shard}]" for modality, shard in SHARDS_MOVED for table in BY_ROWS}
    assert {name: parts.get(name, "none") for name in made} == dict.fromkeys(made, 0)
    fresh = versions(opened(tmp_path / "new", moved))
    assert {slot: version for slot, version in versions(grown).items() if slot in fresh} == fresh


def test_a_directory_that_is_divided_keeps_its_rows_and_holds_no_file_twice(tmp_path, parts) -> None:
    """Until now the shard that it was stayed next to those that it became: each file was its own exact duplicate."""
    few = {f"photos/{at}.png": make.picture(at) for at in range(1, 5)}
    most = few | {f"photos/{at}.png": make.picture(at) for at in range(5, 8)}
    before = opened(tmp_path / "grown", few, sources={"max_loose_files": 4})
    before.tables.path(Slot("verdicts", "image", "photos")).unlink()  # of a machine that lost a file
    grown = opened(tmp_path / "grown", most, sources={"max_loose_files": 4})
    assert all("~" in shard for shard in grown.tables.shards("items", "image"))
    assert sum(parts[f"image/tracks[{shard}]"] or 0 for shard in grown.tables.shards("tracks", "image")) <= 3
    assert versions(grown) == versions(opened(tmp_path / "new", most, sources={"max_loose_files": 4}))
    assert steps.aside_tables(grown).shards("tracks", "image") == ["photos"] and kept_problems(grown) == []
    assert set(referenced(grown)) >= set(marks_of(grown.tables.concat("items", "image")["digest"].to_pylist()))
    pipeline.refresh(grown)  # all that came of it has its tables
    assert steps.aside_tables(grown).shards("tracks", "image") == []
    assert not (grown.root / "kept/image/tracks/photos.rows").exists()
    parts.clear()
    again = opened(tmp_path / "grown", few, sources={"max_loose_files": 4})
    assert again.tables.shards("items", "image") == ["photos"] and parts["image/embeddings[photos]"] == 0
    assert versions(again) == versions(opened(tmp_path / "one", few, sources={"max_loose_files": 4}))


def test_directories_that_come_to_be_gathered_and_apart_again_keep_their_rows(tmp_path, parts) -> None:
    few = {f"photos/{at}/p.png": make.picture(at) for at in range(1, 4)}
    most = few | {"photos/4/p.png": make.picture(4), "photos/4/q.png": b"\x89PNG"}
    opened(tmp_path / "grown", few, sources={"gather_above": 3})
    parts.clear()
    grown = opened(tmp_path / "grown", most, sources={"gather_above": 3})
    assert grown.tables.shards("items", "image") == ["photos~~"]
    # what is new, and what fails: its measures are tried again
    assert {name: num for name, num in parts.items() if "[" in name} == {
        f"image/{step}[photos~~]": 2 for step in BY_ROWS
    }
    assert versions(grown) == versions(opened(tmp_path / "new", most, sources={"gather_above": 3}))
    assert steps.aside_tables(grown).shards("tracks", "image") == ["photos/1", "photos/2", "photos/3"]
    pipeline.refresh(grown)
    assert steps.aside_tables(grown).shards("tracks", "image") == [] and kept_problems(grown) == []
    parts.clear()
    again = opened(tmp_path / "grown", few, sources={"gather_above": 3})
    assert again.tables.shards("items", "image") == ["photos/1", "photos/2", "photos/3"]
    assert {num for name, num in parts.items() if "[" in name} == {0}
    assert versions(again) == versions(opened(tmp_path / "one", few, sources={"gather_above": 3}))


def test_gathered_directories_that_are_divided_otherwise_keep_their_rows(tmp_path, parts) -> None:
    few = {f"photos/{at}/p.png": make.picture(at) for at in range(1, 5)}
    most = few | {f"photos/{at}/p.png": make.picture(at) for at in range(5, 7)}
    gather = {"gather_above": 3, "max_loose_files": 4}
    opened(tmp_path / "grown", few, sources=gather)
    parts.clear()
    grown = opened(tmp_path / "grown", most, sources=gather)
    shards = grown.tables.shards("items", "image")
    assert len(shards) > 1 and all(shard.startswith("photos~~") for shard in shards)
    assert sum(parts[f"image/tracks[{shard}]"] or 0 for shard in shards) <= 2
    assert versions(grown) == versions(opened(tmp_path / "new", most, sources=gather))
    assert grown.tables.concat("items", "image").num_rows == 6
