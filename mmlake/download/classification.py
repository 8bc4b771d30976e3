"""What a body from the web is, and whether its publisher withholds it from training. Downloaded and crawled
bodies are classified alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO

from mmlake.download.opt_out import Header, opt_out_of
from mmlake.formats import sniff
from mmlake.formats.charsets import declared_charset
from mmlake.formats.urls import kind_of

HEAD_BYTES = 1 << 18  # read of a body: a head section with inlined styles reaches 200 kB


@dataclass(frozen=True, kw_only=True, slots=True)
class Classification:
    """What is known of a body before it is decoded."""

    content_type: str | None  # None where neither bytes nor names say it
    extension: str
    modality: str | None  # None for what no modality takes
    charset: str | None  # that a page declares
    opt_out: str | None  # the sentence that says how its publisher withholds it; None where he does not


def classify(
    head: bytes,
    *,
    declared: str,
    url: str,
    agent: str,
    headers: Iterable[Header] | None,
    stream: Callable[[], IO[bytes]] | None,
) -> Classification:
    """The classification of the body that begins so.

    head: the first `HEAD_BYTES`. declared: its Content-Type, or "". agent: the product token of our user agent.
    headers: of the response; None where there was none, and with it nobody who could opt out. stream: opens the body,
    for containers that are known by what is in them; None where it cannot be read.
    """
    kind = kind_of(head[: sniff.HEAD_BYTES], content_type=declared, url=url, stream=stream)
    is_text = kind is not None and kind.modality == "text"
    modality = kind.modality if kind else None
    opt_out = None
    if headers is not None:
        opt_out = opt_out_of(headers, agent=agent, modality=modality, page=head if is_text else b"")
    return Classification(
        content_type=kind.content_type if kind else None,
        extension=kind.extension if kind else "bin",
        modality=modality,
        charset=declared_charset(declared, head) if is_text else None,
        opt_out=opt_out,
    )
