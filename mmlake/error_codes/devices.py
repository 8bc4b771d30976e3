"""Codes of films that the chosen decoder or its GPU left to the CPU: 3111 to 3114. Their rows are sound."""

from __future__ import annotations

from mmlake.error_codes.entry import ErrorCode

DEVICE_CODES = (
    ErrorCode(
        code=3111,
        name="device_out_of_memory",
        severity="P2",
        what="The GPU that was to decode the film had no memory left; the CPU decoded it, and the row is sound.",
        fix="Lower `decode.max_streams` or `decode.shrink_above_px`, or leave the GPU to the decoder alone.",
    ),
    ErrorCode(
        code=3112,
        name="device_streams_taken",
        severity="P2",
        what="All streams of the GPU were taken for as long as a film waits; the CPU decoded it, and the row is sound.",
        fix="Raise `decode.max_streams` where the GPU has memory left, or `decode.stream_wait_s`; lower "
        "`compute.workers`.",
    ),
    ErrorCode(
        code=3113,
        name="device_codec_unsupported",
        severity="P2",
        what="The chosen decoder has no codec, picture size or pixel format like that of the film; the CPU decoded it, "
        "and the row is sound.",
        fix="Nothing needs to be done; a newer GPU may decode it.",
    ),
    ErrorCode(
        code=3114,
        name="device_gave_up",
        severity="P2",
        what="The chosen decoder failed on the film, or gave another number of frames than the film has; the CPU "
        "decoded it, and the row says what became of that.",
        fix="Compare the reason with the driver's log (`nvidia-smi -q`, `dmesg`) where many films have this code.",
    ),
)
