"""Several landing zones as one: each is mounted at a directory of its name, as file systems are at their mount points.

Enters: landing zones by name. Leaves: one landing zone whose paths begin with those names. No reader combines files of
two of them: `parts` and `part_of` give each by itself; a limit counts in each, and annotations search for their images
in their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, NoReturn, TypeVar

from mmlake.errors import MmlakeError, RemoteUnavailable, SettingsError, UnreadableItem
from mmlake.landing.zone import ENCODED, Entry, Landing, LeftOut, portable

T = TypeVar("T")

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_GIVEN = re.compile(rf"({_NAME})=(.*)", re.DOTALL)
_NEXT = re.compile(rf"\s+(?={_NAME}=)")
_MAX_NAME_CHARS = 64  # it begins every key and path
_TAKEN = ("root", "ALL")  # keys of a landing zone's own loose files, and of tables of the whole corpus


class Mounts(Landing):
    """The landing zones by their names. Errors that one of them raises begin with its name."""

    def __init__(self, zones: Mapping[str, Landing]) -> None:
        for name in zones:
            check_name(name)
        self.zones = dict(sorted(zones.items()))
        self.location = ", ".join(f"{name}={zone.location}" for name, zone in self.zones.items())
        self.num_at_once = max((zone.num_at_once for zone in self.zones.values()), default=1)
        self._parts = {name: self if len(zones) == 1 else Mounts({name: zone}) for name, zone in self.zones.items()}

    @classmethod
    def of(cls, places: Mapping[str, T], opener: Callable[[T], Landing]) -> Mounts:
        """The landing zones that `opener` makes of these places by name."""
        zones = {}
        for name, place in places.items():
            with naming(name):
                zones[name] = opener(place)
        return cls(zones)

    def parts(self) -> list[Landing]:
        return list(self._parts.values())

    def part_of(self, path: str) -> Landing:
        return self._parts.get(_split(path)[0]) or Mounts({})

    def naming(self) -> AbstractContextManager[None]:
        return naming(*self.zones) if len(self.zones) == 1 else nullcontext()

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        for name, zone in self.zones.items():
            with naming(name):
                for directory, entries in zone.directories():
                    yield _below(name, directory), _moved(name, entries)

    def directories_below(self, directory: str) -> Iterator[tuple[str, list[Entry]]]:
        if directory == ".":
            yield from self.directories()
            return
        name, zone, inside = self._find(directory)
        with naming(name):
            for listed, entries in zone.directories_below(inside) if zone is not None else ():
                yield _below(name, listed), _moved(name, entries)

    def left_out(self) -> Iterator[LeftOut]:
        for name, zone in self.zones.items():
            with naming(name):
                for one in zone.left_out():
                    yield one._replace(path=_below(name, one.path))

    def files(self, directory: str) -> list[Entry]:
        name, zone, inside = self._find(directory)
        with naming(name):
            return _moved(name, zone.files(inside)) if zone is not None else []

    def stat(self, path: str) -> Entry | None:
        name, zone, inside = self._find(path)
        with naming(name):
            found = zone.stat(inside) if zone is not None else None
        return None if found is None else _moved(name, [found])[0]

    def open(self, path: str) -> IO[bytes]:
        name, zone, inside = self._find(path)
        if zone is None:
            raise UnreadableItem(
                1007 if name in ("", ".", "..") else 1001,
                f"path {path[:200]!r} is in none of the landing zones {list(self.zones)}",
            )
        with naming(name):
            return zone.open(inside)

    def open_listed(self, entry: Entry) -> IO[bytes]:
        name, zone, inside = self._find(entry.path)
        if zone is None:
            return self.open(entry.path)
        with naming(name):
            return zone.open_listed(entry._replace(path=inside))

    def head(self, path: str, size_bytes: int) -> bytes:
        name, zone, inside = self._find(path)
        with naming(name):
            return zone.head(inside, size_bytes) if zone is not None else super().head(path, size_bytes)

    def has(self, path: str) -> bool:
        name, zone, inside = self._find(path)
        with naming(name):
            return zone.has(inside) if zone is not None else path == "."

    def local_path(self, path: str) -> Path | None:
        _, zone, inside = self._find(path)
        return None if zone is None else zone.local_path(inside)

    def provenance(self) -> dict[str, object]:
        return {"location": self.location, "zones": {name: zone.provenance() for name, zone in self.zones.items()}}

    def defaults(self, directory: str = ".") -> dict[str, str]:
        name, zone, inside = self._find(directory)
        with naming(name):
            return {} if zone is None else {"source": name} | zone.defaults(inside)

    def sparing(self) -> Mounts:
        return Mounts.of(self.zones, lambda zone: zone.sparing())

    def verify(self, path: str) -> None:
        name, zone, inside = self._find(path)
        with naming(name):
            if zone is not None:
                zone.verify(inside)

    def _find(self, path: str) -> tuple[str, Landing | None, str]:
        name, inside = _split(path)
        return name, self.zones.get(name), inside


class UnreachableLanding(Landing):
    """A landing zone that could not be opened: each of its methods raises the error that said why, so that the others
    next to it can be read."""

    location = "not reachable"  # its own may hold a credential

    def __init__(self, error: MmlakeError) -> None:
        self.error = error

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        self._raise()

    def files(self, directory: str) -> list[Entry]:
        self._raise()

    def stat(self, path: str) -> Entry | None:
        self._raise()

    def open(self, path: str) -> IO[bytes]:
        self._raise()

    def _raise(self) -> NoReturn:
        raise type(self.error)(str(self.error)) from self.error


def check_name(name: str) -> None:
    """Raises SettingsError where a landing zone cannot be called that."""
    if re.fullmatch(_NAME, name) is None or len(name) > _MAX_NAME_CHARS or name in _TAKEN:
        raise SettingsError(
            f"landing zone name {name[:200]!r}: expected a letter or digit and then letters, digits, '.', '_' "
            f"and '-', at most {_MAX_NAME_CHARS} characters, and none of "
            f"{list(_TAKEN)}; write --landing NAME=ADDRESS with such a name, or ./{name[:60]}=... for a "
            "directory that is called so"
        )


def addresses_of(texts: Sequence[str]) -> str | dict[str, str] | None:
    """What the values of --landing mean: the address of one landing zone without a name, addresses by name, or None for
    no value at all.

    A value names its landing zone where it begins with NAME=; nothing behind that removes the landing zone. Logins stay
    in the addresses: the code that opens them takes them out. Raises SettingsError for values that do not go together.
    """
    given: dict[str, str] = {}
    for text in texts:
        match = _GIVEN.fullmatch(text)
        if match is None:
            if len(texts) > 1:
                raise SettingsError(
                    f"--landing was given {len(texts)} times and not each time with a name; write --landing "
                    "NAME=ADDRESS for each"
                )
            return text or None
        name, address = match.groups()
        check_name(name)
        if name in given:
            raise SettingsError(f"--landing {name}= was given twice; give each landing zone a name of its own")
        if Path(text).is_dir():
            raise SettingsError(
                f"--landing {text} is a directory, and reads as the landing zone {address!r} under the name "
                f"{name!r}; write ./{text}, or {name}=./{address}"
            )
        given[name] = address
    return given or None


def addresses_in(text: str) -> str | dict[str, str] | None:
    """What an environment variable means: the values that `addresses_of` takes, with blanks or line ends between
    them."""
    return addresses_of(_NEXT.split(text.strip()) if _GIVEN.fullmatch(text.strip()) else [text] if text else [])


@contextmanager
def naming(name: str) -> Iterator[None]:
    """A context whose SettingsError and RemoteUnavailable begin with the landing zone's name."""
    try:
        yield
    except (SettingsError, RemoteUnavailable) as error:
        if str(error).startswith(f"landing zone {name!r}: "):
            raise
        raise type(error)(f"landing zone {name!r}: {error}") from error


def _moved(name: str, entries: Sequence[Entry]) -> list[Entry]:
    return [
        Entry(_below(name, entry.path), entry.size_bytes, entry.modified_ns, entry.refused, entry.version)
        for entry in entries
    ]


def _below(name: str, path: str) -> str:
    """The portable path of a file of the named landing zone as the whole spells it."""
    if path.startswith(ENCODED):
        return f"{ENCODED}{name}/{path.removeprefix(ENCODED)}"
    return name if path == "." else f"{name}/{path}"


def _split(path: str) -> tuple[str, str]:
    """(name, portable path inside). Refused entries are spelled as no other path is, so an encoded path stays as it
    is."""
    mark = ENCODED if path.startswith(ENCODED) else ""
    name, _, inside = path.removeprefix(mark).partition("/")
    return name, (mark + inside if mark else portable(inside)) if inside else "."
