"""A store of many branches and tags: what one of them costs does not grow with the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mmlake import checked_json
from mmlake.errors import BlobCorrupt
from mmlake.versions.made_refs import MadeRefs
from mmlake.versions.refs import Refs

ID = "ab" * 32


def refs_of(root: Path) -> Refs:
    return Refs(root, clock=lambda: "2026-11-30T00:00:00+00:00")


def count_parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Where each JSON text that is parsed from now on is put."""
    parsed: list[bytes] = []
    loads = checked_json.loads
    monkeypatch.setattr(checked_json, "loads", lambda data: parsed.append(data) or loads(data))
    return parsed


def test_making_a_tag_and_asking_for_it_read_what_is_new_in_the_log(tmp_path, monkeypatch) -> None:
    refs, parsed = refs_of(tmp_path), count_parsed(monkeypatch)
    for at in range(40):
        refs.create("tags", f"t{at}", ID)
        assert refs.get("branches", f"t{at}") is None and refs.get("tags", f"t{at}") == ID
    assert len(parsed) < 5 * 40


def test_a_log_that_others_append_to_is_read_on(tmp_path) -> None:
    ours, theirs = refs_of(tmp_path), refs_of(tmp_path)
    for at in range(3):
        theirs.create("tags", f"t{at}", ID)
        assert ours.made("tags") == {f"t{one}": ID for one in range(at + 1)}


def test_a_torn_line_that_is_ended_by_the_next_one_is_passed_over(tmp_path) -> None:
    refs = refs_of(tmp_path)
    refs.create("tags", "first", ID)
    log = tmp_path / "logs" / "_made.jsonl"
    with log.open("ab") as file:
        file.write(b'\n{"kind":"tags","na')
    assert list(refs.made("tags")) == ["first"]
    refs.create("tags", "second", ID)
    assert list(refs.made("tags")) == ["first", "second"]


def test_a_log_that_is_written_anew_is_read_anew(tmp_path) -> None:
    refs = refs_of(tmp_path)
    for name in ("one", "two"):
        refs.create("tags", name, ID)
    assert list(refs.made("tags")) == ["one", "two"]
    refs.forget(tags=["one"], branches=[])
    assert list(refs.made("tags")) == ["two"]
    (tmp_path / "logs" / "_made.jsonl").unlink()
    assert refs.made("tags") == {}


def test_a_longer_log_of_the_same_inode_that_does_not_go_on_where_the_other_ended_is_read_anew(tmp_path) -> None:
    path = tmp_path / "made.jsonl"

    def write(*names: str) -> None:
        lines = [checked_json.dumps({"kind": "tags", "name": name, "id": ID, "at": ""}) for name in names]
        path.write_bytes(b"".join(b"\n" + line for line in lines))
        os.utime(path, ns=(len(names), len(names)))

    made = MadeRefs(path)
    write("a", "b")
    assert made.has("tags", "a") and not made.has("branches", "a")
    write("c", "d", "e")
    assert list(made.of("tags")) == ["c", "d", "e"]


def test_a_tag_whose_file_is_gone_is_still_an_error(tmp_path) -> None:
    refs = refs_of(tmp_path)
    refs.create("tags", "t", ID)
    (tmp_path / "refs" / "tags" / "t.json").unlink()
    with pytest.raises(BlobCorrupt):
        refs.get("tags", "t")
