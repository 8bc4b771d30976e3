"""DALI: pictures as RGB from NVDEC, or from its CPU decoders (VP8, VP9, Motion JPEG), shrunk on the device one short
sequence at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mmlake.film_decoders.film import Film, Picture
from mmlake.film_decoders.refusals import refusal
from mmlake.optional import need

_SEQUENCE = 8  # pictures that are held at once


def dali_pictures(film: Film, device: str, size: tuple[int, int] | None) -> Iterator[Picture]:
    """The pictures in order of presentation. Raises Refused, MissingExtra."""
    num_pictures = 0
    try:
        pipeline = _pipeline(film, device, size)
        num_sequences = pipeline.reader_meta("films")["epoch_size"]
    except RuntimeError as error:
        raise refusal("dali", device, str(error), 0) from error
    for _ in range(num_sequences):
        try:
            pixels, numbers, times_s = (_array(output) for output in pipeline.run())
        except RuntimeError as error:
            raise refusal("dali", device, str(error), num_pictures) from error
        for rgb_HWC, number, time_s in zip(pixels, numbers, times_s, strict=True):
            if number >= 0:  # the last sequence is filled up
                num_pictures += 1
                pts = film.first_pts + round(float(time_s) / film.time_base)  # it counts from the first picture
                yield Picture(pts, 0, None, rgb_HWC)


def _pipeline(film: Film, device: str, size: tuple[int, int] | None) -> Any:
    dali = need("nvidia.dali", extra="dali", purpose="film decoder 'dali'")
    fn = need("nvidia.dali.fn", extra="dali", purpose="film decoder 'dali'")
    kind, _, number = device.partition(":")
    place = "cpu" if kind == "cpu" else "gpu"
    pipeline = dali.Pipeline(
        batch_size=1,
        num_threads=1,
        device_id=None if place == "cpu" else int(number or 0),
        prefetch_queue_depth=1,
    )
    with pipeline:
        pixels, frame_numbers, times_s = fn.experimental.readers.video(
            name="films",
            device=place,
            filenames=[str(film.path)],
            sequence_length=_SEQUENCE,
            enable_frame_num="sequence",
            enable_timestamps=True,
            pad_mode="constant",
        )
        if size is not None:
            pixels = fn.resize(pixels, device=place, size=(size[1], size[0]))
        pipeline.set_outputs(pixels, frame_numbers, times_s)
    pipeline.build()
    return pipeline


def _array(output: Any) -> np.ndarray:
    """The only sample of a batch."""
    array: np.ndarray = np.asarray((output.as_cpu() if hasattr(output, "as_cpu") else output).as_array()[0])
    return array
