"""The catalog and the dead letters are written a modality at a time: what one of them touches, and what it leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmlake import pipeline, publish
from mmlake.errors import ContractBroken, LakeLocked
from mmlake.lake import Lake
from mmlake.publish.catalog import FORMER, catalog_slot, forget_catalog
from mmlake.publish.catalog_rows import Share, joined_rows, shares
from mmlake.publish.dead_letters import dead_letters_slot
from mmlake.publish.selected import is_selected_from, selected_from
from mmlake.settings import Settings
from mmlake.tables import Slot
from mmlake.upkeep import check_tables
from tests import make


def _records(*years: object) -> bytes:
    rows = [
        {"id": f"d{at}", "text": make.prose(at + 50 * isinstance(year, str)), "year": year}
        for at, year in enumerate(years)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """Two texts with a number as a field, and two pictures with the same field, in a catalog."""
    pictures = {"0.png": make.picture(1), "0.json": b'{"year": 2001}', "1.png": make.picture(2)}
    make.land(tmp_path / "landing", {"t.jsonl": _records(1999, 2000), "p.tar": make.tar(pictures)})
    with Lake(tmp_path / "lake", landing=tmp_path / "landing") as made:
        _ingest(made)
        publish.update_catalog(made)
        publish.update_dead_letters(made)
        yield made


def _ingest(lake: Lake) -> None:
    pipeline.refresh(lake)
    pipeline.run_tables(lake)


def _land(lake: Lake, files: dict[str, bytes]) -> None:
    make.land(Path(lake.landing.root), files)
    _ingest(lake)


def _hashes(lake: Lake, modality: str) -> list[tuple[str, str]]:
    rows = lake.catalog.read(["digest", "row_hash"], where=f"modality = '{modality}'")
    return list(zip(rows["digest"].to_pylist(), rows["row_hash"].to_pylist(), strict=True))


def test_the_rows_of_all_modalities_are_listed_twice_however_many_modalities_there_are(lake: Lake, monkeypatch) -> None:
    """Once before they are written and once behind; rows that are absent are searched for where there may be any."""
    kind, listed, searched = type(lake.catalog), [], []
    read, remove = kind.read, kind.remove_absent
    monkeypatch.setattr(kind, "read", lambda self, *args, **given: listed.append(args) or read(self, *args, **given))
    monkeypatch.setattr(
        kind, "remove_absent", lambda self, *args, **given: searched.append(given) or remove(self, *args, **given)
    )
    _land(lake, {"new.jsonl": make.jsonl([make.prose(9)])})
    publish.update_catalog(lake)
    assert (len(listed), searched) == (2, [])
    _land(lake, {"t.jsonl": _records(1999)})
    stamps = publish.update_catalog(lake)
    assert (searched, stamps["text"].counts["removed"]) == ([{"modality": "text"}], 1)


def test_a_changed_modality_is_the_only_one_that_is_out_of_date_and_rewritten(lake: Lake, monkeypatch) -> None:
    before = {modality: lake.tables.stamp(catalog_slot(modality)) for modality in lake.parts.modalities}
    pictures = _hashes(lake, "image")
    _land(lake, {"new.jsonl": make.jsonl([make.prose(9)])})
    stale = [modality for modality in lake.parts.modalities if not publish.catalog_is_current(lake, modality)]
    assert stale == ["text"]
    written = []
    upsert = type(lake.catalog).upsert
    monkeypatch.setattr(
        type(lake.catalog),
        "upsert",
        lambda self, rows: written.extend(rows["modality"].to_pylist()) or upsert(self, rows),
    )
    stamps = publish.update_catalog(lake, "text")
    assert (stamps.keys(), set(written)) == ({"text"}, {"text"})
    assert publish.catalog_is_current(lake)
    assert (stamps["text"].num_rows, stamps["text"].counts["inserted"]) == (3, 1)
    assert {m: lake.tables.stamp(catalog_slot(m)) for m in ("image", "video", "audio")} == {
        m: before[m] for m in ("image", "video", "audio")
    }
    assert _hashes(lake, "image") == pictures
    assert publish.recheck_catalog(lake) == 5


def test_rows_that_a_modality_lost_go_and_those_of_the_others_stay(lake: Lake) -> None:
    _land(lake, {"t.jsonl": _records(1999)})
    assert publish.update_catalog(lake, "text")["text"].counts["removed"] == 1
    assert {modality: lake.catalog.count(f"modality = '{modality}'") for modality in ("text", "image")} == {
        "text": 1,
        "image": 2,
    }


def test_a_field_that_gets_another_type_is_written_anew_in_the_modalities_that_have_it(lake: Lake) -> None:
    assert lake.catalog.source_field_types()["year"] == "int64"
    _land(lake, {"new.jsonl": _records("about 1900")})
    stamps = publish.update_catalog(lake, "text")
    assert stamps.keys() == {"text", "image"}
    years = lake.catalog.read(["metadata"], where="modality = 'image'")["metadata"].to_pylist()
    assert sorted(str(row and row["year"]) for row in years) == ["2001", "None"]
    assert publish.catalog_is_current(lake) and publish.recheck_catalog(lake) == 5


def test_an_update_that_ended_between_the_type_and_the_other_rows_is_taken_up(lake: Lake, monkeypatch) -> None:
    _land(lake, {"new.jsonl": _records("about 1900")})
    monkeypatch.setattr(publish.catalog, "_retyped", lambda *given: [])
    publish.update_catalog(lake, "text")
    monkeypatch.undo()
    assert not publish.catalog_is_current(lake, "image")
    assert publish.update_catalog(lake, "text").keys() == {"text", "image"}
    assert publish.catalog_is_current(lake)


def test_what_two_modalities_hold_keeps_its_row_when_one_of_them_loses_it(lake: Lake, tmp_path: Path) -> None:
    """A digest has one row; the modality that still has the unit takes it over."""
    shared = lake.tables.read(Slot("items", "image", "p.tar"))["digest"].to_pylist()[0]
    catalog = lake.catalog
    row = catalog.read(catalog.columns(), where=f"digest = '{shared}'")
    place = row.column_names.index("modality")
    stolen = row.set_column(place, row.schema.field(place), [["text"]])
    catalog.upsert(stolen)  # as if a text of the same bytes had been there
    assert catalog.get(shared)["modality"] == "text"
    publish.update_catalog(lake, "text")
    assert catalog.get(shared)["modality"] == "image"
    assert publish.recheck_catalog(lake, "image") == 2


def test_a_lost_row_breaks_the_contract_of_its_modality_alone(lake: Lake) -> None:
    kept = [digest for digest, _ in _hashes(lake, "image")][1:]
    lake.catalog.remove_absent(kept, modality="image")
    with pytest.raises(ContractBroken, match="1 were lost"):
        publish.recheck_catalog(lake, "image")
    assert publish.recheck_catalog(lake, "text") == 2


def test_a_stamp_of_the_catalog_stands_for_rows_that_are_elsewhere(lake: Lake) -> None:
    assert list(check_tables(lake, [catalog_slot("text"), dead_letters_slot("text")])) == []


def test_dead_letters_are_of_one_modality_and_keep_their_history(lake: Lake) -> None:
    _land(lake, {"bad.tar": make.tar({"0.png": make.picture(1)[:40]})})
    stale = [modality for modality in lake.parts.modalities if not publish.dead_letters_are_current(lake, modality)]
    assert stale == ["image"]
    assert publish.update_dead_letters(lake, "image").keys() == {"image"}
    (letter,) = publish.read_dead_letters(lake).to_pylist()
    assert letter["modality"] == "image"
    assert (publish.recheck_dead_letters(lake, "image"), publish.recheck_dead_letters(lake, "text")) == (1, 0)


def test_a_lake_of_an_earlier_release_goes_on_from_its_one_stamp_and_its_one_table(lake: Lake) -> None:
    """Its versions recorded the catalog as a whole, its dead letters were one table."""
    _land(lake, {"bad.tar": make.tar({"0.png": make.picture(1)[:40]})})
    publish.update_samples(lake)
    publish.update_catalog(lake)
    publish.update_dead_letters(lake)
    rows = publish.read_dead_letters(lake)
    rows = rows.set_column(
        rows.column_names.index("first_failed_at"), "first_failed_at", [["2020-01-01T00:00:00+00:00"]]
    )
    schema = publish.dead_letters.schemas.DEAD_LETTERS
    lake.tables.write(Slot("dead_letters", "all"), schema, rows, code_version="2", settings_digest="", inputs={})
    lake.tables.mark(FORMER, lake.tables.stamp(catalog_slot("text")))
    for modality in lake.parts.modalities:
        lake.tables.remove(catalog_slot(modality))
        lake.tables.remove(dead_letters_slot(modality))
    assert not publish.catalog_is_current(lake) and not publish.dead_letters_are_current(lake)
    version_of_old = {str(FORMER): lake.catalog.data_version(), "all/samples": selected_from(lake)["all/samples"]}
    publish.update_catalog(lake)
    publish.update_dead_letters(lake)
    assert publish.read_dead_letters(lake).to_pylist()[0]["first_failed_at"] == "2020-01-01T00:00:00+00:00"
    assert lake.tables.stamp(FORMER) is None and lake.tables.stamp(Slot("dead_letters", "all")) is None
    assert is_selected_from(lake, version_of_old)


def test_a_lake_larger_than_the_memory_is_joined_in_shares_with_the_same_rows(tmp_path: Path) -> None:
    """Spans of recordings among them, which belong to the share of their item."""
    texts = {"texts.jsonl": make.jsonl([make.prose(at) for at in range(30)])}
    sounds = {f"sounds/{at}.wav": make.sound(at, seconds=13) for at in range(3)}
    zone = make.land(tmp_path / "landing", texts | sounds)
    cut = {"units": {"whole_up_to_s": 6.0, "min_span_s": 2.0, "target_span_s": 4.0, "max_span_s": 8.0}}
    with Lake(tmp_path / "lake", landing=zone, settings=Settings.of(cut)) as lake:
        _ingest(lake)
        whole = publish.update_catalog(lake)
        assert all(shares(lake, modality) == [Share()] for modality in lake.parts.modalities)
    little = Settings.of(cut | {"engine": {"memory_gib": 1e-4}})
    with Lake(tmp_path / "lake", landing=zone, settings=little) as lake:
        assert all(len(shares(lake, modality)) > 3 for modality in ("text", "audio"))
        forget_catalog(lake)
        made = publish.update_catalog(lake)
        assert [made[one].data_version for one in made] == [whole[one].data_version for one in made]
        assert made["text"].counts["inserted"] == 30 and made["audio"].counts["inserted"] == whole["audio"].num_rows > 3
        joined = [digest for share in shares(lake, "audio") for digest in joined_digests(lake, share)]
        assert len(joined) == len(set(joined)) == whole["audio"].num_rows


def joined_digests(lake: Lake, share: Share) -> list[str]:
    """The units of the share, each of which its filter lets through."""
    rows = joined_rows(lake, "audio", share, None)
    assert share.of(rows, "parent_digest").num_rows == rows.num_rows
    return [str(digest) for digest in rows["digest"].to_pylist()]


def test_no_garbage_is_collected_while_rows_are_written(lake: Lake, monkeypatch) -> None:
    """Files that a writer has not put in their place yet are garbage to it, by a clock that is far ahead at once."""
    refused, read = [], type(lake.catalog).read

    def collected(self, *given, **wanted):
        with pytest.raises(LakeLocked), lake.collecting_blobs():
            pass
        refused.append(True)
        return read(self, *given, **wanted)

    monkeypatch.setattr(type(lake.catalog), "read", collected)
    publish.update_catalog(lake)
    assert refused
