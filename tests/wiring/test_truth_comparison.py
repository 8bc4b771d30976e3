"""The comparison with a planted truth: met by a lake that is right, and by none that is wrong in one place."""

from __future__ import annotations

import dataclasses

import pytest

from mmlake import schemas
from mmlake.errors import ContractBroken, MmlakeError
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES
from mmlake.records import digest_of
from mmlake.sample import Duplicate, Excerpt, LongItem, Truth, TruthItem
from mmlake.summary import summarize
from mmlake.tables import Slot
from mmlake.truth import Truthful, compare_with_truth

MADE = {"code_version": "1", "settings_digest": "", "inputs": {}}
A, B, C, D, E, F = sorted(digest_of(word.encode()) for word in "abcdef")
JUDGED = {A: "ok", B: "ok", C: "ok", D: "ok", E: "quarantined", F: "ok"}
ROWS = [A, B, C, D, E, A, F, None]  # digests of the rows in order of the shard; the last is the rest of a cut shard
PAIRS = [("near", A, B), ("near", B, C), ("semantic", D, F)]
CLUSTERS = {A: A, B: A, C: A, D: D, F: D}  # digest -> survivor


def item(number: int, digest: str | None) -> TruthItem:
    status, rule = (
        ("unreadable", "shard_truncated")
        if digest is None
        else (JUDGED[digest], "text_too_short" if JUDGED[digest] == "quarantined" else None)
    )
    return TruthItem(
        shard="s",
        member=f"line:{number}",
        modality="text",
        role="document",
        digest=digest,
        licence="MIT",
        defect=rule,
        status=status,
        rule=rule,
    )


def duplicate(tier: str, *digests: str, occurrences: int | None = None) -> Duplicate:
    return Duplicate(tier=tier, modality="text", kind="planted", digests=digests, num_occurrences=occurrences)


TRUTH = Truth(
    seed=1, scale=1.0, speech="formant", items=tuple(item(number, digest) for number, digest in enumerate(ROWS)),
    lookalikes=(), shots={}, sentences={}, long_items={}, excerpts=(), probes=(), samples=(), companions=(),
    duplicates=(duplicate("exact", A, occurrences=2), duplicate("near", A, B, C), duplicate("semantic", D, F)),
)  # fmt: skip


def lake_of(
    root, *, rows=ROWS, judged=JUDGED, pairs=PAIRS, clusters=CLUSTERS, rule="text_too_short", code=1002, cut=None
) -> Lake:
    """A lake that holds just these rows, all of one text shard. cut: digest of an item -> those of its spans, of 10 s
    each; all others are whole."""
    cut = cut or {}
    lake = Lake(root)
    base = {
        "modality": "text",
        "role": "document",
        "source": "s",
        "licence": "MIT",
        "position": 0,
        "source_ref": "{}",
        "size_bytes": 1,
    }
    items = [
        base
        | {"item_id": f"s#{number}", "sample_id": f"s/{number}", "digest": digest}
        | ({"status": "ok"} if digest else {"status": "unreadable", "error_code": code, "materialize_error": "cut"})
        for number, digest in enumerate(rows)
    ]
    verdicts = [
        {"digest": digest, "status": judged[digest], "weight": 1.0}
        | ({"rule": rule, "reason": "num_words=2"} if judged[digest] == "quarantined" else {})
        for digest in sorted({one for digest in rows if digest for one in cut.get(digest, (digest,))})
    ]
    units = [
        {"digest": unit, "parent_digest": digest, "position": at, "role": "document", "status": "ok"}
        | {"kind": "segment" if digest in cut else "whole", "producer": "p", "axis": "us"}
        | {"start": at * 10_000_000, "end": (at + 1) * 10_000_000}
        for digest in sorted({digest for digest in rows if digest})
        for at, unit in enumerate(cut.get(digest, (digest,)))
    ]
    lake.tables.write(Slot("units", "text", "s"), schemas.UNITS, schemas.from_rows(schemas.UNITS, units), **MADE)
    lake.tables.write(Slot("items", "text", "s"), schemas.ITEMS, schemas.from_rows(schemas.ITEMS, items), **MADE)
    lake.tables.write(
        Slot("verdicts", "text", "s"), schemas.VERDICTS, schemas.from_rows(schemas.VERDICTS, verdicts), **MADE
    )
    grouped = [
        {
            "digest": digest,
            "survivor": survivor,
            "is_survivor": digest == survivor,
            "cluster_size": 2,
            "radius": 0.1,
            "num_occurrences": 1,
            "tier": None if digest == survivor else "near",
        }
        for digest, survivor in clusters.items()
    ]
    for modality in MODALITIES:
        mine = modality == "text"
        for tier in ("near", "semantic"):
            found = [
                {
                    "left": left,
                    "right": right,
                    "tier": tier,
                    "method": "m",
                    "score": 1.0,
                    "bound": 0.5,
                    "relation": "same",
                }
                for kind, left, right in pairs
                if kind == tier and mine
            ]
            lake.tables.write(
                Slot(f"{tier}_duplicates", modality), schemas.PAIRS, schemas.from_rows(schemas.PAIRS, found), **MADE
            )
        lake.tables.write(
            Slot("duplicate_clusters", modality),
            schemas.CLUSTERS,
            schemas.from_rows(schemas.CLUSTERS, grouped if mine else []),
            **MADE,
        )
    return lake


def compared(root, *, truth: Truth = TRUTH, **wrong) -> Truthful:
    return compare_with_truth(lake_of(root, **wrong), truth)


def tier(result: Truthful, name: str):
    return next(one for one in result.tiers if (one.tier, one.modality) == (name, "text"))


def test_a_lake_that_is_right_meets_its_truth(tmp_path) -> None:
    result = compared(tmp_path)
    assert result.is_met, result
    assert (result.num_items, result.num_rows, result.defects) == (
        8,
        8,
        {"shard_truncated": [1, 1], "text_too_short": [1, 1]},
    )


def test_every_planted_pair_is_counted(tmp_path) -> None:
    assert {key: counts for key, counts in compared(tmp_path).planted().items() if key[1] == "text"} == {
        ("exact", "text"): (1, 1),
        ("near", "text"): (3, 3),
        ("semantic", "text"): (1, 1),
    }


def test_a_missing_row_is_named(tmp_path) -> None:
    result = compared(tmp_path, rows=[digest for digest in ROWS if digest != D])
    assert not result.is_met
    assert (result.missing, result.unexpected) == ([f"text s {D[:16]}"], [])


def test_a_row_that_is_there_twice_is_named(tmp_path) -> None:
    result = compared(tmp_path, rows=[*ROWS, D])
    assert not result.is_met
    assert (result.missing, result.unexpected) == ([], [f"text s {D[:16]}"])


def test_a_missing_occurrence_is_a_missing_row_and_a_missed_exact_duplicate(tmp_path) -> None:
    result = compared(tmp_path, rows=list(dict.fromkeys(ROWS)))
    assert (result.is_met, result.missing, tier(result, "exact").recall) == (False, [f"text s {A[:16]}"], 0.0)


def test_a_missing_rest_of_a_cut_shard_is_named(tmp_path) -> None:
    result = compared(tmp_path, rows=ROWS[:-1])
    assert (result.is_met, result.missing) == (False, ["text s (shard_truncated)"])


def test_a_row_of_another_code_is_not_the_planted_one(tmp_path) -> None:
    assert not compared(tmp_path, code=1001).is_met


@pytest.mark.parametrize(("digest", "status"), [(D, "quarantined"), (D, "flagged"), (E, "ok")])
def test_a_wrong_status_is_reported_with_what_was_expected(tmp_path, digest, status) -> None:
    result = compared(tmp_path, judged=JUDGED | {digest: status})
    assert not result.is_met
    assert [(row["item"], row["expected"].split()[0], row["actual"].split()[0]) for row in result.wrong] == [
        (f"s::line:{ROWS.index(digest)}", JUDGED[digest], status)
    ]


def test_a_right_status_under_a_wrong_rule_is_wrong(tmp_path) -> None:
    result = compared(tmp_path, rule="text_empty")
    assert (result.is_met, result.defects["text_too_short"]) == (False, [1, 0])


def test_a_torn_cluster_is_not_met(tmp_path) -> None:
    """All pairs that were found are right, but one of three stands alone: two of three pairs are lost."""
    result = compared(tmp_path, clusters=CLUSTERS | {C: C}, pairs=[pair for pair in PAIRS if pair[2] != C])
    assert (result.is_met, tier(result, "near").num_recovered, tier(result, "near").precision) == (False, 1, 1.0)


def test_a_cluster_that_lost_its_rows_is_not_met(tmp_path) -> None:
    """Two absent rows have no survivor in common."""
    result = compared(
        tmp_path, clusters={digest: survivor for digest, survivor in CLUSTERS.items() if digest not in (D, F)}
    )
    assert (result.is_met, tier(result, "semantic").num_recovered) == (False, 0)


@pytest.mark.parametrize("name", ["near", "semantic"])
def test_a_false_pair_is_not_met(tmp_path, name) -> None:
    result = compared(tmp_path, pairs=[*PAIRS, (name, C, D)])
    assert (result.is_met, tier(result, name).recall) == (False, 1.0)
    assert tier(result, name).precision < 0.99


def test_a_pair_that_follows_from_two_planted_ones_is_no_false_pair(tmp_path) -> None:
    assert compared(tmp_path, pairs=[*PAIRS, ("near", A, C)]).is_met


def test_a_pair_of_a_rejected_item_is_not_asked_for(tmp_path) -> None:
    truth = dataclasses.replace(TRUTH, duplicates=(*TRUTH.duplicates, duplicate("near", D, E)))
    assert compared(tmp_path, truth=truth).is_met


def test_an_item_that_is_cut_is_as_good_as_its_best_unit(tmp_path) -> None:
    cut = {D: ["1" * 64, "2" * 64]}
    judged = JUDGED | {"1" * 64: "quarantined", "2" * 64: "ok"}
    assert not compared(tmp_path / "whole", judged=JUDGED | {D: "quarantined"}).is_met
    defect = dataclasses.replace(item(3, D), defect="text_too_short")  # somewhere in it, and the rest is fine
    truth = dataclasses.replace(TRUTH, items=(*TRUTH.items[:3], defect, *TRUTH.items[4:]))
    assert compared(tmp_path / "cut", cut=cut, judged=judged, truth=truth).wrong == []


@pytest.mark.parametrize("status", ["flagged", "quarantined"])
def test_a_span_that_is_judged_worse_than_its_sound_item_is_wrong(tmp_path, status) -> None:
    cut = {D: ["1" * 64, "2" * 64]}
    result = compared(tmp_path, cut=cut, judged=JUDGED | {"1" * 64: "ok", "2" * 64: status})
    (wrong,) = result.wrong
    assert (wrong["item"], result.num_spans, result.is_met) == ("s::line:3 from 10.00 to 20.00", 2, False)
    assert wrong["actual"].split()[0] == status


def test_a_copy_of_a_planted_stretch_is_no_false_pair(tmp_path) -> None:
    """F is a copy of seconds 11 to 19 of D, which is cut at 10 s: a pair with the second unit is right, one with the
    first is not."""
    first, second = "1" * 64, "2" * 64
    whole = LongItem(modality="text", duration_s=20.0, pauses_s=(), rests_s=())
    copy = Excerpt(modality="text", kind="transcode", digest=F, parent=D, start_s=11.0, end_s=19.0)
    truth = dataclasses.replace(TRUTH, long_items={D: whole}, excerpts=(copy,))
    made = {"truth": truth, "cut": {D: [first, second]}, "judged": JUDGED | {first: "ok", second: "ok"}}
    precision = [
        tier(compared(tmp_path / unit, pairs=[*PAIRS, ("near", unit, F)], **made), "near").precision
        for unit in (first, second)
    ]
    assert precision == [2 / 3, 1.0]


def test_the_comparison_is_reported_in_plain_data(tmp_path) -> None:
    plain = compared(tmp_path, rows=[*ROWS, D]).to_dict()
    assert plain["is_met"] is False
    assert {row["tier"] for row in plain["tiers"] if not row["is_met"]} == {"exact"}


def test_the_summary_adds_up(tmp_path) -> None:
    (text,) = [one for one in summarize(lake_of(tmp_path)).modalities if one.modality == "text"]
    assert text.statuses == {"ok": 6, "flagged": 0, "quarantined": 1, "unreadable": 1}
    assert (text.num_rows, text.duplicates, text.rules) == (
        8,
        {"exact": 1, "near": 3, "semantic": 0},
        {"shard_truncated": 1, "text_too_short": 1},
    )


def test_the_summary_of_a_lake_that_was_never_run_is_zero(tmp_path) -> None:
    made = summarize(Lake(tmp_path / "new"))
    assert {(one.num_rows, sum(one.statuses.values()), one.num_shards) for one in made.modalities} == {(0, 0, 0)}
    assert (made.versions, made.costs) == ((), ())


def test_the_summary_refuses_a_status_that_is_none(tmp_path) -> None:
    with pytest.raises(ContractBroken, match=r"text: rows have the statuses \['fine'\]"):
        summarize(lake_of(tmp_path, judged=JUDGED | {D: "fine"}))


def test_a_lake_without_duplicate_tables_cannot_be_compared(tmp_path) -> None:
    with pytest.raises(MmlakeError, match="has not been made"):
        compare_with_truth(Lake(tmp_path), TRUTH)


def test_the_summary_of_a_real_run_adds_up(done) -> None:
    """In = ok + flagged + quarantined + unreadable, in every modality; what the landing zone of the fixture holds,
    counted by hand."""
    found = {
        one.modality: (one.num_shards, one.num_rows, sum(one.statuses.values()))
        for one in summarize(done.lake).modalities
    }
    assert found == {"text": (2, 7, 7), "image": (2, 6, 6), "video": (1, 1, 1), "audio": (1, 2, 2)}
