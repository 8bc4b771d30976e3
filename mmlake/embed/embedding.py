"""From tracks to unit vectors, and from a query to the vector that is compared with them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from mmlake import schemas
from mmlake.compute import Executor
from mmlake.embed import media as media_of
from mmlake.embed.encoders import Encoder, encoder_for
from mmlake.embed.loaded import LoadedEncoder
from mmlake.embed.media import Media
from mmlake.embed.settings import EmbedSettings
from mmlake.errors import MmlakeError, UnreadableItem
from mmlake.progress import Advance, silent
from mmlake.records import canonical_json
from mmlake.store import Blobs

_DECIMALS = 6  # below it lies the float noise of batch composition
_QUERY_FRAMES = 8
_log = logging.getLogger(__name__)


def embed(
    tracks: pa.Table,
    modality: str,
    *,
    encoder: str,
    store: Blobs,
    executor: Executor,
    settings: EmbedSettings,
    advance: Advance = silent,
    failed: Callable[[str, str], None] | None = None,
) -> pa.Table:
    """EMBEDDINGS, one row per digest of tracks, vectors of unit norm.

    A digest that cannot be embedded has an empty vector and dimension 0; `failed(digest, reason)` is told why, and the
    log where nobody listens.
    """
    row = encoder_for(encoder, modality)
    if not tracks.num_rows:  # a shard of which nothing was admitted need not wait for torch and a model
        return schemas.from_rows(schemas.EMBEDDINGS, [])
    model, run = _run(row, executor, settings)
    rows = (
        {**one}
        for batch in tracks.select(media_of.TRACK_COLUMNS).to_batches(max_chunksize=256)
        for one in batch.to_pylist()
    )
    items = (media_of.from_tracks(one, modality, store=store, max_keyframes=settings.max_keyframes) for one in rows)
    columns: dict[str, list] = {name: [] for name in schemas.EMBEDDINGS.arrow.names}
    for item, vector, error in run(items, advance):
        if error is not None:
            reason = _reason(error)
            (failed or _tell)(item.digest, reason)
        for name, value in zip(columns, (item.digest, encoder, model.revision, len(vector), vector), strict=True):
            columns[name].append(value)
    return schemas.conform(
        schemas.EMBEDDINGS,
        pa.table(
            {name: pa.array(values, schemas.EMBEDDINGS.arrow.field(name).type) for name, values in columns.items()}
        ),
    )


def encode_text_query(text: str, *, encoder: str, executor: Executor, settings: EmbedSettings) -> np.ndarray:
    """The unit vector of a text in the encoder's space, float32. Raises SettingsError where the encoder has no text
    tower."""
    item = Media("query", "text", lambda: text, list, lambda: np.empty(0, np.float32))
    return _query(item, encoder_for(encoder, "text"), executor, settings)


def encode_file_query(
    path: Path, modality: str, *, encoder: str, executor: Executor, settings: EmbedSettings
) -> np.ndarray:
    """The unit vector of a file on disk, float32. Raises MmlakeError where it cannot be read as that modality.

    A video is read by eight frames spread over its length, without motion statistics, so its cosine to the same video
    in the lake is near 1, not 1.
    """
    row = encoder_for(encoder, modality)
    item = Media(
        str(path),
        modality,
        lambda: path.read_text(encoding="utf-8"),
        lambda: _pictures(path, modality),
        lambda: _samples(path),
    )
    return _query(item, row, executor, settings)


def _query(item: Media, row: Encoder, executor: Executor, settings: EmbedSettings) -> np.ndarray:
    _, run = _run(row, executor, settings)
    _, vector, error = next(iter(list(run([item], silent))))
    if error is not None:
        raise MmlakeError(
            f"query {item.digest!r} cannot be encoded by {row.name!r}: {_reason(error)}; check that it is "
            f"{item.modality}"
        ) from error
    return vector


def _run(
    row: Encoder, executor: Executor, settings: EmbedSettings
) -> tuple[LoadedEncoder, Callable[..., Iterator[tuple[Media, np.ndarray, Exception | None]]]]:
    """The loaded encoder, and a function that drives items through it."""
    source = settings.models.get(row.name)
    key = canonical_json(
        [
            row.name,
            source and [source.path, source.revision],
            settings.text_window_tokens,
            settings.text_windows,
            settings.audio_windows,
        ]
    )

    def load(device: str) -> LoadedEncoder:
        return row.loader(settings, device)

    model = executor.model(key, load)

    def run(items: Iterator[Media], advance: Advance) -> Iterator[tuple[Media, np.ndarray, Exception | None]]:
        outcomes = executor.map_batches(
            items,
            model_key=key,
            load=load,
            prepare=model.prepare,
            infer=lambda one, batch: one.infer(batch),
            cost=model.cost,
            unit=model.unit,
            advance=advance,
        )
        for outcome in outcomes:
            vector = np.empty(0, np.float32) if outcome.value is None else _rounded(outcome.value)
            error = outcome.error
            if error is None and not len(vector):
                error = UnreadableItem(3001, "the encoder gave no finite direction for it")
            yield outcome.item, vector, error

    return model, run


def _rounded(vector: np.ndarray) -> np.ndarray:
    """The vector at unit norm, rounded so that tables of equal input are equal bytes; empty where it has no finite
    direction."""
    values = np.asarray(vector, dtype=np.float64)
    length = float(np.linalg.norm(values))
    return (
        (values / length).round(_DECIMALS).astype(np.float32) + np.float32(0)
        if np.isfinite(length) and length > 1e-9
        else np.empty(0, np.float32)
    )


def _reason(error: Exception) -> str:
    if isinstance(error, UnreadableItem):
        return error.reason
    return str(error) if isinstance(error, MmlakeError) else f"not decoded for the encoder ({type(error).__name__})"


def _tell(digest: str, reason: str) -> None:
    _log.warning("%s has no vector: %s", digest, reason)


def _pictures(path: Path, modality: str) -> list[bytes]:
    if modality == "image":
        return [path.read_bytes()]
    import io

    import av

    out = []
    with av.open(
        str(path),
        options={
            "format_whitelist": "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,flv,ogg,asf,gif",
            "protocol_whitelist": "file",
        },
    ) as container:
        stream = container.streams.video[0]
        duration_s = float(container.duration or 0) / av.time_base
        due_s = 0.0
        for frame in container.decode(stream):
            if (frame.time or 0.0) + 1e-6 >= due_s:
                due_s += max(duration_s / _QUERY_FRAMES, 0.1)
                buffer = io.BytesIO()
                frame.to_image().save(buffer, "JPEG", quality=90)
                out.append(buffer.getvalue())
    return out[:_QUERY_FRAMES]


def _samples(path: Path) -> np.ndarray:
    """Mono samples at 16 kHz of any file that PyAV opens."""
    import av

    parts = []
    with av.open(str(path), options={"protocol_whitelist": "file"}) as container:
        resampler = av.AudioResampler(format="flt", layout="mono", rate=media_of.RATE_HZ)
        for frame in container.decode(audio=0):
            parts += [one.to_ndarray()[0] for one in resampler.resample(frame)]
        parts += [one.to_ndarray()[0] for one in resampler.resample(None)]
    if not parts or not sum(map(len, parts)):
        raise UnreadableItem(3001, "num_samples=0 not in [1, inf)")
    return np.concatenate(parts)
