"""What bytes are, detected from the bytes: magic numbers first, the name's extension only where they are silent.

Enters: the first bytes of a file and its name. Leaves: a `Kind`. Decodes nothing.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from mmlake.formats import media_containers
from mmlake.formats.text_encodings import BOMS
from mmlake.media_names import BY_MODALITY

HEAD_BYTES = 4096  # enough for every magic number here, two MP3 frames and three MPEG-TS packets
# What files are recognised as, the commonest first where nothing else decides. A connector may read others.
RECOGNISED = ("text", "image", "video", "audio")


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of content. modality is None for what no modality takes (PDF, archives, arrays): such items are
    unreadable rows."""

    content_type: str | None
    modality: str | None
    extension: str
    by_name: bool = False  # only the name says so


def _kind(content_type: str, extension: str | None = None) -> Kind:
    family, _, subtype = content_type.partition("/")
    modality = family if family in RECOGNISED else None
    return Kind(content_type, modality, extension or subtype.removeprefix("x-"))


def is_drawing(kind: Kind | None) -> bool:
    """Whether it is a picture that no decoder of pictures opens, as SVG."""
    return kind is not None and kind.modality is None and (kind.content_type or "").startswith("image/")


_ASF = b"\x30\x26\xb2\x75\x8e\x66\xcf\x11"
_FLV = b"FLV\1"
_PREFIXES: tuple[tuple[bytes, Kind], ...] = (
    (b"\xff\xd8\xff", _kind("image/jpeg", "jpg")),
    (b"\x89PNG\r\n\x1a\n", _kind("image/png")),
    *((mark, _kind("image/gif")) for mark in (b"GIF87a", b"GIF89a")),
    *((mark, _kind("image/tiff", "tif")) for mark in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")),
    (b"\0\0\0\x0cjP  \r\n\x87\n", _kind("image/jp2")),
    (b"\0\0\0\x0cJXL \r\n\x87\n", _kind("image/jxl")),
    (b"8BPS", _kind("image/vnd.adobe.photoshop", "psd")),
    (b"fLaC", _kind("audio/flac")),
    (b"ID3", _kind("audio/mpeg", "mp3")),
    (b"#!AMR", _kind("audio/amr")),
    (b".snd", _kind("audio/basic", "au")),
    (b"NIST_1A\n", _kind("audio/x-nist", "sph")),
    (b"caff\0\1", _kind("audio/x-caf")),
    (bytes.fromhex("726966662e91cf11a5d628db04c10000"), _kind("audio/x-w64")),  # Sony's 64-bit form of WAV
    *((mark, _kind("video/mpeg", "mpg")) for mark in (b"\0\0\1\xba", b"\0\0\1\xb3")),
    (_FLV, _kind("video/x-flv")),
    (_ASF, _kind("video/x-ms-asf", "asf")),
    (b"%PDF-", _kind("application/pdf")),
    (b"\x1f\x8b\x08", _kind("application/gzip", "gz")),
    (b"\x28\xb5\x2f\xfd", _kind("application/zstd", "zst")),
    (b"BZh", _kind("application/x-bzip2", "bz2")),
    (b"\xfd7zXZ\0", _kind("application/x-xz")),
    (b"7z\xbc\xaf\x27\x1c", _kind("application/x-7z-compressed", "7z")),
    *((mark, _kind("application/zip")) for mark in (b"PK\3\4", b"PK\5\6")),
    (b"Rar!\x1a\7", _kind("application/vnd.rar", "rar")),
    (b"PAR1", _kind("application/vnd.apache.parquet", "parquet")),
    (b"ARROW1\0\0", _kind("application/vnd.apache.arrow.file", "arrow")),
    (b"\x93NUMPY", _kind("application/x-npy")),
    (b"\x89HDF\r\n\x1a\n", _kind("application/x-hdf5", "h5")),
    (b"SQLite format 3\0", _kind("application/vnd.sqlite3", "sqlite")),
    (b"\x7fELF", _kind("application/x-elf")),
    (b"MThd", _kind("application/x-midi", "mid")),
    (b"{\\rtf", _kind("application/rtf")),
    (b"%!PS", _kind("application/postscript", "ps")),
    (b"\0\5\x16\7", _kind("application/applefile", "applefile")),
    (b"\xff\x4f\xff\x51", _kind("image/j2c")),
    (b"qoif", _kind("image/qoi")),
    (b"icns", _kind("image/icns")),
    (b"DDS \x7c", _kind("image/vnd-ms.dds", "dds")),
    (b"SIMPLE  =", _kind("image/fits")),
    (b"filedesc://", _kind("application/x-internet-archive", "arc")),
    (b"Obj\1", _kind("application/avro")),
)
_BY_FIRST: dict[int, list[tuple[bytes, Kind]]] = {}  # the prefixes by their first byte
for _prefix, _found in _PREFIXES:
    _BY_FIRST.setdefault(_prefix[0], []).append((_prefix, _found))
PREFIX_KINDS: tuple[Kind, ...] = tuple(kind for _, kind in _PREFIXES)
_COMPRESSED = ("application/gzip", "application/zstd", "application/x-bzip2", "application/x-xz")
_NUMBERS: dict[bytes, list[tuple[bytes, int]]] = {}  # the same of what is not compressed, by first byte
for _number, (_prefix, _found) in enumerate(_PREFIXES):
    if _found.content_type not in _COMPRESSED and _prefix not in (_ASF, _FLV):  # whose streams say it
        _NUMBERS.setdefault(_prefix[:1], []).append((_prefix, _number))
_RIFF = {b"WAVE": _kind("audio/wav"), b"AVI ": _kind("video/x-msvideo", "avi"), b"WEBP": _kind("image/webp")}
_IMAGE_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), "avif"),
    **dict.fromkeys((b"heic", b"heix", b"hevc", b"mif1", b"msf1"), "heic"),
}
_OGG_PICTURES = (b"\x80theora", b"\x01video", b"BBCD\0", b"OVP80\1")  # of first pages: OGM, Dirac, VP8
_AUDIO_BRANDS = (b"M4A ", b"M4B ", b"M4P ", b"F4A ")
_TAR, _PLAIN = _kind("application/x-tar"), _kind("text/plain", "txt")
_PAGE, _VTT = _kind("text/html"), _kind("text/vtt")
_SUBTITLES = Kind("application/x-subrip", "text", "srt")
# what a file of markup may begin with: a mark, white space, a byte order mark
_BEFORE_MARKUP = frozenset(b"<\xef \t\n\v\f\r")
# the same of text that marks its type, subtitles included
_BEFORE_MARKED = frozenset(bytes([code]) for code in (*_BEFORE_MARKUP, *range(48, 58)))
_HTML = re.compile(rb"<(?:!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE)
_SVG = re.compile(rb"<svg[\s/>]", re.IGNORECASE)
_SPACE, _SVG_TYPE = re.compile(rb"\s*"), re.compile(rb"<!doctype svg\b[^>\[]*", re.IGNORECASE)
_END_OF_TYPE, _END_OF_TAG = re.compile(rb"\]\s*>"), re.compile(rb">")
# protocol 0, which is ASCII: a dict, a list, a tuple, an object or a text, each put into the memo as soon as it begins
_PICKLE = re.compile(
    rb"\([dl]p\d\n|c[A-Za-z_][\w.]*\n[A-Za-z_][\w.]*\np\d\n|V[^\n]*\np\d\n\."
    rb"|\((?:[VSIFL][^\n]*\n(?:p\d+\n)?|N|c[\w.]+\n[\w.]+\np\d+\n)+tp\d+\n"
)
_SRT = re.compile(rb"\s*\d+\s*\r?\n\d\d:\d\d:\d\d[,.]\d{1,3} --> ")
_MIN_UNNAMED_BYTES = 32  # a few bytes that are not UTF-8 and have no meaningful name are numbers rather than text
_CONTROLS = bytes(code for code in range(32) if code not in (9, 10, 12, 13, 27))
_BOMS = tuple(mark for mark, _ in BOMS)

# of texts with times but SRT and WebVTT, whose content says what they are
TIMED_NAMES = {
    "ass": "text/x-ssa", "ssa": "text/x-ssa", "ttml": "application/ttml+xml", "dfxp": "application/ttml+xml",
    "smi": "application/x-sami", "sami": "application/x-sami", "sub": "text/x-microdvd",
    "sbv": "text/x-sbv", "lrc": "text/x-lrc", "textgrid": "text/x-praat-textgrid", "eaf": "text/x-eaf+xml",
}  # fmt: skip
_TEXT_NAMES = {
    "txt": "text/plain", "text": "text/plain",
    "md": "text/markdown", "rst": "text/plain", "html": "text/html", "htm": "text/html", "xhtml": "text/html",
    "json": "application/json",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values", "srt": "application/x-subrip", "vtt": "text/vtt", "xml": "text/xml",
    "tex": "text/plain", "log": "text/plain",
    "caption": "text/plain", "transcript": "text/plain",
    **TIMED_NAMES,
    "jsonl": "application/jsonl", "ndjson": "application/jsonl",
}  # fmt: skip
_NAME_TYPES = {  # of names whose extension is not the end of their type
    "jpg": "image/jpeg", "jpe": "image/jpeg", "tif": "image/tiff", "jp2": "image/jp2", "ppm": "image/x-portable-pixmap",
    "pgm": "image/x-portable-graymap",
    "pnm": "image/x-portable-anymap", "pbm": "image/x-portable-bitmap",
    "pam": "image/x-portable-arbitrarymap", "pfm": "image/x-portable-floatmap", "tga": "image/x-tga",
    "ico": "image/vnd.microsoft.icon", "dds": "image/vnd-ms.dds",
    "sgi": "image/sgi", "pcx": "image/vnd.zbrush.pcx", "j2k": "image/j2c",
    "xbm": "image/x-xbitmap", "xpm": "image/x-xpixmap", "wave": "audio/wav", "mp3": "audio/mpeg",
    "oga": "audio/ogg", "opus": "audio/ogg", "m4a": "audio/mp4", "m4b": "audio/mp4",
    "aif": "audio/aiff", "au": "audio/basic", "mka": "audio/x-matroska", "weba": "audio/webm", "wma": "audio/x-ms-wma",
    "m4v": "video/mp4", "mov": "video/quicktime",
    "mkv": "video/x-matroska", "avi": "video/x-msvideo", "ts": "video/mp2t", "m2ts": "video/mp2t", "mts": "video/mp2t",
    "mpg": "video/mpeg", "vob": "video/mpeg",
    "flv": "video/x-flv", "wmv": "video/x-ms-wmv", "ogv": "video/ogg", "3gp": "video/3gpp", "asf": "video/x-ms-asf",
}  # fmt: skip
_NAMES: dict[str, Kind] = {
    **{name: Kind(content_type, "text", name, by_name=True) for name, content_type in _TEXT_NAMES.items()},
    **{
        extension: Kind(_NAME_TYPES.get(extension, f"{modality}/{extension}"), modality, extension, by_name=True)
        for modality, extensions in BY_MODALITY.items()
        for extension in extensions.split()
    },
}
# what stands before its first tag may be longer than what is read
_NAMES["svg"] = Kind("image/svg+xml", None, "svg", by_name=True)
_SUFFIXES = ("gz", "zst", "bz2", "xz")
_ALSO_TEXT = frozenset(["ts", "mts"])  # TypeScript's names, too
_AUDIO_ONLY_NAMES = frozenset(["m4a", "m4b", "mka", "weba", "oga", "ogg", "opus"])


def extension_of(name: str) -> str:
    """The last extension in lower case without its dot, below one compression suffix; "" where there is
    none."""
    stem, dot, extension = name.rpartition("/")[2].lower().rpartition(".")
    if extension in _SUFFIXES:
        # ".gz.zst" and no more: the same one or two suffixes as compression is undone
        inner = f"{stem}{dot}{extension}"
        for suffix in _SUFFIXES:
            inner = inner.removesuffix(f".{suffix}")
        stem, dot, extension = inner.rpartition(".")
    return extension if dot and stem else ""


def kind_of(
    head: bytes, name: str, *, stream: Callable[[], IO[bytes]] | None = None, extension: str | None = None
) -> Kind | None:
    """The kind of some content, or None where neither bytes nor name say it.

    head: its first HEAD_BYTES. stream: opens it for seeking, so that an mp4, mkv, webm, flv or ts without pictures is
    sound.
    extension: of the name, where it was taken from it already.
    """
    if extension is None:
        extension = extension_of(name)
    if extension == "json" and head[:1] == b"{":
        is_marked = head[4:8] == b"ftyp" or head[4:5] == b"G" or head[1:5] == b"\\rtf"
        if not is_marked and not is_tar_header(head):
            return _NAMES["json"]  # nothing else begins like a record and has no such mark
    if (kind := kind_by_magic(head, extension, stream)) is not None:
        return kind
    named = _NAMES.get(extension)
    if extension in _ALSO_TEXT and is_textual(head) and _is_utf8(head):
        named = None
    if named is not None and named.modality != "text":
        return named
    if named is not None and (extension not in ("txt", "text", "html", "htm") or head[:1] not in _BEFORE_MARKED):
        return named
    is_sure = named is not None or len(head) >= _MIN_UNNAMED_BYTES or _is_utf8(head)
    if (text := _text_kind(head) if is_sure else None) is not None:
        return text if named is None or text.content_type != "text/plain" else named
    return named


def prefix_number(head: bytes) -> int:
    """Where in PREFIX_KINDS the kind is that these first bytes are enough to detect; -1 where more is to be read."""
    for prefix, number in _NUMBERS.get(head[:1], ()):
        if head.startswith(prefix):
            return number
    return -1


def kind_by_magic(head: bytes, extension: str = "", stream: Callable[[], IO[bytes]] | None = None) -> Kind | None:
    """The kind that magic numbers say, or None where they are silent. Plain text has none."""
    if not head:
        return None
    for prefix, kind in _BY_FIRST.get(head[0], ()):
        if head.startswith(prefix):
            if prefix == _FLV and stream is not None and media_containers.flv_streams(stream) == {"audio"}:
                return _kind("audio/x-flv")
            return _asf_kind(kind, extension, stream) if prefix == _ASF else kind
    four = head[:4]
    if four in (b"RIFF", b"RF64") and head[8:12] in _RIFF:
        return _RIFF[head[8:12]]
    if four == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return _kind("audio/aiff", "aif")
    if head[4:8] == b"ftyp":
        return _iso_kind(head, extension, stream)
    if four == b"\x1a\x45\xdf\xa3":
        return _matroska_kind(head, extension, stream)
    if four == b"OggS":
        is_video = any(mark in head for mark in _OGG_PICTURES)
        return _kind("video/ogg", "ogv") if is_video else _kind("audio/ogg", "opus" if b"OpusHead" in head else "ogg")
    if is_tar_header(head):
        return _TAR
    return _weak_magic(head, stream)


def _iso_kind(head: bytes, extension: str, stream: Callable[[], IO[bytes]] | None) -> Kind:
    brand = head[8:12]
    if brand in _IMAGE_BRANDS:
        return _kind(f"image/{_IMAGE_BRANDS[brand]}")
    if brand not in _AUDIO_BRANDS:
        streams = media_containers.iso_streams(stream) if stream else frozenset()
        is_sound = "audio" in streams if streams else extension in _AUDIO_ONLY_NAMES
        if "video" in streams or not is_sound:
            return _kind("video/quicktime", "mov") if brand == b"qt  " else _kind("video/mp4")
    return _kind("audio/mp4", "m4a")


def _matroska_kind(head: bytes, extension: str, stream: Callable[[], IO[bytes]] | None) -> Kind:
    webm = b"webm" in head[:64]
    streams = media_containers.matroska_streams(stream) if stream else frozenset()
    if streams == {"audio"} or (not streams and extension in _AUDIO_ONLY_NAMES):
        return _kind("audio/webm", "weba") if webm else _kind("audio/x-matroska", "mka")
    return _kind("video/webm") if webm else _kind("video/x-matroska", "mkv")


def _asf_kind(kind: Kind, extension: str, stream: Callable[[], IO[bytes]] | None) -> Kind:
    streams = media_containers.asf_streams(stream) if stream else frozenset()
    is_sound = streams == {"audio"} or (not streams and extension == "wma")
    return _kind("audio/x-ms-wma", "wma") if is_sound else kind


def _weak_magic(head: bytes, stream: Callable[[], IO[bytes]] | None) -> Kind | None:
    is_bmp = head[:2] == b"BM" and len(head) >= 18 and head[6:10] == bytes(4) and head[15:18] == bytes(3)
    if is_bmp and head[14] in (12, 40, 52, 56, 64, 108, 124):
        return _kind("image/bmp")
    first = head[0]
    if first == 0x47 and len(head) >= 376 and all(head[at] == 0x47 for at in range(0, min(len(head), 565), 188)):
        return _ts_kind("ts", stream)
    if len(head) >= 389 and head[4] == 0x47 and head[196] == 0x47 and head[388] == 0x47:
        return _ts_kind("m2ts", stream)
    if first == 0xFF and media_containers.is_mpeg_audio(head):
        return _kind("audio/mpeg", "mp3")
    if first == 0xFF and media_containers.is_adts(head):
        return _kind("audio/aac")
    if head.startswith((b"WEBVTT", b"\xef\xbb\xbfWEBVTT")):
        return _VTT
    if head.startswith(b"ORC") and not is_textual(head):
        return _kind("application/vnd.apache.orc", "orc")
    if first in b"(cV" and _PICKLE.match(head):
        return Kind("application/x-python-pickle", None, "pkl")  # a program for whoever loads it, in printable letters
    if first in _BEFORE_MARKUP and _SVG.match(head, behind_prolog(head, is_drawing=True)):
        return Kind("image/svg+xml", None, "svg")  # a program for a renderer, not a picture
    return None


def _ts_kind(extension: str, stream: Callable[[], IO[bytes]] | None) -> Kind:
    is_sound = stream is not None and media_containers.ts_streams(stream) == {"audio"}
    return _kind("audio/mp2t" if is_sound else "video/mp2t", extension)


def behind_prolog(head: bytes, *, is_drawing: bool = False) -> int:
    """Where the first element of markup may begin: behind a byte order mark, white space, declarations of XML, comments
    and, of a drawing, its type.

    Step by step, since an expression that may give nothing back (of 40 comments there are 2^40 ways to read them as
    fewer, longer ones) finds another end before Python 3.11.5, and Debian 12 has 3.11.2 (python/cpython#106052).
    """
    at = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
    while True:
        at = _end_of(_SPACE.match(head, at))
        if head.startswith(b"<!--", at):
            end = head.find(b"-->", at + 4) + 3
        elif head[at : at + 5].lower() == b"<?xml":
            end = head.find(b">", at + 5) + 1
        elif is_drawing and (begun := _SVG_TYPE.match(head, at)) is not None:
            is_long = head.startswith(b"[", begun.end())
            end = _end_of((_END_OF_TYPE if is_long else _END_OF_TAG).search(head, begun.end()))
        else:
            return at
        if end <= at:  # it does not end in what is known
            return at
        at = end


def _end_of(match: re.Match[bytes] | None) -> int:
    return -1 if match is None else match.end()


def _text_kind(head: bytes) -> Kind | None:
    """Text as far as the first bytes go: no control characters but white space, or a byte order mark."""
    if not (head.startswith(_BOMS) or is_textual(head)):
        return None
    first = head[0]
    if first in _BEFORE_MARKUP and _HTML.match(head, behind_prolog(head)):
        return _PAGE
    if (first in _BEFORE_MARKUP or 48 <= first < 58) and _SRT.match(head.removeprefix(b"\xef\xbb\xbf")):
        return _SUBTITLES
    return _PLAIN


def _is_utf8(head: bytes) -> bool:
    """Whether the bytes are UTF-8, as far as they go: the last character may be cut."""
    try:
        head.decode()
        return True
    except UnicodeDecodeError as error:
        return error.end == len(head) >= HEAD_BYTES and error.start >= len(head) - 3


def is_textual(head: bytes) -> bool:
    """Whether the bytes could be text in an 8-bit encoding: not empty and hardly any control characters."""
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return bool(head) and controls * 100 < len(head)


def text_content_type(data: bytes) -> str:
    """text/html, text/vtt, application/x-subrip or text/plain, detected from the first bytes of a text."""
    if data[:1].isalpha() and not data.startswith(b"WEBVTT"):
        return "text/plain"  # as nearly every text begins
    head = data[:HEAD_BYTES].removeprefix(codecs.BOM_UTF8)
    if head.startswith(b"WEBVTT"):
        return "text/vtt"
    first = head.lstrip()[:1]
    if first != b"<" and not first.isdigit():
        return "text/plain"  # neither markup nor the number of a subtitle
    text = _text_kind(head)
    return text.content_type if text and text.content_type else "text/plain"


def is_tar_header(head: bytes) -> bool:
    """Whether the first 512 bytes are a tar header whose checksum holds, or at least carry its magic."""
    if len(head) < 512:
        return False
    if head[257:262] == b"ustar":
        return True
    if head[151] not in b"01234567 \0":  # in the middle of the sum
        return False
    digits = head[148:156].strip(b" \0")
    if not digits.isdigit() or b"8" in digits or b"9" in digits or not head[0]:
        return False
    return int(digits, 8) == sum(head[:148]) + 8 * 32 + sum(head[156:512])
