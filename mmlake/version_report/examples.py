"""Rows of the catalog as examples in the report: with something to see or to play, where their bytes allow it.

Of a span no more is shown than the span: its clip is cut where no version has cut it yet, its sound is that of its
item's track.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from mmlake import report
from mmlake.cuts import Span
from mmlake.errors import MmlakeError, UnreadableItem
from mmlake.lake import Lake
from mmlake.preprocess import WHOLE, spans_of
from mmlake.publish.probe_vectors import UnitSound, unit_sounds
from mmlake.publish.titles import title_of
from mmlake.report import Example

_MAX_MEDIA_BYTES = 800_000  # of one film or sound that goes into the page whole
_MAX_KEYFRAMES = 6
_IMAGE_SIDE_PX = 160
EXAMPLE_COLUMNS = (  # of the catalog, that an example is made from
    "digest", "modality", "sample_ids", "text", "status", "reason", "duration_s", "is_survivor", "tier", "score",
    "keyframe_digests", "size_bytes", "kind", "span_start_s", "span_end_s",
)  # fmt: skip
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Examples:
    """What examples are made from, read once for a report."""

    lake: Lake
    sounds: Mapping[str, UnitSound]
    spans: Mapping[str, Span]  # of films
    image_side_px: int  # longer side of a picture at most

    @classmethod
    def of(cls, lake: Lake, *, image_side_px: int = _IMAGE_SIDE_PX) -> Examples:
        """Those of the lake as it is."""
        return cls(lake, unit_sounds(lake), _film_spans(lake), image_side_px)

    def example(self, row: Mapping[str, Any]) -> Example:
        """The unit of this row of the catalog."""
        made = Example(
            digest=row["digest"],
            modality=row["modality"],
            title=title_of(row),
            status=row["status"],
            reason=row["reason"] or "",
            text=(row["text"] or "")[:600],
            duration_s=row["duration_s"],
        )
        made.tier, made.score, made.survivor = row["tier"] or "", row["score"], bool(row["is_survivor"])
        if row["status"] == "unreadable":
            return made
        try:
            self._show(made, row)
        except (MmlakeError, UnreadableItem) as error:
            made.reason = made.reason or str(error)
        return made

    def _show(self, made: Example, row: Mapping[str, Any]) -> None:
        store, sound = self.lake.store, self.sounds.get(row["digest"])
        match row["modality"]:
            case "image":
                made.image = report.thumbnail(store.read(row["digest"]), max_side_px=self.image_side_px)
            case "video":
                made.keyframes = [
                    small
                    for digest in spread(row["keyframe_digests"] or [], _MAX_KEYFRAMES)
                    if (small := report.thumbnail(store.read(digest), max_side_px=120)) is not None
                ]
                made.video = self._clip(row)
            case "audio":
                samples = None if sound is None else sound.samples(self.lake)
                made.peaks = [] if samples is None else report.waveform_peaks(samples)
                if row["kind"] == WHOLE:
                    made.audio = self._whole(row)
                elif samples is not None:
                    made.audio = _flac(samples)

    def _whole(self, row: Mapping[str, Any]) -> bytes | None:
        return self.lake.store.read(row["digest"]) if row["size_bytes"] <= _MAX_MEDIA_BYTES else None

    def _clip(self, row: Mapping[str, Any]) -> bytes | None:
        if row["kind"] == WHOLE:
            return self._whole(row)
        if (span := self.spans.get(row["digest"])) is None:
            return None
        cut = self.lake.cuts.clip(span)
        if cut is None:
            with self.lake.store.local(span.parent_digest) as film:
                cut = self.lake.cuts.clip(span, lambda: film)
        return cut.path.read_bytes() if cut is not None and cut.size_bytes <= _MAX_MEDIA_BYTES else None


def spread(items: Sequence[T], count: int) -> list[T]:
    """At most `count` of the items, evenly chosen, in order."""
    if len(items) <= count:
        return list(items)
    return [items[index * len(items) // count] for index in range(count)]


def _flac(samples: np.ndarray) -> bytes:
    import soundfile

    sink = io.BytesIO()
    soundfile.write(sink, samples, 16_000, format="FLAC", subtype="PCM_16")
    return sink.getvalue()


def _film_spans(lake: Lake) -> dict[str, Span]:
    clips = spans_of(lake.tables.concat("units", "video"))
    return {
        row["digest"]: Span(
            digest=row["digest"],
            parent_digest=row["parent_digest"],
            start_us=row["start"],
            end_us=row["end"],
            start_frame=row["start_frame"],
            end_frame=row["end_frame"],
        )
        for row in clips.to_pylist()
    }
