"""A lake on a data set of the hub: the same revision from the scan to the published version, and only the bytes that
it needs."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hub_server import NAME, TOKEN, Hub

from mmlake.errors import RemoteUnavailable
from mmlake.item_provenance import story_of
from mmlake.lake import Lake
from mmlake.landing import HubLanding
from mmlake.pipeline import refresh, run_tables
from mmlake.progress import silent
from mmlake.publish import update_catalog, update_samples, version_outputs
from mmlake.remote.backoff import Retries
from mmlake.remote.settings import RemoteSettings
from mmlake.sources import SourceSettings, ingest, read, scan
from mmlake.sources.excerpt import scan_first
from mmlake.steps import ROW_STEPS, run_step
from mmlake.store import BlobStore
from mmlake.tables import Slot
from tests import make

ADDRESS = f"hf://datasets/{NAME}"
SETTINGS = SourceSettings()
CARD = b"---\nlicense: odc-by\n---\n# FineWeb-Edu, in small\n"
SHARD = "data/CC-MAIN-2024-10/000_00000.parquet"


def pages(count: int, *, start: int = 0, group_rows: int = 50, width: int = 0) -> bytes:
    """A Parquet file with the columns of FineWeb-Edu; width: bytes of text that no codec makes smaller."""
    rng = np.random.default_rng(start)
    numbers = range(start, start + count)
    table = pa.table(
        {
            "text": [make.prose(number) + rng.bytes(width // 2).hex() for number in numbers],
            "id": [f"<urn:uuid:{number:08d}>" for number in numbers],
            "dump": ["CC-MAIN-2024-10"] * count,
            "url": [f"https://example.org/{number}" for number in numbers],
            "file_path": ["s3://commoncrawl/x.warc.gz"] * count,
            "language": ["en"] * count,
            "language_score": [0.98] * count,
            "token_count": pa.array([40] * count, pa.int64()),
            "score": [2.75] * count,
            "int_score": pa.array([3] * count, pa.int64()),
        }
    )
    pq.write_table(table, sink := io.BytesIO(), row_group_size=group_rows)
    return sink.getvalue()


def test_a_lake_reads_fineweb_edu_from_the_hub(hub: Hub, tmp_path: Path) -> None:
    sha = hub.commit(
        {"README.md": CARD, SHARD: pages(6), "data/CC-MAIN-2024-18/000_00000.parquet": pages(3, start=100)}
    )
    lake = Lake(tmp_path / "lake", landing=ADDRESS)
    assert [shard.key for shard in refresh(lake).new] == [
        "data/CC-MAIN-2024-10/000_00000.parquet",
        "data/CC-MAIN-2024-18/000_00000.parquet",
    ]
    for key in lake.registry.keys("text"):
        run_step(ROW_STEPS["items"], lake, "text", key)
    items = lake.tables.concat("items", "text")
    assert items.num_rows == 9
    assert set(items.column("source").to_pylist()) == {NAME} and set(items.column("licence").to_pylist()) == {
        "ODC-By-1.0"
    }
    assert items.column("text_content").to_pylist()[0] == make.prose(0)
    story = story_of(Lake(lake.root), items.column("digest").to_pylist()[0])
    assert f"revision: {sha}" in story.to_text() and story.landing["location"] == f"{ADDRESS}@{sha}"


@pytest.mark.slow
def test_a_version_names_the_revision_and_the_limit_that_it_was_made_from(hub: Hub, tmp_path: Path) -> None:
    """Of images, whose vectors need no model to be loaded."""
    sha = hub.commit({"image/a.tar": make.tar({f"{number}.png": make.picture(number) for number in range(4)})})
    lake = Lake(tmp_path / "lake", landing=ADDRESS, limit=3)
    refresh(lake)
    run_tables(lake)
    update_samples(lake)
    update_catalog(lake)
    made_from = {"location": f"{ADDRESS}@{sha}", "revision": sha, "limit": 3}
    assert version_outputs.manifest(lake, "everything-v001", silent).document["landing"] == made_from
    hub.commit({"image/b.tar": make.tar({"9.png": make.picture(9)})})
    newer = Lake(tmp_path / "lake", landing=ADDRESS)
    newer.pin_landing()
    assert version_outputs.manifest(newer, "everything-v001", silent).document["landing"] == made_from


def test_every_process_of_a_lake_reads_the_revision_that_was_pinned(hub: Hub, tmp_path: Path) -> None:
    first = hub.commit({SHARD: pages(3)})
    refresh(Lake(tmp_path / "lake", landing=ADDRESS))
    second = hub.commit({SHARD: pages(4)})
    assert Lake(tmp_path / "lake").landing.provenance()["revision"] == first
    assert Lake(tmp_path / "lake", landing=ADDRESS).landing.provenance()["revision"] == first
    newer = Lake(tmp_path / "lake", landing=ADDRESS)
    newer.pin_landing()
    assert [shard.key for shard in refresh(newer).changed] == [SHARD]
    assert Lake(tmp_path / "lake", landing=ADDRESS).landing.provenance()["revision"] == second


def test_a_limit_reads_the_footer_and_the_first_row_group_of_one_file(hub: Hub, tmp_path: Path) -> None:
    data = pages(400, group_rows=20, width=20_000)
    hub.commit({f"data/{number}.parquet": data for number in range(5)})
    landing = HubLanding(ADDRESS, remote=RemoteSettings(block_bytes=1 << 16))
    (shard,) = scan_first(landing, 10, settings=SETTINGS)
    table = ingest(shard, "text", landing=landing, store=BlobStore(tmp_path / "blobs"), settings=SETTINGS)
    assert table.num_rows == 10 and set(table.column("status").to_pylist()) == {"ok"}
    assert len(data) > 4 << 20
    footer_bytes = int.from_bytes(data[-8:-4], "little")
    # The first of twenty groups, the footer and the head, each with the rest of its first and last block.
    assert hub.served(".parquet") <= len(data) // 20 + footer_bytes + 5 * (1 << 16)
    assert not hub.asked("data/1.parquet")


def test_a_wrong_hash_of_the_publisher_is_the_one_row_of_its_shard(hub: Hub, tmp_path: Path) -> None:
    hub.commit(
        {
            SHARD: pages(5),
            "image/b.tar": make.tar({"0.png": make.picture(1)}),
            "c.txt": make.prose(1).encode(),
            "d.jsonl": make.jsonl([make.prose(2)]),
        }
    )
    hub.stated = dict.fromkeys((SHARD, "image/b.tar", "c.txt", "d.jsonl"), "0" * 64)
    landing = HubLanding(ADDRESS)
    store = BlobStore(tmp_path / "blobs")
    rows = [
        row
        for shard in scan(landing, settings=SETTINGS)
        for modality in shard.modalities
        for row in ingest(shard, modality, landing=landing, store=store, settings=SETTINGS).to_pylist()
    ]
    assert len(rows) == 4
    assert {(row["status"], row["error_code"]) for row in rows} == {("unreadable", 1010)}
    assert all("publisher states" in row["materialize_error"] for row in rows)


def test_faults_on_the_way_change_no_row(hub: Hub, patient: Retries, waits: list[float]) -> None:
    hub.commit({SHARD: pages(300, width=2000)})

    def texts(landing: HubLanding) -> list[str]:
        (shard,) = scan(landing, settings=SETTINGS)
        return [item.sample_id for item in read(shard, landing=landing, settings=SETTINGS)]

    small = RemoteSettings(block_bytes=1 << 15, ahead_blocks=0)
    expected = texts(HubLanding(ADDRESS, remote=RemoteSettings()))
    hub.faults = [("status", (503, {})), ("cut", 1000), ("status", (429, {"Retry-After": "1"})), ("cut", 0)]
    assert texts(HubLanding(ADDRESS, retries=patient, remote=small)) == expected
    assert len(expected) == 300 and len(waits) == 4


def test_a_hub_that_goes_away_while_a_parquet_file_is_read_is_no_row(hub: Hub, patient: Retries) -> None:
    hub.commit({SHARD: pages(300, width=2000)})
    landing = HubLanding(ADDRESS, retries=patient, remote=RemoteSettings(block_bytes=1 << 15, ahead_blocks=0))
    (shard,) = scan_first(landing, 200, settings=SETTINGS)
    hub.faults = [("status", (503, {}))] * 100
    with pytest.raises(RemoteUnavailable):
        list(read(shard, landing=landing, settings=SETTINGS))


def test_no_table_and_no_file_of_the_lake_holds_the_token(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.gated = True
    hub.commit({"README.md": CARD, SHARD: pages(2)})
    lake = Lake(tmp_path / "lake", landing=ADDRESS)
    refresh(lake)
    run_step(ROW_STEPS["items"], lake, "text", SHARD)
    assert lake.tables.read(Slot("items", "text", SHARD)).num_rows == 2
    files = [path for base in (tmp_path / "lake", tmp_path / "cache") for path in base.rglob("*") if path.is_file()]
    assert files and not [
        path for path in files if TOKEN.encode() in path.read_bytes() or b"Signature" in path.read_bytes()
    ]


def test_the_command_line_takes_address_limit_and_endpoint(hub: Hub, tmp_path: Path) -> None:
    hub.commit({SHARD: pages(6), "data/CC-MAIN-2024-18/000_00000.parquet": pages(3)})
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "mmlake_assets.console", "scan", "--landing", ADDRESS, "--limit", "4", "--json"]
    program = "from mmlake_assets.console import entry; entry()"
    done = subprocess.run(
        [sys.executable, "-c", program, *command[3:]], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [shard["key"] for shard in json.loads(done.stdout)] == [SHARD]
