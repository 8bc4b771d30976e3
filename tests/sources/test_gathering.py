"""Many directories of few files are one shard, whose rows are those that they would have by themselves."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake import pipeline, sources
from mmlake.landing import as_landing
from mmlake.rows import read_rows
from mmlake.sources.gathering import FEW_BYTES, FEW_FILES, MOST_FILES, Gathered, Size, gathered
from mmlake.sources.shard import Shard
from mmlake.store import BlobStore
from tests.sources.corpora.builders import coco, landed, librispeech
from tests.sources.source_builders import jsonl, png, rows_of, wav

APART = sources.SourceSettings(gather_above=10**6)
TOGETHER = sources.SourceSettings(gather_above=2)


def of(num_files: dict[str, int], above: int = 2, **limits: int) -> list[Gathered]:
    """The directories that are gathered of those with so many small files."""
    settings = sources.SourceSettings(gather_above=above, **limits)
    return gathered({path: Size(num, num * 10) for path, num in num_files.items()}, settings)


def test_directories_of_few_files_are_gathered_above_the_number_that_the_settings_name():
    assert of({"a/1": 5, "a/2": 5}) == []
    assert of({"a/1": 5, "a/2": 5, "a/3": 5, "b": 5}) == [Gathered("a", "~", ("a/1", "a/2", "a/3"))]


def test_what_is_gathered_counts_as_one_further_up():
    speakers = {f"s{speaker}/c{chapter}": 3 for speaker in range(4) for chapter in range(5)}
    assert of(speakers) == [Gathered(".", "~", tuple(sorted(speakers)))]
    two = {path: num for path, num in speakers.items() if path[1] in "01"}
    assert [(one.path, len(one.directories)) for one in of(two)] == [("s0", 5), ("s1", 5)]


def test_a_directory_of_many_files_or_bytes_stays_a_shard_of_its_own():
    small = dict.fromkeys(("a/1", "a/2", "a/3"), Size(1, 1))
    for large in (Size(FEW_FILES, 1), Size(1, FEW_BYTES)):
        assert gathered({**small, "a/4": large}, TOGETHER) == [Gathered("a", "~", tuple(small))]


def test_too_many_files_for_one_shard_are_parts_and_a_new_directory_changes_one():
    files = {f"a/{at:05d}": 100 for at in range(200)}
    before, after = of(files), of({**files, "a/new": 100})
    assert len(before) == len(after) == 16 and len(set(before) - set(after)) == 1
    assert sorted(path for one in before for path in one.directories) == sorted(files)
    assert all(one.part == f"~{at:x}" and len(one.directories) <= 20 for at, one in enumerate(before))


def test_a_directory_is_gathered_by_its_path_however_that_is_spelled():
    odd = [f"good/fsencoded:{at}" for at in range(3)] + [f"fsencoded:good/%F{at}" for at in range(3)]
    assert of(dict.fromkeys(odd, 1), above=5) == [Gathered("good", "~", tuple(sorted(odd)))]


@given(
    st.dictionaries(
        st.lists(st.sampled_from("abcd"), min_size=1, max_size=4).map("/".join), st.integers(1, 1200), max_size=60
    ),
    st.integers(0, 8),
)
def test_every_directory_is_in_one_shard_and_few_small_ones_are_left(num_files, above):
    found = of(num_files, above)
    taken = Counter(path for one in found for path in one.directories)
    assert set(taken.values()) <= {1} and all(num_files[path] < FEW_FILES for path in taken)
    for one in found:
        assert all(one.path == "." or f"{path}/".startswith(f"{one.path}/") for path in one.directories)
        assert len(one.directories) == 1 or sum(num_files[path] for path in one.directories) <= MOST_FILES
    together = [sum(num_files[path] for path in one.directories) for one in found if one.part == "~"]
    left = sum(num < FEW_FILES and path not in taken for path, num in num_files.items())
    assert left + sum(num < FEW_FILES for num in together) <= max(above, 1)
    assert found == of(dict(reversed(num_files.items())), above)


def corpus() -> dict[str, bytes]:
    """Directories whose files are described by others here, above and next to them, containers among them."""
    files = {
        name.removeprefix("LibriSpeech/"): data
        for name, data in librispeech({"84-1": ["ONE"], "85-2": ["TWO"]}).items()
    }
    files |= {f"pictures/{name}": data for name, data in coco(numbers=(1, 2, 3)).items()}
    for at in range(5):
        files |= {
            f"shop/{at}/a.png": png(at),
            f"shop/{at}/a.txt": f"The caption of {at}.".encode(),
            f"shop/{at}/records.jsonl": jsonl({"text": f"A record of {at}."}),
            f"labelled/{at}/images/x.png": png(20 + at),
            f"labelled/{at}/labels/x.txt": b"0 0.5 0.5 0.2 0.2\n",
            f"said/{at}/metadata.csv": f"file_name,text\nb.png,Said of {at}.\n".encode(),
            f"said/{at}/b.png": png(40 + at),
        }
    files |= {
        "shop/_source.json": b'{"source": "shop", "licence": "CC0-1.0"}',
        "shop/3/_source.json": b'{"source": "other", "priority": 7}',
        "shop/4/broken.png": b"\x89PNG",
        "odd/\xe9 ~/talk.wav": wav(),
        "odd/\xe9 ~/talk.en.srt": b"1\n00:00:00,000 --> 00:00:00,500\nHello.\n",
    }
    return files


def without_shards(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What rows say but for the shard that they are in."""
    return sorted(({**row, "item_id": ""} for row in rows), key=lambda row: (row["sample_id"], str(row)))


def test_rows_of_what_is_gathered_are_those_of_each_directory(tmp_path):
    root = landed(tmp_path / "in", corpus())
    shards = sources.scan(root, settings=TOGETHER)
    assert [len(shard.directories) > 10 for shard in shards if shard.directories] == [True]
    assert len(shards) < len(sources.scan(root, settings=APART)) - 10
    rows, apart = rows_of(root, settings=TOGETHER), rows_of(root, settings=APART)
    assert without_shards(rows) == without_shards(apart) and len(apart) > 30
    assert {row["source"] for row in rows} >= {"shop", "other", "said"}
    ids = [row["item_id"] for row in rows]
    assert len(set(ids)) == len(ids)


def test_priorities_are_those_of_every_directory(tmp_path):
    root = landed(tmp_path / "in", corpus())
    homes = [path for shard in sources.scan(root, settings=TOGETHER) for path in shard.homes]
    assert sources.priorities(root, homes) == sources.priorities(root) and sources.priorities(root)["other"] == 7


def test_rows_for_a_table_are_those_of_each_directory(tmp_path):
    root = landed(tmp_path / "in", {f"d/{at}/{at}.txt": f"Text {at}.".encode() for at in range(70)})
    landed(root, {"d/7/_source.json": b'{"source": "seven"}'})
    (shard,) = sources.scan(root, settings=TOGETHER)
    rows = [row for batch in read_rows(shard, landing=root) for row in batch.table.to_pylist()]
    assert {row["sample_id"]: row["source"] for row in rows} == {
        f"d/{at}/{at}": "seven" if at == 7 else "d" for at in range(70)
    }


def test_a_row_that_is_read_again_is_the_one_of_its_directory(tmp_path):
    root = landed(tmp_path / "in", corpus())
    shard = next(shard for shard in sources.scan(root, settings=TOGETHER) if shard.directories)
    given = {"landing": root, "store": BlobStore(tmp_path / "blobs"), "settings": TOGETHER}
    before = sources.ingest(shard, "image", **given)
    wanted = before["item_id"].to_pylist()[3:5]
    damaged = before.set_column(before.schema.get_field_index("digest"), "digest", pa.nulls(len(before), pa.string()))
    found = sources.reingested(
        shard, "image", lambda columns: [damaged.select(columns or damaged.column_names)], wanted=wanted, **given
    )
    again = pa.concat_tables(found).sort_by("item_id")
    taken = pc.is_in(before["item_id"], pa.array(wanted))
    assert again.filter(taken).equals(before.filter(taken)) and again["digest"].null_count == len(before) - 2


def test_a_directory_that_went_since_the_scan_costs_its_own_rows_alone(tmp_path):
    root = landed(tmp_path / "in", {f"d/{at}/{at}.txt": f"Text {at}.".encode() for at in range(5)})
    (shard,) = sources.scan(root, settings=TOGETHER)
    (root / "d/2/2.txt").unlink()
    (root / "d/2").rmdir()
    items = sources.read(shard, landing=root, settings=TOGETHER)
    assert [item.sample_id for item in items] == ["d/0/0", "d/1/1", "d/3/3", "d/4/4"]


def scanned(root: Path, known: dict[str, Shard] | None = None, **given: Any) -> dict[str, Shard]:
    return {shard.key: shard for shard in sources.scan(root, settings=TOGETHER, known=known, **given)}


def test_an_unchanged_landing_zone_is_not_opened(tmp_path, monkeypatch):
    root = landed(tmp_path / "in", corpus() | {f"shop/{at}/list.txt": b"a.png\n" for at in range(5)})
    first = scanned(root)
    for name in ("open", "head"):
        monkeypatch.setattr(
            f"mmlake.landing.LocalLanding.{name}", lambda self, path, *_: pytest.fail(f"{path} was opened")
        )
    assert scanned(root, first) == first


@pytest.mark.parametrize("name", ["shop/2/new.png", "shop/9/new.png", "shop/2/_source.json"])
def test_the_revision_changes_with_every_file_and_directory(tmp_path, name):
    root = landed(tmp_path / "in", corpus())
    first = scanned(root)
    landed(root, {name: png(99) if name.endswith("png") else b'{"source": "x"}'})
    changed = {key for key, shard in scanned(root, first).items() if first.get(key) != shard}
    assert "root~~" in changed and scanned(root, first) == scanned(root)


def test_a_scan_that_may_open_nothing_leaves_all_as_it_was(tmp_path):
    root = landed(tmp_path / "in", corpus())
    first = scanned(root)
    landed(root, {"shop/9/new.png": png(99)})
    assert scanned(root, first, at_most=0) == first
    apart = {shard.key: shard for shard in sources.scan(root, settings=APART)}
    assert scanned(root, apart, at_most=0) == apart
    assert scanned(root, first, at_most=1)["root~~"] == scanned(root)["root~~"]


def test_a_limit_takes_the_first_samples_of_directories_that_are_not_gathered(tmp_path):
    from mmlake.sources.excerpt import scan_first

    root = landed(tmp_path / "in", {f"d/{at}/{at}.txt": f"Text {at}.".encode() for at in range(9)})
    shards = scan_first(root, 4, settings=TOGETHER)
    assert [shard.key for shard in shards] == ["d/0", "d/1", "d/2", "d/3"]
    assert replace(shards[0], num_samples=None) == sources.scan(root, settings=APART)[0]


def test_what_is_gathered_is_settled_once_each_directory_is(tmp_path):
    """A marker vouches for its own directory, not for another that is still being written."""
    root = landed(tmp_path / "in", {f"d/{at}/{at}.txt": b"A text." for at in range(5)})
    for at in range(5):
        os.utime(root / f"d/{at}/{at}.txt", (100, 100))
    is_settled = lambda: pipeline.is_settled(*sources.scan(root, settings=TOGETHER), as_landing(root), 500.0)
    assert is_settled()
    os.utime(root / "d/3/3.txt", (600, 600))
    assert not is_settled()
    landed(root, {"d/3/_SUCCESS": b""})
    assert is_settled()
    os.utime(root / "d/4/4.txt", (550, 550))
    assert not is_settled()
