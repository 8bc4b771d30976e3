"""An address whose bytes are in the store is asked again when the manners change: for what its publisher says now,
and not for the same bytes."""

from __future__ import annotations

import pytest

from mmlake.sources import SourceSettings
from mmlake.store import BlobStore
from tests.blobs import rot
from tests.sources.source_builders import png, sha
from tests.sources.web.site import downloads_at, listed, rows_of_lists

LAX = SourceSettings(respect_robots=False, respect_opt_out=False)
STRICT = SourceSettings()
MONDAY, TUESDAY = "Mon, 16 Nov 2026 10:00:00 GMT", "Tue, 17 Nov 2026 10:00:00 GMT"


def digests_of(root, settings) -> list[str | None]:
    return [row["digest"] for row in rows_of_lists(root, settings=settings)]


def test_what_came_under_stricter_manners_counts_under_looser_ones(tmp_path, site):
    listed(tmp_path, site.serve("/a.png", png(1), ETag='"1"'))
    for settings in (STRICT, LAX, SourceSettings(respect_robots=False), STRICT):
        assert digests_of(tmp_path, settings) == [sha(png(1))]
    assert (site.asked, site.heads) == ({"/a.png": 1}, {})


def test_what_came_under_looser_manners_is_asked_for_its_head_and_kept(tmp_path, site):
    listed(
        tmp_path,
        site.serve("/a.png", png(1), ETag='"1"'),
        site.serve("/b", b"<html><body>a page</body></html>", ETag='"2"'),
    )
    before = digests_of(tmp_path, LAX)
    assert [digests_of(tmp_path, STRICT) for _ in range(2)] == [before, before]
    assert (site.asked, dict(site.heads)) == ({"/a.png": 1, "/b": 1}, {"/a.png": 1, "/b": 1})


def test_another_name_of_ours_is_asked_for_its_head_and_kept(tmp_path, site):
    listed(tmp_path, site.serve("/a.png", png(1), ETag='"1"'))
    assert digests_of(tmp_path, STRICT) == digests_of(tmp_path, SourceSettings(agent="otherbot")) == [sha(png(1))]
    assert (site.asked, dict(site.heads)) == ({"/a.png": 1}, {"/a.png": 1})


def test_an_opt_out_that_came_later_counts_although_the_bytes_are_the_same(tmp_path, site):
    """A 304 would not say so: Apache httpd leaves X-Robots-Tag out of one."""

    def page(visit):
        is_known = visit.headers["If-None-Match"] or visit.headers["If-Modified-Since"]
        visit.reply(
            b"" if is_known else png(1),
            status=304 if is_known else 200,
            headers={"ETag": '"1"', "Last-Modified": MONDAY} | ({} if is_known else opt_out),
        )

    opt_out: dict[str, str] = {}
    listed(tmp_path, site.does("/a.png", page))
    assert digests_of(tmp_path, LAX) == [sha(png(1))]
    opt_out["X-Robots-Tag"] = "noai"
    assert [row["error_code"] for row in rows_of_lists(tmp_path, settings=STRICT)] == [1108]


def test_an_opt_out_in_a_page_that_is_kept_counts(tmp_path, site):
    listed(
        tmp_path,
        site.serve("/a", b'<html><head><meta name="robots" content="noai"></head><body>x</body></html>', ETag='"1"'),
    )
    assert [row["error_code"] for settings in (LAX, STRICT) for row in rows_of_lists(tmp_path, settings=settings)] == [
        None,
        1108,
    ]
    assert site.asked == {"/a": 1}


def test_robots_txt_is_kept_to_before_what_is_kept(tmp_path, site):
    site.serve("/robots.txt", b"User-agent: *\nDisallow: /a.png\n")
    listed(tmp_path, site.serve("/a.png", png(1), ETag='"1"'))
    assert [row["error_code"] for settings in (LAX, STRICT) for row in rows_of_lists(tmp_path, settings=settings)] == [
        None,
        1109,
    ]
    assert (site.asked, site.heads) == ({"/a.png": 1}, {})


STATED = {
    "the ETag": ({"ETag": '"1"'}, {"ETag": '"1"', "Last-Modified": TUESDAY}, True),
    "another ETag": ({"ETag": '"1"', "Last-Modified": MONDAY}, {"ETag": '"2"', "Last-Modified": MONDAY}, False),
    "no ETag any more": ({"ETag": '"1"', "Last-Modified": MONDAY}, {"Last-Modified": MONDAY}, False),
    "a weak ETag and the time": (
        {"ETag": 'W/"1"', "Last-Modified": MONDAY},
        {"ETag": 'W/"1"', "Last-Modified": MONDAY},
        True,
    ),
    "a weak ETag of another time": (
        {"ETag": 'W/"1"', "Last-Modified": MONDAY},
        {"ETag": 'W/"1"', "Last-Modified": TUESDAY},
        False,
    ),
    "a weak ETag without a time": ({"ETag": 'W/"1"'}, {"ETag": 'W/"1"'}, False),
    "time and size": ({"Last-Modified": MONDAY}, {"Last-Modified": MONDAY}, True),
    "another time": ({"Last-Modified": MONDAY}, {"Last-Modified": TUESDAY}, False),
    "an empty ETag": ({"ETag": ""}, {"ETag": ""}, False),
    "nothing": ({}, {}, False),
}


@pytest.mark.parametrize("before, now, is_same", STATED.values(), ids=STATED)
def test_the_bytes_are_fetched_again_unless_what_is_stated_shows_that_they_are_the_same(
    tmp_path, site, before, now, is_same
):
    body, stated = [png(1)], dict(before)
    listed(tmp_path, site.does("/a.png", lambda visit: visit.reply(body[0], headers=stated)))
    assert digests_of(tmp_path, LAX) == [sha(png(1))]
    body[0], stated = png(1) if is_same else png(2), now
    assert digests_of(tmp_path, STRICT) == [sha(body[0])]
    assert site.asked == {"/a.png": 1 if is_same else 2}


def test_equal_times_with_another_size_are_other_bytes(tmp_path, site):
    pictures = [png(1), png(1) + b"more"]
    listed(tmp_path, site.does("/a.png", lambda visit: visit.reply(pictures[0], headers={"Last-Modified": MONDAY})))
    assert digests_of(tmp_path, LAX) == [sha(pictures[0])]
    assert digests_of(tmp_path, STRICT) == [sha(pictures.pop(0))]
    assert digests_of(tmp_path, SourceSettings(agent="otherbot")) == [sha(pictures[0])]


@pytest.mark.parametrize("status", [403, 404, 405, 500, 501, 304])
def test_where_a_head_is_not_served_the_whole_is_asked_for(tmp_path, site, status):
    def page(visit):
        visit.reply(png(1), status=200 if visit.command == "GET" else status, headers={"ETag": '"1"'})

    listed(tmp_path, site.does("/a.png", page))
    assert digests_of(tmp_path, LAX) == digests_of(tmp_path, STRICT) == [sha(png(1))]
    assert (site.asked, site.heads["/a.png"]) == ({"/a.png": 2}, 1)


def test_an_equal_etag_of_another_address_is_nothing(tmp_path, site):
    target = ["/old.png"]
    site.serve("/old.png", png(1), ETag='"1"')
    site.serve("/new.png", png(2), ETag='"1"')
    listed(tmp_path, site.does("/a.png", lambda visit: visit.reply(status=302, headers={"Location": target[0]})))
    assert digests_of(tmp_path, LAX) == [sha(png(1))]
    assert digests_of(tmp_path, STRICT) == [sha(png(1))]
    target[0] = "/new.png"
    assert digests_of(tmp_path, SourceSettings(agent="otherbot")) == [sha(png(2))]
    assert site.visits["/old.png"] == 1


def test_a_page_whose_stored_bytes_are_damaged_is_fetched_again(tmp_path, site):
    page = b"<html><body>a page</body></html>"
    listed(tmp_path, site.serve("/a", page, ETag='"1"'))
    assert digests_of(tmp_path, LAX) == [sha(page)]
    rot(BlobStore(tmp_path / "store"), sha(page))
    downloads = downloads_at(tmp_path)
    assert [answer.digest for answer in downloads.fetch([site.url("/a")], rules=STRICT)] == [sha(page)]
    downloads.close()
    assert site.asked == {"/a": 2}


def test_a_304_that_nobody_asked_for_is_a_row(tmp_path, site):
    listed(tmp_path, site.does("/a.png", lambda visit: visit.reply(status=304, headers={"ETag": '"1"'})))
    assert [row["error_code"] for row in rows_of_lists(tmp_path)] == [1106]
