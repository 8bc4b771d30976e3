"""One bucket: listing, ranges, conditional and multipart writes, with our own errors.

Requests are retried by botocore (`remote/s3.py`); a body that is cut while it is read is resumed here, at the byte
where it broke. What is transferred whole is held against the ETag, and transferred again where bytes changed on the
way.
Names in errors are addresses, never credentials.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

from mmlake.errors import RemoteUnavailable, UnreadableItem
from mmlake.remote import backoff, s3, sums
from mmlake.remote.connections import RemoteConnections
from mmlake.remote.settings import RemoteSettings

# up to here one conditional PUT; above, parts, which are sent side by side and repeated singly
SINGLE_PUT_BYTES = 16 << 20
_PART_BYTES = 16 << 20
_MAX_PARTS = 9_000  # S3 allows 10,000
_CHUNK_BYTES = 256 << 10
_STREAM_BYTES = 8 << 20  # per request where a whole object is read back
_PAGE_KEYS = _DELETE_KEYS = 1000  # what S3 allows in a request


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing or a HEAD says of one object."""

    key: str
    size_bytes: int
    etag: str  # without quotes
    # in whole seconds: listings of some stores have more digits than their HEAD, and the two must compare
    modified_ns: int
    metadata: Mapping[str, str]  # of a HEAD; a listing has none


class Bucket:
    """One bucket through one client. Threads may share it.

    client: a boto3 S3 client, such as dagster-aws's S3Resource makes; None takes the connections', which is made from
    the environment when it is first needed.
    is_own: the objects are the lake's own. That one is refused is then no fault of an item, and raises
    RemoteUnavailable in place of UnreadableItem.
    """

    def __init__(
        self,
        name: str,
        *,
        client: Any = None,
        connections: RemoteConnections | None = None,
        settings: RemoteSettings | None = None,
        retries: backoff.Retries | None = None,
        is_own: bool = False,
    ) -> None:
        self.name = name
        self._is_own = is_own
        self.settings = settings or RemoteSettings()
        self._retries = retries or backoff.Retries()
        self._client, self._connections = client, connections or RemoteConnections()
        self._is_conditional: bool | None = None
        self._has_sums: bool | None = None  # whether the ETags of this bucket are hashes, as far as that is known
        if client is not None:
            s3.obey_retry_after(client)

    @property
    def client(self) -> Any:
        """The boto3 client. Raises MissingExtra, SettingsError."""
        if self._client is None:
            self._client = self._connections.s3_client(self.settings)
            s3.obey_retry_after(self._client)
        return self._client

    @property
    def endpoint(self) -> str:
        """The address of the storage: a bucket of the same name at another endpoint is another bucket."""
        return str(self.client.meta.endpoint_url)

    def pages(self, prefix: str, *, delimiter: str = "") -> Iterator[tuple[list[ObjectInfo], list[str]]]:
        """(objects, common prefixes) of each page of a listing, at most 1,000 together, sorted by the bytes of their
        keys."""
        with s3.in_our_words(self._what("LIST", prefix)):
            for page in self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.name, Prefix=prefix, Delimiter=delimiter, PaginationConfig={"PageSize": _PAGE_KEYS}
            ):
                found = [_info_of(one["Key"], one["Size"], one) for one in page.get("Contents", ())]
                yield found, [one["Prefix"] for one in page.get("CommonPrefixes", ())]

    def objects(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every object whose key begins with the prefix, sorted by the bytes of their keys."""
        for found, _ in self.pages(prefix):
            yield from found

    def head(self, key: str) -> ObjectInfo | None:
        """What the storage says of the object; None where there is none. Raises UnreadableItem where it refuses to
        say."""
        with suppress(s3.Missing):
            try:
                with s3.in_our_words(self._what("HEAD", key), of_object=True):
                    answer = self.client.head_object(Bucket=self.name, Key=key)
            # wrong keys and a wrong clock give the same status; only the answer to a GET has a body that says why
            except s3.Refused:
                with self._asking("GET", key):
                    answer = self.client.get_object(Bucket=self.name, Key=key, Range="bytes=0-0")
                answer["Body"].close()
                return _info_of(key, int(answer["ContentRange"].rpartition("/")[2]), answer)
            return _info_of(key, answer["ContentLength"], answer)
        return None

    @contextmanager
    def _asking(self, verb: str, key: str) -> Iterator[None]:
        """Turns the storage's errors into ours: UnreadableItem where the object is at fault."""
        try:
            with s3.in_our_words(self._what(verb, key), of_object=True):
                yield
        except s3.Refused:
            if self._is_own:
                raise RemoteUnavailable(
                    f"{self._what(verb, key)}: the storage refuses it (status=403); give the credentials the "
                    "right to it, then run again"
                ) from None
            raise

    def read_range(self, key: str, *, etag: str, offset: int, size: int) -> bytes:
        """Exactly these bytes of that version of the object; a whole object is held against its ETag. Raises
        UnreadableItem 1001 where that version is gone, RemoteUnavailable."""
        data, done, total, seen = bytearray(size), 0, -1, set[str]()
        attempts = self._retries.begin(self._what("GET", key))
        while done < size:
            before = done
            try:
                for total, chunk in self._chunks(key, etag, offset + done, size - done):  # noqa: B007 - used below
                    data[done : done + len(chunk)] = chunk
                    done += len(chunk)
                if offset == 0 and total == size and not self._agrees(sums.md5(data).hexdigest(), etag, seen):
                    before = done = 0
                    raise s3.Garbled
            except backoff.Transient as error:
                if done > before:
                    attempts.progress()
                attempts.wait(error)
        return bytes(data)

    def _agrees(self, actual: str, etag: str, seen: set[str]) -> bool:
        """Whether a transfer with this MD5 may be taken for the object. seen: those of its transfers before."""
        if actual == etag:
            self._has_sums = True
        elif actual in seen:  # the same twice: the ETag is no hash of it
            self._has_sums = bool(self._has_sums)
        elif self._has_sums is not False and sums.may_be_md5(etag):
            seen.add(actual)
            return False
        return True

    def doubts(self, found: ObjectInfo, actual: str) -> bool:
        """Whether a transfer of the whole object, whose bytes have this MD5, gave others than a second one gives,
        which is made where the ETag is another."""
        seen = set[str]()
        if self._agrees(actual, found.etag, seen):
            return False
        again = self.hashed(found, sums.md5())
        self._agrees(again, found.etag, seen)
        return again != actual

    def hashed(self, found: ObjectInfo, hasher: Any) -> str:
        """The hash of that version of the object, transferred now. Raises as `read_range` does."""
        for offset in range(0, found.size_bytes, _STREAM_BYTES):
            size = min(_STREAM_BYTES, found.size_bytes - offset)
            hasher.update(self.read_range(found.key, etag=found.etag, offset=offset, size=size))
        return str(hasher.hexdigest())

    def _chunks(self, key: str, etag: str, offset: int, size: int) -> Iterator[tuple[int, bytes]]:
        """(size of the whole object, the next bytes of the range)."""
        from botocore.exceptions import BotoCoreError
        from urllib3.exceptions import HTTPError

        with self._asking("GET", key):
            answer = self.client.get_object(
                Bucket=self.name, Key=key, Range=f"bytes={offset}-{offset + size - 1}", IfMatch=f'"{etag}"'
            )
        body, left = answer["Body"], size
        try:
            if (etag_now := answer["ETag"].strip('"')) != etag:
                raise UnreadableItem(
                    1001,
                    f"the object changed while it was read: version {etag[:40]!r} was opened, {etag_now[:40]!r} came",
                )
            if not (given := str(answer.get("ContentRange", ""))).startswith(f"bytes {offset}-"):
                raise RemoteUnavailable(
                    f"{self._what('GET', key)}: the answer is not the range from byte {offset}; the storage does "
                    "not keep to byte ranges, use another endpoint"
                )
            total = given.rpartition("/")[2]
            while left:
                try:
                    chunk = body.read(min(_CHUNK_BYTES, left))
                # the request succeeded: this is the body alone
                except (BotoCoreError, HTTPError, ConnectionError, TimeoutError) as error:
                    raise _Cut(f"a cut body ({type(error).__name__})") from None
                if not chunk:
                    raise _Cut("a body that ended early")
                left -= len(chunk)
                yield int(total) if total.isdecimal() else -1, chunk
        finally:
            body.close()

    def put(self, key: str, data: bytes, *, metadata: Mapping[str, str] | None = None) -> str | None:
        """The ETag of the object that was made; None where the key has an object already, which a store with
        conditional writes leaves as it is."""
        attempts = self._retries.begin(self._what("PUT", key))
        while True:
            try:
                return self._send(key, data, Metadata=dict(metadata or {}), IfNoneMatch="*")
            except s3.Occupied:
                return None
            # of two at once, S3 may refuse both, as it does where the object is deleted meanwhile
            except s3.Contended as error:
                if self.head(key) is not None:
                    return None
                attempts.wait(error)
            except s3.Garbled as error:
                attempts.wait(error)

    def _send(self, key: str, data: bytes, **given: Any) -> str:
        """The ETag of the object that one PUT made. Raises Garbled where it has other bytes."""
        with s3.in_our_words(self._what("PUT", key)):
            answer = self.client.put_object(Bucket=self.name, Key=key, Body=data, **given)
        etag, md5 = str(answer["ETag"]).strip('"'), sums.md5(data).hexdigest()
        self._check_arrival(key, etag, md5, lambda: md5)
        return etag

    def _check_arrival(self, key: str, etag: str, expected: str, md5: Callable[[], str]) -> None:
        """Delete what was just written under the key and raise Garbled where it has not the bytes with this MD5.
        expected: the ETag where ETags are hashes; another is a reason to read the object back."""
        if etag == expected:
            self._has_sums = True
        elif self._has_sums is not False and (found := self.head(key)) is not None and found.etag == etag:
            with suppress(UnreadableItem):  # another writer's meanwhile
                if self.hashed(found, sums.md5()) != md5():
                    self.delete([key])
                    raise s3.Garbled
                self._has_sums = bool(self._has_sums)

    def upload(self, key: str, file: IO[bytes], *, size_bytes: int, metadata: Mapping[str, str] | None = None) -> None:
        """Write a file of any length in parts, side by side. Where it fails, neither an object nor a part is left."""
        given, attempts = {"Metadata": dict(metadata or {})}, self._retries.begin(self._what("PUT", key))
        while True:
            file.seek(0)
            try:
                if size_bytes <= SINGLE_PUT_BYTES:
                    self._send(key, file.read(), **given)
                else:
                    self._send_parts(key, file, size_bytes, given)
                return
            except s3.Garbled as error:
                attempts.wait(error)

    def _send_parts(self, key: str, file: IO[bytes], size_bytes: int, given: dict[str, Any]) -> None:
        from boto3.s3.transfer import TransferConfig

        part_bytes = max(_PART_BYTES, -(-size_bytes // _MAX_PARTS))
        config = TransferConfig(
            multipart_threshold=SINGLE_PUT_BYTES, multipart_chunksize=part_bytes, max_concurrency=self.settings.threads
        )
        with s3.in_our_words(self._what("PUT", key)):
            self.client.upload_fileobj(file, self.name, key, ExtraArgs=given, Config=config)

        def md5() -> str:
            file.seek(0)
            return str(hashlib.file_digest(file, sums.md5).hexdigest())  # type: ignore[arg-type]

        if (found := self.head(key)) is not None:
            file.seek(0)
            self._check_arrival(key, found.etag, sums.etag_of(file, part_bytes=part_bytes), md5)

    def copy(self, key: str, to: str) -> None:
        """Copy an object within the bucket, on the storage's side."""
        with self._asking("COPY", key):
            self.client.copy({"Bucket": self.name, "Key": key}, self.name, to)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the objects, as far as they are there. Raises RemoteUnavailable, which names the first that could
        not be deleted."""
        wanted = list(keys)
        for at in range(0, len(wanted), _DELETE_KEYS):
            part = wanted[at : at + _DELETE_KEYS]
            attempts = self._retries.begin(self._what("DELETE", part[0]))
            while True:
                try:
                    with s3.in_our_words(self._what("DELETE", part[0])):
                        answer = self.client.delete_objects(
                            Bucket=self.name, Delete={"Objects": [{"Key": key} for key in part], "Quiet": True}
                        )
                    break
                except s3.Garbled as error:
                    attempts.wait(error)
            if errors := answer.get("Errors"):
                raise RemoteUnavailable(
                    f"{self._what('DELETE', str(errors[0].get('Key')))}: {len(errors)} objects could not be "
                    "deleted; check the rights to delete, then run again"
                )

    def is_conditional(self, prefix: str) -> bool:
        """Whether the store honours `If-None-Match: *`, tried out once by writing an object below the prefix twice; it
        is deleted again.

        A store that ignores the condition overwrites silently: of two writers at once, one loses what it wrote.
        """
        if self._is_conditional is None:
            key = f"{prefix}probe-{secrets.token_hex(8)}"
            try:
                # None where a lost answer made boto3 send it again: it is the error of the second write
                self.put(key, b"1")
                self._is_conditional = self.put(key, b"2") is None
            finally:
                self.delete([key])
        return self._is_conditional

    def abort_uploads(self, prefix: str, *, older_than_s: float, now_s: float) -> int:
        """The number of multipart uploads below the prefix that were begun `older_than_s` or longer ago and are now
        aborted; the parts of unfinished ones cost money unseen."""
        num_aborted = 0
        with s3.in_our_words(self._what("LIST", prefix)):
            for page in self.client.get_paginator("list_multipart_uploads").paginate(Bucket=self.name, Prefix=prefix):
                for upload in page.get("Uploads", ()):
                    if now_s - upload["Initiated"].timestamp() >= older_than_s:
                        self.client.abort_multipart_upload(
                            Bucket=self.name, Key=upload["Key"], UploadId=upload["UploadId"]
                        )
                        num_aborted += 1
        return num_aborted

    def _what(self, verb: str, key: str) -> str:
        return f"{verb} {s3.SCHEME}://{self.name}/{key[:200]}"


class _Cut(backoff.Transient):
    """The body ended before its length."""


def _info_of(key: str, size_bytes: int, answer: Mapping[str, Any]) -> ObjectInfo:
    return ObjectInfo(
        key,
        int(size_bytes),
        str(answer["ETag"]).strip('"'),
        int(answer["LastModified"].timestamp()) * 1_000_000_000,
        dict(answer.get("Metadata", {})),
    )
