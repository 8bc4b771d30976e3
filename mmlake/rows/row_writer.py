"""Batches of rows to files: Parquet or WebDataset, all or nothing, in bounded memory.

Enters: an iterator of batches of whole samples. Leaves: files with names that the same input gives again, and a list of
them. On the way bytes are read where they are wanted in the output, rows without them meet the policy, and samples that
share an id are distinguished.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from mmlake.errors import SettingsError
from mmlake.progress import Advance, silent
from mmlake.rows.batch import RowBatch
from mmlake.rows.identity import DistinctIds
from mmlake.rows.order import by_sample, cut, sample_numbers
from mmlake.rows.parquet_writer import COMPRESSIONS, ParquetRows
from mmlake.rows.policies import apply_policy, check_policy, failed_rows
from mmlake.rows.staged_files import MODES, Staged, WrittenFile
from mmlake.rows.webdataset_writer import TarRows

Fill = Callable[[RowBatch], RowBatch]  # a batch -> the batch with bytes or errors
_PART_SAMPLES = 1024


@dataclass(frozen=True, kw_only=True)
class WriteSettings:
    """How rows become files."""

    mode: str = "error"
    # where the directory holds rows already: error; overwrite what this library wrote there; ignore (write nothing);
    # append next to it
    on_error: str = "error"
    # for rows with a materialize_error: error, warn, drop_row, drop_sample (policies.py)
    samples_per_file: int = 100_000
    # samples; with `file_bytes` what closes a file
    file_bytes: int = 1 << 30
    # bytes; object stores and loaders like files of about 1 GB
    part_bytes: int = 64 << 20
    # bytes whose content is in memory at once; one sample may be larger
    compression: str = "snappy"
    # Parquet only: snappy, zstd, gzip or none; pictures and sound do not shrink further, texts shrink by half
    row_group_rows: int = 16_384
    # Parquet only: rows; a group is also closed at 64 MB
    schema: pa.Schema | None = None
    # the columns to write; None keeps all that come

    def __post_init__(self) -> None:
        check_policy(self.on_error)
        for name, value, allowed in (("mode", self.mode, MODES), ("compression", self.compression, COMPRESSIONS)):
            if value not in allowed:
                raise SettingsError(f"{name}={value!r} is not one of {list(allowed)}; correct the setting")
        for name in ("samples_per_file", "file_bytes", "part_bytes", "row_group_rows"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name}={getattr(self, name)} not in [1, inf); correct the setting")

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON has them."""
        names = [name for name in self.__dataclass_fields__ if name != "schema"]
        return {name: getattr(self, name) for name in names} | {
            "columns": None if self.schema is None else self.schema.names
        }


class RowFile(Protocol):
    """A file in the making."""

    dropped: Counter[str]
    problems: list[str]

    @property
    def size_bytes(self) -> int: ...
    def append(self, table: pa.Table) -> int: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...


def _parquet(path: Path, settings: WriteSettings) -> RowFile:
    return ParquetRows(
        path, schema=settings.schema, compression=settings.compression, row_group_rows=settings.row_group_rows
    )


def _tar(path: Path, settings: WriteSettings) -> RowFile:
    return TarRows(path, schema=settings.schema)


FORMATS: Final[dict[str, tuple[str, Callable[[Path, WriteSettings], RowFile]]]] = {
    "parquet": (ParquetRows.suffix, _parquet),
    "webdataset": (TarRows.suffix, _tar),
}


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a write did: `num_rows_in` = `num_rows` + the sum of `dropped`."""

    directory: Path
    files: tuple[WrittenFile, ...] = ()
    num_rows_in: int = 0
    num_rows: int = 0
    num_samples: int = 0
    num_failed: int = 0  # rows written with a materialize_error (policy warn)
    dropped: Mapping[str, int] = field(default_factory=dict)  # reason -> rows
    num_renamed: int = 0  # samples whose id an earlier sample of the output has
    renamed: tuple[tuple[str, str], ...] = ()  # the first of them: (id, new id)
    problems: tuple[str, ...] = ()
    # tar only: fields with one value per image or per text, to be named when it is read back
    per_image_fields: tuple[str, ...] = ()
    per_text_fields: tuple[str, ...] = ()
    is_ignored: bool = False  # the directory held rows and the mode was ignore

    def to_dict(self) -> dict[str, Any]:
        """The counts as JSON has them."""
        names = ("num_rows_in", "num_rows", "num_samples", "num_failed", "num_renamed", "is_ignored")
        return {name: getattr(self, name) for name in names} | {
            "dropped": dict(self.dropped),
            "renamed": [list(pair) for pair in self.renamed],
            "problems": list(self.problems),
            "per_image_fields": list(self.per_image_fields),
            "per_text_fields": list(self.per_text_fields),
        }


def write_rows(
    batches: Iterable[RowBatch] | RowBatch,
    directory: str | Path,
    *,
    to: str,
    settings: WriteSettings | None = None,
    fill: Fill | None = None,
    about: Callable[[], Mapping[str, Any]] = dict,
    advance: Advance = silent,
) -> Written:
    """What was written. to: a name of FORMATS. A batch holds whole samples: an id that comes back in a later batch is
    another sample.

    fill: reads the bytes of a part of a batch before it is written (`materialize`); None writes what the rows hold.
    about: asked once everything is written, for what else `_provenance.json` shall say. advance: called with counts of
    input rows. Raises SettingsError, RowsUnreadable (policy error), LakeLocked; nothing is left then.
    """
    if to not in FORMATS:
        raise SettingsError(f"format {to!r} does not exist; choose among {sorted(FORMATS)}")
    settings = settings or WriteSettings()
    suffix, open_file = FORMATS[to]
    with Staged(Path(directory), mode=settings.mode, suffix=suffix) as staged:
        if staged.is_ignored:
            return Written(directory=staged.directory, is_ignored=True)
        writing = _Writing(staged, settings, open_file)
        try:
            for batch in [batches] if isinstance(batches, RowBatch) else batches:
                for part in cut(
                    batch, max_samples=min(_PART_SAMPLES, settings.samples_per_file), max_bytes=settings.part_bytes
                ):
                    writing.put(part, fill)
                    advance(part.num_rows)
            written = writing.finished()
        finally:
            writing.close()
        staged.commit({**about(), "to": to, "settings": settings.to_dict(), **written.to_dict()})
    return written


class _Writing:
    """The open file of a write, and its counts."""

    def __init__(
        self, staged: Staged, settings: WriteSettings, open_file: Callable[[Path, WriteSettings], RowFile]
    ) -> None:
        self._staged, self._settings, self._open = staged, settings, open_file
        self._ids = DistinctIds()
        self._file: RowFile | None = None
        self._files: list[WrittenFile] = []
        self._dropped: Counter[str] = Counter()
        self._problems: dict[str, None] = {}
        self._fields: dict[str, set[str]] = {"per_image_fields": set(), "per_text_fields": set()}
        self._num_rows_in = self._num_failed = 0

    def put(self, part: RowBatch, fill: Fill | None) -> None:
        """Write the rows of some whole samples."""
        self._num_rows_in += part.num_rows
        if not part.num_rows:
            return
        full = fill(part) if fill is not None else part
        kept = apply_policy(full, self._settings.on_error)
        self._dropped["materialize_error"] += full.num_rows - kept.num_rows
        if not kept.num_rows:
            return
        self._num_failed += int(failed_rows(kept.to_arrow()).sum())
        for table in self._pieces(self._ids.distinct(kept.to_arrow())):
            self._append(table, part)

    def _pieces(self, table: pa.Table) -> Iterator[pa.Table]:
        """The table cut where the open file is full."""
        room = self._settings.samples_per_file - (self._num_samples if self._file is not None else 0)
        if len(set(sample_numbers(table).tolist())) <= room:
            yield table
            return
        table, bounds = by_sample(table)
        yield table.slice(0, int(bounds[room]))
        yield table.slice(int(bounds[room]))

    def _append(self, table: pa.Table, part: RowBatch) -> None:
        if self._file is None:
            self._path = self._staged.aside()
            self._file = self._open(self._path, self._settings)
            self._num_rows = self._num_samples = 0
            self._sources: dict[str, None] = {}
            self._names: dict[str, None] = {}
        self._num_rows += self._file.append(table)
        self._num_samples += len(set(sample_numbers(table).tolist()))
        self._sources |= dict.fromkeys(part.source_files)
        self._names[part.name] = None
        if self._num_samples >= self._settings.samples_per_file or self._file.size_bytes >= self._settings.file_bytes:
            self._finish_file()

    def _finish_file(self) -> None:
        if (file := self._file) is None:
            return
        file.finish()
        self._file = None
        name = "+".join(self._names)
        self._files.append(
            self._staged.finish(
                self._path,
                sources=list(self._sources),
                name=name,
                num_rows=self._num_rows,
                num_samples=self._num_samples,
            )
        )
        self._dropped += file.dropped
        self._problems |= dict.fromkeys(file.problems)
        for kind, found in self._fields.items():
            found |= getattr(file, kind, set())

    def close(self) -> None:
        """Let go of a file that was not finished."""
        if self._file is not None:
            self._file.close()

    def finished(self) -> Written:
        """The counts, once the last file is finished."""
        self._finish_file()
        return Written(
            directory=self._staged.directory,
            files=tuple(self._files),
            num_rows_in=self._num_rows_in,
            num_rows=sum(file.num_rows for file in self._files),
            num_samples=sum(file.num_samples for file in self._files),
            num_failed=self._num_failed,
            dropped={reason: count for reason, count in sorted(self._dropped.items()) if count},
            num_renamed=self._ids.num_renamed,
            renamed=tuple(self._ids.examples),
            problems=tuple(self._problems),
            per_image_fields=tuple(sorted(self._fields["per_image_fields"])),
            per_text_fields=tuple(sorted(self._fields["per_text_fields"])),
        )
