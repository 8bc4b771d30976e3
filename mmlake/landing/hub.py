"""A landing zone in a data set on the Hugging Face hub: `hf://datasets/<org>/<name>[@revision][/path/inside]`.

The revision is resolved to a commit when the landing zone is opened, and everything is read at that commit. The tree of
files is asked for once; files are read by ranges. The data set's card (README.md) is no item, but its licence is the
default of the rows.
"""

from __future__ import annotations

import copy
import hashlib
import io
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import IO, Any, cast

from mmlake.errors import SettingsError, UnreadableItem
from mmlake.landing.zone import Entry, Landing, is_odd, left_out_as, native, odd_entry, portable
from mmlake.optional import need
from mmlake.remote.backoff import Retries
from mmlake.remote.checked_file import CheckedFile
from mmlake.remote.connections import RemoteConnections
from mmlake.remote.hub import HubFile, HubRepo, hub_library, without_tokens
from mmlake.remote.reading import open_file
from mmlake.remote.settings import RemoteSettings

_LOG = logging.getLogger("mmlake.landing")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ODD = (
    "a path that no directory tree has: absolute, with an empty, '.' or '..' part, or with a character of no file name"
)
_CARD = "README.md"
_MAX_CARD_BYTES = 4 << 20
_READ_BYTES = 1 << 20
_BUFFER_BYTES = 64 << 10  # parsers read a few bytes at a time; larger reads pass it by


class HubLanding(Landing):
    """A landing zone in a data set on the Hugging Face hub.

    Opening it asks the hub what the revision is, unless it is a commit already. Raises SettingsError for an address
    that is none, a data set or revision that is not there or denied, and offline mode; RemoteUnavailable where the hub
    does not answer.
    """

    def __init__(
        self,
        address: str,
        *,
        endpoint: str | None = None,
        retries: Retries | None = None,
        remote: RemoteSettings | None = None,
        connections: RemoteConnections | None = None,
    ) -> None:
        asked = _parsed(address)
        self._repo = HubRepo(asked.id, endpoint=endpoint, retries=retries)
        revision = asked.revision or "main"
        self.revision = revision if _COMMIT.fullmatch(revision) else self._repo.commit(revision)
        self._directory = asked.path_in_repo.strip("/")
        self.location = type(asked)(
            type="dataset", id=asked.id, revision=self.revision, path_in_repo=self._directory
        ).to_uri()
        self._remote, self._connections = remote or RemoteSettings(), connections or RemoteConnections()
        self.num_at_once = self._remote.files_at_once
        self._cache = self._connections.cache(self._remote)
        self._verified: set[str] = set()

    @cached_property
    def _files(self) -> dict[str, HubFile]:
        """Every file below the directory, by its portable path; without paths that no directory tree has."""
        return {portable(path): file for path, file in self._tree.items() if not _is_odd(path)}

    @cached_property
    def _tree(self) -> dict[str, HubFile]:
        """Every file below the directory, by its path as the hub states it."""
        prefix = f"{self._directory}/" if self._directory else ""
        return {
            file.path.removeprefix(prefix): file
            for file in self._repo.tree(self.revision, self._directory)
            if file.path.startswith(prefix)
        }

    @cached_property
    def _listed(self) -> dict[str, list[Entry]]:
        """Directory -> its entries, sorted; hidden, unfinished and marker files and the card are left out."""
        found: dict[str, list[Entry]] = {}
        for path in self._files:
            directory, _, name = path.rpartition("/")
            is_below_hidden = any(part.startswith(".") for part in directory.split("/"))
            is_card = path == _CARD and not self._directory
            if not is_below_hidden and left_out_as(name) is None and not is_card:
                found.setdefault(directory or ".", []).append(self._entry(path))
        for path in filter(_is_odd, self._tree):
            found.setdefault(".", []).append(odd_entry(".", path, _ODD))
        for entries in found.values():
            entries.sort(key=lambda entry: entry.path)
        return found

    def _entry(self, path: str) -> Entry:
        file = self._files[path]
        # A commit has no time of its own in a listing, and needs none: its files never change.
        return Entry(path, file.size_bytes, 0, version=file.sha256 or file.git_id)

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        for directory in sorted(self._listed, key=lambda name: [] if name == "." else name.split("/")):
            yield directory, list(self._listed[directory])

    def files(self, directory: str) -> list[Entry]:
        return list(self._listed.get(directory, ()))

    def stat(self, path: str) -> Entry | None:
        return self._entry(path) if path in self._files else None

    def open(self, path: str) -> IO[bytes]:
        entry = self.stat(path)
        if entry is None and _is_odd(native(path)):
            raise UnreadableItem(1007, f"path {path[:200]!r} leaves the landing zone")
        if entry is None:
            raise UnreadableItem(1001, "the file is missing at this revision")
        file = self._files[path]
        return self._open(file) if file.size_bytes else io.BytesIO(b"")

    def _open(self, file: HubFile) -> IO[bytes]:
        read_range = self._repo.reader(self.revision, file)
        raw = open_file(self._cache, self._identity(file), file.size_bytes, read_range)
        checked = CheckedFile(
            raw, size_bytes=file.size_bytes, expected=file.sha256 or file.git_id, hasher=_hasher(file)
        )
        return cast("IO[bytes]", io.BufferedReader(checked, _BUFFER_BYTES))

    def _identity(self, file: HubFile) -> str:
        """Without the revision: a file that a new commit leaves alone is not fetched again."""
        return f"{self._repo.endpoint}/datasets/{self._repo.name}/{file.path}@{file.sha256 or file.git_id}"

    def sparing(self) -> HubLanding:
        self._files  # listed once, for both  # noqa: B018
        other = copy.copy(self)
        other._cache = self._connections.cache(replace(self._remote, ahead_blocks=0))
        return other

    def verify(self, path: str) -> None:
        if path in self._verified:
            return
        try:
            with self.open(path) as file:
                while file.read(_READ_BYTES):
                    pass
        except UnreadableItem:
            # else another try would read the same bytes
            self._cache.forget(self._identity(self._files[path]), self._files[path].size_bytes)
            raise
        self._verified.add(path)

    @cached_property
    def _card(self) -> dict[str, Any]:
        """The YAML at the head of the data set's card; empty where there is none, or none that can be read."""
        found = (
            self._files.get(_CARD)
            if not self._directory
            else next((file for file in self._repo.tree(self.revision) if file.path == _CARD), None)
        )
        if found is None or not 0 < found.size_bytes <= _MAX_CARD_BYTES:
            return {}
        with self._open(found) as file:
            text = file.read().decode("utf-8-sig", "replace")
        if not text.lstrip().startswith("---"):
            return {}
        broken = (
            ValueError,
            TypeError,
            RecursionError,
            need("yaml", extra="hub", purpose="reading the card of a data set").YAMLError,
        )
        try:
            return dict(hub_library().DatasetCard(text, ignore_metadata_errors=True).data.to_dict())
        except broken:
            _LOG.warning(
                "%s: the YAML at the head of %s cannot be read, so the data set has no default licence",
                self.location,
                _CARD,
            )
            return {}

    def defaults(self, directory: str = ".") -> dict[str, str]:
        licence = _licence(self._card)
        return {"source": self._repo.name} | ({"licence": licence} if licence else {})

    def provenance(self) -> dict[str, str]:
        return {"location": self.location, "revision": self.revision}


def _parsed(address: str) -> Any:
    """The address in its parts, as huggingface_hub has them."""
    try:
        found = hub_library("huggingface_hub.utils").parse_hf_uri(address)
    except ValueError:
        found = None
    if found is None or found.type != "dataset":
        raise SettingsError(
            f"landing zone {without_tokens(address)!r} is no data set on the hub; write "
            "hf://datasets/<org>/<name>[@revision][/directory]"
        )
    return found


def _is_odd(path: str) -> bool:
    """Whether no directory tree has the path, or a character of it is none that a file name can hold."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return True
    return is_odd(path)


def _hasher(file: HubFile) -> Any:
    """A new hasher of the kind that the publisher's hash is of: SHA-256 for files in large file storage, else git's
    SHA-1, which begins with a header."""
    if file.sha256:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % file.size_bytes, usedforsecurity=False)


def _licence(card: dict[str, Any]) -> str | None:
    """The card's licence in its own spelling; None where it names several, since which of them a row has is not
    known."""
    found = card.get("license")
    if isinstance(found, list):
        found = found[0] if len(found) == 1 else None
    if found in ("other", "unknown"):
        found = card.get("license_name")
    return found if isinstance(found, str) and found.strip() else None
