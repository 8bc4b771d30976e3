"""Duplicates across modalities: a film's keyframe that is a picture of the lake, its sound that is a recording, its
transcript that is a text.

Enters: tracks of units that carry something of another modality, and that modality's fingerprints. Leaves: prints of
what they carry, by the tiers of its own modality, and CROSS_PAIRS. No film is decoded: keyframes and sound tracks are
blobs of the store. A unit has at most `MOST_ROWS` rows, so the table is linear in the units whatever they show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, schemas
from mmlake.border import IN_PROCESS, Runner
from mmlake.dedup.cross.join import MET, Meeting, near_meetings
from mmlake.dedup.fingerprinting import fingerprint
from mmlake.dedup.greedy import Edge
from mmlake.dedup.image.alignment import LEAST_DETAIL
from mmlake.dedup.image.matcher import details, thumbnails
from mmlake.dedup.print_columns import prints_of
from mmlake.dedup.prints import PrintTable, of_lists
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.text.fingerprints import num_packed
from mmlake.dedup.tiers import Tier, prints_of_tier
from mmlake.engine import Engine
from mmlake.progress import Advance, silent
from mmlake.records import digest_of, signed
from mmlake.schemas.cross import ALIKE, COMPONENT_FINGERPRINTS, CROSS_PAIRS, KEYFRAME, SOUND, TRANSCRIPT
from mmlake.store import Blobs

MOST_ROWS = 8  # carriers that one unit has rows of; what else it meets is counted
_LEAST_WORDS = 8  # of a transcript: "Thank you." is said in many films
_SPANS = ("start_s", "end_s", "carrier_start_s", "carrier_end_s")


def component_fingerprints(
    tracks: pa.Table,
    tiers: Mapping[str, Sequence[Tier]],
    *,
    store: Blobs,
    settings: DedupSettings,
    runner: Runner = IN_PROCESS,
    advance: Advance = silent,
) -> pa.Table:
    """COMPONENT_FINGERPRINTS of the units: prints of their keyframes, sound and transcripts.

    tracks: of units (`preprocess.UNIT_TRACKS`) that decoded. tiers: component -> those of its modality.
    """
    made = partial(fingerprint, store=store, settings=settings, runner=runner, advance=advance)
    parts = []
    for component, own in tiers.items():
        listed, asked = _LISTED[component](tracks)
        prints = made(asked, own)
        prints = _without_silent(component, prints)
        parts.append(_rows_of(component, listed, prints))
    return schemas.conform(COMPONENT_FINGERPRINTS, pa.concat_tables([schemas.empty(COMPONENT_FINGERPRINTS), *parts]))


def components_of(tracks: pa.Table, component: str) -> pa.Table:
    """digest of each unit, component_digest, time_s and print_digest, by which its prints are named; each key once."""
    return _LISTED[component](tracks)[0]


def _keyframes(tracks: pa.Table) -> tuple[pa.Table, pa.Table]:
    frames = tracks["keyframes"].combine_chunks()
    flat, owners = pc.list_flatten(frames), pc.list_parent_indices(frames)
    digests = pc.struct_field(flat, "digest")
    listed = {
        "digest": tracks["digest"].combine_chunks().take(owners),
        "component_digest": digests,
        "time_s": pc.struct_field(flat, "time_s"),
        "print_digest": digests,
    }
    again = pa.table(listed).group_by(["digest", "component_digest", "print_digest"]).aggregate([("time_s", "min")])
    distinct = pc.unique(digests)
    return again.rename_columns(["digest", "component_digest", "print_digest", "time_s"]), _asked(
        tracks, {"digest": distinct, "parent_digest": distinct}, len(distinct)
    )


def _sounds(tracks: pa.Table) -> tuple[pa.Table, pa.Table]:
    rows = tracks.filter(pc.is_valid(tracks["audio_digest"]))
    return _named_by_unit(rows["digest"], rows["audio_digest"]), rows


def _transcripts(tracks: pa.Table) -> tuple[pa.Table, pa.Table]:
    rows = tracks.filter(pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(tracks["transcript"]), ""), False))
    names = pa.array([digest_of(text.encode()) for text in rows["transcript"].to_pylist()], pa.string())
    asked = {"digest": rows["digest"], "parent_digest": rows["parent_digest"], "text": rows["transcript"]}
    return _named_by_unit(rows["digest"], names), _asked(tracks, asked, rows.num_rows)


_LISTED = {KEYFRAME: _keyframes, SOUND: _sounds, TRANSCRIPT: _transcripts}


def _asked(tracks: pa.Table, columns: Mapping[str, pa.Array | pa.ChunkedArray], num: int) -> pa.Table:
    """Rows of unit tracks that have these columns alone, as a tier is asked with."""
    kinds = {name: tracks.schema.field(name).type for name in tracks.column_names}
    return pa.table({name: columns.get(name, pa.nulls(num, kind)) for name, kind in kinds.items()})


def _named_by_unit(units: pa.ChunkedArray, digests: pa.Array | pa.ChunkedArray) -> pa.Table:
    times_s = pa.nulls(len(units), pa.float64())
    return pa.table({"digest": units, "component_digest": digests, "print_digest": units, "time_s": times_s})


def _rows_of(component: str, listed: pa.Table, prints: pa.Table) -> pa.Table:
    """COMPONENT_FINGERPRINTS of one component."""
    names = ["method", "hashes", "status", "error_code", "error"]
    prints = prints.select(["digest", *names]).rename_columns(["print_digest", *names])
    # a join takes no lists: it finds the row, and the lists follow
    numbers = pa.table({"print_digest": prints["print_digest"], "at": pa.array(np.arange(prints.num_rows))})
    pairs = listed.join(numbers, "print_digest", join_type="inner")
    rows = prints.take(pairs["at"])
    columns = {name: pairs[name] for name in ("digest", "component_digest", "time_s")}
    columns |= {name: rows[name] for name in names} | {"component": pa.array([component] * rows.num_rows, pa.string())}
    return pa.table({field.name: columns[field.name] for field in COMPONENT_FINGERPRINTS.arrow}).cast(
        COMPONENT_FINGERPRINTS.arrow
    )


def _without_silent(component: str, prints: pa.Table) -> pa.Table:
    """The prints without the hashes of what says nothing: a black or blank frame, a word or two."""
    silent_digests = _faint(prints) if component == KEYFRAME else _brief(prints) if component == TRANSCRIPT else None
    if silent_digests is None or not len(silent_digests):
        return prints
    is_silent = pc.is_in(prints["digest"], value_set=silent_digests).combine_chunks()
    hashes = prints["hashes"].combine_chunks()
    at = prints.column_names.index("hashes")
    none = pa.array([[]], hashes.type)
    places = pc.if_else(is_silent, len(hashes), pa.array(np.arange(len(hashes))))
    return prints.set_column(at, prints.schema.field("hashes"), pa.concat_arrays([hashes, none]).take(places))


def _faint(prints: pa.Table) -> pa.Array:
    rows = prints.filter(pc.and_(pc.equal(prints["method"], "luma"), pc.equal(prints["status"], "ok")))
    luma = of_lists(pa.chunked_array(rows["hashes"]))
    faint = [
        len(luma[at]) > 0 and bool(details(thumbnails(luma[at][None]))[0] < LEAST_DETAIL) for at in range(len(luma))
    ]
    return rows["digest"].combine_chunks().filter(pa.array(faint, pa.bool_()))


def _brief(prints: pa.Table) -> pa.Array:
    rows = prints.filter(pc.and_(pc.equal(prints["method"], "words"), pc.equal(prints["status"], "ok")))
    words = of_lists(pa.chunked_array(rows["hashes"]))
    brief = [num_packed(words[at]) < _LEAST_WORDS for at in range(len(words))]
    return rows["digest"].combine_chunks().filter(pa.array(brief, pa.bool_()))


def cross_pairs(
    fingerprints: pa.Table | Iterable[pa.Table],
    components: pa.Table,
    tiers: Sequence[Tier],
    *,
    settings: DedupSettings,
    alone: pa.ChunkedArray | None = None,
    engine: Engine | None = None,
    advance: Advance = silent,
) -> pa.Table:
    """CROSS_PAIRS of the units among the components of their modality.

    fingerprints: FINGERPRINTS, whole or in parts that can be gone through once for each tier; each digest counts once.
    alone: sorted, the units that stand alone; None: all. components: of COMPONENT_FINGERPRINTS those of one modality,
    with `carrier_modality`; each key once. engine: as of `near_pairs`.
    """
    shards = [fingerprints] if isinstance(fingerprints, pa.Table) else fingerprints
    engine, parts = engine or Engine(), [schemas.empty(CROSS_PAIRS)]
    for tier in tiers:
        held, held_prints = component_prints(tier, components)
        if not held.num_rows:  # the prints of all pictures are large
            continue
        digests, prints = prints_of_tier(tier, map(contracts.made, shards), nodes=alone, engine=engine)
        if not len(digests):
            continue
        found = _Rows(held["digest"].to_pylist())
        with engine.used():
            met = near_meetings(tier, held_prints, prints, settings, enough=MOST_ROWS, advance=advance)
            for _, meetings in groupby(met, key=lambda meeting: int(meeting.units[0])):
                found.add(list(meetings))
        parts.append(_table(found, digests, held, tier, settings))
    return _best(pa.concat_tables(parts))


def component_prints(tier: Tier, components: pa.Table) -> tuple[pa.Table, PrintTable]:
    """(a row per component that the tier made something of, its prints). components: as of `cross_pairs`."""
    named = [signed(method, tier.plugin) for method in tier.methods]
    mine = components.filter(pc.is_in(components["method"], value_set=pa.array(named, pa.string())))
    held, ids = _in_turn(mine)
    made = prints_of(mine.set_column(mine.column_names.index("digest"), "digest", _ids(mine)), named, ids)
    return held, {method: made[name] for method, name in zip(tier.methods, named, strict=True)}


def _ids(components: pa.Table) -> pa.ChunkedArray:
    names = (components[name] for name in ("digest", "component", "component_digest"))
    return pc.binary_join_element_wise(*names, "/")


def _in_turn(components: pa.Table) -> tuple[pa.Table, pa.Array]:
    """(a row per component, their names): the first of every carrier, then the second ones and so on. Where more share
    a key than a list of candidates holds, no carrier with many keyframes takes all the room."""
    names = ["digest", "carrier_modality", "component", "component_digest", "time_s"]
    rows = components.select(names).append_column("id", _ids(components))
    rows = rows.group_by([*names, "id"]).aggregate([])
    rows = rows.sort_by([(name, "ascending") for name in ("digest", "component", "time_s", "component_digest")])
    codes = rows["digest"].combine_chunks().dictionary_encode().indices.to_numpy()
    rank = np.arange(len(codes)) - np.searchsorted(codes, codes)
    rows = rows.take(pa.array(np.argsort(rank, kind="stable")))
    return rows, rows["id"].combine_chunks()


class _Met(NamedTuple):
    held: int
    edge: Edge


@dataclass(slots=True)
class _Rows:
    """What was found, by positions: lists of one length."""

    carriers: list[str]  # of the held components
    unit: list[int] = field(default_factory=list)
    met: list[_Met] = field(default_factory=list)
    num_more: list[int] = field(default_factory=list)
    _firsts: dict[int, list[int]] = field(default_factory=dict)

    def add(self, meetings: Sequence[Meeting]) -> None:
        """Of all meetings of equal units the best one with each carrier, the best carriers first."""
        best: dict[str, _Met] = {}
        for meeting in meetings:
            for held in self._first_of_carriers(meeting):
                met, before = _Met(held, meeting.edge), best.get(self.carriers[held])
                if before is None or _order(met) < _order(before):
                    best[self.carriers[held]] = met
        kept = sorted(best.values(), key=_order)[:MOST_ROWS]
        num_more = sum(len(meeting.held) + meeting.num_left for meeting in meetings) - len(kept)
        for unit in meetings[0].units.tolist():
            self.unit += [unit] * len(kept)
            self.met += kept
            self.num_more += [num_more] * len(kept)

    def _first_of_carriers(self, meeting: Meeting) -> list[int]:
        """The first of equal components of each carrier, as many as a unit may have rows; made once per such group."""
        key = int(meeting.held[0])
        if key not in self._firsts:
            firsts: dict[str, int] = {}
            for held in meeting.held.tolist():
                if len(firsts) < MOST_ROWS:
                    firsts.setdefault(self.carriers[held], held)
            self._firsts[key] = list(firsts.values())
        return self._firsts[key]


def _order(met: _Met) -> tuple[bool, float, int]:
    return MET[met.edge.relation] not in ALIKE, -met.edge.score, met.held


def _table(found: _Rows, digests: pa.Array, held: pa.Table, tier: Tier, settings: DedupSettings) -> pa.Table:
    num = len(found.unit)
    methods = [signed(method, tier.plugin) for method in tier.all_pair_methods]
    rows = held.take(pa.array([met.held for met in found.met], pa.int64()))
    columns = {
        "digest": digests.take(pa.array(found.unit, pa.int64())),
        "carrier": rows["digest"],
        **{name: rows[name] for name in ("carrier_modality", "component", "component_digest", "time_s")},
        "method": [methods[met.edge.method] for met in found.met],
        "relation": [MET[met.edge.relation] for met in found.met],
        "score": [round(met.edge.score, 6) for met in found.met],
        "bound": [tier.bound(settings)] * num,
        "num_more": found.num_more,
    }
    for at, name in enumerate(_SPANS):
        columns[name] = [None if met.edge.spans_s is None else met.edge.spans_s[at] for met in found.met]
    return pa.table({one.name: _array(columns[one.name], one.type) for one in CROSS_PAIRS.arrow}).cast(
        CROSS_PAIRS.arrow
    )


def _array(values: object, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    return values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values, kind)


def _best(pairs: pa.Table) -> pa.Table:
    """One row per key: of several tiers the highest score."""
    keys = list(CROSS_PAIRS.key)
    rows = pairs.sort_by([*((name, "ascending") for name in keys), ("score", "descending"), ("method", "ascending")])
    names = np.array(list(zip(*(rows[name].to_pylist() for name in keys), strict=True)), dtype=object)
    is_new = np.ones(rows.num_rows, np.bool_)
    if rows.num_rows:
        is_new[1:] = (names[1:] != names[:-1]).any(axis=1)
    return schemas.conform(CROSS_PAIRS, rows.filter(pa.array(is_new)))


def cross_counts(pairs: pa.Table) -> dict[str, int]:
    """Rows by component, and the meetings that have none."""
    found = {row["values"]: row["counts"] for row in pc.value_counts(pairs["component"]).to_pylist()}
    units = pairs.group_by("digest").aggregate([("num_more", "max")])
    return found | {"left_out": pc.sum(units["num_more_max"]).as_py() or 0}
