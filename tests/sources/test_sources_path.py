"""How far it is from a member of an archive to its row: whoever follows one picture reads few files."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import mmlake
from mmlake import sources
from mmlake.landing import as_landing
from mmlake.sources.parsed_files import ParsedFiles
from mmlake.store import BlobStore
from tests.sources.source_builders import land, png, tar

ROOT = Path(mmlake.__file__).parent
OWN = ("sources/", "formats/", "download/", "landing/")


def _files_of(directory: Path, store: BlobStore) -> set[str]:
    """The files of the library whose functions run while a shard of one picture becomes a row, as a step makes it: the
    landing zone is open, and somebody draws the progress."""
    settings, landing, done = sources.SourceSettings(), as_landing(directory), list[int]()
    (shard,) = sources.scan(landing, settings=settings)
    parsed = ParsedFiles()  # a lake has one for all of its shards
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            found.add(path.relative_to(ROOT).as_posix())

    before = sys.getprofile()
    with store.batch():
        sys.setprofile(note)
        try:
            table = sources.ingest(
                shard, "image", landing=landing, store=store, settings=settings, parsed=parsed, advance=done.append
            )
        finally:
            sys.setprofile(before)
    assert table.column("status").to_pylist() == ["ok"] and done == [1]
    return found


def test_a_picture_in_a_tar_passes_through_eleven_files_at_most(tmp_path: Path) -> None:
    """Those of the store and the vocabulary of all stages are counted apart; decision 0056 says what they are."""
    found = _files_of(land(tmp_path / "in", {"a.tar": tar({"x.png": png()})}), BlobStore(tmp_path / "blobs"))
    assert len([name for name in found if name.startswith(OWN)]) <= 11
    assert len([name for name in found if name.startswith(OWN[:3])]) <= 9
    assert len(found) <= 20
    rest = {name.partition("/")[0] for name in found if not name.startswith(OWN)}
    assert rest <= {"store", "streams.py", "records.py", "schemas"}
