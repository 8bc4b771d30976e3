"""Copies of data sets of the hub on the local disk: downloaded ones are landing zones, the library's own cache is
none."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.landing import LocalLanding
from mmlake.pipeline import refresh
from mmlake.sources import SourceSettings, scan
from tests import make

COMMIT = "a" * 40


def cached(root: Path) -> Path:
    """The snapshot directory of a data set in the cache, its files being links as huggingface_hub makes them."""
    data = make.jsonl([make.prose(1)])
    base = root / "hub" / "datasets--acme--my--corpus"
    make.land(base, {f"blobs/{hashlib.sha256(data).hexdigest()}": data, "refs/main": COMMIT.encode()})
    snapshot = base / "snapshots" / COMMIT
    (snapshot / "data").mkdir(parents=True)
    (snapshot / "data" / "a.jsonl").symlink_to(f"../../../blobs/{hashlib.sha256(data).hexdigest()}")
    return snapshot


@pytest.mark.parametrize("above", range(4))
def test_the_cache_of_the_library_names_the_command_that_makes_a_copy(tmp_path: Path, above: int) -> None:
    snapshot = cached(tmp_path)
    landing = [snapshot, *snapshot.parents][above]
    with pytest.raises(
        SettingsError, match=f"hf download --repo-type dataset acme/my--corpus --revision {COMMIT} --local-dir DIR"
    ):
        refresh(Lake(tmp_path / "lake", landing=landing))


def test_other_links_out_of_a_landing_zone_are_refused_files_as_before(tmp_path: Path) -> None:
    make.land(tmp_path, {"blobs/" + "b" * 64: b"x", "landing/a.txt": b"a"})
    (tmp_path / "landing" / "b.txt").symlink_to("../blobs/" + "b" * 64)
    ((_, (_, link)),) = LocalLanding(tmp_path / "landing").directories()
    assert link.refused is not None


def test_what_hf_download_and_git_write_next_to_the_files_is_not_read(tmp_path: Path) -> None:
    files = {
        "data/a.jsonl": make.jsonl([make.prose(1)]),
        ".cache/huggingface/download/data/a.jsonl.metadata": b"x\ny\n1.0\n",
        ".git/config": b"[core]",
        ".gitattributes": b"*",
    }
    assert [shard.key for shard in scan(make.land(tmp_path, files), settings=SourceSettings())] == ["data/a.jsonl"]
