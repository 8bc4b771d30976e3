"""Zips in remote storage: read by ranges, directory first, and no further than what is asked for."""

from __future__ import annotations

import random

import pytest
from site_server import Site

from mmlake import sources
from mmlake.landing.website import WebsiteLanding
from mmlake.records import SourceRef
from mmlake.remote.settings import RemoteSettings
from tests import make
from tests.hostile.memory import rows_of
from tests.hostile.seeds import zipped
from tests.sources.corpora.builders import coco

SMALL = RemoteSettings(block_bytes=1 << 14, cache_bytes=1 << 25, ahead_blocks=0)


def pictures() -> dict[str, bytes]:
    """Members of 2 MB, of which few bytes give the type."""
    return {f"{at}.jpg": b"\xff\xd8\xff\xe0" + random.Random(at).randbytes(2_000_000) for at in range(4)} | {
        "last.txt": b"words"
    }


@pytest.mark.parametrize("method", [0, 8])
def test_a_zip_is_scanned_and_a_member_fetched_by_ranges(site: Site, method: int) -> None:
    site.files = {"s.zip": zipped(pictures(), method)}
    landing = WebsiteLanding(site.url, remote=SMALL)
    (shard,) = sources.scan(landing, settings=sources.SourceSettings())
    assert (shard.format, shard.modalities) == ("zip", ("text", "image"))
    assert sources.fetch(SourceRef("s.zip", "last.txt"), landing=landing) == b"words"
    assert site.served("s.zip") < len(site.files["s.zip"]) // 4


def test_coco_in_zips_gives_the_rows_of_the_directory(site: Site, tmp_path) -> None:
    files = {name.removeprefix("coco/"): data for name, data in coco(split="val2017").items()}
    split = {kind: {name: data for name, data in files.items() if name.endswith(kind)} for kind in (".json", ".jpg")}
    packed = {"coco/annotations_trainval2017.zip": zipped(split[".json"]), "coco/val2017.zip": zipped(split[".jpg"], 0)}
    site.files = packed
    assert rows_of(WebsiteLanding(site.url, remote=SMALL)) == rows_of(make.land(tmp_path / "in", packed))
