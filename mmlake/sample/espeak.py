"""Speech from eSpeak NG, run as a program of its own: a JSON list of {text, voice, rate, pitch} on stdin, PCM on
stdout.

Its own process because the library keeps state between sentences that no call resets (the same sentence differs the
second time), and because a fault in it must not end the caller. Leaves: per sentence a little-endian int32 count, then
that many int16 samples at RATE_HZ; count -1 where it failed.
Imports nothing of mmlake, so that it starts in a few hundredths of a second.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from typing import Any

RATE_HZ = 22050
_SYNCHRONOUS, _UTF8, _CHARACTERS = 2, 1, 1  # espeak_AUDIO_OUTPUT, espeakCHARS_UTF8, POS_CHARACTER of speak_lib.h
_RATE, _PITCH = 1, 3  # espeak_PARAMETER


def _library() -> Any:
    import espeakng_loader

    library = ctypes.CDLL(espeakng_loader.get_library_path())
    if library.espeak_Initialize(_SYNCHRONOUS, 0, espeakng_loader.get_data_path().encode(), 0) != RATE_HZ:
        raise SystemExit("eSpeak NG did not start, or not at 22050 Hz; reinstall espeakng-loader")
    return library


def main() -> None:
    """Answers the sentences of stdin on stdout."""
    library = _library()
    chunks: list[bytes] = []

    def keep(samples: Any, count: int, events: Any) -> int:
        if samples and count > 0:
            chunks.append(ctypes.string_at(samples, count * 2))
        return 0

    # bound to a name: the library calls it as long as it speaks
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)(keep)
    library.espeak_SetSynthCallback(callback)
    for wanted in json.load(sys.stdin):
        chunks.clear()
        failed = library.espeak_SetVoiceByName(wanted["voice"].encode())
        library.espeak_SetParameter(_RATE, int(wanted["rate"]), 0)
        library.espeak_SetParameter(_PITCH, int(wanted["pitch"]), 0)
        text = wanted["text"].encode() + b"\0"
        failed |= library.espeak_Synth(text, ctypes.c_size_t(len(text)), 0, _CHARACTERS, 0, _UTF8, None, None)
        library.espeak_Synchronize()
        data = b"".join(chunks)
        sys.stdout.buffer.write(
            struct.pack("<i", -1) if failed or not data else struct.pack("<i", len(data) // 2) + data
        )


if __name__ == "__main__":
    main()
