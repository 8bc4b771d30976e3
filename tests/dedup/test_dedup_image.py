"""Near duplicates of pictures: generated families of labelled edits, and pictures that are not copies."""

from __future__ import annotations

import io

import numpy as np
import pytest

from mmlake.dedup import DedupSettings, image, image_matcher
from mmlake.dedup.joins import hamming_pairs
from mmlake.dedup.matching import SAME
from mmlake.dedup.prints import Ragged

SETTINGS = DedupSettings()


def scene(seed, side=96):
    """A picture with structure at all scales."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    planes = [
        np.asarray(
            Image.fromarray(rng.integers(0, 255, (size, size, 3), dtype=np.uint8)).resize((side, side), 3), float
        )
        for size in (3, 7, 15)
    ]
    return Image.fromarray(np.average(planes, axis=0, weights=(3, 2, 1)).clip(0, 255).astype(np.uint8))


def coded(picture, kind="JPEG", **options):
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def matcher_of(blobs):
    prints = [image.fingerprint(blob) if blob else {} for blob in blobs]
    table = {name: Ragged.of([one.get(name, np.empty(0, np.uint64)) for one in prints]) for name in image.METHODS}
    return image_matcher.matcher(table, SETTINGS)


def matched(blobs):
    """(i, j) -> method of all candidates that are copies."""
    matcher = matcher_of(blobs)
    keys = [set(matcher.keys[at].tolist()) for at in range(len(blobs))]
    found = {}
    for j in range(len(blobs)):
        others = np.array([i for i in range(j) if keys[i] & keys[j]], np.int64)
        result = matcher.compare(j, others)
        for i, relation, method in zip(others.tolist(), result.relation, result.method, strict=True):
            if relation == SAME:
                found[i, j] = image.PAIR_METHODS[method]
    return found


def test_hamming_join_is_exact_at_the_radius(monkeypatch):
    rng = np.random.default_rng(0)
    hashes = rng.integers(0, 2**63, 2_300, dtype=np.uint64)
    hashes[1], hashes[3] = hashes[0] ^ np.uint64(0b1111111111), hashes[2] ^ np.uint64(0b11111111111)
    i, j, distance = hamming_pairs(hashes, radius=10)
    assert (0, 1, 10) in zip(i.tolist(), j.tolist(), distance.tolist(), strict=True)
    assert not any(pair == (2, 3) for pair in zip(i.tolist(), j.tolist(), strict=True))


def test_recompression_scaling_and_toning_are_found_and_other_pictures_are_not():
    """Labelled pairs: 20 pictures x 4 distortions; precision and recall 1."""
    from PIL import ImageEnhance

    originals = [scene(seed) for seed in range(20)]
    blobs, labels = [], []
    for label, one in enumerate(originals):
        for blob in (
            coded(one, "PNG"),
            coded(one, quality=25),
            coded(one.resize((48, 48))),
            coded(ImageEnhance.Contrast(one).enhance(0.7)),
            coded(one.convert("L")),
        ):
            blobs.append(blob)
            labels.append(label)
    wanted = {(i, j) for j in range(len(labels)) for i in range(j) if labels[i] == labels[j]}
    assert set(matched(blobs)) == wanted


def test_a_mirrored_picture_is_found_and_says_so():
    from PIL import ImageOps

    one = scene(1)
    assert matched([coded(one), coded(ImageOps.mirror(one))]) == {(0, 1): "phash-mirrored"}


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_before_hashing(orientation):
    from PIL import Image

    # what must have been done to the pixels for the tag to put them right
    undo = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}
    one, exif = scene(2), Image.Exif()
    exif[0x0112] = orientation
    stored = one.transpose(Image.Transpose(undo[orientation])) if orientation in undo else one
    assert matched([coded(one), coded(stored, exif=exif)]).get((0, 1)) == "phash"


def test_blank_pictures_pair_by_level_and_not_by_noise():
    from PIL import Image

    blank = [coded(Image.new("RGB", (64, 64), (level,) * 3), "PNG") for level in (0, 1, 128, 255)]
    assert set(matched(blank)) == {(0, 1)}


def test_a_transparent_and_a_16_bit_picture_have_fingerprints():
    from PIL import Image

    clear = Image.new("RGBA", (32, 32), (0, 0, 0, 0))
    deep = Image.fromarray((np.arange(1024, dtype=np.uint16) * 60).reshape(32, 32))
    assert all(len(image.fingerprint(coded(one, "PNG"))["luma"]) == 128 for one in (clear, deep))


def test_pictures_without_a_fingerprint_never_pair():
    assert matched([None, None]) == {}
