"""The landing zone while it is being written: files go in, and the truth about each item is kept next to them."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmlake.error_codes import CODES
from mmlake.formats.tar_writer import TarWriter
from mmlake.progress import Advance, silent
from mmlake.records import Digest, digest_of
from mmlake.sample.truth import Duplicate, Excerpt, LongItem, Probe, Sentence, Truth, TruthItem, TruthSample

# Defect -> final status, where it is not a P0/P1 rule of quality (those are quarantined) and not an error of the
# catalogue (unreadable).
_FLAGGED = ("word_length", "extreme_aspect", "static", "noisy")
_UNREADABLE = {entry.name for entry in CODES.values()}


def status_of(rule: str | None) -> str:
    """The final status of an item that breaks this rule."""
    if rule is None:
        return "ok"
    return "unreadable" if rule in _UNREADABLE else "flagged" if rule in _FLAGGED else "quarantined"


_RECORD_BYTES = 10_240  # tars of most programs are padded to a multiple of it


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """One item that still has to be put somewhere."""

    data: bytes
    extension: str = ""
    licence: str | None = None  # None: that of the directory
    defect: str | None = None
    rule: str | None = None
    caption: str | None = None  # text that goes next to it

    @property
    def digest(self) -> Digest:
        """Of the bytes."""
        return digest_of(self.data)


@dataclass(slots=True)
class Ledger:
    """The files of one corpus and what is true of them."""

    out: Path
    advance: Advance = silent
    items: list[TruthItem] = field(default_factory=list)
    duplicates: list[Duplicate] = field(default_factory=list)
    lookalikes: list[Duplicate] = field(default_factory=list)
    shots: dict[Digest, tuple[float, ...]] = field(default_factory=dict)
    sentences: dict[Digest, tuple[Sentence, ...]] = field(default_factory=dict)
    long_items: dict[Digest, LongItem] = field(default_factory=dict)
    excerpts: list[Excerpt] = field(default_factory=list)
    probes: list[Probe] = field(default_factory=list)
    samples: list[TruthSample] = field(default_factory=list)
    companions: list[tuple[str, str]] = field(default_factory=list)
    _licences: dict[str, str] = field(default_factory=dict)

    def directory(self, path: str, source: str, licence: str, priority: int) -> None:
        """Makes a directory with its defaults for the rows below it."""
        self._licences[path] = licence
        self.put(
            f"{path}/_source.json",
            (json.dumps({"source": source, "licence": licence, "priority": priority}) + "\n").encode(),
        )

    def put(self, path: str, data: bytes) -> None:
        """Writes a file of the landing zone."""
        target = self.out / "landing" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def licence_of(self, shard: str) -> str:
        """The licence that the nearest directory gives."""
        parts = shard.split("/")
        for depth in range(len(parts), 0, -1):
            if (licence := self._licences.get("/".join(parts[:depth]))) is not None:
                return licence
        return "NOASSERTION"

    def note(
        self, shard: str, member: str, modality: str, piece: Piece, *, role: str = "media", has_bytes: bool = True
    ) -> None:
        """Enters one item into the truth."""
        self.items.append(
            TruthItem(
                shard=shard,
                member=member,
                modality=modality,
                role=role,
                digest=piece.digest if has_bytes else None,
                licence=piece.licence or self.licence_of(shard),
                defect=piece.defect,
                status=status_of(piece.rule),
                rule=piece.rule,
            )
        )
        self.advance(1)

    def loose(
        self, directory: str, name: str, modality: str, piece: Piece, *, role: str = "media", sidecar: str | None = None
    ) -> None:
        """A loose file, with the piece's caption in a file next to it where `sidecar` names its extension. Its
        licence is the directory's."""
        self.put(f"{directory}/{name}", piece.data)
        self.note(directory, name, modality, piece, role=role)
        if sidecar is not None and piece.caption is not None:
            text = Piece(data=piece.caption.encode(), licence=piece.licence)
            companion = f"{name.rsplit('.', 1)[0]}.{sidecar}"
            self.put(f"{directory}/{companion}", text.data)
            self.note(directory, companion, "text", text, role="caption" if modality == "image" else "transcript")

    def webdataset(self, shard: str, modality: str, samples: Sequence[tuple[Piece, str]]) -> None:
        """A tar of samples. With each piece: where its caption stands: `json`, `txt`, or `none`; a licence of its
        own always goes into the JSON."""
        members: list[tuple[str, bytes]] = []
        for number, (piece, where) in enumerate(samples):
            name = f"{number:06d}"
            members.append((f"{name}.{piece.extension}", piece.data))
            self.note(shard, members[-1][0], modality, piece)
            fields: dict[str, Any] = {"license": piece.licence} if piece.licence else {}
            if where == "json" and piece.caption is not None:
                fields["caption"] = piece.caption
                text = Piece(data=piece.caption.encode(), licence=piece.licence)
                self.note(shard, f"{name}.json#/caption", "text", text, role="caption")
            if fields:
                members.append((f"{name}.json", json.dumps(fields, ensure_ascii=False).encode()))
                self.companions.append((shard, f"{name}.json"))
            if where == "txt" and piece.caption is not None:
                members.append((f"{name}.txt", piece.caption.encode()))
                empty = not piece.caption.strip()
                text = Piece(
                    data=members[-1][1],
                    licence=piece.licence,
                    defect="text_empty" if empty else None,
                    rule="text_empty" if empty else None,
                )
                self.note(shard, members[-1][0], "text", text, role="caption" if modality == "image" else "transcript")
        self.put(shard, tar(members))

    def same(self, tier: str, modality: str, kind: str, digests: Iterable[Digest]) -> None:
        """Enters items that are the same thing; of tier "none": that only resemble each other."""
        row = Duplicate(tier=tier, modality=modality, kind=kind, digests=tuple(digests))
        (self.lookalikes if tier == "none" else self.duplicates).append(row)

    def truth(self, *, seed: int, scale: float, speech: str) -> Truth:
        """Everything entered, in an order that depends on nothing else, with the exact duplicates counted."""
        counts: dict[str, Counter[Digest]] = defaultdict(Counter)
        for item in self.items:
            if item.digest is not None:
                counts[item.modality][item.digest] += 1
        exact = [
            Duplicate(tier="exact", modality=modality, kind="copy", digests=(digest,), num_occurrences=count)
            for modality, found in sorted(counts.items())
            for digest, count in sorted(found.items())
            if count > 1
        ]
        return Truth(
            seed=seed,
            scale=scale,
            speech=speech,
            items=tuple(sorted(self.items, key=lambda item: (item.shard, item.member))),
            duplicates=(*exact, *self.duplicates),
            lookalikes=tuple(self.lookalikes),
            shots=self.shots,
            sentences=self.sentences,
            long_items=self.long_items,
            excerpts=tuple(self.excerpts),
            probes=tuple(self.probes),
            samples=tuple(self.samples),
            companions=tuple(self.companions),
        )


def tar(members: Sequence[tuple[str, bytes]]) -> bytes:
    """The members as a plain tar, without owners and times."""
    buffer = io.BytesIO()
    archive = TarWriter(buffer)
    for name, data in members:
        archive.add(name, data)
    archive.finish()
    return buffer.getvalue() + bytes(-archive.size_bytes % _RECORD_BYTES)


def gzipped(data: bytes) -> bytes:
    """The bytes behind gzip, without a time in the header."""
    return gzip.compress(data, 6, mtime=0)
