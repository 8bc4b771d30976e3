"""From tracks of units to vectors of length 1, and from a query to the vector that is compared with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmlake import contracts, schemas
from mmlake.border import IN_PROCESS, Failure, Runner, attempt, map_opened
from mmlake.compute import Executor
from mmlake.embed import media as media_of
from mmlake.embed.encoder_protocol import LoadedEncoder
from mmlake.embed.encoders import ENCODERS, Encoder, encoder_for
from mmlake.embed.media import Media, check_pictures
from mmlake.embed.settings import EmbedSettings
from mmlake.errors import SettingsError, UnreadableItem
from mmlake.film_decoders import turn_of, upright
from mmlake.media.decoders import check_sample_rate, frames, open_media, picture_stream, sound_containers, sound_stream
from mmlake.media.sound_codecs import without_sound
from mmlake.progress import Advance, silent
from mmlake.records import canonical_json, signed
from mmlake.spans import Shared
from mmlake.store import Blobs

K = TypeVar("K")
_DECIMALS = 6  # below it lies the float noise of batch composition
_QUERY_FRAMES = 8
_EMBEDDING_FAILED = 5002


class UnusableQuery(SettingsError):
    """The encoder makes no vector of what is searched for."""


def embed(
    tracks: pa.Table,
    modality: str,
    *,
    encoder: str,
    store: Blobs,
    executor: Executor,
    settings: EmbedSettings,
    encoders: Mapping[str, Encoder] = ENCODERS,
    runner: Runner = IN_PROCESS,
    advance: Advance = silent,
) -> pa.Table:
    """EMBEDDINGS, one row per digest of tracks, vectors of unit norm.

    A digest that cannot be embedded has an empty vector, and status, code and reason: 5003 where it has nothing that
    the encoder reads. Raises only for a failing machine or store. tracks: of units, those of one item next to each
    other, whose sound is then one local file. runner: where media are decoded.
    """
    row = encoder_for(encoder, modality, encoders)
    if not tracks.num_rows:  # a shard of which nothing was admitted need not wait for torch and a model
        return schemas.empty(schemas.EMBEDDINGS)
    running = Running.start(row, executor, settings)
    revision = signed(running.model.revision, row.plugin)
    columns: dict[str, list[Any]] = {name: [] for name in ("digest", "encoder", "revision", "dimension", "vector")}
    failures: list[Failure | None] = []
    with Shared() as shared:
        opened = partial(
            media_of.from_track,
            modality=modality,
            reads=running.model.reads,
            store=store,
            shared=shared,
            settings=settings,
        )
        for track, made in running.vectors(media_of.rows_of(tracks), opened=opened, runner=runner, advance=advance):
            vector = made if isinstance(made, Failure) else rounded(made)
            failures.append(vector if isinstance(vector, Failure) else None)
            numbers = np.empty(0, np.float32) if isinstance(vector, Failure) else vector
            values = (track["digest"], encoder, revision, len(numbers), numbers)
            for name, value in zip(columns, values, strict=True):
                columns[name].append(value)
    table = schemas.from_columns(schemas.EMBEDDINGS, {**columns, **contracts.failure_columns(failures)})
    return schemas.conform(schemas.EMBEDDINGS, table)


def encode_text_query(
    text: str,
    *,
    encoder: str,
    executor: Executor,
    settings: EmbedSettings,
    encoders: Mapping[str, Encoder] = ENCODERS,
) -> NDArray[np.float32]:
    """The unit vector of a text in the encoder's space, float32. Raises SettingsError where the encoder has no text
    tower, UnusableQuery where it makes nothing of the text."""
    (made,) = encode_text_queries([text], encoder=encoder, executor=executor, settings=settings, encoders=encoders)
    if isinstance(made, Failure):
        raise UnusableQuery(
            f"query {text[:60]!r} cannot be encoded by {encoder!r}: {made.reason}; give other words, or choose another "
            "encoder"
        )
    return made


def encode_text_queries(
    texts: Sequence[str],
    *,
    encoder: str,
    executor: Executor,
    settings: EmbedSettings,
    encoders: Mapping[str, Encoder] = ENCODERS,
) -> list[NDArray[np.float32] | Failure]:
    """The unit vector of each text, or why it has none; many at once, which for short ones takes a tenth of the time.
    Raises SettingsError where the encoder has no text tower."""
    running = Running.start(encoder_for(encoder, "text", encoders), executor, settings)
    made = running.vectors(range(len(texts)), opened=lambda at: nullcontext(Media("query", "text", words=texts[at])))
    found = {at: one if isinstance(one, Failure) else rounded(one) for at, one in made}
    return [found[at] for at in range(len(texts))]


def encode_file_query(
    path: Path,
    modality: str,
    *,
    encoder: str,
    executor: Executor,
    settings: EmbedSettings,
    encoders: Mapping[str, Encoder] = ENCODERS,
) -> NDArray[np.float32]:
    """The unit vector of a file on disk, float32. Raises UnusableQuery where it cannot be read as that modality.

    A video is read by eight frames spread over its length, without motion statistics, so its cosine to the same video
    in the lake is near 1, not 1.
    """
    row = encoder_for(encoder, modality, encoders)
    reads = Running.start(row, executor, settings).model.reads
    kernel = partial(_media, modality=modality, reads=reads)
    try:
        item = attempt(kernel, path, code=_EMBEDDING_FAILED, what=f"not decoded as {modality}")
    except OSError as error:
        raise UnusableQuery(f"query {str(path)!r} cannot be read ({type(error).__name__}); check its name") from error
    if isinstance(item, Failure):
        raise _no_vector(str(path), row, item)
    return _query(nullcontext(item), str(path), row, executor, settings)


def _query(
    item: AbstractContextManager[Media], name: str, row: Encoder, executor: Executor, settings: EmbedSettings
) -> NDArray[np.float32]:
    running = Running.start(row, executor, settings)
    ((_, made),) = running.vectors([name], opened=lambda _: item)
    vector = made if isinstance(made, Failure) else rounded(made)
    if isinstance(vector, Failure):
        raise _no_vector(name, row, vector)
    return vector


def _no_vector(name: str, row: Encoder, failure: Failure) -> UnusableQuery:
    return UnusableQuery(
        f"query {name!r} cannot be encoded by {row.name!r}: {failure.reason}; check that it is one of "
        f"{', '.join(row.modalities)}, or choose another encoder"
    )


@dataclass(slots=True)
class _Waiting:
    """An item between decoding and preparation, which lets go of what it was decoded to."""

    key: Any
    decoded: Any

    def take(self) -> Any:
        decoded, self.decoded = self.decoded, None
        return decoded


@dataclass(frozen=True, slots=True)
class Running:
    """An encoder, loaded on the device of an executor."""

    name: str
    model: LoadedEncoder
    executor: Executor
    key: str  # of the model in its process
    load: Callable[[str], LoadedEncoder]

    @classmethod
    def start(cls, row: Encoder, executor: Executor, settings: EmbedSettings) -> Running:
        """The encoder; it is loaded once per process and device. Raises ModelMissing, MissingExtra."""
        source = settings.models.get(row.name)
        key = canonical_json(
            [
                row.name,
                source and [source.path, source.revision],
                settings.text_window_tokens,
                settings.text_windows,
                settings.audio_windows,
                settings.precision,
            ]
        )

        def load(device: str) -> LoadedEncoder:
            return row.loader(settings, device)

        return cls(row.name, executor.model(key, load), executor, key, load)

    def vectors(
        self,
        items: Iterable[K],
        *,
        opened: Callable[[K], AbstractContextManager[Media]],
        runner: Runner = IN_PROCESS,
        advance: Advance = silent,
    ) -> Iterator[tuple[K, NDArray[Any] | Failure]]:
        """(item, its vector as the model gives it, or why it has none) of every item; those without come before their
        neighbours. opened: as for `mmlake.border.map_opened`."""
        failed: deque[tuple[K, Failure]] = deque()

        def decoded() -> Iterator[_Waiting]:
            found = map_opened(
                runner if self.model.reads != "text" else IN_PROCESS,  # a text is not decoded
                self.model.decode,
                items,
                opened=opened,
                code=_EMBEDDING_FAILED,
                what=f"not decoded for encoder {self.name!r}",
            )
            for key, made in found:
                if isinstance(made, Failure):
                    failed.append((key, made))
                    advance(1)
                else:
                    yield _Waiting(key, made)

        outcomes = self.executor.map_batches(
            decoded(),
            model_key=self.key,
            load=self.load,
            prepare=lambda waiting: self.model.prepare(waiting.take()),
            infer=lambda model, batch: model.infer(batch),
            cost=self.model.cost,
            unit=self.model.unit,
            code=_EMBEDDING_FAILED,
            what=f"not prepared for encoder {self.name!r}",
            advance=advance,
        )
        for outcome in outcomes:
            while failed:
                yield failed.popleft()
            yield outcome.item.key, outcome.value
        yield from failed


def rounded(vector: NDArray[Any]) -> NDArray[np.float32] | Failure:
    """The vector at unit norm, rounded so that tables of equal input are equal bytes; a Failure where it has no finite
    direction."""
    values = np.asarray(vector, dtype=np.float64)
    length = float(np.linalg.norm(values))
    if not np.isfinite(length) or length <= 1e-9:
        return Failure(_EMBEDDING_FAILED, "the encoder gave no finite direction for it")
    units: NDArray[np.float32] = (values / length).round(_DECIMALS).astype(np.float32) + np.float32(0)
    return units


def _media(path: Path, *, modality: str, reads: str) -> Media:
    """A file on disk as an encoder reads it. Raises UnreadableItem, and whatever a decoder raises."""
    if modality == "text":
        return Media(str(path), modality, words=path.read_text(encoding="utf-8"))
    if reads == "text":
        raise UnreadableItem(5003, "a file of sound or pictures has no transcript")
    if reads == "sound":
        return Media(str(path), modality, sound=_samples(path))
    if reads == "bytes" or modality == "image":
        return Media(str(path), modality, encoded=(path.read_bytes(),))
    check_pictures(modality)
    return Media(str(path), modality, encoded=_pictures(path))


def _pictures(path: Path) -> tuple[bytes, ...]:
    """Encoded frames spread over the length of a film."""
    import io

    import av
    from PIL import Image

    out: list[bytes] = []
    turn: tuple[int, bool] | None = None
    with open_media(path) as container:
        duration_s = float(container.duration or 0) / av.time_base
        due_s = 0.0
        for frame in frames(container, picture_stream(container)):
            if (frame.time or 0.0) + 1e-6 >= due_s:
                due_s += max(duration_s / _QUERY_FRAMES, 0.1)
                buffer = io.BytesIO()
                turn = turn_of(frame) if turn is None else turn
                shown = upright(frame.to_ndarray(format="rgb24"), *turn)
                Image.fromarray(np.ascontiguousarray(shown)).save(buffer, "JPEG", quality=90)
                out.append(buffer.getvalue())
            if len(out) == _QUERY_FRAMES:
                break
    return tuple(out)


def _samples(path: Path) -> NDArray[np.float32]:
    """Mono samples at 16 kHz of any file that PyAV opens."""
    import av

    parts: list[NDArray[np.float32]] = []
    for container in sound_containers(path):
        if (stream := sound_stream(container)) is None:
            raise without_sound(container, path)
        resampler = av.AudioResampler(format="flt", layout="mono", rate=media_of.RATE_HZ)
        for frame in frames(container, stream):
            check_sample_rate(frame.sample_rate)
            parts += [one.to_ndarray()[0] for one in resampler.resample(frame)]
        parts += [one.to_ndarray()[0] for one in resampler.resample(None)]
    if not parts or not sum(map(len, parts)):
        raise UnreadableItem(3001, "num_samples=0 not in [1, inf)")
    return np.concatenate(parts)
