"""List fields of a record that hold one value per image or per text of the sample, split into the values of
each row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mmlake.errors import Fault


def as_list(value: object) -> list[Any] | None:
    """The list that the value is, or that a text holds as JSON, as OBELICS has it; None where it is none."""
    if isinstance(value, str) and value[:1] == "[":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, list) else None


def spread(fields: Mapping[str, Any], names: Iterable[str], tokens: Sequence[Any]) -> list[dict[str, Any]]:
    """Per entry of the list, the values that belong to it; none for an entry that is null, and no value that is
    null."""
    values: list[dict[str, Any]] = [{} for _ in tokens]
    places = [at for at, token in enumerate(tokens) if token is not None]
    for name in names:
        given = as_list(fields.get(name))
        if given is not None:
            # One value per row is the rule; a list as long as the list of entries has its nulls where theirs are.
            aligned = places if len(given) != len(tokens) else range(len(tokens))
            for at, value in zip(aligned, given, strict=False):
                if value is not None and tokens[at] is not None:
                    values[at][name] = value
    return values


def is_spread(fields: Mapping[str, Any], name: str, lists: Sequence[Sequence[Any]]) -> bool:
    """Whether every value of the list field has a row, so that the field says no more of the whole sample. lists:
    those of whose entries it has values."""
    given = as_list(fields.get(name))
    if given is None:
        return False
    if all(len(given) == len(tokens) for tokens in lists):
        return all(value is None or any(tokens[at] is not None for tokens in lists) for at, value in enumerate(given))
    return all(len(given) <= sum(token is not None for token in tokens) for tokens in lists)


def not_lists(fields: Mapping[str, Any], *, per_image: Iterable[str], per_text: Iterable[str]) -> list[Fault]:
    """What is wrong with list fields that are no lists; those that are absent or null are not wrong."""
    found = []
    for names, kind in ((per_image, "image"), (per_text, "text")):
        for name in names:
            value = fields.get(name)
            if value is not None and as_list(value) is None:
                reason = f"is a JSON {type(value).__name__}, expected a list with one value per {kind}"
                found.append(Fault(1003, f"the field {name!r} {reason}"))
    return found
