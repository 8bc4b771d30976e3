"""How far the pictures of films agree with their words and their sound, by encoders that the settings have weights of.

Enters: tracks of units. Leaves: two cosines of each, and why one is missing. Pictures and words lie in one space (CLIP,
SigLIP). Pictures and sounds have none in common: there both are compared with the same list of things, by an encoder
each that knows texts (CLIP, CLAP), and the cosine is that of the two profiles over the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmlake.border import IN_PROCESS, Failure, Runner
from mmlake.compute import Executor
from mmlake.embed import media as media_of
from mmlake.embed.embedding import Running
from mmlake.embed.encoders import ENCODERS, Encoder
from mmlake.embed.media import Media, evenly
from mmlake.embed.settings import EmbedSettings
from mmlake.spans import Shared
from mmlake.store import Blobs

PICTURE_TEXT, PICTURE_SOUND = "picture_text_cosine", "picture_sound_cosine"
REVISION = "1"  # of the way that cosines are taken; counted up when it gives other numbers
_PASSAGE_WORDS, _MAX_PASSAGES = 40, 8  # CLIP reads 77 tokens
# what is both visible and audible, of the classes that AudioSet and ImageNet share, and people at what they do
THINGS = (
    "a person talking", "a crowd of people", "a baby", "children playing", "a person singing", "a dog", "a cat",
    "a bird", "a horse", "a cow", "a sheep", "a pig", "a chicken", "a frog", "insects", "a lion", "a car", "a truck",
    "a motorcycle", "a bus", "a train", "an aeroplane", "a helicopter", "a boat", "a bicycle", "a fire engine",
    "rain", "a thunderstorm", "wind in trees", "a river", "waves on a beach", "a fire", "a guitar", "a piano",
    "a violin", "drums", "a trumpet", "a flute", "a church bell", "a clock", "a telephone", "a computer keyboard",
    "a door", "a kitchen", "frying food", "a hammer", "a saw", "a drill", "a gunshot", "fireworks", "glass breaking",
    "a football match", "a basketball game", "applause", "a dance", "a vacuum cleaner", "a washing machine",
    "a factory", "a tractor", "a video game", "silence", "a snowy landscape", "a street at night", "a speech on stage",
)  # fmt: skip
_SEEN, _SOUNDING = "a photo of {}", "the sound of {}"


@dataclass(frozen=True, slots=True)
class Cosine:
    """One number of a unit: the value, or why there is none; and who took it."""

    measure: str
    value: float | None
    note: str | None
    producer: str
    revision: str


def chosen(settings: EmbedSettings, encoders: Mapping[str, Encoder] = ENCODERS) -> dict[str, tuple[Encoder, ...]]:
    """Measure -> the encoders that take it: the first of the table that have weights in the settings; none where one
    is missing."""
    able = [row for row in encoders.values() if row.name in settings.models and "text" in row.modalities]
    seeing = [row for row in able if "video" in row.modalities][:1]
    by_sound = [row for row in able if "audio" in row.modalities][:1]
    return {PICTURE_TEXT: tuple(seeing), PICTURE_SOUND: (*seeing, *by_sound) if seeing and by_sound else ()}


def steers(settings: EmbedSettings, encoders: Mapping[str, Encoder] = ENCODERS) -> dict[str, str]:
    """What a stamp says of the encoders: measure -> their names and sources."""
    found = {}
    for measure, rows in chosen(settings, encoders).items():
        sources = [settings.models[row.name] for row in rows]
        named = [f"{row.name} {one.path} {one.revision}".strip() for row, one in zip(rows, sources, strict=True)]
        named += [settings.precision] if rows and settings.precision != "float32" else []
        frames = [f"{settings.keyframes_per_s:g}/s to {settings.max_keyframes}"] if rows else []
        found[f"agreement/{measure}"] = " + ".join([REVISION, *named, *frames])
    return found


def agreement(
    tracks: pa.Table,
    *,
    store: Blobs,
    executor: Executor,
    settings: EmbedSettings,
    encoders: Mapping[str, Encoder] = ENCODERS,
    runner: Runner = IN_PROCESS,
) -> Iterator[tuple[str, Cosine]]:
    """(digest, number) of both cosines of every unit. tracks: those that decoded, of films, units of one item next to
    each other. Raises ModelMissing where weights that the settings name are not there."""
    rows = chosen(settings, encoders)
    digests = tracks.column("digest").to_pylist()
    if not rows[PICTURE_TEXT] or not digests:
        yield from _without(digests, PICTURE_TEXT, "no encoder of pictures and texts in embed.models, such as clip")
        yield from _without(digests, PICTURE_SOUND, "no encoders of pictures and of sounds in embed.models")
        return
    run = _Run(tracks, store, executor, settings, runner)
    (seeing,) = rows[PICTURE_TEXT]
    seen = run.vectors(seeing, "pictures")
    yield from run.cosines(PICTURE_TEXT, seen, run.texts(seeing), (seeing,))
    if not rows[PICTURE_SOUND]:
        yield from _without(digests, PICTURE_SOUND, "no encoder of sounds and texts in embed.models, such as clap")
        return
    by_sound = rows[PICTURE_SOUND][1]
    sounding = run.vectors(by_sound, "sound")
    yield from run.cosines(
        PICTURE_SOUND,
        run.profiles(seeing, _SEEN, seen),
        run.profiles(by_sound, _SOUNDING, sounding),
        (seeing, by_sound),
    )


def _without(digests: Iterable[str], measure: str, note: str) -> Iterator[tuple[str, Cosine]]:
    for digest in digests:
        yield digest, Cosine(measure, None, note, "agreement", REVISION)


Vectors = dict[str, NDArray[Any] | Failure]


@dataclass(frozen=True, slots=True)
class _Run:
    """The tracks, and what their vectors are made with."""

    tracks: pa.Table
    store: Blobs
    executor: Executor
    settings: EmbedSettings
    runner: Runner

    def vectors(self, row: Encoder, reads: str) -> Vectors:
        """Digest -> the vector of its keyframes or its sound, or why it has none."""
        running = Running.start(row, self.executor, self.settings)
        with Shared() as shared:
            opened = partial(
                media_of.from_track, modality="video", reads=reads, store=self.store, shared=shared,
                settings=self.settings,
            )  # fmt: skip
            found = running.vectors(self._rows(), opened=opened, runner=self.runner)
            return {track["digest"]: made for track, made in found}

    def texts(self, row: Encoder) -> Vectors:
        """Digest -> the mean vector of passages of its transcript, or why it has none."""
        by_digest: dict[str, list[NDArray[Any]]] = {}
        failures: Vectors = {}
        parts = (
            (track["digest"], passage) for track in self._rows() for passage in passages(track["transcript"] or "")
        )
        for (digest, _), made in Running.start(row, self.executor, self.settings).vectors(parts, opened=_text):
            if isinstance(made, Failure):
                failures[digest] = made
            else:
                by_digest.setdefault(digest, []).append(np.asarray(made, np.float64))
        return {digest: np.mean(parts, axis=0) for digest, parts in by_digest.items()} | failures

    def profiles(self, row: Encoder, phrase: str, vectors: Vectors) -> Vectors:
        """Digest -> how much more it has to do with each of THINGS than with the others."""
        running = Running.start(row, self.executor, self.settings)
        phrases = [("", phrase.format(thing)) for thing in THINGS]
        made = dict(running.vectors(phrases, opened=_text))
        failed = next((one for one in made.values() if isinstance(one, Failure)), None)
        if failed is not None:
            return dict.fromkeys(vectors, failed)
        things = _units(np.array([made[one] for one in phrases], np.float64))
        return {
            digest: one if isinstance(one, Failure) else _centred(things @ _units(np.asarray(one, np.float64)))
            for digest, one in vectors.items()
        }

    def cosines(
        self, measure: str, left: Vectors, right: Vectors, rows: Sequence[Encoder]
    ) -> Iterator[tuple[str, Cosine]]:
        """The cosine of both vectors of each unit."""
        models = [Running.start(row, self.executor, self.settings).model for row in rows]
        producer = "+".join(row.name for row in rows)
        revision = "+".join(model.revision for model in models)
        for digest in self.tracks.column("digest").to_pylist():
            a, b = left.get(digest), right.get(digest)
            note = next((one.reason for one in (a, b) if isinstance(one, Failure)), None)
            value = None
            if note is None and (a is None or b is None):
                note = "no transcript to compare"
            elif note is None:
                value = round(float(_units(np.asarray(a, np.float64)) @ _units(np.asarray(b, np.float64))), 6)
            yield digest, Cosine(measure, value, note, producer, revision)

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        for batch in self.tracks.select(media_of.TRACK_COLUMNS).to_batches(max_chunksize=256):
            yield from batch.to_pylist()


def _text(part: tuple[str, str]) -> AbstractContextManager[Media]:
    """(digest, words) as an encoder reads them."""
    return nullcontext(Media(part[0] or "thing", "text", words=part[1]))


def passages(text: str) -> list[str]:
    """At most eight stretches of forty words, evenly chosen."""
    words = text.split()
    starts = evenly(list(range(0, len(words), _PASSAGE_WORDS)), _MAX_PASSAGES)
    return [" ".join(words[at : at + _PASSAGE_WORDS]) for at in starts]


def _units(vectors: NDArray[Any]) -> NDArray[Any]:
    units: NDArray[Any] = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    return units


def _centred(values: NDArray[Any]) -> NDArray[Any]:
    centred: NDArray[Any] = values - values.mean()
    return centred
