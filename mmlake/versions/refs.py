"""Branches and tags: small files that name a manifest, moved under a lock and recorded in an append-only log.

    refs/branches/<name>.json  {"id", "move"}     refs/tags/<name>.json  {"id"}     logs/<branch>.jsonl  one line per
                               move         logs/_made.jsonl  one line per ref,
                                                    written once its file is there, and before it is deleted
A move appends its log line first and then replaces the ref file. A line whose move number is above the ref's was never
completed and is not shown; of two lines with one number the later counts. So the ref file alone decides, whenever the
writer dies. Files and lines carry their checksums: a ref that is damaged, or is gone while its log is there, is an
error, and never another answer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from mmlake import checked_json
from mmlake.durable import make_directory, put_in_place
from mmlake.errors import BlobCorrupt, LakeLocked, RefExists, RefMissing, SettingsError
from mmlake.store import sync_directory, write_atomically
from mmlake.versions.made_refs import MadeRefs

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_LIKE_AN_ID = re.compile(r"[0-9a-f]{7,}")
_MAX_NAME = 100
_MADE = "_made"  # no name of a ref begins so
RESTORED = "restored"  # the action of the line that a log was begun with anew, its moves before being lost
_REMEDY = "run `mmlake fsck --kind refs --repair`"


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """One completed move of a branch."""

    move: int  # counted from 1
    before: str | None  # manifest id; None for the branch's creation
    after: str
    action: str  # branch, advance, rollback or restored
    at: str  # ISO 8601, UTC


def _is_of(line: bytes, kind: str, names: Collection[str]) -> bool:
    with suppress(ValueError, KeyError):
        body = checked_json.loads(line)
        return bool(body["kind"] == kind and body["name"] in names)
    return False


def _is_sound(line: bytes) -> bool:
    try:
        return set(checked_json.loads(line)) - {"deleted"} == {"kind", "name", "id", "at"}
    except ValueError:
        return False


def _is_whole(moves: list[Move]) -> bool:
    """Whether no move is missing between the first, which made or restored the branch, and the newest."""
    numbers = [move.move for move in moves]
    begins = bool(moves) and (numbers[-1] == 1 or moves[-1].action == RESTORED)
    return begins and numbers == list(range(numbers[0], numbers[-1] - 1, -1))


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
        self._made = MadeRefs(self._log_path(_MADE))

    def get(self, kind: str, name: str) -> str | None:
        """The manifest id that the ref names, or None. kind: "branches" or "tags"."""
        value = self._read(kind, safe_name(name))
        return None if value is None else str(value["id"])

    def all(self, kind: str) -> dict[str, str]:
        """Every ref of the kind and its manifest id, sorted by name."""
        found = {name: self._read(kind, name) for name in self.names(kind)}
        return {name: str(value["id"]) for name, value in found.items() if value is not None}

    def create(self, kind: str, name: str, to: str) -> None:
        """Make the ref. The same ref to the same manifest may be made again. Raises RefExists."""
        other = "tags" if kind == "branches" else "branches"
        if self.get(other, name) is not None:
            raise RefExists(f"'{name}' is one of the {other}; choose another name")
        if (found := self.get(kind, name)) is not None:
            if found != to:
                remedy = "choose another name, tags never move"
                if kind != "tags":
                    remedy = "choose another name, or move it back with `mmlake rollback`"
                raise RefExists(f"'{name}' of the {kind} already names {found[:12]}; {remedy}")
        elif kind == "tags":
            write_atomically(self._path(kind, name), checked_json.dumps({"id": to}))
        else:
            self._put_log_aside(name)  # of one that was deleted, or of a writer that died before its first move
            self._move(name, Move(move=1, before=None, after=to, action="branch", at=self.clock()))
        if not self._made.has(kind, name):
            self._append(_MADE, {"kind": kind, "name": name, "id": to, "at": self.clock()})

    def move(self, name: str, to: str, *, action: str, expect: str | None) -> None:
        """Point the branch at another manifest. expect: the id that the caller believes it has. Raises RefMissing,
        LakeLocked."""
        value = self._read("branches", safe_name(name))
        if value is None:
            raise self._no_branch(name)
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

    def delete(self, kind: str, name: str) -> None:
        """Let there be no such ref any more; a line of the log of what was made keeps what it named and when it went.
        The log of a branch is put aside. A writer that dies half way leaves the ref as it was, for `fsck --kind refs
        --repair` to list again or for another call to delete, or gone."""
        if self._made.has(kind, name):
            line: dict[str, object] = {"kind": kind, "name": name, "id": self.get(kind, name), "at": self.clock()}
            self._append(_MADE, line | {"deleted": True})
        self._path(kind, name).unlink()
        sync_directory(self._path(kind, name).parent)
        if kind == "branches":
            self._put_log_aside(name)

    def _put_log_aside(self, name: str) -> None:
        """Move the log of a branch that is no more to where nothing reads it."""
        log, aside, count = self._log_path(name), self.root / "old" / "logs", 1
        if log.exists():
            make_directory(aside)
            while (place := aside / f"{name}-{count:03d}.jsonl").exists():
                count += 1
            put_in_place(log, place)

    def _no_branch(self, name: str) -> RefMissing:
        known = ", ".join(self.names("branches")) or "none yet"
        return RefMissing(f"there is no branch '{name}'; branches: {known}; `mmlake branch` starts one at a version")

    def log(self, name: str) -> list[Move]:
        """The completed moves of the branch, newest first. Raises RefMissing."""
        value = self._read("branches", safe_name(name))
        if value is None:
            raise self._no_branch(name)
        done = [move for move in self.logged(name) if move.move <= int(str(value["move"]))]
        if not _is_whole(done) or done[0].move != value["move"] or done[0].after != value["id"]:
            raise BlobCorrupt(
                f"the log {self._log_path(name)} lacks moves of branch '{name}', or does not end where the branch is; "
                f"{_REMEDY}"
            )
        return done

    def logged(self, name: str) -> list[Move]:
        """The moves that the log of the branch holds, completed or not, newest first."""
        moves: dict[int, Move] = {}
        for line in self._log_lines(name):
            try:
                move = Move(**checked_json.loads(line))
            except (ValueError, TypeError):
                continue  # the torn line of a writer that died; its move was never completed
            moves[move.move] = move
        return [moves[number] for number in sorted(moves, reverse=True)]

    def made(self, kind: str) -> dict[str, str]:
        """Ref of the kind -> the manifest id that it was made with, of every one since that is logged."""
        return self._made.of(kind)

    def unlogged(self) -> list[str]:
        """A sentence for each ref that its log should have and has not. Files of earlier releases have no checksum, and
        their making was not logged."""
        path = self._log_path(_MADE)
        lines = [line for line in self._log_lines(_MADE) if line.endswith(b"}")]  # others are torn
        problems = [f"a line of {path} is damaged; {_REMEDY}" for line in lines if not _is_sound(line)]
        for kind in ("branches", "tags"):
            known = self.made(kind)
            for file in sorted((self.root / "refs" / kind).glob("*.json")):
                if file.stem not in known and checked_json.has_checksum(file.read_bytes()):
                    problems.append(f"{path} does not say that '{file.stem}' of the {kind} was made; {_REMEDY}")
        return problems

    def relog(self) -> None:
        """Write the log of what was made anew, from what it still says and the files that are there."""
        lines = []
        for kind in ("branches", "tags"):
            held = {name: value for name in self.names(kind) if (value := self._sound(kind, name)) is not None}
            made = self.made(kind)
            for name in sorted(made | held):
                body = {"kind": kind, "name": name, "id": made.get(name) or held[name], "at": self.clock()}
                lines.append(b"\n" + checked_json.dumps(body))
        write_atomically(self._log_path(_MADE), b"".join(lines))

    def _sound(self, kind: str, name: str) -> str | None:
        try:
            return self.get(kind, name)
        except BlobCorrupt:
            return None

    def forget(self, *, tags: Collection[str], branches: Collection[str]) -> None:
        """Let these refs be as if never made."""
        lines = self._log_lines(_MADE)
        kept = [line for line in lines if not (_is_of(line, "tags", tags) or _is_of(line, "branches", branches))]
        if kept != lines:
            write_atomically(self._log_path(_MADE), b"\n".join(kept))

    def names(self, kind: str) -> list[str]:
        """Every ref of the kind, damaged or not, and every one that a log says there was; sorted."""
        held = {path.stem for path in (self.root / "refs" / kind).glob("*.json")}
        return sorted(held | set(self.made(kind)))

    def restore(self, kind: str, name: str, id_: str, *, move: int = 0) -> None:
        """Put the ref file back. move: the number of the branch's last move."""
        body: dict[str, object] = {"id": id_} | ({"move": move} if kind == "branches" else {})
        write_atomically(self._path(kind, name), checked_json.dumps(body))

    def restart_log(self, name: str) -> None:
        """Begin the log of the branch anew where it is: the moves before are lost."""
        value = self._read("branches", safe_name(name))
        assert value is not None  # the caller has read it
        known = [move for move in self.logged(name) if move.move < int(str(value["move"]))]
        last = Move(
            move=int(str(value["move"])),
            before=known[0].after if known else None,
            after=str(value["id"]),
            action=RESTORED,
            at=self.clock(),
        )
        write_atomically(self._log_path(name), b"\n" + checked_json.dumps(asdict(last)))

    def _move(self, name: str, move: Move) -> None:
        self._append(name, asdict(move))
        write_atomically(self._path("branches", name), checked_json.dumps({"id": move.after, "move": move.move}))

    def _append(self, name: str, line: dict[str, object]) -> None:
        path = self._log_path(name)
        make_directory(path.parent)
        with path.open("ab") as file:
            # the newline comes first: it ends a torn line, should there be one
            file.write(b"\n" + checked_json.dumps(line))
            file.flush()
            os.fsync(file.fileno())
        sync_directory(path.parent)

    def _read(self, kind: str, name: str) -> dict[str, object] | None:
        path = self._path(kind, name)
        value: dict[str, object] = {}
        try:
            value = checked_json.loads(path.read_bytes())
        except FileNotFoundError:
            if self._made.has(kind, name):
                raise BlobCorrupt(f"the file of '{name}' ({path}) is gone; {_REMEDY}") from None
            return None
        except ValueError:
            pass
        if not isinstance(value.get("id"), str) or not isinstance(value.get("move", 0), int):
            raise BlobCorrupt(f"the file of '{name}' ({path}) is damaged; {_REMEDY}")
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
