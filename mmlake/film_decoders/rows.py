"""Film decoders: the rows that can turn a film into pictures.

Add yours here: a row in FILM_DECODERS whose `pictures` gives them in order of presentation, with their time stamps. A
row that cannot decode a film raises Refused, and the default row does it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

from mmlake.errors import SettingsError
from mmlake.film_decoders.by_dali import dali_pictures
from mmlake.film_decoders.by_nvdec import nvdec_pictures
from mmlake.film_decoders.by_torchcodec import torchcodec_pictures
from mmlake.film_decoders.film import Film, Picture, Refused
from mmlake.film_decoders.refusals import DEVICE_FAILED
from mmlake.film_decoders.settings import PYAV, DecodeSettings
from mmlake.film_decoders.streams import stream_slot
from mmlake.media.decoders import frames, open_media, picture_stream
from mmlake.media.transport_clock import on_one_clock


@dataclass(frozen=True, kw_only=True, slots=True)
class FilmDecoderRow:
    """One row of FILM_DECODERS."""

    name: str
    what: str
    licence: str  # SPDX id of the library
    devices: tuple[str, ...]  # the one that it prefers first
    # (film, device, (width, height) to shrink to or None) -> its pictures; raises Refused
    pictures: Callable[[Film, str, tuple[int, int] | None], Iterator[Picture]]


def _pyav_pictures(film: Film, device: str, size: tuple[int, int] | None) -> Iterator[Picture]:
    """The pictures that decode; they are shrunk when they are converted, in one step."""
    with open_media(film.path) as container:
        for frame in frames(container, picture_stream(container)):
            yield Picture(frame.pts, frame.duration or 0, frame)


_ROWS = (
    FilmDecoderRow(
        name=PYAV,
        what="FFmpeg within PyAV, one thread for each film; damage is counted and what decodes is kept",
        licence="BSD-3-Clause",
        devices=("cpu",),
        pictures=_pyav_pictures,
    ),
    FilmDecoderRow(
        name="torchcodec",
        what="TorchCodec over the FFmpeg of the system",
        licence="BSD-3-Clause",
        devices=("cpu", "cuda"),
        pictures=torchcodec_pictures,
    ),
    FilmDecoderRow(
        name="nvdec",
        what="NVDEC through FFmpeg within PyAV: nothing but a driver is needed",
        licence="BSD-3-Clause",
        devices=("cuda",),
        pictures=nvdec_pictures,
    ),
    FilmDecoderRow(
        name="dali",
        what="NVIDIA DALI: NVDEC, or on the CPU VP8, VP9 and Motion JPEG",
        licence="Apache-2.0",
        devices=("cuda", "cpu"),
        pictures=dali_pictures,
    ),
)
FILM_DECODERS: dict[str, FilmDecoderRow] = {row.name: row for row in _ROWS}


def film_decoder(settings: DecodeSettings) -> tuple[FilmDecoderRow, str]:
    """The row that the settings choose, and its device. Raises SettingsError."""
    if settings.decoder not in FILM_DECODERS:
        raise SettingsError(f"decode.decoder={settings.decoder!r} is not one of {sorted(FILM_DECODERS)}; choose one")
    row = FILM_DECODERS[settings.decoder]
    device = settings.device or row.devices[0]
    if device.partition(":")[0] not in row.devices:
        raise SettingsError(
            f"decode.device={settings.device!r} is none of those of decoder {row.name!r}, {list(row.devices)}; "
            "correct one of them"
        )
    return row, "cuda:0" if device == "cuda" else device


def pictures(film: Film, size: tuple[int, int] | None, *, settings: DecodeSettings) -> Generator[Picture, None, None]:
    """The film's pictures by the row that the settings choose, shrunk to that (width, height) where one is given.
    Raises Refused where the row or its device cannot, SettingsError, MissingExtra."""
    row, device = film_decoder(settings)
    with ExitStack() as stack:
        if device != "cpu":
            stack.enter_context(stream_slot(device, settings))
        if row.name != PYAV:  # libraries open the file themselves
            film = replace(film, path=stack.enter_context(on_one_clock(film.path)))
        num_pictures = 0
        for picture in row.pictures(film, device, size):
            num_pictures += 1
            yield picture
        if not num_pictures:  # its first picture decodes by the default row
            raise Refused(DEVICE_FAILED, f"{row.name} on {device} gave num_frames=0")
