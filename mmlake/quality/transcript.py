"""Transcripts of recordings and films: whether they match their sound, as the alignments step found it."""

from __future__ import annotations

from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.rule import Rule

TRANSCRIPT_MATCH = "transcript_match"  # the measure, and the column of the tracks that it is read from


def transcript_measures(subject: Subject) -> Measures:
    """The confidence of the alignment; null where there is no transcript, or none that can be judged."""
    return {TRANSCRIPT_MATCH: subject.track[TRANSCRIPT_MATCH]}


TRANSCRIPT_MEASUREMENT = Measurement(
    name="transcript",
    modalities=("audio", "video"),
    measures=(TRANSCRIPT_MATCH,),
    columns=(TRANSCRIPT_MATCH,),
    take=transcript_measures,
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
