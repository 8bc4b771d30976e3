"""Frozen probes of a lake and their query vectors.

The first version of a lake freezes the probe set; every later version is measured with the very same one. Probes made
by hand are pinned before that with `mmlake probes --pin FILE`.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake import checked_json
from mmlake.border import Failure
from mmlake.catalog import vector_column
from mmlake.embed import UnusableQuery, encode_file_query, encode_text_queries
from mmlake.engine import Engine
from mmlake.engine.digest_index import DigestIndex
from mmlake.errors import BlobCorrupt, BlobMissing, SettingsError, UnreadableItem
from mmlake.evaluate import Probe, ProbeSet, distort_image, distort_samples
from mmlake.evaluate.probes import pinned_in
from mmlake.lake import Lake
from mmlake.preprocess import spans_of
from mmlake.publish.catalog_probes import catalog_probes
from mmlake.records import ADMITTED, digest_of
from mmlake.spans import Sound
from mmlake.store import write_atomically

VECTORS = ".vectors"
_SAMPLE_RATE_HZ = 16_000  # of the audio tracks that preprocessing makes


def pinned_probes(lake: Lake) -> ProbeSet | None:
    """The lake's frozen probe set, or None where none was pinned yet."""
    return pinned_in(lake.probes_dir)


def pin_probes(lake: Lake, probes: ProbeSet) -> str:
    """The digest of the set, which is from now on what versions of this lake are measured with. Scores with an
    earlier set cannot be compared with later ones. Raises SettingsError for a probe of a modality that the lake does
    not have."""
    for probe in probes.probes:
        lake.parts.modality(probe.modality)
    digest = probes.write(lake.probes_dir)
    write_atomically(lake.probes_dir / "pinned.json", checked_json.dumps({"digest": digest}))
    return digest


def ensure_probes(lake: Lake) -> ProbeSet:
    """The pinned set; where there is none, known-item probes are made from the catalog and pinned."""
    if (pinned := pinned_probes(lake)) is not None:
        return pinned
    made = catalog_probes(lake)
    pin_probes(lake, made)
    return made


def query_vectors(lake: Lake, probes: ProbeSet, modality: str) -> dict[str, np.ndarray]:
    """Probe id -> unit vector in the space of the modality's encoder. Kept next to the probes, so that each is encoded
    once.

    A probe whose query cannot be had (its item was erased, its rendition does not decode) is left out; scoring asks
    only for what is here.
    """
    encoder = lake.encoder_of(modality)
    asked = [probe for probe in probes.probes if probe.modality == modality]
    cache = lake.probes_dir / f"{probes.digest}.{modality}.{encoder}.{lake.settings.digest(('embed',))}{VECTORS}"
    if (kept := _kept_vectors(cache)) is not None:
        return kept
    vectors, sounds = _in_words(lake, asked, encoder), unit_sounds(lake) if modality == "audio" else {}
    keyframes = _keyframes(lake, asked)
    for probe in (one for one in asked if one.kind != "text"):
        try:
            vectors[probe.id] = _encode(lake, keyframes, sounds, probe, encoder)
        except (UnusableQuery, UnreadableItem, BlobMissing, BlobCorrupt):
            continue  # counted by the caller: probes asked against vectors had
    sink = io.BytesIO()
    np.savez(sink, **vectors)  # type: ignore[arg-type]
    data = sink.getvalue()
    write_atomically(cache, checked_json.dumps({"sha256": digest_of(data)}) + b"\n" + data)
    return vectors


def _kept_vectors(path: Path) -> dict[str, np.ndarray] | None:
    """The vectors by probe: a line of JSON with the SHA-256 of the rest, and that as numpy's `npz` has it; that alone
    in files of earlier releases. None where there is no such file or it is damaged: they are encoded again."""
    former = path.with_suffix(".npz")
    try:
        if path.exists() or not former.exists():
            header, _, data = path.read_bytes().partition(b"\n")
            if checked_json.loads(header)["sha256"] != digest_of(data):
                return None
        else:
            data = former.read_bytes()
        with np.load(io.BytesIO(data), allow_pickle=False) as kept:
            return {name: kept[name] for name in kept.files}
    except (FileNotFoundError, ValueError, KeyError, zipfile.BadZipFile):
        return None


def corpus_vectors(lake: Lake, modality: str, digests: pa.Array) -> tuple[list[str], np.ndarray]:
    """(digests, float32 vectors of shape (N, D)) of those items of the modality that have a vector, sorted by digest.
    Many vectors lie in a file that is mapped and has no name (`mmlake.engine.Scratch`)."""
    column = vector_column(lake.encoder_of(modality))
    if column.removeprefix("vector_") not in lake.catalog.encoders():
        return [], np.empty((0, 0), np.float32)
    where = f"modality = '{modality}' AND {column} IS NOT NULL"
    found = lake.catalog.read(["digest"], where=where)["digest"]
    found = found.filter(pc.is_in(found, value_set=digests)).combine_chunks()
    index = DigestIndex(found)
    scratch, vectors_ND = Engine(lake.root / "scratch", lake.settings.engine).scratch, np.empty((0, 0), np.float32)
    for part in lake.catalog.scan(["digest", column], where=where):
        if not len(vectors_ND) and len(found):
            width = part.schema.field(column).type.list_size
            vectors_ND = scratch.zeros(len(found) * width, np.float32).reshape(len(found), width)
        places = index.find(part["digest"])
        vectors = part[column].filter(pa.array(places >= 0))
        if len(vectors):
            vectors_ND[places[places >= 0]] = vectors.flatten().to_numpy().reshape(len(vectors), -1)
    return found.to_pylist(), vectors_ND


def survivors_of(lake: Lake) -> dict[str, str]:
    """Digest -> survivor of its duplicate cluster, of all admitted items that another stands for."""
    survivors: dict[str, str] = {}
    for part in lake.catalog.scan(["digest", "survivor", "status"], where="survivor IS NOT NULL"):
        goes = pc.and_(
            pc.not_equal(part["digest"], part["survivor"]), pc.is_in(part["status"], value_set=pa.array(ADMITTED))
        )
        survivors.update(zip(*(part[name].filter(goes).to_pylist() for name in ("digest", "survivor")), strict=True))
    return survivors


def _in_words(lake: Lake, asked: Sequence[Probe], encoder: str) -> dict[str, np.ndarray]:
    """The vectors of the probes that ask with words."""
    probes = [probe for probe in asked if probe.kind == "text"]
    if not probes:
        return {}
    made = encode_text_queries(
        [probe.query for probe in probes],
        encoder=encoder,
        executor=lake.executor,
        settings=lake.settings.embed,
        encoders=lake.parts.encoders,
    )
    found = zip(probes, made, strict=True)
    return {probe.id: vector for probe, vector in found if not isinstance(vector, Failure)}


def _keyframes(lake: Lake, asked: Sequence[Probe]) -> dict[str, list[str]]:
    """Digest -> keyframes of the films and recordings (which have none) that probes ask with, as far as the catalog has
    them."""
    digests = {one.query_digest for one in asked if one.query_digest and one.kind in ("audio", "video")}
    rows = lake.catalog.rows_of(digests, ["digest", "keyframe_digests"])
    return {digest: row["keyframe_digests"] or [] for digest, row in rows.items()}


def _encode(
    lake: Lake, keyframes: Mapping[str, list[str]], sounds: Mapping[str, UnitSound], probe: Probe, encoder: str
) -> np.ndarray:
    rng = np.random.default_rng(int(digest_of(f"{lake.settings.evaluate.seed}:{probe.id}".encode())[:16], 16))
    assert probe.query_digest is not None  # ProbeSet refuses probes with neither words nor an item
    with tempfile.TemporaryDirectory() as folder:
        path = _rendition(lake, keyframes, sounds, probe, rng, Path(folder))
        return encode_file_query(
            path,
            probe.kind,
            encoder=encoder,
            executor=lake.executor,
            settings=lake.settings.embed,
            encoders=lake.parts.encoders,
        )


def _rendition(
    lake: Lake,
    keyframes: Mapping[str, list[str]],
    sounds: Mapping[str, UnitSound],
    probe: Probe,
    rng: np.random.Generator,
    folder: Path,
) -> Path:
    """The distorted item as a file."""
    assert probe.query_digest is not None
    if probe.kind == "image":
        path = folder / "query.jpg"
        path.write_bytes(distort_image(lake.store.read(probe.query_digest), rng))
        return path
    if probe.kind not in ("audio", "video"):
        raise SettingsError(
            f"probe {probe.id} asks with an item of the kind {probe.kind!r}, which has no distorted rendition; "
            "expected image, audio or video"
        )
    if probe.query_digest not in keyframes:
        raise BlobMissing(
            f"probe {probe.id} asks for {probe.query_digest}, which the catalog does not have; pin a probe set of "
            "this corpus"
        )
    if probe.kind == "audio":
        return _sound(lake, probe.query_digest, sounds.get(probe.query_digest), rng, folder)
    return _clip(lake, keyframes[probe.query_digest], rng, folder)


@dataclass(frozen=True, slots=True)
class UnitSound:
    """Where the sound of a recording, or of a segment of one, is."""

    digest: str  # of the item's mono 16 kHz track
    span_s: tuple[float, float] | None  # None where the unit is whole

    def samples(self, lake: Lake) -> np.ndarray:
        """Mono float32 samples at 16 kHz. Raises BlobMissing, BlobCorrupt."""
        with lake.store.local(self.digest) as path:
            return Sound(path, self.span_s).samples()[0]


def unit_sounds(lake: Lake) -> dict[str, UnitSound]:
    """Unit of a recording -> its sound, in one pass over the tables."""
    tracks = lake.tables.concat("tracks", "audio", columns=["digest", "audio_digest"])
    columns = (tracks.column(name).to_pylist() for name in ("digest", "audio_digest"))
    items = {digest: track for digest, track in zip(*columns, strict=True) if track is not None}
    sounds = {digest: UnitSound(track, None) for digest, track in items.items()}
    units = lake.tables.concat("units", "audio", columns=["digest", "parent_digest", "kind", "start", "end"])
    for row in spans_of(units).to_pylist():
        if row["parent_digest"] in items:
            sounds[row["digest"]] = UnitSound(items[row["parent_digest"]], (row["start"] / 1e6, row["end"] / 1e6))
    return sounds


def _sound(lake: Lake, digest: str, sound: UnitSound | None, rng: np.random.Generator, folder: Path) -> Path:
    import soundfile

    if sound is None:
        raise UnreadableItem(3003, f"num_audio_tracks=0 of {digest[:12]} not in [1, inf)")
    samples = sound.samples(lake)
    path = folder / "query.wav"
    soundfile.write(path, distort_samples(samples, rng), _SAMPLE_RATE_HZ, subtype="PCM_16")
    return path


def _clip(lake: Lake, keyframes: list[str], rng: np.random.Generator, folder: Path) -> Path:
    """The distorted keyframes as a short film, four pictures per second."""
    import av
    from PIL import Image

    if not keyframes:
        raise UnreadableItem(3003, "num_keyframes=0 not in [1, inf)")
    pictures = [
        Image.open(io.BytesIO(distort_image(lake.store.read(digest), rng))).convert("RGB") for digest in keyframes
    ]
    width, height = (max(2, side - side % 2) for side in pictures[0].size)
    path = folder / "query.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=4)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuvj420p"
        for picture in pictures:
            frame = av.VideoFrame.from_image(picture.resize((width, height)))  # type: ignore[no-untyped-call]
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path
