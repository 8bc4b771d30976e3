"""What a directory says about everything below it: `_source.json` with {"source", "licence", "priority"}, nearest
directory first."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from mmlake.errors import SettingsError, UnreadableItem
from mmlake.landing import Entry, Landing, as_landing
from mmlake.records import UNKNOWN_LICENCE
from mmlake.sources.licences import spdx_licence

FILE_NAME = "_source.json"
DEFAULT_PRIORITY = 100
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Defaults:
    """What rows get where their record says nothing."""

    source: str
    licence: str
    priority: int


def defaults_of(landing: Landing, directory: str) -> Defaults:
    """The defaults of a directory: of `_source.json` files, then what the landing zone itself knows, then the first
    part of the path ("root" for loose files there)."""
    fields: dict[str, object] = {}
    for path in _candidates(directory):
        for name, value in _read(landing, path).items():
            fields.setdefault(name, value)
    for name, value in landing.defaults(directory).items():
        fields.setdefault(name, value)
    source = fields.get("source", "root" if directory == "." else directory.split("/")[0])
    return Defaults(
        str(source),
        spdx_licence(fields["licence"]) if "licence" in fields else UNKNOWN_LICENCE,
        int(str(fields.get("priority", DEFAULT_PRIORITY))),
    )


def default_files(landing: Landing, directory: str) -> list[Entry]:
    """The `_source.json` files that govern a directory, as far as they exist."""
    return [entry for path in _candidates(directory) if (entry := landing.stat(path)) is not None]


def priorities(landing: Landing | str | os.PathLike[str]) -> dict[str, int]:
    """Priority by source name, smaller wins; 100 where nobody said. A source that is given two priorities keeps the
    smaller."""
    landing = as_landing(landing)
    found: dict[str, int] = {}
    for directory, _ in landing.directories():
        given = defaults_of(landing, directory)
        found[given.source] = min(found.get(given.source, given.priority), given.priority)
    return dict(sorted(found.items()))


def _candidates(directory: str) -> list[str]:
    parts = [] if directory == "." else directory.split("/")
    return ["/".join([*parts[:depth], FILE_NAME]) for depth in range(len(parts), -1, -1)]


def _read(landing: Landing, path: str) -> dict[str, object]:
    if landing.stat(path) is None:
        return {}
    where = f"{landing.location}: {path}"
    try:
        with landing.open(path) as file:
            fields = json.loads(file.read(_MAX_BYTES))
    except UnreadableItem as error:
        raise SettingsError(
            f"{where} cannot be read, and may say whose the files beside it are ({error.reason}); put a file "
            "there, or delete it"
        ) from error
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise SettingsError(
            f"{where} is not a JSON object; write one with the fields source, licence (an SPDX id) and priority "
            "(an integer)"
        )
    if "license" in fields:
        fields.setdefault("licence", fields.pop("license"))
    if unknown := fields.keys() - {"source", "licence", "priority"}:
        raise SettingsError(
            f"{where} has the unknown fields {sorted(unknown)}; it may have source, licence and priority"
        )
    for name, kind in (("source", str), ("licence", str), ("priority", int)):
        if name in fields and (
            not isinstance(fields[name], kind) or isinstance(fields[name], bool) or fields[name] == ""
        ):
            raise SettingsError(
                f"{where}: {name} is {fields[name]!r}, expected {'an integer' if kind is int else 'a non-empty string'}"
            )
    return fields
