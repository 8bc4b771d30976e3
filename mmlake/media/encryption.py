"""Which packets of a film or recording are encrypted: nothing here has their key, and some decoders make noise of them.

Enters: a container and its packets. Leaves: what is encrypted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mmlake.formats.media_containers import matroska_tracks

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet

_ENCRYPTION_INFO: Final = "encryption_info"  # side data of a packet of MP4 (ISO 23001-7), by its name in FFmpeg


def encrypted_streams(container: InputContainer) -> frozenset[int]:
    """Indices of the streams of a Matroska file all of whose packets are encrypted, by its header. MP4 says it of each
    packet."""
    if "matroska" not in container.format.name:
        return frozenset()
    with Path(container.name).open("rb") as file:
        tracks = matroska_tracks(file)
    if not any(is_secret for _, is_secret in tracks):
        return frozenset()
    found = set()
    for kind, streams in (("video", container.streams.video), ("audio", container.streams.audio)):
        secret = [is_secret for one, is_secret in tracks if one == kind]  # covers, which are attached, come last
        found |= {stream.index for stream, is_secret in zip(streams, secret, strict=False) if is_secret}
    return frozenset(found)


def is_encrypted(packet: Packet[Any], streams: frozenset[int]) -> bool:
    """Whether the packet's bytes have to be decrypted first. streams: `encrypted_streams`."""
    return packet.stream.index in streams or packet.has_sidedata(_ENCRYPTION_INFO)
