"""Builders for tests of rows: pictures with frames, tars that say which texts and images are one sample, and a
landing zone in memory."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from PIL import Image

from mmlake import sources
from mmlake.errors import UnreadableItem
from mmlake.landing import Entry, Landing
from mmlake.rows import RowBatch, read_rows
from tests.make import land as land
from tests.make import tar as tar

SETTINGS = sources.SourceSettings()


def pixels(seed: int, *, channels: int = 3, side: int = 24) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size=(side, side + 6, channels), dtype=np.uint8)


def frames_of(num_frames: int, *, seed: int = 0, channels: int = 3) -> list[Image.Image]:
    return [Image.fromarray(pixels(100 * seed + number, channels=channels)) for number in range(num_frames)]


def picture(kind: str, frames: list[Image.Image], **options: Any) -> bytes:
    """The frames as one file of that kind."""
    sink = io.BytesIO()
    more = {"save_all": True, "append_images": frames[1:]} if len(frames) > 1 else {}
    frames[0].save(sink, format=kind, **more, **options)
    return sink.getvalue()


def tiff(num_frames: int, *, seed: int = 0, **options: Any) -> bytes:
    return picture("TIFF", frames_of(num_frames, seed=seed), **options)


def png(seed: int = 0) -> bytes:
    return picture("PNG", frames_of(1, seed=seed))


def jpeg(seed: int = 0) -> bytes:
    return picture("JPEG", frames_of(1, seed=seed), quality=90)


def flat(kind: str, shades: list[int], **options: Any) -> bytes:
    """An animation of frames of one grey each."""
    return picture(kind, [Image.fromarray(np.full((12, 16, 3), shade, np.uint8)) for shade in shades], **options)


def shade(data: bytes) -> int:
    """The grey of a picture of one grey."""
    return int(Image.open(io.BytesIO(data)).convert("L").getpixel((3, 3)))


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def record(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def read(root: Path | Landing, files: dict[str, bytes] | None = None, **options: Any) -> list[RowBatch]:
    """The batches of all shards of the landing zone, once these files lie in it."""
    if files is not None and isinstance(root, Path):
        land(root, files)
    settings = options.pop("settings", SETTINGS)
    return list(read_rows(sources.scan(root, settings=settings), landing=root, settings=settings, **options))


def one(root: Path | Landing, files: dict[str, bytes] | None = None, **options: Any) -> RowBatch:
    """The one batch of the landing zone."""
    (batch,) = read(root, files, **options)
    return batch


def column(batch: RowBatch, name: str, modality: str | None = None) -> list[Any]:
    """The values of the column, of the rows of one modality where it is given."""
    values, modalities = batch.table[name].to_pylist(), batch.table["modality"].to_pylist()
    return [value for value, given in zip(values, modalities, strict=True) if modality in (None, given)]


def batch_of(rows: list[dict[str, Any]], **extra: Any) -> RowBatch:
    """A batch of rows that name what they need: sample, position and modality are filled in."""
    whole = [{"sample_id": "s/0", "position": at, "modality": "image", **row} for at, row in enumerate(rows)]
    names = dict.fromkeys(name for row in whole for name in row)
    return RowBatch.of(pa.table({name: [row.get(name) for row in whole] for name in names}), **extra)


class MemoryLanding(Landing):
    """A landing zone in memory that counts what is opened."""

    def __init__(
        self,
        files: dict[str, bytes],
        *,
        location: str = "memory://zone",
        opener: Callable[[str, bytes], IO[bytes]] | None = None,
    ) -> None:
        self.files_by_path, self.location, self.opened = files, location, []
        self._opener = opener or (lambda path, data: io.BytesIO(data))

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        for directory in sorted({path.rpartition("/")[0] or "." for path in self.files_by_path}):
            yield directory, self.files(directory)

    def files(self, directory: str) -> list[Entry]:
        return [self.stat(path) for path in sorted(self.files_by_path) if (path.rpartition("/")[0] or ".") == directory]

    def stat(self, path: str) -> Entry | None:
        return Entry(path, len(self.files_by_path[path]), 0) if path in self.files_by_path else None

    def open(self, path: str) -> IO[bytes]:
        if path not in self.files_by_path:
            raise UnreadableItem(1001, "the file is missing")
        self.opened.append(path)
        return self._opener(path, self.files_by_path[path])


class CountedFile(io.BytesIO):
    """A file that notes which ranges are read from it."""

    def __init__(self, data: bytes, reads: list[tuple[int, int]]) -> None:
        super().__init__(data)
        self._reads = reads

    def read(self, size: int | None = -1) -> bytes:
        start = self.tell()
        data = super().read(size)
        self._reads.append((start, start + len(data)))
        return data
