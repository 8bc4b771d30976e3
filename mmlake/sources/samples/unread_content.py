"""What to make of content that no modality takes: archives, and documents, programs and weights that are zips inside.

Enters: a member whose kind has no modality. Leaves: the fault of its row, which says what the file is.
"""

from __future__ import annotations

from typing import Final

from mmlake.errors import Fault
from mmlake.formats import sniff
from mmlake.sources.raw_items import ARCHIVES, Member

_TEXT: Final = "save it as text or HTML"
_CELLS: Final = "save each sheet as CSV"
_SLIDES: Final = "save it as text or HTML, or its slides as pictures"
_APART: Final = "move it out of the landing zone"
# extensions -> (what the file is, what to do)
_ZIPS: Final[dict[str, tuple[str, str]]] = {
    **dict.fromkeys(("docx", "docm", "dotx", "odt", "ott", "pages"), ("a document of a word processor", _TEXT)),
    **dict.fromkeys(("xlsx", "xlsm", "xlsb", "xltx", "ods", "numbers"), ("a spreadsheet", _CELLS)),
    **dict.fromkeys(("pptx", "pptm", "potx", "ppsx", "odp", "key"), ("a presentation", _SLIDES)),
    **dict.fromkeys(("epub",), ("an e-book", _TEXT)),
    # what trainers keep next to pictures; unpacked they would be one file more for each
    "npz": ("arrays of NumPy, as of latents", _APART),
    **dict.fromkeys(("pt", "pth", "ckpt"), ("tensors or weights of PyTorch", _APART)),
    **dict.fromkeys(("jar", "war", "apk", "whl"), ("a program", _APART)),
}
# media types, as the first member of OpenDocument and EPUB has them, begin with -> the extension that says the same
_MIMETYPES: Final = {
    b"application/vnd.oasis.opendocument.text": "odt",
    b"application/vnd.oasis.opendocument.spreadsheet": "ods",
    b"application/vnd.oasis.opendocument.presentation": "odp",
    b"application/epub+zip": "epub",
}
_OTHERS: Final = {  # content types -> (what the file is, what to do)
    "application/x-internet-archive": ("an ARC file, as crawls were kept before WARC", "convert it to WARC"),
    "application/vnd.apache.orc": ("an ORC file", "write it as Parquet"),
    "application/avro": ("an Avro file", "write it as Parquet"),
    "application/pdf": ("a PDF", "extract its text, or save its pages as pictures"),
    "image/svg+xml": ("a drawing in SVG", "save it as PNG"),
    "application/x-npy": ("an array of NumPy", _APART),
}
_HEADER_BYTES: Final = 30  # of a member in a zip, before its name
_OFFICE: Final = "a document, spreadsheet or presentation", "save it as text, HTML or CSV"


def unread_content(member: Member) -> Fault:
    """1012 of what is packed, else 1005."""
    content_type = member.kind.content_type if member.kind else None
    if content_type == "application/zip" and (known := _zipped_document(member)) is not None:
        what, remedy = known
        return Fault(1012, f"content is {what} (extension {member.extension!r}), which is not read; {remedy}")
    if content_type in ARCHIVES:
        return Fault(1012, f"content is {content_type}, an archive that is not read as one; unpack it")
    if content_type in _OTHERS:
        what, remedy = _OTHERS[content_type]
        return Fault(1005, f"content is {what}, which is not read; {remedy}")
    if content_type:
        return Fault(1005, f"content is {content_type}, which no modality takes")
    return Fault(1005, f"neither the first {sniff.HEAD_BYTES} bytes nor the extension {member.extension!r} name a type")


def _zipped_document(member: Member) -> tuple[str, str] | None:
    """(what the file is, what to do), by its extension, else by its first member; None of other zips."""
    if (known := _ZIPS.get(member.extension)) is not None:
        return known
    first = member.known[_HEADER_BYTES:]
    if first.startswith(b"mimetype"):
        said = first[len(b"mimetype") :]
        return next((_ZIPS[name] for kind, name in _MIMETYPES.items() if said.startswith(kind)), _OFFICE)
    return _OFFICE if first.startswith(b"[Content_Types].xml") else None
