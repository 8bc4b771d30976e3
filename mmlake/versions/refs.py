"""Branches and tags: small files that name a manifest, moved under a lock and recorded in an append-only log.

    refs/branches/<name>.json  {"id", "move"}     refs/tags/<name>.json  {"id"}     logs/<branch>.jsonl  one line per
                               move
A move appends its log line first and then replaces the ref file. A line whose move number is above the ref's was never
completed and is not shown; of two lines with one number the later counts. So the ref file alone decides, whenever the
writer dies.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from mmlake.errors import LakeLocked, RefExists, RefMissing, SettingsError
from mmlake.records import canonical_json
from mmlake.store import sync_directory, write_atomically

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_LIKE_AN_ID = re.compile(r"[0-9a-f]{7,}")
_MAX_NAME = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """One completed move of a branch."""

    move: int  # counted from 1
    before: str | None  # manifest id; None for the branch's creation
    after: str
    action: str  # branch, advance or rollback
    at: str  # ISO 8601, UTC


def utc_now() -> str:
    """The present time as ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def safe_name(name: str) -> str:
    """The name, when it is safe as a file name and cannot be taken for a manifest id. Raises SettingsError."""
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name) or _LIKE_AN_ID.fullmatch(name):
        raise SettingsError(
            f"ref name {name[:120]!r} is not usable; take up to {_MAX_NAME} letters, digits, '-', '_' and "
            "single dots, beginning with a letter or digit, no hexadecimal number"
        )
    return name


class Refs:
    """The refs under one directory. Callers hold the writer's lock for every method that changes something."""

    def __init__(self, root: Path, *, clock: Callable[[], str]) -> None:
        self.root = root
        self.clock = clock

    def get(self, kind: str, name: str) -> str | None:
        """The manifest id that the ref names, or None. kind: "branches" or "tags"."""
        value = self._read(kind, safe_name(name))
        return None if value is None else str(value["id"])

    def all(self, kind: str) -> dict[str, str]:
        """Every ref of the kind and its manifest id, sorted by name."""
        names = sorted(path.stem for path in (self.root / "refs" / kind).glob("*.json"))
        return {name: str(value["id"]) for name in names if (value := self._read(kind, name)) is not None}

    def create(self, kind: str, name: str, to: str) -> None:
        """Make the ref. The same ref to the same manifest may be made again. Raises RefExists."""
        other = "tags" if kind == "branches" else "branches"
        if self.get(other, name) is not None:
            raise RefExists(f"'{name}' is one of the {other}; choose another name")
        if (found := self.get(kind, name)) is not None:
            if found != to:
                remedy = "choose another name, tags never move"
                if kind != "tags":
                    remedy = "use advance or rollback to move it"
                raise RefExists(f"'{name}' of the {kind} already names {found[:12]}; {remedy}")
        elif kind == "tags":
            write_atomically(self._path(kind, name), canonical_json({"id": to}).encode())
        else:
            self._move(name, Move(move=1, before=None, after=to, action="branch", at=self.clock()))

    def move(self, name: str, to: str, *, action: str, expect: str | None) -> None:
        """Point the branch at another manifest. expect: the id that the caller believes it has. Raises RefMissing,
        LakeLocked."""
        value = self._read("branches", safe_name(name))
        if value is None:
            raise RefMissing(f"there is no branch '{name}'; make it first")
        if expect is not None and value["id"] != expect:
            raise LakeLocked(
                f"branch '{name}' is at {str(value['id'])[:12]}, not at {expect[:12]} as expected: somebody moved "
                "it; inspect the new version, then try again"
            )
        if value["id"] != to:
            self._move(
                name,
                Move(
                    move=int(str(value["move"])) + 1, before=str(value["id"]), after=to, action=action, at=self.clock()
                ),
            )

    def log(self, name: str) -> list[Move]:
        """The completed moves of the branch, newest first. Raises RefMissing."""
        value = self._read("branches", safe_name(name))
        if value is None:
            raise RefMissing(f"there is no branch '{name}'")
        moves: dict[int, Move] = {}
        for line in self._log_lines(name):
            try:
                move = Move(**json.loads(line))
            except (ValueError, TypeError):
                continue  # the torn line of a writer that died; its move was never completed
            moves[move.move] = move
        return [moves[number] for number in sorted(moves, reverse=True) if number <= int(str(value["move"]))]

    def _move(self, name: str, move: Move) -> None:
        path = self._log_path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            # the newline comes first: it ends a torn line, should there be one
            file.write(b"\n" + canonical_json(asdict(move)).encode())
            file.flush()
            os.fsync(file.fileno())
        sync_directory(path.parent)
        write_atomically(self._path("branches", name), canonical_json({"id": move.after, "move": move.move}).encode())

    def _read(self, kind: str, name: str) -> dict[str, object] | None:
        try:
            value = json.loads(self._path(kind, name).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            value = None
        if (
            not isinstance(value, dict)
            or not isinstance(value.get("id"), str)
            or not isinstance(value.get("move", 0), int)
        ):
            raise RefMissing(
                f"the file of '{name}' ({self._path(kind, name)}) is damaged; restore its id from "
                f"{self._log_path(name)}"
            )
        return value

    def _log_lines(self, name: str) -> list[bytes]:
        try:
            return self._log_path(name).read_bytes().splitlines()
        except FileNotFoundError:
            return []

    def _path(self, kind: str, name: str) -> Path:
        return self.root / "refs" / kind / f"{name}.json"

    def _log_path(self, name: str) -> Path:
        return self.root / "logs" / f"{name}.jsonl"
