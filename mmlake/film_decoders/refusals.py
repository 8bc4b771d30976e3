"""What drivers say when they cannot decode, as codes of the error catalogue."""

from __future__ import annotations

import re

from mmlake.errors import SettingsError
from mmlake.film_decoders.film import Refused

OUT_OF_MEMORY, CODEC_UNSUPPORTED, DEVICE_FAILED = 3111, 3113, 3114
_MEMORY = re.compile(r"OUT_OF_MEMORY|out of memory|Cannot allocate memory|bad_alloc", re.IGNORECASE)
_UNSUPPORTED = re.compile(r"not supported|unsupported|NOT_SUPPORTED|no codec|number of input samples: 0", re.IGNORECASE)
_NO_DEVICE = re.compile(
    r"Cannot load lib(cuda|nvcuvid)|Failed loading nvcuvid|dynamically load CUDA|CUDA_ERROR_NO_DEVICE|no CUDA-capable|"
    r"No CUDA GPUs|Found no NVIDIA driver|Unsupported device|driver version is insufficient|not compiled with CUDA|"
    r"CUDA is not available|cuInitChecked",
    re.IGNORECASE,
)
_CUDA_ERROR = re.compile(r"CUDA_ERROR_[A-Z_]+")


def refusal(row: str, device: str, said: str, num_pictures: int) -> Refused | SettingsError:
    """Why the row gives up, from what its library said after so many pictures: an error of the settings where there is
    no such device at all."""
    if _NO_DEVICE.search(said):
        return SettingsError(
            f"decode.decoder={row!r} finds no usable {device}: it needs an NVIDIA GPU, its driver and video library "
            "(in a container NVIDIA_DRIVER_CAPABILITIES=video,compute) and a build for CUDA; install them, or choose "
            "'pyav'"
        )
    named = _CUDA_ERROR.search(said)
    error = f" ({named[0]})" if named else ""
    if _MEMORY.search(said):
        return Refused(OUT_OF_MEMORY, f"{row} on {device} has no memory left after num_frames={num_pictures}{error}")
    if _UNSUPPORTED.search(said):
        return Refused(CODEC_UNSUPPORTED, f"{row} on {device} does not decode this codec, size or pixel format{error}")
    return Refused(DEVICE_FAILED, f"{row} on {device} gave up after num_frames={num_pictures}{error}")
