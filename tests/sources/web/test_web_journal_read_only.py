"""The journal of downloads in a lake that can only be read."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mmlake.download.journal import Journal, is_writable
from mmlake.download.results import DownloadResult
from tests.sources.source_builders import SETTINGS, png, sha
from tests.sources.web.site import downloads_at, listed, rows_of_lists

JOURNALS = "mmlake.download.journal.is_writable"
URL = "http://host.example/a.png"
ROOT = Path(__file__).parents[3]


def test_a_place_without_the_right_to_write_is_detected(tmp_path, monkeypatch):
    (tmp_path / "there").touch()
    assert is_writable(tmp_path / "there") and is_writable(tmp_path / "new")
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK or Path(path) == tmp_path)
    assert (
        not is_writable(tmp_path / "there")
        and is_writable(tmp_path / "new")
        and not is_writable(tmp_path / "below" / "new")
    )


def test_two_that_open_a_new_journal_at_once_both_read_it(tmp_path):
    barrier, found = threading.Barrier(2), list[bool]()

    def opened(path: Path) -> None:
        barrier.wait()
        found.append(knows(Journal(path)))

    for number in range(40):
        pair = [threading.Thread(target=opened, args=(tmp_path / str(number) / "downloads.sqlite",)) for _ in range(2)]
        for thread in pair:
            thread.start()
        for thread in pair:
            thread.join()
    assert found == [False] * 80


def keep(path: Path, *urls: str) -> None:
    journal = Journal(path)
    journal.record([DownloadResult(url=url, digest="0" * 64) for url in urls], rules="m", policy="p", now_s=0.0)
    journal.close()


def knows(journal: Journal, url: str = URL) -> bool:
    return journal.find(url, valid_rules=["m"], policy="p") is not None


@pytest.fixture
def closed(monkeypatch):
    """As if nothing could be written anywhere: the kernel lets root write whatever the permissions say."""
    monkeypatch.setattr(JOURNALS, lambda path: False)


@pytest.fixture
def path(tmp_path) -> Path:
    """A journal with one address."""
    keep(tmp_path / "lake" / "downloads.sqlite", URL)
    return tmp_path / "lake" / "downloads.sqlite"


def test_it_is_read_and_no_file_is_made_next_to_it(path, closed):
    journal = Journal(path)
    assert (
        knows(journal),
        journal.last(URL).url,
        journal.generation("a.urls", "image", policy="p"),
        journal.counts(),
    ) == (
        True,
        URL,
        0,
        {None: 1},
    )
    assert os.listdir(path.parent) == [path.name]
    journal.close()


@pytest.mark.parametrize(
    "write",
    [
        lambda one: one.forget(None),
        lambda one: one.begin_table("a", "image", policy="p"),
        lambda one: one.record([], rules="m", policy="p", now_s=0.0),
    ],
)
def test_writing_says_where_it_cannot(path, closed, write):
    journal = Journal(path)
    with pytest.raises(OSError, match=r"cannot be written here.*downloads\.sqlite"):
        write(journal)
    journal.close()


def test_what_a_killed_process_left_in_the_log_counts(path, closed, monkeypatch):
    code = """
import os, sys
from pathlib import Path
from mmlake.download.results import DownloadResult
from mmlake.download.journal import Journal
from mmlake.download.journal import is_writable
journal = Journal(Path(sys.argv[1]))
journal.record([DownloadResult(url=sys.argv[2], digest="0" * 64)], rules="m", policy="p", now_s=0.0)
os._exit(9)
"""
    subprocess.run([sys.executable, "-c", code, path, "http://host.example/b.png"], cwd=ROOT, check=False)
    # it does not survive a restart of the machine everywhere, and no copy of a lake needs it
    path.with_name(f"{path.name}-shm").unlink()
    before = {one.name: one.read_bytes() for one in path.parent.iterdir()}
    assert before[f"{path.name}-wal"]
    journal = Journal(path)
    assert knows(journal) and knows(journal, "http://host.example/b.png")
    journal.close()
    assert {one.name: one.read_bytes() for one in path.parent.iterdir()} == before


def test_what_another_machine_writes_is_seen(path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(JOURNALS, lambda path: False)
        reader = Journal(path)
    later = "http://host.example/b.png"
    assert (knows(reader), knows(reader, later)) == (True, False)
    writer = Journal(path)
    writer.record([DownloadResult(url=later, digest="0" * 64)], rules="m", policy="p", now_s=0.0)
    assert knows(reader, later)
    writer.close()
    assert knows(reader, later)
    reader.close()


def test_known_addresses_are_answered_where_nothing_can_be_written(tmp_path, site, monkeypatch):
    url = site.serve("/a.png", png(1))
    rows_of_lists(listed(tmp_path, url))
    monkeypatch.setattr(JOURNALS, lambda path: False)
    downloads = downloads_at(tmp_path)
    assert [answer.digest for answer in downloads.fetch([url], rules=SETTINGS)] == [sha(png(1))]
    assert not list(tmp_path.glob("downloads.sqlite-*"))
    downloads.close()


def test_a_journal_that_is_not_there_is_not_made(tmp_path, closed):
    with pytest.raises(FileNotFoundError, match="downloads"):
        knows(Journal(tmp_path / "downloads.sqlite"))
    assert os.listdir(tmp_path) == []
