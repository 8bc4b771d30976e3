"""Texts of media that lie with these in one archive, in a directory of their own (`parallel_texts.py`), as VCTK and CUB
are published.

Enters: the names of all members. Leaves: which texts are of media, and what they say of each sample. One that no sample
took is the document that it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from mmlake.formats.texts import printable
from mmlake.media_names import is_media_name
from mmlake.sources.companions.parallel_texts import ENDING, role_in, text_directories, text_stem_of
from mmlake.sources.names import composed, stem_of
from mmlake.sources.raw_items import Member, RawItem, Reading
from mmlake.sources.samples.companion import Companion, Description

_directories = lru_cache(256)(text_directories)


class InnerTexts(Companion):
    """What texts in an archive say of media in another of its directories."""

    has_texts = True

    def __init__(self, reading: Reading, texts: dict[int, int], member_at: Callable[[int], Member]) -> None:
        """texts: the hash of what a text is called without its ending -> its number."""
        self._reading, self._texts, self._member_at = reading, texts, member_at
        self.own, self._said = frozenset(texts.values()), set[int]()

    @classmethod
    def of(
        cls,
        reading: Reading,
        may_be: Sequence[int],
        names: Iterable[str],
        *,
        name_at: Callable[[int], str],
        member_at: Callable[[int], Member],
    ) -> InnerTexts | None:
        """None where no text is of a medium. may_be: members that lie in directories of texts, by number. names: of all
        members."""
        known: dict[int, int] = {}
        for at in may_be:
            known.setdefault(hash(_path_of(name_at(at))[: -len(ENDING)]), at)
        found = {key: known[key] for name in names if is_media_name(name) for key in _keys_of(name) if key in known}
        return cls(reading, found, member_at) if found else None

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """The texts that have the name of a medium of the sample."""
        media = [member for member in members if member.is_media]
        present = {member.modality for member in media if member.modality}
        keys = dict.fromkeys(key for member in media for key in _keys_of(member.name) if key in self._texts)
        return Description(texts=tuple(self._item(self._texts[key], present) for key in keys))

    def rest(self) -> Iterator[RawItem]:
        """The texts of media that turned out to be none."""
        for at in sorted(self.own - self._said):
            yield self._item(at, set())

    def _item(self, at: int, present: set[str]) -> RawItem:
        """present: the modalities of the media that the text is of; none where there are none."""
        member = self._member_at(at)
        self._said.add(at)
        item = RawItem("text", member.locate(""), "", role=role_in(member.name, present) if present else "document")
        item.sample_id = "" if present else f"{self._reading.key}/{printable(stem_of(member.name))}"
        item.content_type, item.extension, item.size_bytes = "text/plain", "txt", member.size_bytes
        item.content, item.fault = member.content, member.fault
        return item


def _keys_of(name: str) -> list[int]:
    """Hashes of what the texts of a medium may be called, without their ending."""
    folder, _, base = _path_of(name).rpartition("/")
    stem = text_stem_of(base)
    return [hash(f"{directory}/{stem}") for directory in _directories(folder)]


def _path_of(name: str) -> str:
    return composed(name).removeprefix("./")
