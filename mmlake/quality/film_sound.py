"""Sound of films: silence, speech and noise on the mono 16 kHz track, loudness on the channels of the film, which are
decoded once for all of its spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mmlake.errors import UnreadableItem
from mmlake.media.decoders import placed_sound
from mmlake.quality.audio import of_spans, silent_fraction, speech_fraction
from mmlake.quality.loudness import Loudness
from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.noise import snr_db
from mmlake.spans import Span

SOUND_MEASURES = ("silent_fraction", "snr_db", "speech_fraction", "loudness_lufs")


def sound_measures(subject: Subject) -> Measures:
    """The measures of a film's sound; null where it has none."""
    if subject.sound is None:
        return dict.fromkeys(SOUND_MEASURES)
    assert subject.path is not None
    return _measures(subject, _of_film(subject.path))


def sound_span_measures(subjects: Sequence[Subject]) -> Iterable[Measures]:
    """The measures of spans of one film, in order."""
    if subjects[0].sound is None:
        return (dict.fromkeys(SOUND_MEASURES) for _ in subjects)
    path, spans = subjects[0].path, [subject.span_s for subject in subjects if subject.span_s is not None]
    assert path is not None and len(spans) == len(subjects)
    return map(_measures, subjects, _of_film_spans(path, spans))


def _measures(subject: Subject, loudness: Loudness | None) -> Measures:
    """loudness: of the film's own channels; None where only the mono track can be read."""
    assert subject.sound is not None
    samples, rate_hz = subject.sound.samples()
    if loudness is None:
        loudness = Loudness()
        loudness.add(samples[:, None], rate_hz)
    return {
        "silent_fraction": silent_fraction(samples, rate_hz),
        "snr_db": snr_db(samples, subject.track["speech"]),
        "speech_fraction": speech_fraction(subject.track),
        "loudness_lufs": loudness.found(),
    }


def _of_film(path: Path) -> Loudness | None:
    found = Loudness()
    try:
        for rate_hz, _, block in placed_sound(path):
            found.add(block, rate_hz)
    except UnreadableItem:
        return None
    return found


def _of_film_spans(path: Path, spans: Sequence[Span]) -> Iterator[Loudness | None]:
    at = 0
    try:
        for found in of_spans(placed_sound(path, from_s=spans[0][0]), spans, Loudness):
            yield found
            at += 1
    except UnreadableItem:
        yield from (None for _ in spans[at:])


SOUND_MEASUREMENT = Measurement(
    name="sound",
    modalities=("video",),
    measures=SOUND_MEASURES,
    columns=("duration_s", "speech"),
    take=sound_measures,
    take_spans=sound_span_measures,
    revision="3",
    needs_file=True,
    needs_sound=True,
)
