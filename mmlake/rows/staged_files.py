"""The files of one write: aside until all of them are whole, then given their names one after the other, then listed in
`_provenance.json`.

A write that fails, or is killed, leaves nothing under a final name; the list is written last, so what it names is
complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from mmlake.errors import SettingsError
from mmlake.locks import exclusive_lock
from mmlake.records import canonical_json, digest_of
from mmlake.store import sync_directory, write_atomically

MODES: Final = ("error", "overwrite", "ignore", "append")
PROVENANCE: Final = "_provenance.json"
_LOCK = ".writer.lock"
_UNFINISHED = ".part"


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenFile:
    """One file of the output."""

    name: str
    digest: str  # SHA-256 of the file
    size_bytes: int
    num_rows: int
    num_samples: int
    sources: tuple[str, ...]  # the files that fed it


class Staged:
    """One write to a directory, which nobody else writes to meanwhile. Raises SettingsError where the mode forbids
    it, LakeLocked where another writes."""

    def __init__(self, directory: Path, *, mode: str, suffix: str) -> None:
        if mode not in MODES:
            raise SettingsError(f"mode={mode!r} is not one of {list(MODES)}; correct the setting")
        if directory.exists() and not directory.is_dir():
            raise SettingsError(f"{directory} is a file; name a directory for the rows")
        self.directory, self._mode, self._suffix = directory, mode, suffix
        self._asides: list[Path] = []
        self._done: list[tuple[Path, WrittenFile]] = []
        self._counts: dict[str, int] = {}  # base name -> files of it

    def __enter__(self) -> Staged:
        self._is_new = not self.directory.exists()
        with ExitStack() as stack:
            stack.enter_context(exclusive_lock(self.directory / _LOCK, what=f"the output directory {self.directory}"))
            stack.callback(self._clear)
            for left in self.directory.glob(f"*{_UNFINISHED}"):  # nobody else writes here now: a killed writer left it
                left.unlink()
            self._before = listed_files(self.directory)
            self._check_mode()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def _check_mode(self) -> None:
        found = sorted(path.name for path in self.directory.glob(f"*{self._suffix}"))
        self.is_ignored = self._mode == "ignore" and bool(found or self._before)
        if self._mode == "error" and (found or self._before):
            raise SettingsError(
                f"{self.directory} holds rows already ({len(found)} {self._suffix} files); name another "
                "directory, or the mode overwrite or append (`--overwrite`, `--append`)"
            )
        if self._mode == "overwrite" and (foreign := sorted(set(found) - set(self._before))):
            raise SettingsError(
                f"{self.directory} holds {foreign[0]}, which no {PROVENANCE} lists: it is not ours to overwrite; "
                "move it away, or name another directory"
            )

    def aside(self) -> Path:
        """Where the next file is to be written."""
        path = self.directory / f"{secrets.token_hex(8)}{_UNFINISHED}"
        self._asides.append(path)
        return path

    def finish(self, aside: Path, *, sources: Sequence[str], name: str, num_rows: int, num_samples: int) -> WrittenFile:
        """The finished file, which has its name once all have."""
        with aside.open("rb+") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        final = self._free_name(base_name(sources, name))
        done = WrittenFile(
            name=final,
            digest=digest,
            size_bytes=aside.stat().st_size,
            num_rows=num_rows,
            num_samples=num_samples,
            sources=tuple(sources),
        )
        self._done.append((aside, done))
        return done

    def _free_name(self, base: str) -> str:
        """The next name of that base; in the mode append, which keeps what is there, none that an earlier write from
        the same sources has."""
        while True:
            self._counts[base] = self._counts.get(base, -1) + 1
            name = f"{base}-{self._counts[base]:05d}{self._suffix}"
            if self._mode != "append" or not (self.directory / name).exists():
                return name

    def commit(self, record: Mapping[str, Any]) -> Path:
        """The provenance file, once every finished file has its name. In the mode overwrite, what earlier writes
        left is gone then."""
        for aside, done in self._done:
            os.replace(aside, self.directory / done.name)
        sync_directory(self.directory)
        files = [asdict(done) for _, done in self._done]
        writes = [] if self._mode == "overwrite" else _writes(self.directory)
        path = self.directory / PROVENANCE
        write_atomically(
            path,
            json.dumps(
                {"format": 1, "writes": [*writes, {**record, "files": files}]}, indent=1, ensure_ascii=False
            ).encode()
            + b"\n",
        )
        if self._mode == "overwrite":
            for name in set(self._before) - {done.name for _, done in self._done}:
                (self.directory / name).unlink(missing_ok=True)
        return path

    def _clear(self) -> None:
        for path in self._asides:
            path.unlink(missing_ok=True)
        if self._is_new and not self._done_names():
            (self.directory / _LOCK).unlink(missing_ok=True)
            try:
                self.directory.rmdir()
            except OSError:
                pass  # somebody put a file there

    def _done_names(self) -> list[str]:
        return [path.name for path in self.directory.iterdir() if path.name != _LOCK]


def base_name(sources: Sequence[str], name: str) -> str:
    """16 hex characters for what feeds a file: the same for the same sources and name, random where there are no
    sources."""
    return digest_of(canonical_json([list(sources), name]).encode())[:16] if sources else secrets.token_hex(8)


def listed_files(directory: Path) -> list[str]:
    """The names of the files that earlier writes listed and that lie there."""
    names = (one.get("name") for write in _writes(directory) for one in write.get("files", ()) if isinstance(one, dict))
    # A name from a file that anybody may have written: nothing outside the directory is ever touched.
    return sorted(
        {
            name
            for name in names
            if isinstance(name, str)
            and name == Path(name).name
            and name.endswith((".parquet", ".tar"))
            and (directory / name).is_file()
        }
    )


def _writes(directory: Path) -> list[dict[str, Any]]:
    try:
        value = json.loads((directory / PROVENANCE).read_bytes())
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise SettingsError(f"{directory / PROVENANCE} is no JSON; move it away, or name another directory") from error
    return [one for one in _list(value) if isinstance(one, dict)]


def _list(value: Any) -> Iterator[Any]:
    yield from (value.get("writes") or () if isinstance(value, dict) else ())
