"""Which streams a media container has, by its boxes; nothing is decoded and little is read.

Needed because an mp4, mkv or webm without pictures belongs to audio, and its name often does not say so.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import IO

from mmlake.formats.matroska_checksums import HEAD_BYTES, SEGMENT, element_head

_MAX_BOXES = 256  # top-level boxes walked before giving up; fragmented files have one pair per second
_MAX_MOOV_BYTES = 8 << 20  # a two-hour film's index is about 4 MB
_MATROSKA_BYTES = 1 << 18  # tracks stand in the first pages; only attachments and long seek heads push them back
_TRACK, _TRACK_TYPE = b"\xae", b"\x83"
# Segment, Tracks, TrackEntry: the path to a track's type; ContentEncodings, ContentEncoding: how its packets are kept
_MASTERS = {SEGMENT, b"\x16\x54\xae\x6b", _TRACK, b"\x6d\x80", b"\x62\x40"}
_ENCODING_TYPE, _ENCRYPTED = b"\x50\x33", b"\1"  # and not compressed
_TRACK_TYPES = {b"\1": "video", b"\2": "audio"}
_ASF_BYTES = 1 << 16  # the header stands first; only scripts and pictures of covers make it longer
_ASF_PROPERTIES = bytes.fromhex("9107dcb7b7a9cf118ee600c00c205365")
_ASF_TYPES = {
    bytes.fromhex("409e69f84d5bcf11a8fd00805f5c442b"): "audio",
    bytes.fromhex("c0ef19bc4d5bcf11a8fd00805f5c442b"): "video",
}
_MPEG_HEAD_BYTES = 4_096  # two frames: one has at most 1,729 bytes
_PROBE_BYTES = 1 << 18  # of FLV and MPEG-TS: seconds of a film, whose pictures are among its first packets
_FLV_HEAD_BYTES, _FLV_TAG_BYTES, _FLV_HAS_VIDEO = 13, 11, 1
_FLV_TAGS = {8: "audio", 9: "video"}
_TS_BYTES, _TS_SYNC = 188, b"\x47"
# stream types of a program map (ISO 13818-1, table 2-34, and ATSC A/53); "data" are sections and metadata, such as the
# ID3 tags of audio streaming. Of private streams a descriptor says what they are (ETSI EN 300 468)
_TS_TYPES = {
    **dict.fromkeys((0x03, 0x04, 0x0F, 0x11, 0x1C, 0x80, 0x81, 0x82, 0x84, 0x85, 0x86, 0x87, 0x8A), "audio"),
    **dict.fromkeys((0x05, 0x15), "data"),
}
_TS_PRIVATE, _TS_SOUND_DESCRIPTORS, _TS_REGISTRATION = 0x06, (0x6A, 0x7A, 0x7B, 0x7C), 0x05
# of the names that such streams are registered under: sound (AES3 is BSSD, SMPTE 302M), and metadata
_TS_REGISTERED = {
    **dict.fromkeys((b"Opus", b"BSSD", b"AC-3", b"EAC3", b"DTS1", b"DTS2", b"DTS3"), "audio"),
    **dict.fromkeys((b"KLVA", b"ID3 "), "data"),
}
_BITRATES = {  # kbit/s by (MPEG-1?, layer): ISO 11172-3 and 13818-3
    (True, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (False, 3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES_HZ = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}


def iso_streams(stream: Callable[[], IO[bytes]]) -> frozenset[str]:
    """Of "video" and "audio", those that the movie's tracks name (ISO 14496-12 `hdlr`); empty where no index was
    found."""
    with stream() as file:
        for _ in range(_MAX_BOXES):
            header = file.read(8)
            if len(header) < 8:
                break
            size, name, used = int.from_bytes(header[:4], "big"), header[4:], 8
            if size == 1:
                size, used = int.from_bytes(file.read(8), "big"), 16
            if name == b"moov":
                return _handlers(file.read(min(size - used if size else _MAX_MOOV_BYTES, _MAX_MOOV_BYTES)))
            if size < used:
                break
            file.seek(size - used, io.SEEK_CUR)
    return frozenset()


def _handlers(moov: bytes) -> frozenset[str]:
    found, at = set(), 0
    while (at := moov.find(b"hdlr", at)) >= 0:
        kind = moov[at + 12 : at + 16]  # after the name: version and flags (4), pre_defined (4)
        if kind in (b"vide", b"soun"):
            found.add("video" if kind == b"vide" else "audio")
        at += 4
    return frozenset(found)


def matroska_streams(stream: Callable[[], IO[bytes]]) -> frozenset[str]:
    """Of "video" and "audio", those that the tracks name (RFC 9559); empty where no track was found near the start."""
    with stream() as file:
        return frozenset(kind for kind, _ in matroska_tracks(file)) - {"other"}


def matroska_tracks(file: IO[bytes]) -> list[tuple[str, bool]]:
    """("video", "audio" or "other", whether its packets are encrypted) of each track near the start, in their order."""
    data = file.read(_MATROSKA_BYTES)
    found: list[tuple[str, bool]] = []
    at = 0
    while (head := element_head(data[at : at + HEAD_BYTES])) is not None:
        element, size, used = head
        at += used
        if element == _TRACK:
            found.append(("other", False))
        if element in _MASTERS:
            continue  # go inside
        if size is None:
            break
        value = data[at : at + size] if size == 1 else b""
        if element == _TRACK_TYPE and value and found:
            found[-1] = (_TRACK_TYPES.get(value, "other"), found[-1][1])
        if element == _ENCODING_TYPE and value == _ENCRYPTED and found:
            found[-1] = (found[-1][0], True)
        at += size
    return found


def asf_streams(stream: Callable[[], IO[bytes]]) -> frozenset[str]:
    """Of "video" and "audio", those that the stream properties of an ASF, WMA or WMV header name; empty where none was
    found."""
    with stream() as file:
        data = file.read(_ASF_BYTES)
    found, at = set(), 0
    while (at := data.find(_ASF_PROPERTIES, at)) >= 0:
        found.add(_ASF_TYPES.get(data[at + 24 : at + 40], "other"))  # after the object's GUID and size
        at += 24
    return frozenset(found - {"other"})


def flv_streams(stream: Callable[[], IO[bytes]]) -> frozenset[str]:
    """Of "video" and "audio", those that the tags near the start are of; where more follow, also the pictures that the
    header announces, which writers announce without having any."""
    with stream() as file:
        data = file.read(_PROBE_BYTES)
    found, at = set(), _FLV_HEAD_BYTES
    while at + _FLV_TAG_BYTES <= len(data):
        found.add(_FLV_TAGS.get(data[at] & 31, "other"))
        at += _FLV_TAG_BYTES + int.from_bytes(data[at + 1 : at + 4], "big") + 4  # its size stands behind it
    if len(data) == _PROBE_BYTES and data[4] & _FLV_HAS_VIDEO:
        found.add("video")
    return frozenset(found - {"other"})


def ts_streams(stream: Callable[[], IO[bytes]]) -> frozenset[str]:
    """Of "video" and "audio", those that the first program map of a transport stream names, whatever is not known
    counted as pictures; empty where none was found near the start."""
    with stream() as file:
        data = file.read(_PROBE_BYTES)
    first = 4 if data[:1] != _TS_SYNC else 0  # M2TS has a time before each packet
    map_id = -1
    for at in range(first, len(data) - _TS_BYTES, _TS_BYTES + first):
        packet = data[at : at + _TS_BYTES]
        number = int.from_bytes(packet[1:3], "big")
        if not number & 0x4000 or number & 0x1FFF not in (0, map_id):  # a section begins here
            continue
        start = 4 if not packet[3] & 0x20 else 5 + packet[4]
        section = packet[start + 1 + packet[start] :] if start < _TS_BYTES else b""
        if number & 0x1FFF == 0:
            programs = [section[one : one + 4] for one in range(8, len(section) - 4, 4)]
            map_id = next((int.from_bytes(one[2:], "big") & 0x1FFF for one in programs if any(one[:2])), -1)
        elif section[:1] == b"\2":
            return _ts_mapped(section)
    return frozenset()


def _ts_mapped(section: bytes) -> frozenset[str]:
    """The same of the first packet of a program map."""
    end = 3 + (int.from_bytes(section[1:3], "big") & 0xFFF) - 4  # without its checksum
    at = 12 + (int.from_bytes(section[10:12], "big") & 0xFFF)
    found = set()
    while at + 5 <= min(end, len(section)):
        kind, length = section[at], int.from_bytes(section[at + 3 : at + 5], "big") & 0xFFF
        words = section[at + 5 : at + 5 + length]
        found.add(_ts_private(words) if kind == _TS_PRIVATE else _TS_TYPES.get(kind, "video"))
        at += 5 + length
    return frozenset(found - {"data"})


def _ts_private(descriptors: bytes) -> str:
    """What the descriptors of a private stream say that it is."""
    at = 0
    while at + 2 <= len(descriptors):
        tag, length = descriptors[at], descriptors[at + 1]
        if tag in _TS_SOUND_DESCRIPTORS:
            return "audio"
        name = descriptors[at + 2 : at + 6]
        if tag == _TS_REGISTRATION and name in _TS_REGISTERED:
            return _TS_REGISTERED[name]
        at += 2 + length
    return "video"


def is_mpeg_audio(head: bytes) -> bool:
    """Whether an MPEG audio frame (layer 2 or 3) stands at the start and the next one where its length says."""
    length = _mpeg_frame_bytes(head[:4])
    if not length:
        return False
    following = head[length : length + 4]
    return bool(_mpeg_frame_bytes(following)) if len(following) == 4 else len(head) >= 128


def starts_as_mpeg_audio(file: IO[bytes]) -> bool:
    """Whether a file is MPEG audio, behind a tag or from its first byte on. It is read from its start."""
    file.seek(0)
    head = file.read(_MPEG_HEAD_BYTES)
    return head[:3] == b"ID3" or is_mpeg_audio(head)


def _mpeg_frame_bytes(header: bytes) -> int:
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE0 != 0xE0:
        return 0
    version, layer = header[1] >> 3 & 3, 4 - (header[1] >> 1 & 3)
    bitrate, rate, padding = header[2] >> 4, header[2] >> 2 & 3, header[2] >> 1 & 1
    if version == 1 or layer not in (2, 3) or bitrate in (0, 15) or rate == 3:
        return 0
    kbits = _BITRATES[version == 3, layer][bitrate]
    samples_by_8 = 72 if layer == 3 and version != 3 else 144
    return samples_by_8 * kbits * 1000 // _RATES_HZ[version][rate] + padding


def is_adts(head: bytes) -> bool:
    """Whether an AAC frame with an ADTS header stands at the start and the next one where its length says."""
    length = _adts_frame_bytes(head[:7])
    following = head[length : length + 7]
    return bool(length) and (bool(_adts_frame_bytes(following)) if len(following) == 7 else len(head) >= 64)


def _adts_frame_bytes(header: bytes) -> int:
    if len(header) < 7 or header[0] != 0xFF or header[1] & 0xF6 != 0xF0 or header[2] >> 2 & 15 > 12:
        return 0
    length = (header[3] & 3) << 11 | header[4] << 3 | header[5] >> 5
    return length if length > 7 else 0
