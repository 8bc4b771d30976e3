"""The table of tiers, and the three functions that walk it: fingerprint, near_pairs, semantic_pairs. Add yours here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.compute import ordered_map
from mmlake.dedup import audio, image, semantic, text, video
from mmlake.dedup.settings import DedupSettings
from mmlake.errors import MissingExtra, SettingsError, UnreadableItem
from mmlake.progress import Advance, silent
from mmlake.store import Blobs

_log = logging.getLogger(__name__)
Prints = dict[str, np.ndarray]  # method -> hashes; "times_s" beside them where the first method is a sequence
Match = tuple[int, int, str, float]  # two positions, method, score


@dataclass(frozen=True, kw_only=True, slots=True)
class Tier:
    """How near duplicates of one modality are told."""

    modality: str
    method: str  # the name that its pairs carry; a variant adds a suffix
    methods: tuple[str, ...]  # rows that a fingerprint has per digest
    # one per row, in order; empty for a row that could not be read
    fingerprint: Callable[[pa.Table, Blobs, DedupSettings], Iterator[Prints]]
    pairs: Callable[..., list[Match]]
    bound: Callable[[DedupSettings], float]  # smallest score that counts
    finds: str  # what it is for, in a reader's words
    source: str


def _of_texts(tracks: pa.Table, store: Blobs, settings: DedupSettings) -> Iterator[Prints]:
    """Shingles and signatures in batches, so that a partition's texts are never all in memory twice."""
    for batch in tracks.select(["text"]).to_batches(max_chunksize=1_024):
        sets = list(
            text.shingles((value or "" for value in batch.column(0).to_pylist()), words=settings.text_shingle_words)
        )
        rows = text.signatures(sets, num_perm=settings.text_num_perm, seed=settings.seed)
        for one, row in zip(sets, rows, strict=True):
            yield {"minhash": row.astype(np.uint64) if len(one) else np.empty(0, np.uint64), "shingles": one}


def _of_images(tracks: pa.Table, store: Blobs, settings: DedupSettings) -> Iterator[Prints]:
    return _decoded(tracks, lambda row: image.fingerprint(store.read(row["digest"])), settings)


def _of_videos(tracks: pa.Table, store: Blobs, settings: DedupSettings) -> Iterator[Prints]:
    def one(row: Mapping) -> Prints:
        with store.local(row["digest"]) as path:
            return video.fingerprint(path, settings=settings)

    return _decoded(tracks, one, settings)


def _of_audio(tracks: pa.Table, store: Blobs, settings: DedupSettings) -> Iterator[Prints]:
    def one(row: Mapping) -> Prints:
        if row["audio_digest"] is None:
            raise UnreadableItem(3003, "num_audio_tracks=0 not in [1, inf)")
        return audio.fingerprint(store.read(row["audio_digest"]))

    return _decoded(tracks, one, settings)


def _decoded(tracks: pa.Table, one: Callable[[Mapping], Prints], settings: DedupSettings) -> Iterator[Prints]:
    def attempt(row: Mapping) -> Prints:
        try:
            return one(row)
        except (MissingExtra, SettingsError):
            raise  # the environment is wrong, not the item
        # the per-item border: quality has judged the item already, here it merely finds no duplicates
        except Exception as error:  # noqa: BLE001
            reason = (
                error.reason
                if isinstance(error, UnreadableItem)
                else f"not decoded for fingerprints ({type(error).__name__})"
            )
            _log.warning("%s has no fingerprint: %s", row["digest"], reason)
            return {}

    return ordered_map(
        attempt, tracks.select(["digest", "audio_digest"]).to_pylist(), workers=settings.decode_workers, ahead=16
    )


def _text_pairs(prints: list[Prints], *, settings: DedupSettings, advance: Advance) -> list[Match]:
    sets = [one.get("shingles", np.empty(0, np.uint64)) for one in prints]
    rows = np.zeros((len(prints), settings.text_num_perm), np.uint32)
    for at, one in enumerate(prints):
        signature = one.get("minhash", ())
        if len(sets[at]) and len(signature) != settings.text_num_perm:
            raise SettingsError(
                f"dedup: fingerprints hold {len(signature)} permutations, settings ask for "
                f"{settings.text_num_perm}; re-materialize the fingerprints"
            )
        rows[at] = signature if len(signature) else 0
    return text.pairs(sets, rows, settings=settings, advance=advance)


TIERS: dict[str, Tier] = {
    tier.modality: tier
    for tier in (
        Tier(
            modality="text",
            method=text.METHOD,
            methods=("minhash", "shingles"),
            fingerprint=_of_texts,
            pairs=_text_pairs,
            bound=lambda settings: settings.text_jaccard,
            finds="the same text with words changed, added or lost",
            source="Broder 1997; banding as in Leskovec et al., ch. 3",
        ),
        Tier(
            modality="image",
            method=image.METHOD,
            methods=(image.METHOD, image.MIRRORED, "dhash", "luma"),
            fingerprint=_of_images,
            pairs=image.pairs,
            bound=lambda settings: 1 - settings.image_radius_bits / 64,
            finds="a picture recompressed, scaled, blurred, toned, mirrored or stored in another orientation",
            source="Zauner 2010, Krawetz 2013",
        ),
        Tier(
            modality="video",
            method=video.METHOD,
            methods=(video.METHOD, "frame-luma"),
            fingerprint=_of_videos,
            pairs=video.pairs,
            bound=lambda settings: settings.video_match,
            finds="a clip encoded again, scaled, trimmed or at another frame rate",
            source="pHash on a time grid, own confirmation by movement",
        ),
        Tier(
            modality="audio",
            method=audio.METHOD,
            methods=(audio.METHOD, "spectrum"),
            fingerprint=_of_audio,
            pairs=audio.pairs,
            bound=lambda settings: settings.audio_match,
            finds="a recording transcoded, louder, noisier, trimmed or padded",
            source="Haitsma and Kalker 2002",
        ),
    )
}


def fingerprint(
    tracks: pa.Table, modality: str, *, store: Blobs, settings: DedupSettings, advance: Advance = silent
) -> pa.Table:
    """FINGERPRINTS of the rows: as many per digest as the tier has methods, with no hashes where the item says
    nothing or does not decode."""
    tier = _tier(modality)
    columns: dict[str, list] = {name: [] for name in schemas.FINGERPRINTS.arrow.names}
    for digest, prints in zip(
        tracks.column("digest").to_pylist(), tier.fingerprint(tracks, store, settings), strict=True
    ):
        for method in tier.methods:
            columns["digest"].append(digest)
            columns["method"].append(method)
            columns["hashes"].append(prints.get(method, np.empty(0, np.uint64)))
            columns["times_s"].append(
                prints.get("times_s", np.empty(0, np.float32)) if method == tier.method else np.empty(0, np.float32)
            )
        advance(1)
    return schemas.conform(
        schemas.FINGERPRINTS,
        pa.table(
            {name: pa.array(values, schemas.FINGERPRINTS.arrow.field(name).type) for name, values in columns.items()}
        ),
    )


def near_pairs(
    fingerprints: pa.Table, modality: str, *, settings: DedupSettings, advance: Advance = silent
) -> pa.Table:
    """PAIRS of tier "near". The rows may come in any order and from any number of shards; each digest counts once."""
    tier = _tier(modality)
    digests = sorted(set(fingerprints.column("digest").to_pylist()))
    place = {digest: at for at, digest in enumerate(digests)}
    prints: list[Prints] = [{} for _ in digests]
    for batch in fingerprints.select(["digest", "method", "hashes"]).to_batches():
        hashes = batch.column("hashes")
        flat, offsets = hashes.values.to_numpy(zero_copy_only=False), hashes.offsets.to_numpy()
        for at, (digest, method) in enumerate(
            zip(batch.column("digest").to_pylist(), batch.column("method").to_pylist(), strict=True)
        ):
            prints[place[digest]][method] = flat[offsets[at] : offsets[at + 1]]
    return _table(
        tier.pairs(prints, settings=settings, advance=advance), digests, tier="near", bound=tier.bound(settings)
    )


def semantic_pairs(
    embeddings: pa.Table, modality: str, *, settings: DedupSettings, advance: Advance = silent
) -> pa.Table:
    """PAIRS of tier "semantic": cosine at or above the encoder's bound, within each encoder. Digests without a
    vector have no pairs."""
    _tier(modality)
    parts = []
    for encoder in sorted(set(embeddings.column("encoder").to_pylist())):
        rows = (
            embeddings.filter(pc.equal(embeddings.column("encoder"), encoder))
            .select(["digest", "vector"])
            .sort_by("digest")
        )
        rows = rows.filter(pc.greater(pc.list_value_length(rows.column("vector")), 0))
        digests = rows.column("digest").to_pylist()
        vectors = (
            rows.column("vector").combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(len(digests), -1)
            if digests
            else np.empty((0, 1), np.float32)
        )
        bound = float(settings.semantic_bounds.get(encoder, settings.semantic_default_bound))
        i, j, cosine = semantic.similar(vectors, bound=bound, index=settings.index, settings=settings, advance=advance)
        matches = [
            (int(a), int(b), f"cosine:{encoder}", float(score)) for a, b, score in zip(i, j, cosine, strict=True)
        ]
        parts.append(_table(matches, digests, tier="semantic", bound=bound))
    return schemas.conform(schemas.PAIRS, pa.concat_tables(parts)) if parts else schemas.empty(schemas.PAIRS)


def _tier(modality: str) -> Tier:
    if modality not in TIERS:
        raise SettingsError(f"dedup: no tier for modality {modality!r}; expected one of {', '.join(TIERS)}")
    return TIERS[modality]


def _table(matches: Iterable[Match], digests: list[str], *, tier: str, bound: float) -> pa.Table:
    """PAIRS; left < right, one row per pair and method, the better score where two ways found it."""
    best: dict[tuple[str, str, str], float] = {}
    for i, j, method, score in matches:
        left, right = sorted((digests[i], digests[j]))
        key = (left, right, method)
        best[key] = max(best.get(key, 0.0), score)
    rows = [
        {"left": left, "right": right, "tier": tier, "method": method, "score": score, "bound": bound}
        for (left, right, method), score in best.items()
    ]
    return schemas.from_rows(schemas.PAIRS, rows)
