"""What came of every address that was ever asked: one SQLite file, so that nothing is downloaded twice and a killed run goes on.

An answer with bytes counts for ever, one without until what decided it changes: the settings that the row `policy` is the digest of.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from mmlake.errors import TRANSIENT_CODES
from mmlake.records import digest_of
from mmlake.sources.web.answers import Answer
from mmlake.sources.web.naming import shown

_SCHEMA = """
CREATE TABLE IF NOT EXISTS downloads (
    address TEXT PRIMARY KEY, manners TEXT NOT NULL, policy TEXT NOT NULL, code INTEGER, digest TEXT, fetched_s REAL NOT NULL, answer TEXT NOT NULL
) WITHOUT ROWID
"""
_WAIT_S = 30.0  # for another process that writes; a group of answers takes milliseconds


class Journal:
    """The answers by address. One object may be used by several threads one after another, the file by several processes."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path, timeout=_WAIT_S, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")  # a lost commit is a second download, and the file stays whole
        self._database.execute(_SCHEMA)

    def find(self, url: str, *, manners: str, policy: str) -> Answer | None:
        """What came of the address, where it still counts. manners: the digest of what may forbid an answer although it came."""
        row = self._database.execute("SELECT manners, policy, code, answer FROM downloads WHERE address = ?", (_key(url),)).fetchone()
        if row is None or row[0] != manners or (row[2] is not None and row[1] != policy):
            return None
        return Answer(**{**json.loads(row[3]), "url": url})

    def keep(self, answers: Iterable[Answer], *, manners: str, policy: str, now_s: float) -> None:
        """Write the answers down, all or none."""
        rows = [(_key(answer.url), manners, policy, answer.code, answer.digest, now_s, _text(answer)) for answer in answers]
        with closing(self._database.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            cursor.executemany("INSERT OR REPLACE INTO downloads VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            cursor.execute("COMMIT")

    def forget(self, urls: Iterable[str] | None, *, codes: Collection[int] = TRANSIENT_CODES) -> int:
        """How many answers with one of the codes were forgotten, of these addresses or of all: they are asked again at the next ingest."""
        marks = ",".join("?" * len(codes))
        if urls is None:
            return self._database.execute(f"DELETE FROM downloads WHERE code IN ({marks})", (*codes,)).rowcount
        return sum(self._database.execute(f"DELETE FROM downloads WHERE address = ? AND code IN ({marks})", (_key(url), *codes)).rowcount for url in urls)

    def counts(self) -> dict[int | None, int]:
        """How many answers there are by code, None for those with bytes."""
        return dict(self._database.execute("SELECT code, COUNT(*) FROM downloads GROUP BY code").fetchall())

    def close(self) -> None:
        self._database.close()


def _text(answer: Answer) -> str:
    return json.dumps({**asdict(answer), "url": "", "final_url": answer.final_url and shown(answer.final_url)})


def _key(url: str) -> str:
    """The SHA-256 of the address: addresses may hold secrets, and a key of one size is found faster."""
    return digest_of(url.encode("utf-8", "backslashreplace"))
