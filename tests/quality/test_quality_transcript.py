"""The rule on transcripts: what the alignments say is a measure, and a low one flags the item."""

from __future__ import annotations

import numpy as np
import pytest
from quality_media import audio_track, table_of

from mmlake import schemas
from mmlake.modalities import MODALITIES
from mmlake.quality import judge, measure
from mmlake.store import BlobStore


@pytest.fixture
def store(tmp_path) -> BlobStore:
    return BlobStore(tmp_path / "store")


def judged(store: BlobStore, confidence: float | None, *, has_row: bool = True) -> tuple[float | None, dict]:
    """(the measure, the verdict) of a clean recording whose alignment has this confidence."""
    rng, time = np.random.default_rng(0), np.arange(32_000) / 16_000
    row = audio_track(
        store, 0.3 * np.sin(2 * np.pi * 200 * time) * (np.sin(3 * time) > 0) + rng.normal(0, 1e-4, 32_000)
    )
    tracks = table_of([row])
    alignment = {
        "digest": row["digest"],
        "transcript_digest": "t",
        "method": "m",
        "revision": "1",
        "status": "ok",
        "confidence": confidence,
    }
    found = schemas.from_rows(schemas.ALIGNMENTS, [alignment] if has_row else [])
    audio = MODALITIES["audio"]
    measures = measure(tracks, audio.measurements, store=store, alignments=found)
    values = {one["measure"]: one["value"] for one in measures.to_pylist()}
    (verdict,) = judge(tracks, measures, audio.rules).to_pylist()
    return values["transcript_match"], verdict


@pytest.mark.parametrize(("confidence", "status"), [(0.49, "flagged"), (0.5, "ok"), (0.0, "flagged"), (1.0, "ok")])
def test_a_transcript_that_does_not_match_flags_its_recording(store, confidence, status):
    value, verdict = judged(store, confidence)
    assert (value, verdict["status"]) == (confidence, status)


def test_the_finding_has_a_code_of_its_own_and_the_value(store):
    _, verdict = judged(store, 0.25)
    assert [(one["rule"], one["error_code"]) for one in verdict["findings"]] == [("wrong_transcript", 4002)]
    assert verdict["reason"] == "transcript_match=0.25 not in [0.5, inf)"
    assert verdict["weight"] > 0


@pytest.mark.parametrize("has_row", [True, False], ids=["not judged", "no transcript"])
def test_what_nobody_judged_breaks_no_rule(store, has_row):
    value, verdict = judged(store, None, has_row=has_row)
    assert (value, verdict["status"]) == (None, "ok")


def test_the_rule_is_that_of_everything_that_is_aligned_and_of_nothing_else():
    with_rule = {name for name, row in MODALITIES.items() if any(rule.error_code == 4002 for rule in row.rules)}
    assert with_rule == {name for name, row in MODALITIES.items() if row.aligner is not None} == {"audio", "video"}
