"""Pictures whose settings are damaged and whose pixels are whole: shown, distorted and decoded without a word."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from mmlake.evaluate import distort_image
from mmlake.loader.decode import decoded, decoders
from mmlake.report.media import thumbnail
from tests import make

CUT_EXIF = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01"  # one entry, of which two bytes are there
READERS: dict[str, Callable[[bytes], object]] = {
    "thumbnail of a report": thumbnail,
    "query of a probe": lambda data: distort_image(data, np.random.default_rng(0)),
    "picture of a batch": lambda data: decoded("jpg", data, decoders("auto")),
}


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])  # read with the header, and with the pixels
@pytest.mark.parametrize("reader", READERS)
def test_damaged_exif_is_no_warning(reader: str, kind: str) -> None:
    """The track says what is wrong; Pillow's warning stood in the output of a run, and ended a training job that takes
    warnings for errors."""
    sink = io.BytesIO()
    Image.open(io.BytesIO(make.picture(3))).save(sink, format=kind, exif=CUT_EXIF)
    with pytest.warns(UserWarning, match="Corrupt EXIF"):
        Image.open(io.BytesIO(sink.getvalue())).getexif()
    assert READERS[reader](sink.getvalue()) is not None
