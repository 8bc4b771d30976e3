"""The settings of decoding films: by which row, on which device, how large and how many at once."""

from __future__ import annotations

from dataclasses import dataclass

from mmlake.errors import SettingsError

PYAV = "pyav"
# the fields on which pictures depend
OF_PICTURES = ("decode.decoder", "decode.device", "decode.shrink_above_px")


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeSettings:
    """How the pictures of films are decoded: when their tracks are made, and by the loader."""

    decoder: str = PYAV
    # row of FILM_DECODERS (mmlake/film_decoders/rows.py): pyav, torchcodec, nvdec, dali
    device: str = ""
    # cpu, cuda or cuda:<n>; empty for what the row prefers: cuda:0 of nvdec and dali, cpu of the others
    max_streams: int = 8
    # films that one GPU decodes at once, over all processes of a machine: its memory holds 8 to 20 full pictures for
    # each. Guides of large GPUs go up to 24 films in 1080p
    stream_wait_s: float = 30.0
    # seconds that a film waits for its turn at the GPU before the CPU decodes it
    slots_dir: str = ""
    # folder of the locks that count streams; empty for one of this user in the folder for temporary files. Users who
    # share a GPU name one folder that all of them may write
    shrink_above_px: int = 1080
    # shorter side of a picture; larger ones are shrunk to it within the decoder, so that no full picture is made RGB
    rate_hz: float = 0.0
    # loader: pictures per second that a clip gives; 0 for all of them
    max_clip_bytes: int = 2 << 30
    # loader: of the pictures of one clip: a minute of 360p in full rate is 1 GB

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        lowest = {"max_streams": 1, "stream_wait_s": 0, "shrink_above_px": 16, "rate_hz": 0, "max_clip_bytes": 1}
        for name, low in lowest.items():
            if not getattr(self, name) >= low:
                raise SettingsError(f"decode.{name}={getattr(self, name)} is below {low}; correct the setting")
        kind, _, number = self.device.partition(":")
        if self.device and (kind not in ("cpu", "cuda") or (number and not (kind == "cuda" and number.isdecimal()))):
            raise SettingsError(f"decode.device={self.device!r} is neither cpu, cuda nor cuda:<n>; correct the setting")
