"""What encoders of which the settings have weights say of units: how far the pictures of films agree with their words
and their sound, and how much people would like the pictures.

Enters: tracks of units. Leaves: numbers of each, and why one is missing. Pictures and words lie in one space (CLIP,
SigLIP). Pictures and sounds have none in common: there both are compared with the same list of things, by an encoder
each that knows texts (CLIP, CLAP), and the cosine is that of the two profiles over the list. The aesthetic score is
that of a head on the vectors of CLIP (`aesthetics.py`), of films the mean over their keyframes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmlake.border import IN_PROCESS, Failure, Runner
from mmlake.compute import Executor
from mmlake.embed import media as media_of
from mmlake.embed.aesthetics import AESTHETIC, AestheticHead
from mmlake.embed.embedding import Running
from mmlake.embed.encoders import ENCODERS, Encoder
from mmlake.embed.media import Media, evenly, picture_blobs
from mmlake.embed.settings import EmbedSettings
from mmlake.spans import Shared
from mmlake.store import Blobs

PICTURE_TEXT, PICTURE_SOUND = "picture_text_cosine", "picture_sound_cosine"
REVISION = "2"  # of the way that numbers are taken; counted up when it gives other numbers
_DECIMALS = 4  # of what is taken: below lies the noise of which pictures share a batch
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
_NO_HEAD = "no head of CLIP in quality.aesthetic_head, or no clip in embed.models"
_NOTHING_SEEN = Failure(5003, "num_keyframes=0 not in [1, inf)")


@dataclass(frozen=True, slots=True)
class ModelMeasure:
    """One number of a unit: the value, or why there is none; and who took it."""

    measure: str
    value: float | None
    note: str | None
    producer: str
    revision: str


def chosen(settings: EmbedSettings, encoders: Mapping[str, Encoder] = ENCODERS) -> dict[str, tuple[Encoder, ...]]:
    """Measure -> the encoders that take it: the first of the table that have weights in the settings; none where one
    is missing. A head is of CLIP alone: of other vectors of as many numbers it gives noise."""
    able = [row for row in encoders.values() if row.name in settings.models]
    seeing = [row for row in able if row.knows_texts_of("video")][:1]
    by_sound = [row for row in able if row.knows_texts_of("audio")][:1]
    return {
        PICTURE_TEXT: tuple(seeing),
        PICTURE_SOUND: (*seeing, *by_sound) if seeing and by_sound else (),
        AESTHETIC: tuple(row for row in seeing if row.name == "clip"),
    }


def steers(
    measures: Sequence[str], settings: EmbedSettings, encoders: Mapping[str, Encoder] = ENCODERS, *, head: str = ""
) -> dict[str, str]:
    """What a stamp says of the encoders, and of the head, that take these measures."""
    found = {}
    for measure, rows in chosen(settings, encoders).items():
        if measure not in measures:
            continue
        rows = rows if head or measure != AESTHETIC else ()
        sources = [settings.models[row.name] for row in rows]
        named = [f"{row.name} {one.path} {one.revision}".strip() for row, one in zip(rows, sources, strict=True)]
        named += [head] if rows and measure == AESTHETIC else []
        named += [settings.precision] if rows and settings.precision != "float32" else []
        frames = [f"{settings.keyframes_per_s:g}/s to {settings.max_keyframes}"] if rows else []
        found[f"models/{measure}"] = " + ".join([REVISION, *named, *frames])
    return found


def model_measures(
    tracks: pa.Table,
    modality: str,
    measures: Sequence[str],
    *,
    store: Blobs,
    executor: Executor,
    settings: EmbedSettings,
    head: str = "",
    encoders: Mapping[str, Encoder] = ENCODERS,
    runner: Runner = IN_PROCESS,
) -> Iterator[tuple[str, ModelMeasure]]:
    """(digest, number) of each of the measures and every unit; null with a note where settings name no weights.

    tracks: those that decoded, of images or films, units of one item next to each other. head: the file that
    `AestheticHead.of` reads; empty for none. Raises ModelMissing where weights that the settings name are not there,
    SettingsError where the head is not one of this CLIP.
    """
    rows = chosen(settings, encoders)
    digests = tracks.column("digest").to_pylist()
    scored = AESTHETIC in measures and bool(head and rows[AESTHETIC])
    compared = PICTURE_TEXT in measures and bool(rows[PICTURE_TEXT])
    run, seeing = _Run(tracks, modality, store, executor, settings, runner), rows[PICTURE_TEXT]
    with_head = AestheticHead.of(head) if scored and digests else None
    seen = run.seen(seeing[0], with_head) if digests and (scored or compared) else {}
    if AESTHETIC in measures and with_head is None:
        yield from _without(digests, AESTHETIC, _NO_HEAD)
    elif with_head is not None:
        yield from run.scores(seen, seeing[0], with_head)
    if PICTURE_TEXT in measures:
        yield from _agreements(run, digests, rows, {digest: _pooled(one) for digest, one in seen.items()})


def _agreements(
    run: _Run, digests: Sequence[str], rows: Mapping[str, tuple[Encoder, ...]], seen: Vectors
) -> Iterator[tuple[str, ModelMeasure]]:
    """Both cosines of every unit. seen: the vectors of their pictures."""
    if not rows[PICTURE_TEXT] or not digests:
        yield from _without(digests, PICTURE_TEXT, "no encoder of pictures and texts in embed.models, such as clip")
        yield from _without(digests, PICTURE_SOUND, "no encoders of pictures and of sounds in embed.models")
        return
    (seeing,) = rows[PICTURE_TEXT]
    yield from run.cosines(PICTURE_TEXT, seen, run.texts(seeing), (seeing,))
    if not rows[PICTURE_SOUND]:
        yield from _without(digests, PICTURE_SOUND, "no encoder of sounds and texts in embed.models, such as clap")
        return
    by_sound = rows[PICTURE_SOUND][1]
    yield from run.cosines(
        PICTURE_SOUND,
        run.profiles(seeing, _SEEN, seen),
        run.profiles(by_sound, _SOUNDING, run.sounds(by_sound)),
        (seeing, by_sound),
    )


def _without(digests: Iterable[str], measure: str, note: str) -> Iterator[tuple[str, ModelMeasure]]:
    for digest in digests:
        yield digest, ModelMeasure(measure, None, note, "agreement", REVISION)


Vectors = dict[str, NDArray[Any] | Failure]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is kept of the pictures of one unit."""

    vector: NDArray[Any]  # the mean of their unit vectors
    score: float | None  # the mean of their scores, where there is a head


def _pooled(one: _Seen | Failure) -> NDArray[Any] | Failure:
    return one if isinstance(one, Failure) else one.vector


@dataclass(frozen=True, slots=True)
class _Run:
    """The tracks, and what their vectors are made with."""

    tracks: pa.Table
    modality: str
    store: Blobs
    executor: Executor
    settings: EmbedSettings
    runner: Runner

    def seen(self, row: Encoder, head: AestheticHead | None) -> dict[str, _Seen | Failure]:
        """Digest -> what its pictures are, one by one, or why it has none."""
        running = Running.start(row, self.executor, self.settings)
        blobs = {
            track["digest"]: picture_blobs(track, self.modality, self.settings)
            for track in media_of.rows_of(self.tracks)
        }
        parts = ((digest, blob) for digest, of_unit in blobs.items() for blob in of_unit)
        found: dict[str, _Seen | Failure] = {digest: _NOTHING_SEEN for digest, one in blobs.items() if not one}
        waiting: dict[str, list[NDArray[Any] | Failure]] = {}
        for (digest, _), made in running.vectors(parts, opened=partial(_picture, self.store), runner=self.runner):
            of_unit = waiting.setdefault(digest, [])
            of_unit.append(made)
            if len(of_unit) == len(blobs[digest]):
                found[digest] = _seen(waiting.pop(digest), head)
        return found

    def scores(
        self, seen: Mapping[str, _Seen | Failure], row: Encoder, head: AestheticHead
    ) -> Iterator[tuple[str, ModelMeasure]]:
        """The aesthetic score of each unit."""
        revision = f"{Running.start(row, self.executor, self.settings).model.revision}+{head.revision}"
        for digest, one in seen.items():
            value, note = (None, one.reason) if isinstance(one, Failure) else (one.score, None)
            yield digest, ModelMeasure(AESTHETIC, value, note, f"{row.name}+aesthetic", revision)

    def sounds(self, row: Encoder) -> Vectors:
        """Digest -> the vector of its sound, or why it has none."""
        running = Running.start(row, self.executor, self.settings)
        with Shared() as shared:
            opened = partial(
                media_of.from_track, modality=self.modality, reads="sound", store=self.store, shared=shared,
                settings=self.settings,
            )  # fmt: skip
            found = running.vectors(media_of.rows_of(self.tracks), opened=opened, runner=self.runner)
            return {track["digest"]: made for track, made in found}

    def texts(self, row: Encoder) -> Vectors:
        """Digest -> the mean vector of passages of its transcript, or why it has none."""
        said = ((track["digest"], track["transcript"] or "") for track in media_of.rows_of(self.tracks))
        return mean_of_passages(Running.start(row, self.executor, self.settings), said)

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
    ) -> Iterator[tuple[str, ModelMeasure]]:
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
                value = round(float(_units(np.asarray(a, np.float64)) @ _units(np.asarray(b, np.float64))), _DECIMALS)
            yield digest, ModelMeasure(measure, value, note, producer, revision)


@contextmanager
def _picture(store: Blobs, part: tuple[str, str]) -> Iterator[Media]:
    """(digest of a unit, blob of one of its pictures) as an encoder reads it."""
    yield Media(part[0], "image", encoded=(store.read(part[1]),))


def _seen(made: Sequence[NDArray[Any] | Failure], head: AestheticHead | None) -> _Seen | Failure:
    """What is kept of the vectors of all pictures of a unit; the first failure where one has none."""
    vectors = [one for one in made if not isinstance(one, Failure)]
    if len(vectors) < len(made):
        return next(one for one in made if isinstance(one, Failure))
    units = _units(np.array(vectors, np.float64))
    return _Seen(
        _units(units.mean(axis=0)), None if head is None else round(float(head.scores(units).mean()), _DECIMALS)
    )


def mean_of_passages(running: Running, said: Iterable[tuple[str, str]]) -> dict[str, NDArray[Any] | Failure]:
    """Digest -> the mean vector, float64, of passages of what is said, or why it has none; nothing where no word is.
    said: (digest, words)."""
    by_digest: dict[str, list[NDArray[Any]]] = {}
    failures: dict[str, NDArray[Any] | Failure] = {}
    parts = ((digest, passage) for digest, words in said for passage in passages(words))
    for (digest, _), made in running.vectors(parts, opened=_text):
        if isinstance(made, Failure):
            failures[digest] = made
        else:
            by_digest.setdefault(digest, []).append(np.asarray(made, np.float64))
    return {digest: np.mean(parts, axis=0) for digest, parts in by_digest.items()} | failures


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
