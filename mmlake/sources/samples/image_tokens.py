"""Which member a token of an interleaved list names: one of its sample, or an image that lies in the shard under a
stem of its own."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from mmlake.sources.raw_items import Member
from mmlake.sources.settings import SourceSettings

# next to `texts` and `images`: where sound and films stand in an interleaved sample that this library wrote
MEDIA_LISTS = ("audios", "videos")


class Pictures:
    """The images of a shard by their whole names; asked only for what a sample's own images do not answer."""

    def __init__(self, members: Iterable[Member] = ()) -> None:
        self._by_name: dict[str, Member] = {}
        for member in members:
            if member.modality == "image":
                self._by_name.setdefault(member.name.removeprefix("./"), member)

    @cached_property
    def _by_base(self) -> dict[str, Member]:
        found: dict[str, Member] = {}
        for name, member in self._by_name.items():
            found.setdefault(name.rpartition(".")[0], member)
        return found

    def named(self, name: object) -> Member | None:
        """The image of that name, folder included."""
        return self._by_name.get(name) if isinstance(name, str) else None

    def called(self, base: object) -> Member | None:
        """The image of that name and some extension."""
        return self._by_base.get(base) if isinstance(base, str) else None


class Tokens:
    """The names that one sample's lists may use."""

    def __init__(
        self,
        members: Sequence[Member],
        bases_of: Callable[[Sequence[Member]], set[str]],
        *,
        shard: Pictures,
        settings: SourceSettings,
    ) -> None:
        """bases_of: what the names of these members begin with before the position."""
        self._members, self._bases_of, self._shard, self._settings = members, bases_of, shard, settings
        # images, and what nothing shows to be something else, by their names; made when first asked for
        self._named_so: dict[str, Member] | None = None

    @cached_property
    def _bases(self) -> set[str]:
        return self._bases_of(self._members)

    def image(self, token: Any, position: int, fields: Mapping[str, Any]) -> Member | None:
        """The image that a token of the record's list names: one of the sample's own by its whole name, its file name,
        or what follows the stem; else one of the shard by its whole name, or by its path from the record's directory.

        A token that names none stands for the image of `default_image_field`, else for the sample's first image, else
        for the first image of the shard that the list names, else for the image that is called like the sample. None
        where the token names a member outright, or is `<stem>.<position>.<extension>` as writers of interleaved rows
        name members, and there is none of that name: no other may stand in for it.
        """
        settings = self._settings
        if isinstance(token, str) and token:
            if self._named_so is None:
                self._named_so = {
                    member.name: member for member in self._members[::-1] if member.modality in ("image", None)
                }
            if (found := self._named_so.get(token) or self._own.get(token) or self._named(token)) is not None:
                return found
            if any(token.startswith(f"{base}.{position}.") for base in self._bases):
                return None
        elif isinstance(token, dict) and isinstance(name := token.get(settings.member_field), str):
            return self._own.get(name) or self._named(name)
        named = fields.get(settings.default_image_field) if settings.default_image_field else None
        if isinstance(named, str) and named and (found := self._own.get(named) or self._named(named)) is not None:
            return found
        if "" in self._own:
            return self._own[""]
        others = fields.get(settings.images_field)
        in_list = (self._named(one) for one in others) if isinstance(others, list) else iter(())
        return next((one for one in in_list if one is not None), None) or (
            self._shard.called(fields.get(settings.sample_id_field)) if settings.sample_id_field else None
        )

    def _named(self, name: object) -> Member | None:
        """The image of the shard that has this whole name, or that lies there as seen from the record's directory."""
        found = self._shard.named(name)
        if found is None and isinstance(name, str) and name:
            found = self._shard.named(
                posixpath.normpath(posixpath.join(self._members[0].stem.rpartition("/")[0], name))
            )
        return found

    @cached_property
    def _own(self) -> dict[str, Member]:
        """The sample's images by everything that a token may call them; the first image stands under ""."""
        found: dict[str, Member] = {}
        for member in self._members:
            if member.modality == "image":
                found.setdefault("", member)
                base = member.name.rpartition("/")[2]
                short = base.removeprefix(member.stem.rpartition("/")[2] + ".")
                for name in (member.name, base, base.rpartition(".")[0], short, short.rpartition(".")[0]):
                    found.setdefault(name, member)
        return found

    def media_lists(self, fields: Mapping[str, Any]) -> list[str]:
        """Which of the lists `audios` and `videos` name members at their positions, as the writer of interleaved
        rows leaves them."""
        return [name for name in MEDIA_LISTS if name in fields and self._are_places(fields[name])]

    def _are_places(self, tokens: Any) -> bool:
        if not isinstance(tokens, list) or not any(tokens):
            return False
        return all(
            isinstance(one, str) and any(one.startswith(f"{base}.{at}.") for base in self._bases)
            for at, one in enumerate(tokens)
            if one is not None
        )

    @cached_property
    def by_file_name(self) -> dict[str, Member]:
        """The members by their names without folders."""
        return {member.name.rpartition("/")[2]: member for member in self._members}


def separated(members: Iterable[Member], bases: Sequence[str]) -> list[list[Member]]:
    """One group per base, which becomes its stem; a member goes with the longest base that its name begins with,
    others with the first."""
    groups: dict[str, list[Member]] = {base: [] for base in bases}
    by_length = sorted(bases, key=len, reverse=True)
    for member in members:
        name = member.name.removeprefix("./")
        base = next((base for base in by_length if name.startswith(f"{base}.")), bases[0])
        member.stem = base
        groups[base].append(member)
    return list(groups.values())
