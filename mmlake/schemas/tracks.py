"""The schemas of the preprocess stage: what decoding gives, transcripts laid on their sound, units."""

from __future__ import annotations

import pyarrow as pa

from mmlake.schemas.table import TableSchema, optional, required

_KEYFRAME = pa.struct(
    [
        required("time_s", pa.float64()),
        required("digest", pa.string(), "a JPEG blob"),
        required("shot", pa.int32(), "index into shots"),
    ]
)
_SHOT = pa.struct(
    [
        required("start_s", pa.float64()),
        required("end_s", pa.float64()),
        required("transition", pa.string(), "how it begins: start, cut, fade, dissolve"),
    ]
)
_SIGNAL = pa.struct(
    [
        required("time_s", pa.float32()),
        required("luma", pa.float32(), "mean, 0..255"),
        required("luma_std", pa.float32(), "standard deviation over the frame, 0..128"),
        required("sharpness", pa.float32(), "variance of the Laplacian on the luma plane at the analysis size"),
        required(
            "change",
            pa.float32(),
            "mean absolute luma difference to the frame analysed before, 0..255; 0 for the first",
        ),
        # of every frame since the signal before, this one included; null where nobody collected it
        optional("num_frames", pa.float32(), "frames shown"),
        optional("num_black", pa.float32(), "of them black: mean below 20, deviation below 10, nowhere bright"),
        optional("num_repeated", pa.float32(), "of them equal to the frame before"),
        optional("num_missing", pa.float32(), "frames that the time stamps leave out"),
        optional("num_swings", pa.float32(), "turns of the mean luma by 8 grey levels and more; two are a flash"),
        optional("flicker", pa.float32(), "sum over frames of the mean luma's distance from that of its neighbours"),
        optional("luma_low", pa.float32(), "lowest mean of a frame"),
        optional("luma_high", pa.float32(), "highest mean of a frame"),
        optional("shift_x", pa.float32(), "displacement of the whole picture, in widths of it"),
        optional("shift_y", pa.float32(), "likewise downwards, in widths"),
        optional("path", pa.float32(), "sum of the lengths of the displacements from frame to frame, in widths"),
        optional("motion", pa.float32(), "sum over frames of the mean luma change besides that of the mean"),
        optional("spoiled", pa.float32(), "largest share of a picture in a green that no colour has"),
        # of the frame of this signal; of the texture, from blockiness on, in every third or fourth, else null
        optional("bar_top", pa.float32(), "share of the picture that is black lines at its top"),
        optional("bar_bottom", pa.float32(), "likewise"),
        optional("bar_left", pa.float32(), "likewise"),
        optional("bar_right", pa.float32(), "likewise"),
        optional(
            "bar_edge",
            pa.float32(),
            "share of the cells inside of the black lines that is not black; of those two lines inside, if less",
        ),
        optional("lost_rows", pa.float32(), "share of the picture, at its bottom, of repeated or filled lines"),
        optional("blockiness", pa.float32(), "share of the edges of 8 px blocks that are steps between calm sides"),
        optional("pixelation", pa.float32(), "share of the steps across the picture that stand at even distances"),
        optional("noise", pa.float32(), "standard deviation of noise in calm parts, grey levels"),
        optional("combing", pa.float32(), "share of pixels whose lines alternate with those of the other field"),
        optional("smoothness", pa.float32(), "of edges, in the smoothest direction: 1 sharp, 4 smeared; 0 without any"),
    ]
)
_WORD = pa.struct(
    [
        required("word", pa.string()),
        required("start_s", pa.float64()),
        required("end_s", pa.float64()),
        required("score", pa.float32(), "0..1; 0 where the times are those of a cue, spread over its words"),
    ]
)
CUE_CUT = pa.struct(
    [
        required("cue", pa.int32(), "its place in the cues of the track, from 0"),
        required("time_s", pa.float64(), "the border, on the item's clock"),
        required("at", pa.int32(), "characters of its text that are said before the border, from 0 to all"),
    ]
)
CUE_LAG = pa.struct([required("time_s", pa.float64()), required("late_s", pa.float64())])
_CUE = pa.struct(
    [
        required("text", pa.string()),
        required("start_s", pa.float64()),
        required("end_s", pa.float64()),
        optional("score", pa.float32(), "a recognizer's confidence, 0..1"),
    ]
)
_SPEECH = pa.struct([required("start_s", pa.float64()), required("end_s", pa.float64())])
_DAMAGE = pa.struct(
    [
        required("what", pa.string()),
        optional("at_s", pa.float64(), "from the item's beginning; null where only the byte is known"),
        optional("at_byte", pa.int64(), "of the item's bytes; null where only the time is known"),
    ]
)

TRACKS = TableSchema(
    name="tracks",
    version=7,
    key=("digest",),
    arrow=pa.schema(
        [
            required("digest", pa.string()),
            required("modality", pa.string()),
            required("role", pa.string()),
            required("status", pa.string(), "ok or unreadable"),
            optional("error_code", pa.int32()),
            optional("error", pa.string(), "reason, where status is unreadable"),
            optional("content_type", pa.string()),
            required("size_bytes", pa.int64()),
            optional(
                "text",
                pa.large_string(),
                "normalized text: NFC, one newline kind, markup and boilerplate of HTML removed",
            ),
            optional("num_chars", pa.int64()),
            optional("num_words", pa.int64()),
            optional("width_px", pa.int32(), "after orientation is applied"),
            optional("height_px", pa.int32(), "after orientation is applied"),
            optional("orientation", pa.int32(), "EXIF 1..8; 1 where none is given"),
            optional(
                "num_frames", pa.int32(), "frames of an image file (TIFF, GIF, WebP, APNG) or decoded frames of a video"
            ),
            optional(
                "decoded",
                pa.string(),
                "video: `all` frames; or `keyframes`, so that what only all frames show is null: small frames, and in "
                "signals, one per keyframe, what they say of the frames between them",
            ),
            optional(
                "duration_s", pa.float64(), "from the beginning to the end of the last picture or sample that is there"
            ),
            optional("container_duration_s", pa.float64(), "what the header claims"),
            optional("frame_rate", pa.float64(), "average, frames per second"),
            optional("video_codec", pa.string()),
            optional("decoder", pa.string(), "row of FILM_DECODERS that decoded the pictures of a film"),
            optional("fallback_code", pa.int32(), "why it was not the row that the settings choose: 3111 to 3114"),
            optional("fallback_reason", pa.string(), "likewise, with the measured value"),
            optional("audio_codec", pa.string()),
            optional("sample_rate_hz", pa.int32(), "of the source"),
            optional("num_channels", pa.int32(), "of the source"),
            optional("num_decode_errors", pa.int32(), "packets that did not decode"),
            required(
                "damages",
                pa.list_(_DAMAGE),
                "places that do not decode, or do not have the checksum that the format carries, although the rest "
                "decodes; by time, at most 1,000",
            ),
            optional(
                "audio_digest",
                pa.string(),
                "blob: mono 16 kHz FLAC, sample 0 at time 0 of the item, gaps filled with silence",
            ),
            optional(
                "frames_digest",
                pa.string(),
                "blob: 64x64 grey frames of a film, one each eighth of a second, that films are compared by; Arrow",
            ),
            required("shots", pa.list_(_SHOT)),
            required("keyframes", pa.list_(_KEYFRAME)),
            required(
                "signals",
                pa.list_(_SIGNAL),
                "video: one per analysed frame, with what the frames since the one before show",
            ),
            optional(
                "frame_times_s",
                pa.list_(pa.float64()),
                "video: when each frame is shown, in order; null, as the next two, where not all were decoded",
            ),
            optional(
                "frame_motion",
                pa.list_(pa.float32()),
                "of each of these, to the frame before: mean change of the 5 % of 48 x 27 cells that change most, in "
                "grey levels",
            ),
            optional("frame_light", pa.list_(pa.float32()), "likewise: the median of the signed changes of all cells"),
            optional(
                "transcript", pa.large_string(), "plain words, where the source gave a transcript or a recognizer ran"
            ),
            required("transcript_source", pa.string(), "source, asr:<name>@<revision>, or none"),
            required(
                "cues",
                pa.list_(_CUE),
                "the transcript's own times: lines of subtitles, words of a recognizer; empty for plain text",
            ),
            optional(
                "speech",
                pa.list_(_SPEECH),
                "where somebody speaks, in order; null where there is no sound, or no voice detector ran",
            ),
        ]
    ),
)

ALIGNMENTS = TableSchema(
    name="alignments",
    version=2,
    key=("digest", "transcript_digest"),
    arrow=pa.schema(
        [
            required("digest", pa.string(), "the recording or film"),
            required("transcript_digest", pa.string(), "SHA-256 of the transcript in UTF-8"),
            required("method", pa.string(), "what laid the words: phone-agreement, or the recognizer that wrote them"),
            required("revision", pa.string(), "of the method's code"),
            required(
                "status",
                pa.string(),
                "ok; flagged where the transcript does not match or cannot be laid on the sound; unreadable where "
                "the alignment failed",
            ),
            optional("error_code", pa.int32(), "key of the error catalogue, where status is not ok"),
            optional("error", pa.string(), "reason, where status is not ok"),
            optional(
                "confidence", pa.float64(), "that the sound says the transcript, 0..1; null where it cannot be judged"
            ),
            required("words", pa.list_(_WORD), "in order of time; empty where the transcript does not match"),
            optional(
                "cue_lags",
                pa.list_(CUE_LAG),
                "where the cues of the track drift: how many seconds they come after their speech at times of theirs, "
                "in order, interpolated between them; null where they do not",
            ),
        ]
    ),
)

UNITS = TableSchema(
    name="units",
    version=3,
    key=("parent_digest", "position"),
    arrow=pa.schema(
        [
            required(
                "digest",
                pa.string(),
                "names the unit: the item's own where it is whole, else SHA-256 of canonical JSON {axis, end, kind, "
                "parent, producer, start}",
            ),
            required("parent_digest", pa.string(), "the item that holds it"),
            required("position", pa.int32(), "order within the item, from 0, gaps included"),
            required("kind", pa.string(), "whole; clip, a span of a film; segment, a span of a recording; gap"),
            optional("gap", pa.string(), "why it is no unit: silence, static, no_picture or too_short; null for units"),
            optional("axis", pa.string(), "us, microseconds from the item's beginning; null for texts and pictures"),
            optional("start", pa.int64(), "on the axis"),
            optional("end", pa.int64(), "on the axis; the next one starts here"),
            optional("start_frame", pa.int32(), "spans of films: the first frame, in the order of showing, from 0"),
            optional("end_frame", pa.int32(), "spans of films: the frame behind the last"),
            required("producer", pa.string(), "what cut it, name@revision; whole where nothing did"),
            required("role", pa.string()),
            required("status", pa.string(), "ok or unreadable"),
            optional("error_code", pa.int32(), "key of the error catalogue, where status is unreadable"),
            optional("error", pa.string(), "reason, where status is unreadable"),
            optional("cue_lags", pa.list_(CUE_LAG), "those of the item's alignment; null for gaps"),
            optional(
                "cue_cuts",
                pa.list_(CUE_CUT),
                "where borders of the item cut the text of its cues, by the words of its alignment, in order; at its "
                "first unit that is no gap, null at all others and where none is cut",
            ),
        ]
    ),
)
