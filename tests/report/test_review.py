"""Review sets: what is drawn next to a bound, a page that betrays nothing, and the figures of the verdicts."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mmlake.cli.app import app
from mmlake.errors import SettingsError
from mmlake.modalities import MODALITIES
from mmlake.quality.rule import NUM_FAILURES
from mmlake.review import YES, draw, rules_of, shares

RULE = "text_too_short"
HEAD = "number,verdict,digest,modality,rule,measure,value,low,high\n"


def call(*words: object) -> dict:
    result = CliRunner().invoke(app, ["review", *map(str, words), "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return json.loads(result.stdout)


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def filled(path: Path, verdicts: list[str]) -> None:
    rows = lines(path)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(row | {"verdict": said} for row, said in zip(rows, verdicts, strict=True))


def test_units_of_both_sides_are_drawn_and_their_verdicts_are_read_back(done, tmp_path):
    made = call(RULE, "--lake", done.lake.root, "--out", tmp_path)
    rows = lines(tmp_path / "verdicts.csv")
    assert made["num_broken"] == 1 and made["num_kept"] == len(rows) - 1 >= 4
    assert [row["verdict"] for row in rows] == [""] * len(rows)
    filled(tmp_path / "verdicts.csv", [" Yes" if float(row["value"]) < float(row["low"]) else "no" for row in rows])
    precision, miss_rate = call(RULE, "--lake", done.lake.root, "--verdicts", tmp_path / "verdicts.csv")["shares"]
    assert (precision["share"], precision["num_judged"]) == (1.0, 1)
    assert (miss_rate["share"], miss_rate["num_judged"]) == (0.0, len(rows) - 1)


def test_the_page_plays_alone_and_shows_neither_value_nor_side(done, tmp_path):
    call(RULE, "--lake", done.lake.root, "--out", tmp_path)
    page = (tmp_path / "review.html").read_text()
    numbers = [int(found) for found in re.findall(r'<div class="soft">(\d+): ', page)]
    assert numbers == [int(row["number"]) for row in lines(tmp_path / "verdicts.csv")]
    body = page.partition("<body>")[2]
    assert "Too short." in body
    assert "num_words=" not in body and "quarantined" not in body
    assert "kept</span>" not in body and "card survivor" not in body  # units that break no rule alone survive
    assert not re.search(r'(?:src|href)="(?!data:|#)', body)


@pytest.mark.parametrize("rule, tag", [("too_short", "<video"), ("clipped", "<audio"), ("blurred", "<img")])
def test_films_and_recordings_have_players_and_pictures_are_large(done, tmp_path, rule, tag):
    call(rule, "--lake", done.lake.root, "--out", tmp_path)
    assert tag in (tmp_path / "review.html").read_text()


def test_the_draw_is_seeded_and_of_the_nearest_units(done):
    rules = rules_of(done.lake, RULE)
    kept = sorted((one for one in draw(done.lake, rules, count=50, seed=0) if not one.is_broken),
                  key=lambda one: (one.distance, one.digest))  # fmt: skip
    nearest = {one.digest for one in kept[:4]}
    drawn = [[one.digest for one in draw(done.lake, rules, count=1, seed=seed) if not one.is_broken]
             for seed in (0, 0, 1, 2, 3, 4)]  # fmt: skip
    assert drawn[0] == drawn[1] and len({digest for (digest,) in drawn}) > 1
    assert {digest for (digest,) in drawn} <= nearest


@pytest.fixture
def rules(done) -> dict:
    return rules_of(done.lake, RULE)


def test_intervals_are_those_of_wilson_and_unjudged_units_count_for_nothing(tmp_path, rules):
    """8 of 10 gives 0.490 to 0.943, 0 of 10 gives 0 to 0.278 (Brown, Cai and DasGupta 2001)."""
    broken = [(YES, 10.0)] * 8 + [("no", 3.0)] * 2 + [("", 9.0)] * 5
    kept = [("no", 11.0)] * 10
    path = tmp_path / "verdicts.csv"
    rows = [f"{at},{said},{at:064x},text,{RULE},num_words,{value},11.0,\n" for at, (said, value) in
            enumerate(broken + kept)]  # fmt: skip
    path.write_text("\ufeff" + HEAD + "".join(rows))
    precision, miss_rate = shares(path, rules)
    assert (precision.num_units, precision.num_judged, precision.share) == (15, 10, 0.8)
    assert (precision.low, precision.high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert (miss_rate.share, miss_rate.low, miss_rate.high) == (0.0, 0.0, pytest.approx(0.2775, abs=1e-4))


@pytest.mark.parametrize(
    "text, message",
    [
        (HEAD + f"1,maybe,{'a' * 64},text,{RULE},num_words,3,11,\n", "line 2: verdict='maybe'; write yes, no"),
        (HEAD + f"1,yes,{'a' * 64},text,{RULE},num_words,3,11,\n" * 2, "line 3: a+ stands there twice"),
        (HEAD + f"1,yes,{'a' * 64},text,garbled,num_words,3,11,\n", "is of rule 'garbled' of 'text'"),
        (HEAD + f"1,yes,{'a' * 64},text,{RULE},num_words,few,11,\n", "value or bound is no number"),
        ("number,verdict\n1,yes\n", "lacks the columns"),
        ("", "lacks the columns"),
        (b"\xff\xfe\x00", "no CSV in UTF-8"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_with_its_line(tmp_path, rules, text, message):
    path = tmp_path / "verdicts.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError, match=message):
        shares(path, rules)


def test_a_table_that_is_not_there_is_named(tmp_path, rules):
    with pytest.raises(SettingsError, match="verdicts.csv is not there; give the verdicts.csv"):
        shares(tmp_path / "verdicts.csv", rules)


def test_verdicts_are_never_overwritten(done, tmp_path):
    call(RULE, "--lake", done.lake.root, "--out", tmp_path)
    filled(tmp_path / "verdicts.csv", ["no"] * len(lines(tmp_path / "verdicts.csv")))
    with pytest.raises(SettingsError, match="would be lost"):
        call(RULE, "--lake", done.lake.root, "--out", tmp_path)


def test_an_unknown_rule_is_answered_with_those_there_are(done):
    with pytest.raises(SettingsError, match="called 'nonesuch'; expected .*text_too_short"):
        call("nonesuch", "--lake", done.lake.root)


def test_a_measure_that_no_unit_has_is_no_empty_set(done, tmp_path):
    with pytest.raises(SettingsError, match="no unit of .* has the measure 'transcript_match'"):
        call("wrong_transcript", "--lake", done.lake.root, "--out", tmp_path)


@pytest.mark.parametrize("modality", ["video", "audio"])
def test_every_rule_of_films_and_recordings_has_a_measure_and_a_bound_to_review(modality: str) -> None:
    row = MODALITIES[modality]
    taken = {NUM_FAILURES, *row.model_measures, *(name for one in row.measurements for name in one.measures)}
    assert {rule.name for rule in row.rules if not rule.has_bound or rule.measure not in taken} == set()
