"""The table of tiers, and the join that walks it. Add yours here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from mmlake import contracts, schemas
from mmlake.border import IN_PROCESS, Runner
from mmlake.dedup import opened
from mmlake.dedup.audio import across
from mmlake.dedup.audio import fingerprints as audio_fingerprints
from mmlake.dedup.criteria import Criterion
from mmlake.dedup.image import fingerprints as image_fingerprints
from mmlake.dedup.image import matcher as image_matcher
from mmlake.dedup.image import recoding as image_recoding
from mmlake.dedup.image.keys import Known
from mmlake.dedup.kept.join import Units, kept_stars
from mmlake.dedup.kept.parts import Parts, part_stars
from mmlake.dedup.kept.store import KeptJoins
from mmlake.dedup.matching import Compare, Listed, MadeOf, Matcher
from mmlake.dedup.print_columns import print_columns
from mmlake.dedup.prints import DERIVED, KEYS, Positions, PrintTable, Ragged, digests_of
from mmlake.dedup.recall import estimates, nearest
from mmlake.dedup.recall.near import Estimates, Then
from mmlake.dedup.recall.nearest import Scores
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.stars.across import Covers, Places, led_across
from mmlake.dedup.stars.ahead import Ahead, can_be_sent
from mmlake.dedup.stars.leaders import stars
from mmlake.dedup.stars.pair_rows import table_of
from mmlake.dedup.stars.recoded_edges import with_originals
from mmlake.dedup.stars.standings import ascending, in_order, standing_of
from mmlake.dedup.stars.star_edges import Stars
from mmlake.dedup.stars.survivors import Standing
from mmlake.dedup.text import fingerprints as text_fingerprints
from mmlake.dedup.text import matcher as text_matcher
from mmlake.dedup.video import fingerprints as video_fingerprints
from mmlake.dedup.video import matcher as video_matcher
from mmlake.engine import Engine
from mmlake.progress import Advance, silent
from mmlake.records import signed
from mmlake.spans import Row, Span
from mmlake.store import Blobs

Prints = dict[str, NDArray[Any]]  # method -> hashes; with "times_s" where the first method is a sequence
Match = tuple[int, int, str, float]  # two positions, method, score


@dataclass(frozen=True, kw_only=True, slots=True)
class Tier:
    """One way to find near duplicates of one modality."""

    modality: str
    method: str  # the name that its pairs carry; a variant adds a suffix
    methods: tuple[str, ...]  # rows that a fingerprint has per digest
    columns: tuple[str, ...] = ()  # of TRACKS: what `opened` asks for, besides digest, parent_digest and the span
    # what a fingerprint is made of, picklable, as a context: a text, bytes of the store, a local file
    opened: Callable[[Row, Blobs], AbstractContextManager[Any]]
    # the same where what the prints are made of was kept when the item was decoded, else None; asked first
    kept: Callable[[Row, Blobs, DedupSettings], AbstractContextManager[Any] | None] | None = None
    # a kernel (mmlake.border): the prints of what was opened, in order; raises where one cannot be made
    fingerprint: Callable[[Sequence[Any], DedupSettings], list[Prints]]
    batch_rows: int = 1  # rows that the kernel is given at once; where one fails, each is tried alone
    # a kernel for the spans of one item, in order, from what was opened for the first of them: one decode for all. A
    # raise is the failure of the span whose turn it is. None: `opened` and `fingerprint` are asked for each span
    of_spans: Callable[[Any, Sequence[Span], DedupSettings], Iterable[Prints]] | None = None
    pair_methods: tuple[str, ...] = ()  # what its pairs may carry; none: `method` alone
    # a table of prints -> what is a candidate, and how one compares with others (mmlake.dedup.matching)
    matcher: Callable[[PrintTable, DedupSettings], Matcher] | None = None
    # in place of it, for a tier that may list all of its pairs: the prints of each unit -> two positions, method, score
    pairs: Callable[..., list[Match]] | None = None
    # a verdict on two units depends on their prints and the settings alone, so that it is kept for the next join
    is_pairwise: bool = False
    # a join that goes on from the one before where verdicts depend on the set too (mmlake.dedup.kept.parts)
    by_parts: Callable[..., tuple[Stars, Parts, Compare]] | None = None
    keys: Callable[[PrintTable], Ragged] | None = None  # of such a tier, from the prints alone
    # values of each unit, from its prints alone, that its keys are made of: they are kept too
    derived: Callable[[PrintTable], Ragged] | None = None
    # the keys that are made of these values, where they depend on those of others too: brought up to date from the ones
    # of an earlier join
    keyed: Callable[[Ragged, Known | None, DedupSettings], Ragged] | None = None
    # how alike chosen units are to others by a pass over all prints, which the recall of the keys is estimated against
    # (mmlake.dedup.recall.near); None: nothing is estimated
    nearest: Callable[[PrintTable, Positions], Scores] | None = None
    # what says whether units of one item behind each other hold all of a unit (mmlake.dedup.stars.across); None: not
    # asked
    covers: Callable[[PrintTable, DedupSettings], Covers] | None = None
    # which of two units was made of the other by coding it anew, which the pair method `recoded` says of the one that
    # goes; None: no pair says it
    made_of: Callable[[PrintTable, DedupSettings], MadeOf] | None = None
    recoded: str = ""
    # the method whose hashes a small unit shares with a large one that holds it; empty where keys do
    contained_by: str = ""
    words_by: str = ""  # the method whose hashes are the words of a unit in their order; empty where it has none
    bound: Callable[[DedupSettings], float]  # smallest score that counts
    finds: str  # what it is for, in a reader's words
    source: str
    plugin: str = ""  # "name==version" of the plugin that brings it; empty for a built-in one

    def made_matcher(self, prints: PrintTable, settings: DedupSettings) -> Matcher:
        """The matcher of these units."""
        if self.matcher is not None:
            return self.matcher(prints, settings)
        assert self.pairs is not None, f"tier {self.method} has neither matcher nor pairs"
        num = len(next(iter(prints.values())))
        if not num:
            return Listed(0, (), self.all_pair_methods)
        rows = [{method: values[at] for method, values in prints.items() if len(values[at])} for at in range(num)]
        return Listed(num, self.pairs(rows, settings=settings, advance=silent), self.all_pair_methods)

    @property
    def all_pair_methods(self) -> tuple[str, ...]:
        """What its pairs may carry."""
        return self.pair_methods or (self.method,)


def _of_texts(texts: Sequence[str], settings: DedupSettings) -> list[Prints]:
    return [one._asdict() for one in text_fingerprints.prints(texts, words=settings.text_shingle_words)]


def _of_images(pictures: Sequence[bytes], settings: DedupSettings) -> list[Prints]:
    return [image_fingerprints.fingerprint(data) for data in pictures]


def _of_videos(films: Sequence[Path | video_fingerprints.KeptFilm], settings: DedupSettings) -> list[Prints]:
    return [video_fingerprints.fingerprint(film, settings=settings) for film in films]


def _of_video_spans(
    film: Path | video_fingerprints.KeptFilm, spans: Sequence[Span], settings: DedupSettings
) -> Iterable[Prints]:
    return video_fingerprints.span_fingerprints(film, spans, settings=settings)


def _of_audio(recordings: Sequence[bytes], settings: DedupSettings) -> list[Prints]:
    return [audio_fingerprints.fingerprint(data) for data in recordings]


def _of_audio_spans(path: Path, spans: Sequence[Span], settings: DedupSettings) -> Iterable[Prints]:
    return audio_fingerprints.span_fingerprints(path, spans)


TIERS: tuple[Tier, ...] = (
    Tier(
        modality="text",
        method=text_matcher.METHODS[0],
        pair_methods=text_matcher.METHODS,
        methods=("shingles", "words"),
        columns=("text",),
        opened=opened.text,
        fingerprint=_of_texts,
        batch_rows=1_024,
        matcher=text_matcher.TextMatcher,
        nearest=nearest.texts,
        by_parts=part_stars,
        keys=lambda prints: text_matcher.sampled(prints["shingles"]),
        contained_by="shingles",
        words_by="words",
        bound=lambda settings: settings.text_jaccard,
        finds="the same text with words changed, added or lost, passages moved, or one text inside another",
        source="Broder 1997 (resemblance and containment); own alignment of words",
    ),
    Tier(
        modality="image",
        method=image_fingerprints.METHOD,
        pair_methods=image_fingerprints.PAIR_METHODS,
        methods=image_fingerprints.METHODS,
        opened=opened.picture,
        fingerprint=_of_images,
        matcher=image_matcher.matcher,
        is_pairwise=True,
        derived=image_matcher.hashes,
        keyed=image_matcher.keyed,
        nearest=nearest.pictures,
        made_of=lambda prints, settings: partial(image_recoding.made_of, prints["blocks"]),
        recoded=image_fingerprints.RECODED,
        bound=lambda settings: settings.image_correlation,
        finds="a picture recompressed, scaled, toned, cropped, bordered, captioned, marked, mirrored or turned",
        source="Zauner 2010; Evangelidis and Psarakis 2008",
    ),
    Tier(
        modality="video",
        method=video_matcher.METHOD,
        methods=video_matcher.METHODS,
        columns=("frames_digest",),
        kept=opened.kept_film,
        pair_methods=video_matcher.PAIR_METHODS,
        opened=opened.film,
        fingerprint=_of_videos,
        of_spans=_of_video_spans,
        matcher=video_matcher.FilmMatcher,
        is_pairwise=True,
        nearest=nearest.films,
        covers=video_matcher.FilmMatcher,
        made_of=lambda prints, settings: video_matcher.FilmMatcher(prints, settings).made_of,
        recoded=video_matcher.RECODED,
        bound=lambda settings: settings.video_match,
        finds="a clip encoded again, scaled, cropped, framed, captioned, mirrored, sped up or cut from another",
        source="pHash of windows on a time grid, votes on lines of time, own confirmation by movement",
    ),
    Tier(
        modality="audio",
        method=audio_fingerprints.METHOD,
        methods=audio_fingerprints.METHODS,
        columns=("audio_digest",),
        opened=opened.recording,
        fingerprint=_of_audio,
        of_spans=_of_audio_spans,
        pair_methods=audio_fingerprints.PAIR_METHODS,
        matcher=audio_fingerprints.matcher,
        is_pairwise=True,
        nearest=nearest.sounds,
        covers=across.Runs,
        derived=audio_fingerprints.keys,
        bound=lambda settings: audio_fingerprints.LEAST_SCORE,
        finds="a recording transcoded, louder, noisier, trimmed or padded",
        source="Haitsma and Kalker 2002",
    ),
)


def tiers_of(modality: str) -> tuple[Tier, ...]:
    """The built-in tiers of the modality, in the order of the table."""
    return tuple(tier for tier in TIERS if tier.modality == modality)


def near_pairs(
    fingerprints: pa.Table | Iterable[pa.Table],
    tiers: Sequence[Tier],
    *,
    nodes: pa.Table | None = None,
    criteria: Sequence[Criterion] = (),
    settings: DedupSettings,
    kept: KeptJoins | None = None,
    engine: Engine | None = None,
    runner: Runner = IN_PROCESS,
    advance: Advance = silent,
) -> pa.Table:
    """PAIRS of tier "near", of all methods: from each unit that stays to those that go for it, and what overlaps.

    fingerprints: in any order, whole or in parts that can be gone through once for each tier; each digest counts once,
    and one without fingerprints has no pairs.
    nodes: what decides who stays (`survivors.standing_of`), a row per digest; of other digests nothing is compared.
    None: closeness, then digest. With parent_digest, spans of one item are the same only where they are nearly equal.
    kept: where joins go on from the ones before, with the same outcome, and are kept for the next time.
    engine: how much memory the join takes, and where it puts the rest. runner: makes comparisons ahead of the join.
    The table's metadata has the recall of the keys, counted on a seeded sample (`estimates.recall_counts`).
    """
    parts = [fingerprints] if isinstance(fingerprints, pa.Table) else fingerprints
    engine = engine or Engine()
    if nodes is not None:
        nodes = ascending(nodes)
    found: list[pa.Table] = []
    estimated = Estimates(seed=settings.seed)
    for tier in tiers:
        names = [signed(method, tier.plugin) for method in tier.methods]
        digests, columns, places = print_columns(
            map(contracts.made, parts), names, engine=engine, nodes=None if nodes is None else nodes["digest"]
        )
        prints = dict(zip(tier.methods, columns.values(), strict=True))
        rows = nodes
        if nodes is not None and places is not None and len(places) < nodes.num_rows:
            rows = nodes.take(pa.array(places))
        with engine.used():
            units = Units(digests, partial(digests_of, prints), _items(rows))
            standing = _standing(rows, criteria, len(digests))
            how: dict[str, Any] = {"settings": settings, "kept": kept, "runner": runner, "advance": advance}
            if tier.nearest is not None and len(digests):
                how["then"] = partial(estimated.add, standing, prints, tier.nearest, units.numbers)
            edges = joined_tier(tier, prints, units, standing, **how)
            if tier.made_of is not None:
                of_two, plain = map(tier.all_pair_methods.index, (tier.recoded, tier.method))
                edges = with_originals(edges, tier.made_of(prints, settings), of_two, plain)
            if tier.covers is not None and (lie := Places.of(rows)) is not None:
                edges = led_across(edges, standing, lie, tier.covers(prints, settings))
        names = [signed(method, tier.plugin) for method in tier.all_pair_methods]
        found.append(table_of(edges, digests, names, tier="near", bound=tier.bound(settings)))
    pairs = schemas.conform(schemas.PAIRS, pa.concat_tables(found)) if found else schemas.empty(schemas.PAIRS)
    return estimates.with_curve(estimates.with_recall(pairs, estimated.counted), estimated.curves, over="keys")


def joined_tier(
    tier: Tier,
    prints: PrintTable,
    units: Units,
    standing: Standing,
    *,
    settings: DedupSettings,
    kept: KeptJoins | None = None,
    runner: Runner = IN_PROCESS,
    advance: Advance = silent,
    then: Then | None = None,
) -> Stars:
    """The edges that the tier finds between the units. then: is given them, and what compares any units, before the
    join is kept."""
    then = then or (lambda edges, compare, keys, min_shared: None)
    name = signed(tier.method, tier.plugin)
    if kept is not None and tier.by_parts is not None:
        before = kept.read_parts(name)
        found, parts, compare = tier.by_parts(prints, units, standing, settings=settings, prior=before, advance=advance)
        then(found, compare, partial(_keys_of_prints, tier, prints), 1)
        if parts is not before:
            kept.write_parts(name, parts)
        return found
    if kept is None or not tier.is_pairwise:
        matcher = units.judged_by(_ahead(tier, prints, settings, runner))
        found = stars(matcher, standing, equal=units.equal, advance=advance)
        then(found, matcher.compare, matcher.keys.take, matcher.min_shared)
        return found
    prior = kept.read(name)
    derived = None if tier.derived is None else units.derived(prints, tier.derived, prior)
    given = {} if derived is None else {DERIVED: derived}
    if derived is not None and tier.keyed is not None:
        given[KEYS] = tier.keyed(derived, units.known(prior), settings)
    matcher = _ahead(tier, {**prints, **given}, settings, runner)
    found, judge, join = kept_stars(matcher, standing, units=units, prior=prior, advance=advance)
    then(found, judge.compare, matcher.keys.take, matcher.min_shared)
    kept.write(name, replace(join(), derived=derived))
    return found


def _keys_of_prints(tier: Tier, prints: PrintTable, units: Positions) -> Ragged:
    """The keys of these units, for a tier that is joined by parts."""
    assert tier.keys is not None
    return tier.keys({method: prints[method].take(units) for method in tier.methods})


def _ahead(tier: Tier, prints: PrintTable, settings: DedupSettings, runner: Runner) -> Matcher:
    """The matcher of these units, whose comparisons workers make ahead where they are worth sending."""
    matcher = tier.made_matcher(prints, settings)
    if tier.matcher is None or not tier.is_pairwise or runner.workers < 2 or not can_be_sent(tier.matcher):
        return matcher
    sent = {method: prints[method] for method in tier.methods}
    return Ahead(matcher, sent, tier.matcher, settings=settings, runner=runner)


def _items(rows: pa.Table | None) -> pa.Array | None:
    if rows is None or "parent_digest" not in rows.column_names:
        return None
    return pa.chunked_array(rows["parent_digest"]).combine_chunks()


def _standing(rows: pa.Table | None, criteria: Sequence[Criterion], num: int) -> Standing:
    return in_order(num) if rows is None else standing_of(rows, criteria)


def prints_of_tier(
    tier: Tier,
    fingerprints: Iterable[pa.Table],
    *,
    nodes: pa.ChunkedArray | None = None,
    engine: Engine | None = None,
) -> tuple[pa.Array, dict[str, Ragged]]:
    """(the digests that the tier has made something of, sorted; what its methods gave for each).

    fingerprints: in parts. nodes: sorted digests; of others nothing is taken. engine: as of `near_pairs`."""
    named = [signed(method, tier.plugin) for method in tier.methods]
    digests, prints, _ = print_columns(fingerprints, named, engine=engine or Engine(), nodes=nodes)
    return digests, dict(zip(tier.methods, prints.values(), strict=True))
