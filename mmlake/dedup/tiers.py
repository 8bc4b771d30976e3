"""The table of tiers, and the two functions that walk it: fingerprint and near_pairs. Add yours here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mmlake import contracts, schemas
from mmlake.border import IN_PROCESS, Failure, Runner
from mmlake.dedup import audio, image, image_matcher, text, text_matching, video, video_matcher
from mmlake.dedup.edges import table_of
from mmlake.dedup.kept import Units, kept_stars
from mmlake.dedup.kept_parts import Parts, part_stars
from mmlake.dedup.kept_store import KeptJoins
from mmlake.dedup.leaders import Stars, stars
from mmlake.dedup.matching import Listed, Matcher
from mmlake.dedup.prints import DERIVED, PrintTable, Ragged, digests_of, of_lists
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.survivors import Criterion, Standing, by_digest, rows_of, standing_of
from mmlake.errors import UnreadableItem
from mmlake.progress import Advance, silent
from mmlake.records import signed
from mmlake.spans import SPAN_COLUMNS, Row, Shared, Span, by_parent, map_units, span_of
from mmlake.store import Blobs

_FINGERPRINT_FAILED = 5001
_SLICE_ROWS = 1_024  # tracks held as Python objects at once
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
    # a join that goes on from the one before where verdicts depend on the set too (mmlake.dedup.kept_parts)
    by_parts: Callable[..., tuple[Stars, Parts]] | None = None
    # values of each unit, from its prints alone, that its keys are made of: they are kept too
    derived: Callable[[PrintTable], Ragged] | None = None
    # the method whose hashes a small unit shares with a large one that holds it; empty where keys do
    contained_by: str = ""
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
    return [one._asdict() for one in text.prints(texts, words=settings.text_shingle_words)]


def _of_images(pictures: Sequence[bytes], settings: DedupSettings) -> list[Prints]:
    return [image.fingerprint(data) for data in pictures]


def _of_videos(paths: Sequence[Path], settings: DedupSettings) -> list[Prints]:
    return [video.fingerprint(path, settings=settings) for path in paths]


def _of_video_spans(path: Path, spans: Sequence[Span], settings: DedupSettings) -> Iterable[Prints]:
    return video.span_fingerprints(path, spans, settings=settings)


def _of_audio(recordings: Sequence[bytes], settings: DedupSettings) -> list[Prints]:
    return [audio.fingerprint(data) for data in recordings]


def _of_audio_spans(path: Path, spans: Sequence[Span], settings: DedupSettings) -> Iterable[Prints]:
    return audio.span_fingerprints(path, spans)


def _text(row: Row, store: Blobs) -> AbstractContextManager[str]:
    return nullcontext(row["text"] or "")


def _picture(row: Row, store: Blobs) -> AbstractContextManager[bytes]:
    return nullcontext(store.read(row["digest"]))


def _film(row: Row, store: Blobs) -> AbstractContextManager[Path]:
    return store.local(row["parent_digest"])


def _recording(row: Row, store: Blobs) -> AbstractContextManager[bytes | Path]:
    """The sound whole; as a file where spans of it are wanted."""
    if row["audio_digest"] is None:
        raise UnreadableItem(3003, "num_audio_tracks=0 not in [1, inf)")
    if span_of(row) is not None:
        return store.local(row["audio_digest"])
    return nullcontext(store.read(row["audio_digest"]))


TIERS: tuple[Tier, ...] = (
    Tier(
        modality="text",
        method=text_matching.METHODS[0],
        pair_methods=text_matching.METHODS,
        methods=("shingles", "words"),
        columns=("text",),
        opened=_text,
        fingerprint=_of_texts,
        batch_rows=1_024,
        matcher=text_matching.TextMatcher,
        by_parts=part_stars,
        contained_by="shingles",
        bound=lambda settings: settings.text_jaccard,
        finds="the same text with words changed, added or lost, passages moved, or one text inside another",
        source="Broder 1997 (resemblance and containment); own alignment of words",
    ),
    Tier(
        modality="image",
        method=image.METHOD,
        pair_methods=image.PAIR_METHODS,
        methods=image.METHODS,
        opened=_picture,
        fingerprint=_of_images,
        matcher=image_matcher.matcher,
        is_pairwise=True,
        derived=image_matcher.hashes,
        bound=lambda settings: settings.image_correlation,
        finds="a picture recompressed, scaled, toned, cropped, bordered, captioned, marked, mirrored or turned",
        source="Zauner 2010; Evangelidis and Psarakis 2008",
    ),
    Tier(
        modality="video",
        method=video_matcher.METHOD,
        methods=video_matcher.METHODS,
        pair_methods=(video_matcher.METHOD, video_matcher.MIRRORED),
        opened=_film,
        fingerprint=_of_videos,
        of_spans=_of_video_spans,
        matcher=video_matcher.FilmMatcher,
        is_pairwise=True,
        bound=lambda settings: settings.video_match,
        finds="a clip encoded again, scaled, cropped, framed, captioned, mirrored, sped up or cut from another",
        source="pHash of windows on a time grid, votes on lines of time, own confirmation by movement",
    ),
    Tier(
        modality="audio",
        method=audio.METHOD,
        methods=audio.METHODS,
        columns=("audio_digest",),
        opened=_recording,
        fingerprint=_of_audio,
        of_spans=_of_audio_spans,
        pair_methods=audio.PAIR_METHODS,
        matcher=audio.matcher,
        is_pairwise=True,
        bound=lambda settings: audio.LEAST_SCORE,
        finds="a recording transcoded, louder, noisier, trimmed or padded",
        source="Haitsma and Kalker 2002",
    ),
)


def tiers_of(modality: str) -> tuple[Tier, ...]:
    """The built-in tiers of the modality, in the order of the table."""
    return tuple(tier for tier in TIERS if tier.modality == modality)


def fingerprint(
    tracks: pa.Table,
    tiers: Sequence[Tier],
    *,
    store: Blobs,
    settings: DedupSettings,
    runner: Runner = IN_PROCESS,
    advance: Advance = silent,
) -> pa.Table:
    """FINGERPRINTS of the rows: as many per digest as the tiers have methods, with no hashes where the unit says
    nothing.

    A unit of which a tier can make none has one row of that tier, under its first method, with status, code and
    reason. Raises only for a failing machine or store. tracks: of units, those of one item next to each other; it is
    decoded once for all of them. runner: where media are decoded.
    """
    columns: dict[str, list[Any]] = {name: [] for name in ("digest", "method", "hashes", "times_s")}
    failures: list[Failure | None] = []
    for tier in tiers:
        for row, found in _prints(tier, tracks, store, settings, runner):
            prints, failure = ({}, found) if isinstance(found, Failure) else (found, None)
            for method in tier.methods if failure is None else tier.methods[:1]:
                columns["digest"].append(row["digest"])
                columns["method"].append(signed(method, tier.plugin))
                columns["hashes"].append(prints.get(method, np.empty(0, np.uint64)))
                columns["times_s"].append(
                    prints.get("times_s", np.empty(0, np.float32)) if method == tier.method else np.empty(0, np.float32)
                )
                failures.append(failure)
            if tier is tiers[-1]:
                advance(1)
    table = schemas.from_columns(schemas.FINGERPRINTS, {**columns, **contracts.failure_columns(failures)})
    return schemas.conform(schemas.FINGERPRINTS, table)


def _prints(
    tier: Tier, tracks: pa.Table, store: Blobs, settings: DedupSettings, runner: Runner
) -> Iterator[tuple[Row, Prints | Failure]]:
    """What became of each row, in no order that counts."""
    tracks = tracks.select(list(dict.fromkeys(["digest", *SPAN_COLUMNS, *tier.columns])))
    attempted = partial(
        map_units, runner, code=_FINGERPRINT_FAILED, what=f"no fingerprint can be made of this {tier.modality} item"
    )
    if tier.of_spans is not None:
        is_cut = pc.is_valid(tracks["span_start_s"])
        spans, tracks = tracks.filter(is_cut), tracks.filter(pc.invert(is_cut))
        with Shared() as shared:
            yield from attempted(
                partial(_cut, tier.of_spans, settings),
                by_parent(_rows(spans)),
                opened=partial(_parent, tier, store, shared),
            )
    yield from attempted(
        partial(_fingerprinted, tier.fingerprint, settings),
        _batches(tracks, tier.batch_rows),
        opened=partial(_opened, tier, store),
    )


def _fingerprinted(
    fingerprint: Callable[[Sequence[Any], DedupSettings], list[Prints]], settings: DedupSettings, batch: Sequence[Any]
) -> list[Prints]:
    """The kernel of a tier: its prints of a batch of units."""
    return fingerprint(batch, settings)


def _cut(
    of_spans: Callable[[Any, Sequence[Span], DedupSettings], Iterable[Prints]],
    settings: DedupSettings,
    batch: Sequence[tuple[Any, Span]],
) -> Iterable[Prints]:
    """The kernel of a tier for spans of one item, each with what was opened for all of them."""
    return of_spans(batch[0][0], [span for _, span in batch], settings)


def _rows(tracks: pa.Table) -> Iterator[Row]:
    for batch in tracks.to_batches(max_chunksize=_SLICE_ROWS):
        yield from batch.to_pylist()


def _batches(tracks: pa.Table, size: int) -> Iterator[list[Row]]:
    for batch in tracks.to_batches(max_chunksize=_SLICE_ROWS):
        rows = batch.to_pylist()
        yield from (rows[at : at + size] for at in range(0, len(rows), size))


@contextmanager
def _opened(tier: Tier, store: Blobs, rows: list[Row]) -> Iterator[list[Any]]:
    with ExitStack() as stack:
        yield [stack.enter_context(tier.opened(row, store)) for row in rows]


@contextmanager
def _parent(tier: Tier, store: Blobs, shared: Shared, rows: list[Row]) -> Iterator[list[Any]]:
    with shared.one(rows[0]["parent_digest"], partial(tier.opened, rows[0], store)) as item:
        yield [(item, span_of(row)) for row in rows]


def near_pairs(
    fingerprints: pa.Table,
    tiers: Sequence[Tier],
    *,
    nodes: pa.Table | None = None,
    criteria: Sequence[Criterion] = (),
    settings: DedupSettings,
    kept: KeptJoins | None = None,
    advance: Advance = silent,
) -> pa.Table:
    """PAIRS of tier "near", of all methods: from each unit that stays to those that go for it, and what overlaps.

    The rows may come in any order and from any number of shards; each digest counts once, and one without fingerprints
    has no pairs.
    nodes: what decides who stays (`survivors.standing_of`), a row per digest; None: closeness, then digest. With
    parent_digest, spans of one item are the same only where they are nearly equal.
    kept: where joins go on from the ones before, with the same outcome, and are kept for the next time.
    """
    fingerprints = contracts.made(fingerprints)
    parts = []
    for tier in tiers:
        digests, prints = prints_of_tier(tier, fingerprints)
        units, standing = (
            Units(digests, partial(digests_of, prints), _items(nodes, digests)),
            _standing(digests, nodes, criteria),
        )
        found = tier_stars(tier, prints, units, standing, settings=settings, kept=kept, advance=advance)
        names = [signed(method, tier.plugin) for method in tier.all_pair_methods]
        parts.append(table_of(found, digests, names, tier="near", bound=tier.bound(settings)))
    return schemas.conform(schemas.PAIRS, pa.concat_tables(parts)) if parts else schemas.empty(schemas.PAIRS)


def tier_stars(
    tier: Tier,
    prints: PrintTable,
    units: Units,
    standing: Standing,
    *,
    settings: DedupSettings,
    kept: KeptJoins | None = None,
    advance: Advance = silent,
) -> Stars:
    """The edges that the tier finds between the units."""
    name = signed(tier.method, tier.plugin)
    if kept is not None and tier.by_parts is not None:
        before = kept.read_parts(name)
        found, parts = tier.by_parts(prints, units, standing, settings=settings, prior=before, advance=advance)
        kept.write_parts(name, parts)
        return found
    if kept is None or not tier.is_pairwise:
        matcher = units.judged_by(tier.made_matcher(prints, settings))
        return stars(matcher, standing, equal=units.equal, advance=advance)
    prior = kept.read(name)
    derived = None if tier.derived is None else units.derived(prints, tier.derived, prior)
    matcher = tier.made_matcher(prints if derived is None else {**prints, DERIVED: derived}, settings)
    found, join = kept_stars(matcher, standing, units=units, prior=prior, advance=advance)
    kept.write(name, replace(join, derived=derived))
    return found


def _items(nodes: pa.Table | None, digests: pa.Array) -> pa.Array | None:
    if nodes is None or "parent_digest" not in nodes.column_names:
        return None
    return pa.chunked_array(rows_of(nodes, digests)["parent_digest"]).combine_chunks()


def _standing(digests: pa.Array, nodes: pa.Table | None, criteria: Sequence[Criterion]) -> Standing:
    if nodes is None:
        return by_digest(digests)
    return standing_of(rows_of(nodes, digests), criteria)


def prints_of_tier(tier: Tier, fingerprints: pa.Table) -> tuple[pa.Array, dict[str, Ragged]]:
    """(the digests that the tier has made something of, sorted; what its methods gave for each)."""
    named = [signed(method, tier.plugin) for method in tier.methods]
    mine = fingerprints.filter(pc.is_in(fingerprints["method"], value_set=pa.array(named, pa.string())))
    digests = pc.unique(mine["digest"])
    digests = digests.take(pc.sort_indices(digests))
    prints = prints_of(mine, named, digests)
    return digests, {method: prints[name] for method, name in zip(tier.methods, named, strict=True)}


def prints_of(fingerprints: pa.Table, methods: Sequence[str], digests: pa.Array) -> dict[str, Ragged]:
    """Method -> what it made of each digest, in their order; an empty row where it made nothing."""
    prints = {}
    for method in methods:
        rows = fingerprints.filter(pc.equal(fingerprints["method"], method))
        hashes = of_lists(rows["hashes"])
        # behind all others the empty one
        hashes = Ragged(hashes.values, np.append(hashes.offsets, hashes.offsets[-1]))
        at = np.full(len(digests), len(hashes) - 1, np.int64)
        place = pc.index_in(rows["digest"], value_set=digests)
        known = pc.is_valid(place).to_numpy(zero_copy_only=False)
        at[pc.fill_null(place, 0).to_numpy()[known]] = np.flatnonzero(known)
        prints[method] = hashes.take(at)
    return prints
