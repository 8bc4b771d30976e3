"""Training shards as a source: those that a version of ours has come back as they were, and what is noted next to tars
is no data."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from source_builders import land, png, rows_of

from mmlake import sources
from mmlake.store import BlobStore
from tests.made_samples import part, sample, shards_of, text

_SETTINGS = sources.SourceSettings()
_METADATASET = b"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    path: ./energon\n"


def tar(**members: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as file:
        for name, data in members.items():
            entry = tarfile.TarInfo(name.replace("__", "."))
            entry.size = len(data)
            file.addfile(entry, io.BytesIO(data))
    return target.getvalue()


def paths_in(landing: Path) -> list[str]:
    return [shard.path for shard in sources.scan(landing, settings=_SETTINGS)]


def test_what_a_version_wrote_comes_back_as_it_was(tmp_path) -> None:
    """The first caption came twice, texts between images were captions, and each note a row that could not be read."""
    store = BlobStore(tmp_path / "blobs")
    captions = [text(store, words, "caption") for words in ("a red fox", "a fox in snow")]
    described = sample([part(store, png(1), content_type="image/png"), *captions])
    said = [text(store, "before"), part(store, png(2), content_type="image/png"), text(store, "after")]
    out = shards_of([described, sample(said)], store, tmp_path / "out").directory
    (out / "writer.lock").touch()
    assert {path.suffix for path in out.iterdir()} == {".tar", ".idx", ".json", ".lock"}
    assert [(row["modality"], row["role"], row["text_content"], row["error_code"]) for row in rows_of(out)] == [
        ("image", "media", None, None),
        ("text", "caption", "a red fox", None),
        ("text", "caption", "a fox in snow", None),
        ("text", "document", "before", None),
        ("image", "media", None, None),
        ("text", "document", "after", None),
    ]


@pytest.mark.parametrize(
    "parts", [7, [7], [{"digest": "a", "modality": "text", "member": "gone.txt", "text": "a fox"}]]
)
def test_a_caption_is_read_of_a_record_where_no_member_has_it(tmp_path, parts) -> None:
    record = json.dumps({"caption": "a fox", "parts": parts}).encode()
    root = land(tmp_path / "in", {"a.tar": tar(a__png=png(1), a__json=record)})
    assert [row["text_content"] for row in rows_of(root)] == [None, "a fox"]


def test_what_energon_notes_next_to_tars_is_no_data(tmp_path) -> None:
    files = {"a.tar": tar(a__png=png(1)), "a.tar.idx": bytes(16), "b.tar": tar(b__png=png(2)), "b.idx": b"v1.2 1\n"}
    land(tmp_path / "in" / "energon", files)
    land(tmp_path / "in", {"metadataset_v2.yaml": _METADATASET})
    assert paths_in(tmp_path / "in") == ["energon/a.tar", "energon/b.tar"]


def test_files_of_these_names_that_are_something_else_are_read(tmp_path) -> None:
    """Indexes without a tar, a list of records, a text on data sets of data sets."""
    files = {"c.idx": bytes(16), "index.json": b'[{"text": "an owl"}]', "writer.lock": b"a text", ".idx": b"x"}
    land(tmp_path / "in", {"a.tar": tar(a__png=png(1)), **files, "metadatasets.yaml": b"title: on metadatasets\n"})
    rows = rows_of(tmp_path / "in")
    assert "an owl" in [row["text_content"] for row in rows]
    assert {row["sample_id"].rpartition("/")[2] for row in rows} >= {"c", "writer", "metadatasets"}
