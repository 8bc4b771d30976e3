"""The interface of a downloader: addresses in, one result for each. The downloader itself is in `downloads.py`;
connectors know only this."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Protocol

from mmlake.download.settings import CrawlRules


@dataclass(frozen=True, kw_only=True, slots=True)
class DownloadResult:
    """The outcome for one address: bytes in the store, or why there are none."""

    url: str
    code: int | None = None  # of `errors.CODES`; None where the bytes are there
    reason: str | None = None
    status: int | None = None  # of HTTP, where a response came
    digest: str | None = None
    size_bytes: int = 0
    content_type: str | None = None  # detected from the bytes
    extension: str = "bin"
    modality: str | None = None
    charset: str | None = None
    final_url: str | None = None  # where redirects led elsewhere
    headers: dict[str, str] = field(default_factory=dict)  # the few that are kept
    num_tries: int = 1


class Downloads(Protocol):
    """Fetches addresses once and remembers the results."""

    def fetch(self, urls: Iterable[str | None], *, rules: CrawlRules) -> Iterator[DownloadResult | None]:
        """One result per address, in the order of the addresses, None for None. What was fetched before is not
        fetched again."""

    def open(self, result: DownloadResult) -> IO[bytes]:
        """The bytes of a result that has a digest."""

    def for_table(self, name: str, modality: str, *, rules: CrawlRules) -> Downloads:
        """The same downloads for making the table of that modality of the list of that name: its `table_of` knows which
        addresses are rows of the list's other tables."""

    def table_of(self, result: DownloadResult) -> str:
        """The modality whose table has the row of an address that only its content can classify."""
