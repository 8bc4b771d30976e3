"""A film of five seconds and a recording of six, made by hand, with spans of both as samples of a version."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from PIL import Image

from mmlake.records import canonical_json, digest_of
from mmlake.shards import Held, UnitFacts
from mmlake.store import BlobStore
from tests.cuts.counted_films import RATE, counted_film
from tests.made_samples import part, sample

WORDS = ["Foxes", "are", "omnivores.", "They", "eat", "fruit."]


class MadeTracks(dict[str, UnitFacts]):
    """Facts of units made by hand."""

    def held(self, digest: str) -> Held:
        known = self.facts(digest)
        return Held(known.audio_digest is not None, bool(known.keyframes))

    def facts(self, digest: str) -> UnitFacts:
        return self.get(digest, UnitFacts())


def unit_of(parent: str, start_us: int, end_us: int, kind: str) -> str:
    """The name of a span."""
    facts = {"axis": "us", "end": end_us, "kind": kind, "parent": parent, "producer": "hand@1", "start": start_us}
    return digest_of(canonical_json(facts).encode())


def flac(samples: np.ndarray, rate_hz: int = 16_000) -> bytes:
    sink = io.BytesIO()
    soundfile.write(sink, samples, rate_hz, format="FLAC", subtype="PCM_16")
    return sink.getvalue()


def noise(num_samples: int, num_channels: int = 1, *, seed: int = 7) -> np.ndarray:
    """Integers of 16 bit, shape (num_samples, num_channels)."""
    return np.random.default_rng(seed).integers(-9000, 9000, (num_samples, num_channels), dtype=np.int16)


def keyframe(store: BlobStore, time_s: float) -> dict[str, Any]:
    """A keyframe whose grey says its time: 40 for each second."""
    sink = io.BytesIO()
    Image.new("RGB", (32, 24), (round(40 * time_s),) * 3).save(sink, "JPEG", quality=95)
    return {"time_s": time_s, "digest": store.put(sink.getvalue(), extension="jpg")}


def words(start_s: float) -> list[dict[str, Any]]:
    """Three words, half a second each."""
    said = WORDS[:3] if start_s < 1 else WORDS[3:]
    return [
        {"word": word, "start_s": start_s + 0.5 * n, "end_s": start_s + 0.5 * n + 0.4, "score": 0.75}
        for n, word in enumerate(said)
    ]


def film_clips(
    store: BlobStore, tracks: MadeTracks, folder: Path, *, with_sound: bool = True, film_path: Path | None = None
) -> list[dict[str, Any]]:
    """The samples of the film's two clips, of frames 0 to 49 and 50 to 124."""
    path = film_path or counted_film(folder / "film.mp4", 125, with_sound=with_sound)
    film = store.put(path.read_bytes(), extension=path.suffix[1:])
    audio = store.put(flac(noise(5 * 16_000)), extension="flac") if with_sound else None
    transcript = store.put(" ".join(WORDS).encode(), extension="txt")
    rows = []
    for first, last in ((0, 50), (50, 125)):
        start_us, end_us = (round(number / RATE * 1e6) for number in (first, last))
        unit, length_s = unit_of(film, start_us, end_us, "clip"), (end_us - start_us) / 1e6
        said = words(0.25 if first == 0 else 1.25) if with_sound else []
        tracks[unit] = UnitFacts(
            audio_digest=audio,
            duration_s=length_s,
            start_frame=first,
            end_frame=last,
            keyframes=[keyframe(store, 0.0), keyframe(store, 1.0)],
            words=said,
            cues=[{"text": " ".join(one["word"] for one in said), "start_s": 0.0, "end_s": length_s, "score": None}],
            transcript_match=0.875 if with_sound else None,
        )
        span = {"digest": unit, "parent_digest": film, "start_us": start_us, "end_us": end_us}
        lead = part(store, b"", modality="video") | span | {"size_bytes": path.stat().st_size // 2}
        text = part(store, b"", modality="text", role="transcript") | {"digest": transcript}
        text |= {"parent_digest": transcript, "start_us": start_us, "end_us": end_us, "size_bytes": 33}
        rows.append(sample([lead, text], fields={"title": "Foxes"}, sources=["films"]))
    return rows


def recording_segments(store: BlobStore, tracks: MadeTracks, samples: np.ndarray | None = None) -> list[dict[str, Any]]:
    """The samples of a recording's two segments, of 2.5 and 3.5 seconds."""
    samples = noise(6 * 44_100, 2) if samples is None else samples
    recording = store.put(flac(samples, 44_100), extension="flac")
    audio = store.put(flac(noise(6 * 16_000)), extension="flac")
    rows = []
    for start_us, end_us in ((0, 2_500_000), (2_500_000, 6_000_000)):
        unit = unit_of(recording, start_us, end_us, "segment")
        tracks[unit] = UnitFacts(
            audio_digest=audio,
            duration_s=(end_us - start_us) / 1e6,
            words=words(0.25 if not start_us else 1.25),
            turns=[{"speaker": "S1", "start_s": 0.25, "end_s": 1.0, "confidence": 0.5}],
            transcript_match=0.875,
        )
        lead = part(store, b"", modality="audio") | {"digest": unit, "parent_digest": recording}
        lead |= {"start_us": start_us, "end_us": end_us, "size_bytes": 100_000}
        rows.append(sample([lead], fields={"speaker": 3}, sources=["talks"]))
    return rows
