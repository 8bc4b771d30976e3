"""One data set of the Hugging Face hub over HTTP: which commit a name means, which files that commit has, and ranges of
their bytes.

huggingface_hub gives addresses, token, connections and the records of its API; retries are ours, since the library's
have no jitter and no budget. The token goes to the hub's own origin only: httpx drops it where a redirect leads to
another one. Addresses of the content network are signed, which makes them credentials too: they are kept in memory and
never shown.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from mmlake.errors import RemoteUnavailable, SettingsError, UnreadableItem
from mmlake.optional import need
from mmlake.remote.backoff import TRANSIENT, TRANSIENT_STATUSES, Retries, Transient, retry_after_s

_COMMIT = re.compile(r"[0-9a-f]{40}")
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_DENIED = (401, 403)
_EXPIRED = (400, 401, 403, 404, 410)  # what content networks answer to a signed address that is too old
_MAX_JSON_BYTES = 64 << 20  # a page of the tree has at most 1000 entries of some 300 bytes
_TOKEN = re.compile(r"hf_\w{4,}")
_Result = TypeVar("_Result")


def hub_library(module: str = "huggingface_hub") -> Any:
    """The module of huggingface_hub. Raises MissingExtra."""
    return need(module, extra="hub", purpose="a landing zone on the Hugging Face hub")


def without_tokens(text: str) -> str:
    """The text with everything masked that resembles a token of the hub."""
    return _TOKEN.sub("hf_***", text)


@dataclass(frozen=True, kw_only=True, slots=True)
class HubFile:
    """A file of a commit, as the hub's tree lists it."""

    path: str  # inside the repository
    size_bytes: int
    git_id: str  # SHA-1 of the git blob: of the content itself, or of the pointer where sha256 is set
    sha256: str | None  # of the content, where the file lies in large file storage


class HubRepo:
    """A data set on the hub. Threads may share it.

    endpoint: address of the hub; by default that of huggingface_hub, which HF_ENDPOINT sets.
    """

    def __init__(self, name: str, *, endpoint: str | None = None, retries: Retries | None = None) -> None:
        hub, self._utils = hub_library(), hub_library("huggingface_hub.utils")
        self.name = name
        self.endpoint = (endpoint or hub.constants.ENDPOINT).rstrip("/")
        self._retries = retries or Retries()
        _hide_signatures(self._utils.httpx.__name__)

    def commit(self, revision: str) -> str:
        """The commit that the branch, tag or hash means now. Raises SettingsError where the hub knows no such
        revision, or denies it to us."""
        found, _ = self._json(
            f"{self.endpoint}/api/datasets/{self.name}/revision/{quote(revision, safe='')}",
            what=f"revision {revision!r}",
        )
        sha = found.get("sha") if isinstance(found, dict) else None
        if not isinstance(sha, str) or not _COMMIT.fullmatch(sha):
            raise RemoteUnavailable(
                f"{self._place()} does not say which commit its revision {revision!r} is; see whether HF_ENDPOINT "
                "names a hub"
            )
        return sha

    def tree(self, commit: str, directory: str = "") -> Iterator[HubFile]:
        """Every file below the directory, page by page, in the hub's order."""
        below = f"/{quote(directory, safe='')}" if directory else ""
        url: str | None = f"{self.endpoint}/api/datasets/{self.name}/tree/{commit}{below}"
        params: dict[str, Any] | None = {"recursive": True, "expand": False}
        record = hub_library("huggingface_hub.hf_api").RepoFile
        while url is not None:
            page, following = self._json(
                url,
                params=params,
                what=f"directory {directory!r} at {commit[:12]}" if directory else f"commit {commit[:12]}",
            )
            try:
                files = [record(**fields) for fields in page if fields["type"] == "file"]
            except (KeyError, TypeError) as error:
                raise RemoteUnavailable(
                    f"{self._place()} lists its files in a form that this version does not know; update "
                    "huggingface_hub and mmlake"
                ) from error
            for file in files:
                yield HubFile(
                    path=file.path,
                    size_bytes=file.size,
                    git_id=file.blob_id,
                    sha256=file.lfs.sha256 if file.lfs else None,
                )
            # the address of the next page has the parameters in it
            url, params = self._own(following) if following else None, None

    def reader(self, commit: str, file: HubFile) -> Callable[[int, int], bytes]:
        """`read_range(offset, size_bytes)` of the file at that commit; raises as `_Ranges` says."""
        return _Ranges(self, commit, file).read_range

    def _json(self, url: str, *, what: str, params: dict[str, Any] | None = None) -> tuple[Any, str | None]:
        """(the JSON document, the address of the next page or None)."""

        def ask() -> tuple[Any, str | None]:
            with self._stream(url, params=params) as response:
                self._check(response, what)
                body = b"".join(_at_most(response, _MAX_JSON_BYTES))
                return json.loads(body), response.links.get("next", {}).get("url")

        try:
            return self._call(ask, what)
        except ValueError as error:
            raise RemoteUnavailable(
                f"{self._place()}: the answer about {what} is no JSON; see whether HF_ENDPOINT names a hub"
            ) from error

    def _call(self, action: Callable[[], _Result], what: str) -> _Result:
        if hub_library().is_offline_mode():
            raise SettingsError(
                f"{self._place()} cannot be read because HF_HUB_OFFLINE is set; unset it, or land a local copy "
                f"that you made with `{_download(self.name)}`"
            )
        return self._retries.call(
            action,
            what=f"{self._place()}, {without_tokens(what)}",
            transient=(*TRANSIENT, self._utils.httpx.RequestError),
        )

    def _stream(self, url: str, *, params: dict[str, Any] | None = None, headers: dict[str, str] | None = None) -> Any:
        """A response whose body is still to be read. Only requests to the hub itself carry the token."""
        own = self._utils.build_hf_headers(library_name="mmlake") if _origin(url) == _origin(self.endpoint) else {}
        timeout_s = hub_library().constants.HF_HUB_DOWNLOAD_TIMEOUT
        # Ranges and hashes are of the stored bytes: nothing on the way may compress them.
        all_headers = own | {"accept-encoding": "identity"} | (headers or {})
        once: dict[str, Any] = {"max_retries": 0, "retry_on_exceptions": (), "retry_on_status_codes": ()}
        return self._utils.http_stream_backoff(
            "GET", url, params=params, headers=all_headers, timeout=timeout_s, follow_redirects=True, **once
        )

    def _check(self, response: Any, what: str) -> None:
        """Nothing for a success; else Transient, SettingsError or RemoteUnavailable in our own words."""
        status, code = response.status_code, response.headers.get("x-error-code", "")
        if 200 <= status < 300:
            return
        if status in TRANSIENT_STATUSES:
            raise Transient(f"HTTP {status}", retry_after_s=self._wait_s(response.headers))
        if _origin(str(response.url)) != _origin(self.endpoint):
            raise RemoteUnavailable(
                f"{self._place()}, {without_tokens(what)}: the host that holds the bytes answers HTTP "
                f"{status}; run again, or land a copy made with `{_download(self.name)}`"
            )
        if code == "GatedRepo" or (status == 403 and code != "RepoNotFound"):
            raise SettingsError(
                f"{self._place()} is gated (HTTP {status}): accept its terms at {self.endpoint}/datasets/{self.name}, "
                "then log in with `hf auth login` or set HF_TOKEN to a token that may read it"
            )
        if code == "RevisionNotFound" or (status == 404 and code == "EntryNotFound"):
            raise SettingsError(
                f"{self._place()} has no {without_tokens(what)} (HTTP {status}); name one that "
                f"{self.endpoint}/datasets/{self.name}/tree/main shows"
            )
        if status in _DENIED or status == 404:
            raise SettingsError(
                f"{self._place()} does not exist or is private (HTTP {status}); correct the name in "
                "hf://datasets/<org>/<name>, or set HF_TOKEN to a token that may read it"
            )
        raise RemoteUnavailable(
            f"{self._place()}, {without_tokens(what)}: HTTP {status}, which has no remedy here; see whether "
            "HF_ENDPOINT names a hub, then run again"
        )

    def _wait_s(self, headers: Any) -> float | None:
        limits = self._utils.parse_ratelimit_headers(headers)
        if limits is not None and limits.remaining == 0:
            return float(limits.reset_in_seconds)
        return retry_after_s(headers.get("retry-after"), now_s=time.time())

    def _own(self, url: str) -> str:
        """The address of a next page, which must be the hub's own: the token goes there."""
        url = self._utils.fix_hf_endpoint_in_url(url, self.endpoint)
        if _origin(url) != _origin(self.endpoint):
            raise RemoteUnavailable(
                f"{self._place()} names a next page at another host; a proxy that rewrites addresses must rewrite "
                "Link headers too"
            )
        return url

    def _place(self) -> str:
        return f"data set {self.name} at {self.endpoint}"


class _Ranges:
    """Ranges of one file. Where the hub redirects to a content network, later reads go there directly, until its
    signed address expires."""

    def __init__(self, repo: HubRepo, commit: str, file: HubFile) -> None:
        self._repo, self._file = repo, file
        self._hub_url = hub_library().hf_hub_url(
            repo.name, file.path, repo_type="dataset", revision=commit, endpoint=repo.endpoint
        )
        self._signed_url: str | None = None

    def read_range(self, offset: int, size_bytes: int) -> bytes:
        """Exactly those bytes, cut at the file's end. Raises UnreadableItem: 1001 gone, 1010 not as large as listed;
        RemoteUnavailable."""
        end = min(offset + size_bytes, self._file.size_bytes)
        if end <= offset:
            return b""
        return self._repo._call(lambda: self._read(offset, end), f"file {self._file.path!r}")

    def _read(self, offset: int, end: int) -> bytes:
        signed = self._signed_url
        with self._repo._stream(signed or self._hub_url, headers={"range": f"bytes={offset}-{end - 1}"}) as response:
            if signed is not None and response.status_code in _EXPIRED:
                self._signed_url = None
            else:
                data = self._body(response, offset, end)
                self._signed_url = str(response.url) if _origin(str(response.url)) != _origin(self._hub_url) else None
                return data
        return self._read(offset, end)  # from the hub, which signs a new address

    def _body(self, response: Any, offset: int, end: int) -> bytes:
        if response.status_code == 404 or response.headers.get("x-error-code") == "EntryNotFound":
            raise UnreadableItem(1001, "the file is listed at this revision but no longer there")
        if response.status_code == 416:
            raise UnreadableItem(
                1010, f"the file ends before byte {offset}, its publisher states size_bytes={self._file.size_bytes}"
            )
        self._repo._check(response, f"file {self._file.path!r}")
        stated = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
        if response.status_code == 206 and stated is not None:
            if int(stated[3]) != self._file.size_bytes:
                raise UnreadableItem(
                    1010,
                    f"size_bytes={stated[3]} not in [{self._file.size_bytes}, {self._file.size_bytes}], which its "
                    "publisher states",
                )
            if int(stated[1]) != offset:
                raise Transient("another range than the one asked for")
        elif offset:
            raise RemoteUnavailable(
                f"{self._repo._place()}: the server of {self._file.path!r} does not serve ranges; land a local "
                f"copy made with `{_download(self._repo.name)}`"
            )
        elif (length := response.headers.get("content-length", "")).isdigit() and int(length) != self._file.size_bytes:
            raise UnreadableItem(
                1010,
                f"size_bytes={length} not in [{self._file.size_bytes}, {self._file.size_bytes}], which its "
                "publisher states",
            )
        data = b"".join(_at_most(response, end - offset))[: end - offset]
        if len(data) < end - offset:
            raise Transient(f"{len(data)} of {end - offset} bytes")
        return data


def _at_most(response: Any, size_bytes: int) -> Iterator[bytes]:
    """The body in pieces, at most so many bytes and a piece: a server that sends the whole file must not fill the
    memory."""
    received = 0
    for part in response.iter_raw():
        yield part
        received += len(part)
        if received >= size_bytes:
            return


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _download(name: str) -> str:
    return f"hf download --repo-type dataset {name} --local-dir DIR"


class _WithoutSignatures(logging.Filter):
    """Takes signed addresses out of the HTTP libraries' log lines: they open the file to every reader of the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                str(value).partition("?")[0] if type(value).__name__ == "URL" else value for value in record.args
            )
        return "receive_response_headers.complete" not in str(record.msg)  # a trace that has the Location header in it


def _hide_signatures(library: str) -> None:
    transport = library.replace("httpx", "httpcore")
    # a filter does not reach down to the loggers below
    for name in (library, f"{transport}.http11", f"{transport}.http2"):
        logger = logging.getLogger(name)
        if not any(isinstance(each, _WithoutSignatures) for each in logger.filters):
            logger.addFilter(_WithoutSignatures())
