"""The near step goes on from the join before, and its table has the bytes that it has without it."""

from __future__ import annotations

import hashlib
import shutil

import numpy as np
import pytest

from mmlake import schemas
from mmlake.dedup.video.detail import MOMENT_WORDS
from mmlake.dedup.video.matcher import METHODS
from mmlake.lake import Lake
from mmlake.steps import CORPUS_STEPS, run_step
from mmlake.tables import Slot
from tests import make

STEP = CORPUS_STEPS["near_duplicates"]


def film(rng, like=None):
    """Prints of forty frames: hashes, eight more for each of them, a picture of 64 levels each, keys."""
    hashes = rng.integers(0, 2**64, 40, np.uint64) if like is None else like["frame-phash"].copy()
    hashes[::9] ^= np.uint64(1)
    return {
        "frame-phash": hashes,
        "frame-windows": np.repeat(hashes, 8),
        "frame-luma": np.repeat(hashes, 8) if like is None else like["frame-luma"],
        "frame-keys": np.sort(hashes[1::9]),
        # the distance of moments, and five of them
        "frame-detail": np.r_[np.uint64(8), rng.integers(0, 2**64, 5 * MOMENT_WORDS, np.uint64)],
        "frame-blocks": np.empty(0, np.uint64),
    }


def land(lake, shard, films):
    """The tables of one shard as the steps before would have made them."""
    digests = sorted(films)
    tables = {
        "items": (
            schemas.ITEMS,
            [
                {"item_id": f"{shard}#{at:06d}", "digest": one, "sample_id": f"{shard}/{at}", "position": 0}
                | {"modality": "video", "role": "media", "source_ref": "{}", "source": "s", "licence": "CC0-1.0"}
                | {"size_bytes": 1, "status": "ok"}
                for at, one in enumerate(digests)
            ],
        ),
        "tracks": (
            schemas.TRACKS,
            [
                {"digest": one, "modality": "video", "role": "media", "status": "ok", "size_bytes": 1}
                | {"transcript_source": "none"}
                for one in digests
            ],
        ),
        "units": (
            schemas.UNITS,
            [
                {"digest": one, "parent_digest": one, "position": 0, "kind": "whole", "producer": "whole"}
                | {"role": "media", "status": "ok"}
                for one in digests
            ],
        ),
        "verdicts": (schemas.VERDICTS, [{"digest": one, "status": "ok", "weight": 1.0} for one in digests]),
        "measures": (schemas.MEASURES, []),
        "fingerprints": (
            schemas.FINGERPRINTS,
            [
                {"digest": one, "method": method, "hashes": films[one][method], "times_s": [], "status": "ok"}
                for one in digests
                for method in METHODS
            ],
        ),
    }
    for name, (schema, rows) in tables.items():
        table = schemas.from_rows(schema, rows)
        lake.tables.write(Slot(name, "video", shard), schema, table, code_version="1", settings_digest="", inputs={})


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path / "lake", landing=make.land(tmp_path / "landing", {"video/_keep": b"x"}))


def made(lake):
    return run_step(STEP, lake, "video", force=True).stamp.data_version


def test_what_a_new_shard_brings_gives_the_bytes_of_a_whole_join(lake):
    rng = np.random.default_rng(0)
    first = [film(rng) for _ in range(12)]
    films = [*first, *(film(rng, like) for like in first[:6]), *(film(rng) for _ in range(6))]
    names = [hashlib.sha256(str(at).encode()).hexdigest() for at in range(len(films))]
    land(lake, "video/a.tar", dict(zip(names[:16], films[:16], strict=True)))
    made(lake)
    land(lake, "video/b.tar", dict(zip(names[16:], films[16:], strict=True)))
    after = made(lake)
    assert lake.tables.read(Slot("near_duplicates", "video")).num_rows
    shutil.rmtree(lake.root / "kept")
    assert made(lake) == after
    land(lake, "video/a.tar", dict(zip(names[4:16], films[4:16], strict=True)))
    fewer = made(lake)
    shutil.rmtree(lake.root / "kept")
    assert made(lake) == fewer != after
