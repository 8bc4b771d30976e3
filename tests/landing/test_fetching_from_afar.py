"""Items read again from remote storage: several requests on the way at once, never too many, with the same outcome
as one after another."""

from __future__ import annotations

import io
import tarfile
import threading
import time
from dataclasses import replace

import pytest
from hub_server import Hub
from site_server import Site

from mmlake import sources
from mmlake.errors import Fault
from mmlake.landing import Landing, as_landing
from mmlake.landing.website import WebsiteLanding
from mmlake.records import SourceRef
from mmlake.remote.backoff import Retries
from mmlake.remote.settings import RemoteSettings

SMALL = RemoteSettings(
    block_bytes=1 << 13, cache_bytes=1 << 24, ahead_blocks=0, request_blocks=4, threads=3, connections=8
)


class Crowd:
    """How many bodies a site sends at once."""

    def __init__(self, site: Site) -> None:
        self.lock, self.now, self.most = threading.Lock(), 0, 0
        site.before_file = self.enter

    def enter(self) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.02)
        with self.lock:
            self.now -= 1


def member(at: int) -> bytes:
    return f"{at:05d}".encode() * 2000  # 10,000 bytes


def archive(num_members: int) -> tuple[bytes, list[SourceRef]]:
    """(a tar of text members that lie far apart, the locators of the texts)."""
    out, refs = io.BytesIO(), []
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as file:
        for at in range(num_members):
            for name, data in ((f"{at}.txt", member(at)), (f"{at}.bin", bytes(200_000))):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                if name.endswith(".txt"):
                    refs.append(SourceRef("s.tar", name, out.tell() + 512, len(data)))
                file.addfile(info, io.BytesIO(data))
    return out.getvalue(), refs


def test_many_files_are_asked_for_at_once_and_come_in_their_order(site: Site) -> None:
    site.files = {f"{at}.txt": member(at) for at in range(40)}
    crowd = Crowd(site)
    found = list(
        sources.fetch_many([SourceRef(f"{at}.txt") for at in range(40)], landing=WebsiteLanding(site.url, remote=SMALL))
    )
    assert found == [(at, member(at)) for at in range(40)]
    assert 3 <= crowd.most <= SMALL.connections


def test_far_ranges_of_one_file_are_asked_for_at_once(site: Site) -> None:
    site.files["s.tar"], refs = archive(30)
    crowd = Crowd(site)
    found = dict(sources.fetch_many(refs[::-1], landing=WebsiteLanding(site.url, remote=SMALL)))
    assert [found[29 - at] for at in range(30)] == [member(at) for at in range(30)]
    assert 2 <= crowd.most <= SMALL.threads + 1
    assert site.served("s.tar") < len(site.files["s.tar"]) // 6


def test_no_byte_is_asked_for_twice(site: Site) -> None:
    site.files["s.tar"], refs = archive(10)
    landing = WebsiteLanding(site.url, remote=SMALL)
    list(sources.fetch_many(refs, landing=landing))
    ranges = [one.headers["range"] for one in site.asked("s.tar")]
    assert len(set(ranges)) == len(ranges)
    assert not dict(sources.fetch_many(refs, landing=landing)).keys() ^ set(range(10)) and len(
        site.asked("s.tar")
    ) == len(ranges)


def test_a_file_that_fails_is_a_fault_of_its_own(site: Site, patient: Retries) -> None:
    site.files = {f"{at}.txt": member(at) for at in range(12)}
    site.refused = {"3.txt"}
    refs = [SourceRef(f"{at}.txt") for at in range(12)] + [SourceRef("gone.txt"), SourceRef("../up.txt")]
    found = dict(sources.fetch_many(refs, landing=WebsiteLanding(site.url, remote=SMALL, retries=patient)))
    assert {at: one.code for at, one in found.items() if isinstance(one, Fault)} == {3: 1001, 12: 1001, 13: 1007}


def test_a_server_without_ranges_gives_the_same(site: Site) -> None:
    site.has_ranges = False
    site.files = {f"{at}.txt": member(at) for at in range(9)}
    site.files["s.tar"], refs = archive(4)
    found = dict(
        sources.fetch_many(
            [*(SourceRef(f"{at}.txt") for at in range(9)), *refs], landing=WebsiteLanding(site.url, remote=SMALL)
        )
    )
    assert [found[at] for at in range(13)] == [*map(member, range(9)), *map(member, range(4))]


def test_the_hub_is_asked_for_several_at_once(hub: Hub) -> None:
    hub.commit({f"{at}.txt": member(at) for at in range(20)})
    landing = as_landing("hf://datasets/acme/corpus", remote=replace(SMALL, connections=4))
    assert landing.num_at_once == 2
    found = dict(sources.fetch_many([SourceRef(f"{at}.txt") for at in range(20)], landing=landing))
    assert [found[at] for at in range(20)] == [member(at) for at in range(20)]


def test_a_reader_that_stops_early_leaves_no_thread_and_no_open_file(site: Site) -> None:
    opened: list[io.BufferedReader] = []
    before = set(threading.enumerate())

    class Noting(WebsiteLanding):
        def open(self, path: str):
            opened.append(super().open(path))
            return opened[-1]

    site.files = {f"{at}.txt": member(at) for at in range(40)}
    seen = sources.fetch_many([SourceRef(f"{at}.txt") for at in range(40)], landing=Noting(site.url, remote=SMALL))
    assert next(seen) == (0, member(0))
    seen.close()
    assert len(opened) <= 1 + SMALL.connections and all(file.closed for file in opened)
    assert not [one for one in set(threading.enumerate()) - before if one.name.startswith("mmlake-ahead")]


def test_a_local_directory_is_read_file_by_file(tmp_path) -> None:
    for at in range(3):
        (tmp_path / f"{at}.txt").write_bytes(member(at))
    assert as_landing(tmp_path).num_at_once == 1
    assert dict(sources.fetch_many([SourceRef(f"{at}.txt") for at in range(3)], landing=tmp_path)) == {
        at: member(at) for at in range(3)
    }


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_every_kind_of_landing_zone_says_how_many() -> None:
    assert (
        Landing.num_at_once == 1
        and as_landing("memory://somewhere", remote=SMALL).num_at_once == SMALL.connections // 2
    )
