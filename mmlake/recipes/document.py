"""A recipe as a document: TOML in, `Recipe` out; what does not fit is named with its file, its key and what was
expected."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmlake.errors import SettingsError
from mmlake.recipes.clauses import SIZES
from mmlake.recipes.licences import normal_licence
from mmlake.recipes.mixture import Mixture
from mmlake.recipes.quotas import Quota
from mmlake.recipes.recipe import Recipe
from mmlake.recipes.sql import near
from mmlake.records import ROLES, STATUSES
from mmlake.schemas.cross import COMPONENTS

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
# key -> what its value is, for messages
_TEXTS = {"name": "a name", "description": "a sentence", "where": "a SQL condition"}
_LISTS = {
    "sources": ("a list of names of sources", None),
    "languages": ("a list of codes of languages", None),
    "statuses": ("a list of statuses", STATUSES[:-1]),
    "drop_tiers": ("a list of tiers", ("exact", "near", "semantic")),
    "drop_carried": ("a list of components", COMPONENTS),
    "roles": ("a list of roles", ROLES),
    "required_roles": ("a list of roles", ROLES),
}
_OTHERS = ("weighted", "needs_decision", "seed", "min_caption_score", "size", "licences", "quotas", "mixture")
KEYS = (*_TEXTS, *_LISTS, *_OTHERS)
_QUOTA_KEYS = ("by", "at_most", "share", "at_least", "groups")
_MIXTURE_KEYS = ("by", "weights", "temperature", "epochs")


def read(path: Path) -> Recipe:
    """The recipe of the file. Raises SettingsError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"recipe file {path} cannot be read as text; name another, or correct it") from error
    return parse(text, origin=str(path))


def parse(text: str, *, origin: str) -> Recipe:
    """The recipe of the document. origin: what messages call it. Raises SettingsError."""
    try:
        given = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "nested too deeply"
        raise SettingsError(f"{origin}: not TOML: {reason[:200]}; correct it, see docs/recipes.md") from error
    _known(given, KEYS, origin)
    values: dict[str, Any] = {}
    for key, what in _TEXTS.items():
        if key in given:
            values[key] = _typed(given[key], str, origin, key, what)
    if not NAME.fullmatch(values.get("name", "")):
        raise SettingsError(
            f"{origin}: name is {given.get('name')!r}, expected 1 to 63 of a-z, 0-9, - and _, such as "
            '"captioned-pictures"'
        )
    values.setdefault("description", "")
    for key, (what, known) in _LISTS.items():
        if key in given:
            values[key] = _texts(given[key], origin, key, what, known)
    for key, kind, what in (
        ("weighted", bool, "true or false"),
        ("needs_decision", bool, "true or false"),
        ("seed", int, "a whole number"),
    ):
        if key in given:
            values[key] = _typed(given[key], kind, origin, key, what)
    if "min_caption_score" in given:
        values["min_caption_score"] = _cosine(given["min_caption_score"], origin, "min_caption_score")
    values |= _licences(given.get("licences", {}), origin)
    values["size"] = _sizes(given.get("size", {}), origin)
    values["quotas"] = tuple(
        _quota(one, f"{origin}: quota {number}") for number, one in enumerate(_tables(given, "quotas", origin), start=1)
    )
    if "mixture" in given:
        values["mixture"] = _mixture(given["mixture"], f"{origin}: mixture")
    return Recipe(**values, origin=origin, text=text)


def _known(given: Mapping[str, Any], keys: tuple[str, ...], place: str) -> None:
    for key in given:
        if key not in keys:
            raise SettingsError(f"{place}: unknown key {key!r}{near(key, keys)}; expected some of {', '.join(keys)}")


def _typed(value: Any, kind: type, place: str, key: str, what: str) -> Any:
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise SettingsError(f"{place}: {key} is {str(value)[:80]!r}, expected {what}")
    return value


def _texts(value: Any, place: str, key: str, what: str, known: tuple[str, ...] | None) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise SettingsError(f"{place}: {key} is {str(value)[:80]!r}, expected {what}")
    for one in value:
        if known is not None and one not in known:
            raise SettingsError(f"{place}: {key} has {one!r}{near(one, known)}; expected some of {', '.join(known)}")
    return tuple(value)


def _number(value: Any, place: str, key: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or math.isnan(value):
        raise SettingsError(f"{place}: {key} is {str(value)[:80]!r}, expected a number")
    return float(value)


def _cosine(value: Any, place: str, key: str) -> float:
    number = _number(value, place, key)
    if not -1 <= number <= 1:
        raise SettingsError(f"{place}: {key} is {number:g}, expected a cosine from -1 to 1, such as 0.28")
    return number


def _licences(value: Any, origin: str) -> dict[str, tuple[str, ...]]:
    place = f"{origin}: licences"
    table = _typed(value, dict, origin, "licences", "a table with allow and deny")
    _known(table, ("allow", "deny"), place)
    found = {}
    for key in table:
        entries = _texts(table[key], place, key, "a list of SPDX ids and expressions", None)
        found[f"{key}_licences"] = tuple(normal_licence(one, where=f"{place}: {key}") for one in entries)
    return found


def _sizes(value: Any, origin: str) -> tuple[tuple[str, float | None, float | None], ...]:
    place = f"{origin}: size"
    table = _typed(value, dict, origin, "size", "a table of columns and bounds")
    _known(table, SIZES, place)
    found = []
    for key, bounds in table.items():
        if not isinstance(bounds, list) or len(bounds) != 2:
            raise SettingsError(
                f"{place}: {key} is {str(bounds)[:80]!r}, expected [smallest, largest], inf for an open end"
            )
        low, high = (_number(one, place, key) for one in bounds)
        if low > high:
            raise SettingsError(f"{place}: {key} is [{low:g}, {high:g}], which nothing is within; swap the two")
        found.append((key, None if low == -math.inf else low, None if high == math.inf else high))
    return tuple(found)


def _tables(given: Mapping[str, Any], key: str, origin: str) -> list[dict[str, Any]]:
    tables = given.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise SettingsError(f"{origin}: {key} is {str(tables)[:80]!r}, expected tables, each below [[{key}]]")
    return tables


def _quota(table: dict[str, Any], place: str) -> Quota:
    _known(table, _QUOTA_KEYS, place)
    values: dict[str, Any] = {"by": _typed(table.get("by"), str, place, "by", 'a column, such as "source"')}
    for key in ("at_most", "at_least"):
        if key in table:
            values[key] = _typed(table[key], int, place, key, "a whole number")
    if "share" in table:
        values["share"] = _number(table["share"], place, "share")
    if "groups" in table:
        values["groups"] = _texts(table["groups"], place, "groups", "a list of groups", None)
    quota = Quota(**values)
    quota.check(place)
    return quota


def _mixture(value: Any, place: str) -> Mixture:
    table = _typed(value, dict, place, "mixture", "a table")
    _known(table, _MIXTURE_KEYS, place)
    values: dict[str, Any] = {"by": _typed(table.get("by"), str, place, "by", 'a column, such as "source"')}
    for key in ("weights", "epochs"):
        if key in table:
            numbers = _typed(table[key], dict, place, key, "a table of groups and numbers")
            values[key] = tuple((group, _number(one, place, f"{key}.{group}")) for group, one in numbers.items())
    if "temperature" in table:
        values["temperature"] = _number(table["temperature"], place, "temperature")
    mixture = Mixture(**values)
    mixture.check(place)
    return mixture
