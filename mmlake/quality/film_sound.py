"""Sound of films: speech and noise on the mono 16 kHz track, loudness and silence on the channels of the film, which
are decoded once for all of its spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mmlake.errors import UnreadableItem
from mmlake.media.decoders import placed_sound
from mmlake.quality.audio import of_spans, speech_fraction
from mmlake.quality.loudness import Loudness
from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.noise import snr_db
from mmlake.quality.silence import Silence
from mmlake.spans import Span

SOUND_MEASURES = ("silent_fraction", "snr_db", "speech_fraction", "loudness_lufs")


@dataclass(slots=True)
class _Channels:
    """What is known of the film's own channels so far."""

    loudness: Loudness = field(default_factory=Loudness)
    silence: Silence = field(default_factory=Silence)

    def add(self, block: np.ndarray, rate_hz: int) -> None:
        """Take the next block."""
        self.loudness.add(block, rate_hz)
        self.silence.add(block, rate_hz)


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


def _measures(subject: Subject, channels: _Channels | None) -> Measures:
    """channels: of the film; None where only the mono track can be read."""
    assert subject.sound is not None
    samples, rate_hz = subject.sound.samples()
    if channels is None:
        channels = _Channels()
        channels.add(samples[:, None], rate_hz)
    return {
        "silent_fraction": channels.silence.fraction(len(samples) / rate_hz),
        "snr_db": snr_db(samples, subject.track["speech"]),
        "speech_fraction": speech_fraction(subject.track),
        "loudness_lufs": channels.loudness.found(),
    }


def _of_film(path: Path) -> _Channels | None:
    found = _Channels()
    try:
        for rate_hz, _, block in placed_sound(path):
            found.add(block, rate_hz)
    except UnreadableItem:
        return None
    return found


def _of_film_spans(path: Path, spans: Sequence[Span]) -> Iterator[_Channels | None]:
    at = 0
    try:
        for found in of_spans(placed_sound(path, from_s=spans[0][0]), spans, _Channels):
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
    revision="4",
    needs_file=True,
    needs_sound=True,
)
