"""Keys of shards: safe as partitions and file names, and reversible, whatever a file is called."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_builders import SETTINGS, jsonl, land, png, rows_of

from mmlake import sources
from mmlake.tables import Slot, Tables

_NAMES = [
    "a",
    "A",
    "root",
    "ALL",
    "a.parquet",
    "a b",
    "é",
    "日本" * 60,
    "a...b",
    "x|y",
    "100%",
    "%41LL",
    "a:b",
    "back\\slash",
    "new\nline",
    "~t",
    "#1",
    "x.stamp.json",
    "=+-@_",
]


@pytest.mark.parametrize("name", [*_NAMES, "a/b", "root/x", "a.parquet/x", "日本" * 30 + "/ü.tar", "a.../b"])
def test_keys_are_safe_and_reversible(name):
    key = sources.shard_key(name)
    assert sources.path_of_key(key) == name
    assert set(key) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/@=+-%")
    assert "..." not in key and key not in ("root", "ALL") and all(len(part) < 240 for part in key.split("/"))


@given(
    st.lists(
        st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=90).filter(
            lambda part: part not in (".", "..")
        ),
        min_size=1,
        max_size=3,
    )
)
def test_any_path_has_a_key_that_leads_back(parts):
    path = "/".join(parts)
    assert sources.path_of_key(sources.shard_key(path)) == path


def test_odd_names_are_read_and_their_tables_can_be_written(tmp_path):
    names = [name for name in _NAMES if len(name.encode()) < 250 and not name.startswith(".")]
    root = land(
        tmp_path / "in",
        {f"d/{name}": jsonl({"text": name}, {"text": "b"}) for name in names if "." not in name}
        | {f"e/{name}/x.txt": name.encode() for name in names},
    )
    (root / os.fsdecode(b"bytes\xff.png")).write_bytes(png())
    rows, tables = rows_of(root), Tables(tmp_path / "tables")
    shards = sources.scan(root, settings=SETTINGS)
    for shard in shards:
        tables.write(
            Slot("items", shard.modalities[0], shard.key),
            sources_schema(),
            sources_schema().arrow.empty_table(),
            code_version="1",
            settings_digest="",
            inputs={},
        )
    assert sorted([*tables.shards("items", "text"), *tables.shards("items", "image")]) == sorted(
        shard.key for shard in shards
    )
    assert (
        sum(row["status"] == "ok" for row in rows)
        == len(rows)
        == 1 + len(names) + 2 * sum("." not in name for name in names)
    )


def sources_schema():
    from mmlake.schemas import ITEMS

    return ITEMS
