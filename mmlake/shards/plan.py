"""Which samples go into which shard: a function of the item table and the settings alone, so that a broken-off run
is taken up again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from mmlake.errors import SettingsError
from mmlake.formats.tar import BLOCK
from mmlake.records import canonical_json, digest_of
from mmlake.shards.settings import ShardSettings

COLUMNS = ("digest", "modality", "role", "content_type", "size_bytes", "weight", "licences", "sources", "sample_ids")
_FORMAT = 1  # counted up when the bytes of a shard change for the same items
_JSON_BYTES = 2048  # what a sample's JSON member takes at most, as a rule
_COMPANION_ROLES = ("caption", "transcript")
_EXTENSIONS = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/webp": "webp",
    "image/gif": "gif",
    "image/tiff": "tiff",
    "image/bmp": "bmp",
    "video/mp4": "mp4",
    "video/webm": "webm",
    "video/x-matroska": "mkv",
    "video/quicktime": "mov",
    "video/x-msvideo": "avi",
    "video/mp2t": "ts",
    "video/mpeg": "mpg",
    "audio/flac": "flac",
    "audio/x-flac": "flac",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/ogg": "ogg",
    "audio/mp4": "m4a",
    "audio/aac": "aac",
    "text/plain": "txt",
    "text/html": "html",
    "text/markdown": "md",
    "application/json": "data.json",  # plain `json` is the sample's own description
    "text/vtt": "vtt",
    "application/x-subrip": "srt",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One training sample: an item and the texts that came next to it."""

    row: dict[str, Any]
    texts: tuple[tuple[str, str], ...] = ()  # (role, digest), sorted

    @property
    def key(self) -> str:
        """The digest of the sample's item: unique, free of dots, and short enough for any tar."""
        return str(self.row["digest"])

    @property
    def digests(self) -> list[str]:
        """Every item of the version that the sample holds."""
        return [self.key, *(digest for _, digest in self.texts)]


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The samples of one tar file, in order."""

    name: str  # without extension
    modality: str
    samples: list[Sample] = field(repr=False)
    digest: str = ""


def extension(content_type: str | None) -> str:
    """The member extension of a content type; `bin` for types that are not in the list, so that nothing executable
    ever gets a name of its own."""
    return _EXTENSIONS.get((content_type or "").partition(";")[0].strip().lower(), "bin")


def plan(
    items: pa.Table, *, modalities: Sequence[str], manifest_id: str, settings: ShardSettings, normalized: bool
) -> list[ShardPlan]:
    """Every shard of the version, by modality in the given order and then by digest. Every item is in at least one
    sample, and leads exactly one unless it is a caption or transcript that stands next to a media item. Raises
    SettingsError for an item of another modality."""
    if unknown := sorted(set(items.column("modality").to_pylist()) - set(modalities)):
        raise SettingsError(
            f"version {manifest_id[:12]} holds items of the modality {unknown[0]!r}, expected one of "
            f"{', '.join(modalities)}; open the lake with the tables that it was built with"
        )
    shards = []
    samples = _samples(items)
    for modality in modalities:
        mine = [sample for sample in samples if sample.row["modality"] == modality]
        for number, part in enumerate(_cut(mine, settings)):
            facts = {
                "format": _FORMAT,
                "manifest": manifest_id,
                "normalized": normalized,
                "samples": [[sample.row, sample.texts] for sample in part],
            }
            shards.append(
                ShardPlan(f"{modality}-{number:06d}", modality, part, digest_of(canonical_json(facts).encode()))
            )
    return shards


def _samples(items: pa.Table) -> list[Sample]:
    rows = items.select(list(COLUMNS)).sort_by("digest").to_pylist()
    companions: dict[str, dict[str, str]] = {}  # sample id -> role -> digest
    for row in rows:
        if row["role"] in _COMPANION_ROLES:
            for sample_id in row["sample_ids"] or []:
                companions.setdefault(sample_id, {}).setdefault(row["role"], row["digest"])
    leading = [_with_texts(row, companions) for row in rows if row["role"] not in _COMPANION_ROLES]
    taken = {digest for sample in leading for _, digest in sample.texts}
    alone = [Sample(row) for row in rows if row["role"] in _COMPANION_ROLES and row["digest"] not in taken]
    return sorted(leading + alone, key=lambda sample: sample.key)


def _with_texts(row: dict[str, Any], companions: dict[str, dict[str, str]]) -> Sample:
    """The media item with the texts of its first sample that has any."""
    if row["role"] == "media":
        for sample_id in sorted(row["sample_ids"] or []):
            if sample_id in companions:
                return Sample(row, tuple(sorted(companions[sample_id].items())))
    return Sample(row)


def _cut(samples: list[Sample], settings: ShardSettings) -> Iterator[list[Sample]]:
    part: list[Sample] = []
    total = 0
    for sample in samples:
        size = sample.row["size_bytes"] + _JSON_BYTES + 3 * BLOCK * (1 + len(sample.texts))
        if part and (total + size > settings.shard_bytes or len(part) >= settings.max_samples):
            yield part
            part, total = [], 0
        part.append(sample)
        total += size
    if part:
        yield part
