"""What is in the sample corpus: every item a perfect reader finds, every planted duplicate, defect, cut and search
answer. Written and read as JSON."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mmlake.errors import SettingsError
from mmlake.records import ADMITTED, Digest

FORMAT_VERSION = 3
KIND = "mmlake sample corpus"  # what distinguishes a truth file from any other JSON


@dataclass(frozen=True, kw_only=True, slots=True)
class TruthItem:
    """One item that a perfect reader emits, and what must become of it."""

    shard: str  # container file, or the directory of a loose file, relative to the landing zone
    # member of a tar, name of a loose file, `line:N` or `row:N`, both from 1; `#/field` behind it for a text inside a
    # JSON member
    member: str
    modality: str
    role: str
    digest: Digest | None  # of the item's bytes; None where no item bytes exist
    licence: str  # SPDX id
    defect: str | None  # what was planted; None for clean items
    status: str  # final status
    rule: str | None  # name of the rule or error that must say so


@dataclass(frozen=True, kw_only=True, slots=True)
class Duplicate:
    """Items that are the same thing."""

    tier: str  # exact, near or semantic
    modality: str
    kind: str  # how they differ
    digests: tuple[Digest, ...]  # the original first; a single one where tier is exact
    num_occurrences: int | None = None  # exact only: items with these bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """A search and its answers."""

    query: str  # a sentence, or the path of a file relative to the folder of the truth file
    kind: str  # modality of the query
    modality: str  # what is searched
    relevant: tuple[Digest, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """A stretch of speech."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class LongItem:
    """A film or recording of minutes: what a splitter may cut at, and what it may leave out."""

    modality: str
    duration_s: float
    pauses_s: tuple[tuple[float, float], ...]  # where nobody speaks, the beginning and the end included
    rests_s: tuple[tuple[float, float], ...]
    # the only stretches that may become gaps: long silences of a recording, a standing picture without sound of a film


@dataclass(frozen=True, kw_only=True, slots=True)
class Excerpt:
    """A stretch of a longer item that also lies in the landing zone alone, in other bytes."""

    modality: str
    kind: str  # how the copy differs
    digest: Digest  # of the copy
    parent: Digest
    start_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TruthSample:
    """What belongs together, and must reach a batch so."""

    sample_id: str
    modality: str
    parts: tuple[tuple[str, Digest], ...]  # (role, digest) of those that must stay, in order
    num_masked: int  # further parts, which must not
    fields: dict[str, Any]  # some of the source's, typed


@dataclass(frozen=True, kw_only=True, slots=True)
class Truth:
    """Everything that is known about one generated corpus."""

    seed: int
    scale: float
    speech: str  # "espeak-ng": real words; "formant": speech-like sound only
    items: tuple[TruthItem, ...]
    duplicates: tuple[Duplicate, ...]
    lookalikes: tuple[Duplicate, ...]  # tier "none": alike at a glance, yet not duplicates
    shots: dict[Digest, tuple[float, ...]]  # per clean film, the times of its cuts in seconds; empty for a single take
    sentences: dict[Digest, tuple[Sentence, ...]]  # per spoken recording or film
    long_items: dict[Digest, LongItem]
    excerpts: tuple[Excerpt, ...]
    probes: tuple[Probe, ...]
    samples: tuple[TruthSample, ...]
    companions: tuple[tuple[str, str], ...]  # (shard, member) of metadata that is no item of its own

    @classmethod
    def read(cls, path: Path) -> Truth:
        """The truth that `write` stored. Raises SettingsError where the file is no truth file of this version."""
        try:
            value = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SettingsError(f"{path} is no truth file; write one with `mmlake sample`") from error
        if not isinstance(value, dict) or value.get("kind") != KIND or "items" not in value:
            raise SettingsError(f"{path} is no finished truth file; write one with `mmlake sample`")
        version = value["format_version"]
        if version != FORMAT_VERSION:
            raise SettingsError(
                f"{path} has format {version}, this release reads {FORMAT_VERSION}; write it again with `mmlake sample`"
            )
        return cls(
            seed=value["seed"],
            scale=value["scale"],
            speech=value["speech"],
            items=tuple(TruthItem(**row) for row in value["items"]),
            duplicates=tuple(_duplicate(row) for row in value["duplicates"]),
            lookalikes=tuple(_duplicate(row) for row in value["lookalikes"]),
            shots={digest: tuple(times) for digest, times in value["shots"].items()},
            sentences={digest: tuple(Sentence(**row) for row in rows) for digest, rows in value["sentences"].items()},
            long_items={
                digest: LongItem(**row | {name: _spans(row[name]) for name in ("pauses_s", "rests_s")})
                for digest, row in value["long_items"].items()
            },
            excerpts=tuple(Excerpt(**row) for row in value["excerpts"]),
            probes=tuple(
                Probe(query=row["query"], kind=row["kind"], modality=row["modality"], relevant=tuple(row["relevant"]))
                for row in value["probes"]
            ),
            samples=tuple(
                TruthSample(**row | {"parts": tuple((role, digest) for role, digest in row["parts"])})
                for row in value["samples"]
            ),
            companions=tuple((shard, member) for shard, member in value["companions"]),
        )

    def write(self, path: Path) -> None:
        """Stores the truth as JSON, the same bytes for equal truths."""
        value: dict[str, Any] = {"kind": KIND, "format_version": FORMAT_VERSION, **asdict(self)}
        for row in value["duplicates"]:
            if row["tier"] == "exact":
                row["digest"] = row["digests"][0]
        Path(path).write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")

    def of(self, modality: str, *, status: str | None = None) -> list[TruthItem]:
        """The items of one modality, of one expected status where given."""
        return [item for item in self.items if item.modality == modality and status in (None, item.status)]

    def admitted(self, modality: str) -> list[Digest]:
        """The distinct digests that must get past quality, sorted."""
        return sorted(
            {item.digest for item in self.of(modality) if item.status in ADMITTED and item.digest is not None}
        )

    def pairs(self, tier: str, modality: str) -> list[tuple[Digest, Digest, str]]:
        """(original, duplicate, kind) of every planted pair of a tier other than exact, left < right."""
        found: list[tuple[Digest, Digest, str]] = []
        for row in self.duplicates:
            if row.tier == tier and row.modality == modality:
                for at, left in enumerate(row.digests):
                    found.extend((min(left, right), max(left, right), row.kind) for right in row.digests[at + 1 :])
        return sorted(found)

    def counts(self) -> dict[str, dict[str, int]]:
        """Per modality: items, distinct digests, items of each expected status, planted duplicates of each tier."""
        table: dict[str, dict[str, int]] = {}
        for modality in sorted({item.modality for item in self.items}):
            rows = self.of(modality)
            table[modality] = {
                "items": len(rows),
                "distinct": len({row.digest for row in rows} - {None}),
                **dict(sorted(Counter(row.status for row in rows).items())),
            }
            table[modality] |= {
                tier: sum(row.tier == tier and row.modality == modality for row in self.duplicates)
                for tier in ("exact", "near", "semantic")
            }
        return table


def _spans(rows: list[list[float]]) -> tuple[tuple[float, float], ...]:
    return tuple((start_s, end_s) for start_s, end_s in rows)


def _duplicate(row: dict[str, Any]) -> Duplicate:
    return Duplicate(
        tier=row["tier"],
        modality=row["modality"],
        kind=row["kind"],
        digests=tuple(row["digests"]),
        num_occurrences=row["num_occurrences"],
    )
