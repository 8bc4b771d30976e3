"""What a person may decide about reading sources. Everything is JSON-able and part of the settings digest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceSettings:
    """Limits and field names of the connectors. Field names are compared without regard to case."""

    max_item_bytes: int = 4 << 30
    # bytes; one item, also after decompression. A two-hour 1080p film is about 4 GB.
    max_text_bytes: int = 16 << 20
    # bytes; text is held in memory. The longest book of Project Gutenberg is about 10 MB.
    max_line_bytes: int = 64 << 20
    # bytes; one JSONL line with its metadata, held in memory once.
    max_shard_bytes: int = 64 << 30
    # bytes; what a compressed tar may expand to in the temporary directory.
    max_json_depth: int = 100
    # levels; deeper nesting is refused at one fixed depth, where Python's own limit would depend on the caller's stack.
    max_small_member_bytes: int = 4096
    # bytes; a class label or id beside a sample is read into metadata up to here.
    batch_bytes: int = 32 << 20
    # bytes; how much of a Parquet row group is decoded at a time.
    max_charset_mess_fraction: float = 0.2
    # fraction 0..1; charset-normalizer's "chaos" of the best guess. Right guesses on texts in 40 encodings reach .167.
    text_fields: tuple[str, ...] = ("text", "content", "document")
    # a text of its own; beside an image it is a caption, beside sound or video a transcript. First present wins.
    caption_fields: tuple[str, ...] = ("caption", "captions")
    # a string or a list of strings.
    transcript_fields: tuple[str, ...] = ("transcript", "transcription")
    # a string or a list of strings.
    image_fields: tuple[str, ...] = ("image", "jpg", "jpeg", "png", "webp")
    # Parquet: bytes, or the struct {bytes, path}.
    audio_fields: tuple[str, ...] = ("audio", "wav", "flac", "mp3", "ogg", "opus")
    # Parquet: bytes, or the struct {bytes, path}.
    video_fields: tuple[str, ...] = ("video", "mp4", "mkv", "webm")
    # Parquet: bytes, or the struct {bytes, path}.
    id_fields: tuple[str, ...] = ("id", "sample_id", "__key__", "uuid")
    # names the sample in JSONL and Parquet; a repeated id gets the record's number behind it.
    licence_fields: tuple[str, ...] = ("license", "licence", "spdx", "license_url", "licence_url")
    # first present wins; told in SPDX where the spelling is known.
    texts_field: str = "texts"
    # interleaved samples: list of texts, null where an image stands.
    images_field: str = "images"
    # interleaved samples: list of image tokens, null where a text stands.
