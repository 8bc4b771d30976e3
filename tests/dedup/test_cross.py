"""Components of films against pictures that lie by themselves: degenerate inputs, bounds of rows and of comparisons."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from mmlake import dedup, schemas
from mmlake.dedup.cross import components
from mmlake.dedup.image import fingerprints as image_fingerprints
from mmlake.dedup.text import fingerprints as text_fingerprints
from mmlake.engine import Engine, EngineSettings
from mmlake.schemas.cross import COMPONENT_FINGERPRINTS, cross_said
from tests import make

SETTINGS = dedup.DedupSettings()
TIERS = dedup.tiers_of("image")


def noisy(seed: int, *, ground: bytes) -> bytes:
    """The picture with other noise."""
    pixels = np.asarray(Image.open(io.BytesIO(ground)).convert("RGB")).astype(float)
    pixels += np.random.default_rng(seed).normal(0, 3, pixels.shape)
    sink = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(sink, "PNG")
    return sink.getvalue()


def prints(pictures: dict[str, bytes]) -> pa.Table:
    """FINGERPRINTS of the pictures, by made-up digests."""
    rows = [
        {"digest": name, "method": method, "hashes": hashes, "status": "ok"}
        for name, data in pictures.items()
        for method, hashes in image_fingerprints.fingerprint(data).items()
    ]
    return schemas.from_rows(schemas.FINGERPRINTS, rows)


def keyframes(frames: dict[tuple[str, float], bytes]) -> pa.Table:
    """COMPONENT_FINGERPRINTS of the frames, by film and time."""
    rows = [
        {"digest": film, "component": "keyframe", "component_digest": f"{film}@{time_s:06.1f}", "time_s": time_s}
        | {"method": method, "hashes": hashes, "status": "ok"}
        for (film, time_s), data in frames.items()
        for method, hashes in image_fingerprints.fingerprint(data).items()
    ]
    made = schemas.from_rows(COMPONENT_FINGERPRINTS, rows)
    return made.append_column("carrier_modality", pa.array(["video"] * made.num_rows))


def pairs(pictures: dict[str, bytes], frames: dict[tuple[str, float], bytes]) -> list[dict]:
    return dedup.cross_pairs(prints(pictures), keyframes(frames), TIERS, settings=SETTINGS).to_pylist()


def test_of_many_equal_keyframes_of_a_film_the_first_has_the_row_and_the_others_are_counted():
    logo = make.picture(1)
    found = pairs({f"p{at:04d}": logo for at in range(300)}, {("film", float(at)): logo for at in range(500)})
    assert [(row["digest"], row["time_s"], row["num_more"]) for row in found] == [
        (f"p{at:04d}", 0.0, 499) for at in range(300)
    ]


def test_a_picture_that_many_films_show_has_few_rows_and_the_number_of_the_others():
    logo = make.picture(1)
    found = pairs({"p": logo, "q": make.picture(2)}, {(f"film{at:03d}", 4.0): logo for at in range(100)})
    assert len(found) == components.MOST_ROWS
    assert {(row["digest"], row["num_more"]) for row in found} == {("p", 100 - components.MOST_ROWS)}
    assert dedup.cross_counts(pa.Table.from_pylist(found)) == {"keyframe": 8, "left_out": 92}


def test_rows_are_linear_where_every_picture_and_every_keyframe_is_nearly_the_same():
    logo = make.picture(1)
    pictures = {f"p{at:04d}": noisy(at, ground=logo) for at in range(120)}
    frames = {(f"film{at % 40}", float(at)): noisy(1_000 + at, ground=logo) for at in range(160)}
    found = pairs(pictures, frames)
    assert {row["digest"] for row in found} == set(pictures)
    assert len(found) <= components.MOST_ROWS * len(pictures)


def test_a_film_with_many_keyframes_of_one_kind_hides_no_other_film():
    """All of them share a key, and a list of candidates holds 64."""
    logo = make.picture(1)
    frames = {("aaa", float(at)): noisy(at, ground=logo) for at in range(200)}
    frames["zzz", 3.0] = noisy(999, ground=logo)
    found = pairs({"p": logo}, frames)
    assert {row["carrier"] for row in found} == {"aaa", "zzz"}


@pytest.mark.parametrize("value", [0, 255, 128])
def test_black_and_blank_keyframes_say_nothing(value):
    sink = io.BytesIO()
    noise = np.random.default_rng(1).normal(0, 0.5, (72, 96, 3))
    Image.fromarray((value + noise).clip(0, 255).astype(np.uint8)).save(sink, "PNG")
    frame = prints({"black": sink.getvalue(), "real": make.picture(1)})
    says = components._without_silent("keyframe", frame)
    lengths = {(row["digest"], row["method"]): len(row["hashes"]) for row in says.to_pylist()}
    assert {name for (name, _), num in lengths.items() if num} == {"real"}
    assert len(lengths) == frame.num_rows


def test_a_word_or_two_of_a_transcript_say_nothing():
    texts = {"thanks": "Thank you for watching.", "talk": make.prose(1, words=30)}
    rows = [
        {"digest": name, "method": method, "hashes": hashes, "status": "ok"}
        for name, one in zip(texts, text_fingerprints.prints(texts.values()), strict=True)
        for method, hashes in one._asdict().items()
    ]
    says = components._without_silent("transcript", schemas.from_rows(schemas.FINGERPRINTS, rows)).to_pylist()
    assert {row["digest"] for row in says if row["hashes"]} == {"talk"}


def test_without_components_or_pictures_there_are_no_rows():
    picture = make.picture(1)
    assert pairs({}, {("film", 0.0): picture}) == []
    assert pairs({"p": picture}, {}) == []


def row(**more) -> dict:
    base = {"digest": "a" * 64, "carrier": "b" * 64, "carrier_modality": "video", "component": "sound", "time_s": None}
    spans = dict.fromkeys(("start_s", "end_s", "carrier_start_s", "carrier_end_s"))
    return base | spans | {"method": "chromaprint", "score": 0.9, "relation": "same", "num_more": 0} | more


@pytest.mark.parametrize(
    ("given", "own", "mirrored"),
    [
        ({}, "the same as the sound of the film bbbb", "its sound is the recording aaaa"),
        (
            {"relation": "inside", "start_s": 0.0, "end_s": 9.9, "carrier_start_s": 4.0, "carrier_end_s": 13.9},
            "inside the sound of the film bbbbbbbbbbbbbbbb: 0.0-9.9 s here, 4.0-13.9 s there (chromaprint 0.90)",
            "its sound holds the recording aaaaaaaaaaaaaaaa: 4.0-13.9 s here, 0.0-9.9 s there (chromaprint 0.90)",
        ),
        ({"num_more": 3}, "the same as the sound", "its sound is the recording aaaaaaaaaaaaaaaa (chromaprint 0.90"),
    ],
)
def test_a_row_is_said_in_words_from_either_side(given, own, mirrored):
    made = row(**given)
    assert cross_said(made, modality="audio", digest="a" * 64).startswith(own)
    assert cross_said(made, modality="audio", digest="b" * 64).startswith(mirrored)


class Unread:
    """Fingerprints that nobody may ask for."""

    def __iter__(self):
        raise AssertionError("the prints of all pictures were read")


def test_where_no_film_carries_anything_no_print_is_read():
    assert not dedup.cross_pairs(Unread(), keyframes({}), TIERS, settings=SETTINGS).num_rows


def test_parts_in_little_memory_give_the_pairs_of_the_whole(tmp_path):
    blobs = {f"p{at}": make.picture(at) for at in range(6)}
    frames = {("film", float(at)): make.picture(at) for at in range(0, 6, 2)}
    shards = [prints(dict(list(blobs.items())[at : at + 2])) for at in (4, 0, 2, 0)]  # one comes twice
    found = dedup.cross_pairs(
        shards,
        keyframes(frames),
        TIERS,
        settings=SETTINGS,
        alone=pa.chunked_array([["p0", "p1", "p3", "p4"]]),
        engine=Engine(tmp_path, EngineSettings(memory_gib=1e-4)),
    ).to_pylist()
    assert found == [row for row in pairs(blobs, frames) if row["digest"] != "p2"]
    assert [row["digest"] for row in found] == ["p0", "p4"]
