"""The tables that leave the stage: fingerprints, near and semantic pairs, clusters."""

from __future__ import annotations

import hashlib
import io
from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pytest

from mmlake import contracts, dedup, schemas
from mmlake.dedup import DedupSettings, matching
from mmlake.dedup.text import fingerprints
from mmlake.dedup.vectors import proposals
from mmlake.dedup.vectors import tier as vectors_tier
from mmlake.dedup.vectors.matcher import VectorMatcher
from mmlake.embed import ENCODERS
from mmlake.errors import SettingsError
from mmlake.modalities import MODALITIES
from mmlake.parts import BUILT_IN
from mmlake.store import BlobStore
from tests import make

SETTINGS = DedupSettings()
BOUNDS = BUILT_IN.semantic_bounds


def name(text):
    return hashlib.sha256(str(text).encode()).hexdigest()


def tracks(rows, modality):
    base = {"modality": modality, "role": "media", "status": "ok", "size_bytes": 1, "transcript_source": "none"}
    return make.as_units(schemas.from_rows(schemas.TRACKS, [base | row for row in rows]))


def texts(*contents):
    return tracks([{"digest": name(content), "text": content} for content in contents], "text")


def test_every_modality_has_a_tier_and_no_tier_is_lost():
    assert {tier.modality for tier in dedup.TIERS} == set(MODALITIES)
    assert sorted(tier.method for row in MODALITIES.values() for tier in row.tiers) == sorted(
        tier.method for tier in dedup.TIERS
    )


def _text(row, store):
    return nullcontext(row["text"])


def _longer(texts, settings):
    return [{"length": np.array([len(text)], np.uint64)} for text in texts]


def _as_long(prints, *, settings, advance):
    lengths = [one["length"][0] for one in prints]
    return [(i, j, "length", 0.5) for i in range(len(lengths)) for j in range(i) if lengths[i] == lengths[j]]


def test_a_second_tier_of_a_modality_stands_next_to_the_first(tmp_path):
    second = dedup.Tier(
        modality="text",
        method="length",
        methods=("length",),
        columns=("text",),
        opened=_text,
        fingerprint=_longer,
        pairs=_as_long,
        bound=lambda settings: 0.25,
        finds="texts of one length",
        source="none",
    )
    both = (*dedup.tiers_of("text"), second)
    contents = ("one two three four five six", "One two three four five six", "six five four three two one")
    table = dedup.fingerprint(texts(*contents), both, store=BlobStore(tmp_path), settings=SETTINGS)
    assert sorted(set(table.column("method").to_pylist())) == ["length", "shingles", "words"]
    found = [(row["method"], row["bound"]) for row in dedup.near_pairs(table, both, settings=SETTINGS).to_pylist()]
    # three texts of one length are a star of two edges
    assert sorted(found) == [("jaccard-5gram", 0.7), *[("length", 0.25)] * 2]


def test_text_goes_through_fingerprints_to_pairs(tmp_path):
    table = dedup.fingerprint(
        texts("The cat sat on the mat.", "the cat sat on the mat", "a dog"),
        dedup.tiers_of("text"),
        store=BlobStore(tmp_path),
        settings=SETTINGS,
    )
    pairs = dedup.near_pairs(table, dedup.tiers_of("text"), settings=SETTINGS).to_pylist()
    assert table.num_rows == 6
    assert [(one["tier"], one["method"], one["score"], one["bound"]) for one in pairs] == [
        ("near", "jaccard-5gram", 1.0, 0.7)
    ]
    assert pairs[0]["left"] < pairs[0]["right"]  # of two as good ones the smaller digest stays


def test_of_several_matches_of_a_pair_the_best_score_is_kept():
    """Two ways may find one pair, from either side and in any order."""
    found = [(0, 1, "m", 0.8), (1, 0, "m", 0.9), (0, 1, "m", 0.7), (0, 2, "m", 0.6), (0, 1, "other", 0.75)]
    seen = matching.Listed(3, found, ("m", "other")).compare(0, np.array([1, 2]))
    assert (seen.score.tolist(), seen.method.tolist()) == ([0.9, 0.6], [0, 0])


def test_a_text_that_fails_among_others_is_one_row_and_the_others_are_as_without_it(tmp_path, monkeypatch):
    """Texts are done a thousand at once."""
    original = fingerprints.prints

    def prints_of(texts, *, words):
        if "torn" in (texts := list(texts)):
            raise ValueError("torn")
        return original(texts, words=words)

    tiers = dedup.tiers_of("text")
    good = dedup.fingerprint(texts("one", "two"), tiers, store=BlobStore(tmp_path), settings=SETTINGS)
    monkeypatch.setattr(fingerprints, "prints", prints_of)
    table = dedup.fingerprint(texts("one", "torn", "two"), tiers, store=BlobStore(tmp_path), settings=SETTINGS)
    failed = table.filter(pa.compute.equal(table.column("status"), "unreadable")).to_pylist()
    assert [(row["digest"], row["error_code"], row["hashes"]) for row in failed] == [(name("torn"), 5001, [])]
    assert contracts.made(table).equals(good)


def test_failed_rows_have_no_near_and_no_semantic_pairs(tmp_path):
    tiers = dedup.tiers_of("text")
    table = dedup.fingerprint(texts("the same", "The same."), tiers, store=BlobStore(tmp_path), settings=SETTINGS)
    failed = table.set_column(4, "status", pa.array(["unreadable"] * table.num_rows))
    assert dedup.near_pairs(table, tiers, settings=SETTINGS).num_rows == 1
    assert dedup.near_pairs(failed, tiers, settings=SETTINGS).num_rows == 0


def test_near_pairs_do_not_depend_on_the_order_of_fingerprints(tmp_path):
    contents = [f"common words that all share {at // 3} and then some number of others" for at in range(9)]
    table = dedup.fingerprint(
        texts(*contents, *(one.upper() for one in contents)),
        dedup.tiers_of("text"),
        store=BlobStore(tmp_path),
        settings=SETTINGS,
    )
    shuffled = table.take(pa.array(np.random.default_rng(0).permutation(table.num_rows)))
    assert dedup.near_pairs(table, dedup.tiers_of("text"), settings=SETTINGS).equals(
        dedup.near_pairs(shuffled, dedup.tiers_of("text"), settings=SETTINGS)
    )


def test_an_item_that_does_not_decode_is_one_row_with_its_code_and_stops_nothing(tmp_path):
    from PIL import Image

    store, buffer = BlobStore(tmp_path), io.BytesIO()
    Image.new("L", (32, 32), 9).save(buffer, "PNG")
    good, torn = store.put(buffer.getvalue()), store.put(b"no picture")
    table = dedup.fingerprint(
        tracks([{"digest": good}, {"digest": torn}, {"digest": name("absent")}], "image"),
        dedup.tiers_of("image"),
        store=store,
        settings=SETTINGS,
    )
    rows = table.to_pylist()
    assert {(row["digest"], row["status"], row["error_code"], len(row["hashes"])) for row in rows} == {
        (good, "ok", None, 0),
        (good, "ok", None, 1),
        (good, "ok", None, 128),
        (good, "ok", None, 4),
        (good, "ok", None, 512),
        (good, "ok", None, 64),
        (torn, "unreadable", 5001, 0),
        (name("absent"), "unreadable", 2001, 0),
    }
    assert len(rows) == len(dedup.tiers_of("image")[0].methods) + 2
    assert dedup.near_pairs(table, dedup.tiers_of("image"), settings=SETTINGS).num_rows == 0


@pytest.mark.parametrize("modality", MODALITIES)
def test_an_empty_partition_gives_empty_tables(tmp_path, modality):
    table = dedup.fingerprint(
        make.as_units(schemas.empty(schemas.TRACKS)),
        MODALITIES[modality].tiers,
        store=BlobStore(tmp_path),
        settings=SETTINGS,
    )
    assert table.num_rows == dedup.near_pairs(table, MODALITIES[modality].tiers, settings=SETTINGS).num_rows == 0
    assert dedup.semantic_pairs(schemas.empty(schemas.EMBEDDINGS), BOUNDS, settings=SETTINGS).num_rows == 0


def test_vectors_of_an_encoder_without_a_bound_are_refused():
    table = schemas.from_rows(
        schemas.EMBEDDINGS,
        [{"digest": name("a"), "encoder": "smell", "revision": "1", "dimension": 1, "vector": [1.0], "status": "ok"}],
    )
    with pytest.raises(SettingsError, match="'smell' have no bound"):
        dedup.semantic_pairs(table, BOUNDS, settings=SETTINGS)


def test_the_bound_of_an_encoder_is_that_of_its_row_unless_the_settings_say_another():
    table = schemas.from_rows(
        schemas.EMBEDDINGS,
        [
            {
                "digest": name(word),
                "encoder": "minilm-l6",
                "revision": "1",
                "dimension": 2,
                "vector": vector,
                "status": "ok",
            }
            for word, vector in (("a", [1.0, 0.0]), ("b", [0.8, 0.6]))
        ],
    )
    lenient = DedupSettings(semantic_bounds={"minilm-l6": 0.8})
    assert ENCODERS["minilm-l6"].duplicate_cosine > 0.8
    assert dedup.semantic_pairs(table, BOUNDS, settings=SETTINGS).num_rows == 0
    assert dedup.semantic_pairs(table, BOUNDS, settings=lenient).column("bound").to_pylist() == [0.8]


def vectors(num, dimension=24, copies=0, seed=0):
    """Unit vectors, the last `copies` of which lie at cosine above .99 to the first ones."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(num - copies, dimension))
    out = np.concatenate([base, base[:copies] + rng.normal(0, 0.02, (copies, dimension))])
    return (out / np.linalg.norm(out, axis=1, keepdims=True)).astype(np.float32)


def brute(rows, bound):
    products = rows.astype(np.float64) @ rows.T.astype(np.float64)
    return {(int(i), int(j)) for i, j in zip(*np.nonzero(np.triu(products.round(6) >= bound, 1)), strict=True)}


@pytest.mark.parametrize("index", ["flat", "cells", "ivf-flat", "ivf-pq", "hnsw", "scann"])
def test_every_index_finds_the_planted_pairs_and_no_false_one(index):
    if index == "scann":
        pytest.importorskip("scann")
    rows = vectors(1_200, copies=100)
    i, j, cosine = proposals.similar(rows, bound=0.97, index=index, settings=SETTINGS)
    got, wanted = set(zip(i.tolist(), j.tolist(), strict=True)), brute(rows, 0.97)
    assert got <= wanted
    assert len(got) >= 0.97 * len(wanted)
    assert (cosine >= 0.97).all()


def test_measured_recall_is_the_share_of_brute_force_pairs():
    rows = vectors(1_200, copies=100)
    assert dedup.measure_recall(rows, index="cells", bound=0.97) >= 0.98
    assert dedup.measure_recall(rows, index="flat", bound=0.97) == 1.0


def test_measured_recall_shows_a_loss(monkeypatch):
    monkeypatch.setitem(
        proposals._SEARCHES, "hnsw", lambda rows, bound, chosen: iter([(np.array([0]), np.array([1_100]))])
    )
    assert dedup.measure_recall(
        vectors(1_200, copies=100), index="hnsw", bound=0.97, sample_items=1_200
    ) == pytest.approx(0.01)


def test_a_cosine_at_the_bound_counts_and_just_below_does_not():
    angle = np.arccos(0.9)
    rows = np.array([[1, 0], [np.cos(angle), np.sin(angle)]], np.float32)
    assert len(proposals.similar(rows, bound=0.9, index="flat", settings=SETTINGS)[0]) == 1
    assert len(proposals.similar(rows, bound=0.90001, index="flat", settings=SETTINGS)[0]) == 0


def test_an_unknown_index_is_refused():
    with pytest.raises(SettingsError, match=r"dedup\.index"):
        proposals.similar(vectors(5), bound=0.9, index="magic", settings=SETTINGS)


def embeddings(rows, encoder="minilm-l6"):
    table = [
        {
            "digest": name(at),
            "encoder": encoder,
            "revision": "1",
            "dimension": len(row),
            "vector": list(map(float, row)),
            "status": "ok" if len(row) else "unreadable",
        }
        for at, row in enumerate(rows)
    ]
    return schemas.from_rows(schemas.EMBEDDINGS, table)


def test_semantic_pairs_name_encoder_and_bound_and_leave_out_missing_vectors():
    table = embeddings([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], []])
    (pair,) = dedup.semantic_pairs(table, BOUNDS, settings=SETTINGS).to_pylist()
    assert {pair["left"], pair["right"]} == {name(0), name(1)}
    assert (pair["tier"], pair["method"], pair["bound"]) == (
        "semantic",
        "cosine:minilm-l6",
        BOUNDS["minilm-l6"],
    )


@pytest.mark.parametrize(("index", "least"), [("flat", 1.0), ("cells", 0.99)])
def test_of_two_survivors_that_clusters_elected_none_stays_within_the_bound_of_the_other(index, least):
    """Overlapping pieces of one thing: a cluster elects the middle one, which no list of leaders had."""
    rng = np.random.default_rng(4)
    corners = rng.standard_normal((40, 3, 12))
    shares = rng.dirichlet((2, 2, 2), (40, 40))
    rows = np.einsum("tpc,tcd->tpd", shares, corners).reshape(-1, 12)
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    chosen = DedupSettings(index=index)
    pairs = dedup.semantic_pairs(embeddings(rows), {"minilm-l6": 0.985}, settings=chosen)
    counts = dedup.recall_counts(pairs)
    assert counts["recall_units"] > 500 and counts["recall_found"] >= least * counts["recall_units"]


def test_only_survivors_of_the_near_tier_go_on_to_the_semantic_one(monkeypatch):
    """A near duplicate is no candidate, though its vector is the closest; it goes where its survivor goes."""
    compared = []

    class Noted(VectorMatcher):
        def __init__(self, vectors, *args, **more):
            compared.append(len(vectors))
            super().__init__(vectors, *args, **more)

    monkeypatch.setattr(vectors_tier, "VectorMatcher", Noted)
    angles = (0.0, 0.05, 0.1, 1.5)
    table = embeddings([[np.cos(angle), np.sin(angle)] for angle in angles])
    near = pa.table({"digest": [name(at) for at in range(4)], "survivor": [name(0), name(2), name(2), name(3)]})
    alone = dedup.semantic_pairs(table, BOUNDS, settings=SETTINGS)
    tiered = dedup.semantic_pairs(table, BOUNDS, near=near, settings=SETTINGS)
    assert compared == [4, 3]
    assert {pair["right"] for pair in alone.to_pylist()} == {pair["right"] for pair in tiered.to_pylist()}
    assert {pair["left"] for pair in tiered.to_pylist()} == {name(0)}


def test_vectors_of_two_encoders_are_never_compared():
    both = pa.concat_tables([embeddings([[1.0, 0.0]]), embeddings([[1.0, 0.0]], encoder="clip")])
    assert dedup.semantic_pairs(both, BOUNDS, settings=SETTINGS).num_rows == 0
