"""Frozen retrieval probes: queries whose right answers are known.

Enters: probes made by hand, or catalog rows to make known-item probes from. Leaves: a probe set named by the SHA-256 of
its JSON lines, which is never overwritten, so that two versions are always measured with the very same probes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from mmlake import checked_json
from mmlake.errors import BlobCorrupt, BlobMissing, SettingsError, TableCorrupt
from mmlake.evaluate.distortions import DISTORTIONS
from mmlake.letters import is_unspaced, sentences
from mmlake.records import ADMITTED, Digest, canonical_json, digest_of, is_digest
from mmlake.store import write_atomically

_MIN_QUERY_WORDS = 4  # fewer words match many documents, so that the one right answer would be a matter of luck


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """One query with its right answers. A duplicate cluster is one answer, whichever member is returned."""

    id: str
    kind: str  # what the query is: text, image, video or audio
    modality: str  # what is searched
    relevant: tuple[Digest, ...]
    query: str = ""  # the words, where kind is text
    query_digest: Digest | None = None  # the item whose distorted rendition is the query, where kind is not text
    distortion: str | None = None  # how that rendition is made
    hard_negatives: tuple[Digest, ...] = ()  # alike but wrong: must not stand above the right answer


@dataclass(frozen=True, slots=True)
class ProbeSet:
    """Probes sorted by id, named by their content."""

    probes: tuple[Probe, ...]

    def __post_init__(self) -> None:
        _check(self.probes)
        object.__setattr__(self, "probes", tuple(sorted(self.probes, key=lambda probe: probe.id)))

    def to_jsonl(self) -> bytes:
        """One canonical JSON object per line."""
        return "".join(canonical_json(asdict(probe)) + "\n" for probe in self.probes).encode()

    @property
    def digest(self) -> Digest:
        """SHA-256 of `to_jsonl()`: the name that scores and decisions quote."""
        return digest_of(self.to_jsonl())

    def write(self, directory: Path) -> Digest:
        """The digest, once `<directory>/<digest>.jsonl` is durable. A file that is already there is checked, never
        replaced."""
        path = Path(directory) / f"{self.digest}.jsonl"
        if path.exists():
            ProbeSet.read(directory, self.digest)
        else:
            write_atomically(path, self.to_jsonl())
        return self.digest

    @classmethod
    def read(cls, directory: Path, digest: Digest) -> ProbeSet:
        """The set of that digest. Raises BlobMissing, BlobCorrupt."""
        path = Path(directory) / f"{digest}.jsonl"
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise BlobMissing(
                f"probe set {digest} is not in {directory}; copy its file there, or build a new set and compare "
                "with that one only"
            ) from error
        if (actual := digest_of(data)) != digest:
            raise BlobCorrupt(
                f"probe set {path} hashes to {actual}: a frozen set was edited; restore the file and write "
                "changes as a new set"
            )
        return cls(tuple(_from_dict(json.loads(line)) for line in data.splitlines()))


def pinned_in(directory: Path) -> ProbeSet | None:
    """The set that `pinned.json` of the directory names, or None where none was pinned yet. Raises TableCorrupt,
    BlobMissing, BlobCorrupt."""
    path = Path(directory) / "pinned.json"
    try:
        digest = checked_json.loads(path.read_bytes())["digest"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        raise TableCorrupt(f"{path} is not what was written; run `mmlake fsck --repair`, or pin a probe set") from error
    return ProbeSet.read(directory, digest)


def build_probes(
    catalog_rows: pa.Table | Sequence[Mapping[str, Any]],
    *,
    modalities: Sequence[str],
    seed: int,
    per_modality: int,
    query_words: int = 12,
    cross_modal: Collection[str] = (),
    hard_negatives: Mapping[Digest, Sequence[Digest]] | None = None,
) -> ProbeSet:
    """Known-item probes: at most per_modality per modality, one per duplicate cluster, the same for any order of the
    rows.

    catalog_rows: digest, modality, survivor (null: itself), and where there are such: role, status, text, sample_text.
    Rows that are not admitted are left out. modalities: those that get probes, in this order; one whose items cannot be
    distorted (`DISTORTIONS`) gets none of its own.
    Text: words from the sentence in the middle of a document -> its cluster. Media: the item's distorted rendition ->
    its cluster.
    cross_modal: media modalities that can be searched with words; there the caption or transcript is a query as well.
    hard_negatives: survivor -> digests.
    """
    rows = catalog_rows.to_pylist() if isinstance(catalog_rows, pa.Table) else list(catalog_rows)
    rows = sorted((row for row in rows if row.get("status", "ok") in ADMITTED), key=lambda row: row["digest"])
    clusters: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        clusters.setdefault((row["modality"], row.get("survivor") or row["digest"]), []).append(row)
    probes: list[Probe] = []
    for modality in modalities:
        survivors = sorted(
            (survivor for kind, survivor in clusters if kind == modality), key=lambda survivor: lot(seed, survivor)
        )
        known = _KnownItems(modality=modality, query_words=query_words, negatives=hard_negatives or {})
        routes = (["own"] if modality == "text" or modality in DISTORTIONS else []) + (
            ["words"] if modality in cross_modal and modality != "text" else []
        )
        for route in routes:
            made = (known.probe(route, survivor, clusters[modality, survivor]) for survivor in survivors)
            probes += _first([probe for probe in made if probe is not None], per_modality)
    return ProbeSet(tuple(probes))


@dataclass(frozen=True, kw_only=True, slots=True)
class _KnownItems:
    modality: str
    query_words: int
    negatives: Mapping[Digest, Sequence[Digest]]

    def probe(self, route: str, survivor: Digest, members: list[Mapping[str, Any]]) -> Probe | None:
        """The probe of one duplicate cluster, or None where it gives no usable query."""
        row = next((row for row in members if row["digest"] == survivor), members[0])
        relevant = tuple(sorted(member["digest"] for member in members))
        negatives = tuple(sorted(self.negatives.get(survivor, ())))
        if route == "own" and self.modality != "text":
            distortion = DISTORTIONS[self.modality]
            name = f"{self.modality}-{distortion}-{survivor[:16]}"
            return Probe(
                id=name,
                kind=self.modality,
                modality=self.modality,
                relevant=relevant,
                query_digest=row["digest"],
                distortion=distortion,
                hard_negatives=negatives,
            )
        if self.modality == "text" and row.get("role", "document") != "document":
            return None  # captions repeat: a caption as a query has no one right caption
        query = middle_words(
            row.get("text" if self.modality == "text" else "sample_text") or "", num_words=self.query_words
        )
        if not query:
            return None
        return Probe(
            id=f"{self.modality}-words-{survivor[:16]}",
            kind="text",
            modality=self.modality,
            relevant=relevant,
            query=query,
            hard_negatives=negatives,
        )


def middle_words(text: str, *, num_words: int) -> str:
    """At most num_words words of the sentence in the middle of the text, from that sentence on where it is short; ""
    under 4 words. Two signs of a script without spaces are a word."""
    is_one = is_unspaced(text)
    parts = [_pairs(part) if is_one else part.split() for part in sentences(text) if part.strip()]
    middle, seen = sum(map(len, parts)) / 2, 0
    words: list[str] = []
    for sentence in parts:
        seen += len(sentence)
        if seen >= middle:
            words += sentence
            if len(words) >= _MIN_QUERY_WORDS:
                break
    return ("" if is_one else " ").join(words[:num_words]) if len(words) >= _MIN_QUERY_WORDS else ""


def _pairs(sentence: str) -> list[str]:
    return [sentence[at : at + 2] for at in range(0, len(sentence), 2)]


def lot(seed: int, survivor: Digest) -> str:
    """By which the clusters that probes are made of are drawn, the smallest first."""
    # A keyed hash instead of a generator's draw: a corpus that grows keeps most of its probes, whatever the order of
    # arrival.
    return hashlib.sha256(f"{seed}:{survivor}".encode()).hexdigest()


def _first(probes: list[Probe], count: int) -> list[Probe]:
    """The first probes whose words are no other probe's words."""
    asked: dict[str, int] = {}
    for probe in probes:
        asked[probe.query.casefold()] = asked.get(probe.query.casefold(), 0) + 1
    return [probe for probe in probes if not probe.query or asked[probe.query.casefold()] == 1][:count]


def _check(probes: Sequence[Probe]) -> None:
    ids = [probe.id for probe in probes]
    if len(set(ids)) != len(ids):
        raise SettingsError(f"probe set: {len(ids) - len(set(ids))} ids are used twice; give each probe its own id")
    for probe in probes:
        if probe.kind != "text" and probe.kind not in DISTORTIONS:
            raise SettingsError(
                f"probe {probe.id!r}: its query is of the kind {probe.kind!r}, expected text or one of "
                f"{', '.join(DISTORTIONS)}; correct it"
            )
        if not probe.relevant or not all(map(is_digest, probe.relevant + probe.hard_negatives)):
            raise SettingsError(
                f"probe {probe.id!r}: needs at least one relevant digest, and digests of 64 hexadecimal "
                "characters everywhere"
            )
        if bool(probe.query) == bool(probe.query_digest):
            raise SettingsError(f"probe {probe.id!r}: needs either words in `query` or an item in `query_digest`")


def _from_dict(fields: dict[str, Any]) -> Probe:
    return Probe(
        **{**fields, "relevant": tuple(fields["relevant"]), "hard_negatives": tuple(fields.get("hard_negatives", ()))}
    )


def read_probe_file(path: Path) -> ProbeSet:
    """A probe set that a person wrote as JSON lines. Raises SettingsError naming the line that cannot be used."""
    probes = []
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"probe file {path} cannot be read as UTF-8 text; give JSON lines, see `mmlake probes --help`"
        ) from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                probes.append(_from_dict(json.loads(line)))
            except (ValueError, TypeError, KeyError) as error:
                raise SettingsError(
                    f"probe file {path}, line {number}: expected one JSON object with id, kind, modality, "
                    "relevant and query; see `mmlake probes --help`"
                ) from error
    return ProbeSet(tuple(probes))
