"""A landing zone on a web server: a directory page whose links are listed, or one file: `https://host/data/`,
`https://host/data/train.tar.gz`.

Pages are read as Apache, nginx, Caddy and Python's http.server write them; links that leave the directory, and links
with a query, are left out. Size, ETag and Last-Modified of a file are asked for by HEAD. Bytes are read by ranges
through the block cache.
"""

from __future__ import annotations

import copy
import io
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import IO, Any, cast
from urllib.parse import quote, urlsplit

from mmlake.errors import SettingsError, UnreadableItem
from mmlake.landing.zone import MARKERS, Entry, Landing, is_odd, left_out_as, native, odd_entry, portable
from mmlake.remote.backoff import Retries
from mmlake.remote.connections import RemoteConnections
from mmlake.remote.directory_pages import PATH, decoded, encoded
from mmlake.remote.reading import open_file
from mmlake.remote.settings import RemoteSettings
from mmlake.remote.spool_file import SpooledFile, measured
from mmlake.remote.website import FileHeaders, IsDirectory, NoPage, NoRanges, Website
from mmlake.streams import Seekable, expect

_BUFFER_BYTES = 64 << 10  # parsers read a few bytes at a time; larger reads pass it by
_MAX_DEPTH = 32  # directories below each other: a server that answers every path would go on without end
_MAX_LINKS = 2_000_000  # half a gigabyte of names
_EXAMPLE = "expected http(s)://host[:port]/directory/ or the address of one file"
_ODD = "a link to a path that no directory tree has: with an empty, '.' or '..' part, or a slash in a name"
_BOTH = "a file whose name is also a directory's"
_UNMEASURED = "a file whose size the server does not state, and that is larger than `remote.spool_bytes`"


@dataclass(slots=True)
class _Page:
    """What one directory holds, by native names."""

    names: set[str] = field(default_factory=set)
    markers: set[str] = field(default_factory=set)
    refused: list[Entry] = field(default_factory=list)


@dataclass(slots=True)
class _Linked:
    """What a page links to, by native paths from the landing zone's root."""

    files: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    refused: list[Entry] = field(default_factory=list)


class WebsiteLanding(Landing):
    """A landing zone on a web server.

    A person names it, so it may be in a private network, unlike the addresses in a list of URLs. A redirect from a
    public server into a private network is not followed, and no login goes to another origin. Opening it asks nothing.
    Raises SettingsError for an address that is none, MissingExtra.
    """

    def __init__(
        self,
        address: str,
        *,
        remote: RemoteSettings | None = None,
        connections: RemoteConnections | None = None,
        retries: Retries | None = None,
    ) -> None:
        self._remote, self._connections = remote or RemoteSettings(), connections or RemoteConnections()
        self.location = _checked(self._connections.logins.take_from(address))
        self.num_at_once = self._remote.files_at_once
        self._website = Website(self.location, settings=self._remote, connections=self._connections, retries=retries)
        self._pages: dict[str, _Page] = {}  # native directory -> what its last listing found
        self._sizes: dict[str, FileHeaders] = {}  # address -> what was measured, of files whose size is not stated
        # values of `has_ranges` that mean none here: None, too, once a file without that header came whole
        self._rangeless: set[bool | None] = {False}

    @cached_property
    def _only(self) -> str | None:
        """The native name of the one file that the address is; None where it is a directory."""
        if self.location.endswith("/"):
            return None
        try:
            stated = self._website.head(self.location)
        except IsDirectory:
            return None
        except UnreadableItem as error:
            raise SettingsError(
                f"landing zone {self.location} cannot be read: {error.reason}; correct the address"
            ) from None
        if stated is None:
            raise SettingsError(
                f"landing zone {self.location} is not there, {_EXAMPLE}; a directory's address ends in a slash"
            )
        name = decoded(self.location.rpartition("/")[2])
        if "/" in name or "\0" in name:
            raise SettingsError(
                f"landing zone {self.location}: the name of the file has a slash in it, {_EXAMPLE}; land a copy "
                "under another name"
            )
        return name

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        if self._only is not None:
            yield ".", [self._entry(self._only)]
            return
        self._sizes.clear()
        self._pages = self._crawl(".")
        with self._pool() as pool:
            for directory in sorted(self._pages, key=_parts):
                if entries := self._entries(directory, pool):
                    yield portable(directory), entries

    def files(self, directory: str) -> list[Entry]:
        plain = native(directory)
        if self._only is not None:
            return [self._entry(self._only)] if plain == "." else []
        if plain != "." and is_odd(plain):
            return []
        page = self._crawl(plain, is_deep=False).get(plain) or self._pages.get(plain)
        if page is None:
            return []
        self._pages[plain] = page
        with self._pool() as pool:
            return self._entries(plain, pool)

    def has(self, path: str) -> bool:
        plain = native(path)
        if plain == "." or self.stat(path) is not None:
            return True
        if self._only is not None or is_odd(plain):
            return False
        return bool(self.files(path)) or any(page.names or page.refused for page in self._crawl(plain).values())

    def stat(self, path: str) -> Entry | None:
        """As `Landing.stat`; a marker is answered for by the last listing of its directory, so that a scan does not
        ask for each."""
        plain = native(path)
        if is_odd(plain) or (self._only is not None and plain != self._only):
            return None
        directory, _, name = plain.rpartition("/")
        page = self._pages.get(directory or ".")
        if name in MARKERS and page is not None and name not in page.markers:
            return None
        try:
            stated = self._stated(plain)
        except UnreadableItem:
            return None
        return None if stated is None else self._entry_of(plain, stated)

    def open(self, path: str) -> IO[bytes]:
        plain = native(path)
        if is_odd(plain):
            raise UnreadableItem(1007, f"path {path[:200]!r} leaves the landing zone")
        stated = None if self._only is not None and plain != self._only else self._stated(plain)
        if stated is None:
            raise UnreadableItem(1001, "the file is missing")
        if stated.size_bytes is None:
            raise UnreadableItem(1001, _UNMEASURED)
        if stated.size_bytes == 0:
            return io.BytesIO()
        return cast(
            "IO[bytes]", io.BufferedReader(_WebFile(self, self._url(plain), stated, stated.size_bytes), _BUFFER_BYTES)
        )

    def sparing(self) -> WebsiteLanding:
        other = copy.copy(self)
        other._remote = replace(self._remote, ahead_blocks=0)
        return other

    def _crawl(self, start: str, *, is_deep: bool = True) -> dict[str, _Page]:
        """The pages of a directory and of those below it, by native directory; none where it has no page. Raises
        SettingsError where the landing zone itself has none, or is too deep or too large."""
        found: dict[str, _Page] = {}
        level, seen, num_links = [start], {start}, 0
        with self._pool() as pool:
            for depth in range(_MAX_DEPTH + 1):
                below: dict[str, None] = {}
                for directory, (linked, problem) in zip(level, pool.map(self._links, level), strict=True):
                    if problem is not None and directory == start:
                        if start == ".":
                            raise SettingsError(
                                f"landing zone {self.location} is no directory page: {problem}; {_EXAMPLE}"
                            )
                        return {}
                    if problem is not None:
                        parent, _, name = directory.rpartition("/")
                        _page(found, parent).refused.append(
                            odd_entry(parent or ".", name, f"a directory that cannot be listed: {problem}")
                        )
                    num_links += len(linked.files) + len(linked.directories) + len(linked.refused)
                    if num_links > _MAX_LINKS:
                        raise SettingsError(
                            f"landing zone {self.location} has more than {_MAX_LINKS} links; name a directory below it"
                        )
                    _page(found, directory).refused.extend(linked.refused)
                    for path in linked.files:
                        _take(found, path)
                    below.update((path, None) for path in linked.directories if path not in seen)
                if not below or not is_deep:
                    break
                if depth == _MAX_DEPTH:
                    raise SettingsError(
                        f"landing zone {self.location} has more than {_MAX_DEPTH} levels of directories; name a "
                        "directory below it"
                    )
                level = sorted(below)
                seen.update(level)
        for directory in found:
            _refuse_doubles(directory, found, seen)
        return found

    def _links(self, directory: str) -> tuple[_Linked, str | None]:
        """(what the directory's page links to, without hidden directories; why it has no page)."""
        linked = _Linked()
        try:
            links = self._website.links(self._url(directory, is_directory=True))
        except (NoPage, UnreadableItem) as error:
            return linked, error.reason
        for link in links:
            path = "/".join(link.parts if directory == "." else (directory, *link.parts))
            if link.is_odd:
                linked.refused.append(odd_entry(directory, "/".join(link.parts), _ODD))
            elif not any(part.startswith(".") for part in link.parts[: None if link.is_directory else -1]):
                (linked.directories if link.is_directory else linked.files).append(path)
        return linked, None

    def _entries(self, directory: str, pool: ThreadPoolExecutor) -> list[Entry]:
        page = self._pages[directory]
        paths = [name if directory == "." else f"{directory}/{name}" for name in sorted(page.names)]
        return sorted([*page.refused, *pool.map(self._entry, paths)], key=lambda entry: entry.path)

    def _entry(self, path: str) -> Entry:
        """What the server says of a linked file; a refused entry where it does not give it."""
        try:
            stated = self._stated(path)
        except UnreadableItem as error:
            return Entry(portable(path), 0, 0, error.reason)
        if stated is None:
            return Entry(portable(path), 0, 0, "a link that leads nowhere")
        return self._entry_of(path, stated)

    def _entry_of(self, path: str, stated: FileHeaders) -> Entry:
        if stated.size_bytes is None:
            return Entry(portable(path), 0, 0, _UNMEASURED)
        return Entry(portable(path), stated.size_bytes, _modified_ns(stated.modified), version=stated.version or None)

    def _stated(self, path: str) -> FileHeaders | None:
        """What is stated of the file; a file of unknown size is read through once to measure it."""
        url = self._url(path)
        stated = self._website.head(url)
        if stated is None or stated.size_bytes is not None:
            return stated
        before = self._sizes.get(url)
        if before is not None and not before.differs(stated):
            return before
        headers = measured(self._website, url, stated, settings=self._remote)
        if headers is not None:
            self._sizes[url] = headers
        return headers or stated

    def _url(self, path: str, *, is_directory: bool = False) -> str:
        if self._only is not None:
            return self.location
        root = f"{self.location.rstrip('/')}/"
        return root if path == "." else f"{root}{encoded(path)}{'/' if is_directory else ''}"

    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._remote.connections, thread_name_prefix="mmlake-listing")


class _WebFile(Seekable):
    """One version of a file: read by ranges through the block cache, or through a temporary file once the server
    turns out to have no ranges."""

    def __init__(self, landing: WebsiteLanding, url: str, stated: FileHeaders, size_bytes: int) -> None:
        self._landing, self._url, self._stated, self._size, self._at = landing, url, stated, size_bytes, 0
        self._file: Any = None
        if stated.has_ranges not in landing._rangeless:
            cache = landing._connections.cache(landing._remote)
            self._file = open_file(cache, self._identity(), size_bytes, self._read_range)

    def expect(self, ranges: Sequence[tuple[int, int]]) -> None:
        if self._file is not None:
            expect(self._file, ranges)

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._some(len(buffer))
        except NoRanges:
            if self._stated.has_ranges is None:
                self._landing._rangeless.add(None)
            self._file.close()
            self._file = None
            data = self._some(len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed and self._file is not None:
            self._file.close()
        super().close()

    def _some(self, size: int) -> bytes:
        """The next bytes, of one block at most: the buffer above asks for more than its reader wants, which must not
        fetch a further block."""
        file = self._opened()
        data: bytes = file.read(size) if isinstance(file, SpooledFile) else file.read1(size)
        return data

    def _opened(self) -> Any:
        if self._file is None:
            self._file = SpooledFile(
                self._landing._website, self._url, self._stated, size_bytes=self._size, settings=self._landing._remote
            )
        self._file.seek(self._at)
        return self._file

    def _read_range(self, offset: int, size: int) -> bytes:
        return self._landing._website.read_range(self._url, self._stated, offset=offset, size=size)

    def _identity(self) -> str:
        """The file's name in the cache. Without an ETag or a time, nothing distinguishes two versions: the cache then
        serves this open file alone."""
        version = self._stated.version or self._stated.modified or f"unknown {secrets.token_hex(8)}"
        return f"{self._url}@{version}"


def _checked(address: str) -> str:
    """The address in one spelling. Raises SettingsError, which repeats nothing that may be a credential."""
    try:
        parts = urlsplit(address)
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if not host or "@" in parts.netloc or any(character.isspace() for character in parts.netloc):
        raise SettingsError(
            f"an http(s):// address has no host, or a host or port that is none, {_EXAMPLE}; correct it, and "
            "percent-encode what is special in a password"
        )
    shown = f"{parts.scheme.lower()}://{f'[{host}]' if ':' in host else host}{'' if port is None else f':{port}'}"
    if "?" in address or "#" in address:
        raise SettingsError(
            f"landing zone at {shown}: the address has a query or a fragment, {_EXAMPLE}; signed addresses "
            "expire, give a login instead"
        )
    segments = [decoded(part) for part in parts.path.split("/")[1:]]
    if is_odd("/".join(segments).rstrip("/")) and any(segments):
        raise SettingsError(f"landing zone at {shown}: its path has an empty, '.' or '..' part, {_EXAMPLE}; correct it")
    return f"{shown}{quote(parts.path, safe=PATH + '%') or '/'}"


def _parts(directory: str) -> list[str]:
    return [] if directory == "." else directory.split("/")


def _page(found: dict[str, _Page], directory: str) -> _Page:
    return found.setdefault(directory or ".", _Page())


def _take(found: dict[str, _Page], path: str) -> None:
    """Add the file to its directory; a marker to the directory's markers, a hidden or unfinished file nowhere."""
    directory, _, name = path.rpartition("/")
    if name in MARKERS:
        _page(found, directory).markers.add(name)
    elif left_out_as(name) is None:
        _page(found, directory).names.add(name)


def _refuse_doubles(directory: str, found: dict[str, _Page], directories: set[str]) -> None:
    """Of a file and a directory of one name, the file is refused: their shards would have one key."""
    page = found[directory]
    for name in sorted(page.names):
        path = name if directory == "." else f"{directory}/{name}"
        if path in found or path in directories:
            page.names.discard(name)
            page.refused.append(Entry(portable(path), 0, 0, _BOTH))


def _modified_ns(header: str) -> int:
    """Nanoseconds since 1970 of an HTTP date; 0 where it is none, or one that a table's integer does not hold."""
    try:
        found = int(parsedate_to_datetime(header).timestamp()) * 1_000_000_000
        return found if abs(found) < 1 << 63 else 0
    except (ValueError, OverflowError):
        return 0
