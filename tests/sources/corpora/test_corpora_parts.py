"""A directory of very many loose files is several shards, and nothing else changes."""

from __future__ import annotations

import hashlib

import pytest

from mmlake import sources
from mmlake.landing import Entry
from mmlake.sources.directory_parts import parts_of
from tests.sources.corpora.builders import coco, landed, librispeech, metadata, packed
from tests.sources.source_builders import png, rows_of, wav

SETTINGS = sources.SourceSettings(max_loose_files=10)


def listed(*names: str) -> list[Entry]:
    return [Entry(f"d/{name}", 1, 1) for name in names]


def test_few_files_are_one_part_and_many_are_split_by_the_hash_of_their_stem():
    entries = listed(*(f"{number:04d}.jpg" for number in range(200)))
    assert parts_of(entries[:10], max_files=10) == {"": entries[:10]}
    parts = parts_of(entries, max_files=10)
    assert sorted(entry.path for files in parts.values() for entry in files) == [entry.path for entry in entries]
    assert all(
        hashlib.sha256(entry.name[:4].encode()).hexdigest().startswith(part)
        for part, files in parts.items()
        for entry in files
    )
    assert all(0 < len(files) <= 10 for files in parts.values())


def test_a_new_file_changes_one_part():
    entries = listed(*(f"{number:04d}.jpg" for number in range(150)))
    before, after = parts_of(entries, max_files=20), parts_of([*entries, *listed("new.jpg")], max_files=20)
    assert before.keys() == after.keys() and sum(before[part] != after[part] for part in before) == 1


def test_a_hundred_thousand_images_are_sixteen_parts():
    parts = parts_of(
        listed(*(f"{number:012d}.jpg" for number in range(118_287))), max_files=SETTINGS.max_loose_files * 1000
    )
    assert list(parts) == list("0123456789abcdef") and max(map(len, parts.values())) < 8_000


def test_files_of_one_stem_stay_together_however_many_they_are():
    assert len(parts_of(listed(*(f"talk.{number}.txt" for number in range(30))), max_files=10)) == 1


@pytest.mark.parametrize("key", ["root~a", "coco/train2017~0f", "a%7Eb~3"])
def test_the_key_of_a_part_leads_back_to_its_directory(key):
    path = sources.path_of_key(key)
    assert sources.shard_key(path, key.rpartition("~")[2]) == key and "~" not in sources.shard_key(path)


def test_a_directory_in_parts_has_the_rows_of_the_directory(tmp_path):
    files = coco(numbers=tuple(range(1, 40))) | {
        "d/talk.wav": wav(),
        "d/talk.en.srt": b"1\n00:00:01,000 --> 00:00:02,000\nhi\n",
    }
    whole, parted = (
        rows_of(landed(tmp_path / "a" / "in", files)),
        rows_of(landed(tmp_path / "b" / "in", files), settings=SETTINGS),
    )
    names = (
        "digest",
        "position",
        "role",
        "text_content",
        "sample_text",
        "metadata_json",
        "licence",
        "status",
        "source",
    )
    assert sorted([str(row[name]) for name in names] for row in whole) == sorted(
        [str(row[name]) for name in names] for row in parted
    )
    shards = sources.scan(tmp_path / "b" / "in", settings=SETTINGS)
    assert sum(shard.path == "coco/train2017" for shard in shards) > 4 and all(
        ("~" in shard.key) == bool(shard.part) for shard in shards
    )


def test_a_new_image_changes_one_part_and_nothing_is_opened_for_the_others(tmp_path, monkeypatch):
    root = landed(tmp_path / "in", {f"d/{number}.png": png(number) for number in range(60)})
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    landed(root, {"d/new.png": png(99)})
    second = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)}
    changed = [key for key in second if second[key] != first.get(key)]
    assert len(changed) == 1 and len(second) >= len(first)
    monkeypatch.setattr("mmlake.landing.LocalLanding.open", lambda self, path: pytest.fail(f"{path} was opened"))
    assert sources.scan(root, settings=SETTINGS, known=second) == sorted(second.values(), key=lambda shard: shard.key)


def test_a_file_that_turns_into_a_container_leaves_its_part(tmp_path):
    root = landed(tmp_path / "in", {f"d/{number}": png(number) for number in range(40)})
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    landed(root, {"d/7": packed({"a.png": png()})})
    second = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)}
    assert second["d/7"].format == "webdataset" and len(rows_of(root, settings=SETTINGS)) == 40


def test_a_table_of_transcripts_describes_the_files_of_every_part(tmp_path):
    tree = librispeech({"84-121123": [f"WORDS {number}" for number in range(30)]})
    table = next(data for name, data in tree.items() if name.endswith(".trans.txt")) + b"84-121123-0099 NOBODY\n"
    files = {f"x/{name.rpartition('/')[2]}": data for name, data in tree.items() if "/84/" in name} | {
        "x/84-121123.trans.txt": table
    }
    rows = rows_of(landed(tmp_path / "in", files), settings=SETTINGS)
    sounds = [row for row in rows if row["role"] == "media"]
    assert len(sounds) == 30 and all(
        row["sample_text"] == f"WORDS {metadata(row)['utterance_index']}" for row in sounds
    )
    assert [(row["error_code"]) for row in rows if row["status"] != "ok"] == [1011] and len(rows) == 61
