"""Why an item is where it is: its story from the stage tables and their stamps alone.

Enters: a digest or a unique prefix. Leaves: a Story. Nothing is logged or kept for this while the lake is built, so the
answer is the same after the storage is reopened. Every table that is read is checked against its stamp.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from mmlake import schemas
from mmlake.errors import SettingsError
from mmlake.provenance.evidence import CORPUS_TABLES, CROSS_TABLE, Found, Record, corpus_rows, rows_of
from mmlake.provenance.spans import units_of
from mmlake.provenance.story import Membership, Occurrence, Step, Story
from mmlake.records import ADMITTED, Digest
from mmlake.schemas.cross import cross_said
from mmlake.tables import Tables

Manifests = Sequence[Mapping[str, Any]] | Callable[[Digest], Sequence[Mapping[str, Any]]]

_PREFIX = re.compile(r"[0-9a-f]{4,64}")
_MAX_PAIRS = 50  # pairs of a digest that are listed, closest first
_MAX_CROSSED = 8  # duplicates across modalities that are said in words
_RESULTS = ("alignments", "speakers", "captions", "measures", "fingerprints", "embeddings")


def why(
    digest_prefix: str,
    *,
    tables: Tables,
    manifests: Manifests = (),
    run_events: Mapping[str, Mapping[str, Any]] | None = None,
) -> Story:
    """The story of the one digest that begins with these characters (at least 4).

    manifests: either a callable digest -> rows {"version", "held", optional "names", "cause"}, or rows {"version",
    "digests" (a container of digests), optional "names", "causes" (digest -> why it is left out)}. run_events: run id
    -> what the event log says of it. A keyframe or audio track is answered with its parent's stages.
    Raises SettingsError on a text that is no prefix, AmbiguousDigest, BlobMissing where no table knows it.
    """
    found = Found.search(tables, checked_prefix(digest_prefix))
    records = rows_of(tables, found)
    records += corpus_rows(tables, found)
    return _story_of(found, records, manifests=manifests, run_events=run_events or {}, tables=tables)


def checked_prefix(text: str) -> str:
    """The text as the first characters of digests are spelled. Raises SettingsError where it cannot be some."""
    prefix = text.strip().lower()
    if not _PREFIX.fullmatch(prefix):
        raise SettingsError(f"{text[:80]!r} is no digest and no file: give 4 to 64 hexadecimal characters of a SHA-256")
    return prefix


def _story_of(
    found: Found,
    records: list[Record],
    *,
    manifests: Manifests,
    run_events: Mapping[str, Mapping[str, Any]],
    tables: Tables,
) -> Story:
    by_table: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        by_table.setdefault(record.slot.table, []).extend(record.rows)
    items = by_table["items"]
    verdict = max(
        by_table.get("verdicts", []),
        key=lambda row: ADMITTED.index(row["status"]) if row["status"] in ADMITTED else 9,
        default=None,
    )
    cluster = next(iter(by_table.get("duplicate_clusters", [])), None)
    status = verdict["status"] if verdict else max((row["status"] for row in items), default="ok")
    left_out = _left_out(found, items, verdict, cluster)
    units = tuple(units_of(tables, found.item)) if found.kind == "item" else ()
    memberships = tuple(_memberships(found.unit, manifests, otherwise=left_out, is_gap=found.kind == "gap"))
    return Story(
        digest=found.digest,
        modality=items[0]["modality"],
        kind=found.kind,
        derived_from=found.derived_from,
        status=status,
        conclusion=_conclusion(found, status, left_out, memberships, len(items), units),
        occurrences=tuple(_occurrence(record, row) for record in found.records for row in record.rows),
        steps=tuple(_step(record, run_events, found.unit) for record in records),
        findings=tuple(verdict["findings"]) if verdict else (),
        measures={row["measure"]: row["value"] for row in by_table.get("measures", [])},
        survivor=cluster["survivor"] if cluster else None,
        duplicates=tuple(_pairs(found.unit, by_table)),
        versions=memberships,
        units=units,
    )


def _occurrence(record: Record, row: Mapping[str, Any]) -> Occurrence:
    return Occurrence(
        item_id=row["item_id"],
        shard=record.slot.shard,
        sample_id=row["sample_id"],
        modality=row["modality"],
        role=row["role"],
        source=row["source"],
        licence=row["licence"],
        source_ref=json.loads(row["source_ref"]),
        status=row["status"],
        error=row["materialize_error"],
    )


def _pairs(item: Digest, by_table: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    rows = [row for name in ("near_duplicates", "semantic_duplicates") for row in by_table.get(name, [])]
    listed = [
        {
            "other": row["right"] if row["left"] == item else row["left"],
            **{key: row[key] for key in ("tier", "method", "relation", "score", "bound")},
        }
        for row in rows
        if row["relation"] != "apart"
    ]
    return sorted(listed, key=lambda row: (row["tier"], -row["score"], row["other"], row["method"]))[:_MAX_PAIRS]


def _left_out(
    found: Found, items: list[dict[str, Any]], verdict: Mapping[str, Any] | None, cluster: Mapping[str, Any] | None
) -> str | None:
    """Why no version that follows the rules can hold the digest; None where one may."""
    if found.kind == "gap":
        assert found.derived_from is not None
        return f"a gap ({found.derived_from['gap']}) between units"
    if found.unit != found.digest:
        return None
    if verdict and verdict["status"] not in ADMITTED:
        return f"{verdict['status']} by {verdict['rule']} ({verdict['reason']})"
    if all(row["status"] == "unreadable" for row in items):
        return f"unreadable ({items[0]['materialize_error']})"
    if cluster and not cluster["is_survivor"]:
        score = "" if cluster["score"] is None else f" with score {cluster['score']:.4f}"
        why = f": {cluster['reason']}" if cluster["reason"] else ""
        return f"{cluster['tier']} duplicate of {cluster['survivor'][:16]} by {cluster['method']}{score}{why}"
    return None


def _memberships(
    digest: Digest, manifests: Manifests, *, otherwise: str | None, is_gap: bool = False
) -> list[Membership]:
    """is_gap: no version knows a gap, so that none can say why it lacks it."""
    default = (
        otherwise
        or "not selected: it arrived later, or the version's recipe leaves its source, licence or modality out"
    )
    listed = []
    for row in manifests(digest) if callable(manifests) else manifests:
        if "held" in row:
            held, cause = bool(row["held"]), row.get("cause")
        else:
            container: Container[Digest] = row["digests"]
            held, cause = digest in container, (row.get("causes") or {}).get(digest)
        listed.append(
            Membership(
                version=str(row["version"]),
                names=tuple(row.get("names", ())),
                held=held,
                cause=None if held else default if is_gap else cause or default,
            )
        )
    return listed


def _conclusion(
    found: Found,
    status: str,
    left_out: str | None,
    versions: Sequence[Membership],
    num_occurrences: int,
    units: Sequence[Mapping[str, Any]],
) -> str:
    times = "once" if num_occurrences == 1 else f"{num_occurrences} times"
    if found.unit != found.digest:
        return f"Derived: {found.kind} of {found.item[:16]}, whose status is {status}."
    held = sum(version.held for version in versions)
    if units:
        num_gaps = sum(unit["kind"] == "gap" for unit in units)
        return (
            f"Cut to {len(units) - num_gaps} units and {num_gaps} gaps, which add up to it; landed {times}; "
            f"{held} of {len(versions)} versions hold units of it."
        )
    if left_out:
        return f"Left out: {left_out}; landed {times}." + (
            f" {held} of {len(versions)} versions hold it all the same: their recipe admits it, or they are "
            "older than this verdict."
            if held
            else ""
        )
    if versions:
        return f"{status.capitalize()}; landed {times}; held by {held} of {len(versions)} versions."
    return f"{status.capitalize()}; landed {times}; nothing keeps it out of a version."


def _step(record: Record, run_events: Mapping[str, Mapping[str, Any]], unit: Digest) -> Step:
    slot, stamp = record.slot, record.stamp
    run = run_events.get(stamp.run_id)
    return Step(
        table=slot.table,
        modality=slot.modality,
        shard=slot.shard,
        said=_crossed(record, unit) if slot.table == CROSS_TABLE else _said(slot.table, record.rows),
        details=_details(slot.table, record.rows),
        data_version=stamp.data_version,
        code_version=stamp.code_version,
        settings_digest=stamp.settings_digest,
        inputs=dict(stamp.inputs),
        run_id=stamp.run_id,
        written_at=stamp.written_at,
        run=dict(run) if run is not None else None,
    )


def _crossed(record: Record, unit: Digest) -> str:
    """What the table says of the unit, the closest first."""
    rows = sorted(record.rows, key=lambda row: (row["component"], row["time_s"] or 0.0, -row["score"]))
    said = [cross_said(row, modality=record.slot.modality, digest=unit) for row in rows[:_MAX_CROSSED]]
    return "; ".join(said) + (f"; and {len(rows) - _MAX_CROSSED} more" if len(rows) > _MAX_CROSSED else "")


def _details(table: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    if table in ("items", "units", "measures", *CORPUS_TABLES[:2]):
        return {"num_rows": len(rows)}  # given in full as occurrences, measures and duplicates
    if len(rows) > 1:
        return {"rows": [{key: value for key, value in row.items() if key != "digest"} for row in rows]}
    return {key: value for key, value in rows[0].items() if value is not None and key != "digest"}


def _caption_scores(rows: list[dict[str, Any]]) -> str:
    cosines = [row["cosine"] for row in rows if row["cosine"] is not None]
    if not cosines:
        return f"no cosine of caption and medium: {rows[0]['error']} ({rows[0]['error_code']})"
    spread = f"{min(cosines):.3f} to {max(cosines):.3f}" if len(cosines) > 1 else f"{cosines[0]:.3f}"
    return f"cosine of caption and medium {spread} in {len(cosines)} of {len(rows)} pairs by {rows[0]['encoder']}"


def _missing(table: str, row: dict[str, Any], made: list[dict[str, Any]]) -> str:
    """What the item lacks by this failed row, where others of it were made."""
    if not made:
        return "none"
    return f"no {row['method']}" if table == "fingerprints" else "not all"


def _said(table: str, rows: list[dict[str, Any]]) -> str:
    row = rows[0]
    if table in _RESULTS and (failed := [each for each in rows if each["status"] == "unreadable"]):
        made = [each for each in rows if each["status"] != "unreadable"]
        failures = [f"{_missing(table, each, made)}: {each['error']} ({each['error_code']})" for each in failed]
        return "; ".join([*([_said(table, made)] if made else []), *dict.fromkeys(failures)])
    match table:
        case "items":
            return f"{len(rows)} occurrence{'s' if len(rows) > 1 else ''}, {row['status']}"
        case "blobs":
            return f"{row['size_bytes']:,} bytes, {row['status']}"
        case "tracks":
            size = [f"{row['width_px']} x {row['height_px']} px"] if row["width_px"] else []
            length = [f"{row['duration_s']:.2f} s"] if row["duration_s"] is not None else []
            words = [f"{row['num_words']} words"] if row["num_words"] is not None else []
            return ", ".join([row["status"], *size, *length, *words, *([row["error"]] if row["error"] else [])])
        case "alignments":
            sure = "not judged" if row["confidence"] is None else f"confidence {row['confidence']:.2f}"
            return f"{sure}, {row['status']}" + (f": {row['error']} ({row['error_code']})" if row["error"] else "")
        case "speakers":
            sure = "" if row["confidence"] is None else f", confidence {row['confidence']:.2f}"
            return f"{row['num_speakers']} by {row['method']}{sure}"
        case "units":
            kinds = Counter(each["gap"] or each["kind"] for each in rows)
            return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        case "captions":
            return ", ".join(f"{each['kind']} by {each['producer']}, {each['status']}" for each in rows)
        case "measures":
            return f"{len(rows)} measures"
        case "verdicts":
            return f"{row['status']}, weight {row['weight']:g}" + (
                f": {row['rule']} ({row['reason']})" if row["rule"] else ""
            )
        case "fingerprints":
            return ", ".join(sorted(each["method"] for each in rows))
        case "embeddings":
            return ", ".join(f"{each['encoder']}@{each['revision']}, {each['dimension']} dimensions" for each in rows)
        case "duplicate_clusters":
            return (
                f"survivor of {row['cluster_size']}"
                if row["is_survivor"]
                else f"{row['tier']} duplicate of {row['survivor'][:16]} by {row['method']}"
            )
        case "caption_scores":
            return _caption_scores(rows)
        case "contamination":
            more = f", and {len(rows) - 1} more" if len(rows) > 1 else ""
            return f"{schemas.contamination_of(row)}{more}"
        case _:
            return f"{len(rows)} pair{'s' if len(rows) > 1 else ''}"
