"""The shards of a version are held against the films that they were cut from: a planted reading offset is found."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from mmlake import pipeline
from mmlake.bench.av.clock_films import clicks, gray_film
from mmlake.cli.app import app
from mmlake.cuts import cache
from mmlake.lake import Lake
from mmlake.publish import VERSION_STEPS, run_version_step, update_catalog, update_samples
from mmlake.publish.shard_clock import check_clock
from mmlake.settings import Settings

CUT_SOON = {"units": {"whole_up_to_s": 6.0, "min_span_s": 2.0, "target_span_s": 4.0, "max_span_s": 8.0}}
VERSION = "everything-v001"


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    base, rng = tmp_path_factory.mktemp("clock"), np.random.default_rng(4)
    (base / "in" / "films").mkdir(parents=True)
    ground = np.kron(rng.uniform(0, 255, (9, 16)), np.ones((8, 8)))
    pictures = [np.roll(ground, number, axis=1).astype(np.uint8) for number in range(400)]
    sound = clicks(np.sort(rng.uniform(0, 16, 60)), 16.0, rng)
    gray_film(base / "in" / "films" / "a.mp4", pictures, np.arange(400) / 25, sound)
    with Lake(base / "lake", landing=base / "in", settings=Settings.of(CUT_SOON)) as lake:
        pipeline.refresh(lake)
        pipeline.run_tables(lake)
        update_samples(lake)
        update_catalog(lake)
        for step in ("manifest", "training_shards"):
            run_version_step(VERSION_STEPS[step], lake, VERSION)
        lake.remember_landing()
        yield lake


def test_a_reading_offset_that_adds_up_is_found_by_verify_and_named(lake, monkeypatch) -> None:
    found = check_clock(lake, VERSION)
    assert found.num_cuts >= 3 and found.num_lags >= 3 * found.num_cuts
    assert found.problems == [] and found.worst_s <= 0.001

    honest, starts_us = cache.cut_sound, []

    def drifting(track, out, span, **given):
        """A double of the cutter that begins 30 ms earlier with each cut."""
        starts_us.append(span.start_us)
        early_us = 30_000 * (len(set(starts_us)) - 1)
        shifted = replace(span, start_us=span.start_us - early_us, end_us=span.end_us - early_us)
        return honest(track, out, shifted, **given)

    monkeypatch.setattr(cache, "cut_sound", drifting)
    shutil.rmtree(lake.cuts.directory)
    shutil.rmtree(lake.shards_dir)
    run_version_step(VERSION_STEPS["training_shards"], lake, VERSION)
    (problem,) = check_clock(lake, VERSION).problems
    assert "sound: " in problem and "growing by +0.0300 s with each cut" in problem
    answer = CliRunner().invoke(app, ["verify", VERSION, "--lake", str(lake.root), "--clock", "8"])
    assert answer.exit_code == 5 and "growing by" in answer.stdout
