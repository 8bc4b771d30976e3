"""Recordings as semantic duplicates: renditions of one are, another voice of the same length and loudness is not."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from mmlake import dedup, schemas
from mmlake.dedup import DedupSettings
from mmlake.embed import ENCODERS, classical
from mmlake.parts import BUILT_IN
from tests.dedup.test_dedup_audio import RATE, voice

ENCODER = ENCODERS["mel-statistics"]


def table_of(sounds: dict[str, np.ndarray]) -> tuple[pa.Table, dict[str, str]]:
    """(vectors of the recordings as the encoder makes them, digest -> name)."""
    names = {hashlib.sha256(name.encode()).hexdigest(): name for name in sounds}
    rows = [
        {
            "digest": digest,
            "encoder": ENCODER.name,
            "revision": ENCODER.revision,
            "dimension": ENCODER.dimension,
            "vector": classical.sound(sounds[name]).tolist(),
            "status": "ok",
        }
        for digest, name in names.items()
    ]
    return schemas.from_rows(schemas.EMBEDDINGS, rows), names


def louder(sound: np.ndarray) -> np.ndarray:
    return (1.8 * sound).clip(-1, 1).astype(np.float32)


def later(sound: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(RATE // 5, np.float32), sound])


def in_noise(sound: np.ndarray) -> np.ndarray:
    """45 dB below the voice, as a second microphone has it."""
    noise = np.random.default_rng(9).standard_normal(len(sound))
    return (sound + noise * sound.std() * 10 ** (-45 / 20)).astype(np.float32)


@pytest.mark.parametrize("rendition", [louder, later, in_noise])
def test_a_rendition_of_a_recording_is_a_semantic_duplicate_and_other_voices_are_none(rendition) -> None:
    """At the encoder's own bound."""
    sounds = {f"voice {seed}": voice(seed, 6.0) for seed in range(12)}
    table, names = table_of(sounds | {"again": rendition(sounds["voice 4"])})
    pairs = dedup.semantic_pairs(table, BUILT_IN.semantic_bounds, settings=DedupSettings())
    found = {frozenset((names[row["left"]], names[row["right"]])) for row in pairs.to_pylist()}
    assert found == {frozenset(("voice 4", "again"))}
