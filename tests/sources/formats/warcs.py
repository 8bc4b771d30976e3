"""WARC records, built byte by byte (ISO 28500)."""

from __future__ import annotations

import base64
import hashlib

PAGE = b"<html><body>A page about lanterns and harbours.</body></html>"


def record(
    kind: str, block: bytes, *, uri: str = "http://example.org/a", length: int | None = None, **fields: str
) -> bytes:
    """One record. length: what it says of its block, if not the truth. Fields are named as keywords:
    `WARC_Block_Digest`."""
    named = {
        "WARC-Type": kind,
        "WARC-Target-URI": uri,
        "WARC-Date": "2026-01-02T03:04:05Z",
        "WARC-Record-ID": f"<urn:uuid:{hashlib.md5(uri.encode()).hexdigest()}>",
    }
    named |= {name.replace("_", "-"): value for name, value in fields.items()}
    named["Content-Length"] = str(len(block) if length is None else length)
    return (
        b"WARC/1.0\r\n"
        + b"".join(f"{name}: {value}\r\n".encode() for name, value in named.items())
        + b"\r\n"
        + block
        + b"\r\n\r\n"
    )


def response(
    body: bytes = PAGE,
    *,
    status: str = "200 OK",
    headers: tuple[str, ...] = ("Content-Type: text/html",),
    uri: str = "http://example.org/a",
    **fields: str,
) -> bytes:
    """A record of type response."""
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", *headers))
    return record(
        "response",
        head.encode("latin-1") + b"\r\n" + body,
        uri=uri,
        **{"Content_Type": "application/http; msgtype=response", **fields},
    )


def base32(data: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(data).digest()).decode()


def chunked(body: bytes, size: int = 7) -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts) + b"0\r\n\r\n"
