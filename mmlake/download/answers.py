"""What is asked of a downloader and what it answers. The downloader itself is in `downloads.py`; connectors know
only this."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Protocol

from mmlake.download.manners import Manners


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came of one address: bytes in the store, or why there are none."""

    url: str
    code: int | None = None  # of `errors.CODES`; None where the bytes are there
    reason: str | None = None
    status: int | None = None  # of HTTP, where an answer came
    digest: str | None = None
    size_bytes: int = 0
    content_type: str | None = None  # told from the bytes
    extension: str = "bin"
    modality: str | None = None
    charset: str | None = None
    final_url: str | None = None  # where redirects led elsewhere
    headers: dict[str, str] = field(default_factory=dict)  # the few that are kept
    num_tries: int = 1


class Downloads(Protocol):
    """Fetches addresses once and remembers what came of them."""

    def answers(self, urls: Iterable[str | None], *, rules: Manners) -> Iterator[Answer | None]:
        """One answer per address, in the order of the addresses, None for None. What was fetched before is not
        fetched again."""

    def open(self, answer: Answer) -> IO[bytes]:
        """The bytes of an answer that has a digest."""

    def telling(self, name: str, modality: str, *, rules: Manners) -> Downloads:
        """The same downloads for whoever makes the table of that modality of the list of that name: they know where
        the other tables have its addresses."""

    def home(self, answer: Answer) -> str:
        """The modality whose table has the row of the address, of which only the content tells any."""
