"""Verdicts follow from measures alone; a new bound needs no decoding."""

from __future__ import annotations

import tracemalloc

import pyarrow as pa
import pytest
from quality_media import table_of, track

from mmlake import schemas
from mmlake.error_codes import CODES
from mmlake.errors import ContractBroken, SettingsError
from mmlake.modalities import MODALITIES
from mmlake.quality import QualitySettings, error_codes, judge, measure
from mmlake.records import ROLES, SEVERITIES
from mmlake.store import BlobStore

PRODUCED = {"producer": "p", "revision": "1", "status": "ok"}

STORE = BlobStore("/nonexistent")
DIGEST = "a" * 64
RULES = {name: row.rules for name, row in MODALITIES.items()}
ALL_RULES = [rule for rules in RULES.values() for rule in rules]
TEXT = MODALITIES["text"].measurements
MADE = {"status": "ok", "producer": "p", "revision": "1"}


def measured(**values: float | None) -> pa.Table:
    return schemas.from_rows(
        schemas.MEASURES,
        [{"digest": DIGEST, "measure": name, "value": value} | MADE for name, value in values.items()],
    )


def verdict(
    modality: str = "image",
    settings: QualitySettings | None = None,
    *,
    columns: dict | None = None,
    **values: float | None,
) -> dict:
    return judge(
        table_of([track(DIGEST, modality, **(columns or {}))]), measured(**values), RULES[modality], settings=settings
    ).to_pylist()[0]


def test_nothing_broken_is_ok_with_full_weight():
    row = verdict(min_side_px=500, aspect_ratio=1.5)
    assert (row["status"], row["weight"], row["findings"], row["rule"]) == ("ok", 1.0, [], None)


def test_a_p1_finding_quarantines():
    row = verdict(min_side_px=2)
    assert (row["status"], row["weight"], row["severity"], row["error_code"], row["rule"]) == (
        "quarantined",
        0.0,
        "P1",
        4201,
        "too_small",
    )


@pytest.mark.parametrize("modality", RULES)
def test_each_rule_gives_its_code_at_its_bound_and_none_within(modality):
    """The range is half open: the lower bound holds, the upper one is broken."""
    for rule in RULES[modality]:
        at = {"columns": {"role": rule.roles[0]}}
        broken = [bound for bound in (rule.high, None if rule.low is None else rule.low - 1e-6) if bound is not None]
        held = [bound for bound in (rule.low, None if rule.high is None else rule.high - 1e-6) if bound is not None]
        for bounds, expected in ((broken, {rule.error_code}), (held, set())):
            for value in bounds:
                findings = verdict(modality, **at, **{rule.measure: value})["findings"]
                found = {one["error_code"] for one in findings if one["rule"] == rule.name}
                assert found == expected, f"{rule.name} at {value}"


def test_the_reason_holds_measure_value_unit_and_range():
    assert verdict(min_side_px=2)["reason"] == "min_side_px=2 px not in [32, inf)"


def test_a_p2_finding_flags_with_the_weight_of_the_settings():
    row = verdict(settings=QualitySettings(flagged_weight=0.25), aspect_ratio=9.0)
    assert (row["status"], row["weight"], row["reason"]) == ("flagged", 0.25, "aspect_ratio=9 not in (-inf, 5)")


def test_the_gravest_finding_leads_and_all_are_kept():
    row = verdict(aspect_ratio=9.0, luma_std=0.0, min_side_px=2)
    assert row["rule"] == "too_small"
    assert [finding["rule"] for finding in row["findings"]] == ["too_small", "blank", "extreme_aspect"]


def test_p0_comes_before_p1():
    assert [
        finding["severity"] for finding in verdict("text", columns={"role": "document"}, num_words=0)["findings"]
    ] == ["P0", "P1"]


def test_a_rule_applies_to_its_roles_only():
    assert verdict("text", columns={"role": "caption"}, num_words=3)["status"] == "ok"


def test_a_null_measure_breaks_nothing():
    assert verdict(blur=None)["status"] == "ok"


@pytest.mark.parametrize(
    ("music", "speech", "status"),
    [
        (1.0, 0.0, "ok"),
        (0.5, 0.049, "ok"),
        (0.49, 0.0, "flagged"),
        (1.0, 0.05, "flagged"),
        (None, 0.0, "flagged"),
        (1.0, None, "flagged"),
    ],
)
def test_music_over_which_nobody_speaks_is_not_noisy(music, speech, status):
    assert verdict("audio", snr_db=2.0, music_fraction=music, speech_fraction=speech)["status"] == status


def test_a_new_bound_changes_the_verdict_without_new_measures():
    assert [
        verdict(settings=QualitySettings(bounds={"too_small": (low, None)}), min_side_px=40)["status"]
        for low in (40, 41)
    ] == ["ok", "quarantined"]


def test_a_disabled_rule_is_not_applied():
    assert verdict(settings=QualitySettings(disabled=("too_small",)), min_side_px=2)["status"] == "ok"


def test_an_unreadable_track_keeps_its_code_and_reason():
    row = verdict(columns={"status": "unreadable", "error_code": 3002, "error": "present_bytes=5 not in [9, inf)"})
    assert (row["status"], row["rule"], row["severity"], row["reason"], row["weight"]) == (
        "unreadable",
        "media_truncated",
        "P0",
        "present_bytes=5 not in [9, inf)",
        0.0,
    )


def test_a_failed_measurement_is_kept_out():
    assert verdict(num_failures=1)["rule"] == "unmeasured"


def test_a_track_without_measures_breaks_the_contract():
    with pytest.raises(ContractBroken, match=DIGEST):
        judge(table_of([track(DIGEST, "image")]), schemas.empty(schemas.MEASURES), RULES["image"])


def test_every_track_gets_exactly_one_verdict():
    rows = [track(f"{index:064d}", "text", role="caption", text="words", num_words=index) for index in range(4)]
    tracks = table_of(rows)
    verdicts = judge(tracks, measure(tracks, TEXT, store=STORE), RULES["text"])
    assert verdicts.column("digest").equals(tracks.column("digest"))
    assert verdicts.schema.equals(schemas.VERDICTS.arrow)


def test_measures_do_not_depend_on_the_order_of_tracks():
    rows = [track(f"{index:064d}", "text", text=f"some words {index}", num_words=3) for index in range(5)]
    forward, backward = (
        measure(table_of(rows).take(order), TEXT, store=STORE) for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0])
    )
    assert forward.equals(backward)


def test_unreadable_tracks_are_not_measured_but_advance():
    counts: list[int] = []
    table = measure(table_of([track(DIGEST, "text", status="unreadable")]), TEXT, store=STORE, advance=counts.append)
    assert table.num_rows == 0
    assert counts == [1]


@pytest.mark.parametrize(
    "settings",
    [
        {"bounds": {"blank": (2, 1)}},
        {"flagged_weight": 1.5},
    ],
)
def test_settings_that_nothing_fulfils_are_refused(settings):
    with pytest.raises(SettingsError):
        QualitySettings(**settings)


@pytest.mark.parametrize("modality", MODALITIES)
def test_rules_are_well_formed(modality):
    for rule in RULES[modality]:
        assert rule.severity in SEVERITIES
        assert 4000 < rule.error_code < 5000
        assert set(rule.roles) <= set(ROLES)
        assert rule.what
        assert rule.fix
        assert rule.low is not None or rule.high is not None


def test_rule_codes_are_unique_and_clear_of_other_stages():
    codes = error_codes(ALL_RULES)
    assert len({entry.code for entry in codes}) == len({entry.name for entry in codes}) == len(codes)
    assert not {entry.code for entry in codes} & set(CODES)


@pytest.mark.parametrize("name", sorted({rule.name for rule in ALL_RULES}))
def test_each_rule_breaks_just_outside_of_its_range_and_holds_just_inside(name):
    for rule in (rule for rule in ALL_RULES if rule.name == name):
        inside = rule.low if rule.low is not None else rule.high - 1e-6
        outside = rule.low - 1e-6 if rule.low is not None else rule.high
        assert rule.holds(inside, rule.low, rule.high)
        assert not rule.holds(outside, rule.low, rule.high)


def test_measures_are_read_in_parts():
    """Of 20 measures 5.2 KB a unit, most of it texts that are the same in all of them; now 1.8."""
    num, names = 4_000, [f"measure_{at:02d}_of_a_text" for at in range(20)]
    digests = [f"{at:064d}" for at in range(num)]
    columns = {
        "digest": [digest for digest in digests for _ in names],
        "measure": names * num,
        "value": [0.5] * (num * len(names)),
        **{name: pa.repeat(text, num * len(names)) for name, text in PRODUCED.items()},
    }
    measures = schemas.from_columns(schemas.MEASURES, columns)
    tracks = pa.table({"digest": digests, "role": pa.repeat("document", num), "status": pa.repeat("ok", num)})
    tracks = tracks.append_column("error_code", pa.nulls(num, pa.int32())).append_column("error", pa.nulls(num))
    tracemalloc.start()
    verdicts = judge(tracks, measures, [])
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert verdicts.num_rows == num and peak_bytes < 3_000 * num
