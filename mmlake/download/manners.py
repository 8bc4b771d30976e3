"""How a lake behaves towards hosts and publishers, as far as downloads need to know. `SourceSettings` says so."""

from __future__ import annotations

from typing import Protocol


class Manners(Protocol):
    """What decides which addresses have an answer, whatever the network does."""

    @property
    def agent(self) -> str:
        """The product token of our user agent."""

    @property
    def respect_opt_out(self) -> bool:
        """Whether answers whose publisher asks not to be used for training stay out."""

    @property
    def respect_robots(self) -> bool:
        """Whether addresses that robots.txt does not allow to our agent are never asked for."""

    @property
    def max_item_bytes(self) -> int:
        """The largest body, also after its codings are undone."""
