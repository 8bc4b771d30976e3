"""The registry: a cache of the landing zone that distinguishes new, changed and gone shards."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from mmlake.errors import MmlakeError
from mmlake.registry import Listing, Registry
from mmlake.sources import Shard
from tests.aged_files import aged


def shard(key: str, *, revision: str = "r1", modalities: tuple[str, ...] = ("text",)) -> Shard:
    return Shard(
        key=key,
        path=key,
        format="jsonl",
        modalities=modalities,
        size_bytes=3,
        modified_ns=1_700_000_000_000_000_001,
        revision=revision,
    )


@pytest.fixture
def registry(tmp_path) -> Registry:
    return Registry(tmp_path / "lake" / "landing.sqlite")


def test_before_the_first_scan_nothing_is_known_and_no_file_is_made(registry) -> None:
    assert (registry.known(), registry.keys("text"), registry.path.exists()) == ({}, [], False)


def test_all_is_new_at_first(registry) -> None:
    assert registry.compare([shard("b"), shard("a")]) == Listing(
        new=(shard("b"), shard("a")), changed=(), gone=(), unchanged=0
    )


def test_new_changed_gone_and_unchanged_are_distinguished(registry) -> None:
    registry.record([shard("a"), shard("b"), shard("c")])
    listed = [shard("a"), shard("b", revision="r2"), shard("d")]
    assert registry.compare(listed) == Listing(
        new=(shard("d"),), changed=(shard("b", revision="r2"),), gone=("c",), unchanged=1
    )


def test_comparing_records_nothing(registry) -> None:
    registry.compare([shard("a")])
    assert registry.known() == {}


def test_a_shard_comes_back_as_it_was_recorded(registry) -> None:
    whole = shard("a", modalities=("text", "video"))
    registry.record([whole])
    assert Registry(registry.path).get("a") == Registry(registry.path).known()["a"] == whole


def test_the_later_revision_is_the_one_that_is_kept(registry) -> None:
    registry.record([shard("a")])
    registry.record([shard("a", revision="r2")])
    assert registry.get("a").revision == "r2"


def test_a_shard_that_is_gone_is_no_longer_listed_but_still_known(registry) -> None:
    """Its rows stay in the lake, so its steps must still find it."""
    registry.record([shard("a"), shard("b")])
    registry.record([], gone=["a"])
    assert (registry.keys("text"), registry.get("a")) == (["b"], shard("a"))


def test_a_shard_that_came_back_is_new(registry) -> None:
    registry.record([shard("a")])
    registry.record([], gone=["a"])
    assert registry.compare([shard("a")]).new == (shard("a"),)
    registry.record([shard("a")])
    assert registry.keys("text") == ["a"]


def test_keys_are_of_one_modality_and_sorted(registry) -> None:
    registry.record([shard("b", modalities=("text", "image")), shard("a", modalities=("image",)), shard("c")])
    assert (registry.keys("image"), registry.keys("text"), registry.keys("audio")) == (["a", "b"], ["b", "c"], [])


@pytest.mark.parametrize(
    "key", ["a'b", 'say "x"', "new\nline", "%00", "日本/語.tar", "a[1]", "x" * 255, "DROP TABLE shards;--"]
)
def test_odd_names_are_kept(registry, key) -> None:
    registry.record([shard(key)])
    assert registry.known() == {key: shard(key)}


def test_a_path_that_is_no_unicode_is_kept(registry) -> None:
    odd = dataclasses.replace(shard("a%FF"), path="a\udcff")
    registry.record([odd])
    assert registry.get("a%FF") == odd


def test_an_unknown_key_is_refused_with_the_remedy(registry) -> None:
    with pytest.raises(MmlakeError, match="'a' is not registered.*mmlake run"):
        registry.get("a")


def test_a_recording_that_breaks_off_leaves_nothing(registry) -> None:
    registry.record([shard("a")])
    broken = (key for key in ["a", object()])  # the second cannot be stored
    with pytest.raises(Exception, match=r"binding|type"):
        registry.record([shard("b")], gone=broken)
    assert registry.keys("text") == ["a"]


def test_the_known_shards_are_parsed_once_until_something_is_recorded(registry, monkeypatch) -> None:
    registry.record([shard("a"), shard("b")])
    aged(registry.path)
    known, other = registry.known(), Registry(registry.path, recent=registry._recent)
    with monkeypatch.context() as patched:
        patched.setattr("mmlake.registry.sqlite3.connect", None)
        assert other.known() == known and other.keys("text") == ["a", "b"] and other.get("b") == shard("b")
    other.known().clear()
    assert other.known() == known
    other.record([shard("b", revision="r2")], gone=["a"])
    assert registry.known() == {"b": shard("b", revision="r2")} and registry.get("b").revision == "r2"
    assert registry.get("a") == shard("a")


def test_shards_that_another_process_recorded_are_seen(registry) -> None:
    registry.record([shard("a")])
    aged(registry.path)
    assert list(registry.known()) == ["a"]
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('DELETE FROM shards').connection.commit()"
    subprocess.run([sys.executable, "-c", program, str(registry.path)], check=True)
    assert registry.known() == {}
    with pytest.raises(MmlakeError):
        registry.get("a")
