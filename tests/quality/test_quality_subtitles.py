"""Subtitles that speak where nobody does: planted ones are flagged, and where nobody can know there is no number."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from quality_media import table_of, track

from mmlake.modalities import MODALITIES
from mmlake.quality import judge, measure
from mmlake.quality.transcript import FOREIGN_WORDS, SUBTITLE_MEASUREMENT, UNSPOKEN_CUES, together
from mmlake.store import BlobStore

Spans = list[tuple[float, float]]
LINES: Spans = [(0.0, 4.0), (10.0, 14.0), (20.0, 22.0)]  # 10 s


def judged(tmp_path, speech: Spans | None, *, lines: Spans = LINES, text: str = "Come in.", source: str = "source"):
    """(the measure, the verdict of the rule alone)."""
    cues = [{"text": text, "start_s": start_s, "end_s": end_s} for start_s, end_s in lines]
    spoken = None if speech is None else [{"start_s": start_s, "end_s": end_s} for start_s, end_s in speech]
    row = track("a" * 64, "video", duration_s=30.0, cues=cues, speech=spoken, transcript_source=source)
    tracks = table_of([row])
    measures = measure(tracks, [SUBTITLE_MEASUREMENT], store=BlobStore(tmp_path / "store"))
    (verdict,) = judge(tracks, measures, [UNSPOKEN_CUES]).to_pylist()
    values = {one["measure"]: one["value"] for one in measures.to_pylist()}
    return values["unspoken_cue_fraction"], verdict


@pytest.mark.parametrize(
    "speech, unspoken, status",
    [
        ([], 1.0, "flagged"),
        ([(5.0, 9.0), (15.0, 19.0), (23.0, 30.0)], 1.0, "flagged"),  # of another film
        ([(3.0, 4.0)], 0.9, "flagged"),
        ([(2.9, 4.0)], 0.89, "ok"),
        ([(0.5, 3.0), (2.0, 3.5), (10.0, 13.0), (20.0, 21.0)], 0.3, "ok"),  # lines stay to be read
        ([(0.0, 30.0)], 0.0, "ok"),
    ],
)
def test_the_share_of_lines_over_which_nobody_speaks(tmp_path, speech: Spans, unspoken: float, status: str) -> None:
    value, verdict = judged(tmp_path, speech)
    assert value == pytest.approx(unspoken) and verdict["status"] == status


def test_what_is_flagged_has_its_code_and_a_smaller_weight(tmp_path) -> None:
    _, verdict = judged(tmp_path, [])
    assert (verdict["error_code"], verdict["severity"], verdict["weight"]) == (4333, "P2", 0.5)
    assert verdict["reason"] == "unspoken_cue_fraction=1 not in (-inf, 0.9)"
    assert UNSPOKEN_CUES in MODALITIES["video"].rules


@pytest.mark.parametrize(
    "given",
    [
        {"speech": None},
        {"speech": [], "source": "asr:whisper@1"},
        {"speech": [], "lines": []},
        {"speech": [], "lines": [(0.0, 4.9)]},
        {"speech": [], "lines": [(0.0, 4.9), (0.0, 4.9)]},
        {"speech": [], "lines": [(9.0, 2.0)]},
        {"speech": [], "text": "[door slams]"},
        {"speech": [], "text": "(music playing)\n♪ Over the sea ♪"},
    ],
    ids=["no detector", "recognized", "no lines", "too little", "one over the other", "backwards", "sounds", "song"],
)
def test_without_evidence_there_is_no_number(tmp_path, given: dict) -> None:
    value, verdict = judged(tmp_path, **given)
    assert (value, verdict["status"]) == (None, "ok")


SPOKEN: Spans = [(5.0, 9.0), (15.0, 19.0), (23.0, 28.0)]  # 13 s, none of them under a line


@pytest.mark.parametrize(
    "speech, match, agreement, status",
    [
        (SPOKEN, 0.02, 0.02, "quarantined"),  # nobody speaks where they stand, nor says what they say
        (SPOKEN, 0.25, 0.25, "ok"),  # late, but said
        (LINES, 0.02, 1.0, "ok"),  # doubted by the aligner, in a room that reverberates
        ([(0.0, 4.0)], 0.0, None, "ok"),  # signed or sung: hardly anybody speaks
        ([(0.0, 29.9)], 0.0, None, "ok"),  # speech everywhere agrees with everything
        (SPOKEN, None, None, "ok"),  # a language that cannot be judged
    ],
)
def test_subtitles_of_another_film_never_enter(tmp_path, speech: Spans, match, agreement, status: str) -> None:
    cues = [{"text": "Come in.", "start_s": start_s, "end_s": end_s} for start_s, end_s in LINES]
    spoken = [{"start_s": start_s, "end_s": end_s} for start_s, end_s in speech]
    row = track("a" * 64, "video", duration_s=30.0, cues=cues, speech=spoken, transcript_source="source")
    tracks = table_of([row])
    parents = tracks.column("parent_digest").to_pylist()
    alignments = pa.table({"digest": parents, "confidence": pa.array([match], pa.float64())})
    measures = measure(tracks, [SUBTITLE_MEASUREMENT], store=BlobStore(tmp_path / "store"), alignments=alignments)
    values = {one["measure"]: one["value"] for one in measures.to_pylist()}
    (verdict,) = judge(tracks, measures, [FOREIGN_WORDS]).to_pylist()
    assert values["words_agreement"] == (None if agreement is None else pytest.approx(agreement, abs=0.1))
    assert (verdict["status"], verdict["severity"]) == (status, "P0" if status == "quarantined" else None)


def test_the_correlation_of_lines_and_speech_is_that_of_two_masks() -> None:
    lines, speech = np.zeros(1000), np.zeros(1000)
    lines[100:400], speech[250:700] = 1, 1
    assert together(30.0, 45.0, 15.0, 100.0) == pytest.approx(np.corrcoef(lines, speech)[0, 1])
