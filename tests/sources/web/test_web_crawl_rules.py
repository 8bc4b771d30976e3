"""The crawl rules of the downloader and its guard: robots.txt, opt-outs, limits per host, patience, no way into a
private network."""

from __future__ import annotations

import asyncio
import errno
import gzip
import io
import itertools
import json
import signal
import threading
import time
import tracemalloc

import pytest

from mmlake import sources
from mmlake.download import fetcher, url_checks
from mmlake.download.classification import opt_out_of
from mmlake.download.fetcher import HostLimiter
from mmlake.error_codes import TRANSIENT_CODES
from mmlake.errors import SettingsError, UnreadableItem
from mmlake.remote.networks import Networks
from tests.sources.source_builders import SETTINGS, png, sha
from tests.sources.web.site import downloads_at, listed, rows_of_lists

PAGE = b"<html><body>A page about lanterns.</body></html>"


def codes_of(root, *urls, **changes) -> list[int | None]:
    return [row["error_code"] for row in rows_of_lists(listed(root, *urls), **changes)]


def test_robots_txt_is_kept_to_and_read_once_per_host(tmp_path, site):
    site.serve(
        "/robots.txt",
        b"User-agent: *\nDisallow: /private/\nAllow: /private/open\n\nUser-agent: otherbot\nDisallow: /\n",
    )
    urls = [site.serve(path, PAGE) for path in ("/a", "/private/b", "/private/open", "/c")]
    assert codes_of(tmp_path, *urls) == [None, 1109, None, None]
    assert dict(site.visits) == {"/robots.txt": 1, "/a": 1, "/private/open": 1, "/c": 1}


def test_a_group_that_names_our_agent_is_ours(tmp_path, site):
    site.serve("/robots.txt", b"User-agent: *\nDisallow:\n\nUser-agent: mmlake\nDisallow: /a\n")
    assert codes_of(tmp_path, site.serve("/a", PAGE), site.serve("/b", PAGE)) == [1109, None]


@pytest.mark.parametrize("status, code", [(404, None), (403, None), (401, None), (500, 1110), (503, 1110), (429, 1110)])
def test_a_missing_robots_txt_allows_and_a_failing_one_forbids_for_now(tmp_path, site, status, code):
    site.does("/robots.txt", lambda visit: visit.reply(status=status))
    assert codes_of(tmp_path, site.serve("/a", PAGE)) == [code]
    assert code is None or code in TRANSIENT_CODES


def test_robots_txt_is_followed_where_it_moved_and_cut_where_it_is_endless(tmp_path, site):
    site.does("/robots.txt", lambda visit: visit.reply(status=301, headers={"Location": "/r2"}))
    site.serve(
        "/r2", gzip.compress(b"User-agent: *\nDisallow: /a\n" + b"# filler\n" * 200_000), Content_Encoding="gzip"
    )
    assert codes_of(tmp_path, site.serve("/a", PAGE), site.serve("/b", PAGE)) == [1109, None]


def test_a_redirect_is_asked_for_at_the_robots_txt_of_where_it_leads(tmp_path, site):
    site.serve("/robots.txt", b"User-agent: *\nDisallow: /hidden\n")
    site.serve("/hidden", PAGE)
    assert codes_of(
        tmp_path, site.does("/a", lambda visit: visit.reply(status=302, headers={"Location": "/hidden"}))
    ) == [1109]
    assert "/hidden" not in site.visits


def test_those_who_have_a_permission_do_not_ask_robots_txt(tmp_path, site):
    site.serve("/robots.txt", b"User-agent: *\nDisallow: /\n")
    settings = sources.SourceSettings(respect_robots=False)
    assert [
        row["error_code"] for row in rows_of_lists(listed(tmp_path, site.serve("/a", PAGE)), settings=settings)
    ] == [None]
    assert "/robots.txt" not in site.visits


@pytest.mark.parametrize(
    "body, headers, code",
    [
        (PAGE, {"X_Robots_Tag": "noai"}, 1108),
        (png(1), {"X_Robots_Tag": "noindex, NoImageAI"}, 1108),
        (PAGE, {"X_Robots_Tag": "noimageai"}, None),
        (PAGE, {"X_Robots_Tag": "otherbot: noai, noimageai"}, None),
        (PAGE, {"X_Robots_Tag": "otherbot: noindex, mmlake: noai"}, 1108),
        (PAGE, {"X_Robots_Tag": "unavailable_after: 25 Jun 2030 15:00:00 PST, noai"}, 1108),
        (PAGE, {"tdm_reservation": "1"}, 1108),
        (PAGE, {"tdm_reservation": "0"}, None),
        (b'<html><head><meta name="mmlake" content="noai"></head><body>x</body></html>', {}, 1108),
        (
            b'<html><head><meta name="robots" content="noindex,noai"></head><body>x</body></html>',
            {"Content_Encoding": "none"},
            1108,
        ),
        (PAGE, {"X_Robots_Tag": "noindex"}, None),
    ],
)
def test_a_publishers_opt_out_counts_and_what_is_withheld_is_not_kept(tmp_path, site, body, headers, code):
    (row,) = rows_of_lists(listed(tmp_path, site.serve("/a", body, **headers)))
    assert row["error_code"] == code
    assert (row["digest"] is None) == (code is not None)


def test_an_opt_out_in_a_compressed_page_counts(tmp_path, site):
    page = gzip.compress(b'<html><head><meta name="robots" content="noai"></head><body>x</body></html>')
    assert codes_of(tmp_path, site.serve("/a", page, Content_Encoding="gzip")) == [1108]


def test_our_agent_says_who_we_are_and_how_to_complain(tmp_path, site):
    rows_of_lists(listed(tmp_path, site.serve("/a", PAGE)), contact="https://example.org/crawler")
    (agent,) = site.agents
    assert agent.startswith("mmlake/") and agent.endswith("(+https://example.org/crawler)")


def test_a_host_is_never_asked_for_more_at_once_than_allowed(tmp_path, site):
    pair = threading.Event()

    def page(visit):
        if site.num_now > 1:
            pair.set()
        pair.wait(30)  # the first until there is a second
        time.sleep(0.01)
        visit.reply(PAGE)

    urls = [site.does(f"/{at}", page) for at in range(40)]
    assert codes_of(tmp_path, *urls, max_parallel_per_host=3, max_parallel=30) == [None] * 40
    assert 2 <= site.most_at_once <= 3


def test_redirects_from_many_hosts_count_at_the_host_where_they_lead(tmp_path, site):
    at_once: list[int] = []
    inside = itertools.count()
    outside = itertools.count()

    def page(visit):
        entered = next(inside)
        time.sleep(0.01)
        at_once.append(entered + 1 - next(outside))
        visit.reply(PAGE)

    async def here(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    site.does("/target", page)
    site.does(
        "/short",
        lambda visit: visit.reply(status=302, headers={"Location": site.url("/target", host="target.example")}),
    )
    urls = [site.url("/short", host=f"h{at}.example") for at in range(20)]
    assert codes_of(tmp_path, *urls, max_parallel_per_host=2, lookup=here) == [None] * 20
    assert len(at_once) == 20 and max(at_once) <= 2


@pytest.mark.parametrize("by", ["settings", "robots"])
def test_requests_to_a_host_keep_their_distance(tmp_path, site, by):
    if by == "robots":
        site.serve("/robots.txt", b"User-agent: *\nCrawl-delay: 0.05\n")
    urls = [site.serve(f"/{at}", PAGE) for at in range(10)]
    began_s = time.monotonic()
    assert codes_of(tmp_path, *urls, **({"host_delay_s": 0.05} if by == "settings" else {})) == [None] * 10
    assert time.monotonic() - began_s >= 9 * 0.05  # of them all: when single ones arrive, a busy machine decides


INSIDE = [
    "http://127.0.0.1:1/", "http://localhost:1/", "http://0.0.0.0:1/", "http://10.1.2.3/", "http://172.16.0.1/",
    "http://192.168.1.1/", "http://169.254.169.254/latest/meta-data/",
    "http://100.64.0.1/", "http://100.100.100.200/", "http://168.63.129.16/", "http://[::1]/", "http://[::]/",
    "http://[fe80::1]/", "http://[fd00:ec2::254]/", "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:a9fe:a9fe]/", "http://[64:ff9b::a9fe:a9fe]/", "http://[2002:7f00:1::]/", "http://2130706433/",
    "http://0x7f.1/", "http://017700000001/", "http://127.1/", "http://224.0.0.1/",
    "http://255.255.255.255/", "http://192.0.2.7/",
]  # fmt: skip


def test_nothing_inside_can_be_reached_through_a_list(tmp_path):
    rows = rows_of_lists(listed(tmp_path, *INSIDE), allowed_networks=())
    assert {url: row["error_code"] for url, row in zip(INSIDE, rows, strict=True)} == dict.fromkeys(INSIDE, 1101)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://h/a",
        "data:text/plain,x",
        "gopher://h/",
        "javascript:alert(1)",
        "//h/a",
        "h/a",
        "http:///a",
        "http://u:p@h/",
        "http://u@h/",
    ],
)
def test_only_http_addresses_without_credentials_are_asked(url):
    with pytest.raises(UnreadableItem) as caught:
        url_checks.parse_url(url)
    assert caught.value.code == 1101


@pytest.mark.parametrize(
    "text, allowed",
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("64:ff9b::5db8:d822", True),
        ("127.0.0.1", False),
        ("nonsense", False),
        ("::ffff:10.0.0.1", False),
    ],
)
def test_public_addresses_are_distinguished_from_others(text, allowed):
    assert Networks().allows(text) is allowed


def test_an_allowed_network_is_no_more_than_itself():
    networks = Networks(("10.1.0.0/16", "fd00::/8"))
    assert [networks.allows(text) for text in ("10.1.255.255", "10.2.0.0", "::ffff:10.1.0.1", "fd12::1", "::1")] == [
        True,
        False,
        True,
        True,
        False,
    ]
    with pytest.raises(SettingsError, match="which is no network"):
        sources.WebSettings(allowed_networks=("10.1.0.0/99",))


@pytest.mark.parametrize(
    "target, code",
    [
        ("http://169.254.169.254/latest/meta-data/", 1101), ("file:///etc/passwd", 1101), ("http://[::1]:1/", 1101),
        ("http://user:pw@127.0.0.1/", 1101), ("ftp://h/x", 1101), ("", 1106),
        ("http://[", 1106), ("/a", 1106),
    ],
)  # fmt: skip
def test_every_hop_of_a_redirect_is_checked(tmp_path, site, target, code):
    assert codes_of(tmp_path, site.does("/a", lambda visit: visit.reply(status=302, headers={"Location": target}))) == [
        code
    ]


def test_a_redirect_is_followed_and_reported(tmp_path, site):
    site.serve("/there/b.png", png(1))
    (row,) = rows_of_lists(
        listed(
            tmp_path, site.does("/a.png", lambda visit: visit.reply(status=301, headers={"Location": "there/b.png"}))
        )
    )
    assert (row["digest"], json.loads(row["metadata_json"])["final_url"]) == (sha(png(1)), site.url("/there/b.png"))


def test_a_name_that_changes_its_address_between_check_and_connection_gains_nothing(tmp_path, site):
    """The address that was checked is the one that is connected to: each answer of the name server is checked, none
    is asked for twice."""
    answers = itertools.cycle([["10.0.0.5"], ["192.168.0.1", "169.254.169.254"], ["127.0.0.1"]])
    num_lookups = itertools.count()

    async def rebinding(host: str, port: int) -> list[str]:
        next(num_lookups)
        return next(answers)

    urls = [site.url(f"/{at}", host="rebind.example") for at in range(6)]
    assert set(codes_of(tmp_path, *urls, lookup=rebinding, allowed_networks=(), tries=1)) == {1101}
    assert not site.visits
    assert next(num_lookups) >= 6


def test_of_several_addresses_only_those_that_may_be_are_connected_to(tmp_path, site):
    async def both(host: str, port: int) -> list[str]:
        return ["10.0.0.5", "127.0.0.1"]

    site.serve("/a", PAGE)
    assert codes_of(tmp_path, site.url("/a", host="both.example"), lookup=both) == [None]


def test_a_busy_server_is_asked_again_and_not_sooner_than_it_wants(tmp_path, site):
    answers = iter([(429, {"Retry-After": "0"}), (503, {}), (200, {})])

    def page(visit):
        status, headers = next(answers)
        visit.reply(png(1) if status == 200 else b"", status=status, headers=headers)

    assert codes_of(tmp_path, site.does("/a.png", page)) == [None]
    assert site.asked == {"/a.png": 3}


def test_a_server_that_wants_a_long_pause_is_left_for_later(tmp_path, site):
    assert codes_of(
        tmp_path, site.does("/a", lambda visit: visit.reply(status=503, headers={"Retry-After": "3600"}))
    ) == [1105]
    assert site.asked == {"/a": 1}


@pytest.mark.parametrize(
    "status, code, num_visits",
    [(404, 1106, 1), (410, 1106, 1), (403, 1106, 1), (204, 1106, 1), (500, 1105, 3), (429, 1105, 3)],
)
def test_only_what_may_pass_is_tried_again(tmp_path, site, status, code, num_visits):
    assert codes_of(tmp_path, site.does("/a", lambda visit: visit.reply(status=status))) == [code]
    assert site.asked == {"/a": num_visits}
    assert (code in TRANSIENT_CODES) == (num_visits == 3)


def test_a_cut_body_is_fetched_again_and_then_a_row(tmp_path, site):
    def cut(visit):
        visit.reply(png(1)[:30], length=len(png(1)))
        visit.close_connection = True

    pages = iter([cut, lambda visit: visit.reply(png(1))])
    urls = [site.does("/mends.png", lambda visit: next(pages)(visit)), site.does("/never.png", cut)]
    assert codes_of(tmp_path, *urls) == [None, 1107]
    assert site.asked == {"/mends.png": 2, "/never.png": 3}


def test_a_connection_that_is_closed_without_an_answer_is_a_row(tmp_path, site):
    def slam(visit):
        visit.close_connection = True

    # a host that refuses connections does not say what it allows
    assert codes_of(tmp_path, site.does("/a", slam), "http://127.0.0.1:9/x") == [1103, 1110]


@pytest.mark.parametrize("where", ["header", "body", "silence"])
def test_a_drip_does_not_hold_a_place_for_longer_than_allowed(tmp_path, site, where):
    leave = threading.Event()

    def drip(visit):
        if where == "body":
            visit.send_response(200)
            visit.send_header("Content-Length", "1000")
            visit.end_headers()
        elif where == "header":
            visit.wfile.write(b"HTTP/1.1 200 OK\r\nX-A: ")
        while not leave.wait(0.02):  # without end
            if where != "silence":
                visit.wfile.write(b"a")
                visit.wfile.flush()

    site.pages["/robots.txt"] = lambda visit: visit.reply(status=404)
    try:
        assert codes_of(tmp_path, site.does("/a", drip), tries=1, total_timeout_s=0.3, idle_timeout_s=0.2) == [1104]
    finally:
        leave.set()


@pytest.mark.parametrize("stated", [True, False])
def test_a_body_over_the_limit_is_broken_off(tmp_path, site, stated):
    sent = []

    def huge(visit):
        visit.send_response(200)
        if stated:
            visit.send_header("Content-Length", str(1 << 40))
        else:
            visit.send_header("Connection", "close")
        visit.end_headers()
        visit.close_connection = True
        for _ in range(1000):
            sent.append(visit.wfile.write(bytes(1 << 16)))

    settings = sources.SourceSettings(max_item_bytes=1 << 20)
    (row,) = rows_of_lists(listed(tmp_path, site.does("/a.png", huge)), settings=settings)
    assert (row["error_code"], row["digest"]) == (1008, None)
    assert sum(sent) < 40 << 20


def test_a_body_that_explodes_is_a_row_and_takes_no_memory(tmp_path, site):
    bomb = gzip.compress(gzip.compress(bytes(256 << 20), 9), 9)
    url = site.serve("/a.png", bomb, Content_Encoding="gzip, gzip")
    settings = sources.SourceSettings(max_item_bytes=4 << 20)
    tracemalloc.start()
    rows = rows_of_lists(listed(tmp_path, url), settings=settings)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [row["error_code"] for row in rows] == [1008]
    assert peak_bytes < 64 << 20


@pytest.mark.parametrize(
    "raw",
    [
        b"not http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    ],
)
def test_an_answer_that_is_no_http_is_a_row(tmp_path, site, raw):
    def page(visit):
        visit.wfile.write(raw)
        visit.close_connection = True

    assert codes_of(tmp_path, site.does("/a", page), site.serve("/b", PAGE), tries=1) == [1103, None]


def test_a_host_that_hangs_does_not_hold_up_the_others(tmp_path, site):
    """More addresses of one slow host than there are places: the other host's answers come meanwhile."""
    leave, served = threading.Event(), threading.Event()
    slow = [site.does(f"/slow{at}", lambda visit: (leave.wait(), visit.reply(PAGE))) for at in range(30)]
    site.does("/quick", lambda visit: (served.set(), visit.reply(PAGE)))

    async def here(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    urls = [url.replace("127.0.0.1", "slow.example") for url in slow] + [site.url("/quick", host="quick.example")]
    opener = threading.Thread(target=lambda: (served.wait(), leave.set()))
    opener.start()
    try:
        assert codes_of(tmp_path, *urls, max_parallel=8, max_parallel_per_host=4, lookup=here) == [None] * 31
    finally:
        served.set()
        opener.join()


def test_breaking_off_leaves_no_thread_and_keeps_what_came(tmp_path, site):
    before = set(threading.enumerate())
    downloads = downloads_at(tmp_path)
    answers = downloads.fetch(
        [site.serve("/a", PAGE), site.does("/b", lambda visit: (time.sleep(0.1), visit.reply(PAGE)))],
        rules=sources.SourceSettings(),
    )
    assert next(answers).code is None
    answers.close()
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("mmlake")]
    assert downloads.journal.counts().get(None, 0) >= 1
    downloads.close()


def test_comments_that_never_close_are_read_in_one_go():
    began_s = time.process_time()
    assert (
        opt_out_of([], agent="mmlake", modality="text", page=b"<!--" * 65_536 + b'<meta name="robots" content="noai">')
        is None
    )
    assert (
        opt_out_of([], agent="mmlake", modality="text", page=b"<!-- a --><meta name='robots' content='noai'><!--")
        is not None
    )
    assert time.process_time() - began_s < 5.0


def test_a_pause_that_a_host_asks_for_is_kept_although_nobody_waits():
    async def waited_s() -> float:
        gates, loop = HostLimiter(per_host=4, delay_s=0.0), asyncio.get_running_loop()
        async with gates.slot("host"):
            pass
        began_s = loop.time()
        gates.pause("host", 0.05)
        async with gates.slot("host"):
            return loop.time() - began_s

    assert asyncio.run(waited_s()) >= 0.05


def test_a_full_disk_of_ours_is_no_fault_of_an_address(tmp_path, site, monkeypatch):
    class Full(io.BytesIO):
        def write(self, data: bytes) -> int:
            raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(fetcher.tempfile, "SpooledTemporaryFile", lambda **_: Full())
    with pytest.raises(OSError, match="full"):
        codes_of(tmp_path, site.serve("/a.png", png(1)))


@pytest.mark.parametrize("host", ["2130706433", "127.1", "0177.0.0.1", "127.0.0.1.", "0"])
def test_a_host_of_digits_that_is_no_address_is_refused_before_any_library_reads_it(host):
    with pytest.raises(UnreadableItem, match="1101"):
        url_checks.parse_url(f"http://{host}/")


def test_an_interrupt_while_a_host_hangs_ends_the_downloads(tmp_path, site):
    """Whoever waits for a response is woken; what has come is in the journal, and the lock is free."""
    leave, asked = threading.Event(), threading.Event()
    url = site.does("/hangs", lambda visit: (asked.set(), leave.wait()))
    downloads, main = downloads_at(tmp_path), threading.main_thread().ident
    threading.Thread(target=lambda: (asked.wait(), signal.pthread_kill(main, signal.SIGINT)), daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        list(downloads.fetch([url], rules=SETTINGS))
    leave.set()
    assert next(downloads.fetch([site.serve("/b.png", png())], rules=SETTINGS)).digest == sha(png())
    downloads.close()
