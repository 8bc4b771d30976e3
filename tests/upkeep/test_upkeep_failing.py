"""Dead letters and trying again: just the failed rows, through the same assets, with their history."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mmlake import pipeline, sources
from mmlake.errors import SettingsError, TableCorrupt
from mmlake.publish import dead_letters_are_current, read_dead_letters, update_dead_letters
from mmlake.retries import Retries
from mmlake.steps import ROW_STEPS, is_current, run_step
from mmlake.tables import Slot
from mmlake.upkeep import failed_rows, repair_blobs, request_retries
from tests.stamp_clock import Clock


def test_every_unreadable_row_is_a_letter_and_nothing_else(done) -> None:
    lake = done.lake
    unreadable = {
        row["item_id"]: row
        for modality in ("text", "image", "video", "audio")
        for row in lake.tables.concat("items", modality).to_pylist()
        if row["status"] == "unreadable"
    }
    dead_letters = read_dead_letters(lake).to_pylist()
    assert {row["key"] for row in dead_letters if row["stage"] == "sources"} == set(unreadable) != set()
    assert all(
        row["reason"] == unreadable[row["key"]]["materialize_error"]
        for row in dead_letters
        if row["stage"] == "sources"
    )
    assert {(row["attempts"], row["first_failed_at"] == row["last_failed_at"]) for row in dead_letters} == {(1, True)}
    assert dead_letters_are_current(lake)


def test_no_table_is_read_whose_stamp_counts_no_failure(own, monkeypatch) -> None:
    read, parts = [], type(own.lake.tables).parts
    monkeypatch.setattr(
        type(own.lake.tables), "parts", lambda self, slot, **columns: read.append(slot) or parts(self, slot, **columns)
    )
    update_dead_letters(own.lake)
    assert read and all(own.lake.tables.stamp(slot).counts["unreadable"] for slot in read)


def test_a_failure_is_reported_once_although_later_stages_see_it_too(done) -> None:
    digests = [row["digest"] for row in read_dead_letters(done.lake).to_pylist() if row["digest"]]
    assert len(digests) == len(set(digests))


def test_failed_rows_are_chosen_by_code_and_shard(done) -> None:
    lake = done.lake
    every = failed_rows(lake)
    assert failed_rows(lake, codes=[1002]) == [row for row in every if row["error_code"] == 1002] != []
    sound = next(shard for shard in lake.registry.known() if shard not in {row["shard"] for row in every})
    assert failed_rows(lake, shards=[sound]) == []
    assert failed_rows(lake, transient=True) == [row for row in every if row["is_transient"]]


@pytest.mark.parametrize(
    ("wanted", "match"),
    [({"codes": [77]}, "no error has the code 77; `mmlake errors`"), ({"shards": ["no/such"]}, "no shard 'no/such'")],
)
def test_a_mistyped_code_or_shard_is_no_lake_without_failures(done, wanted, match: str) -> None:
    with pytest.raises(SettingsError, match=match):
        failed_rows(done.lake, **wanted)


def test_codes_of_plugins_may_be_asked_for(done) -> None:
    assert failed_rows(done.lake, codes=[9101]) == []


def test_a_retry_reads_the_failed_row_and_no_other(own, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = own.lake
    letter = failed_rows(lake, codes=[1002])[0]
    slot = Slot("items", letter["modality"], letter["shard"])
    before = lake.tables.read(slot)
    assert request_retries(lake, [letter]) == 1
    assert not is_current(ROW_STEPS["items"], lake, slot.modality, slot.shard)
    read = []
    original = sources.ingestion._store
    monkeypatch.setattr(
        sources.ingestion, "_store", lambda item, *rest: read.append(item.ordinal) or original(item, *rest)
    )
    made = run_step(ROW_STEPS["items"], lake, slot.modality, slot.shard)
    assert read == [int(letter["key"].rpartition("#")[2])]
    assert lake.tables.read(slot).equals(before)
    assert made.stamp.data_version == lake.tables.stamp(slot).data_version
    assert is_current(ROW_STEPS["items"], lake, slot.modality, slot.shard)


def test_a_second_failure_is_counted_and_the_first_is_remembered(own, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table does not change, so nothing after it is made again; the dead letters do, and report every try, also
    of several since they were last made."""
    clock = Clock(monkeypatch)
    lake, tried = own.lake, list[str]()
    letter = failed_rows(lake, codes=[1002])[0]
    slot = Slot("items", letter["modality"], letter["shard"])
    before = lake.tables.stamp(slot).data_version
    for num_updates in (1, 2, 1):
        request_retries(lake, [letter])
        run_step(ROW_STEPS["items"], lake, slot.modality, slot.shard)
        tried.append(clock.now)
        assert not dead_letters_are_current(lake)
        if len(tried) != 1:  # the first is reported together with the second
            for _ in range(num_updates):
                update_dead_letters(lake)
            again = {
                row["letter"]: (row["attempts"], row["first_failed_at"], row["last_failed_at"])
                for row in read_dead_letters(lake).to_pylist()
            }
            assert again[letter["letter"]] == (1 + len(tried), letter["first_failed_at"], tried[-1])
            assert dead_letters_are_current(lake)
    assert lake.tables.stamp(slot).data_version == before


def test_a_table_that_is_all_new_has_tried_every_row_once_more(own, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    lake = own.lake
    letter = failed_rows(lake, codes=[1002])[0]
    slot = Slot("items", letter["modality"], letter["shard"])
    request_retries(lake, [letter])
    run_step(ROW_STEPS["items"], lake, slot.modality, slot.shard)
    run_step(ROW_STEPS["items"], lake, slot.modality, slot.shard, force=True)
    made = clock.now
    request_retries(lake, [letter])
    run_step(ROW_STEPS["items"], lake, slot.modality, slot.shard)
    found = {
        row["key"]: (row["attempts"], row["last_failed_at"])
        for row in failed_rows(lake, shards=[slot.shard])
        if row["modality"] == slot.modality
    }
    assert found.pop(letter["key"]) == (4, "2099-01-01T00:03:00+00:00")
    assert set(found.values()) <= {(2, made)}


def test_the_record_of_tries_stays_short(tmp_path) -> None:
    retries, slot = Retries(tmp_path), Slot("items", "text", "a")
    for at in range(300):
        retries.fulfilled(slot, ["a#000000"], at=f"{at:04d}")
    assert [at for at, _ in retries.tries(slot)] == [f"{at:04d}" for at in range(200, 300)]


def test_a_record_of_an_older_release_is_read(tmp_path) -> None:
    retries, slot = Retries(tmp_path), Slot("items", "text", "a")
    (tmp_path / "items" / "text").mkdir(parents=True)
    (tmp_path / "items" / "text" / "a.retried.json").write_text('{"at": "2026", "keys": ["a#000000"]}')
    assert list(retries.tries(slot)) == [("2026", frozenset({"a#000000"}))]
    (tmp_path / "items" / "text" / "a.retried.json").write_text("{")
    assert retries.tries(slot) == []


def test_rows_that_were_not_asked_for_are_not_counted(own) -> None:
    """A retry stamps the whole table anew, and the other failed rows of it were not tried."""
    lake = own.lake
    other = failed_rows(lake, codes=[1002])[0]
    slot, later = Slot("items", other["modality"], other["shard"]), "2099-01-01T00:00:00+00:00"
    lake.tables.mark(slot, replace(lake.tables.stamp(slot), written_at=later))
    lake.retries.fulfilled(slot, ["another#000000"], at=later)
    update_dead_letters(lake)
    again = next(row for row in read_dead_letters(lake).to_pylist() if row["letter"] == other["letter"])
    assert (again["attempts"], again["last_failed_at"]) == (1, other["last_failed_at"])


def test_a_track_whose_blob_came_back_is_read_on_retry(own) -> None:
    """The blob was lost while its track was made; once it is there again, a retry makes that track alone."""
    lake = own.lake
    shard = lake.registry.keys("audio")[0]
    digest = lake.tables.read(Slot("items", "audio", shard)).column("digest")[0].as_py()
    data, extension = lake.store.read(digest), lake.store.extension(digest)
    whole = lake.tables.read(Slot("tracks", "audio", shard))
    lake.store.remove(digest)
    run_step(ROW_STEPS["tracks"], lake, "audio", shard, force=True)
    dead_letters = [row for row in failed_rows(lake) if row["key"] == digest]
    assert [row["stage"] for row in dead_letters] == ["preprocess"]
    lake.store.put(data, extension=extension)
    request_retries(lake, dead_letters)
    pipeline.run_tables(lake, modalities=["audio"])
    assert lake.tables.read(Slot("tracks", "audio", shard)).equals(whole)
    assert [row for row in failed_rows(lake) if row["key"] == digest] == []


def test_a_request_outlives_a_stopped_run(own, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = own.lake
    letter = failed_rows(lake, codes=[1002])[0]
    request_retries(lake, [letter])
    slot = Slot("items", letter["modality"], letter["shard"])
    monkeypatch.setattr(type(lake.tables), "write", lambda *args, **kwargs: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run_step(ROW_STEPS["items"], lake, slot.modality, slot.shard)
    assert lake.retries.pending(slot) == {letter["key"]}
    assert list(lake.retries.slots()) == [slot]


def test_a_damaged_request_is_named(own) -> None:
    slot = Slot("items", "text", "text/a.jsonl")
    own.lake.retries.request(slot, ["text/a.jsonl#000000"])
    next(own.lake.retries.root.rglob("*.retry.json")).write_text("{")
    with pytest.raises(TableCorrupt, match="run `mmlake retry` again"):
        own.lake.retries.pending(slot)


def test_a_lost_keyframe_is_made_again_from_its_film(own) -> None:
    lake = own.lake
    shard = lake.registry.keys("video")[0]
    track = lake.tables.read(Slot("tracks", "video", shard)).to_pylist()[0]
    frame = track["keyframes"][0]["digest"]
    lake.store.remove(frame)
    repairs = list(repair_blobs(lake, [frame]))
    assert [(repair.unit, repair.outcome) for repair in repairs] == [(frame, "requested")]
    pipeline.run_tables(lake, modalities=["video"])
    assert lake.store.verify(frame) is None


def test_a_damaged_blob_without_a_source_is_set_aside(own) -> None:
    lake = own.lake
    digest = lake.store.put(b"x" * 1000)
    path = next(lake.store.root.rglob(f"{digest}.*"))
    path.write_bytes(b"y" * 1000)
    assert [repair.outcome for repair in repair_blobs(lake, [digest])] == ["lost"]
    assert digest not in lake.store
    assert lake.store.read(lake.store.put(b"x" * 1000)) == b"x" * 1000
