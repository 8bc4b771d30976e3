"""Lists of URLs for the fuzzer: their seeds, answers that never leave the process, and whether every line got its
rows."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from mmlake import sources
from mmlake.download.results import DownloadResult
from mmlake.download.url_checks import parse_url
from mmlake.errors import UnreadableItem
from mmlake.records import digest_of
from mmlake.sources.records.lines import ENDINGS

_FAILURES = ((1103, None), (1105, 503), (1106, 404), (1108, 200))
_ADDRESSES = (
    "http://a.example/p.png", "https://b.example/s.flac", "http://c.example/page", "http://127.0.0.1:1/x",
    "file:///etc/passwd", "http://user:secret@d.example/x",
    "http://2130706433/", "http://[::1]/x", "javascript:alert(1)", "http://e.example/%ff%00",
    "http://\u0430.example/\u202egnp.jpg", "", "HTTP://A.EXAMPLE/p.png", "//f.example/x.jpg",
)  # fmt: skip


def is_list(name: str) -> bool:
    """Whether a file of this name is read as a list of URLs."""
    return name.lower().endswith(ENDINGS)


def lists() -> list[tuple[str, bytes]]:
    """(name, bytes) of one list in every spelling; addresses good, refused and odd, hashes right in form and not."""
    hashes = (digest_of(b"x"), "00", "zz" * 32, "", "A" * 64)
    records = [
        {"url": url, "caption": f"caption {at}", "sha256": hashes[at % len(hashes)]}
        for at, url in enumerate(_ADDRESSES)
    ]
    records[2] |= {"image_url": "http://g.example/q.png", "license": "CC BY 4.0"}
    plain = ("# a list\n\n" + "\n".join(_ADDRESSES) + "\n").encode()
    quoted = "".join(f'"{record["url"]}","caption\n{at}",{record["sha256"]}\r\n' for at, record in enumerate(records))
    tabbed = "".join(f"{record['url']}\t{record['caption']}\n" for record in records)
    sink = io.BytesIO()
    pq.write_table(
        pa.Table.from_pylist([{"image_url": None, **record} for record in records]),
        sink,
        row_group_size=5,
        write_page_checksum=True,
    )
    return [
        ("a.urls", plain),
        ("a.urls.txt.gz", gzip.compress(plain, mtime=0)),
        ("a.urls.jsonl", b"".join(json.dumps(record).encode() + b"\n" for record in records)),
        ("a.urls.csv", b"url,caption,sha256\r\n" + quoted.encode()),
        ("a.urls.tsv", b"url\tcaption\n" + tabbed.encode()),
        ("image/a.urls.parquet", sink.getvalue()),
    ]


class Answers:
    """Downloads whose answers follow from the address; what the rules for addresses refuse is refused."""

    def __init__(self, store: Any, bodies: dict[str, bytes]) -> None:
        self._store, self._bodies = store, sorted(bodies.items())

    def fetch(self, urls: Iterable[str | None], *, rules: sources.SourceSettings) -> Iterator[DownloadResult | None]:
        """One answer per address, in their order, None for None."""
        for url in urls:
            yield None if url is None else self._answer(url)

    def _answer(self, url: str) -> DownloadResult:
        from mmlake.formats.urls import kind_of

        bare = DownloadResult(url=url)
        try:
            parse_url(url)
        except UnreadableItem as error:
            return replace(bare, code=error.code, reason=error.reason)
        number = int(digest_of(url.encode("utf-8", "backslashreplace"))[:8], 16)
        if number % 4 == 0:
            code, status = _FAILURES[number // 4 % len(_FAILURES)]
            return replace(bare, code=code, reason="said so", status=status)
        _, body = self._bodies[number % len(self._bodies)]
        kind = kind_of(body[:4096], content_type="", url=url, stream=lambda: io.BytesIO(body))
        digest = self._store.put(body, extension=kind.extension if kind else "bin")
        found = (kind.content_type, kind.modality, kind.extension) if kind else (None, None, "bin")
        return replace(
            bare,
            status=200,
            digest=digest,
            size_bytes=len(body),
            content_type=found[0],
            modality=found[1],
            extension=found[2],
        )

    def for_table(self, name: str, modality: str, *, rules: sources.SourceSettings) -> Answers:
        """Itself: its answers never change."""
        return self

    def table_of(self, answer: DownloadResult) -> str:
        """The modality whose table has the row."""
        return answer.modality or "text"

    def open(self, answer: DownloadResult) -> IO[bytes]:
        """The bytes of an answer that has a digest."""
        assert answer.digest is not None
        opened: IO[bytes] = self._store.open(answer.digest)
        return opened


def lost(name: str, data: bytes, rows: list[dict[str, Any]]) -> list[str]:
    """Lines of the list that have no row. data: expanded."""
    named = {(json.loads(row["source_ref"]).get("member") or "").partition("/")[0] for row in rows}
    lower = name.lower().removesuffix(".gz").removesuffix(".zst").removesuffix(".bz2").removesuffix(".xz")
    if lower.endswith(".parquet"):
        wanted = _parquet_rows(data)
    elif lower.endswith((".csv", ".tsv")):
        return []  # where a record of these ends is what quotes say; its rows are counted by `row_faults`
    else:
        comments = not lower.endswith(".jsonl")
        lines = enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1)
        wanted = [
            f"line:{number}"
            for number, line in lines
            if line.strip() and not (comments and line.strip().startswith(b"#"))
        ]
    if any(
        row["error_code"] in (1001, 1002, 1008) and json.loads(row["source_ref"]).get("member") not in wanted
        for row in rows
    ):
        return []  # a row says where reading ended
    return [f"{place} of the list gave no row" for place in wanted if place not in named]


def _parquet_rows(data: bytes) -> list[str]:
    try:
        return [
            f"row:{number}"
            for number in range(1, pq.read_table(io.BytesIO(data), page_checksum_verification=True).num_rows + 1)
        ]
    except (pa.ArrowException, OSError, ValueError):
        return []
