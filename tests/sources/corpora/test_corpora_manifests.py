"""Lists of instructions and of recordings that lie next to their media: LLaVA's, NeMo's, and others of their form."""

from __future__ import annotations

import json

import pytest

from mmlake import sources
from mmlake.records import SourceRef
from mmlake.sources.companions import file_records, manifest_forms
from tests.sources.source_builders import SETTINGS, gz, jsonl, land, png, rows_of, sha, wav


def turns(*words: str) -> list[dict]:
    return [{"from": ("human", "gpt")[at % 2], "value": text} for at, text in enumerate(words)]


LLAVA = [
    {
        "id": "000000033471",
        "image": "coco/train2017/000000033471.jpg",
        "conversations": turns("<image>\nWhat is on the bus?", "An advertisement."),
    },
    {
        "id": "000000033471",
        "image": "coco/train2017/000000033471.jpg",
        "conversations": turns("<image>\nWhat color is it?", "White and red."),
    },
    {"id": "gqa_7", "image": "gqa/images/2.jpg", "model": "", "conversations": turns("Is it raining?\n<image>", "No")},
    {"id": "wgByO4Y_0", "model": "gpt-4", "conversations": turns("Write a poem.", "Roses are red.")},
]
PICTURES = {"coco/train2017/000000033471.jpg": png(1), "gqa/images/2.jpg": png(2)}


def found(tmp_path, files):
    return rows_of(land(tmp_path / "in", files))


def described(rows):
    return [
        (row["sample_id"], row["modality"], row["role"], row["error_code"], row["text_content"] or row["sample_text"])
        for row in rows
    ]


def metadata(row):
    return json.loads(row["metadata_json"] or "{}")


def formats(root):
    return {shard.key: shard.format for shard in sources.scan(root, settings=SETTINGS)}


def below(place, files):
    return {f"{place}{name}": data for name, data in files.items()}


@pytest.mark.parametrize("place", ["", "images/"])
@pytest.mark.parametrize(
    "name, data",
    [
        ("mix665k.json", json.dumps(LLAVA, indent=2).encode()),
        ("chat.jsonl", jsonl(*LLAVA)),
        ("mix.json.gz", gz(json.dumps(LLAVA).encode())),
    ],
)
def test_a_picture_has_the_dialogues_of_all_of_its_records(tmp_path, place, name, data):
    rows = found(tmp_path, below(f"d/{place}", PICTURES) | {f"d/{name}": data})
    first = "human: <image>\nWhat is on the bus?\n\ngpt: An advertisement."
    second = "human: <image>\nWhat color is it?\n\ngpt: White and red."
    third = "human: Is it raining?\n<image>\n\ngpt: No"
    assert sorted(described(rows)) == sorted(
        [
            (f"d/{place}coco/train2017/000000033471", "image", "media", None, f"{first}\n{second}"),
            (f"d/{place}coco/train2017/000000033471", "text", "caption", None, first),
            (f"d/{place}coco/train2017/000000033471", "text", "caption", None, second),
            (f"d/{place}gqa/images/2", "image", "media", None, third),
            (f"d/{place}gqa/images/2", "text", "caption", None, third),
            (f"d/{name}/wgByO4Y_0", "text", "document", None, "human: Write a poem.\n\ngpt: Roses are red."),
        ]
    )


def test_each_dialogue_keeps_the_fields_of_its_own_record(tmp_path):
    rows = found(tmp_path, PICTURES | {"mix.json": json.dumps(LLAVA).encode()})
    texts = [metadata(row) for row in rows if row["modality"] == "text" and row["sample_id"].startswith("coco")]
    assert texts == [{name: record[name] for name in ("id", "conversations")} for record in LLAVA[:2]]
    assert [metadata(row) for row in rows if row["modality"] == "image"] == [
        {"id": "000000033471"},
        {"id": "gqa_7", "model": ""},
    ]


def test_a_record_of_several_pictures_is_described_with_each_and_says_which(tmp_path):
    record = {
        "id": 1,
        "images": ["a.png", "b.png"],
        "messages": [
            {"role": "user", "content": "<image><image> Compare."},
            {"role": "assistant", "content": "Alike."},
        ],
    }
    rows = found(tmp_path, {"a.png": png(1), "b.png": png(2), "data.jsonl": jsonl(record)})
    assert [(row["sample_id"], row["text_content"]) for row in rows if row["modality"] == "text"] == [
        ("root/a", "user: <image><image> Compare.\n\nassistant: Alike."),
        ("root/b", "user: <image><image> Compare.\n\nassistant: Alike."),
    ]
    assert all(metadata(row)["images"] == ["a.png", "b.png"] for row in rows)


NEMO = [
    {"audio_filepath": "wavs/1.wav", "duration": 0.001, "text": "good morning"},
    {"audio_filepath": "wavs/2.wav", "duration": 0.001, "text": "good night", "speaker": "s1"},
]


@pytest.mark.parametrize("name", ["train_manifest.json", "manifest.jsonl", "manifest.ndjson"])
def test_a_recording_of_a_nemo_manifest_has_its_transcript(tmp_path, name):
    rows = found(tmp_path, {f"d/{name}": jsonl(*NEMO), "d/wavs/1.wav": wav(8), "d/wavs/2.wav": wav(9)})
    assert described(rows) == [
        ("d/wavs/1", "audio", "media", None, "good morning"),
        ("d/wavs/1", "text", "transcript", None, "good morning"),
        ("d/wavs/2", "audio", "media", None, "good night"),
        ("d/wavs/2", "text", "transcript", None, "good night"),
    ]
    assert [metadata(row) for row in rows if row["modality"] == "audio"] == [
        {"duration": 0.001},
        {"duration": 0.001, "speaker": "s1"},
    ]


@pytest.mark.parametrize("field", ["text", "sentence", "transcription"])
@pytest.mark.parametrize("medium", ["1.wav", {"path": "1.wav", "sampling_rate": 8000}])
def test_a_recording_in_the_form_of_hugging_face_has_its_words(tmp_path, field, medium):
    rows = found(tmp_path, {"d/data.jsonl": jsonl({"audio": medium, field: "good morning"}), "d/1.wav": wav()})
    assert described(rows) == [
        ("d/1", "audio", "media", None, "good morning"),
        ("d/1", "text", "transcript", None, "good morning"),
    ]


def test_a_manifest_without_words_gives_metadata(tmp_path):
    rows = found(tmp_path, {"d/test.json": jsonl({"audio_filepath": "1.wav", "duration": 2.5}), "d/1.wav": wav()})
    assert [(row["modality"], metadata(row)) for row in rows] == [("audio", {"duration": 2.5})]


def test_records_of_one_recording_keep_their_times_without_words(tmp_path):
    spans = [{"audio_filepath": "1.wav", "offset": at, "duration": 1.0} for at in (0.0, 1.0)]
    (row,) = found(tmp_path, {"d/m.json": jsonl(*spans), "d/1.wav": wav()})
    assert metadata(row) == {"offset": 0.0, "duration": 1.0, "further_records": [{"offset": 1.0, "duration": 1.0}]}


def test_what_no_file_took_is_a_row_with_the_record(tmp_path):
    first = [{"audio_filepath": "1.wav", "text": "here"}] * 16  # all that show the form
    records = [
        {"audio_filepath": "gone.wav", "text": "lost"},
        {"audio_filepath": "/data/1.wav", "text": "elsewhere"},
        {"audio_filepath": "../../etc/1.wav", "text": "out"},
        {"audio_filepath": "C:\\data\\1.wav", "text": "disk"},
        {"audio_filepath": "https://h/1.wav", "text": "an address"},
        {"text": "of nothing"},
    ]
    rows = found(
        tmp_path,
        {
            "in/d/m.json": jsonl(*first, *records) + b'{"audio_filepath": "1.wav", broken\n',
            "in/d/1.wav": wav(),
            "in/1.wav": wav(9),
        },
    )
    rows = [row for row in rows if row["sample_id"].startswith("in/d/m.json")]
    assert [
        (SourceRef.from_json(row["source_ref"]).member, row["error_code"], row["materialize_error"]) for row in rows
    ] == [
        ("line:17#", 1011, "the file gone.wav is missing, or lies where no file is a medium by its name"),
        ("line:18#", 1011, "the file /data/1.wav is outside of the directory of the manifest"),
        ("line:19#", 1011, "the file ../../etc/1.wav is outside of the directory of the manifest"),
        ("line:20#", 1011, "the file C:/data/1.wav is outside of the directory of the manifest"),
        ("line:21", None, None),
        ("line:22", None, None),
        ("line:23", 1003, rows[-1]["materialize_error"]),
    ]
    assert (rows[0]["digest"], rows[-1]["digest"]) == (
        sha(b'{"audio_filepath":"gone.wav","text":"lost"}'),
        sha(b'{"audio_filepath": "1.wav", broken'),
    )


def test_a_list_that_breaks_keeps_the_records_before_it(tmp_path):
    rows = found(tmp_path, PICTURES | {"mix.json": json.dumps(LLAVA).encode()[:-30]})
    assert [row["error_code"] for row in rows if row["sample_id"].startswith("mix.json")] == [1002]
    assert sum(row["modality"] == "text" and row["error_code"] is None for row in rows) == 3


def test_a_name_of_any_bytes_is_no_way_out(tmp_path):
    names = ("../x.png", "x\0.png", "\ud800.png", "a" * 5000 + ".png", "x/../../up.png", "images/../../up.png")
    rows = found(
        tmp_path,
        {
            "up.png": png(3),
            "d/a.png": png(1),
            "d/m.jsonl": jsonl(*({"image": name, "caption": "x"} for name in ("a.png", *names))),
        },
    )
    assert [row["error_code"] for row in rows if row["sample_id"].startswith("d/m.jsonl")] == [1011] * 6
    assert [row["sample_text"] for row in rows if row["modality"] == "image"] == ["x", None]


def test_one_record_twice_is_said_twice_and_a_second_manifest_repeats_nothing(tmp_path):
    one = {"image": "a.png", "caption": "x"}
    rows = found(
        tmp_path,
        {"a.png": png(1), "m.jsonl": jsonl(one, one), "n.jsonl": jsonl(one, {"image": "a.png", "caption": "y"})},
    )
    assert [row["text_content"] for row in rows if row["modality"] == "text"] == ["x", "x", "y"]


@pytest.mark.parametrize(
    "files",
    [
        {"mix.json": json.dumps(LLAVA).encode()},
        {"mix.json": json.dumps(LLAVA).encode(), "other/a.png": png(1)},
        {"chat.jsonl": jsonl(*LLAVA)},
    ],
)
def test_a_manifest_none_of_whose_files_is_there_is_a_list_of_records(tmp_path, files):
    rows = [row for row in found(tmp_path, files) if row["modality"] == "text"]
    assert [(row["role"], row["error_code"], metadata(row).get("image")) for row in rows] == [
        ("document", None, record.get("image")) for record in LLAVA
    ]


@pytest.mark.parametrize(
    "data, format_",
    [
        (jsonl({"text": "a document"}, {"text": "another"}), "jsonl"),
        (jsonl({"image": "https://h/a.png", "text": "x"}, {"image": "https://h/b.png", "text": "y"}), "jsonl"),
        (jsonl({"image": "a.png", "text": "x"}, {"text": "y"}), "jsonl"),
        (jsonl({"image": "a.png", "n": 1}, {"image": "b.png", "n": 1}), "jsonl"),
        (jsonl({"messages": turns("a", "b")}, {"messages": turns("c", "d")}), "jsonl"),
        (b'{"image": ' * 50, "jsonl"),
        (b'{"image": ' + b"[" * 100_000, "jsonl"),
    ],
)
def test_lines_of_another_form_are_what_they_were(tmp_path, data, format_):
    assert formats(land(tmp_path / "in", {"a.png": png(1), "m.jsonl": data}))["m.jsonl"] == format_


def test_another_manifest_or_another_file_is_another_revision(tmp_path):
    root = land(
        tmp_path / "in",
        {
            "d/m.jsonl": jsonl(*NEMO),
            "d/wavs/1.wav": wav(1),
            "d/images/x/a.png": png(1),
            "e/c.png": png(3),
            "notes.jsonl": jsonl({"text": "a"}, {"text": "b"}),
        },
    )
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    assert {key: shard.modalities for key, shard in first.items() if shard.format == "folder"} == {
        "d/wavs": ("text", "audio"),
        "d/images/x": ("image",),
        "e": ("image",),
    }
    assert {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)} == first
    land(root, {"d/wavs/2.wav": wav(2)})
    second = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)}
    assert {key for key in first if first[key].revision != second[key].revision} == {"d/wavs", "d/m.jsonl"}
    land(root, {"d/m.jsonl": jsonl(*NEMO, {"audio_filepath": "images/x/a.png", "text": "a sound of a picture"})})
    third = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=second)}
    assert {key for key in second if second[key].revision != third[key].revision} == {
        "d/wavs",
        "d/images/x",
        "d/m.jsonl",
    }
    land(root, {"notes.jsonl": jsonl({"text": "a"}, {"text": "b"}, {"text": "c"})})
    fourth = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=third)}
    assert {key for key in third if third[key].revision != fourth[key].revision} == {"notes.jsonl"}


def test_json_files_that_are_no_manifests_are_not_read_again(tmp_path, monkeypatch):
    files = {
        f"d/{at}/{name}": data for at in range(3) for name, data in (("a.png", png(at)), ("info.json", b'{"n": 1}'))
    }
    root = land(tmp_path / "in", files | {"d/about.json": b'{"n": 1}'})
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    inspected = []
    monkeypatch.setattr(manifest_forms, "form_of_file", lambda landing, entry: inspected.append(entry.path))
    assert {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)} == first
    assert inspected == []
    land(root, {"d/1/info.json": jsonl({"image": "a.png", "caption": "x"})})
    sources.scan(root, settings=SETTINGS, known=first)
    assert inspected == ["d/1/info.json"]


def test_a_loose_file_that_becomes_a_manifest_is_one(tmp_path):
    root = land(tmp_path / "in", {"d/about.json": b'{"n": 1}', "d/x/a.png": png(1), "d/y/b.png": png(2)})
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    land(root, {"d/about.json": jsonl({"image": "x/a.png", "caption": "x"})})
    second = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)}
    assert {key: (shard.format, shard.modalities) for key, shard in second.items()} == {
        "d/about.json": ("manifest", ("text",)),
        "d/x": ("folder", ("text", "image")),
        "d/y": ("folder", ("image",)),
    }


def test_a_manifest_inside_a_tar_is_not_lost(tmp_path):
    from tests.sources.source_builders import tar

    rows = found(tmp_path, {"a.tar": tar({"1.wav": wav(), "m.jsonl": jsonl(*NEMO)})})
    assert [(row["modality"], row["text_content"]) for row in rows] == [
        ("audio", None),
        ("text", "good morning"),
        ("text", "good night"),
    ]


def test_records_beyond_what_one_sample_may_hold_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(file_records, "_MAX_PER_FILE", 2)
    rows = found(
        tmp_path, {"d/a.png": png(1), "d/m.jsonl": jsonl(*({"image": "a.png", "caption": f"t{at}"} for at in range(4)))}
    )
    assert [row["error_code"] for row in rows if row["modality"] == "text"] == [None, None, 1008, 1008]


def test_a_record_without_fields_is_a_row(tmp_path):
    """Behind the records that are read to recognize a manifest."""
    named = [{"audio_filepath": f"{number}.wav", "text": "a"} for number in range(20)]
    files = {f"d/{number}.wav": wav() for number in range(20)}
    rows = found(tmp_path, files | {"d/m.jsonl": jsonl(*named, {})})
    bad = [row for row in rows if row["status"] != "ok"]
    assert [(row["error_code"], row["sample_id"], row["size_bytes"]) for row in bad] == [(1003, "d/m.jsonl/line:21", 2)]
