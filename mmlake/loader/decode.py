"""The decoders that a sample's members may go through: a closed list, none of which executes anything that it reads."""

from __future__ import annotations

import io
import json
import tempfile
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from mmlake.errors import SettingsError, UnreadableItem
from mmlake.film_decoders import Clip, DecodeSettings, decode_clip, film_decoder
from mmlake.formats.media_containers import starts_as_mpeg_audio
from mmlake.media.decoders import check_sample_rate, placed_sound
from mmlake.media.jpegs import split_jpegs
from mmlake.media.ogg_pages import is_chained
from mmlake.media.pictures import picture_formats, shown
from mmlake.media.sound_conversion import mixed
from mmlake.media_names import endings_of
from mmlake.speech.mel import log_mel

_MAX_PIXELS = 100_000_000  # a picture beyond it is refused from its header, before memory is spent
_MAX_FRAMES = 4096
_MAX_SOUND_VALUES = 200_000_000  # 800 MB as float32: 3 hours at 16 kHz
SOUND_RATE_HZ = 16_000


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _as_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnreadableItem(1003, f"num_bytes={len(data)} do not parse as JSON") from error


def _as_image(data: bytes) -> np.ndarray:
    """uint8, shape (height, width, 3), RGB, as a viewer shows it and every measure saw it."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns about what the track says, and what is refused here
            with Image.open(io.BytesIO(data), formats=picture_formats()) as image:
                width_px, height_px = image.size
                if width_px * height_px > _MAX_PIXELS:
                    raise UnreadableItem(3004, f"num_pixels={width_px * height_px} not in [1, {_MAX_PIXELS}]")
                return np.array(shown(image).convert("RGB"))  # a copy: what Pillow lends is read-only
    except (
        OSError,
        ValueError,
        IndexError,
        RuntimeError,
        SyntaxError,
        NotImplementedError,
        Image.DecompressionBombError,
    ) as error:
        raise UnreadableItem(3001, f"num_bytes={len(data)} do not decode as a picture") from error


def _as_frames(data: bytes) -> list[np.ndarray]:
    """Keyframes in order of time, each uint8 of shape (height, width, 3), RGB; their times are in `json`."""
    pictures = split_jpegs(data)
    if len(pictures) > _MAX_FRAMES:
        raise UnreadableItem(3008, f"num_frames={len(pictures)} not in [0, {_MAX_FRAMES}]")
    return [_as_image(picture) for picture in pictures]


def _as_sound(data: bytes) -> np.ndarray:
    """float32 of shape (num_samples,), mono at 16 kHz, full scale 1."""
    import soundfile
    import soxr

    rate_hz: int
    try:
        # libsndfile reads the first stream of a chain, and MP3 to where its first frame says
        if is_chained(io.BytesIO(data)) or starts_as_mpeg_audio(io.BytesIO(data)):
            samples, rate_hz = _by_ffmpeg(data)
        else:
            with soundfile.SoundFile(io.BytesIO(data)) as sound:
                check_sample_rate(sound.samplerate)
                num_values = sound.frames * max(sound.channels, SOUND_RATE_HZ / sound.samplerate)
                if num_values > _MAX_SOUND_VALUES:
                    raise UnreadableItem(3007, f"num_samples={int(num_values)} not in [0, {_MAX_SOUND_VALUES}]")
                # GSM 06.10 and its like cannot be sought in, and are asked for a number of samples
                samples = sound.read(-1 if sound.seekable() else sound.frames, dtype="float32", always_2d=True)
                rate_hz = sound.samplerate
    except soundfile.LibsndfileError:
        samples, rate_hz = _by_ffmpeg(data)
    except (RuntimeError, ValueError) as error:
        raise UnreadableItem(3001, f"num_bytes={len(data)} do not decode as sound") from error
    mono = mixed(samples)
    resampled: np.ndarray = mono if rate_hz == SOUND_RATE_HZ else soxr.resample(mono, rate_hz, SOUND_RATE_HZ)
    return resampled.astype(np.float32, copy=False)


def _by_ffmpeg(data: bytes) -> tuple[np.ndarray, int]:
    """(float32 of shape (num_samples, num_channels), rate in Hz) of sound that libsndfile does not know: AAC, WMA.
    What a broken clock leaves out is silence."""
    parts, num_samples, rate_hz = list[np.ndarray](), 0, 0
    with tempfile.NamedTemporaryFile(prefix="mmlake-sound-") as file:
        file.write(data)
        file.flush()
        for block_hz, position, block in placed_sound(Path(file.name)):
            rate_hz = block_hz
            gap = max(0, position - num_samples)
            num_samples += gap + len(block)
            if num_samples * block.shape[1] > _MAX_SOUND_VALUES:
                raise UnreadableItem(3007, f"num_samples={num_samples} not in [0, {_MAX_SOUND_VALUES}]")
            if parts and block.shape[1] != parts[0].shape[1]:
                raise UnreadableItem(3001, f"num_channels={block.shape[1]} after {parts[0].shape[1]}")
            parts += [np.zeros((gap, block.shape[1]), np.float32), block] if gap else [block]
    if not parts:
        raise UnreadableItem(3001, f"num_bytes={len(data)} do not decode as sound")
    check_sample_rate(rate_hz)
    return np.concatenate(parts), rate_hz


def _as_clip(data: bytes, *, settings: DecodeSettings | None = None) -> Clip:
    """The pictures of a film or clip, by the row of FILM_DECODERS that the settings choose."""
    with tempfile.NamedTemporaryFile(prefix="mmlake-clip-") as file:  # drivers open files
        file.write(data)
        file.flush()
        return decode_clip(Path(file.name), settings=settings or DecodeSettings())


def _as_log_mel(data: bytes, num_bands: int) -> np.ndarray:
    """float32 of shape (num_bands, num_samples // 160): what `mmlake.speech.mel.log_mel` makes of the sound."""
    return log_mel(_as_sound(data), num_bands)


DECODERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "bytes": bytes,
    "text": _as_text,
    "json": _as_json,
    "image": _as_image,
    "frames": _as_frames,
    "sound": _as_sound,
    "clip": _as_clip,
    "log_mel": partial(_as_log_mel, num_bands=80),  # of Whisper up to large-v2
    "log_mel_128": partial(_as_log_mel, num_bands=128),  # of large-v3
}
AUTO: Final = {
    "txt": "text",
    "md": "text",
    "html": "text",
    "json": "json",  # what describes the sample
    "data.json": "bytes",  # what a source had as JSON, whole or not
    "mjpeg": "frames",
    **{name: decoder for family, decoder in (("image", "image"), ("audio", "sound")) for name in endings_of(family)},
}


def decoders(choice: str | Mapping[str, str], films: DecodeSettings | None = None) -> dict[str, Callable[[bytes], Any]]:
    """Ending -> decoder. choice: "bytes" (none), "auto" (AUTO), or a mapping of endings to names of DECODERS. films:
    how "clip" decodes."""
    if not isinstance(choice, Mapping):
        if choice not in ("bytes", "auto"):
            raise SettingsError(
                f"decode is {choice!r}, expected 'bytes', 'auto' or a mapping of endings to {sorted(DECODERS)}"
            )
        choice = AUTO if choice == "auto" else {}
    if strangers := sorted(str(name) for name in choice.values() if name not in DECODERS):
        raise SettingsError(
            f"decode names {strangers}, expected some of {sorted(DECODERS)}; decode anything else in your own "
            "code, from bytes"
        )
    film_decoder(films or DecodeSettings())  # refused at once, not at the first clip
    known = DECODERS | {"clip": partial(_as_clip, settings=films)}
    return {ending: known[name] for ending, name in choice.items()}


def decoded(ending: str, data: bytes, by_ending: Mapping[str, Callable[[bytes], Any]]) -> Any:
    """The member as the decoder of its ending gives it, else as that of the longest part behind a dot: `jpg` also
    decodes `001.jpg`, and `audio.ts` comes before `ts` for `001.audio.ts`. Bytes where none has one."""
    rest = ending
    while rest and rest not in by_ending:
        rest = rest.partition(".")[2]
    return by_ending[rest](data) if rest in by_ending else data
