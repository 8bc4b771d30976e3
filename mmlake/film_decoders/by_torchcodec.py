"""TorchCodec, on the CPU or on a GPU: pictures as RGB, shrunk in its filter graph (CPU) or on the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mmlake.errors import MissingExtra
from mmlake.film_decoders.film import Film, Picture, Refused
from mmlake.film_decoders.refusals import CODEC_UNSUPPORTED, refusal
from mmlake.optional import need

_BATCH = 8  # pictures that are held at once


def torchcodec_pictures(film: Film, device: str, size: tuple[int, int] | None) -> Iterator[Picture]:
    """The pictures in order of presentation. Raises Refused, MissingExtra."""
    decoder = _decoder(film, device, size)
    count, at = len(decoder), 0
    while at < count:
        try:
            batch = decoder.get_frames_in_range(at, min(at + _BATCH, count))
            if device != "cpu" and bool(decoder.cpu_fallback):
                raise Refused(CODEC_UNSUPPORTED, f"torchcodec on {device} left video_codec={film.codec} to the CPU")
            pixels = batch.data.cpu().numpy()
        except (RuntimeError, ValueError, IndexError) as error:
            raise refusal("torchcodec", device, str(error), at) from error
        for rgb_HWC, time_s, length_s in zip(
            pixels, batch.pts_seconds.tolist(), batch.duration_seconds.tolist(), strict=True
        ):
            yield Picture(_ticks(film, time_s), _ticks(film, length_s), None, _as_stored(rgb_HWC, film))
        at += len(pixels)


def _decoder(film: Film, device: str, size: tuple[int, int] | None) -> Any:
    try:
        library = need("torchcodec.decoders", extra="torchcodec", purpose="film decoder 'torchcodec'")
        transforms = need("torchcodec.transforms", extra="torchcodec", purpose="film decoder 'torchcodec'")
    except (RuntimeError, OSError) as error:  # it is there, and finds no FFmpeg
        raise MissingExtra(
            "film decoder 'torchcodec' loads no FFmpeg: it needs the shared libraries of FFmpeg 4 to 8 "
            "(libavcodec and others; Debian: apt install ffmpeg) and the torchcodec that is made for this torch"
        ) from error
    if size is not None and film.rotation % 180:
        size = size[1], size[0]  # it turns pictures before it shrinks them
    shrink = [] if size is None else [transforms.Resize((size[1], size[0]))]
    try:
        return library.VideoDecoder(
            str(film.path),
            stream_index=film.stream_index,
            dimension_order="NHWC",
            num_ffmpeg_threads=1,
            device=device,
            transforms=shrink,
        )
    except (RuntimeError, ValueError) as error:
        raise refusal("torchcodec", device, str(error), 0) from error


def _ticks(film: Film, seconds: float) -> int:
    return round(seconds / film.time_base)


def _as_stored(rgb_HWC: np.ndarray, film: Film) -> np.ndarray:
    """As it lies in the film: TorchCodec has turned it upright."""
    return np.ascontiguousarray(np.rot90(rgb_HWC, k=-film.rotation // 90)) if film.rotation else rgb_HWC
