"""Builders for tests of filters and writers: samples as short lists of rows, and what stands in the files that were
written."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mmlake import sources
from mmlake.rows import read_rows
from mmlake.rows.batch import RowBatch
from mmlake.rows.schema import SCHEMA
from tests import make

PNG = make.picture(1)
JPEG = make.picture(2, kind="JPEG")
WAV = make.sound(1, seconds=0.3)
SETTINGS = sources.SourceSettings(sample_id_field="sample_id")  # as the writer names samples in the JSON of a tar


def batch(*rows: dict[str, Any], origin: tuple[str, ...] = ("a.tar",), name: str = "rows") -> RowBatch:
    """A batch of these rows; what a row does not say is null."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    arrays = {
        key: pa.array([row.get(key) for row in rows], SCHEMA.field(key).type if key in SCHEMA.names else None)
        for key in names
    }
    return RowBatch.of(pa.table(arrays), source_files=origin, name=name)


def meta(sample: str = "s", **fields: Any) -> dict[str, Any]:
    return {"sample_id": sample, "position": -1, "modality": "metadata", **fields}


def text(position: int, words: str = "some words", sample: str = "s", **fields: Any) -> dict[str, Any]:
    return {
        "sample_id": sample,
        "position": position,
        "modality": "text",
        "content_type": "text/plain",
        "text_content": words,
        **fields,
    }


def image(position: int, data: bytes | None = PNG, sample: str = "s", **fields: Any) -> dict[str, Any]:
    return {
        "sample_id": sample,
        "position": position,
        "modality": "image",
        "content_type": "image/png",
        "binary_content": data,
        **fields,
    }


def media(
    modality: str, position: int, data: bytes | None, kind: str, sample: str = "s", **fields: Any
) -> dict[str, Any]:
    return {
        "sample_id": sample,
        "position": position,
        "modality": modality,
        "content_type": kind,
        "binary_content": data,
        **fields,
    }


def layout(made: RowBatch) -> list[tuple[str, int, str]]:
    """(sample, position, modality) of each row."""
    return list(
        zip(*(made.to_arrow()[name].to_pylist() for name in ("sample_id", "position", "modality")), strict=True)
    )


def drawn(width: int, height: int) -> bytes:
    """A sharp picture of that size."""
    return make.picture(3, width=width, height=height)


def flat_picture(width: int = 64, height: int = 64) -> bytes:
    """A picture of one grey: nothing in it is sharp."""
    from PIL import Image

    sink = io.BytesIO()
    Image.fromarray(np.full((height, width, 3), 128, np.uint8)).save(sink, format="PNG")
    return sink.getvalue()


def files(directory: Path, suffix: str) -> list[Path]:
    return sorted(directory.glob(f"*{suffix}"))


def rows_in(directory: Path) -> pa.Table:
    """All rows of the Parquet files of a directory."""
    return pq.read_table(directory)


def members(path: Path) -> dict[str, bytes]:
    """The members of a tar as the standard library reads them."""
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive.getmembers()}


def records(directory: Path) -> list[dict[str, Any]]:
    """The JSON of every sample of the tars of a directory."""
    return [
        json.loads(data)
        for path in files(directory, ".tar")
        for name, data in members(path).items()
        if name.endswith(".json")
    ]


def sample(name: str = "s", **fields: Any) -> tuple[dict[str, Any], ...]:
    """A text, a picture and a text, and the fields of the sample."""
    return (meta(name, **fields), text(0, "Grüße", name), image(1, PNG, name), text(2, "zwei", name))


def back(directory: Path, to: str) -> list[dict[str, Any]]:
    """The rows of the files that were written, read again."""
    if to == "parquet":
        return rows_in(directory).to_pylist()
    return [
        row
        for one in read_rows(sources.scan(directory, settings=SETTINGS), landing=directory, settings=SETTINGS)
        for row in one.to_arrow().to_pylist()
    ]
