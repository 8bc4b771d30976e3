"""Storage that fsspec knows, one file system for one address: listings, facts about files, ranges, with our own errors.

Enters: an address such as gs://bucket/prefix and the storage options for it. Only the schemes of `STORAGES` are opened:
each reads one remote storage (or this process's memory) and nothing else. Refused are those that read files of this
machine (file, local, git), unpack or copy (zip, tar, filecache), lead on to other addresses (reference, dir, generic)
or run on a cluster's workers (dask, jupyter): an address must not read more than it says. File systems that block are
used by one thread at a time. Texts of fsspec's libraries are not passed on.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from mmlake.errors import MissingBackend, RemoteUnavailable, SettingsError, UnreadableItem
from mmlake.optional import need
from mmlake.remote.backoff import TRANSIENT, Retries, Transient, reason_of
from mmlake.remote.connections import RemoteConnections
from mmlake.remote.credentials import Logins, options_of
from mmlake.remote.settings import RemoteSettings

_Result = TypeVar("_Result")
STORAGES: dict[str, tuple[str, str]] = {  # scheme -> (the package that fsspec reads it with, its module)
    "gs": ("gcsfs", "gcsfs"),
    "gcs": ("gcsfs", "gcsfs"),
    "az": ("adlfs", "adlfs"),
    "abfs": ("adlfs", "adlfs"),
    "abfss": ("adlfs", "adlfs"),
    "oss": ("ossfs", "ossfs"),
    "oci": ("ocifs", "ocifs"),
    "tos": ("tosfs", "tosfs"),
    "lakefs": ("lakefs-spec", "lakefs_spec"),
    "dropbox": ("dropboxdrivefs", "dropboxdrivefs"),
    "box": ("boxfs", "boxfs"),
    "gdrive": ("gdrive-fsspec", "gdrive_fsspec"),
    "dbfs": ("requests", "requests"),
    "github": ("requests", "requests"),
    "ftp": ("fsspec", "ftplib"),
    "sftp": ("paramiko", "paramiko"),
    "ssh": ("paramiko", "paramiko"),
    "smb": ("smbprotocol", "smbprotocol"),
    "hdfs": ("pyarrow", "pyarrow"),
    "webhdfs": ("requests", "requests"),
    "root": ("fsspec-xrootd", "fsspec_xrootd"),
    "memory": ("fsspec", "fsspec"),
}
_VERSIONS = (
    "etag",
    "ETag",
    "generation",
    "md5Hash",
    "content_md5",
    "md5",
    "md5Checksum",
    "checksum",
    "content_hash",
    "sha",
    "crc32c",
)
_TIMES = (
    "mtime",
    "LastModified",
    "last_modified",
    "updated",
    "modified",
    "modifiedTime",
    "modify",
    "modificationTime",
    "modification_time",
    "timeModified",
    "created",
)
# What the libraries raise besides Python's own connection errors: (module, class).
_FAILURES = (
    ("builtins", "OSError"),
    ("builtins", "EOFError"),
    ("ftplib", "Error"),
    ("paramiko", "SSHException"),
    ("requests", "RequestException"),
    ("aiohttp", "ClientError"),
    ("azure.core.exceptions", "AzureError"),
    ("gcsfs.retry", "HttpError"),
    ("google.auth.exceptions", "GoogleAuthError"),
    ("smbprotocol.exceptions", "SMBException"),
    ("oss2.exceptions", "OssError"),
)
_REFUSALS = (  # trying again would not help, and may lock an account
    ("ftplib", "error_perm"),
    ("paramiko", "AuthenticationException"),
    ("azure.core.exceptions", "ClientAuthenticationError"),
    ("google.auth.exceptions", "DefaultCredentialsError"),
)
_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_PASSED_ON: tuple[type[Exception], ...] = (*_ABSENT, *TRANSIENT)
_PLACE = re.compile(r"[a-z][a-z0-9+.-]*://[^?#\r\n\t]*", re.IGNORECASE)
_SLOW_S = 20.0  # a failed try that took longer has waited for a timeout, or the library has tried several times in it
_MILLISECONDS = 1e11  # a time in seconds is smaller until the year 5138


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What the storage says of a path."""

    path: str  # as the file system spells it
    kind: str  # "file", "directory" or another
    size_bytes: int | None
    version: str | None
    modified_ns: int  # 0 where it says none


class Storage:
    """One file system of fsspec, made at its first use, and again in a forked process. Threads may share it."""

    def __init__(
        self, address: str, *, settings: RemoteSettings, connections: RemoteConnections, retries: Retries | None = None
    ) -> None:
        """connections: keeps the login of the address. Raises SettingsError for an address that is refused, and for a
        package that is missing."""
        self._logins = connections.logins
        self.location = _checked(address, self._logins)
        self._scheme = self.location.partition("://")[0]
        self._settings, self._retries = settings, retries or Retries()
        self._made: tuple[int, Any, Any] | None = None
        self._lock = threading.Lock()
        self.root = _class_of(self._scheme)._strip_protocol(self.location).strip("/")
        self._start = (
            "/" if _class_of(self._scheme)._strip_protocol(f"{self.location.rstrip('/')}/x").startswith("/") else ""
        )

    def listed(self, path: str) -> list[FileInfo] | None:
        """What is directly in the directory; None where there is none."""
        found = self._ask(lambda files: files.ls(self._start + path, detail=True), f"LIST {self.location}")
        return (
            None
            if found is None
            else [_info_of(one) for one in found if str(one["name"]).strip("/") != path or one.get("type") == "file"]
        )

    def info(self, path: str) -> FileInfo | None:
        """What the storage says of the path now; None where there is nothing. Raises UnreadableItem where that is
        refused."""
        found = self._ask(lambda files: files.info(self._start + path), f"INFO {self.location}", of_file=True)
        return None if found is None else _info_of(found)

    def read_range(self, opened: FileInfo, *, offset: int, size: int) -> bytes:
        """Exactly these bytes of the file as it was opened. Raises UnreadableItem 1001 where it changed, is gone or
        refused; RemoteUnavailable."""

        def read(files: Any) -> bytes:
            return bytes(files.cat_file(self._start + opened.path, start=offset, end=offset + size))

        attempts = self._retries.begin(f"GET {self.location}")
        while True:
            data = self._ask(read, f"GET {self.location}", of_file=True)
            self._same(opened)
            if data is None or len(data) > size:
                raise RemoteUnavailable(
                    f"GET {self.location}: the answer is not the {size} bytes from byte {offset}; the storage "
                    "does not keep to byte ranges, use another way"
                )
            if len(data) == size:
                return data
            attempts.wait(Transient(f"{len(data)} of {size} bytes"))

    def _same(self, opened: FileInfo) -> None:
        """Return if the file is what it was when it was opened. Raises UnreadableItem 1001."""
        now = self.info(opened.path)
        if now is None or (now.size_bytes, now.version, now.modified_ns) != (
            opened.size_bytes,
            opened.version,
            opened.modified_ns,
        ):
            raise UnreadableItem(1001, "the file changed while it was read: the version that was opened is gone")

    def _ask(self, action: Callable[[Any], _Result], what: str, *, of_file: bool = False) -> _Result | None:
        """What the action returns; None where the file system finds nothing."""

        slow: list[float] = []

        def once() -> _Result:
            with _only_twice(slow, what), _in_our_words(what, of_file=of_file):
                files, lock = self._files()
                try:
                    with lock:
                        files.invalidate_cache()  # what was listed before may have changed
                        return action(files)
                except (*_ABSENT, PermissionError):
                    raise
                except _loaded(_FAILURES) as error:
                    if not files.async_impl or isinstance(error, (ConnectionError, TimeoutError, EOFError)):
                        # a broken connection stays broken, which paramiko may say by any OSError: the next try makes
                        # another
                        self._made = None
                    raise

        try:
            return self._retries.call(once, what=what)
        except _ABSENT:
            return None

    def _files(self) -> tuple[Any, Any]:
        """(the file system, the lock to hold while it is used)."""
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                kind = _class_of(self._scheme)
                options = {**kind._get_kwargs_from_urls(self.location), **options_of(self.location, self._settings)}
                if (login := self._logins.of(self.location)) is not None:
                    options |= {"username": login.user, "password": login.password}
                try:
                    made = kind(**options, skip_instance_cache=True)
                except (TypeError, ValueError, NotImplementedError) as error:
                    raise SettingsError(
                        f"{self.location}: fsspec opens nothing there with the options {sorted(options)} "
                        f"({type(error).__name__}); correct the address or remote.storage_options"
                    ) from None
                self._made = (os.getpid(), made, nullcontext() if made.async_impl else threading.Lock())
            return self._made[1], self._made[2]


@contextmanager
def _only_twice(slow: list[float], what: str) -> Iterator[None]:
    """Raises RemoteUnavailable at the second failure that took long, since the library has then tried many times by
    itself. slow: seconds of those before."""
    began_s = time.monotonic()
    try:
        yield
    except TRANSIENT as error:
        if (took_s := time.monotonic() - began_s) > _SLOW_S:
            slow.append(took_s)
        if len(slow) > 1:
            raise RemoteUnavailable(
                f"{what}: {len(slow)} tries took longer than {_SLOW_S:.0f} s each and failed, the last by "
                f"{reason_of(error)}; see whether the service is up and reachable, then run again: what is done "
                "stays done"
            ) from None
        raise


@contextmanager
def _in_our_words(what: str, *, of_file: bool) -> Iterator[None]:
    """Turns what file systems raise into our errors, or into Transient. Their texts are not passed on, since they
    may hold a token."""
    try:
        yield
    except _PASSED_ON:
        raise
    except ImportError as error:
        raise SettingsError(
            f"{what}: a library that its storage needs does not load ({error.name}); install it"
        ) from None
    except PermissionError:
        if of_file:
            raise UnreadableItem(1001, "the storage refuses to give the file") from None
        raise _refused(what) from None
    except _loaded(_REFUSALS) as error:
        if of_file and str(error).startswith("550"):  # FTP: the file, and not the login (530)
            raise UnreadableItem(1001, "the storage refuses to give the file") from None
        raise _refused(what) from None
    except _loaded(_FAILURES) as error:
        if _is_refusal(error):
            raise (
                UnreadableItem(1001, "the storage refuses to give the file") if of_file else _refused(what)
            ) from None
        if "libjvm" in str(error) or "libhdfs" in str(error):  # pyarrow, for hdfs://
            raise SettingsError(
                f"{what}: its storage needs Java and Hadoop's libhdfs, and they do not load; install them and set "
                "JAVA_HOME and HADOOP_HOME"
            ) from None
        raise Transient(reason_of(error)) from None


def _is_refusal(error: Exception) -> bool:
    """Whether the storage answered 401 or 403, so that another try would not help. gcsfs states 403 by a text alone."""
    return {getattr(error, name, None) for name in ("status_code", "code")} & {401, 403, "401", "403"} != set() or str(
        error
    ).startswith("Forbidden: ")


def _refused(what: str) -> RemoteUnavailable:
    return RemoteUnavailable(
        f"{what}: the storage refuses us; give a login or token in remote.storage_options or "
        "MMLAKE_STORAGE_OPTIONS, then run again: what is done stays done"
    )


def _loaded(names: tuple[tuple[str, str], ...]) -> tuple[type[Exception], ...]:
    """The exception classes of those modules that are imported: what is not imported raised nothing."""
    found = (getattr(sys.modules.get(module), name, None) for module, name in names)
    return tuple(one for one in found if isinstance(one, type) and issubclass(one, Exception))


def _checked(address: str, logins: Logins) -> str:
    """The address without its login and last slash. Raises SettingsError, which repeats nothing that may be a
    credential."""
    scheme = re.split("://|::", address, maxsplit=1)[0].lower()
    if scheme not in STORAGES:
        raise SettingsError(
            f"landing zone with the scheme {scheme[:40]!r}: expected a directory or one of "
            f"{sorted({*STORAGES, 'hf', 'http', 'https', 's3'})}; "
            "what reads this machine's files, unpacks, copies or leads on to other addresses is not opened"
        )
    if "::" in address:
        raise SettingsError(
            f"a {scheme}:// address is chained with '::', expected one storage alone; land the files that it leads to"
        )
    plain = logins.take_from(address)
    host = plain.partition("://")[2].partition("/")[0]
    if not _PLACE.fullmatch(plain) or (":" in host.rpartition("@")[0] and scheme != "github"):
        raise SettingsError(
            f"a {scheme}:// address has a password, a query, a fragment or a blank, expected "
            f"{scheme}://place/directory; give credentials in remote.storage_options"
        )
    path = plain.partition("://")[2].strip("/")
    if any(part in ("", ".", "..") for part in path.split("/")[1:]):
        raise SettingsError(f"a {scheme}:// address has an empty, '.' or '..' part in its path; correct it")
    return f"{scheme}://{path}"


def _class_of(scheme: str) -> Any:
    """fsspec's class for the scheme. Raises MissingBackend naming the package to install."""
    package, module = STORAGES[scheme]
    fsspec = need("fsspec", extra="web", purpose=f"a landing zone at a {scheme}:// address")
    try:
        importlib.import_module(module)
        return fsspec.get_filesystem_class(scheme)
    except ImportError:
        raise MissingBackend(
            f"a landing zone at a {scheme}:// address needs the library {module!r}, which is not installed or "
            f"does not load; run: pip install {package}"
        ) from None


def _info_of(info: Mapping[str, Any]) -> FileInfo:
    version = next((text for name in _VERSIONS if (text := _text(info.get(name)))), None)
    times = (_nanoseconds(info.get(name)) for name in _TIMES)
    size = info.get("size")
    return FileInfo(
        str(info["name"]).strip("/"),
        str(info.get("type")),
        None if size is None else int(size),
        version,
        next((one for one in times if one), 0),
    )


def _text(value: Any) -> str:
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    return "" if value is None else str(value).strip('"')


def _nanoseconds(value: Any) -> int:
    """Nanoseconds since 1970, from seconds, milliseconds, a datetime or the text of one; 0 for anything else."""
    if isinstance(value, bool) or value is None:
        return 0
    if isinstance(value, (int, float)):
        return int((value / 1000 if value > _MILLISECONDS else value) * 1e9)
    if isinstance(value, datetime):
        return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1e9)
    text = str(value).strip()
    parsers: tuple[Callable[[], datetime], ...] = (
        lambda: datetime.strptime(text[:14], "%Y%m%d%H%M%S"),
        lambda: datetime.fromisoformat(text),
        lambda: parsedate_to_datetime(text),
    )
    for parse in parsers:
        try:
            return _nanoseconds(parse())
        except (ValueError, OverflowError):
            continue
    return 0
