"""A shard that lands again with other contents."""

from __future__ import annotations

from mmlake import pipeline, publish
from mmlake.lake import Lake
from tests import make


def test_a_shard_that_lost_a_modality_keeps_nothing_of_it(tmp_path) -> None:
    """The caption of the last revision is no part of a sample of this one."""
    for files in ({"0.png": make.picture(1), "0.txt": b"A cat."}, {"0.png": make.picture(2)}):
        make.land(tmp_path / "landing", {"image/a.tar": make.tar(files)})
        lake = Lake(tmp_path / "lake", landing=tmp_path / "landing")
        pipeline.refresh(lake)
        pipeline.run_tables(lake, modalities=["text", "image"])
        publish.update_samples(lake)
    ((_, samples),) = publish.scan_samples(lake)
    assert [[part["role"] for part in sample["parts"]] for sample in samples.to_pylist()] == [["media"]]
    assert lake.tables.shards("items", "text") == [] and lake.tables.shards("verdicts", "text") == []
