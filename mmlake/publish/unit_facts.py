"""What a version's samples say of films, recordings and spans of them, from the tables tracks, units and alignments.

The facts of a version lie in a temporary file, in the order of the lake's shards, and are read one by one: words of a
million clips take gigabytes, while an index of them takes 100 bytes each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake import preprocess
from mmlake.lake import Lake
from mmlake.schemas import ALIGNMENTS, CAPTIONS, SPEAKERS, TRACKS
from mmlake.schemas.captions import CORRECTION
from mmlake.shards import LATER_FIELDS, Held, UnitFacts
from mmlake.tables import Slot

_COPIED = ("digest", "audio_digest", "duration_s", "start_frame", "end_frame", "keyframes", "cues", "transcript")
UNIT_COLUMNS = pa.schema(
    [
        *(preprocess.UNIT_TRACKS.field(name).with_nullable(True) for name in _COPIED),
        pa.field("words", ALIGNMENTS.arrow.field("words").type),
        pa.field("transcript_match", pa.float64()),
        preprocess.UNIT_TRACKS.field("shots").with_nullable(True),
        SPEAKERS.arrow.field("turns").with_nullable(True),
    ]
)
# what models say of units, in packs of their own: versions of earlier releases have none
CAPTION_COLUMNS = pa.schema(
    [
        pa.field("digest", pa.string()),
        *(CAPTIONS.arrow.field(name).with_nullable(True) for name in ("caption", "event_tags", "events")),
        pa.field("captioned_by", pa.string()),
        pa.field("corrections", CAPTIONS.arrow.field("lines").type),
        pa.field("corrected_by", pa.string()),
    ]
)
_COLUMNS = pa.schema([*UNIT_COLUMNS, *(field for field in CAPTION_COLUMNS if field.name != "digest")])
_EMPTY = UnitFacts()


class VersionTracks:
    """The facts of the units of a version, by their digests."""

    def __init__(self, file: pa.ipc.RecordBatchFileReader | None) -> None:
        batches = [file.get_batch(number) for number in range(file.num_record_batches)] if file is not None else []
        self._batches = batches
        digests = [batch.column("digest").cast(pa.string()) for batch in batches]
        self._numbers = np.cumsum([0, *(batch.num_rows for batch in batches)])
        flat = np.concatenate([np.zeros(0, "S64"), *(np.array(part.to_pylist(), "S64") for part in digests)])
        self._order = np.argsort(flat, kind="stable")
        self._sorted = flat[self._order]
        self._sounds = _joined([pc.is_valid(batch.column("audio_digest")) for batch in batches])
        self._pictures = _joined([pc.greater(pc.list_value_length(batch.column("keyframes")), 0) for batch in batches])

    def held(self, digest: str) -> Held:
        """What the unit has; nothing where the version does not hold it."""
        row = self._row(digest)
        return Held() if row < 0 else Held(bool(self._sounds[row]), bool(self._pictures[row]))

    def facts(self, digest: str) -> UnitFacts:
        """The unit's facts; empty ones where the version does not hold it."""
        row = self._row(digest)
        if row < 0:
            return _EMPTY
        at = int(np.searchsorted(self._numbers, row, "right")) - 1
        found: dict[str, Any] = self._batches[at].slice(row - int(self._numbers[at]), 1).to_pylist()[0]
        del found["digest"]
        found |= {name: found[name] or () for name in ("event_tags", "events", "corrections")}
        found["keyframes"] = [{"time_s": one["time_s"], "digest": one["digest"]} for one in found["keyframes"]]
        return UnitFacts(
            **{name: value for name, value in found.items() if value is not None or name not in LATER_FIELDS}
        )

    def _row(self, digest: str) -> int:
        place = int(np.searchsorted(self._sorted, digest.encode()))
        is_found = place < len(self._sorted) and self._sorted[place] == digest.encode()
        return int(self._order[place]) if is_found else -1


def _joined(flags: list[Any]) -> np.ndarray:
    return np.concatenate([np.zeros(0, bool), *(np.asarray(pc.fill_null(one, False)) for one in flags)])


@contextmanager
def version_tracks(tables: Iterable[pa.Table], held: pa.Array) -> Iterator[VersionTracks]:
    """The facts of those units that are held, until the context ends. A unit that is in no table has none. tables: of
    UNIT_COLUMNS, with or without what models say of the units."""
    with tempfile.TemporaryDirectory(prefix="mmlake-") as folder:
        path, is_empty = Path(folder) / "units.arrow", True
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _COLUMNS) as writer:
            for table in tables:
                wanted = table.filter(pc.is_in(table["digest"], value_set=held))
                if wanted.num_rows:
                    writer.write_table(with_captions(wanted).combine_chunks())
                    is_empty = False
        if is_empty:
            yield VersionTracks(None)
            return
        with pa.memory_map(str(path)) as mapped:
            yield VersionTracks(pa.ipc.open_file(mapped))


def facts_of_shard(lake: Lake, modality: str, shard: str) -> pa.Table:
    """The facts of the units of a source shard (UNIT_COLUMNS)."""
    units = lake.tables.read(Slot("units", modality, shard))
    units = units.filter(pc.and_(pc.not_equal(units["kind"], preprocess.GAP), pc.equal(units["status"], "ok")))
    if not units.num_rows:
        return UNIT_COLUMNS.empty_table()
    tracks = lake.tables.read(Slot(TRACKS.name, modality, shard))
    tracks = tracks.filter(pc.is_in(tracks["digest"], value_set=units["parent_digest"].combine_chunks()))
    rows = preprocess.unit_tracks(tracks, units)
    names = [*_COPIED, "shots", "parent_digest", "span_start_s", "span_end_s"]
    aligned = _aligned(lake, Slot(ALIGNMENTS.name, modality, shard), units["parent_digest"])
    spoken = _turns(lake, Slot(SPEAKERS.name, modality, shard), units["parent_digest"])
    facts = rows.select(names).to_pylist()
    for row in facts:
        parent, start_s, end_s = row.pop("parent_digest"), row.pop("span_start_s"), row.pop("span_end_s")
        words, row["transcript_match"] = aligned.get(parent, ([], None))
        row["words"] = words_within(words, start_s, end_s)
        row["turns"] = turns_within(spoken.get(parent, []), start_s, end_s)
    return pa.Table.from_pylist(facts, UNIT_COLUMNS)


def with_captions(facts: pa.Table, said: pa.Table | None = None) -> pa.Table:
    """The facts with what models say of each unit. said: CAPTION_COLUMNS; None where nothing is said."""
    if said is None:
        said = CAPTION_COLUMNS.empty_table()
    at = pc.index_in(facts["digest"], value_set=said["digest"].combine_chunks())
    for field in CAPTION_COLUMNS:
        if field.name not in facts.column_names:
            facts = facts.append_column(field, said[field.name].combine_chunks().take(at))
    return facts.select(_COLUMNS.names).cast(_COLUMNS)


def captions_of_shard(lake: Lake, modality: str, shard: str) -> pa.Table:
    """What models say of the units of a source shard (CAPTION_COLUMNS), sorted by digest; without rows where nobody
    was asked, or nothing could be used."""
    slot = Slot(CAPTIONS.name, modality, shard)
    if lake.tables.stamp(slot) is None:
        return CAPTION_COLUMNS.empty_table()
    found: dict[str, dict[str, Any]] = {}
    for row in lake.tables.read(slot).to_pylist():
        if row["status"] == "unreadable":
            continue
        unit = found.setdefault(row["digest"], {"digest": row["digest"]})
        by = f"{row['producer']}:{row['model']}@{row['revision']}"
        if row["kind"] == CORRECTION:
            unit |= {"corrections": row["lines"], "corrected_by": by}
        else:
            unit |= {name: row[name] for name in ("caption", "event_tags", "events")} | {"captioned_by": by}
    return pa.Table.from_pylist([found[digest] for digest in sorted(found)], CAPTION_COLUMNS)


def _aligned(lake: Lake, slot: Slot, parents: pa.ChunkedArray) -> dict[str, tuple[list[dict[str, Any]], float | None]]:
    """Item -> (words, confidence) of its alignment that is sound, else of its first."""
    if lake.tables.stamp(slot) is None:
        return {}
    table = lake.tables.read(slot, columns=["digest", "status", "error_code", "confidence", "words"])
    found: dict[str, tuple[list[dict[str, Any]], float | None]] = {}
    for row in table.filter(pc.is_in(table["digest"], value_set=parents.combine_chunks())).to_pylist():
        is_sound = preprocess.has_words(row)
        if row["digest"] not in found or (is_sound and not found[row["digest"]][0]):
            found[row["digest"]] = row["words"] if is_sound else [], row["confidence"]
    return found


def _turns(lake: Lake, slot: Slot, parents: pa.ChunkedArray) -> dict[str, list[dict[str, Any]]]:
    """Item -> who speaks when in it."""
    if lake.tables.stamp(slot) is None:
        return {}
    table = lake.tables.read(slot, columns=["digest", "turns"])
    table = table.filter(pc.is_in(table["digest"], value_set=parents.combine_chunks()))
    return {row["digest"]: row["turns"] for row in table.to_pylist()}


def words_within(
    words: Sequence[Mapping[str, Any]], start_s: float | None, end_s: float | None
) -> list[dict[str, Any]]:
    """The words whose middle lies in the span, on its clock: each is in one span only. All of them where the unit is
    whole."""
    if start_s is None or end_s is None:
        return [dict(word) for word in words]
    return [
        {
            **word,
            "start_s": max(0.0, word["start_s"] - start_s),
            "end_s": min(word["end_s"], end_s) - start_s,
        }
        for word in words
        if start_s <= (word["start_s"] + word["end_s"]) / 2 < end_s
    ]


def turns_within(
    turns: Sequence[Mapping[str, Any]], start_s: float | None, end_s: float | None
) -> list[dict[str, Any]]:
    """What of the turns lies in the span, on its clock. All of them where the unit is whole."""
    if start_s is None or end_s is None:
        return [dict(turn) for turn in turns]
    return [
        {**turn, "start_s": max(turn["start_s"], start_s) - start_s, "end_s": min(turn["end_s"], end_s) - start_s}
        for turn in turns
        if turn["start_s"] < end_s and turn["end_s"] > start_s
    ]
