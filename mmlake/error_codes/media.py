"""Codes of pictures, films and recordings that do not decode, or are not to be decoded: 3001 to 3012."""

from __future__ import annotations

from mmlake.error_codes.entry import ErrorCode

MEDIA_CODES = (
    ErrorCode(
        code=3001,
        name="undecodable",
        severity="P0",
        what="No decoder makes anything of the bytes.",
        fix="Open the file in a player or viewer; if it opens there, report it.",
    ),
    ErrorCode(
        code=3002,
        name="media_truncated",
        severity="P0",
        what="The stream stops before its header says, or large parts of it do not decode.",
        fix="Fetch the file again.",
    ),
    ErrorCode(
        code=3003,
        name="no_stream",
        severity="P0",
        what="The container has no stream of the kind that its modality needs.",
        fix="Check the file; a sound-only mp4 belongs to audio.",
    ),
    ErrorCode(
        code=3004,
        name="pixel_budget",
        severity="P0",
        what="Decoding would take more pixels than the settings allow.",
        fix="Raise `preprocess.max_pixels` if the picture is genuine.",
    ),
    ErrorCode(
        code=3005,
        name="container_refused",
        severity="P0",
        what="The file is a playlist or a script that makes decoders open other files.",
        fix="Land the media itself; playlists are never followed.",
    ),
    ErrorCode(
        code=3006,
        name="sample_rate_out_of_range",
        severity="P0",
        what="The sound claims a sample rate that no recorder has, and would grow without bound when it is resampled.",
        fix="Correct the header, or widen `preprocess.min_sample_rate_hz` and `max_sample_rate_hz`.",
    ),
    ErrorCode(
        code=3007,
        name="duration_budget",
        severity="P0",
        what="The sound is longer than the settings allow.",
        fix="Cut the recording before it lands, or raise `preprocess.max_decoded_s` and give the machine the memory.",
    ),
    ErrorCode(
        code=3008,
        name="frame_budget",
        severity="P0",
        what="The film has more frames than the settings allow.",
        fix="Cut the film before it lands, or raise `preprocess.max_frames`.",
    ),
    ErrorCode(
        code=3009,
        name="sample_budget",
        severity="P0",
        what="One decoded frame of sound would become more samples than the settings allow when it is resampled.",
        fix="Encode the sound again, or raise `preprocess.max_frame_samples` if the file is genuine.",
    ),
    ErrorCode(
        code=3010,
        name="media_encrypted",
        severity="P0",
        what="The pictures or the sound are encrypted, and nothing here has the key.",
        fix="Decrypt the file before it lands.",
    ),
    ErrorCode(
        code=3011,
        name="media_clock_restarts",
        severity="P0",
        what="The clock of the file begins again or leaps, as where films were laid end to end.",
        fix="Split it where its reason says, or give it one clock before it lands: `ffmpeg -i FILE -c copy JOINED.mp4` "
        "for MPEG-PS, `ffmpeg -f concat` for what other formats were made of.",
    ),
    ErrorCode(
        code=3012,
        name="media_joined",
        severity="P0",
        what="The file is several files laid end to end, of which players and decoders read the first one alone.",
        fix="Split it where its reason says, or join what it was made of by a program that knows the format: "
        "`ffmpeg -f concat`.",
    ),
)
