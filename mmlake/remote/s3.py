"""S3 and storage with the same API: addresses, clients, and the storage's errors in our words.

Enters: `s3://bucket/prefix` and the environment as boto3 knows it (AWS_*, profiles, instance roles), with
MMLAKE_S3_ENDPOINT for storage other than Amazon's. Leaves: a boto3 client with full-jitter retries; botocore uses
path-style addresses for a custom endpoint. Texts of the library are not passed on, since they may hold an endpoint or a
key id.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mmlake.errors import MmlakeError, RemoteUnavailable, SettingsError, UnreadableItem
from mmlake.optional import need
from mmlake.records import canonical_json, digest_of
from mmlake.remote import backoff
from mmlake.remote.settings import RemoteSettings

SCHEME = "s3"
TRIES = 6  # of one request, the first included; waits are those of botocore's "standard" mode
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_EXAMPLE = "expected s3://bucket/prefix"
_CREDENTIALS = ("the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), AWS_PROFILE or an instance role",)
_REFUSED_CREDENTIALS = frozenset(
    "ExpiredToken ExpiredTokenException InvalidToken TokenRefreshRequired InvalidAccessKeyId "
    "SignatureDoesNotMatch AuthFailure InvalidSecurity".split()
)
# a request whose body is not what its checksums say
_GARBLED = frozenset({"BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "InvalidDigest"})
_WRONG_CLOCK = frozenset({"RequestTimeTooSkewed", "RequestExpired"})
_CHANGED = (412, 416)  # the version that was asked for is gone; the object is shorter now
_ODD_SEGMENTS = ("", ".", "..")


class Missing(UnreadableItem):
    """The object is not there."""

    def __init__(self) -> None:
        super().__init__(1001, "the object is missing")


class Changed(UnreadableItem):
    """The object is no longer the version that was opened."""

    def __init__(self) -> None:
        super().__init__(1001, "the object changed while it was read: the version that was opened is gone")


class Refused(UnreadableItem):
    """The credentials are good, and do not give the right to the object."""

    def __init__(self) -> None:
        super().__init__(1001, "the storage refuses to give the object (status=403)")


class Damaged(RemoteUnavailable):
    """Bytes changed on the way from the storage, which has them as they were."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: bytes changed between the storage, which has them as they were, and this machine; see whether "
            "the network or a proxy damages them, then run again: what is done stays done"
        )


class Contended(backoff.Transient):
    """A conditional write met another one of the same key that was under way; whether there is an object now is not
    known."""

    def __init__(self) -> None:
        super().__init__("another write of the same key (HTTP 409)")


class Garbled(backoff.Transient):
    """Other bytes arrived than were sent, by a checksum."""

    def __init__(self) -> None:
        super().__init__("bytes that changed on the way")


class Occupied(Exception):
    """A conditional write found an object under its key."""


@dataclass(frozen=True, slots=True)
class Address:
    """A bucket and the part of it below a prefix."""

    bucket: str
    prefix: str  # without slashes at its ends; "" is the whole bucket

    @classmethod
    def parse(cls, text: str) -> Address:
        """The address. Raises SettingsError, which repeats nothing that may be a credential."""
        scheme, _, rest = text.partition("://")
        bucket, _, prefix = rest.partition("/")
        if "@" in bucket or ":" in bucket or "?" in rest or "#" in rest:
            raise SettingsError(
                f"an {SCHEME}:// address carries user information, a port or a query, {_EXAMPLE}; credentials "
                f"come from {_CREDENTIALS[0]}, an endpoint from MMLAKE_S3_ENDPOINT"
            )
        if scheme.lower() != SCHEME or not _BUCKET.fullmatch(bucket):
            raise SettingsError(
                f"address {scheme[:10]}://{bucket[:80]}: the bucket's name is not 3 to 63 of a-z, 0-9, dot and "
                f"dash, {_EXAMPLE}; correct it"
            )
        prefix = prefix.strip("/")
        if prefix and is_odd(prefix):
            raise SettingsError(
                f"address of bucket {bucket}: its prefix has an empty, '.' or '..' part, {_EXAMPLE}; correct it"
            )
        return cls(bucket, prefix)

    def __str__(self) -> str:
        return f"{SCHEME}://{self.bucket}/{self.prefix}".rstrip("/")

    def key(self, path: str) -> str:
        """The key of a path below the prefix."""
        return f"{self.prefix}/{path}" if self.prefix else path


def is_odd(path: str) -> bool:
    """Whether a part of the path is empty, "." or "..": S3 allows such keys, no directory tree does."""
    return any(part in _ODD_SEGMENTS for part in path.split("/"))


def new_client(settings: RemoteSettings | None = None) -> Any:
    """A new S3 client for the environment as it is now, for any number of threads. Raises MissingExtra,
    SettingsError."""
    need("boto3", extra="s3", purpose=f"storage at an {SCHEME}:// address")
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    endpoint = os.environ.get("MMLAKE_S3_ENDPOINT") or None
    if endpoint is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query:
            raise SettingsError(
                "MMLAKE_S3_ENDPOINT is not http(s)://host[:port]; correct it, and give credentials in "
                f"{_CREDENTIALS[0]}"
            )
    # "standard": full jitter, at most 20 s, out of a quota of 100 retries that successes refill.
    config = Config(
        retries={"mode": "standard", "total_max_attempts": TRIES},
        max_pool_connections=(settings or RemoteSettings()).connections,
        connect_timeout=10,
        read_timeout=60,
    )
    try:
        return boto3.Session().client("s3", endpoint_url=endpoint, config=config)
    except (BotoCoreError, ValueError) as error:
        raise SettingsError(
            f"no S3 client can be made of the environment ({type(error).__name__}); check AWS_PROFILE, AWS_REGION "
            "and ~/.aws/config"
        ) from None


def environment(settings: RemoteSettings) -> str:
    """The digest of what a client is made of: botocore reads the environment once, when one is made."""
    named = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    named["MMLAKE_S3_ENDPOINT"] = os.environ.get("MMLAKE_S3_ENDPOINT", "")
    return digest_of(canonical_json([named, settings.connections]).encode())


def obey_retry_after(client: Any) -> None:
    """Make the client honour a server's Retry-After, which then lengthens its own wait by up to 5 s.

    botocore obeys a header of its own, in milliseconds; other stores and proxies send the standard one.
    """
    client.meta.events.register("before-parse.s3", _pass_on, unique_id="mmlake-retry-after")


def _pass_on(response_dict: dict[str, Any], **_: object) -> None:
    headers = response_dict["headers"]
    if response_dict["status_code"] in backoff.TRANSIENT_STATUSES and "x-amz-retry-after" not in headers:
        wanted_s = backoff.retry_after_s(headers.get("retry-after"), now_s=time.time())
        if wanted_s is not None:
            headers["x-amz-retry-after"] = str(int(wanted_s * 1000))


@contextmanager
def in_our_words(what: str, *, of_object: bool = False) -> Iterator[None]:
    """Turns boto3's errors into ours. what: "GET s3://bucket/key". of_object: a refusal is about this object and
    becomes an UnreadableItem."""
    from botocore import exceptions

    try:
        yield
    except exceptions.ClientError as error:
        raise _refusal(error.response, what, of_object) from None
    except (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.CredentialRetrievalError,
    ) as error:
        raise SettingsError(
            f"{what}: there are no usable credentials ({type(error).__name__}); give them in {_CREDENTIALS[0]}"
        ) from None
    except exceptions.ParamValidationError:
        raise SettingsError(
            f"{what}: the bucket or key has a name that S3 does not take; correct the address"
        ) from None
    except (exceptions.BotoCoreError, ConnectionError, TimeoutError) as error:
        raise RemoteUnavailable(
            f"{what}: {TRIES} tries failed, or the retry quota is spent, the last by {type(error).__name__}; "
            "see whether the endpoint is up, then run again: what is done stays done"
        ) from None


def _refusal(
    response: dict[str, Any], what: str, of_object: bool
) -> MmlakeError | UnreadableItem | Contended | Garbled | Occupied:
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    code = re.sub(r"[^A-Za-z0-9]", "", str(response.get("Error", {}).get("Code", "")))[:60]
    if code == "NoSuchBucket":
        return SettingsError(f"{what}: there is no such bucket; correct the address, or make the bucket")
    if code in _REFUSED_CREDENTIALS:
        return RemoteUnavailable(
            f"{what}: the storage refuses the credentials ({code}); renew them in {_CREDENTIALS[0]}, then run "
            "again: what is done stays done"
        )
    if code in _WRONG_CLOCK:
        return RemoteUnavailable(
            f"{what}: this machine's clock is not the storage's ({code}); set it, such as by NTP, then run again: "
            "what is done stays done"
        )
    if code in _GARBLED:
        return Garbled()
    if status in (301, 307) or code in (
        "PermanentRedirect",
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
    ):
        return SettingsError(f"{what}: the bucket is in another region ({code}); name its region in AWS_REGION")
    if of_object and status == 404:
        return Missing()
    if of_object and status in _CHANGED:
        return Changed()
    if of_object and code == "InvalidObjectState":
        return UnreadableItem(1001, "the object is archived and must be restored before it can be read")
    if of_object and status == 403:
        return Refused()
    if status == 412:
        return Occupied()
    if status == 409:
        return Contended()
    tries = int(response.get("ResponseMetadata", {}).get("RetryAttempts", 0)) + 1
    return RemoteUnavailable(
        f"{what}: status {status} {code} after {tries} tries, expected success; see the storage's own log, then "
        "run again: what is done stays done"
    )
