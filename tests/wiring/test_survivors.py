"""Which of several duplicates stays: source priority, then verdict, then fidelity, then digest."""

from __future__ import annotations

import pytest

from mmlake import schemas
from mmlake.lake import Lake
from mmlake.steps import CORPUS_STEPS, run_step
from mmlake.tables import Slot
from tests import make

LEFT, RIGHT = "a" * 64, "b" * 64


def survivor(tmp_path, rows: dict[str, tuple[str, float, int | None]]) -> str:
    """Who stays of two pictures that are near duplicates. rows: digest -> (status, weight, width_px)."""
    lake = Lake(tmp_path / "lake", landing=make.land(tmp_path / "landing", {"image/_keep": b"x"}))
    items = [
        {"item_id": f"image/a.tar#{at:06d}", "digest": digest, "sample_id": f"image/a.tar/{at}", "position": 0}
        | {"modality": "image", "role": "media", "source_ref": "{}", "source": "s", "licence": "CC0-1.0"}
        | {"size_bytes": 1, "status": "ok"}
        for at, digest in enumerate(rows)
    ]
    tracks = [
        {"digest": digest, "modality": "image", "role": "media", "status": "ok", "size_bytes": 1}
        | {"transcript_source": "none", "width_px": width_px}
        for digest, (_, _, width_px) in rows.items()
    ]
    units = [
        {"digest": digest, "parent_digest": digest, "position": 0, "kind": "whole", "producer": "whole"}
        | {"role": "media", "status": "ok"}
        for digest in rows
    ]
    verdicts = [{"digest": digest, "status": status, "weight": weight} for digest, (status, weight, _) in rows.items()]
    vectors = [
        {"digest": digest, "encoder": lake.encoder_of("image"), "revision": "1", "dimension": 2, "status": "ok"}
        | {"vector": [0.6, 0.8]}
        for digest in rows
    ]
    for name, schema, made in (
        ("items", schemas.ITEMS, items),
        ("tracks", schemas.TRACKS, tracks),
        ("units", schemas.UNITS, units),
        ("verdicts", schemas.VERDICTS, verdicts),
        ("measures", schemas.MEASURES, []),
        ("fingerprints", schemas.FINGERPRINTS, []),
        ("embeddings", schemas.EMBEDDINGS, vectors),
        ("near_duplicates", schemas.PAIRS, []),
    ):
        slot = Slot(name, "image") if schema is schemas.PAIRS else Slot(name, "image", "image/a.tar")
        table = schemas.from_rows(schema, made)
        lake.tables.write(slot, schema, table, code_version="1", settings_digest="", inputs={})
    run_step(CORPUS_STEPS["semantic_duplicates"], lake, "image")
    run_step(CORPUS_STEPS["duplicate_clusters"], lake, "image")
    (kept,) = set(lake.tables.read(Slot("duplicate_clusters", "image")).column("survivor").to_pylist())
    return kept


@pytest.mark.parametrize("flagged", [LEFT, RIGHT])
@pytest.mark.parametrize("weight", [0.0, 0.5, 0.9, 1.0])
def test_a_flagged_item_never_outlives_a_clean_one_however_large_it_is(tmp_path, flagged, weight):
    """Whatever weight the settings give it."""
    clean = RIGHT if flagged == LEFT else LEFT
    rows = {flagged: ("flagged", weight, 10**9), clean: ("ok", 1.0, 1)}
    assert survivor(tmp_path, dict(sorted(rows.items()))) == clean


@pytest.mark.parametrize("larger", [LEFT, RIGHT])
def test_of_two_clean_items_the_larger_stays(tmp_path, larger):
    rows = {digest: ("ok", 1.0, 640 if digest == larger else 320) for digest in (LEFT, RIGHT)}
    assert survivor(tmp_path, rows) == larger


def test_of_two_equal_items_the_smaller_digest_stays(tmp_path):
    assert survivor(tmp_path, dict.fromkeys((LEFT, RIGHT), ("ok", 1.0, None))) == LEFT
