"""Which licences a recipe admits: SPDX expressions against an allow list and a deny list.

An item's expression is admitted when what the lists leave satisfies it: of `A OR B` one, of `A AND B` both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Any

from mmlake.errors import SettingsError
from mmlake.recipes.sql import near
from mmlake.records import UNKNOWN_LICENCE

_SPECIAL = (UNKNOWN_LICENCE, "NONE")
_REF = re.compile(r"(?:DocumentRef-[A-Za-z0-9.-]+:)?LicenseRef-[A-Za-z0-9.*-]+")


@dataclass(frozen=True)
class Policy:
    """What is allowed and what is denied; each entry an SPDX id, an id with `*`, or an expression."""

    allow: tuple[str, ...]  # empty admits all that is not denied
    deny: tuple[str, ...]  # wins over allow

    def denied(self, licences: Iterable[str]) -> str | None:
        """The first licence, by name, that keeps an item out; None where all are admitted. An item without any
        licence is denied by an allow list."""
        licences = sorted(licences)
        for licence in licences:
            if not self._admits(licence):
                return licence
        return "none stated" if self.allow and not licences else None

    def _admits(self, licence: str) -> bool:
        if not self.allow and not self.deny:
            return True
        if licence not in self._known:
            tree = _tree(licence)
            self._known[licence] = self._satisfied(licence if tree is None else tree)
        return self._known[licence]

    @cached_property
    def _known(self) -> dict[str, bool]:
        return {}

    @cached_property
    def _lists(self) -> tuple[list[str], list[str]]:
        return [id_ for one in self.allow for id_ in _alternatives(one)], [
            id_ for one in self.deny for id_ in _alternatives(one)
        ]

    def _satisfied(self, tree: Any) -> bool:
        allow, deny = self._lists
        text = str(tree) if isinstance(tree, str) else tree.render()
        if text in deny:
            return False
        kind = getattr(tree, "operator", "").strip()
        if kind == "OR":
            return any(self._satisfied(one) for one in tree.args)
        if kind == "AND":
            # an expression that is allowed as it stands is allowed, though its parts alone are not
            return text in allow and not self._denies_one_of(tree) or all(self._satisfied(one) for one in tree.args)
        if any(_matches(text, one) for one in deny):
            return False
        return not allow or any(_matches(text, one) for one in allow)

    def _denies_one_of(self, tree: Any) -> bool:
        return any(_matches(symbol.render(), one) for symbol in tree.symbols for one in self._lists[1])


def normal_licence(text: str, *, where: str) -> str:
    """The entry of a list in its one spelling. Raises SettingsError, with near ids, where it is no SPDX expression."""
    stripped = text.strip()
    if "*" in stripped:
        if not (_REF.fullmatch(stripped) or any(fnmatchcase(one, stripped) for one in _ids())):
            raise SettingsError(
                f"{where}: no SPDX id is like {stripped!r}; expected such as CC-BY-* or LicenseRef-*, see "
                "https://spdx.org/licenses"
            )
        return stripped
    tree = _tree(stripped)
    if tree is None:
        raise SettingsError(
            f"{where}: {stripped!r} is no SPDX expression{near(stripped, _ids())}; expected an id such as CC-BY-4.0, "
            "or ids with AND, OR, WITH and brackets"
        )
    for key in _spdx().unknown_license_keys(tree):
        if str(key) not in _SPECIAL and not _REF.fullmatch(str(key)):
            raise SettingsError(
                f"{where}: {str(key)!r} is no SPDX id{near(str(key), _ids())}; take one of https://spdx.org/licenses, "
                "or LicenseRef-NAME for a licence that is not there"
            )
    return str(tree.render())


def _alternatives(entry: str) -> Iterator[str]:
    """The entries that one of `A OR B` stands for."""
    tree = None if "*" in entry else _tree(entry)
    if getattr(tree, "operator", "").strip() == "OR" and tree is not None:
        for one in tree.args:
            yield from _alternatives(one.render())
    else:
        yield tree.render() if tree is not None else entry


def _matches(licence: str, entry: str) -> bool:
    """Whether the id is the entry's: with an exception, which only permits more, that of the licence itself too."""
    return any(
        one == entry or ("*" in entry and fnmatchcase(one, entry)) for one in {licence, licence.partition(" WITH ")[0]}
    )


@lru_cache(maxsize=1)
def _spdx() -> Any:
    from license_expression import get_spdx_licensing

    return get_spdx_licensing()


@lru_cache(maxsize=1)
def _ids() -> tuple[str, ...]:
    """Every id of the SPDX list, and no other database's."""
    return tuple(sorted(str(id_) for id_ in _spdx().known_symbols if not str(id_).startswith("LicenseRef-")))


@lru_cache(maxsize=4096)  # a lake has few, and every row names one
def _tree(text: str) -> Any:
    """The parsed expression; None where it is none."""
    from license_expression import ExpressionError, ExpressionParseError

    try:
        tree = _spdx().parse(text)
        return None if tree is None else tree.simplify()
    except (ExpressionError, ExpressionParseError):
        return None
