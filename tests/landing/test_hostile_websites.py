"""Web servers that answer what no server should: never other bytes, never an error of a library, never an endless
wait."""

from __future__ import annotations

import gzip
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from site_server import QuietServer, Site

from mmlake.errors import RemoteUnavailable, SettingsError, UnreadableItem
from mmlake.landing.website import WebsiteLanding
from mmlake.remote.backoff import Retries
from mmlake.remote.directory_pages import links_of
from mmlake.remote.settings import RemoteSettings

DATA = bytes(range(256)) * 100
SMALL = RemoteSettings(block_bytes=1 << 13, ahead_blocks=0)
PAGE = b'<html><a href="a.bin">a</a><a href="b.bin">b</a></html>'
Answer = Callable[[str, str, tuple[int, int] | None], bytes]  # (method, path, range asked for) -> all that is sent


@pytest.fixture
def raw(site: Site) -> Iterator[Callable[[Answer], str]]:
    """Serves what a function answers, byte by byte; the address of it."""
    servers = []

    def serve(answer: Answer) -> str:
        def respond(self: BaseHTTPRequestHandler) -> None:
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            self.wfile.write(answer(self.command, self.path, (int(asked[1]), int(asked[2]) + 1) if asked else None))

        quiet = {"do_GET": respond, "do_HEAD": respond, "log_message": lambda *args: None}
        servers.append(server := QuietServer(("127.0.0.1", 0), type("_Raw", (BaseHTTPRequestHandler,), quiet)))
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def reply(body: bytes = b"", status: str = "200 OK", *, size: int | None = None, **headers: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Length: {len(body) if size is None else size}",
        "Connection: close",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def sound(method: str, path: str, asked: tuple[int, int] | None, **headers: str) -> bytes:
    """What a good server answers for a file of DATA."""
    if method == "HEAD":
        return reply(size=len(DATA), **headers)
    if asked is None:
        return reply(DATA, **headers)
    start, end = asked[0], min(asked[1], len(DATA))
    return reply(
        DATA[start:end], "206 Partial Content", **{"Content_Range": f"bytes {start}-{end - 1}/{len(DATA)}", **headers}
    )


def but_ranges(answer: bytes) -> Answer:
    return lambda method, path, asked: answer if asked else sound(method, path, asked)


def but_bodies(answer: bytes) -> Answer:
    return lambda method, path, asked: sound(method, path, asked) if method == "HEAD" else answer


def read(url: str, patient: Retries) -> bytes:
    with WebsiteLanding(url, retries=patient, remote=SMALL).open("a.bin") as file:
        return file.read()


@pytest.mark.parametrize(
    "answer",
    [
        lambda method, path, asked: sound(method, path, asked, Content_Range=f"bytes 5-{len(DATA) + 4}/{len(DATA)}"),
        but_ranges(reply(DATA[1:], "206 P", Content_Range=f"bytes 1-{len(DATA) - 1}/{len(DATA)}")),
        but_ranges(reply(DATA, "206 P")),
        but_ranges(reply(b"--x\r\n" + DATA, "206 P", Content_Type="multipart/byteranges; boundary=x")),
        but_ranges(
            reply(
                gzip.compress(DATA),
                "206 P",
                Content_Encoding="gzip",
                Content_Range=f"bytes 0-{len(DATA) - 1}/{len(DATA)}",
            )
        ),
        lambda method, path, asked: b"HTTP/1.0 200 OK\r\n\r\n" + (DATA if method == "GET" else b""),
        lambda method, path, asked: sound(method, path, asked, ETag='"\xff\xe9"'),
    ],
    ids=["shifted", "shifted-body", "no-content-range", "multipart", "gzip-in-range", "http-1.0", "etag-of-any-bytes"],
)
def test_an_odd_answer_gives_the_same_bytes(raw: Callable[[Answer], str], patient: Retries, answer: Answer) -> None:
    assert read(raw(answer), patient) == DATA


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "raised", "words"),
    [
        (but_bodies(b"\0\1garbage\r\n\r\n"), RemoteUnavailable, "no sound answer"),
        (but_bodies(reply(DATA, X="a" * 100_000)), RemoteUnavailable, "no sound answer"),
        (but_bodies(CHUNKED + b"%x\r\n%s\r\n" % (len(DATA) - 9, DATA[:-9])), RemoteUnavailable, "6 tries"),
        (
            but_bodies(CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (len(DATA) + 4, DATA + b"more")),
            UnreadableItem,
            "longer than 25600 bytes",
        ),
        (but_bodies(reply(DATA[:-5])), UnreadableItem, "changed while it was read"),
        (
            but_bodies(reply(DATA[:9], "206 P", Content_Range=f"bytes 0-8/{len(DATA)}")),
            UnreadableItem,
            "status=206 for the whole file",
        ),
        (
            lambda method, path, asked: (
                reply(status="405 No")
                if method == "HEAD"
                else reply(b"a", "206 P", Content_Range="bytes 0-0/" + "9" * 5000)
            ),
            UnreadableItem,
            "status=206",
        ),
        (lambda method, path, asked: b"HTTP/1.1 204 x\r\n\r\n", UnreadableItem, "status=204"),
    ],
    ids=["garbage", "long-header", "cut-chunks", "longer", "shorter", "part-for-whole", "size-of-5000-digits", "204"],
)
def test_a_wrong_answer_is_reported_in_our_words(
    raw: Callable[[Answer], str], patient: Retries, answer: Answer, raised: type[Exception], words: str
) -> None:
    with pytest.raises(raised, match=words):
        read(raw(answer), patient)


@pytest.mark.parametrize(
    ("coding", "body", "words"),
    [
        ("gzip", b"no gzip", "it is none"),
        ("gzip", gzip.compress(DATA)[:-9], "ends early"),
        ("gzip", gzip.compress(DATA) + b"x", "behind its end"),
        ("br", b"abcd", "content coding 'br'"),
        ("gzip, gzip", b"abcd", "content coding 'gzip, gzip'"),
    ],
)
def test_a_body_that_is_not_compressed_as_the_server_says_is_a_refused_entry_and_stops_nothing(
    raw: Callable[[Answer], str], coding: str, body: bytes, words: str
) -> None:
    def answer(method: str, path: str, asked: tuple[int, int] | None) -> bytes:
        if path != "/a.bin":
            return reply(PAGE) if path == "/" else sound(method, path, asked)
        return reply(b"" if method == "HEAD" else body, size=len(body), Content_Encoding=coding)

    ((_, (bad, good)),) = WebsiteLanding(raw(answer), remote=SMALL).directories()
    assert words in bad.refused and (good.path, good.size_bytes, good.refused) == ("b.bin", len(DATA), None)


def test_a_body_without_a_length_that_was_cut_while_it_was_measured_is_not_taken_for_the_file(
    raw: Callable[[Answer], str],
) -> None:
    bodies = [DATA[:10_000], DATA]

    def answer(method: str, path: str, asked: tuple[int, int] | None) -> bytes:
        return b"HTTP/1.0 200 OK\r\n\r\n" + (b"" if method == "HEAD" or asked else bodies.pop(0))

    with (
        WebsiteLanding(raw(answer), remote=SMALL).open("a.bin") as file,
        pytest.raises(UnreadableItem, match="longer than 10000 bytes"),
    ):
        file.read()


def test_a_measured_file_that_changes_and_keeps_its_size_is_never_read_to_its_end(site: Site) -> None:
    site.files, site.is_chunked, site.states_versions = {"a.bin": DATA}, True, False
    with WebsiteLanding(site.url, remote=SMALL).open("a.bin") as file:
        site.files = {"a.bin": DATA[::-1]}
        with pytest.raises(UnreadableItem, match="not what was measured"):
            file.read()


def test_a_server_that_names_versions_by_head_alone_is_asked_after_each_range(raw: Callable[[Answer], str]) -> None:
    tags = iter(['"one"', '"one"', '"two"'])

    def answer(method: str, path: str, asked: tuple[int, int] | None) -> bytes:
        return sound(method, path, asked, ETag=next(tags)) if method == "HEAD" else sound(method, path, asked)

    with (
        WebsiteLanding(raw(answer), remote=SMALL).open("a.bin") as file,
        pytest.raises(UnreadableItem, match="changed while it was read"),
    ):
        file.read()
    assert next(tags, None) is None


def test_a_weak_etag_does_not_name_bytes(raw: Callable[[Answer], str]) -> None:
    """A new content under the same weak ETag and of the same size is not taken from the cache of the old one."""
    version = ["Fri, 20 Nov 2026 10:00:00 GMT", DATA]

    def answer(method: str, path: str, asked: tuple[int, int] | None) -> bytes:
        sent = sound(method, path, asked, ETag='W/"x"', Last_Modified=version[0])
        return sent.replace(DATA[:256], version[1][:256]) if version[1] is not DATA else sent

    landing = WebsiteLanding(raw(answer), remote=SMALL)
    before = landing.stat("a.bin")
    assert landing.open("a.bin").read() == DATA
    version[:] = ["Fri, 20 Nov 2026 11:00:00 GMT", DATA[::-1]]
    assert landing.open("a.bin").read() == DATA.replace(DATA[:256], DATA[::-1][:256])
    assert landing.stat("a.bin").version != before.version


@pytest.mark.parametrize(
    "target",
    [
        "http://[",
        f"http://{'a' * 70}.example/",
        "//",
        "http://127.0.0.1:99999/",
        "\\\\x",
        "/\xff\xe9",
        "http://\xe9.invalid./x",
        "javascript:x",
        "",
    ],
)
def test_a_redirect_to_anywhere_is_reported_in_our_words(
    raw: Callable[[Answer], str], patient: Retries, target: str
) -> None:
    url = raw(lambda method, path, asked: reply(status="302 F", Location=target))
    with pytest.raises((UnreadableItem, RemoteUnavailable)):
        read(url, patient)
    with pytest.raises(SettingsError, match="the server redirects it to") as raised:
        list(WebsiteLanding(url, retries=patient).directories())
    str(raised.value).encode()


@pytest.mark.parametrize("date", ["Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 31 Dec 99999999999 23:59:59 GMT", "x"])
def test_a_date_that_no_table_holds_is_none(raw: Callable[[Answer], str], date: str) -> None:
    url = raw(lambda method, path, asked: sound(method, path, asked, Last_Modified=date))
    assert WebsiteLanding(url).stat("a.bin").modified_ns == 0


@pytest.mark.parametrize("piece", ["<a ", '<a href="', "<!--", "<a", "</a ", "<b><p>", "<![CDATA[", "&"])
@pytest.mark.timeout(10)
def test_a_page_of_open_tags_takes_no_longer_than_another(piece: str) -> None:
    assert list(links_of(piece * 100_000, "http://host.example/")) == []


def test_ten_thousand_links_are_each_found_once() -> None:
    page = "".join(f'<a href="{number % 10_000}.txt">' for number in range(20_000))
    assert len(list(links_of(page, "http://host.example/data/"))) == 10_000


@pytest.mark.parametrize(
    ("page", "paths"),
    [
        ('<base href="http://evil.example/"><a href="x.txt">', []),
        ('<base href="../other/"><a href="x.txt"><a href="/data/y.txt">', [("y.txt",)]),
        ('<base href="sub/"><a href="x.txt">', [("sub", "x.txt")]),
        ('<base href="http://["><a href="x.txt">', []),
        ('<a href="a&amp;b&#46;txt">', [("a&b.txt",)]),
        ("<!-- <a href=no.txt> --><A\nHREF = 'yes.txt'>", [("yes.txt",)]),
        ("\0\1<div><a href=x.txt", []),
        ("<div>" * 5000 + "<a href=deep.txt>", [("deep.txt",)]),
        ("", []),
    ],
)  # fmt: skip
def test_links_are_found_as_browsers_find_them(page: str, paths: list[tuple[str, ...]]) -> None:
    assert [link.parts for link in links_of(page, "http://host.example/data/")] == paths


@pytest.mark.parametrize("address", [f"http://{'a' * 70}.example/", "http://a..b/"])
def test_a_host_that_no_name_can_be_is_a_wrong_setting(address: str) -> None:
    with pytest.raises(SettingsError, match="a host or port that is none"):
        WebsiteLanding(address)


def test_a_host_of_another_script_is_asked_for_by_its_ascii_name() -> None:
    assert WebsiteLanding("https://b\u00fccher.example/a/").location == "https://xn--bcher-kva.example/a/"


def test_a_header_of_two_lines_is_a_wrong_setting(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SITE_TOKEN", "secret\nX: y")
    with pytest.raises(SettingsError, match="line end") as raised:
        WebsiteLanding(
            site.url,
            remote=RemoteSettings(storage_options={site.url: {"headers": {"Authorization": "env:SITE_TOKEN"}}}),
        )
    assert "secret" not in str(raised.value)
