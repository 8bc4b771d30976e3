"""A landing zone in which parts of films lie by themselves too, next to things of the same kind that are no part of
any film."""

from __future__ import annotations

import io
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from mmlake.sample import prose, scenes, sounds, voices
from tests.make import jsonl
from tests.preprocess.preprocess_media import video

RATE, SIZE = 8, (256, 192)
_SHOTS = (("hills", "city", "shelf"), ("trees", "boats", "bricks"), ("hills", "city", "quilt"))
_SHOT_S = 3.0


@dataclass(frozen=True, slots=True)
class Film:
    """What a film was made of."""

    data: bytes
    pictures: tuple[np.ndarray, ...]  # one per shot
    samples: np.ndarray
    text: str


def film(number: int) -> Film:
    """Three pictures that a camera pans over, and a voice that reads a text."""
    rng = np.random.default_rng([number, 71])
    pictures = tuple(scenes.paint(scene, SIZE[0] + 32, SIZE[1], rng)[0] for scene in _SHOTS[number % len(_SHOTS)])
    document = prose.document(number % 3, np.random.default_rng([number, 72]), num_sentences=1).text
    text = " ".join(document.split())
    (spoken,) = voices.speak([voices.utterance((text,), number)], seed=number)
    num = round(_SHOT_S * RATE)
    frames = [picture[:, round(32 * at / num) :][:, : SIZE[0]] for picture in pictures for at in range(num)]
    with tempfile.TemporaryDirectory() as folder:
        data = video(Path(folder) / "film.mp4", frames, rate=RATE, sound=[(0.0, spoken.samples)])
    return Film(data, tuple(picture[:, : SIZE[0]] for picture in pictures), spoken.samples, text)


def jpeg(pixels: np.ndarray, *, quality: int = 55, cut: float = 0.0, scale: float = 1.0) -> bytes:
    """The picture as JPEG. cut: fraction of each side that is cropped away."""
    picture = Image.fromarray(pixels)
    edge = [round(cut * side) for side in picture.size]
    picture = picture.crop((edge[0], edge[1], picture.width - edge[0], picture.height - edge[1]))
    picture = picture.resize((round(picture.width * scale), round(picture.height * scale)), Image.Resampling.LANCZOS)
    sink = io.BytesIO()
    picture.save(sink, "JPEG", quality=quality)
    return sink.getvalue()


def reworded(text: str, number: int, *, every: int = 12) -> str:
    """The text with every twelfth word replaced."""
    words = text.split()
    words[number % every :: every] = ["indeed"] * len(words[number % every :: every])
    return " ".join(words)


def landing(num_films: int = 3) -> tuple[dict[str, bytes], set[tuple[str, str, str]]]:
    """(files, the pairs that there are: file by itself, film, component). Of each film the keyframes are there as
    pictures, its sound and transcript as files; decoys are of the same subjects, scenes and voices."""
    films = [film(number) for number in range(num_films)]
    zone: dict[str, bytes] = {}
    truth: set[tuple[str, str, str]] = set()
    for at, one in enumerate(films):
        zone[f"films/{at}.mp4"], zone[f"films/{at}.txt"] = one.data, one.text.encode()
        first, second, third = one.pictures
        edits = {"scaled": jpeg(first, scale=0.7), "cropped": jpeg(second, cut=0.08), "poor": jpeg(third, quality=25)}
        recordings = {
            "whole.mp3": sounds.encoded(one.samples, "mp3"),
            "part.wav": sounds.encoded(one.samples[4 * 16_000 : 14 * 16_000], "wav"),
        }
        zone |= {f"pictures/{at}-{name}.jpg": data for name, data in edits.items()}
        zone |= {f"recordings/{at}-{name}": data for name, data in recordings.items()}
        zone[f"texts/{at}-article.jsonl"] = jsonl([reworded(one.text, at)])
        truth |= {(f"{at}-{name}", str(at), "keyframe") for name in edits}
        truth |= {(f"{at}-{name.partition('.')[0]}", str(at), "sound") for name in recordings}
        truth.add((f"{at}-article", str(at), "transcript"))
    for at in range(num_films, 2 * num_films):  # of no film that is there
        other = film(at)
        zone |= {f"pictures/{at}-{place}.jpg": jpeg(picture) for place, picture in enumerate(other.pictures)}
        zone[f"recordings/{at}-other.mp3"] = sounds.encoded(other.samples, "mp3")
        zone[f"texts/{at}-other.jsonl"] = jsonl([other.text])
    return zone, truth
