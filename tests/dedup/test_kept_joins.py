"""Joins that are kept on disk change nothing but their cost, with the tiers of pictures, recordings and films."""

from __future__ import annotations

import functools
import hashlib

import numpy as np
import pyarrow as pa
import pytest
from film_edits import part, prints_of, scene

from mmlake import dedup, schemas
from mmlake.dedup import CLOSENESS, Criterion, DedupSettings, KeptJoins
from mmlake.dedup.audio.fingerprints import fingerprint_samples
from mmlake.dedup.image.fingerprints import fingerprint
from mmlake.dedup.kept import join
from tests.dedup.test_dedup_audio import voice
from tests.dedup.test_dedup_image import coded, detailed
from tests.thorough import drawn

SETTINGS = DedupSettings()
CRITERIA = (Criterion(name="quality", column="quality", says="better", tolerance=0.0), CLOSENESS)


@functools.cache
def pictures():
    found = []
    for seed in range(7):
        one = detailed(seed)
        found += [
            coded(one),
            coded(one, quality=40),
            coded(one.resize((200, 200))),
            coded(one.crop((20, 20, 300, 300))),
        ]
    return [fingerprint(data) for data in [*found, found[0]]]


@functools.cache
def recordings():
    rng = np.random.default_rng(0)
    found = []
    for seed in range(6):
        one = voice(seed, 5.0)
        found += [one, one * 0.5, one + rng.normal(0, 0.005, len(one)).astype(np.float32), one[16_000:]]
    return [fingerprint_samples(one) for one in [*found, found[0]]]


@functools.cache
def films():
    found = []
    for seed in range(4):
        one = scene(seed, 5.0)
        found += [one, part(one, 0.0, 0.9), part(one, 0.4, 0.7), one[:, :, ::-1]]
    return [prints_of(one) for one in [*found, found[0]]]


MADE = {"image": pictures, "audio": recordings, "video": films}


def fingerprints(modality, prints):
    (tier,) = dedup.tiers_of(modality)
    rows = [
        {"digest": digest, "method": method, "hashes": one.get(method, np.empty(0, np.uint64)), "times_s": []}
        | {"status": "ok"}
        for digest, one in prints.items()
        for method in tier.methods
    ]
    return schemas.from_rows(schemas.FINGERPRINTS, rows)


def nodes(digests, rng):
    num = len(digests)
    return pa.table(
        {
            "digest": pa.array(digests, pa.string()),
            "parent_digest": pa.array([f"item-{at}" for at in rng.integers(0, num, num)], pa.string()),
            "priority": pa.array(rng.integers(0, 2, num)),
            "is_clean": pa.array(rng.random(num) < 0.8),
            "quality": pa.array(rng.integers(0, 3, num).astype(float)),
        }
    )


@pytest.mark.parametrize("modality", MADE)
@pytest.mark.parametrize("with_nodes", [True, False])
def test_what_comes_and_goes_in_any_split_gives_the_pairs_of_a_whole_join(tmp_path, modality, with_nodes):
    made = MADE[modality]()
    names = [hashlib.sha256(f"{modality} {at}".encode()).hexdigest() for at in range(len(made))]
    rng, found = np.random.default_rng(1), dedup.tiers_of(modality)
    places = nodes(names, rng)
    for turn in range(num_turns := drawn(3, 6)):
        chosen = rng.permutation(len(made))[: rng.integers(len(made) // 2, len(made) + 1)]
        if turn == num_turns - 2 and with_nodes:  # better copies than before, by another list of measures
            places = nodes(names, rng)
        table = fingerprints(modality, {names[at]: made[at] for at in chosen.tolist()})
        how = {"settings": SETTINGS, "criteria": CRITERIA, "nodes": places} if with_nodes else {"settings": SETTINGS}
        again = dedup.near_pairs(table, found, kept=KeptJoins(tmp_path, "one"), **how)
        assert again.equals(dedup.near_pairs(table, found, **how))
        assert again.num_rows


def asked(monkeypatch, table, folder, made_with="one"):
    """How many comparisons the matcher was asked for."""
    seen = []

    class Counted(join.Remembered):
        def known(self):
            seen.append(self.num_asked)
            return super().known()

    monkeypatch.setattr(join, "Remembered", Counted)
    pairs = dedup.near_pairs(table, dedup.tiers_of("image"), settings=SETTINGS, kept=KeptJoins(folder, made_with))
    assert pairs.equals(dedup.near_pairs(table, dedup.tiers_of("image"), settings=SETTINGS))
    return seen[0]


@pytest.fixture
def table():
    return fingerprints("image", {f"{at:02d}": one for at, one in enumerate(pictures())})


def test_what_is_kept_is_not_compared_again(tmp_path, monkeypatch, table):
    few = table.filter(pa.compute.not_equal(table["digest"], "05"))
    first = asked(monkeypatch, few, tmp_path)
    assert 0 < asked(monkeypatch, table, tmp_path) < first / 3
    assert asked(monkeypatch, table, tmp_path) == 0


@pytest.mark.parametrize("damage", ["gone", "cut", "flipped", "no header", "settings"])
def test_a_file_that_is_missing_damaged_or_of_other_settings_is_no_join(tmp_path, monkeypatch, table, damage):
    table = table.slice(0, 12)
    first = asked(monkeypatch, table, tmp_path)
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[len(data) // 2] ^= 1
    path.write_bytes({"cut": data[:-9], "no header": data[9:]}.get(damage, data))
    if damage == "gone":
        path.unlink()
    assert asked(monkeypatch, table, tmp_path, "other" if damage == "settings" else "one") == first
    assert asked(monkeypatch, table, tmp_path, "other" if damage == "settings" else "one") == 0


def test_other_prints_of_a_digest_are_compared_again(tmp_path, monkeypatch, table):
    asked(monkeypatch, table, tmp_path)
    made = pictures()
    other = fingerprints("image", {f"{at:02d}": made[12 if at == 5 else at] for at in range(len(made))})
    assert asked(monkeypatch, other, tmp_path) > 0


def test_every_tier_goes_on_from_the_join_before():
    assert [tier.modality for tier in dedup.TIERS if tier.by_parts is not None] == ["text"]
    assert all(tier.is_pairwise != (tier.by_parts is not None) for tier in dedup.TIERS)
