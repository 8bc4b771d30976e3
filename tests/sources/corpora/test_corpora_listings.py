"""What a file that describes others lists of its landing zone, where each listing is a request."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import fsspec
import pytest

from mmlake import sources
from mmlake.landing import Mounts, as_landing
from tests.sources.source_builders import SETTINGS, png

MANIFEST = json.dumps([{"image": name, "caption": f"A {name}"} for name in ("a.png", "deep/b.png", "gone.png")])
FILES = {
    "/in/one/list.json": MANIFEST.encode(),
    "/in/one/a.png": png(1),
    "/in/one/deep/b.png": png(2),
    "/in/two/c.png": png(3),
    "/in/two/deep/d.png": png(4),
    "/in/z.txt": b"words",
}


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The directories of a storage in this process's memory as they are listed."""
    files: Any = fsspec.filesystem("memory")
    monkeypatch.setattr(type(files), "store", {})
    monkeypatch.setattr(type(files), "pseudo_dirs", [""])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files.pipe(FILES)
    asked, ls = list[str](), type(files).ls

    def noted(self: Any, path: str, *args: Any, **kwargs: Any) -> Any:
        asked.append(str(path).strip("/"))
        return ls(self, path, *args, **kwargs)

    monkeypatch.setattr(type(files), "ls", noted)
    return asked


def _rows(shard: sources.Shard, landing: Any) -> list[tuple[str, str]]:
    found = sources.read(shard, landing=landing, settings=SETTINGS)
    return [(item.ref.member or "", item.fault.reason if item.fault else "") for item in found]


@pytest.mark.parametrize("is_mounted", [False, True])
def test_a_manifest_with_a_missing_file_lists_its_own_directory_and_those_below(
    listed: list[str], is_mounted: bool
) -> None:
    landing = as_landing("memory://in")
    zone = Mounts({"name": landing}) if is_mounted else landing
    (shard,) = (one for one in sources.scan(zone, settings=SETTINGS) if one.path.endswith("list.json"))
    listed.clear()
    ((member, reason),) = _rows(shard, zone)
    assert member == "row:3#" and "gone.png is missing" in reason
    assert {"in/one", "in/one/deep"} <= set(listed) <= {"in", "in/one", "in/one/deep"}
    # once for the files that it names, once for archives in which the missing one may be
    assert max(map(listed.count, listed)) <= 2


def test_a_scan_lists_each_directory_once_and_asks_for_none_that_is_not_there(listed: list[str]) -> None:
    """What may lie next to media is sought in `annotations`, `etc`, `lists` and dozens more."""
    landing = as_landing("memory://in")
    shards = list(sources.scan(landing, settings=SETTINGS))
    assert sorted(listed) == ["in", "in/one", "in/one/deep", "in/two", "in/two/deep"]
    for path in FILES:  # a directory that came after it
        (files := fsspec.filesystem("memory")).pipe(path.replace("/one/", "/etc/"), FILES[path])
    assert files.exists("/in/etc/list.json") and landing.files("etc") == []
    assert {one.path for one in sources.scan(landing, settings=SETTINGS)} > {one.path for one in shards}


@pytest.mark.parametrize("directory", ["one", "one/deep", "two", "two/deep", ".", "three", "../in"])
def test_directories_below_one_are_those_of_all_that_lie_in_it(
    listed: list[str], tmp_path: Path, directory: str
) -> None:
    for path, data in FILES.items():
        (tmp_path / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path[1:]).write_bytes(data)
    for landing in (as_landing("memory://in"), as_landing(tmp_path / "in")):
        expected = [
            one for one in landing.directories() if directory == "." or f"{one[0]}/".startswith(f"{directory}/")
        ]
        assert list(landing.directories_below(directory)) == expected
        zones = Mounts({"x": landing, "y": landing})
        at = "x" if directory == "." else f"x/{directory}"
        assert [one for one, _ in zones.directories_below(at)] == [
            "x" if one == "." else f"x/{one}" for one, _ in expected
        ]
    assert list(zones.directories_below(".")) == list(zones.directories())


def test_a_directory_that_goes_while_it_is_walked_does_not_end_the_walk_in_silence(tmp_path: Path) -> None:
    """As of the whole landing zone: what is not listed would count as missing."""
    for name in ("a", "b"):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "x.txt").write_bytes(b"x")
    found = as_landing(tmp_path).directories_below("in")
    assert next(found)[0] == "in/a"
    shutil.rmtree(tmp_path / "in" / "b")
    with pytest.raises(FileNotFoundError):
        next(found)
