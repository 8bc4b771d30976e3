"""From a fetched body to a result: content codings undone, content classified, opt-outs respected, bytes stored.
Nothing that its publisher withholds is stored."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import IO

from mmlake.download.classification import HEAD_BYTES, classify, opt_out_of
from mmlake.download.fetcher import Fetched
from mmlake.download.results import DownloadResult
from mmlake.download.settings import CrawlRules
from mmlake.errors import BlobCorrupt, BlobMissing, UnreadableItem
from mmlake.formats import http_responses
from mmlake.formats.http_responses import kept_headers
from mmlake.store import Blobs
from mmlake.streams import Kept

_MAX_VALUE_CHARS = 2000  # of a header, in the journal
_SMALL_BYTES = 1 << 20  # bodies up to here are read at once and put, which for known bytes costs no write


def store_response(found: Fetched, *, rules: CrawlRules, store: Blobs) -> DownloadResult | None:
    """The result, whose bytes are in the store; the body is closed. None where the bytes of the earlier result are
    damaged, and the whole must be requested."""
    bare = DownloadResult(
        url=found.url,
        status=found.status,
        final_url=found.final_url,
        num_tries=found.num_tries,
        headers={name: value[:_MAX_VALUE_CHARS] for name, value in kept_headers(found.headers).items()},
    )
    if found.earlier is not None:
        return _reuse_earlier(found.earlier, found, bare, rules=rules, store=store)
    if found.fault is not None or found.body is None:
        fault = found.fault or UnreadableItem(1106, f"http_status={found.status} not in [200, 200]")
        return replace(bare, code=fault.code, reason=fault.reason)
    with found.body:
        try:
            return _store_body(found, found.body, bare, rules=rules, store=store)
        except UnreadableItem as error:
            return replace(bare, code=error.code, reason=error.reason)


def _reuse_earlier(
    earlier: DownloadResult, found: Fetched, bare: DownloadResult, *, rules: CrawlRules, store: Blobs
) -> DownloadResult | None:
    """The earlier result, unless the publisher opts out now."""
    assert earlier.digest is not None
    try:
        page = store.read_range(earlier.digest, 0, HEAD_BYTES) if earlier.modality == "text" else b""
    except (BlobCorrupt, BlobMissing):
        return None
    opt_out = opt_out_of(found.headers, agent=rules.agent, modality=earlier.modality, page=page)
    return replace(bare, code=1108, reason=opt_out) if opt_out is not None and rules.respect_opt_out else earlier


def _store_body(
    found: Fetched, body: IO[bytes], bare: DownloadResult, *, rules: CrawlRules, store: Blobs
) -> DownloadResult:
    codings = http_responses.codings_of(dict(found.headers).get("content-encoding"))

    def decoded() -> IO[bytes]:
        body.seek(0)
        return http_responses.decoded(io.BufferedReader(Kept(body)), codings, limit_bytes=rules.max_item_bytes)

    with decoded() as stream:
        head = stream.read(HEAD_BYTES)
    declared, url = bare.headers.get("content-type", ""), found.final_url or found.url
    content = classify(head, declared=declared, url=url, agent=rules.agent, headers=found.headers, stream=decoded)
    if content.opt_out is not None and rules.respect_opt_out:
        return replace(bare, code=1108, reason=content.opt_out)
    digest, size = _put(decoded, store, content.extension)
    known = asdict(content)
    del known["opt_out"]
    return replace(bare, digest=digest, size_bytes=size, **known)


def _put(decoded: Callable[[], IO[bytes]], store: Blobs, extension: str) -> tuple[str, int]:
    with decoded() as stream:
        data = stream.read(_SMALL_BYTES + 1)
        if len(data) <= _SMALL_BYTES:
            return store.put(data, extension=extension), len(data)
    with decoded() as stream:
        return store.put_stream(stream, extension=extension)
