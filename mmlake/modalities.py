"""THE table: one row per modality, one column per stage. Read this first.

A column holds what the stage does with the modality: its decoder, measurements, rules, tiers, default encoder. Every
asset, partition set and command is made from this table. Encoders and connectors have tables of their own, because one
row of theirs serves several modalities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from mmlake.captions import captions
from mmlake.dedup import Criterion, Tier, criteria_of, tiers_of
from mmlake.embed.aesthetics import AESTHETIC
from mmlake.embed.agreement import PICTURE_SOUND, PICTURE_TEXT
from mmlake.preprocess import (
    AUDIO_DECODER,
    FILM_SPLITTER,
    IMAGE_DECODER,
    RECORDING_SPLITTER,
    TEXT_DECODER,
    VIDEO_DECODER,
    Decoder,
    Splitter,
    alignments,
)
from mmlake.quality import (
    AUDIO_MEASUREMENTS,
    AUDIO_RULES,
    IMAGE_MEASUREMENTS,
    IMAGE_RULES,
    TEXT_MEASUREMENTS,
    TEXT_RULES,
    VIDEO_MEASUREMENTS,
    VIDEO_RULES,
    Measurement,
    Rule,
    Scorer,
)
from mmlake.records import CAPTION
from mmlake.schemas.cross import KEYFRAME, SOUND, TRANSCRIPT
from mmlake.voices import speakers


@dataclass(frozen=True, kw_only=True, slots=True)
class Modality:
    """What the lake does with one kind of data."""

    name: str
    description: str
    decoder: Decoder  # preprocess: an item's bytes to columns of `tracks`
    # preprocess: tracks to `alignments`, transcripts laid on their sound; None where nothing is spoken
    aligner: Callable[..., pa.Table] | None = None
    # voices: tracks to `speakers`, who speaks when; None where nothing is spoken
    diarizer: Callable[..., pa.Table] | None = None
    # preprocess: how long items are cut to `units`; None where every item is one
    splitter: Splitter | None = None
    # captions: units to `captions`, what language models say of them; None where there is nothing to say
    captioner: Callable[..., pa.Table] | None = None
    measurements: tuple[Measurement, ...]  # quality: the numbers that rules judge
    # embed: measures that encoders of the settings take: how far the tracks of a unit agree, how much people like it
    model_measures: tuple[str, ...] = ()
    # embed: the role of texts that say what it shows or sounds like, which are compared with it; None: of none
    described_by: str | None = None
    rules: tuple[Rule, ...]  # quality: the range of each number that is fine
    scorers: tuple[Scorer, ...] = ()  # quality: numbers that a model gives; none is built in
    tiers: tuple[Tier, ...]  # dedup: the ways to find near duplicates, at least one
    survivors: tuple[Criterion, ...]  # dedup: which of several duplicates stays, what counts first first
    # dedup across modalities: component that its items carry -> the modality whose tiers compare it
    components: Mapping[str, str] | None = None
    # the component of films, and of recordings, that is of this modality; None where they carry none
    in_films: str | None = None
    in_recordings: str | None = None
    encoder: str  # embed: its default row of ENCODERS; settings.embed may choose another


MODALITIES: dict[str, Modality] = {
    row.name: row
    for row in (
        Modality(
            name="text",
            description="documents, captions and transcripts",
            decoder=TEXT_DECODER,
            measurements=TEXT_MEASUREMENTS,
            rules=TEXT_RULES,
            tiers=tiers_of("text"),
            survivors=criteria_of("text"),
            in_films=TRANSCRIPT,
            in_recordings=TRANSCRIPT,
            encoder="minilm-l6",
        ),
        Modality(
            name="image",
            description="still pictures",
            decoder=IMAGE_DECODER,
            measurements=IMAGE_MEASUREMENTS,
            model_measures=(AESTHETIC,),
            described_by=CAPTION,
            rules=IMAGE_RULES,
            tiers=tiers_of("image"),
            survivors=criteria_of("image"),
            in_films=KEYFRAME,
            encoder="colour-gradient",
        ),
        Modality(
            name="video",
            description="moving pictures, with or without sound",
            decoder=VIDEO_DECODER,
            aligner=alignments,
            diarizer=speakers,
            splitter=FILM_SPLITTER,
            captioner=partial(captions, describes=True),
            measurements=VIDEO_MEASUREMENTS,
            model_measures=(PICTURE_TEXT, PICTURE_SOUND, AESTHETIC),
            described_by=CAPTION,
            rules=VIDEO_RULES,
            tiers=tiers_of("video"),
            survivors=criteria_of("video"),
            components={KEYFRAME: "image", SOUND: "audio", TRANSCRIPT: "text"},
            encoder="frame-motion",
        ),
        Modality(
            name="audio",
            description="sound files",
            decoder=AUDIO_DECODER,
            aligner=alignments,
            diarizer=speakers,
            splitter=RECORDING_SPLITTER,
            captioner=partial(captions, describes=False),
            measurements=AUDIO_MEASUREMENTS,
            described_by=CAPTION,
            rules=AUDIO_RULES,
            tiers=tiers_of("audio"),
            survivors=criteria_of("audio"),
            components={TRANSCRIPT: "text"},
            in_films=SOUND,
            encoder="mel-statistics",
        ),
    )
}
