"""NVDEC through the decoders of FFmpeg that PyAV brings: packets go to the driver, pictures come back in NV12.

The demuxer is that of every stage, so time stamps and the closed list of formats are the same. Pictures are shrunk by
NVDEC's own scaler: a large one never leaves it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mmlake.film_decoders.film import Film, Picture, Refused
from mmlake.film_decoders.refusals import CODEC_UNSUPPORTED, refusal
from mmlake.media.decoders import open_media
from mmlake.media.stamps import Stamps

if TYPE_CHECKING:
    from av.container import InputContainer

# names of FFmpeg's software decoders and of those that hand packets to NVDEC
_DECODERS = {
    "h264": "h264_cuvid",
    "hevc": "hevc_cuvid",
    "av1": "av1_cuvid",
    "libdav1d": "av1_cuvid",
    "vp8": "vp8_cuvid",
    "libvpx": "vp8_cuvid",
    "vp9": "vp9_cuvid",
    "libvpx-vp9": "vp9_cuvid",
    "mjpeg": "mjpeg_cuvid",
    "mpeg1video": "mpeg1_cuvid",
    "mpeg2video": "mpeg2_cuvid",
    "mpeg4": "mpeg4_cuvid",
    "vc1": "vc1_cuvid",
}
_logs = threading.Lock()  # the level of FFmpeg's messages is the process's


def nvdec_pictures(film: Film, device: str, size: tuple[int, int] | None) -> Iterator[Picture]:
    """The pictures in order of presentation. Raises Refused, and SettingsError where there is no driver."""
    import av

    if film.codec not in _DECODERS or _DECODERS[film.codec] not in av.codecs_available:
        raise Refused(CODEC_UNSUPPORTED, f"video_codec={film.codec} not in {sorted(set(_DECODERS))}, which nvdec has")
    with open_media(film.path) as container:
        yield from _pictures(container, film, device, size)


def _pictures(container: InputContainer, film: Film, device: str, size: tuple[int, int] | None) -> Iterator[Picture]:
    import av
    import av.error

    stream = container.streams[film.stream_index]
    decoder: Any = av.CodecContext.create(_DECODERS[film.codec], "r")
    decoder.extradata = stream.codec_context.extradata
    decoder.width, decoder.height = film.width_px, film.height_px
    decoder.options = {"gpu": device.partition(":")[2] or "0"} | (
        {} if size is None else {"resize": f"{size[0]}x{size[1]}"}
    )
    num_pictures, stamps = 0, Stamps(container)
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets, None)
            found = [] if packet is None else _decoded(decoder, packet)
        except (av.error.FFmpegError, ValueError) as error:
            raise refusal("nvdec", device, str(error), num_pictures) from error
        if packet is None:
            return
        for frame in found:
            num_pictures += 1
            stamps.correct(frame)
            yield Picture(frame.pts, frame.duration or 0, frame)


def _decoded(decoder: Any, packet: Any) -> list[Any]:
    """The frames of the packet; an error has what FFmpeg says of the driver."""
    import av.error
    import av.logging

    with _logs:
        before = av.logging.get_level(), av.logging.get_skip_repeated()
        av.logging.set_level(av.logging.ERROR)
        av.logging.set_skip_repeated(False)  # else the second film that fails alike says nothing
        try:
            with av.logging.Capture() as said:
                try:
                    return list(decoder.decode(packet))
                except (av.error.FFmpegError, ValueError) as error:
                    # not the error's own text: it ends with the latest message, which may be of another film
                    words = [line.strip() for _, _, line in said]
                    raise ValueError("; ".join([*words, getattr(error, "strerror", None) or ""])) from error
        finally:
            av.logging.set_level(before[0])
            av.logging.set_skip_repeated(before[1])
