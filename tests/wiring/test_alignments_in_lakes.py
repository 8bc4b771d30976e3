"""Alignments within a lake: a table of audio and video alone, made without decoding, judged, and tried again."""

from __future__ import annotations

import io
import shutil

import numpy as np
import pytest
import soundfile

from mmlake import pipeline
from mmlake.border import InProcess
from mmlake.compute import Executor
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES
from mmlake.preprocess.transcripts import align
from mmlake.sample import voices
from mmlake.settings import Settings
from mmlake.steps import row_steps, run_step
from mmlake.tables import Slot, Stamp
from mmlake.upkeep import failed_rows, request_retries
from tests import make

RIGHT = "Fresh apples and warm bread stood on the long table"
WRONG = "Nobody remembered where the green bicycle had been left"
STEPS = ["items", "blobs", "tracks", "units", "measures", "verdicts", "fingerprints", "embeddings"]
SOUND_STEPS = [*STEPS[:3], "alignments", "speakers", *STEPS[3:], "component_fingerprints", "captions"]


@pytest.fixture(scope="module")
def landed(tmp_path_factory):
    """One recording with the words that are spoken in it, and one with others."""
    if voices.engine() != "espeak-ng":
        pytest.skip("espeakng-loader is not installed: there is no voice with words")
    files: dict[str, bytes] = {}
    for number, (name, text) in enumerate((("right", RIGHT), ("wrong", WRONG))):
        (speech,) = voices.speak([voices.utterance((RIGHT,), number)], seed=number)
        sink = io.BytesIO()
        soundfile.write(sink, speech.samples, voices.RATE_HZ, format="WAV")
        files |= {f"{name}.wav": sink.getvalue(), f"{name}.txt": text.encode()}
    return make.land(tmp_path_factory.mktemp("landed") / "landing", {"audio/a.tar": make.tar(files)})


@pytest.fixture
def opened(landed, tmp_path):
    """Opens the lake with these settings."""
    shutil.copytree(landed, tmp_path / "landing")

    def lake(**settings: dict[str, object]) -> Lake:
        return Lake(
            tmp_path / "lake",
            landing=tmp_path / "landing",
            settings=Settings.of(settings),
            executor=Executor("cpu"),
            runner=InProcess(),
        )

    pipeline.refresh(lake())
    return lake


def run(lake: Lake) -> dict[str, Stamp]:
    """The stamps of the sound's tables up to the verdicts."""
    steps = row_steps(MODALITIES["audio"])[:8]
    return {step.name: run_step(step, lake, "audio", lake.registry.keys("audio")[0]).stamp for step in steps}


def by_transcript(lake: Lake, table: str) -> dict[str, dict]:
    """The rows of the table by the first word of their transcript."""
    digests = {row["digest"]: row["transcript"] for row in lake.tables.concat("tracks", "audio").to_pylist()}
    return {digests[row["digest"]].split()[0]: row for row in lake.tables.concat(table, "audio").to_pylist()}


@pytest.mark.parametrize("modality", MODALITIES)
def test_only_what_is_spoken_has_the_step(modality):
    expected = SOUND_STEPS if modality in ("audio", "video") else STEPS
    assert [step.name for step in row_steps(MODALITIES[modality])] == expected


def test_a_wrong_transcript_is_a_flagged_verdict_and_a_right_one_has_word_times(opened):
    lake = opened()
    run(lake)
    found, verdicts = by_transcript(lake, "alignments"), by_transcript(lake, "verdicts")
    assert [word["word"] for word in found["Fresh"]["words"]] == RIGHT.split()
    assert (found["Nobody"]["status"], found["Nobody"]["error_code"], found["Nobody"]["words"]) == ("flagged", 3201, [])
    assert (verdicts["Nobody"]["status"], verdicts["Nobody"]["error_code"]) == ("flagged", 4002)
    assert verdicts["Fresh"]["status"] == "ok"


def test_a_changed_alignment_decodes_nothing_again(opened):
    before = run(opened())
    after = run(opened(align={"min_known_fraction": 0.6}))
    assert [name for name in before if before[name] != after[name]] == ["alignments"]
    loosened = run(opened(align={"min_judged_phones": 500, "min_transcript_match": 0.9999999}))
    changed = [name for name in before if before[name] != loosened[name]]
    assert changed == ["alignments", "units", "measures", "verdicts"]


def test_a_failed_alignment_is_a_dead_letter_and_is_tried_again_alone(opened, monkeypatch):
    lake, original = opened(), align.Aligner.align
    good = run(lake)
    lake.tables.remove(Slot("alignments", "audio", lake.registry.keys("audio")[0]))

    def failing(self, flac, cues, speech=()):
        if cues[0].text == RIGHT:
            raise RuntimeError("of the model")
        return original(self, flac, cues, speech)

    monkeypatch.setattr(align.Aligner, "align", failing)
    run(lake)
    (letter,) = failed_rows(lake)
    assert (letter["stage"], letter["error_code"], letter["name"]) == ("preprocess", 3203, "alignment_failed")
    assert letter["letter"] == f"audio/alignments/{letter['shard']}/{letter['key']}"
    monkeypatch.undo()
    tried: list[np.ndarray | str] = []

    def trying(self, flac, cues, speech=()):
        tried.append(cues[0].text)
        return original(self, flac, cues, speech)

    monkeypatch.setattr(align.Aligner, "align", trying)
    assert request_retries(lake, [letter]) == 1
    again = run(lake)
    assert tried == [RIGHT]
    assert again["alignments"].data_version == good["alignments"].data_version
    assert again["tracks"] == good["tracks"]
    assert failed_rows(lake) == []
