"""Conditions in SQL: what they mean, and that hostile ones reach nothing and end."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mmlake.errors import SettingsError
from mmlake.recipes import Condition

PLACE = "mine.toml: where"
ROWS = pa.table(
    {
        "modality": ["image", "text", None],
        "width_px": [1, 2, 3],
        "sources": [["coco"], ["web", "coco"], []],
        "metadata": pa.array([{"score": 1.0, "odd name": "x"}, {"score": 0.2, "odd name": "y"}, None]),
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("modality = 'image'", [True, False, False]),
        ("modality <> 'image'", [False, True, False]),
        ("modality IS NULL", [False, False, True]),
        ("WIDTH_PX BETWEEN 2 AND 3 AND NOT (width_px IN (3))", [False, True, False]),
        ("metadata.score > 0.5 OR metadata.\"odd name\" = 'y'", [True, True, False]),
        ("list_contains(sources, 'web') OR len(sources) = 0", [False, True, True]),
        ("'coco' IN sources", [True, True, False]),
        ("modality ILIKE 'IM%'", [True, False, False]),
        ("CASE WHEN width_px = 2 THEN false ELSE true END", [True, False, True]),
        ("coalesce(modality, 'x') = 'x' -- nobody said", [False, False, True]),
        ("regexp_matches(modality, '^t') /* texts */", [False, True, False]),
        ("width_px % 2 = 1 AND width_px::VARCHAR = '1'", [True, False, False]),
    ],
)
def test_a_condition_means_what_sql_says(text: str, expected: list[bool]) -> None:
    assert Condition(text, where=PLACE).holds(ROWS).tolist() == expected


HOSTILE = [
    "true; DROP TABLE catalog",
    "COPY catalog TO '/tmp/mmlake-hostile'",
    "ATTACH '/tmp/mmlake-hostile'",
    "true) ; ATTACH '/tmp/mmlake-hostile' --",
    "true FROM read_csv('/etc/passwd')",
    "(SELECT count(*) FROM read_text('/etc/passwd')) > 0",
    "EXISTS (SELECT 1)",
    "1 IN (SELECT 1)",
    "(WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t) > 1",
    "len(range(10000000000)) > 1",
    "len(repeat('x', 10000000000)) > 1",
    "len(lpad('x', 1000000000, 'y')) > 1",
    "len(generate_series(1, 10000000000)) > 1",
    "read_text('/etc/passwd') = 'x'",
    "getenv('HOME') = 'x'",
    "current_setting('threads') = '1'",
    "pg_sleep(100) IS NULL",
    "random() < 0.5",
    "now() > '2020-01-01'",
    "nextval('s') = 1",
    "PRAGMA database_list",
    "SET threads = 8",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CALL pragma_version()",
    "true UNION SELECT false",
    "true WHERE true",
    "true ORDER BY 1",
    "true LIMIT 1",
    "modality AS other",
    "modality, width_px",
    "*",
    "COLUMNS(*) IS NULL",
    "row_number() OVER () = 1",
    "sum(width_px) > 1",
    "list_filter(sources, lambda x: x = 'a') = []",
    "[x FOR x IN sources] = []",
    "system.main.len(sources) = 1",
    "$1 = 1",
    "? = 1",
    "#1 = 1",
    "true /* without end",
    "'without end",
    "",
    "  ",
    "(" * 4000 + "true" + ")" * 4000,
    "true" + " OR true" * 4000,
    "\x00",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:40])
def test_what_is_no_plain_condition_is_refused_at_once(text: str) -> None:
    started = time.perf_counter()
    with pytest.raises(SettingsError, match=r"^mine\.toml: where"):
        Condition(text, where=PLACE).holds(ROWS)
    assert time.perf_counter() - started < 10


def test_nothing_is_written_by_a_refused_condition(tmp_path) -> None:
    for text in (f"COPY catalog TO '{tmp_path}/out.csv'", f"true; ATTACH '{tmp_path}/x.db'"):
        with pytest.raises(SettingsError):
            Condition(text, where=PLACE).holds(ROWS)
    assert list(tmp_path.iterdir()) == []


def test_what_runs_is_locked_away_from_files(monkeypatch, tmp_path) -> None:
    """Even where the check of the expression let a function through."""
    from mmlake.recipes import sql

    (tmp_path / "secret").write_text("s")
    monkeypatch.setattr(sql, "FUNCTIONS", sql.FUNCTIONS | {"read_text", "getenv", "current_setting", "set_config"})
    for text in (f"read_text('{tmp_path}/secret') = 's'", "getenv('HOME') = 'x'"):
        with pytest.raises(SettingsError):
            Condition(text, where=PLACE).holds(ROWS)


def test_a_condition_that_takes_too_long_is_ended(monkeypatch) -> None:
    from mmlake.recipes import sql

    monkeypatch.setattr(sql, "FUNCTIONS", sql.FUNCTIONS | {"levenshtein"})
    rows = pa.table({"text": [f"{number}" + "ab" * 60 for number in range(300_000)]})
    started = time.perf_counter()
    with pytest.raises(SettingsError, match="takes more than 0.2 s; make it simpler"):
        Condition("levenshtein(text, upper(text)) > 1", where=PLACE).holds(rows, time_limit_s=0.2)
    assert time.perf_counter() - started < 10


def test_the_database_has_bounds_that_nothing_can_change(monkeypatch) -> None:
    import duckdb

    from mmlake.recipes import sql

    with sql._database("64MB") as database:
        names = ("enable_external_access", "threads", "memory_limit", "lock_configuration")
        found = [database.execute("SELECT current_setting(?)", [name]).fetchone()[0] for name in names]
        assert (found[:2], found[3]) == ([False, sql.NUM_THREADS], True)
        assert found[2].startswith("61.0") or found[2].startswith("64")
        for statement in ("SET threads = 8", "SET memory_limit = '8GB'", "SET enable_external_access = true"):
            with pytest.raises(duckdb.Error):
                database.execute(statement)
        with pytest.raises(duckdb.Error, match="disabled|not allowed|permission"):
            database.execute("SELECT * FROM read_text('/etc/hostname')")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("widht_px > 1", r"no column 'widht_px' \(near: width_px\)"),
        ("metadata.scor > 1", r"no field 'scor' \(near: score\)"),
        ('modality = "image"', r"no column 'image'.*text stands in single quotes"),
        ("metadata.score.deep = 1", "is no source field"),
        ("metadata = 1", "is no source field"),
        ("modality > 1", "does not fit the columns"),
        ("width_px > 'wide'", "does not fit the columns"),
        ("current_user = 'x'", "no column 'current_user'"),
        ("current_timestamp IS NULL", "no column 'current_timestamp'"),
    ],
)
def test_an_unknown_column_is_answered_with_near_names(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Condition(text, where=PLACE).holds(ROWS)


def test_columns_are_those_that_are_read() -> None:
    assert Condition("Width_px > 1 AND metadata.score > 0", where=PLACE).columns == ("metadata", "width_px")


def test_no_rows_have_no_values() -> None:
    assert Condition("width_px > 1", where=PLACE).holds(ROWS.slice(0, 0)).tolist() == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NOT contaminated", [True, False]),
        ("width_px > 3 AND (NOT contaminated AND height_px IS NULL)", [True, False]),
        ("NOT contaminated AND NOT list_contains(eval_sets, 'other')", [True, False]),
        ("NOT list_contains(Eval_Sets, 'other') AND width_px > 3", [True, True]),
        ("NOT contaminated OR width_px > 3", None),
        ("width_px > 3 AND true", None),
    ],
)
def test_what_is_asked_of_some_columns_alone_is_a_condition_of_its_own(text: str, expected: list[bool] | None) -> None:
    """Terms that AND joins, at any depth; a term that names another column as well is none of them."""
    rows = pa.table({"contaminated": [False, True], "eval_sets": [[], ["bench"]], "width_px": [None, None]})
    found = Condition(text, where="recipe").only(("contaminated", "eval_sets"))
    assert (None if found is None else found.holds(rows).tolist()) == expected


def test_train_and_test_by_a_hash_share_no_speaker_and_lose_none_that_is_known() -> None:
    """The conditions stand in docs/recipes.md; what they choose is computed by hashlib here."""
    page = Path("docs/recipes.md").read_text()
    train, test, _, numbered = re.findall(r'^    where = "(md5\(.*)"  ', page, re.MULTILINE)
    speakers = [f"Speaker {number}" for number in range(400)] * 2 + [None]
    rows = pa.table({"metadata": pa.array([{"speaker": name} for name in speakers])})
    in_test = [name is not None and hashlib.md5(name.lower().encode()).hexdigest() < "2" for name in speakers]
    assert Condition(test, where=PLACE).holds(rows).tolist() == in_test
    found = Condition(train, where=PLACE).holds(rows).tolist()
    assert found == [name is not None and not chosen for name, chosen in zip(speakers, in_test, strict=True)]
    assert 0.08 < np.mean(in_test) < 0.18
    numbers = pa.table({"metadata": pa.array([{"speaker": number} for number in range(100)])})
    expected = [hashlib.md5(str(number).encode()).hexdigest() < "2" for number in range(100)]
    assert Condition(numbered, where=PLACE).holds(numbers).tolist() == expected
