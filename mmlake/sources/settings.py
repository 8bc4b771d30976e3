"""What a person may decide about reading sources. Everything is JSON-able and part of the settings digest."""

from __future__ import annotations

from dataclasses import dataclass

from mmlake.formats.text_encodings import MIN_CONFIDENCE


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceSettings:
    """Limits and field names of the connectors. Field names are compared without regard to case."""

    max_item_bytes: int = 4 << 30
    # bytes; one item, also after decompression. A two-hour 1080p film is about 4 GB.
    max_text_bytes: int = 16 << 20
    # bytes; text is held in memory. The longest book of Project Gutenberg is about 10 MB.
    max_line_bytes: int = 64 << 20
    # bytes; one JSONL line with its metadata. What it takes in memory is bounded by max_json_values and
    # max_decoded_bytes.
    max_json_values: int = 500_000
    # values of one JSON record: they may have three bytes each in the file, and take up to 400 in memory.
    max_shard_bytes: int = 64 << 30
    # bytes; what a compressed tar may expand to in the temporary directory, and by how much all members of a zip may
    # grow.
    max_loose_files: int = 10_000
    # files; a directory with more loose files becomes several shards. 10,000 COCO images are 1.6 GB and a few minutes
    # of work to lose.
    gather_above: int = 64
    # directories; where more of fewer than 1,000 files and 1 GiB each lie in and below one, they are one shard, not one
    # each. A shard takes .4 CPU s beyond its items; 64 are half a minute, and still a list that a person can read.
    max_json_depth: int = 100
    # levels; deeper nesting is refused at one fixed depth, where Python's own limit would depend on the caller's stack.
    max_small_member_bytes: int = 4096
    # bytes; a class label or id of a sample is read into metadata up to here.
    batch_bytes: int = 32 << 20
    # bytes; how much of a Parquet row group is decoded at a time.
    max_expansion: int = 100
    # times its bytes in the file; what a Parquet row group above 64 MiB may decode to. Texts reach 10, a column of one
    # repeated word more.
    max_decoded_bytes: int = 384 << 20
    # bytes; what reading a Parquet row group may hold at once, or four times its bytes in the file where that is more:
    # pages are expanded whole.
    # Also what one JSON record may: 42 MiB of text with one emoji in it, whose characters then take four bytes each;
    # other texts reach max_line_bytes.
    min_charset_confidence: float = MIN_CONFIDENCE
    # 0..1; chardet's confidence in its guess about a text of which more than a quarter is not ASCII. What is no text
    # reaches .08.
    text_fields: tuple[str, ...] = ("text", "content", "document", "sentence")
    # a text of its own; next to an image it is a caption, next to sound or video a transcript. First present wins.
    body_fields: tuple[str, ...] = ("body", "article", "abstract", "review")
    # the text of a record that has no other, no dialogue and no media. First present wins.
    caption_fields: tuple[str, ...] = ("caption", "captions")
    # a string or a list of strings; also with a number behind the name: caption_1, caption_2.
    transcript_fields: tuple[str, ...] = ("transcript", "transcription", "text_to_speech")
    # a string or a list of strings; "text_to_speech" is FineVideo's whole transcript.
    timed_fields: tuple[str, ...] = ("timecoded_text_to_speech", "segments")
    # a list of {start, end, text}, times in seconds or as 00:00:01.234; taken in place of a transcript without times.
    conversation_fields: tuple[str, ...] = ("messages", "conversations", "conversation")
    # a list of turns, {role, content} or {from, value}; the text of a record that has no other, "role: words" in a
    # paragraph each.
    prompt_fields: tuple[str, ...] = (
        "system", "system_prompt", "instruction", "prompt", "question", "query", "input", "inputs", "context",
    )  # fmt: skip
    # what is asked, in this order; with an answer the text of a record that has no other, "field: words" in a paragraph
    # each.
    answer_fields: tuple[str, ...] = ("output", "response", "completion", "answer", "targets")
    # what is answered to it.
    chosen_fields: tuple[str, ...] = ("chosen",)
    # the answer that people prefer, a string or a list of turns; with one of the next a pair of preferences.
    rejected_fields: tuple[str, ...] = ("rejected",)
    # the answer that they do not.
    record_fields: tuple[str, ...] = ("json",)
    # Parquet: a struct, or JSON as text or bytes, whose fields count as columns of the row.
    image_fields: tuple[str, ...] = ("image", "jpg", "jpeg", "png", "webp")
    # Parquet: bytes, or the struct {bytes, path}.
    audio_fields: tuple[str, ...] = ("audio", "wav", "flac", "mp3", "ogg", "opus")
    # Parquet: bytes, or the struct {bytes, path}.
    video_fields: tuple[str, ...] = ("video", "mp4", "mkv", "webm")
    # Parquet: bytes, or the struct {bytes, path}.
    id_fields: tuple[str, ...] = ("id", "sample_id", "__key__", "uuid")
    # names the sample in JSONL and Parquet; a repeated id gets the record's number behind it.
    licence_fields: tuple[str, ...] = ("license", "licence", "spdx", "license_url", "licence_url")
    # first present wins; an SPDX id where the spelling is known.
    url_fields: tuple[str, ...] = ("url",)
    # lists of URLs: an address whose content may be of any modality.
    image_url_fields: tuple[str, ...] = ("image_url",)
    # lists of URLs: the address of an image.
    video_url_fields: tuple[str, ...] = ("video_url",)
    # lists of URLs: the address of a video.
    audio_url_fields: tuple[str, ...] = ("audio_url",)
    # lists of URLs: the address of a recording.
    agent: str = "mmlake"
    # the product token of our user agent: the name under which robots.txt, X-Robots-Tag and meta tags may name us.
    respect_opt_out: bool = True
    # whether answers whose publisher asks not to be used for training (noai, noimageai, tdm-reservation) are rows
    # without bytes.
    respect_robots: bool = True
    # whether addresses that the host's robots.txt does not allow to our agent are rows that were never asked for.
    lance_versions: tuple[str, ...] = ()
    # "path/of/name.lance@7": the version that is read of that dataset; the latest one of every other.
    texts_field: str = "texts"
    # interleaved samples: list of texts, null where an image stands.
    images_field: str = "images"
    # interleaved samples: list of image tokens, null where a text stands.
    member_field: str = "member"
    # interleaved samples: names the member in an image token that is an object.
    default_image_field: str = ""
    # interleaved samples: field of the record that names the member for which tokens stand that name none; "": the
    # sample's first image.
    frame_field: str = "frame_index"
    # interleaved samples: picks a frame, from 0, in an image token that is an object.
    per_image_fields: tuple[str, ...] = ()
    # lists with one value per image of the sample, or per entry of the list of images; each image's row gets its own.
    per_text_fields: tuple[str, ...] = ()
    # lists with one value per entry of the list of texts; each text's row gets its own.
    json_extensions: tuple[str, ...] = ("json",)
    # members of tars and loose files that describe their sample; "meta.json" is the end of a name too, and a dot before
    # it says nothing.
    sample_id_field: str = ""
    # field of that description that names the sample; "": the sample is called by its stem. A repeated name gets a
    # number behind it.
