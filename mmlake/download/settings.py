"""How the web is fetched: how much at once, how patiently, and from where; of that only `reach` changes rows. And the
rules that a lake keeps towards hosts and publishers: `SourceSettings` is one set of them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Protocol

from mmlake.errors import SettingsError
from mmlake.records import canonical_json, digest_of


@dataclass(frozen=True, kw_only=True, slots=True)
class WebSettings:
    """Limits of the downloader of URL lists."""

    contact: str = ""
    # a page or mail address that our user agent names, so that those who run a site can complain.
    max_parallel: int = 64
    # responses read at once over all hosts; two cores are busy with about as many small pictures.
    max_parallel_per_host: int = 4
    # responses read at once from one host; browsers take 6.
    host_delay_s: float = 0.0
    # seconds between the starts of two requests to one host; a Crawl-delay in robots.txt raises it.
    max_crawl_delay_s: float = 60.0
    # seconds; a longer Crawl-delay counts as this, since a list would never end.
    connect_timeout_s: float = 10.0
    # seconds until a connection stands, name and TLS included.
    idle_timeout_s: float = 20.0
    # seconds without a byte.
    total_timeout_s: float = 600.0
    # seconds for one response; a film of 4 GB at 7 MB/s.
    max_redirects: int = 5
    # hops; RFC 9309 asks for five at robots.txt, browsers take 20.
    tries: int = 3
    # requests for one address in one run, the first included; `mmlake retry` asks again later.
    max_pause_s: float = 20.0
    # seconds; the bound of a wait between two tries, and of a Retry-After that is waited for.
    allowed_networks: tuple[str, ...] = ()
    # networks that are fetched from although they are not public ("127.0.0.0/8"). Empty: nothing inside can be reached
    # through a list.

    @property
    def reach(self) -> str:
        """The digest of what decides which addresses can have content at all: rows made with another reach are out of
        date."""
        return digest_of(canonical_json([self.allowed_networks, self.max_redirects]).encode())

    def __post_init__(self) -> None:
        for network in self.allowed_networks:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                fix = "write an address with its prefix length, such as '10.1.0.0/16'"
                raise SettingsError(f"web.allowed_networks holds {network!r}, which is no network; {fix}") from error
        counts = ("max_parallel", "max_parallel_per_host", "tries")
        for name in (*counts, "total_timeout_s", "idle_timeout_s", "connect_timeout_s"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"web.{name} is {getattr(self, name)}, expected more than 0")


class CrawlRules(Protocol):
    """What decides which addresses have content, whatever the network does."""

    @property
    def agent(self) -> str:
        """The product token of our user agent."""

    @property
    def respect_opt_out(self) -> bool:
        """Whether content whose publisher opts out of training stays out."""

    @property
    def respect_robots(self) -> bool:
        """Whether addresses that robots.txt does not allow to our agent are never requested."""

    @property
    def max_item_bytes(self) -> int:
        """The largest body, also after its codings are undone."""
