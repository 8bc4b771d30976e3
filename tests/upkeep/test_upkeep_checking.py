"""A lake of which a table is damaged: everything else is still inspected."""

from __future__ import annotations

import errno

import pytest

from mmlake.errors import RemoteUnavailable, TableCorrupt
from mmlake.publish.ledger import lake_slots
from mmlake.tables import Slot
from mmlake.upkeep import (
    check_blobs,
    check_tables,
    checked_and_repaired,
    collect,
    named,
    named_blobs,
    repair_blobs,
)


def _damaged(lake) -> Slot:
    slot = next(iter(lake.tables.stamps("items", "image")))
    path = lake.tables.path(slot)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return slot


def test_blobs_are_checked_and_repaired_next_to_a_damaged_table(own) -> None:
    lake, slot = own.lake, _damaged(own.lake)
    lost = next(
        digest
        for digest in lake.tables.concat("items", "text", columns=["digest"]).column("digest").to_pylist()
        if digest
    )
    lake.store.remove(lost)
    assert list(check_blobs(lake, named_blobs(lake))) == [(lost, "missing")]
    assert [one.outcome for one in repair_blobs(lake, [lost])] == ["repaired"]
    assert [str(slot) in problem for problem in check_tables(lake, [slot])] == [True]


def test_what_a_run_has_written_since_it_was_read_is_not_repaired(own, monkeypatch) -> None:
    """A run next to `fsck --repair` lost the tables that it was writing when they were read."""
    lake = own.lake
    path = lake.tables.path(next(iter(lake.tables.stamps("items", "image"))))
    sound, real = path.read_bytes(), type(lake).locked
    _damaged(lake)

    def locked(self, name: str):
        path.write_bytes(sound)  # the run ends, and lets the lock go
        return real(self, name)

    monkeypatch.setattr(type(lake), "locked", locked)
    kind = next(one for one in named(("tables",)))
    found = checked_and_repaired(kind, lake, kind.units(lake), repair=True)
    assert (found.left, found.repaired) == ([], [])
    assert path.read_bytes() == sound


@pytest.mark.parametrize("error", [RemoteUnavailable("503"), OSError(errno.EIO, "the disk")], ids=["remote", "disk"])
def test_a_blob_is_not_given_up_because_its_place_does_not_answer(own, monkeypatch, error) -> None:
    lake = own.lake
    lost = lake.tables.concat("items", "text", columns=["digest"]).column("digest").drop_null()[0].as_py()
    lake.store.remove(lost)
    with monkeypatch.context() as patch:
        patch.setattr("mmlake.sources.fetch", lambda *given, **named: (_ for _ in ()).throw(error))
        with pytest.raises(type(error)):
            list(repair_blobs(lake, [lost]))
    assert [one.outcome for one in repair_blobs(lake, [lost])] == ["repaired"]


def test_nothing_is_collected_while_a_table_that_names_blobs_is_damaged(own) -> None:
    lake, before = own.lake, set(own.lake.store.digests())
    _damaged(lake)
    with pytest.raises(TableCorrupt):
        collect(lake, now_s=0.0, grace_s=0.0)
    assert set(lake.store.digests()) == before


def test_a_damaged_stamp_is_one_problem_among_the_others(own) -> None:
    lake, damaged = own.lake, _damaged(own.lake)
    stamps = [
        lake.tables.path(Slot(*where)).with_suffix(".stamp.json")
        for where in (("measures", "text", "text/a.jsonl"), ("catalog", "text"))
    ]
    assert all(path.exists() for path in stamps)
    for path in stamps:
        path.write_text('{"data_version": ')
    problems = list(check_tables(lake, lake_slots(lake)))
    assert len(problems) == 3
    assert {any(str(place) in problem for problem in problems) for place in (damaged, *stamps)} == {True}
