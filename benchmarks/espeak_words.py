"""Sentences from eSpeak NG with the time at which each word begins, run as a program of its own: a JSON list of {text,
voice, rate, pitch} on stdin, one JSON line {samples (base64 of int16), words: [start_s, ...]} each on stdout."""

from __future__ import annotations

import base64
import ctypes
import json
import sys
from typing import Any

RATE_HZ = 22050
_SYNCHRONOUS, _UTF8, _CHARACTERS = 2, 1, 1
_RATE, _PITCH = 1, 3
_END, _WORD = 0, 1  # espeak_EVENT_TYPE


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),  # ms
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("value", ctypes.c_char * 8),
    )


def main() -> None:
    """Answers the sentences of stdin on stdout."""
    import espeakng_loader

    library = ctypes.CDLL(espeakng_loader.get_library_path())
    if library.espeak_Initialize(_SYNCHRONOUS, 0, espeakng_loader.get_data_path().encode(), 0) != RATE_HZ:
        raise SystemExit("eSpeak NG did not start, or not at 22050 Hz; reinstall espeakng-loader")
    chunks: list[bytes] = []
    starts_s: list[float] = []

    def keep(samples: Any, count: int, events: Any) -> int:
        if samples and count > 0:
            chunks.append(ctypes.string_at(samples, count * 2))
        found = ctypes.cast(events, ctypes.POINTER(_Event))
        index = 0
        while found[index].type != _END:
            if found[index].type == _WORD:
                starts_s.append(found[index].audio_position / 1000)
            index += 1
        return 0

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(keep)
    library.espeak_SetSynthCallback(callback)
    for wanted in json.load(sys.stdin):
        chunks.clear()
        starts_s.clear()
        library.espeak_SetVoiceByName(wanted["voice"].encode())
        library.espeak_SetParameter(_RATE, int(wanted["rate"]), 0)
        library.espeak_SetParameter(_PITCH, int(wanted["pitch"]), 0)
        text = wanted["text"].encode() + b"\0"
        library.espeak_Synth(text, ctypes.c_size_t(len(text)), 0, _CHARACTERS, 0, _UTF8, None, None)
        library.espeak_Synchronize()
        print(json.dumps({"samples": base64.b64encode(b"".join(chunks)).decode(), "words": starts_s}))


if __name__ == "__main__":
    main()
