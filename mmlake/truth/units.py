"""Planted films and recordings of minutes, followed from the landing zone to the batch: each second of them must be in
a unit that a trainer gets, in one that a version leaves out with a cause, or in a planted rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.table import Table

from mmlake.drawing import table
from mmlake.lake import Lake
from mmlake.loader import ShardStream
from mmlake.records import LEADING_ROLES
from mmlake.tables import Slot
from mmlake.truth.spans import (
    FORCED,
    GAP,
    PAUSE,
    SENTENCE,
    SENTENCE_S,
    SHOT,
    Planted,
    Stretch,
    check_cuts,
    is_in_time,
    said_at,
)

if TYPE_CHECKING:
    from mmlake.preprocess.settings import UnitSettings
    from mmlake.sample import Excerpt, Sentence, Truth

REAL_WORDS = "espeak-ng"  # the voice of Truth.speech that says words
_LOST_S = 0.1  # per item: coded sound ends with a whole frame
Word = tuple[str, float, float]  # the word, and its start and end in seconds


@dataclass(kw_only=True, slots=True)
class LongTruth:
    """How far one planted film or recording came."""

    name: str
    duration_s: float
    num_units: int = 0
    borders: dict[str, int] = field(default_factory=dict)  # shot, pause, sentence end, gap, forced
    batch_s: float = 0.0
    excluded_s: dict[str, float] = field(default_factory=dict)  # cause -> seconds
    gap_s: float = 0.0
    num_sentences: int = 0  # that should arrive with their words; 0 where the voice says none
    num_said: int = 0  # whose words came in a batch, at their times
    num_exact: int = 0  # of these, beginning within SENTENCE_S
    num_excluded: int = 0  # in units that the version leaves out
    wrong: list[str] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class UnitTruth:
    """How far all of them came, and which copies of their stretches were found."""

    items: list[LongTruth]
    num_excerpts: int  # stretches of them that also land alone
    num_found: int
    missed: list[str]

    @property
    def is_met(self) -> bool:
        """Whether nothing was lost, torn or missed."""
        return not self.missed and not any(one.wrong for one in self.items)

    def drawn(self) -> Table:
        """The same for a terminal."""
        columns = [
            "planted",
            "units",
            "borders at shot, pause, end, gap, forced",
            "s in batches + excluded + gaps",
            "sentences in batches",
            "",
        ]
        rows: list[list[Any]] = []
        for one in self.items:
            borders = ", ".join(str(one.borders.get(kind, 0)) for kind in (SHOT, PAUSE, SENTENCE, GAP, FORCED))
            fates = " + ".join(f"{value:.1f}" for value in (one.batch_s, sum(one.excluded_s.values()), one.gap_s))
            left_out = f", {one.num_excluded} excluded" if one.num_excluded else ""
            said = f"{one.num_said} of {one.num_sentences} ({one.num_exact} to {SENTENCE_S} s){left_out}"
            is_met = "NOT MET" if one.wrong else "met"
            rows.append([one.name, one.num_units, borders, f"{fates} of {one.duration_s:.1f}", said, is_met])
            causes = [f"{cause}: {length_s:.1f} s" for cause, length_s in sorted(one.excluded_s.items())]
            rows += [["", "", "", line, "", ""] for line in causes]
            rows += [["", "", line, "", "", ""] for line in one.wrong[:10]]
        found = f"{self.num_found} of {self.num_excerpts} found near their stretch"
        rows.append(["copies of stretches", "", found, "", "", "NOT MET" if self.missed else "met"])
        rows += [["", "", line, "", "", ""] for line in self.missed]
        return table("Planted films and recordings, from the landing zone to the batch", columns, rows)


def compare_units(lake: Lake, truth: Truth, version: str) -> UnitTruth:
    """The planted long items in the lake's units, in the version, and as its shards give them to a trainer."""
    stretches = long_stretches(lake, truth)
    given = _in_batches(lake, version)
    causes = {row["digest"]: row["cause"] for row in lake.versions.excluded(version).to_pylist()}
    names = {item.digest: f"{item.shard}/{item.member}" for item in truth.items}
    items = []
    for digest, long_item in truth.long_items.items():
        planted = Planted(
            item=long_item,
            shots_s=truth.shots.get(digest, ()),
            sentences=truth.sentences.get(digest, ()),
            has_words=truth.speech == REAL_WORDS,
        )
        one = follow(
            names[digest], planted, stretches.get(digest, []), given=given, causes=causes, settings=lake.settings.units
        )
        items.append(one)
    missed = [_spelled(one) for one in truth.excerpts if not _is_found(lake, one, stretches.get(one.parent, ()))]
    num_found = len(truth.excerpts) - len(missed)
    return UnitTruth(items=items, num_excerpts=len(truth.excerpts), num_found=num_found, missed=missed)


def long_stretches(lake: Lake, truth: Truth) -> dict[str, list[Stretch]]:
    """Digest of a long item -> its units and gaps, in order."""
    found: dict[str, list[Stretch]] = defaultdict(list)
    for modality in sorted({one.modality for one in truth.long_items.values()}):
        rows = lake.tables.concat("units", modality).to_pylist()
        for row in sorted(rows, key=lambda row: (row["parent_digest"], row["position"])):
            if row["parent_digest"] in truth.long_items and row["end"] is not None:
                found[row["parent_digest"]].append(
                    Stretch(digest=row["digest"], start_s=row["start"] / 1e6, end_s=row["end"] / 1e6, gap=row["gap"])
                )
    return dict(found)


def excerpt_pairs(truth: Truth, stretches: Mapping[str, Sequence[Stretch]], modality: str) -> set[tuple[str, str]]:
    """The pairs of units that the planted excerpts make duplicates, left < right."""
    return {
        (min(one.digest, unit.digest), max(one.digest, unit.digest))
        for one in truth.excerpts
        if one.modality == modality
        for unit in stretches.get(one.parent, ())
        if _shares(unit, one)
    }


def follow(
    name: str,
    planted: Planted,
    stretches: Sequence[Stretch],
    *,
    given: Mapping[str, Sequence[Word]],
    causes: Mapping[str, str],
    settings: UnitSettings,
) -> LongTruth:
    """What became of one item.

    stretches: its units and gaps in order. given: unit that a batch holds -> its words, on the unit's clock. causes:
    unit that the version leaves out -> why.
    """
    cuts = check_cuts(stretches, planted, min_s=settings.min_span_s, max_s=settings.max_span_s)
    one = LongTruth(
        name=name,
        duration_s=planted.item.duration_s,
        num_units=sum(stretch.gap is None for stretch in stretches),
        borders=dict(cuts.borders),
        wrong=list(cuts.wrong),
    )
    for stretch in stretches:
        if stretch.gap is not None:
            one.gap_s += stretch.length_s
        elif stretch.digest in given:
            one.batch_s += stretch.length_s
        elif (cause := causes.get(stretch.digest)) is not None:
            one.excluded_s[cause] = one.excluded_s.get(cause, 0.0) + stretch.length_s
        else:
            where = f"from {stretch.start_s:.2f} to {stretch.end_s:.2f} s"
            one.wrong.append(f"the unit {where} is in no batch, and not excluded")
    lost_s = one.duration_s - one.batch_s - one.gap_s - sum(one.excluded_s.values())
    if abs(lost_s) > _LOST_S:
        one.wrong.append(f"{lost_s:.2f} s are in no batch, in no excluded sample and in no gap")
    if planted.has_words:
        _follow_sentences(one, planted.sentences, stretches, given)
    return one


def _follow_sentences(
    one: LongTruth,
    sentences: Sequence[Sentence],
    stretches: Sequence[Stretch],
    given: Mapping[str, Sequence[Word]],
) -> None:
    one.num_sentences = len(sentences)
    words = [
        (word, stretch.start_s + start_s, stretch.start_s + end_s)
        for stretch in stretches
        for word, start_s, end_s in given.get(stretch.digest, ())
    ]
    for sentence in sentences:
        holding = [part for part in stretches if part.start_s < sentence.end_s and part.end_s > sentence.start_s]
        said_s = said_at(sentence, words)
        if said_s is not None and is_in_time(sentence, said_s):
            one.num_said += 1
            one.num_exact += abs(said_s[0] - sentence.start_s) <= SENTENCE_S
        elif any(part.digest not in given and part.gap is None for part in holding):
            one.num_excluded += 1
        elif said_s is None:
            one.wrong.append(f'not all words of "{sentence.text}" are there')
        else:
            where = f"from {sentence.start_s:.2f} to {sentence.end_s:.2f} s"
            one.wrong.append(
                f'"{sentence.text}" is said {where}, its words are at {said_s[0]:.2f} to {said_s[1]:.2f} s'
            )


def _in_batches(lake: Lake, version: str) -> dict[str, list[Word]]:
    """Digest of each leading unit that the loader gives with its bytes -> its words, on the unit's clock."""
    stream = ShardStream(lake.shards_dir / lake.versions.resolve(version), shuffle=False, decode={"json": "json"})
    found: dict[str, list[Word]] = {}
    try:
        for sample in stream:
            facts = sample["json"]
            for part in facts["parts"]:
                if part["role"] in LEADING_ROLES and sample.get(part["member"]):
                    words = facts.get("words") or ()  # of interleaved samples nothing long was planted
                    found[part["digest"]] = [(word["word"], word["start_s"], word["end_s"]) for word in words]
    finally:
        stream.close()
    return found


def _is_found(lake: Lake, excerpt: Excerpt, stretches: Sequence[Stretch]) -> bool:
    """Whether the copy and a unit that holds its stretch are near duplicates, or copies of a third."""
    mine = {unit.digest for unit in stretches if _shares(unit, excerpt)}
    rows = lake.tables.read(
        Slot("near_duplicates", excerpt.modality), columns=["left", "right", "relation"]
    ).to_pylist()
    pairs = [{"left": row["left"], "right": row["right"]} for row in rows if row["relation"] != "apart"]
    if any(
        {pair["left"], pair["right"]} - {excerpt.digest} <= mine for pair in pairs if excerpt.digest in pair.values()
    ):
        return True
    rows = lake.tables.read(Slot("duplicate_clusters", excerpt.modality), columns=["digest", "survivor"]).to_pylist()
    survivors = {row["digest"]: row["survivor"] for row in rows}
    return survivors.get(excerpt.digest) is not None and any(
        survivors.get(unit) == survivors[excerpt.digest] for unit in mine
    )


def _shares(unit: Stretch, excerpt: Excerpt) -> bool:
    """Whether the unit and the stretch of the excerpt have half of the shorter one in common."""
    common_s = min(unit.end_s, excerpt.end_s) - max(unit.start_s, excerpt.start_s)
    return unit.gap is None and common_s >= min(unit.length_s, excerpt.end_s - excerpt.start_s) / 2


def _spelled(one: Excerpt) -> str:
    where = f"{one.parent[:16]} from {one.start_s:.1f} to {one.end_s:.1f} s"
    return f"{one.modality} {one.digest[:16]} ({one.kind}) of {where}"
