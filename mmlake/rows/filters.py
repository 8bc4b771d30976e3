"""FILTERS: what may be kept out of interleaved rows, and what is left of a batch afterwards.

Each dropped row is reported with its measure and a reason. Pictures are read only for the filters that measure them,
and only those that earlier filters left. Adding a filter: its measure in `measures.py`, one row here.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.border import IN_PROCESS, Failure, Runner
from mmlake.compute import Executor
from mmlake.embed import EmbedSettings
from mmlake.optional import need
from mmlake.rows import measures
from mmlake.rows.batch import RowBatch
from mmlake.rows.filter import Filter
from mmlake.rows.order import check_columns, filter_rows, sample_numbers
from mmlake.rows.similarity import Similarity, encoder_of

_CHUNK_PICTURES = 64  # read at once; one batch of a model on a CPU
_CHUNK_BYTES = 64 << 20
_DROPPED = pa.schema(
    [
        ("row", pa.int64()),
        ("sample_id", pa.string()),
        ("position", pa.int32()),
        ("modality", pa.string()),
        ("filter", pa.string()),
        ("value", pa.float64()),
        ("reason", pa.string()),
    ]
)
# (batch, mask) -> (row, its bytes or None) of the masked rows
Pictures = Callable[[RowBatch, np.ndarray], Iterable[tuple[int, bytes | None]]]


def _text(name: str, what: str, *, unit: str = "", low: float | None = None, high: float | None = None) -> Filter:
    take = functools.partial(measures.text_measure, name)
    return Filter(
        name=name, what=what, kind="text", measure=name, unit=unit, low=low, high=high, modalities=("text",), take=take
    )


def _picture(name: str, what: str, take: Callable[[measures.Picture], float], **more: object) -> Filter:
    given: dict[str, Any] = {"measure": name, "modalities": ("image",), "needs": ("PIL",), **more}
    return Filter(name=name, what=what, kind="picture", take=take, **given)


_LIST = (
    Filter(
        name="validity",
        what="rows of an unknown modality, metadata that is not at position -1, content below 0",
        kind="shape",
        measure="position",
        take=measures.misplaced,
    ),
    _picture(
        "aspect_ratio",
        "strips and banners: the longer side over the shorter one",
        measures.aspect_ratio,
        low=1.0,
        high=2.0,
    ),
    _picture(
        "width_to_height",
        "pictures by width over height: portraits are below 1",
        measures.width_to_height,
        low=1.0,
        high=2.0,
    ),
    _picture("min_side", "thumbnails", measures.min_side_px, measure="min_side_px", unit="px", low=32),
    # 100 is the bound in common use for this measure; the quality stage has a blur measure that needs no contrast
    _picture(
        "blur",
        "pictures out of focus, by the variance of the Laplacian at 512 px",
        measures.sharpness,
        measure="sharpness",
        low=100,
        needs=("PIL", "cv2"),
    ),
    _picture(
        "qr_code",
        "pictures of which QR codes cover much",
        measures.qr_fraction,
        measure="qr_fraction",
        high=0.05,
        needs=("PIL", "cv2"),
    ),
    Filter(
        name="image_text_ratio",
        what="whole samples by images per word; without a range nothing goes",
        kind="sample",
        measure="images_per_word",
        take=measures.images_per_word,
    ),
    # 0.15 as NeMo Curator has it; LAION-400M kept pairs from 0.3 on (ViT-B/32), which illustrations of a long text
    # seldom reach
    Filter(
        name="clip_score",
        what="images that go with no text of their sample; needs a model",
        kind="pair",
        measure="clip_score",
        low=0.15,
        modalities=("image",),
    ),
    Filter(
        name="num_words",
        what="texts that are too short or too long",
        kind="text",
        measure="num_words",
        unit="words",
        low=1,
        modalities=("text",),
        take=measures.num_words,
    ),
    # the bounds of the quality stage (docs/quality.md)
    _text("boilerplate_fraction", "texts of notices and filler", high=0.5),
    _text("repeated_line_fraction", "texts that repeat their lines", high=0.3),
    _text("repeated_ngram_fraction", "texts that repeat runs of ten words", high=0.3),
    _text("word_with_letter_fraction", "tables, logs and code", low=0.8),
    _text("garbled_fraction", "texts read in a wrong encoding", high=0.005),
    _text("mean_word_length_chars", "lost spaces and identifiers", unit="chars", low=3, high=10),
)
FILTERS: dict[str, Filter] = {one.name: one for one in _LIST}


@dataclass(frozen=True, slots=True)
class Dropped:
    """What filters took out of a batch; `num_rows` = rows left + the sum of `counts`."""

    num_rows: int = 0
    # filter -> rows; "no_bytes": pictures that could not be read; "empty_sample": rows of samples without content
    counts: dict[str, int] = field(default_factory=dict)
    # those that a filter named: row, sample_id, position, modality, filter, value, reason
    rows: pa.Table = field(default_factory=_DROPPED.empty_table)

    def __add__(self, other: Dropped) -> Dropped:
        """The counts of both, and the named rows of the first alone where it has any: examples, not a second data
        set."""
        return Dropped(
            self.num_rows + other.num_rows,
            dict(Counter(self.counts) + Counter(other.counts)),
            self.rows if self.rows.num_rows else other.rows,
        )


def held(batch: RowBatch, mask: np.ndarray) -> Iterator[tuple[int, bytes | None]]:
    """The bytes that the masked rows hold already."""
    rows = np.flatnonzero(mask)
    column = batch.to_arrow()["binary_content"] if "binary_content" in batch.columns else None
    for row in rows:
        yield int(row), None if column is None else column[int(row)].as_py()


def apply_filters(
    batch: RowBatch, filters: Sequence[Filter], *, pictures: Pictures = held, models: EmbedSettings | None = None,
    executor: Executor | None = None, runner: Runner = IN_PROCESS,
) -> tuple[RowBatch, Dropped]:  # fmt: skip
    """(what the filters leave, what they took). Filters work in their order, each on what the one before left;
    positions are counted anew.

    pictures: reads the bytes of masked rows, which then do not stay in the batch. models, executor: for clip_score.
    runner: where pictures are decoded. Raises MissingExtra, ModelMissing, and SchemaMismatch for a batch without the
    columns of `REQUIRED`, before the first row is read; and what is the machine's fault.
    """
    check_needs(filters, models)
    if not batch.num_rows:
        return batch, Dropped()
    check_columns(batch.to_arrow())
    similarity = (
        Similarity(models or EmbedSettings(), executor or Executor("auto"), runner)
        if any(one.kind == "pair" for one in filters)
        else None
    )
    run = _Run(batch, pictures, similarity, runner)
    waiting: list[Filter] = []
    for one in filters:
        if one.kind in ("picture", "pair"):
            waiting.append(one)  # neighbours share one reading of the pictures
            continue
        run.apply_to_pictures(waiting)
        waiting = []
        run.apply(one)
    run.apply_to_pictures(waiting)
    left = filter_rows(batch, run.keep)
    return left, run.dropped(left)


def check_needs(filters: Sequence[Filter], models: EmbedSettings | None) -> None:
    """Raises MissingExtra for a library and ModelMissing for a model that a filter lacks."""
    for library in dict.fromkeys(library for one in filters for library in one.needs):
        need(library, extra="all", purpose=f"the filters {[one.name for one in filters if library in one.needs]}")
    if any(one.kind == "pair" for one in filters):
        encoder_of(models or EmbedSettings())


class _Run:
    """The filters' work on one batch."""

    def __init__(self, batch: RowBatch, pictures: Pictures, similarity: Similarity | None, runner: Runner) -> None:
        self._batch, self._table, self._pictures, self._similarity = batch, batch.to_arrow(), pictures, similarity
        self._runner = runner
        self.keep = np.ones(batch.num_rows, dtype=bool)
        self._found: list[tuple[int, str, float | None, str]] = []  # row, filter, value, reason

    def apply(self, one: Filter) -> None:
        """Drop by a filter that needs no bytes."""
        assert one.take is not None
        if one.kind == "shape":
            for row, reason in one.take(self._table).items():
                if self.keep[row]:
                    self._drop(row, one.name, None, reason)
            return
        if one.kind == "sample":
            rows = np.flatnonzero(self.keep)
            values = one.take(self._table.filter(pa.array(self.keep)))
        else:
            rows = np.flatnonzero(self._wanted((one,)))
            values = (one.take(text) if text is not None else None for text in self._texts(rows))
        for row, value in zip(rows, values, strict=True):
            if not one.holds(value):
                self._drop(int(row), one.name, float(value), one.reason(float(value)))

    def apply_to_pictures(self, filters: Sequence[Filter]) -> None:
        """Drop by filters that measure pictures, each read once."""
        if not filters:
            return
        for chunk in _chunks(self._pictures(self._batch, self._wanted(filters))):
            for row, data in chunk:
                if data is None:
                    self._drop(row, "no_bytes", None, self._why_none(row))
            self._apply_to_chunk(filters, {row: data for row, data in chunk if data is not None})

    def _apply_to_chunk(self, filters: Sequence[Filter], data: dict[int, bytes]) -> None:
        for kind, group in itertools.groupby(filters, key=lambda one: one.kind):
            together = tuple(group)  # neighbours share one decoded picture
            rows = [row for row in data if self.keep[row]]
            if kind == "pair":
                for one in together:
                    self._judge_pairs(one, data, [row for row in rows if self.keep[row]])
                continue
            found = self._runner.map(
                functools.partial(measures.measured, filters=together),
                (data[row] for row in rows),
                code=3001,
                what="the bytes do not decode as a picture",
            )
            for row, values in zip(rows, found, strict=True):
                for one, value in zip(together, [values] if isinstance(values, Failure) else values, strict=False):
                    self._judge(one, row, value)

    def _judge_pairs(self, one: Filter, data: dict[int, bytes], rows: list[int]) -> None:
        for row, value in zip(rows, self._pairs([data[row] for row in rows], rows), strict=True):
            self._judge(one, row, value)

    def _judge(self, one: Filter, row: int, value: float | None | Failure) -> None:
        if isinstance(value, Failure):
            self._drop(row, one.name, None, value.reason)
        elif value is not None and not one.holds(value):
            self._drop(row, one.name, value, one.reason(value))

    def _pairs(self, data: list[bytes], rows: list[int]) -> list[float | None | Failure]:
        assert self._similarity is not None
        samples = self._samples
        texts: dict[int, list[str]] = {}
        of_text = np.flatnonzero(self.keep & np.isin(samples, samples[rows]) & self._of(("text",)))
        for row, text in zip(of_text, self._texts(of_text), strict=True):
            if text and text.strip():
                texts.setdefault(int(samples[row]), []).append(text.strip())
        return self._similarity.scores(
            [(one, texts.get(int(samples[row]), [])) for one, row in zip(data, rows, strict=True)]
        )

    @functools.cached_property
    def _samples(self) -> np.ndarray:
        return sample_numbers(self._table)

    def _texts(self, rows: np.ndarray) -> list[str | None]:
        return (
            self._table["text_content"].take(pa.array(rows)).to_pylist()
            if "text_content" in self._table.column_names
            else [None] * len(rows)
        )

    def _wanted(self, filters: Sequence[Filter]) -> np.ndarray:
        wanted: np.ndarray = self.keep & self._of(tuple({modality for one in filters for modality in one.modalities}))
        return wanted

    def _of(self, modalities: tuple[str, ...]) -> np.ndarray:
        return np.array(
            pc.is_in(self._table["modality"], value_set=pa.array(modalities, pa.string())).to_numpy(), dtype=bool
        )

    def _why_none(self, row: int) -> str:
        error = (
            self._table["materialize_error"][row].as_py() if "materialize_error" in self._table.column_names else None
        )
        return f"num_bytes=0 not in [1, inf){f': {error}' if error else ''}"

    def _drop(self, row: int, name: str, value: float | None, reason: str) -> None:
        self.keep[row] = False
        self._found.append((row, name, value, reason))

    def dropped(self, left: RowBatch) -> Dropped:
        """The report; rows that no filter named went with the content of their sample."""
        found = sorted(self._found)
        counts = dict(Counter(name for _, name, _, _ in found))
        if rest := self._batch.num_rows - left.num_rows - len(found):
            counts["empty_sample"] = rest
        index = pa.array([row for row, _, _, _ in found], pa.int64())
        who = self._table.select(["sample_id", "position", "modality"]).take(index)
        columns = [
            index,
            *who.columns,
            *(pa.array([one[at] for one in found], _DROPPED.field(at + 3).type) for at in (1, 2, 3)),
        ]
        arrays = [column.cast(one.type) for column, one in zip(columns, _DROPPED, strict=True)]
        return Dropped(self._batch.num_rows, counts, pa.Table.from_arrays(arrays, schema=_DROPPED))


def _chunks(pictures: Iterable[tuple[int, bytes | None]]) -> Iterator[list[tuple[int, bytes | None]]]:
    chunk: list[tuple[int, bytes | None]] = []
    size = 0
    for row, data in pictures:
        chunk.append((row, data))
        size += len(data or b"")
        if len(chunk) == _CHUNK_PICTURES or size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
