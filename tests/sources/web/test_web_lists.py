"""Lists of URLs: every record is a row, in the order of the list, each address asked once."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mmlake import sources
from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.pipeline import refresh
from mmlake.records import SourceRef
from mmlake.settings import Settings
from mmlake.steps import ROW_STEPS, is_current, run_step
from mmlake.store import BlobStore
from tests.sources.source_builders import SETTINGS, brief, gz, land, mp4, parquet, png, sha
from tests.sources.web.site import QUICK, downloads_at, listed, rows_of_lists


def test_every_address_is_a_row_in_the_order_of_the_list(tmp_path, site):
    late = threading.Event()

    def slow(visit):
        late.wait(30)
        visit.reply(png(1))

    def last(visit):
        late.set()
        visit.reply(png(3))

    urls = [site.does("/1.png", slow), site.serve("/2.png", png(2)), site.does("/3.png", last)]
    rows = rows_of_lists(listed(tmp_path, "# pictures", urls[0], "", urls[1], urls[2]))
    assert [row["digest"] for row in rows] == [sha(png(at)) for at in (1, 2, 3)]
    assert [member for member, *_ in brief(rows)] == ["line:2/url", "line:4/url", "line:5/url"]


LISTS = {
    "a.urls.jsonl": lambda url: (
        json.dumps({"URL": url, "TEXT": "a grey dot", "WIDTH": 1, "license": "cc0-1.0", "id": "x"}).encode() + b"\n"
    ),
    "a.urls.jsonl.gz": lambda url: gz(
        json.dumps({"URL": url, "TEXT": "a grey dot", "WIDTH": 1, "license": "cc0-1.0", "id": "x"}).encode() + b"\n"
    ),
    "a.urls.json": lambda url: json.dumps(
        [{"URL": url, "TEXT": "a grey dot", "WIDTH": 1, "license": "cc0-1.0", "id": "x"}], indent=1
    ).encode(),
    "a.urls.csv": lambda url: f'URL,TEXT,WIDTH,license,id\r\n{url},"a grey dot",1,cc0-1.0,x\r\n'.encode(),
    "a.urls.tsv": lambda url: f"\ufeffURL\tTEXT\tWIDTH\tlicense\tid\n{url}\ta grey dot\t1\tcc0-1.0\tx\n".encode(),
    "a.urls.parquet": lambda url: parquet(
        {"URL": [url], "TEXT": ["a grey dot"], "WIDTH": [1], "license": ["cc0-1.0"], "id": ["x"]}
    ),
}


def test_a_caption_of_a_film_is_not_what_is_said_in_it(tmp_path, site):
    land(tmp_path / "in", {"a.urls.csv": f"url,caption\n{site.serve('/a.mp4', mp4(b'vide'))},a dog\n".encode()})
    film, caption = rows_of_lists(tmp_path)
    assert (film["modality"], film["sample_text"], film["sample_text_role"]) == ("video", "a dog", "caption")
    assert (caption["role"], caption["text_content"]) == ("caption", "a dog")


@pytest.mark.parametrize("name", LISTS)
def test_a_list_in_any_writing_gives_the_medium_and_its_caption(tmp_path, site, name):
    land(tmp_path / "in", {name: LISTS[name](site.serve("/dot.png", png(5)))})
    image, caption = rows_of_lists(tmp_path)
    assert (image["modality"], image["digest"], image["sample_text"], image["licence"]) == (
        "image",
        sha(png(5)),
        "a grey dot",
        "CC0-1.0",
    )
    assert (caption["modality"], caption["role"], caption["text_content"]) == ("text", "caption", "a grey dot")
    assert image["sample_id"] == caption["sample_id"] == f"{name}/x"
    assert str(json.loads(image["metadata_json"])["WIDTH"]) == "1"


@pytest.mark.parametrize(
    "urls, modalities",
    [
        (("http://h/a.jpg", "http://h/b.PNG?x=1"), ("image",)),
        (("http://h/a.mp4",), ("video", "audio")),
        (("http://h/a",), ("text", "image", "video", "audio")),
        (("http://h/a.flac",), ("video", "audio")),
    ],
)
def test_the_modalities_are_known_before_anything_is_fetched(tmp_path, urls, modalities):
    assert sources.scan(listed(tmp_path, *urls) / "in", settings=SETTINGS)[0].modalities == modalities


def test_a_column_or_the_path_names_the_modality(tmp_path):
    land(
        tmp_path / "in",
        {"a.urls.csv": b"image_url,audio_url\nhttp://h/1,http://h/2\n", "video/b.urls": b"http://h/x\n"},
    )
    assert {shard.key: shard.modalities for shard in sources.scan(tmp_path / "in", settings=SETTINGS)} == {
        "a.urls.csv": ("image", "audio"),
        "video/b.urls": ("video",),
    }


def test_content_of_another_modality_than_its_address_says_is_a_row_with_its_bytes(tmp_path, site):
    page = b"<html><body>This picture moved.</body></html>"
    (row,) = rows_of_lists(listed(tmp_path, site.serve("/gone.jpg", page)))
    assert (row["modality"], row["error_code"], row["digest"]) == ("image", 1003, sha(page))


def test_an_mp4_without_pictures_is_sound(tmp_path, site):
    rows = rows_of_lists(
        listed(tmp_path, site.serve("/a.mp4", mp4(b"soun")), site.serve("/b.mp4", mp4(b"vide", b"soun")))
    )
    assert [(row["modality"], row["error_code"]) for row in rows] == [("audio", None), ("video", None)]


def test_content_that_no_modality_takes_is_a_row_with_its_bytes(tmp_path, site):
    (row,) = rows_of_lists(listed(tmp_path, site.serve("/a", b"%PDF-1.7 and so on")))
    assert (row["modality"], row["error_code"], row["digest"]) == ("text", 1005, sha(b"%PDF-1.7 and so on"))


def test_a_page_is_read_in_the_charset_that_its_header_declares(tmp_path, site):
    (row,) = rows_of_lists(
        listed(
            tmp_path,
            site.serve(
                "/a",
                "<html><body>Гавань и маяк</body></html>".encode("cp1251"),
                Content_Type="text/html; charset=windows-1251",
            ),
        )
    )
    assert "Гавань и маяк" in row["text_content"]


HASHES = {"sha256": hashlib.sha256, "sha1": hashlib.sha1, "md5": hashlib.md5}


@pytest.mark.parametrize("name", HASHES)
def test_the_publishers_hash_is_verified(tmp_path, site, name):
    right, wrong = HASHES[name](png(1)).hexdigest(), HASHES[name](b"other").hexdigest()
    url = site.serve("/a.png", png(1))
    land(
        tmp_path / "in",
        {
            "a.urls.csv": (
                f"url,{name}\n{url},{right}\n{url},{wrong}\n{url},{right.upper()}\n{url},nonsense\n{url},\n"
            ).encode()
        },
    )
    rows = rows_of_lists(tmp_path)
    assert [row["error_code"] for row in rows] == [None, 1010, None, 1003, None]
    assert {row["digest"] for row in rows} == {sha(png(1))}
    assert site.asked == {"/a.png": 1}


@pytest.mark.parametrize(
    "name, data, codes",
    [
        ("a.urls", b"\xff\xfe\x00\n", [1004]),
        ("a.urls", b"", [1006]),
        ("a.urls", b"# nothing\n", [1006]),
        (
            "a.urls",
            b"not an address\n//no.scheme/x\nhttp://\nhttp:///x\nhttp://h:99999/\n" + b"http://h/" + b"a" * 9000,
            [1101] * 6,
        ),
        ("a.urls.jsonl", b'{"url": 5}\n{"nothing": 1}\n[1]\n{bad\n', [1003] * 4),
        ("a.urls.json", b'[{"url": 5}, [1], {"url": "ftp://h"}, {bad}', [1003, 1003, 1101, 1003, 1002]),
        ("a.urls.json", b'{"url": "http://h"}', [1001]),
        ("a.urls.csv", b"url,w\nhttp://[/,1\nonly-one\na,b,c\n", [1101, 1003, 1003]),
        ("a.urls.csv", b'url,w\n"open,1\n', [1003]),
        ("a.urls.csv", b"name,w\nx,1\n", [1003]),
        ("a.urls.parquet", b"PAR1 and nothing else", [1001]),
        ("a.urls.gz", gz(b"ftp://h/a\n" * 3)[:-9], [1101] * 3 + [1002]),
    ],
)
def test_a_record_without_a_usable_address_is_a_row(tmp_path, name, data, codes):
    land(tmp_path / "in", {name: data})
    assert [row["error_code"] for row in rows_of_lists(tmp_path)] == codes


def test_secrets_in_addresses_do_not_reach_rows_or_the_journal(tmp_path, site):
    rows = rows_of_lists(
        listed(tmp_path, site.serve("/a.png?sig=hunter2&w=1", png(1)), f"http://me:hunter2@127.0.0.1:{site.port}/b.png")
    )
    assert [row["error_code"] for row in rows] == [None, 1101]
    assert "hunter2" not in json.dumps(rows)
    assert all(b"hunter2" not in path.read_bytes() for path in tmp_path.glob("downloads.sqlite*"))


def test_nothing_is_fetched_without_downloads(tmp_path, site):
    listed(tmp_path, site.serve("/a.png", png(1)))
    (shard,) = sources.scan(tmp_path / "in", settings=SETTINGS)
    with pytest.raises(SettingsError, match="nothing may be downloaded here"):
        sources.ingest(shard, "image", landing=tmp_path / "in", store=BlobStore(tmp_path / "store"), settings=SETTINGS)
    assert not site.visits


def test_an_address_is_asked_once_for_all_lists_modalities_and_ingests(tmp_path, site):
    urls = [site.serve("/a", png(1)), site.serve("/b", b"<html><body>text</body></html>"), site.url("/missing")]
    listed(tmp_path, *urls, *urls)
    listed(tmp_path, *urls, name="b.urls")
    first = rows_of_lists(tmp_path)
    assert rows_of_lists(tmp_path) == first
    assert site.asked == {"/a": 1, "/b": 1, "/missing": 1}
    assert site.visits["/robots.txt"] == 1


def test_a_failure_that_may_pass_is_asked_again_only_when_it_was_forgotten(tmp_path, site):
    answers = iter([503, 503, 200])
    url = site.does("/a.png", lambda visit: visit.reply(png(1), status=next(answers)))
    listed(tmp_path, url, site.url("/never"))
    downloads = downloads_at(tmp_path, tries=1)
    first = rows_of_lists(tmp_path, downloads=downloads)
    assert [row["error_code"] for row in first] == [1105, 1106]
    assert rows_of_lists(tmp_path, downloads=downloads) == first
    assert downloads.forget() == 1
    assert [row["error_code"] for row in rows_of_lists(tmp_path, downloads=downloads)] == [1105, 1106]
    assert downloads.forget([url, site.url("/never")]) == 1
    assert [row["error_code"] for row in rows_of_lists(tmp_path, downloads=downloads)] == [None, 1106]
    assert site.asked == {"/a.png": 3, "/never": 1}
    downloads.close()


def test_a_blob_that_the_store_has_lost_is_fetched_again(tmp_path, site):
    listed(tmp_path, site.serve("/a.png", png(1)))
    (row,) = rows_of_lists(tmp_path)
    BlobStore(tmp_path / "store").remove(row["digest"])
    assert rows_of_lists(tmp_path) == [row]
    assert site.asked == {"/a.png": 2}


def test_settings_that_decide_a_refusal_decide_it_anew_and_keep_what_came(tmp_path, site):
    listed(tmp_path, site.serve("/small.png", png(1)), site.serve("/large.png", png(2) + bytes(5000)))
    tight, wide = (sources.SourceSettings(max_item_bytes=size) for size in (1000, 10_000))
    assert [row["error_code"] for row in rows_of_lists(tmp_path, settings=tight)] == [None, 1008]
    assert [row["error_code"] for row in rows_of_lists(tmp_path, settings=wide)] == [None, None]
    assert site.asked == {"/large.png": 2, "/small.png": 1}


def test_items_are_found_again_by_their_locators(tmp_path, site):
    land(tmp_path / "in", {"a.urls.csv": f"url,caption\n{site.serve('/a.png', png(1))},ein Bild\n".encode()})
    _, caption = rows_of_lists(tmp_path)
    assert sources.fetch(SourceRef.from_json(caption["source_ref"]), landing=tmp_path / "in") == b"ein Bild"


def test_a_limit_fetches_no_more_than_it_takes(tmp_path, site):
    listed(tmp_path, *(site.serve(f"/{at}.png", png(at)) for at in range(6)))
    from dataclasses import replace

    (shard,) = sources.scan(tmp_path / "in", settings=SETTINGS)
    downloads = downloads_at(tmp_path)
    rows = sources.ingest(
        replace(shard, limit=2),
        "image",
        landing=tmp_path / "in",
        store=BlobStore(tmp_path / "store"),
        settings=SETTINGS,
        downloads=downloads,
    )
    downloads.close()
    assert (rows.num_rows, len(site.asked)) == (2, 2)


_INGEST = """
import json, sys
from mmlake import sources
from mmlake.settings import Settings
from mmlake.store import BlobStore
from pathlib import Path
root = Path(sys.argv[1])
store = BlobStore(root / "store")
web = Settings.of({'web': json.loads(sys.argv[2])}).web
downloads = sources.JournalledDownloads(root / 'downloads.sqlite', store=store, settings=web)
settings = sources.SourceSettings()
for shard in sources.scan(root / "in", settings=settings):
    sources.ingest(shard, "image", landing=root / "in", store=store, settings=settings, downloads=downloads)
"""


def test_a_killed_ingest_goes_on_where_it_was(tmp_path, site):
    """What had been answered before the kill is never asked for again."""
    stuck = threading.Event()
    urls = [site.serve(f"/{at}.png", png(at)) for at in range(20)]
    stop = site.does("/stop.png", lambda visit: (stuck.wait(), visit.reply(png(99))))
    listed(tmp_path, *urls, stop)
    child = subprocess.Popen(
        [sys.executable, "-c", _INGEST, str(tmp_path), json.dumps(QUICK)], cwd=Path(__file__).parents[3]
    )
    try:
        journal = downloads_at(tmp_path)
        while journal.journal.counts().get(None, 0) < 20 and child.poll() is None:
            time.sleep(0.02)
        assert child.poll() is None  # it waits for the last answer
        os.kill(child.pid, signal.SIGKILL)
    finally:
        child.wait()
        stuck.set()
    assert [row["error_code"] for row in rows_of_lists(tmp_path, downloads=journal)] == [None] * 21
    journal.close()
    assert all(site.asked[f"/{at}.png"] == 1 for at in range(20))


def test_two_who_download_at_once_do_not_ask_twice(tmp_path, site):
    """The second waits and then finds everything in the journal."""
    urls = [site.serve(f"/{at}.png", png(at)) for at in range(30)]
    found: list[list[str | None]] = []

    def download() -> None:
        own = downloads_at(tmp_path)
        found.append([answer.digest for answer in own.fetch(urls, rules=SETTINGS) if answer])
        own.close()

    threads = [threading.Thread(target=download) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[sha(png(at)) for at in range(30)]] * 2
    assert set(site.asked.values()) == {1}


@pytest.mark.parametrize(
    "record",
    [
        {"link": "http://u:geheim@h.example/a?sig=geheim"},
        {"url": "file:///a", "more": {"deep": ["https://u:geheim@h.example/"]}},
    ],
)
def test_no_row_holds_the_credentials_of_an_address_next_to_the_one_that_is_fetched(tmp_path, record):
    land(tmp_path / "in", {"a.urls.jsonl": json.dumps(record).encode()})
    assert "geheim" not in str(rows_of_lists(tmp_path))


def test_a_table_of_a_list_is_out_of_date_when_other_networks_may_be_reached(tmp_path, site):
    """What was refused is content now, and a table knows its settings by its inputs alone."""
    listed(tmp_path, site.serve("/a.png", png(1)))
    closed, reaching = (
        Lake(
            tmp_path / "lake", landing=tmp_path / "in", settings=Settings(web=sources.WebSettings(**{**QUICK, **more}))
        )
        for more in ({"allowed_networks": ()}, {})
    )
    refresh(closed)
    run_step(ROW_STEPS["items"], closed, "image", "a.urls")
    assert is_current(ROW_STEPS["items"], closed, "image", "a.urls") and not is_current(
        ROW_STEPS["items"], reaching, "image", "a.urls"
    )
    run_step(ROW_STEPS["items"], reaching, "image", "a.urls")
    assert reaching.tables.concat("items", "image").column("status").to_pylist() == ["ok"]


@pytest.mark.parametrize("order, code", [(("text", "image"), 1008), (("image", "text"), 1003)])
def test_an_address_without_a_modality_is_one_row_in_one_table_whatever_its_answers(tmp_path, site, order, code):
    """The first table that is made decides for the others; one that is made again moves its rows, and the others
    follow."""
    listed(tmp_path, site.serve("/x", png(1) + bytes(5000)))
    tight, wide = (
        Lake(
            tmp_path / "lake",
            landing=tmp_path / "in",
            settings=Settings(web=sources.WebSettings(**QUICK), sources=sources.SourceSettings(max_item_bytes=size)),
        )
        for size in (1000, 10_000)
    )

    def rows() -> list[tuple[str, int | None]]:
        return [
            (row["modality"], row["error_code"])
            for one in order
            for row in wide.tables.concat("items", one).to_pylist()
        ]

    refresh(tight)
    run_step(ROW_STEPS["items"], tight, order[0], "a.urls")
    run_step(ROW_STEPS["items"], wide, order[1], "a.urls")
    assert rows() == [("text", code)]
    num_made = 0
    while stale := [one for one in order if not is_current(ROW_STEPS["items"], wide, one, "a.urls")]:
        run_step(ROW_STEPS["items"], wide, stale[0], "a.urls")
        num_made += 1
    assert (rows(), num_made) == ([("image", None)], 2)


def test_a_retry_for_one_list_leaves_the_addresses_of_another_in_their_tables(tmp_path, site):
    """Its failures are forgotten for all, and a table of the other list that was not made yet then finds a picture
    where its text table has a failure."""
    answers = iter([503, 200])
    url = site.does("/x", lambda visit: visit.reply(png(1), status=next(answers)))
    (shard,) = sources.scan(listed(tmp_path, url) / "in", settings=SETTINGS)
    downloads, store = downloads_at(tmp_path, tries=1), BlobStore(tmp_path / "store")

    def codes(modality: str) -> list[int | None]:
        return (
            sources.ingest(
                shard, modality, landing=tmp_path / "in", store=store, settings=SETTINGS, downloads=downloads
            )
            .column("error_code")
            .to_pylist()
        )

    assert codes("text") == [1105]
    downloads.forget(lists=["b.urls"])
    assert (codes("image"), codes("text")) == ([], [1003])
    downloads.forget(lists=["a.urls"])
    assert (codes("image"), codes("text")) == ([None], [])
    downloads.close()
