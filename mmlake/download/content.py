"""From a fetched body to an answer: codings undone, kind told, the publisher's wishes heard, the bytes stored.
Nothing withheld is stored."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import IO

from mmlake.download.answers import Answer
from mmlake.download.fetcher import Fetched
from mmlake.download.manners import Manners
from mmlake.download.opt_out import refusal_of
from mmlake.errors import BlobCorrupt, BlobMissing, UnreadableItem
from mmlake.formats import http_bodies, sniff
from mmlake.formats.addresses import kind_of
from mmlake.formats.charsets import declared_charset
from mmlake.store import Blobs
from mmlake.streams import Kept

KEPT_HEADERS = (
    "content-type",
    "content-language",
    "last-modified",
    "etag",
    "x-robots-tag",
    "tdm-reservation",
    "content-disposition",
)

_PAGE_BYTES = 1 << 18
_SMALL_BYTES = 1 << 20  # bodies up to here are read at once and put, which for known bytes costs no write


def answer_of(found: Fetched, *, rules: Manners, store: Blobs) -> Answer | None:
    """The answer, whose bytes are in the store; the body is closed. None where the bytes that came earlier are
    damaged, and the whole must be asked for."""
    bare = Answer(
        url=found.url, status=found.status, final_url=found.final_url, num_tries=found.num_tries, headers=_kept(found)
    )
    if found.before is not None:
        return _kept_on(found.before, found, bare, rules=rules, store=store)
    if found.fault is not None or found.body is None:
        fault = found.fault or UnreadableItem(1106, f"http_status={found.status} not in [200, 200]")
        return replace(bare, code=fault.code, reason=fault.reason)
    with found.body:
        try:
            return _stored(found, found.body, bare, rules=rules, store=store)
        except UnreadableItem as error:
            return replace(bare, code=error.code, reason=error.reason)


def _kept_on(before: Answer, found: Fetched, bare: Answer, *, rules: Manners, store: Blobs) -> Answer | None:
    """The earlier answer, unless the publisher now wishes otherwise."""
    assert before.digest is not None
    try:
        page = store.read_range(before.digest, 0, _PAGE_BYTES) if before.modality == "text" else b""
    except (BlobCorrupt, BlobMissing):
        return None
    wish = refusal_of(found.headers, agent=rules.agent, modality=before.modality, page=page)
    return replace(bare, code=1108, reason=wish) if wish is not None and rules.respect_opt_out else before


def _kept(found: Fetched) -> dict[str, str]:
    by_name = dict(reversed(found.headers))
    return {name: by_name[name][:2000] for name in KEPT_HEADERS if name in by_name}


def _stored(found: Fetched, body: IO[bytes], bare: Answer, *, rules: Manners, store: Blobs) -> Answer:
    declared = bare.headers.get("content-type", "")
    codings = http_bodies.codings_of(dict(found.headers).get("content-encoding"))

    def undone() -> IO[bytes]:
        body.seek(0)
        return http_bodies.decoded(io.BufferedReader(Kept(body)), codings, limit_bytes=rules.max_item_bytes)

    with undone() as stream:
        head = stream.read(_PAGE_BYTES)
    kind = kind_of(head[: sniff.HEAD_BYTES], content_type=declared, url=found.final_url or found.url, stream=undone)
    modality = kind.modality if kind else None
    wish = refusal_of(found.headers, agent=rules.agent, modality=modality, page=head if modality == "text" else b"")
    if wish is not None and rules.respect_opt_out:
        return replace(bare, code=1108, reason=wish)
    extension = kind.extension if kind else "bin"
    digest, size = _put(undone, store, extension)
    charset = declared_charset(declared, head) if modality == "text" else None
    return replace(
        bare,
        digest=digest,
        size_bytes=size,
        content_type=kind.content_type if kind else None,
        extension=extension,
        modality=modality,
        charset=charset,
    )


def _put(undone: Callable[[], IO[bytes]], store: Blobs, extension: str) -> tuple[str, int]:
    with undone() as stream:
        data = stream.read(_SMALL_BYTES + 1)
        if len(data) <= _SMALL_BYTES:
            return store.put(data, extension=extension), len(data)
    with undone() as stream:
        return store.put_stream(stream, extension=extension)
