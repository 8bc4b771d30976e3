"""The row that `[decode]` chooses decodes the films of a lake, and who decoded them stands in their tracks."""

from __future__ import annotations

from pathlib import Path

from mmlake import pipeline
from mmlake.border import InProcess
from mmlake.compute import Executor
from mmlake.film_decoders import DecodeSettings
from mmlake.film_decoders.streams import stream_slot
from mmlake.lake import Lake
from mmlake.settings import Settings
from mmlake.steps import ROW_STEPS, run_step
from mmlake.tables import Slot
from tests import make


def test_a_film_that_a_busy_gpu_left_to_the_cpu_says_so_in_its_track(tmp_path: Path) -> None:
    """A GPU with other limits decodes nothing again; another decoder does."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "film.mp4").write_bytes(make.film(1))

    def made(**decode: object) -> tuple[list[tuple[object, ...]], bool]:
        settings = Settings.of({"decode": decode})
        with Lake(
            tmp_path / "lake",
            landing=tmp_path / "in",
            settings=settings,
            executor=Executor("cpu"),
            runner=InProcess(),
        ) as lake:
            pipeline.refresh(lake)
            shard = lake.registry.keys("video")[0]
            run_step(ROW_STEPS["items"], lake, "video", shard)
            reused = run_step(ROW_STEPS["tracks"], lake, "video", shard).reused
            rows = lake.tables.read(Slot("tracks", "video", shard)).to_pylist()
        names = ("status", "decoder", "fallback_code", "num_frames")
        return [tuple(row[name] for name in names) for row in rows], reused

    assert made() == ([("ok", "pyav", None, 12)], False)
    busy = {"decoder": "nvdec", "max_streams": 1, "stream_wait_s": 0.0, "slots_dir": str(tmp_path / "slots")}
    with stream_slot("cuda:0", DecodeSettings(**busy)):
        assert made(**busy) == ([("ok", "pyav", 3112, 12)], False)
        assert made(**busy | {"max_streams": 2}) == ([("ok", "pyav", 3112, 12)], True)
