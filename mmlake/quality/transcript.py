"""Transcripts of recordings and films: whether they match their sound, as the alignments step found it, and whether
all of their lines have a place in it, and whether somebody speaks where subtitles do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.rule import Rule

TRANSCRIPT_MATCH = "transcript_match"  # the measure, and the column of the tracks that it is read from
STRAY_CUES = "num_stray_cues"  # likewise
UNSPOKEN = "unspoken_cue_fraction"
WORDS_AGREEMENT = "words_agreement"
_MIN_CUES_S = 5.0  # of lines that speak; less is no evidence
_MIN_SPOKEN_S = 5.0  # and of speech: of a film that is signed, sung or silent the lines say nothing
_MIN_OPEN_FRACTION = 0.1  # of the unit that either leaves free: what is everywhere agrees with everything
_NO_SPEECH = re.compile(r"\[[^]]*\]|\([^)]*\)|[♪♫#].*")  # [door slams], (music), ♪ and what is sung


def transcript_measures(subject: Subject) -> Measures:
    """The confidence of the alignment, null where there is no transcript or none that can be judged; and the number of
    lines of subtitles that have no length, run backwards, or lie outside of the item or where it was not kept."""
    return {name: subject.track[name] for name in (TRANSCRIPT_MATCH, STRAY_CUES)}


def subtitle_measures(subject: Subject) -> Measures:
    """The share of the time of its subtitles in which nobody speaks, and how far they agree with the sound by the
    better of two measures. Null where no voice detector ran, where a recognizer wrote the lines, and where lines that
    speak last less than 5 s."""
    track = subject.track
    if track["speech"] is None or track["transcript_source"] != "source":
        return {UNSPOKEN: None, WORDS_AGREEMENT: None}
    lines = _merged(cue for cue in track["cues"] if re.search(r"\w", _spoken(cue["text"])))
    lines_s = _length_s(lines)
    if lines_s < _MIN_CUES_S:
        return {UNSPOKEN: None, WORDS_AGREEMENT: None}
    speech = _merged(track["speech"])
    both_s = sum(max(0.0, min(end_s, b_s) - max(start_s, a_s)) for start_s, end_s in lines for a_s, b_s in speech)
    alike = together(lines_s, _length_s(speech), both_s, track["duration_s"])
    said = track[TRANSCRIPT_MATCH]
    agreement = None if alike is None or said is None else max(alike, said)
    return {UNSPOKEN: 1 - both_s / lines_s, WORDS_AGREEMENT: agreement}


def _spoken(line: str) -> str:
    """The line without remarks. Brackets that nothing closes go first: at each the search would read up to the end."""
    for opening, closing in ("[]", "()"):
        last = line.rfind(closing) + 1
        line = line[:last] + line[last:].replace(opening, " ")
    return _NO_SPEECH.sub("", line)


def together(lines_s: float, speech_s: float, both_s: float, duration_s: float) -> float | None:
    """The correlation (phi) of two masks over a unit, of lines and of speech: 1 for lines that stand where somebody
    speaks and nowhere else, about 0 for those of another film. None where somebody speaks less than 5 s, or where
    either leaves less than a tenth of the unit free."""
    free = (1 - lines_s / duration_s, 1 - speech_s / duration_s) if duration_s > 0 else (0.0, 0.0)
    if speech_s < _MIN_SPOKEN_S or min(free) < _MIN_OPEN_FRACTION:
        return None
    a, b, ab = lines_s / duration_s, speech_s / duration_s, both_s / duration_s
    correlation: float = (ab - a * b) / (a * (1 - a) * b * (1 - b)) ** 0.5
    return correlation


def _length_s(spans: Sequence[tuple[float, float]]) -> float:
    return sum(end_s - start_s for start_s, end_s in spans)


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
    measures=(UNSPOKEN, WORDS_AGREEMENT),
    columns=("cues", "speech", "transcript_source", "duration_s", TRANSCRIPT_MATCH),
    take=subtitle_measures,
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

UNSPOKEN_CUES = Rule(
    name="unspoken_cues",
    error_code=4333,
    severity="P2",  # sound and picture may be fine: which of the three is another film's, nobody can say
    measure=UNSPOKEN,
    high=0.9,  # lines stay to be read; those that match leave less than half of their time unspoken
    what="The subtitles speak where nobody speaks: they, or the sound, belong to another film or another part of it.",
    fix="Compare the subtitles with the sound; subtitles of the right film that are late need their times corrected.",
)

FOREIGN_WORDS = Rule(
    name="foreign_words",
    error_code=4334,
    severity="P0",  # two measures that share no evidence say so: a sample of three tracks would teach what is wrong
    measure=WORDS_AGREEMENT,
    low=0.2,  # docs/quality.md: right ones measure .93 and more in clean speech, of another film .10, at most .32
    what="The subtitles belong to another film: they do not stand where somebody speaks, and are not what is said.",
    fix="Fetch the subtitles of this film, or land it without any; `mmlake review foreign_words` draws the units next "
    "to the bound.",
)
