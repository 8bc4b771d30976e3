"""The pictures of a clip as a training loop takes them: RGB, upright, in square pixels, so many a second."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mmlake.errors import UnreadableItem
from mmlake.film_decoders.film import Film, Picture, Refused
from mmlake.film_decoders.rows import pictures
from mmlake.film_decoders.settings import PYAV, DecodeSettings
from mmlake.film_decoders.turns import upright
from mmlake.media.decoders import open_media, picture_stream

_CLOCK_SLACK_S = 5e-5  # containers round to a millisecond and less: the 12th of 24 frames is due at half a second
_MAX_ASPECT = 4.0  # of a pixel, as where tracks are made
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Clip:
    """What a clip shows."""

    frames_THWC: np.ndarray  # uint8, RGB
    times_s: np.ndarray  # float64, shape (T,): from the clip's start
    decoder: str  # row of FILM_DECODERS that did it
    fallback_code: int | None = None  # why it was not the row that was chosen
    fallback_reason: str | None = None


def decode_clip(path: Path, *, settings: DecodeSettings) -> Clip:
    """The clip; the default row decodes what the chosen one cannot, and the clip says so. Raises UnreadableItem 3001,
    3003, 3008, and SettingsError or MissingExtra where the row cannot work here at all."""
    film = Film.of(path)
    try:
        return _decoded(film, settings)
    except Refused as refused:
        if settings.decoder == PYAV:
            raise UnreadableItem(3001, refused.reason) from refused
        _log.warning("decoded by %s instead: %s", PYAV, refused.reason)
        again = _decoded(film, dataclasses.replace(settings, decoder=PYAV, device=""))
        return dataclasses.replace(again, fallback_code=refused.code, fallback_reason=refused.reason)


def _decoded(film: Film, settings: DecodeSettings) -> Clip:
    origin_s, aspect = _facts(film.path)
    stored = film.shrunk(settings.shrink_above_px) or (film.width_px, film.height_px)
    size = max(1, round(stored[0] * aspect)), stored[1]
    shown: list[np.ndarray] = []
    times: list[float] = []
    held = 0
    with closing(pictures(film, size if size != (film.width_px, film.height_px) else None, settings=settings)) as all_:
        for picture, time_s in _due(all_, film, origin_s, settings.rate_hz):
            rgb_HWC = picture.as_rgb(size)
            held += rgb_HWC.nbytes
            if held > settings.max_clip_bytes:
                raise UnreadableItem(
                    3008, f"clip_bytes={held} after num_frames={len(shown) + 1} not in [0, {settings.max_clip_bytes}]"
                )
            shown.append(upright(rgb_HWC, film.rotation, film.is_mirrored))
            times.append(time_s)
    if not shown:
        raise Refused(3114, f"{settings.decoder} gave num_frames=0")
    return Clip(frames_THWC=np.stack(shown), times_s=np.asarray(times), decoder=settings.decoder)


def _due(shown: Iterator[Picture], film: Film, origin_s: float, rate_hz: float) -> Iterator[tuple[Picture, float]]:
    """The pictures, or the first one at or after each tick of the rate, with their times from the clip's start."""
    first_s, next_tick, last_s = None, 0, 0.0
    for picture in shown:
        time_s = last_s if picture.pts is None else float(picture.pts * film.time_base) - origin_s
        last_s = time_s
        first_s = time_s if first_s is None else first_s
        if rate_hz > 0:
            ticks = (time_s - first_s + _CLOCK_SLACK_S) * rate_hz
            if ticks < next_tick:
                continue
            next_tick = int(ticks) + 1
        yield picture, time_s


def _facts(path: Path) -> tuple[float, float]:
    """(seconds at which the container starts, width of a pixel over its height)."""
    with open_media(path) as container:
        ratio = picture_stream(container).sample_aspect_ratio
        aspect = float(ratio) if ratio and 1 / _MAX_ASPECT <= ratio <= _MAX_ASPECT else 1.0
        return (container.start_time or 0) / 1e6, aspect
