"""What other files say of a sample, as the sample asks for it: who says so is the concern of `companions`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mmlake.sources.raw_items import Member, RawItem


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """What other files say of one sample."""

    texts: tuple[RawItem, ...] = ()  # text rows, without the sample's id and place
    metadata: Mapping[str, Any] = field(default_factory=dict)  # of all rows of the sample
    media: Mapping[str, Any] = field(default_factory=dict)  # of the rows of media alone
    licence: str | None = None  # of the media alone, as it is spelled there


class Companion(Protocol):
    """Files that describe the samples of a shard. It is asked once for every sample, in their order, and then for what
    belongs to none."""

    has_texts: bool  # whether there may be text rows

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """What the files say of the sample; nothing where they describe none of the shard."""
        return Description()

    def rest(self) -> Iterator[RawItem]:
        """Rows of what belongs to no sample of the shard, or cannot be read; none where other shards have those."""
        return iter(())
