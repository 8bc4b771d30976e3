"""A landing zone on a web server: what its pages list, and that its files are what they were when they were opened,
or none."""

from __future__ import annotations

import base64
import gzip
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
from site_server import PASSWORD, USER, QuietServer, Site, serving_site

from mmlake.errors import RemoteUnavailable, SettingsError, UnreadableItem
from mmlake.landing import Landing, LocalLanding, as_landing
from mmlake.landing.website import WebsiteLanding
from mmlake.remote.backoff import Retries
from mmlake.remote.client import proxy_for
from mmlake.remote.connections import RemoteConnections
from mmlake.remote.directory_pages import links_of
from mmlake.remote.settings import RemoteSettings
from mmlake.remote.spool_file import SpooledFile
from mmlake.remote.website import FileHeaders, Website
from tests import make

SMALL = RemoteSettings(block_bytes=1 << 15, request_blocks=2, ahead_blocks=4)
BIG = np.random.default_rng(0).bytes(400_000)
TREE = {
    "a.txt": b"hello",
    "data/b c+d%.txt": b"one",
    "data/deep/\u00e9.txt": b"two",
    "data/big.bin": BIG,
    "empty.txt": b"",
}


def paths_of(landing: Landing) -> dict[str, list[str]]:
    return {directory: [entry.path for entry in entries] for directory, entries in landing.directories()}


def refusals_of(landing: Landing) -> dict[str, str]:
    return {entry.path: entry.refused for _, entries in landing.directories() for entry in entries if entry.refused}


def opened(site: Site, retries: Retries | None = None, remote: RemoteSettings = SMALL) -> WebsiteLanding:
    return WebsiteLanding(site.url, retries=retries, remote=remote)


@pytest.mark.parametrize("style", ["python", "apache", "nginx"])
def test_directory_pages_list_the_tree_that_is_served(site: Site, style: str) -> None:
    site.files, site.style = TREE, style
    expected = {
        ".": ["a.txt", "empty.txt"],
        "data": ["data/b c+d%.txt", "data/big.bin"],
        "data/deep": ["data/deep/\u00e9.txt"],
    }
    landing = opened(site)
    assert paths_of(landing) == expected
    for path, data in TREE.items():
        entry = landing.stat(path)
        assert entry is not None and entry.size_bytes == len(data)
        with landing.open(path) as file:
            assert file.read() == data


def test_a_name_that_is_no_utf8_is_listed_and_read(site: Site) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    site.files = {name: b"latin"}
    ((_, (entry,)),) = opened(site).directories()
    assert entry.path == "fsencoded:caf%E9.txt"
    assert opened(site).open(entry.path).read() == b"latin"


def test_links_that_lead_elsewhere_are_no_files() -> None:
    page = """<a href="?C=N;O=D">N</a><a href="../">up</a><a href="/">root</a>
    <a href="/databases/x.tar">sibling</a><a href="http://other.example/data/x.tar">x</a>
    <a href="https://host.example/data/x.tar">other scheme</a>
    <a href="http://host.example:81/data/x.tar">port</a>
    <a href="javascript:go()">j</a><a href="mailto:a@b">m</a>
    <a href="#top">t</a><a href="./">self</a><a href="x.tar?download=1">q</a><a href="http://[">no address</a>
    <a>none</a><p>x.zip</p><a href="/data/in.tar">in</a><a href='in.tar#frag'>again</a>"""
    assert [link.parts for link in links_of(page, "http://host.example/data/")] == [("in.tar",)]


@pytest.mark.parametrize("href", ["a/%2e%2e/%2e%2e/etc/passwd", "%2e%2e%2fup.txt", "nul%00.txt", "a//b.txt"])
def test_a_link_to_a_path_that_no_tree_has_is_a_refused_entry(site: Site, href: str) -> None:
    site.files, site.pages = {"ok.txt": b"x"}, {"": f'<html><a href="{href}">x</a><a href="ok.txt">ok</a></html>'}
    landing = opened(site)
    assert len(refusals_of(landing)) == 1
    with pytest.raises(UnreadableItem, match="1007|1001"):
        landing.open(next(iter(refusals_of(landing))))
    assert landing.open("ok.txt").read() == b"x"


def test_what_a_page_links_to_and_the_server_does_not_give_is_a_refused_entry(site: Site) -> None:
    site.files = {"ok.txt": b"x", "no.txt": b"x", "both": b"x", "both/c.txt": b"x"}
    site.pages = {
        "": '<html><a href="gone.txt">g</a><a href="ok.txt">o</a><a href="no.txt">n</a><a href="both">b</a><a '
        'href="both/">b</a><a href="lost/">l</a></html>'
    }
    site.refused = {"no.txt"}
    landing = opened(site)
    reasons = refusals_of(landing)
    assert reasons.pop("gone.txt") == "a link that leads nowhere"
    assert reasons.pop("no.txt") == "the server refuses to give the file (status=403)"
    assert reasons.pop("both") == "a file whose name is also a directory's"
    assert reasons == {"fsencoded:lost": "a directory that cannot be listed: the server answers status=404"}


def test_hidden_files_but_media_unfinished_and_marker_files_are_not_listed(site: Site) -> None:
    site.files = {
        ".git/config": b"x",
        ".hidden": b"x",
        ".hidden.jpg": b"x",
        "a.txt.part": b"x",
        "_SUCCESS": b"",
        "_source.json": b"{}",
        "a.txt": b"x",
    }
    landing = opened(site)
    assert paths_of(landing) == {".": [".hidden.jpg", "a.txt"]}
    assert landing.stat("_source.json") is not None and landing.stat("_provenance.json") is None
    assert not site.asked("_provenance.json", "HEAD")


def test_a_page_may_link_into_a_directory_that_has_none(site: Site) -> None:
    site.files, site.pages = {"deep/in/x.tar": b"x"}, {"": '<html><a href="deep/in/x.tar">x</a></html>'}
    assert paths_of(opened(site)) == {"deep/in": ["deep/in/x.tar"]}


def test_the_address_of_one_file_is_a_landing_zone_of_that_file(site: Site) -> None:
    site.files = TREE
    landing = as_landing(f"{site.url}data/big.bin")
    assert paths_of(landing) == {".": ["big.bin"]} and landing.open("big.bin").read() == BIG
    assert landing.stat("_source.json") is None and landing.stat("b c+d%.txt") is None
    with pytest.raises(UnreadableItem, match="1001"):
        landing.open("a.txt")


def test_a_directory_may_be_named_without_its_slash(site: Site) -> None:
    site.files = TREE
    assert paths_of(as_landing(f"{site.url}data")) == {".": ["b c+d%.txt", "big.bin"], "deep": ["deep/\u00e9.txt"]}


@pytest.mark.parametrize("path", ["nothing/", "nothing.tar", "a.txt/"])
def test_an_address_with_nothing_behind_it_is_a_wrong_setting(site: Site, path: str) -> None:
    site.files = TREE
    with pytest.raises(SettingsError, match="nothing|a.txt"):
        list(as_landing(site.url + path).directories())


def test_a_server_without_end_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.pages = {"a/" * depth: '<html><a href="a/">a</a></html>' for depth in range(40)}
    with pytest.raises(SettingsError, match="32 levels"):
        list(opened(site).directories())
    monkeypatch.setattr("mmlake.landing.website._MAX_LINKS", 3)
    site.files, site.pages = {f"{number}.txt": b"" for number in range(4)}, {}
    with pytest.raises(SettingsError, match="more than 3 links"):
        list(opened(site).directories())


def test_reading_the_head_fetches_the_head(site: Site) -> None:
    site.files = TREE
    with opened(site).sparing().open("data/big.bin") as file:
        assert file.read(1000) == BIG[:1000]
    assert site.served("data/big.bin") <= SMALL.block_bytes * 2


def test_what_was_read_once_is_not_fetched_again(site: Site) -> None:
    site.files = TREE
    assert opened(site).open("data/big.bin").read() == BIG
    before = site.served("data/big.bin")
    assert opened(site).open("data/big.bin").read() == BIG
    assert site.served("data/big.bin") == before


@pytest.mark.parametrize("lacking", ["has_ranges", "has_head", "states_versions"])
def test_a_server_that_lacks_something_gives_the_same_bytes(site: Site, lacking: str) -> None:
    site.files = TREE
    setattr(site, lacking, False)
    landing = opened(site)
    with landing.open("data/big.bin") as file:
        file.seek(-10, os.SEEK_END)
        assert file.read() == BIG[-10:]
        file.seek(100_000)
        assert file.read(10) == BIG[100_000:100_010]
    assert landing.open("data/b c+d%.txt").read() == b"one"


def test_without_ranges_only_the_first_file_is_asked_for_one(site: Site) -> None:
    site.files, site.has_ranges = {"a.bin": BIG, "b.bin": BIG}, False
    landing = opened(site)
    assert landing.open("a.bin").read() == landing.open("b.bin").read() == BIG
    assert ["range" in one.headers for one in site.asked("a.bin")] == [True, False] and [
        "range" in one.headers for one in site.asked("b.bin")
    ] == [False]


def test_without_ranges_a_file_above_the_bound_is_refused_unread(site: Site) -> None:
    site.files, site.has_ranges = TREE, False
    remote = RemoteSettings(block_bytes=1 << 15, spool_bytes=100_000, ahead_blocks=0)
    with pytest.raises(UnreadableItem, match=r"size_bytes=400000 not in \[0, 100000\]"):
        opened(site, remote=remote).open("data/big.bin").read()


@pytest.mark.parametrize("way", ["is_chunked", "is_gzipped"])
def test_a_file_whose_length_is_not_stated_is_measured(site: Site, way: str) -> None:
    site.files = {"a.bin": BIG, "same.txt": b"x" * 300_000}
    setattr(site, way, True)
    landing = opened(site)
    ((_, entries),) = landing.directories()
    assert [entry.size_bytes for entry in entries] == [400_000, 300_000]
    assert landing.open("a.bin").read() == BIG and landing.open("same.txt").read() == b"x" * 300_000
    assert opened(site, remote=RemoteSettings(spool_bytes=350_000)).stat("a.bin").refused is not None


def test_a_file_of_unstated_length_and_version_is_recognised_by_its_content(site: Site) -> None:
    site.files, site.is_chunked, site.states_versions = {"a.bin": b"one"}, True, False
    before = opened(site).stat("a.bin")
    site.files["a.bin"] = b"two"
    assert before.version != opened(site).stat("a.bin").version


def test_a_stored_gzip_file_that_apache_calls_encoded_is_read_as_it_is(site: Site) -> None:
    packed = gzip.compress(BIG[:1000], mtime=0)
    site.files = {"a.tar.gz": packed}
    site.own_headers = {"Content-Encoding": "gzip"}
    assert opened(site).open("a.tar.gz").read() == packed
    site.has_ranges = False
    assert opened(site).open("a.tar.gz").read() == packed


def test_faults_on_the_way_change_no_byte(site: Site, patient: Retries, waits: list[float]) -> None:
    site.files = TREE
    site.faults = [
        ("status", (503, {})),
        ("cut", 1000),
        ("status", (429, {"Retry-After": "7"})),
        ("cut", 0),
        ("cut", 20_000),
    ]
    remote = RemoteSettings(block_bytes=1 << 17, ahead_blocks=0)
    assert opened(site, patient, remote).open("data/big.bin").read() == BIG
    assert len(waits) == 5 and max(waits) >= 7
    # a body that broke goes on where it broke
    assert site.served("data/big.bin") <= len(BIG) + 21_000 + 2 * len(b"try later")


def test_faults_without_ranges_change_no_byte(site: Site, patient: Retries, waits: list[float]) -> None:
    site.files, site.has_ranges = TREE, False
    landing = opened(site, patient)
    landing._rangeless.add(None)
    site.faults = [("cut", 300_000), ("status", (503, {})), ("cut", 100_000)]
    assert landing.open("data/big.bin").read() == BIG and len(waits) == 3


def test_an_outage_stops_and_is_no_row(site: Site, patient: Retries) -> None:
    site.files, site.faults = TREE, [("status", (503, {}))] * 20
    with pytest.raises(RemoteUnavailable, match=r"GET http://127.0.0.1:\d+/a.txt: 6 tries"):
        opened(site, patient).open("a.txt").read()


@dataclass
class _Change:
    """Replaces a file of the site before its second body is sent."""

    site: Site
    data: bytes
    left: int = 1

    def __call__(self) -> None:
        if self.left == 0:
            self.site.files = {"a.bin": self.data}
        self.left -= 1


@pytest.mark.parametrize("data", [BIG[::-1], BIG[:-1], BIG[:1000], BIG + b"x"])
def test_a_file_that_changes_while_it_is_read_is_never_mixed(site: Site, data: bytes) -> None:
    site.files = {"a.bin": BIG}
    remote = RemoteSettings(block_bytes=1 << 15, ahead_blocks=0)
    with opened(site, remote=remote).open("a.bin") as file:
        site.before_file = _Change(site, data)
        with pytest.raises(UnreadableItem, match="changed while it was read"):
            file.read()


def test_a_file_that_changes_before_its_body_is_asked_for_again_is_never_mixed(site: Site) -> None:
    site.files, site.states_versions = {"a.bin": BIG}, False
    website = Website(site.url, settings=SMALL, connections=RemoteConnections())
    with SpooledFile(
        website, f"{site.url}a.bin", FileHeaders(len(BIG), "", ""), size_bytes=len(BIG), settings=SMALL
    ) as file:
        assert file.read(100_000) == BIG[:100_000]
        file._stop()  # as where the connection breaks
        site.files = {"a.bin": BIG[::-1]}
        with pytest.raises(UnreadableItem, match="its beginning is another one"):
            file.readall()


def test_a_changed_file_has_another_version(site: Site) -> None:
    site.files = {"a.txt": b"one"}
    before = opened(site).stat("a.txt")
    site.files = {"a.txt": b"two"}
    assert before.version != opened(site).stat("a.txt").version


@pytest.mark.parametrize("way", ["address", "netrc", "settings", "environment"])
def test_a_login_opens_the_site_and_is_reported_nowhere(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    caplog.set_level("DEBUG")
    site.files, site.login = TREE, (USER, PASSWORD)
    address, remote = site.url, SMALL
    if way == "address":
        address = site.url.replace("//", f"//{USER}:{PASSWORD}@")
    elif way == "netrc":
        (tmp_path / "no-netrc").write_text(f"machine 127.0.0.1 login {USER} password {PASSWORD}\n")
    elif way == "settings":
        monkeypatch.setenv("SITE_PASSWORD", PASSWORD)
        remote = RemoteSettings(storage_options={site.url: {"username": USER, "password": "env:SITE_PASSWORD"}})
    else:
        monkeypatch.setenv(
            "MMLAKE_STORAGE_OPTIONS", f'{{"{site.url}": {{"username": "{USER}", "password": "{PASSWORD}"}}}}'
        )
    landing = as_landing(address, remote=remote)
    assert landing.open("data/big.bin").read() == BIG and len(paths_of(landing)) == 3
    assert landing.location == site.url and landing.provenance() == {"location": site.url}
    site.login = (USER, "another")
    with pytest.raises(RemoteUnavailable, match="wants a login") as raised:
        landing.open("a.txt")
    output = f"{raised.value!r} {raised.getrepr(style='long')} {caplog.text} {remote!r}"
    assert (
        PASSWORD not in output.replace("environment", "")
        or way == "environment"
        and PASSWORD not in f"{raised.value!r} {caplog.text}"
    )
    assert not [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and PASSWORD.encode() in path.read_bytes() and path.name != "no-netrc"
    ]


def test_two_places_of_one_host_have_each_their_login(site: Site) -> None:
    first, second = (site.url.replace("//", f"//{user}:pw@") for user in ("ann", "bob"))
    landing = as_landing({"a": f"{first}one/", "b": f"{second}two/"})
    site.files = {"one/a.bin": b"a", "two/b.bin": b"b"}
    assert (landing.open("a/a.bin").read(), landing.open("b/b.bin").read()) == (b"a", b"b")
    users = {
        one.path: base64.b64decode(one.headers["authorization"].removeprefix("Basic ")).decode() for one in site.seen
    }
    assert users == {"/one/a.bin": "ann:pw", "/two/b.bin": "bob:pw"}


def test_a_redirect_is_followed_and_the_login_does_not_go_along(site: Site) -> None:
    with serving_site() as other:
        other.files = {"cdn/big.bin": BIG}
        site.login, site.redirects = (USER, PASSWORD), {"/big.bin": f"{other.url}cdn/big.bin"}
        site.pages = {"": '<html><a href="big.bin">b</a></html>'}
        landing = as_landing(site.url.replace("//", f"//{USER}:{PASSWORD}@"))
        assert landing.open("big.bin").read() == BIG
        assert other.seen and not [one for one in other.seen if "authorization" in one.headers]


@pytest.mark.parametrize("target", ["ftp://127.0.0.1/x", "http://", "file:///etc/passwd", "/loop.bin"])
def test_a_redirect_to_no_web_address_is_a_row(site: Site, target: str) -> None:
    site.redirects = {"/loop.bin": target}
    with pytest.raises(UnreadableItem, match="1001"):
        opened(site).open("loop.bin")


def test_a_page_that_redirects_to_another_host_is_none(site: Site) -> None:
    site.redirects = {"/data/": "http://other.example/data/"}
    with pytest.raises(SettingsError, match="redirects it to http://other.example/data/"):
        list(as_landing(f"{site.url}data/").directories())


@pytest.mark.parametrize(
    "address",
    ["https://", "http://:80/x", "https://user:sec ret@host name/", "https://user:secret@host:port/",
     "https://user:se/cret@host/", "https://host/a?token=secret", "https://host/a#secret",
     "https://host/a/../b/", "https://host/a//b", "https://host/%2e%2e/"],
)  # fmt: skip
def test_a_wrong_address_is_a_wrong_setting_and_not_repeated(address: str) -> None:
    with pytest.raises(SettingsError, match="expected") as raised:
        as_landing(address)
    assert "secret" not in str(raised.value) and "se/cret" not in str(raised.value)


def test_options_of_a_scheme_alone_are_refused_for_the_web(site: Site) -> None:
    with pytest.raises(SettingsError, match="every host"):
        WebsiteLanding(
            site.url, remote=RemoteSettings(storage_options={"http": {"headers": {"Authorization": "env:X"}}})
        )
    with pytest.raises(SettingsError, match="username"):
        WebsiteLanding(site.url, remote=RemoteSettings(storage_options={site.url: {"client_kwargs": {}}}))


def test_an_uncertain_page_is_asked_for_again(site: Site, patient: Retries) -> None:
    site.files = TREE
    site.page_faults = [("status", (503, {})), ("cut", 20)]
    assert len(paths_of(opened(site, patient))) == 3


def test_a_proxy_of_the_environment_is_used_without_its_login_in_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://ann:se%2Fcret@proxy.example:3128")
    assert proxy_for("https://host.example/x") == {
        "proxy": "http://proxy.example:3128",
        "proxy_headers": {"Proxy-Authorization": "Basic " + base64.b64encode(b"ann:se/cret").decode()},
    }
    monkeypatch.setenv("no_proxy", "host.example")
    assert proxy_for("https://host.example/x") == {}


def test_many_readers_at_once_get_their_own_bytes(site: Site) -> None:
    site.files = {f"{number}.bin": np.random.default_rng(number).bytes(200_000) for number in range(12)}
    landing = opened(site)
    with ThreadPoolExecutor(12) as pool:
        read = list(pool.map(lambda name: landing.open(name).read(), site.files))
    assert read == list(site.files.values())


def test_pythons_own_file_server_is_a_landing_zone(site: Site, tmp_path: Path) -> None:
    make.land(tmp_path / "in", TREE | {"odd/a&b;'\"<>?#.txt": b"odd"})
    handler = type("_Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *args: None})
    server = QuietServer(("127.0.0.1", 0), partial(handler, directory=str(tmp_path / "in")))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True)
    thread.start()
    try:
        here, there = (
            LocalLanding(tmp_path / "in"),
            WebsiteLanding(f"http://127.0.0.1:{server.server_port}/", remote=SMALL),
        )
        assert paths_of(there) == paths_of(here)
        for path in (path for paths in paths_of(here).values() for path in paths):
            with there.open(path) as came, here.open(path) as lies:
                assert came.read() == lies.read()
            assert (there.stat(path).size_bytes, there.stat(path).modified_ns) == (
                here.stat(path).size_bytes,
                here.stat(path).modified_ns // 10**9 * 10**9,
            )
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
