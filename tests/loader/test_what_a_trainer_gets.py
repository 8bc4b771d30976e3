"""One printed sample of each kind in docs/loader.md is what the loader gives: from a samples table to the batch.

To print them anew: python -m tests.loader.test_what_a_trainer_gets
"""

from __future__ import annotations

import inspect
import io
import random
import re
import struct
import tempfile
import zlib
from pathlib import Path
from pprint import pformat
from textwrap import fill, indent
from typing import Any

import av
import numpy as np
import pytest
from torch.utils.data import DataLoader

from mmlake.cuts import CutCache, CutSettings
from mmlake.loader import ShardDataset
from mmlake.shards import write_shards
from mmlake.store import BlobStore
from tests.cuts.counted_films import counted_film, number_of
from tests.made_clips import WORDS, MadeTracks, film_clips, noise, recording_segments
from tests.made_samples import part, sample, samples_table, shards_of, text

DOCS = Path(__file__).parents[2] / "docs" / "loader.md"
KINDS = ["text", "picture", "clip", "segment", "interleaved"]  # in the order of shards
CAPTIONS = [
    "A fox sits in the snow.",
    "Red fox in winter.",
    "An animal at the edge of a wood.",
    "A fox waits.",
    "Snow and a fox.",
]


def png(width: int, height: int, grey: int) -> bytes:
    """A picture of one colour, the same bytes with every library: its pixels are stored, not deflated."""
    body = b""
    rows = (b"\0" + bytes([grey, grey // 2, 0]) * width) * height
    for kind, data in (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 0)),
        (b"IEND", b""),
    ):
        body += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + body


def made(store: BlobStore, tracks: MadeTracks) -> dict[str, dict[str, Any]]:
    """Kind -> the row of a version."""
    picture = part(store, png(32, 24, 200), content_type="image/png")
    captions = [text(store, words, "caption", fields={"caption_id": 70 + n}) for n, words in enumerate(CAPTIONS)]
    article = text(store, "Foxes are omnivores. They eat fruit, insects and small animals.")
    page = [text(store, "The fox hunts at dusk."), part(store, png(16, 16, 90), content_type="image/png")]
    with tempfile.TemporaryDirectory() as folder:
        # pixels as they are: an encoder's bytes depend on the number of cores
        film = counted_film(Path(folder) / "film.avi", 125, codec="rawvideo", with_sound=False)
        clip = film_clips(store, tracks, Path(folder), film_path=film)[1]
    return {
        "text": sample([article], fields={"language": "en", "score": 0.87, "url": "https://example.org/foxes"}),
        "picture": sample([picture, *captions], fields={"label": 3, "height": 24}, weight=0.5, sources=["coco"]),
        "interleaved": sample(
            [*page, text(store, "At dawn it rests.")], fields={"title": "A day"}, sources=["obelics"]
        ),
        "clip": clip,
        "segment": recording_segments(store, tracks)[1],
    }


def batch(folder: Path) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """(rows of a version, the batch that a training loop gets of them)."""
    store, tracks = BlobStore(folder / "blobs"), MadeTracks()
    rows = made(store, tracks)
    shards = shards_of(
        list(rows.values()),
        store,
        folder,
        manifest_id="ef" * 32,
        texts=lambda digest: store.read(digest).decode(),
        tracks=tracks,
        cuts=CutCache(folder / "cuts", CutSettings()),
    )
    dataset = ShardDataset(shards.directory, shuffle=False, decode="auto", batch_size=8)
    (samples,) = DataLoader(dataset, batch_size=8, collate_fn=list)
    return rows, samples


def document(sample):  # texts and arrays as they follow each other
    return [sample[part["member"]] for part in sample["json"]["parts"]]


def frames(clip):  # every picture of an MP4, height and width, grey
    with av.open(io.BytesIO(clip)) as film:
        return [frame.to_ndarray(format="gray") for frame in film.decode(video=0)]


def keyframes(sample):  # (time and place in the member, picture) of each
    return zip(sample["json"]["keyframes"], sample["keyframes.mjpeg"], strict=True)


def said(sample, word):  # the samples of a word
    return sample["sound.flac"][round(word["start_s"] * 16000) : round(word["end_s"] * 16000)]


def collate(samples):  # pictures, each with one of its captions, drawn by chance
    captions = [random.choice(sample["json"]["captions"]) for sample in samples]
    return [sample["png"] for sample in samples], captions


def printed(value: Any) -> str:
    """The sample as the page shows it: digests cut to 12 characters, arrays by their shape, and of what an encoder made
    no sizes."""
    return _cut(pformat(_named(value), width=116, sort_dicts=False))


class _Plain(str):
    """A text that prints without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _named(value: Any) -> Any:
    if isinstance(value, dict) and value.get("content_type") == "video/mp4":
        value = value | {"size_bytes": _Plain("<varies>")}
    if isinstance(value, dict) and "member" in value:  # a part, which takes nine lines otherwise
        joined = _cut(repr(value)).replace("': ", "':\N{NO-BREAK SPACE}")
        wrapped = fill(joined, 93, subsequent_indent=" " * 21, break_on_hyphens=False)
        return _Plain(wrapped.replace("\N{NO-BREAK SPACE}", " "))
    if isinstance(value, dict):
        return {name: _named(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_named(one) for one in value]
    if isinstance(value, bytes):
        return _Plain("<bytes>")
    return _Plain(f"<{value.dtype} array {value.shape}>") if isinstance(value, np.ndarray) else value


def _cut(text: str) -> str:
    return re.sub(r"'([0-9a-f]{12})[0-9a-f]{52}'", r"'\1...'", text)


@pytest.fixture(scope="module")
def rows_and_samples(tmp_path_factory) -> tuple[dict[str, dict], list[dict]]:
    return batch(tmp_path_factory.mktemp("trainer"))


@pytest.mark.parametrize(("number", "kind"), list(enumerate(KINDS)))
def test_the_page_shows_what_the_loader_gives(rows_and_samples, number: int, kind: str) -> None:
    rows, samples = rows_and_samples
    assert samples[number]["__key__"] == rows[kind]["sample"]
    assert f"```python\n{printed(samples[number])}\n```" in DOCS.read_text()


def test_a_text_comes_with_its_fields(rows_and_samples) -> None:
    sample = rows_and_samples[1][0]
    assert sample["txt"].startswith("Foxes are omnivores.")
    assert sample["json"]["fields"] == {"language": "en", "score": 0.87, "url": "https://example.org/foxes"}


def test_a_picture_comes_with_all_of_its_captions_in_order_and_its_fields(rows_and_samples) -> None:
    sample = rows_and_samples[1][1]
    assert sample["png"].shape == (24, 32, 3)
    assert sample["png"][0, 0].tolist() == [200, 100, 0]
    assert (sample["caption.txt"], sample["json"]["captions"]) == (CAPTIONS[0], CAPTIONS)
    assert sample["json"]["fields"] == {"label": 3, "height": 24}
    assert sample["__weight__"] == 0.5


def test_an_interleaved_document_comes_as_its_parts_in_order(rows_and_samples) -> None:
    sample = rows_and_samples[1][KINDS.index("interleaved")]
    before, picture, after = document(sample)
    assert (before, after) == ("The fox hunts at dusk.", "At dawn it rests.")
    assert picture.shape == (16, 16, 3)


def test_a_clip_comes_with_its_sound_keyframes_and_words_on_its_own_clock(rows_and_samples, tmp_path) -> None:
    sample = rows_and_samples[1][KINDS.index("clip")]
    numbers = [number_of(picture) for picture in frames(sample["mp4"])]
    assert numbers == list(range(50, 125))
    np.testing.assert_array_equal(sample["sound.flac"] * 32768, noise(5 * 16_000)[32_000:, 0])
    shown = [(one["time_s"], int(picture.mean())) for one, picture in keyframes(sample)]
    assert shown == [(0.0, 0), (1.0, 40)]
    assert [word["word"] for word in sample["json"]["words"]] == WORDS[3:]
    at = sample["json"]["words"][1]
    assert len(said(sample, at)) == round((at["end_s"] - at["start_s"]) * 16_000)


def test_a_segment_comes_as_sound_at_16_khz_with_its_words(rows_and_samples) -> None:
    sample = rows_and_samples[1][KINDS.index("segment")]
    assert (sample["flac"].shape, sample["flac"].dtype) == ((56_000,), np.float32)
    assert [word["word"] for word in sample["json"]["words"]] == WORDS[3:]


@pytest.mark.parametrize("function", [document, collate, frames, keyframes, said])
def test_the_page_has_the_functions_that_are_tested_here(function: Any) -> None:
    assert indent(inspect.getsource(function), "    ") in DOCS.read_text()


def test_pictures_come_in_batches_with_a_caption_each(tmp_path) -> None:
    store = BlobStore(tmp_path / "blobs")
    picture = made(store, MadeTracks())["picture"]
    rows = [picture | {"sample": f"{number:064x}"} for number in range(5)]
    table = samples_table(rows)
    folder = write_shards(table, store=store, out=tmp_path, manifest_id="ef" * 32, modalities=("image",)).directory
    dataset = ShardDataset(folder, modality="image", seed=7, decode="auto", batch_size=2)
    batches = list(DataLoader(dataset, batch_size=2, num_workers=2, collate_fn=collate))
    assert [len(pictures) for pictures, _ in batches] == [2, 2, 1]
    assert all(one.shape == (24, 32, 3) for pictures, _ in batches for one in pictures)
    assert {caption for _, captions in batches for caption in captions} <= set(CAPTIONS)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        print("\n\n".join(printed(one) for one in batch(Path(directory))[1]))
