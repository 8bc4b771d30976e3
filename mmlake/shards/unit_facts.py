"""What a sample says of a film, a recording or a span of one: its sound, keyframes and words, on its own clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

# facts that versions of earlier releases are not pinned to: neither digest nor JSON name them where they are empty, so
# that the shards of such a version stay what they were
LATER_FIELDS = ("shots", "turns")
OF_MODELS = ("caption", "event_tags", "events", "captioned_by", "corrections", "corrected_by")


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitFacts:
    """The facts of one unit. All times are seconds from its beginning."""

    audio_digest: str | None = None  # mono 16 kHz FLAC of the whole item
    duration_s: float | None = None
    start_frame: int | None = None  # spans of films: their frames in the item
    end_frame: int | None = None
    keyframes: Sequence[Mapping[str, Any]] = field(default_factory=list)  # time_s, digest of a JPEG
    words: Sequence[Mapping[str, Any]] = field(default_factory=list)  # word, start_s, end_s, score
    cues: Sequence[Mapping[str, Any]] = field(default_factory=list)  # text, start_s, end_s, score
    transcript: str | None = None
    turns: Sequence[Mapping[str, Any]] = field(default_factory=list)  # speaker, start_s, end_s, confidence
    transcript_match: float | None = None  # confidence that the item's sound says its transcript, 0..1
    shots: Sequence[Mapping[str, Any]] = field(default_factory=list)  # of films: start_s, end_s, transition
    caption: str | None = None  # what a model says of a clip
    event_tags: Sequence[str] = ()
    events: Sequence[Mapping[str, Any]] = ()  # start_s, end_s, text
    captioned_by: str | None = None  # producer:model@revision
    corrections: Sequence[Mapping[str, Any]] = ()  # lines of the transcript: start_s, end_s, text, corrected
    corrected_by: str | None = None  # producer:model@revision

    def of_models(self) -> dict[str, Any]:
        """What models say of the unit, as far as they say something: units that no model was asked about have the
        bytes and digests that they always had."""
        found = {name: getattr(self, name) for name in OF_MODELS}
        found |= {name: [dict(one) for one in found[name]] for name in ("events", "corrections")}
        return {name: list(value) if name == "event_tags" else value for name, value in found.items() if value}

    def unsaid(self) -> UnitFacts:
        """The same without the words that are spoken in it."""
        return replace(
            self, words=(), cues=(), transcript=None, transcript_match=None, corrections=(), corrected_by=None
        )

    @property
    def said(self) -> str:
        """What is said in the unit: its cues, else its words."""
        return self.transcript or " ".join(str(word["word"]) for word in self.words)


class Held(NamedTuple):
    """What a unit has, without what it is."""

    sound: bool = False
    keyframes: bool = False


class Tracks(Protocol):
    """Where facts are found by the digest of a unit."""

    def held(self, digest: str) -> Held:
        """What the unit has; nothing where it is not known."""

    def facts(self, digest: str) -> UnitFacts:
        """The unit's facts; empty ones where it is not known."""
