"""What a sample becomes in a tar: its members, their order, and the JSON that describes it."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest

from mmlake import checked_json
from mmlake.errors import ContractBroken, SettingsError
from mmlake.modalities import MODALITIES
from mmlake.shards import ShardIndex, ShardSettings, verify_shards, write_shards
from mmlake.shards.plan import plan
from mmlake.shards.samples import SampleRows
from mmlake.shards.verify import written_members
from mmlake.store import BlobStore
from tests.made_samples import part, sample, samples_table, text

KEYS = [
    *("captions", "fields", "licences", "modality", "num_occurrences", "parts"),
    *("sample", "sample_ids", "sources", "transcripts"),
]
PART_KEYS = ["content_type", "digest", "fields", "member", "modality", "position", "role", "size_bytes", "text"]
FIVE = ["a red fox", "a fox in snow", "an animal", "snow", "winter"]


def write(rows: list[dict], store: BlobStore, out: Path, **arguments) -> ShardIndex:
    arguments = {"texts": lambda digest: store.read(digest).decode()} | arguments
    table = arguments.pop("table", None) or samples_table(rows)
    return write_shards(table, store=store, out=out, manifest_id="ab" * 32, modalities=tuple(MODALITIES), **arguments)


def members(index: ShardIndex) -> dict[str, bytes]:
    """Name -> bytes of every member, in the order of the files."""
    found = {}
    for shard in index.shards:
        data = (index.directory / f"{shard.name}.tar").read_bytes()
        with (index.directory / f"{shard.name}.tar").open("rb") as file:
            found |= {name: data[offset : offset + size] for name, offset, size in written_members(file)}
    return found


def described(index: ShardIndex, row: dict) -> dict:
    return json.loads(members(index)[f"{row['sample']}.json"])


@pytest.fixture
def store(tmp_path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
def captioned(store) -> dict:
    """A picture with five captions of which each has a number of its own."""
    captions = [text(store, words, "caption", fields={"caption_id": 70 + n}) for n, words in enumerate(FIVE)]
    return sample([part(store, b"fox"), *captions], fields={"label": 3, "title": "fox", "score": 0.5})


@pytest.fixture
def interleaved(store) -> dict:
    return sample(
        [
            text(store, "before"),
            part(store, b"first"),
            text(store, "between"),
            part(store, b"second", content_type="image/png"),
        ]
    )


def test_all_captions_of_a_picture_are_there_in_order(store, tmp_path, captioned) -> None:
    key, found = captioned["sample"], members(index := write([captioned], store, tmp_path))
    assert list(found) == [f"{key}.jpg", f"{key}.caption.txt", f"{key}.json"]
    assert found[f"{key}.caption.txt"].decode() == FIVE[0]
    assert json.loads(found[f"{key}.json"])["captions"] == FIVE
    assert (index.num_samples, index.num_items) == (1, 6)


def test_fields_keep_the_types_of_their_source(store, tmp_path, captioned) -> None:
    facts = described(write([captioned], store, tmp_path), captioned)
    assert facts["fields"] == {"label": 3, "title": "fox", "score": 0.5}
    assert type(facts["fields"]["label"]) is int
    assert [one["fields"] for one in facts["parts"]] == [None, *({"caption_id": 70 + n} for n in range(5))]


def test_a_part_is_described_with_the_member_or_the_text_that_it_is(store, tmp_path, captioned) -> None:
    parts = described(write([captioned], store, tmp_path), captioned)["parts"]
    assert [one["member"] for one in parts] == ["jpg", "caption.txt", None, None, None, None]
    assert [one["text"] for one in parts] == [None, *FIVE]
    assert parts[0]["digest"] == captioned["parts"][0]["digest"]


def test_an_interleaved_document_is_one_sample_with_numbered_parts(store, tmp_path, interleaved) -> None:
    key, index = interleaved["sample"], write([interleaved], store, tmp_path)
    found = members(index)
    names = [f"{key}.000.txt", f"{key}.001.jpg", f"{key}.002.txt", f"{key}.003.png", f"{key}.json"]
    assert list(found) == names
    assert list(found.values())[:4] == [b"before", b"first", b"between", b"second"]
    assert [one["member"] for one in json.loads(found[names[4]])["parts"]] == [
        "000.txt",
        "001.jpg",
        "002.txt",
        "003.png",
    ]
    assert [(shard.name, shard.endings) for shard in index.shards] == [("interleaved-000000", None)]


def test_a_recording_has_its_first_caption_and_its_first_transcript(store, tmp_path) -> None:
    words = [text(store, word, role) for word in ("one", "two") for role in ("transcript", "caption")]
    row = sample([part(store, b"sound", modality="audio"), *words])
    found = members(index := write([row], store, tmp_path))
    assert [name.partition(".")[2] for name in found] == ["flac", "caption.txt", "transcript.txt", "json"]
    assert index.shards[0].endings == ["flac", "caption.txt", "transcript.txt", "json"]
    facts = described(index, row)
    assert (facts["captions"], facts["transcripts"]) == (["one", "two"], ["one", "two"])
    assert found[f"{row['sample']}.transcript.txt"] == b"one"


def test_a_masked_part_leaves_the_positions_of_the_others(store, tmp_path, captioned) -> None:
    """A version names the parts that stay; what it masked is not in its rows."""
    row = captioned | {"parts": [captioned["parts"][number] for number in (0, 2, 5)]}
    facts = described(write([row], store, tmp_path), row)
    assert [one["position"] for one in facts["parts"]] == [0, 2, 5]
    assert facts["captions"] == [FIVE[1], FIVE[4]]


def test_every_sample_is_described_by_the_same_keys(store, tmp_path, captioned, interleaved) -> None:
    """Readers that infer a schema from the first samples find it in all of them."""
    rows = [captioned, interleaved, sample([part(store, b"alone")]), sample([text(store, "words")])]
    index = write(rows, store, tmp_path)
    for row in rows:
        facts = described(index, row)
        assert sorted(facts) == KEYS
        assert {tuple(sorted(one)) for one in facts["parts"]} == {tuple(PART_KEYS)}


def test_a_document_is_not_stored_twice(store, tmp_path) -> None:
    words = "a long article " * 1000
    index = write([sample([text(store, words)])], store, tmp_path)
    assert index.size_bytes < 1.2 * len(words) + 2048


def test_all_samples_of_a_shard_have_the_same_members(store, tmp_path, captioned, interleaved) -> None:
    rows = [captioned, interleaved, *(sample([text(store, f"words {n}")]) for n in range(4))]
    for number, kind in enumerate(["image/jpeg", "image/png"] * 4):
        picture = part(store, f"picture {number}".encode(), content_type=kind)
        rows.append(sample([picture, text(store, "words", "caption")] if number < 4 else [picture]))
    index = write(rows, store, tmp_path, settings=ShardSettings(max_samples=3))
    assert [(shard.name, shard.num_samples, shard.endings) for shard in index.shards] == [
        ("text-000000", 1, ["txt", "json"]),
        ("text-000001", 3, ["txt", "json"]),
        ("image-000000", 3, ["jpg", "caption.txt", "json"]),
        ("image-000001", 2, ["jpg", "json"]),
        ("image-000002", 2, ["png", "caption.txt", "json"]),
        ("image-000003", 2, ["png", "json"]),
        ("interleaved-000000", 1, None),
    ]
    assert verify_shards(index.directory) == []


def test_samples_that_share_a_part_count_it_once(store, tmp_path) -> None:
    rows = [sample([part(store, b"fox")], fields={"label": n}) for n in range(3)]
    index = write(rows, store, tmp_path)
    assert (index.num_samples, index.num_items) == (3, 1)


def test_bytes_do_not_depend_on_how_the_table_is_cut(store, tmp_path) -> None:
    rows = sorted((sample([part(store, f"{n}".encode())]) for n in range(9)), key=lambda row: row["sample"])
    table = samples_table(rows)
    cut = pa.concat_tables([table.slice(0, 4), table.slice(4, 1), table.slice(5)])
    one, other = (write([], store, tmp_path / name, table=made) for name, made in (("a", table), ("b", cut)))
    assert one.to_json() == other.to_json()


@pytest.mark.parametrize(("column", "value"), [("sources", ["old"]), ("num_occurrences", 4), ("sample_ids", ["s/2"])])
def test_a_changed_row_writes_its_shard_again(store, tmp_path, captioned, column: str, value: object) -> None:
    """Also under an old manifest id: what is there is kept only where it was made of the same rows."""
    write([captioned], store, tmp_path)
    assert described(write([captioned | {column: value}], store, tmp_path), captioned)[column] == value


def test_a_changed_part_writes_its_shard_again(store, tmp_path, captioned) -> None:
    write([captioned], store, tmp_path)
    row = captioned | {"parts": captioned["parts"][:3]}
    assert described(write([row], store, tmp_path), row)["captions"] == FIVE[:2]


def test_a_sample_that_no_part_leads_is_refused(store, tmp_path) -> None:
    row = sample([text(store, "a fox", "caption")], modality="image")
    with pytest.raises(ContractBroken, match="caption"):
        write([row], store, tmp_path)


def test_a_sample_that_comes_twice_is_refused(store, tmp_path, captioned) -> None:
    with pytest.raises(ContractBroken, match="2 rows hold 1 samples"):
        write([captioned, captioned], store, tmp_path)


def test_a_sample_of_another_modality_is_refused(store, tmp_path, captioned) -> None:
    with pytest.raises(SettingsError, match="'smell', expected one of text, image, video, audio, interleaved"):
        write([captioned | {"modality": "smell"}], store, tmp_path)


def test_endings_that_are_not_those_of_the_samples_are_found(store, tmp_path, captioned) -> None:
    directory = write([captioned], store, tmp_path).directory
    path = directory / "index.json"
    other = json.dumps(checked_json.loads(path.read_bytes())).replace('"jpg"', '"png"')
    path.write_bytes(checked_json.dumps(json.loads(other)))
    assert ["without the members" in problem for problem in verify_shards(directory)] == [True]


def test_the_plan_holds_a_few_numbers_of_each_sample(store, captioned) -> None:
    """Not a Python object of each: 10,000 samples more take less than 100 bytes each, their dicts would take 5,000."""
    names = [f"{number:064x}" for number in range(15_000)]
    table = samples_table([captioned | {"sample": name} for name in names])
    peaks = []
    for rows in (table.slice(0, 5_000), table):
        tracemalloc.start()
        plan(SampleRows(rows), modalities=("image",), manifest_id="ab" * 32, settings=ShardSettings())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 10_000 * 100
