"""The rules that a lake keeps towards hosts and publishers, as far as downloads need them. `SourceSettings` is one set
of them."""

from __future__ import annotations

from typing import Protocol


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
