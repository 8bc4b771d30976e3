"""The measures step: tracks, and blobs where a track does not hold enough, to one row per digest and measure."""

from __future__ import annotations

import errno
import logging
import math
from collections.abc import Callable, Mapping

import pyarrow as pa

from mmlake import schemas
from mmlake.errors import MmlakeError, SettingsError
from mmlake.progress import Advance, silent
from mmlake.quality.audio import audio_measures
from mmlake.quality.image import image_measures
from mmlake.quality.settings import QualitySettings
from mmlake.quality.text import text_measures
from mmlake.quality.video import video_measures
from mmlake.store import Blobs

_log = logging.getLogger(__name__)
_SLICE_ROWS = 256  # tracks held as Python objects at once
_COLUMNS = {
    "text": ("text", "num_words"),
    "image": ("width_px", "height_px"),
    "video": ("width_px", "height_px", "duration_s", "keyframes", "signals", "shots"),
    "audio": ("duration_s", "audio_digest"),
}
Measures = dict[str, float | None]
_TAKE: Mapping[str, Callable[..., Measures]] = {
    "text": text_measures,
    "image": image_measures,
    "video": video_measures,
    "audio": audio_measures,
}


def measure(
    tracks: pa.Table, modality: str, *, store: Blobs, settings: QualitySettings | None = None, advance: Advance = silent
) -> pa.Table:
    """The MEASURES table of the tracks that decoded; null where a measure makes no sense on an item.

    settings are not read: measures never depend on thresholds. Raises only for a failing environment; an item that
    fails gets num_failures=1.
    """
    if modality not in _TAKE:
        raise SettingsError(f"modality {modality!r} is not one of {tuple(_TAKE)}; correct the call")
    digests: list[str] = []
    names: list[str] = []
    values: list[float | None] = []
    wanted = tracks.select(["digest", "role", "status", *_COLUMNS[modality]])
    for start in range(0, wanted.num_rows, _SLICE_ROWS):
        for track in wanted.slice(start, _SLICE_ROWS).to_pylist():
            if track["status"] == "ok":
                taken = _measure_one(track, modality, store)
                digests += [track["digest"]] * len(taken)
                names += taken.keys()
                values += (
                    None if value is None or not math.isfinite(value) else float(value) for value in taken.values()
                )
            advance(1)
    table = pa.table(
        {
            "digest": pa.array(digests, pa.string()),
            "measure": pa.array(names, pa.string()),
            "value": pa.array(values, pa.float64()),
        }
    )
    return schemas.conform(schemas.MEASURES, table)


def _measure_one(track: dict, modality: str, store: Blobs) -> Measures:
    try:
        return {"num_failures": 0.0, **_TAKE[modality](track, store)}
    except (MmlakeError, MemoryError):
        raise  # a lost blob or a missing library: a person must act
    # the one per-item border: decoders raise anything, and one item must not stop its shard; the rule `unmeasured`
    # keeps it out
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EACCES):
            raise
        _log.warning(
            "measures %s: %s met an unforeseen %s", modality, track["digest"], type(error).__name__, exc_info=True
        )
        return {"num_failures": 1.0}
