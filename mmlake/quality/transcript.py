"""Transcripts of recordings and films: whether they match their sound, as the alignments step found it, and whether
all of their lines have a place in it."""

from __future__ import annotations

from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.rule import Rule

TRANSCRIPT_MATCH = "transcript_match"  # the measure, and the column of the tracks that it is read from


STRAY_CUES = "num_stray_cues"  # likewise


def transcript_measures(subject: Subject) -> Measures:
    """The confidence of the alignment, null where there is no transcript or none that can be judged; and the number of
    lines of subtitles that have no length, run backwards, or lie outside of the item or where it was not kept."""
    return {name: subject.track[name] for name in (TRANSCRIPT_MATCH, STRAY_CUES)}


TRANSCRIPT_MEASUREMENT = Measurement(
    name="transcript",
    modalities=("audio", "video"),
    measures=(TRANSCRIPT_MATCH, STRAY_CUES),
    columns=(TRANSCRIPT_MATCH, STRAY_CUES),
    take=transcript_measures,
    revision="2",
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
