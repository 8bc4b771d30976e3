"""A landing zone with a film of 70 s and two recordings, of 70 and 45 s, that are cut to units."""

from __future__ import annotations

import io
import json
from pathlib import Path

import av
import numpy as np
import soundfile

RATE_HZ, FRAMES_PER_S = 16_000, 10
SHOTS_S = (16, 18, 20, 16)
STILL_S = (22.0, 30.0)  # in the second shot
SILENCE_S = (24.0, 44.0)  # of the longer recording
SRT = "1\n00:00:02,000 --> 00:00:06,000\nA fox waits.\n\n2\n00:01:00,000 --> 00:01:04,000\nIt leaves.\n"


def film() -> bytes:
    """Four shots that pan over grounds of their own, and stand still for a while; without sound."""
    rng, sink = np.random.default_rng(0), io.BytesIO()
    with av.open(sink, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=FRAMES_PER_S, options={"crf": "20", "threads": "1"})
        stream.width, stream.height, stream.pix_fmt = 96, 72, "yuv420p"
        start = 0
        for length_s in SHOTS_S:
            ground = np.kron(rng.integers(0, 256, (12, 80, 3), dtype=np.uint8), np.ones((6, 6, 1), np.uint8))
            for at in range(length_s * FRAMES_PER_S):
                is_still = STILL_S[0] <= (start + at) / FRAMES_PER_S < STILL_S[1]
                left = round(STILL_S[0] - 16) * FRAMES_PER_S if is_still else at
                shown = np.ascontiguousarray(ground[:, left : left + 96])
                container.mux(stream.encode(av.VideoFrame.from_ndarray(shown, format="rgb24")))
            start += length_s * FRAMES_PER_S
        container.mux(stream.encode(None))
    return sink.getvalue()


def recording(*spans_s: tuple[float, float], until_s: float, seed: int) -> bytes:
    """Tones of a third of a second each in these spans, over the quiet noise of a room."""
    rng, sink = np.random.default_rng(seed), io.BytesIO()
    samples = rng.normal(0, 2e-4, round(until_s * RATE_HZ))
    times_s = np.arange(RATE_HZ // 3) / RATE_HZ
    for start_s in (at for first, last in spans_s for at in np.arange(first, last - 0.4, 0.5)):
        tone = 0.3 * np.sin(2 * np.pi * rng.uniform(200, 3000) * times_s) * np.hanning(len(times_s))
        samples[round(start_s * RATE_HZ) :][: len(tone)] += tone
    soundfile.write(sink, samples.astype(np.float32), RATE_HZ, format="FLAC", subtype="PCM_16")
    return sink.getvalue()


def landed(root: Path) -> Path:
    """The landing zone."""
    files = {
        "films/fox.mp4": film(),
        "films/fox.srt": SRT.encode(),
        "films/fox.caption": b"A fox in the snow, early in the morning.",
        "films/fox.json": json.dumps({"label": "fox", "license": "CC-BY-4.0"}).encode(),
        "talks/long.flac": recording((0, SILENCE_S[0]), (SILENCE_S[1], 70), until_s=70, seed=1),
        "talks/long.json": json.dumps({"label": "talk", "license": "CC0-1.0"}).encode(),
        "talks/short.flac": recording((0, 45), until_s=45, seed=2),
    }
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root
