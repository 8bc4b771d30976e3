"""Several landing zones as one: names, paths, and what holds on each side of a border."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mmlake.errors import RemoteUnavailable, SettingsError, UnreadableItem
from mmlake.landing import LocalLanding, Mounts, UnreachableLanding, addresses_in, addresses_of, as_landing
from mmlake.records import SourceRef
from mmlake.sources import SourceSettings, fetch, ingest, priorities, read, scan
from mmlake.sources.excerpt import scan_first
from mmlake.store import BlobStore
from tests import make
from tests.sources.corpora.builders import coco

SETTINGS = SourceSettings()


@pytest.fixture
def mounts(tmp_path: Path) -> Mounts:
    """Pictures of one place and texts of another."""
    make.land(
        tmp_path / "one", {"train/a.png": make.picture(1), "_source.json": b'{"licence": "CC-BY-4.0", "priority": 5}'}
    )
    make.land(
        tmp_path / "two",
        {
            "notes.jsonl": make.jsonl([make.prose(1), make.prose(2)]),
            "x.txt": b"loose",
            "deep/y.jsonl": make.jsonl([make.prose(3)]),
        },
    )
    return Mounts({"words": LocalLanding(tmp_path / "two"), "pics": LocalLanding(tmp_path / "one")})


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], None),
        ([""], None),
        (["/data"], "/data"),
        (["./a=b"], "./a=b"),
        (["s3://bucket/day=1"], "s3://bucket/day=1"),
        (["hf://datasets/a/b@x=y"], "hf://datasets/a/b@x=y"),
        (["my dir=b"], "my dir=b"),
        (["coco=/data/coco"], {"coco": "/data/coco"}),
        (["a=b=c", "x.y_z-1=s3://bucket/k=v"], {"a": "b=c", "x.y_z-1": "s3://bucket/k=v"}),
        (["coco="], {"coco": ""}),
    ],
)
def test_only_a_leading_name_and_an_equals_sign_name_a_landing_zone(texts: list[str], expected: object) -> None:
    assert addresses_of(texts) == expected


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["/one", "/two"], "given 2 times and not each time with a name"),
        (["a=/one", "/two"], "given 2 times and not each time with a name"),
        (["a=/one", "a=/two"], "a= was given twice"),
        (["root=/one"], "landing zone name 'root'"),
        (["ALL=/one"], "landing zone name 'ALL'"),
        (["a" * 65 + "=/one"], "at most 64 characters"),
    ],
)
def test_texts_that_do_not_go_together_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        addresses_of(texts)


def test_no_message_repeats_an_address(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        addresses_of(["a=/one", "s3://key:secret@bucket"])
    assert "secret" not in str(caught.value)


def test_a_directory_that_is_called_so_is_not_taken_for_a_named_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a=b").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=r"write \./a=b, or a=\./b"):
        addresses_of(["a=b"])
    assert addresses_of(["./a=b"]) == "./a=b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("/data/my shards", "/data/my shards"),
        ("a=/x b=hf://datasets/o/n", {"a": "/x", "b": "hf://datasets/o/n"}),
        ("\n a=/my data\n b=/y\n", {"a": "/my data", "b": "/y"}),
    ],
)
def test_an_environment_variable_holds_one_or_several(text: str, expected: object) -> None:
    assert addresses_in(text) == expected


@pytest.mark.parametrize("name", ["", "a/b", "a~b", ".a", "-a", "a=b", "root", "ALL", "ä", "a\n"])
def test_a_name_that_is_no_part_of_a_path_and_a_key_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="landing zone name"):
        Mounts({name: LocalLanding(tmp_path)})


def test_paths_and_keys_begin_with_the_name(mounts: Mounts) -> None:
    shards = {shard.key: shard.path for shard in scan(mounts, settings=SETTINGS)}
    assert shards == {
        "pics/train": "pics/train",
        "words": "words",
        "words/deep/y.jsonl": "words/deep/y.jsonl",
        "words/notes.jsonl": "words/notes.jsonl",
    }
    assert [directory for directory, _ in mounts.directories()] == ["pics/train", "words", "words/deep"]


def test_places_by_name_are_as_good_as_the_landing_zone(mounts: Mounts, tmp_path: Path) -> None:
    found = as_landing({"words": tmp_path / "two", "pics": str(tmp_path / "one")})
    assert scan(found, settings=SETTINGS) == scan(mounts, settings=SETTINGS)


def test_source_licence_and_priority_are_those_of_each(mounts: Mounts, tmp_path: Path) -> None:
    found = {
        shard.key: {
            (row["source"], row["licence"])
            for row in ingest(
                shard, modality, landing=mounts, store=BlobStore(tmp_path / "blobs"), settings=SETTINGS
            ).to_pylist()
        }
        for shard in scan(mounts, settings=SETTINGS)
        for modality in shard.modalities
    }
    assert found["pics/train"] == {("pics", "CC-BY-4.0")}
    assert found["words/notes.jsonl"] == found["words"] == {("words", "NOASSERTION")}
    assert priorities(mounts) == {"pics": 5, "words": 100}


def test_a_locator_leads_back_to_the_bytes(mounts: Mounts, tmp_path: Path) -> None:
    (shard,) = (shard for shard in scan(mounts, settings=SETTINGS) if shard.key == "pics/train")
    (row,) = ingest(shard, "image", landing=mounts, store=BlobStore(tmp_path / "blobs"), settings=SETTINGS).to_pylist()
    ref = SourceRef.from_json(row["source_ref"])
    assert ref.path == "pics/train/a.png"
    assert fetch(ref, landing=mounts, settings=SETTINGS) == make.picture(1)


def test_every_method_answers_for_what_is_not_there(mounts: Mounts) -> None:
    assert (mounts.files("."), mounts.files("other/a"), mounts.files("pics/none")) == ([], [], [])
    assert (mounts.stat("pics"), mounts.stat("other/a.png"), mounts.stat(".")) == (None, None, None)
    assert [mounts.has(path) for path in (".", "pics", "pics/train/a.png", "pics/b", "other")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert mounts.stat("pics/_source.json").size_bytes == 39
    assert mounts.local_path("other/a") is None and mounts.local_path("pics/train").is_dir()
    mounts.verify("pics/train/a.png")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("pics/../two/x.txt", 1007),
        ("../two/x.txt", 1007),
        ("/etc/passwd", 1007),
        ("other/a", 1001),
        ("pics/none", 1001),
    ],
)
def test_no_path_leaves_its_landing_zone(mounts: Mounts, path: str, code: int) -> None:
    with pytest.raises(UnreadableItem) as caught:
        mounts.open(path)
    assert caught.value.code == code


@pytest.mark.parametrize("name", [b"\xff.txt", b"d\xff/a.txt", b"fsencoded:a.txt", b"fsencoded:d/a.txt", b"%41.txt"])
def test_names_of_any_bytes_lead_back_to_their_files(tmp_path: Path, name: bytes) -> None:
    path = os.fsencode(tmp_path) + b"/one/" + name
    os.makedirs(os.path.dirname(path))
    Path(os.fsdecode(path)).write_bytes(b"some words")
    mounts = Mounts({"m": LocalLanding(tmp_path / "one")})
    (shard,) = scan(mounts, settings=SETTINGS)
    (row,) = ingest(shard, "text", landing=mounts, store=BlobStore(tmp_path / "blobs"), settings=SETTINGS).to_pylist()
    assert (row["status"], row["source"], row["text_content"]) == ("ok", "m", "some words")
    assert fetch(SourceRef.from_json(row["source_ref"]), landing=mounts, settings=SETTINGS) == b"some words"


def test_a_link_out_of_its_landing_zone_is_refused_even_where_it_ends_in_another(tmp_path: Path) -> None:
    make.land(tmp_path / "two", {"x.txt": b"secret"})
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "x.txt").symlink_to(tmp_path / "two" / "x.txt")
    mounts = Mounts({"one": LocalLanding(tmp_path / "one"), "two": LocalLanding(tmp_path / "two")})
    assert [entry.refused is None for _, entries in mounts.directories() for entry in entries] == [False, True]


def test_annotations_describe_images_of_their_own_landing_zone_only(tmp_path: Path) -> None:
    """One landing zone is called as COCO calls the directory next to it."""
    root = make.land(tmp_path, coco())
    whole = Mounts({"coco": LocalLanding(root / "coco")})
    parted = Mounts(
        {
            "annotations": LocalLanding(root / "coco" / "annotations"),
            "train2017": LocalLanding(root / "coco" / "train2017"),
        }
    )

    def captions(mounts: Mounts) -> int:
        images = (shard for shard in scan(mounts, settings=SETTINGS) if shard.path.endswith("train2017"))
        return sum(
            item.modality == "text" for shard in images for item in read(shard, landing=mounts, settings=SETTINGS)
        )

    assert captions(whole) == 15
    assert captions(parted) == 0


def test_a_limit_counts_in_each(mounts: Mounts) -> None:
    assert {shard.key: shard.num_samples for shard in scan_first(mounts, 1, settings=SETTINGS)} == {
        "pics/train": 1,
        "words": 1,
    }
    shards = scan_first(mounts, 2, settings=SETTINGS)
    assert {shard.key: shard.num_samples for shard in shards} == {"pics/train": 1, "words": 1, "words/deep/y.jsonl": 1}
    assert sum(len(list(read(shard, landing=mounts, settings=SETTINGS))) for shard in shards) == 3


def test_the_name_hints_at_a_modality_as_a_directory_does(tmp_path: Path) -> None:
    make.land(tmp_path, {"0.bin": b"\0\1\2\3"})
    (shard,) = scan({"images": tmp_path}, settings=SETTINGS)  # type: ignore[arg-type]
    assert shard.modalities == ("image",)


def test_what_one_raises_names_it_and_the_others_are_read(mounts: Mounts) -> None:
    lost = Mounts({**mounts.zones, "hub": UnreachableLanding(RemoteUnavailable("HTTP 503; run again"))})
    shard = next(shard for shard in scan(mounts, settings=SETTINGS) if shard.key == "words/notes.jsonl")
    assert len(list(read(shard, landing=lost, settings=SETTINGS))) == 2
    for ask in (
        lambda: scan(lost, settings=SETTINGS),
        lambda: lost.open("hub/a"),
        lambda: lost.stat("hub/a"),
        lambda: lost.has("hub/a"),
        lambda: lost.files("hub"),
    ):
        with pytest.raises(RemoteUnavailable, match="landing zone 'hub': HTTP 503; run again"):
            ask()


def test_a_place_that_does_not_open_is_named() -> None:
    with pytest.raises(SettingsError, match="landing zone 'speech': .*scheme 'gopher'"):
        as_landing({"speech": "gopher://host/a"})


def test_a_lance_dataset_is_opened_where_it_lies(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    import pyarrow as pa

    lance.write_dataset(pa.table({"text": [make.prose(1), make.prose(2)]}), str(tmp_path / "one" / "t.lance"))
    mounts = Mounts({"m": LocalLanding(tmp_path / "one")})
    (shard,) = scan(mounts, settings=SETTINGS)
    assert (shard.key, shard.format) == ("m/t.lance", "lance")
    assert len(list(read(shard, landing=mounts, settings=SETTINGS))) == 2
