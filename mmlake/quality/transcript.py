"""Transcripts of recordings and films: whether they match their sound, as the alignments step found it, and whether
all of their lines have a place in it, and whether somebody speaks where subtitles do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.rule import Rule

TRANSCRIPT_MATCH = "transcript_match"  # the measure, and the column of the tracks that it is read from
STRAY_CUES = "num_stray_cues"  # likewise
UNSPOKEN = "unspoken_cue_fraction"
_MIN_CUES_S = 5.0  # of lines that speak; less is no evidence
_NO_SPEECH = re.compile(r"\[[^]]*\]|\([^)]*\)|[♪♫#].*")  # [door slams], (music), ♪ and what is sung


def transcript_measures(subject: Subject) -> Measures:
    """The confidence of the alignment, null where there is no transcript or none that can be judged; and the number of
    lines of subtitles that have no length, run backwards, or lie outside of the item or where it was not kept."""
    return {name: subject.track[name] for name in (TRANSCRIPT_MATCH, STRAY_CUES)}


def subtitle_measures(subject: Subject) -> Measures:
    """The share of the time of its subtitles in which nobody speaks. Null where no voice detector ran, where a
    recognizer wrote the lines, and where lines that speak last less than 5 s."""
    track = subject.track
    if track["speech"] is None or track["transcript_source"] != "source":
        return {UNSPOKEN: None}
    lines = _merged(cue for cue in track["cues"] if re.search(r"\w", _NO_SPEECH.sub("", cue["text"])))
    total_s = sum(end_s - start_s for start_s, end_s in lines)
    if total_s < _MIN_CUES_S:
        return {UNSPOKEN: None}
    speech = _merged(track["speech"])
    spoken_s = sum(max(0.0, min(end_s, b_s) - max(start_s, a_s)) for start_s, end_s in lines for a_s, b_s in speech)
    return {UNSPOKEN: 1 - spoken_s / total_s}


def _merged(spans: Iterable[Mapping[str, float]]) -> list[tuple[float, float]]:
    """The spans in order, those that overlap as one, without those that have no length."""
    found: list[tuple[float, float]] = []
    for start_s, end_s in sorted((one["start_s"], one["end_s"]) for one in spans if one["start_s"] < one["end_s"]):
        if found and start_s <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end_s))
        else:
            found.append((start_s, end_s))
    return found


TRANSCRIPT_MEASUREMENT = Measurement(
    name="transcript",
    modalities=("audio", "video"),
    measures=(TRANSCRIPT_MATCH, STRAY_CUES),
    columns=(TRANSCRIPT_MATCH, STRAY_CUES),
    take=transcript_measures,
    revision="2",
)

SUBTITLE_MEASUREMENT = Measurement(
    name="subtitles",
    modalities=("video",),
    measures=(UNSPOKEN,),
    columns=("cues", "speech", "transcript_source"),
    take=subtitle_measures,
)

WRONG_TRANSCRIPT = Rule(
    name="wrong_transcript",
    error_code=4002,
    severity="P2",  # the medium is fine: flagged, not quarantined
    measure=TRANSCRIPT_MATCH,
    low=0.5,
    what="The transcript does not match: the sound does not say it, says more or something else, or holds no speech.",
    fix="Compare the transcript with the recording; the medium itself is fine.",
)

STRAY_LINES = Rule(
    name="stray_cues",
    error_code=4003,
    severity="P2",
    measure=STRAY_CUES,
    high=1,
    what="Lines of the subtitles have no length, end before they start, lie behind the end or in a gap: they are in no "
    "clip.",
    fix="Correct their times; `tracks.cues` of the item lists them all.",
)

UNSPOKEN_CUES = Rule(
    name="unspoken_cues",
    error_code=4333,
    severity="P2",  # sound and picture may be fine: which of the three is another film's, nobody can say
    measure=UNSPOKEN,
    high=0.9,  # lines stay to be read; those that match leave less than half of their time unspoken
    what="The subtitles speak where nobody speaks: they, or the sound, belong to another film or another part of it.",
    fix="Compare the subtitles with the sound; subtitles of the right film that are late need their times corrected.",
)
