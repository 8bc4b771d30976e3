"""What the bytes of a shard depend on besides the rows of its samples: the texts, the facts of units and how spans are
cut."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Collection

import numpy as np
import pyarrow as pa

from mmlake.cuts import CutCache
from mmlake.records import canonical_json, digest_of
from mmlake.shards.samples import TRACKED, SampleRows, part_column
from mmlake.shards.unit_facts import LATER_FIELDS, OF_MODELS, Tracks, UnitFacts

Texts = Callable[[str], str | None]  # digest of a text item -> its normalized text, or None for "take the blob"
_FIELDS = tuple(field.name for field in dataclasses.fields(UnitFacts) if field.name not in OF_MODELS)


class Contents:
    """Where the writer takes texts, facts and cuts from, and the digest of those that samples hold."""

    def __init__(
        self,
        *,
        texts: Texts | None = None,
        tracks: Tracks | None = None,
        cuts: CutCache | None = None,
        unsaid: Collection[str] = frozenset(),
    ):
        self.texts, self.tracks, self.cuts = texts, tracks, cuts
        self.unsaid = unsaid  # samples whose words are not written

    @property
    def recordings_sound(self) -> bool:
        """Whether the 16 kHz sound of recordings is a member too."""
        return self.cuts is not None and self.cuts.settings.recordings_sound

    def digest(self, samples: SampleRows, rows: np.ndarray) -> dict[str, object]:
        """SHA-256 of the texts and of the facts of the parts of these samples, in order, and what their cuts depend
        on where they have any. rows: int64, increasing."""
        hashers = {"texts": hashlib.sha256(), "facts": hashlib.sha256()}
        cut, unsaid = set[str](), list[str]()
        for batch in samples.taken(rows):
            if self.unsaid:
                unsaid += [name for name in batch.column("sample").to_pylist() if name in self.unsaid]
            cut |= self._add(batch, texts=hashers["texts"].update, facts=hashers["facts"].update)
        found: dict[str, object] = {name: hasher.hexdigest() for name, hasher in hashers.items()}
        if unsaid:  # shards of others are what they always were
            found["unsaid"] = digest_of(canonical_json(unsaid).encode())
        if self.cuts is not None:
            found |= {f"cuts of {modality}": self.cuts.keys(modality) for modality in sorted(cut)}
        return found

    def _add(
        self, batch: pa.RecordBatch, *, texts: Callable[[bytes], None], facts: Callable[[bytes], None]
    ) -> set[str]:
        """Modalities of the spans among the parts, and of items whose sound is cleaned; their digests were given on."""
        cut: set[str] = set()
        columns = [part_column(batch, name).to_pylist() for name in ("modality", "digest", "start_us")]
        for modality, digest, start_us in zip(*columns, strict=True):
            if modality == "text" and start_us is None and self.texts is not None:
                texts(_digest_of_text(self.texts(digest)))
            elif modality in TRACKED:
                cut |= {modality} if start_us is not None or self._cleans(modality, digest) else set()
                if self.tracks is not None:
                    facts(_digest_of_facts(self.tracks.facts(digest)))
        return cut

    def _cleans(self, modality: str, digest: str) -> bool:
        """Whether the sound of a whole item is a member that a cleaner may change."""
        if self.cuts is None or self.cuts.cleaner is None or self.tracks is None:
            return False
        return self.tracks.held(digest).sound and (modality == "video" or self.recordings_sound)


def _digest_of_text(text: str | None) -> bytes:
    """32 bytes; zeros where the blob itself is taken."""
    return bytes(32) if text is None else hashlib.sha256(text.encode("utf-8", "replace")).digest()


def _digest_of_facts(facts: UnitFacts) -> bytes:
    said = {name: getattr(facts, name) for name in _FIELDS}
    for name in ("keyframes", "words", "cues", *LATER_FIELDS):
        said[name] = [dict(one) for one in said[name]]
    said = {name: value for name, value in said.items() if value or name not in LATER_FIELDS}
    said |= facts.of_models()
    return bytes.fromhex(digest_of(canonical_json(said).encode("utf-8", "replace")))
