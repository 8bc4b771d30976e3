"""The catalogue of codes: the `error_code` column of the stage tables, one entry for each way in which an item fails.

`docs/errors.md` is written from this file and from the rule tables of the quality stage, which have the 4xxx.
"""

from __future__ import annotations

from mmlake.error_codes.devices import DEVICE_CODES
from mmlake.error_codes.entry import ErrorCode
from mmlake.error_codes.media import MEDIA_CODES
from mmlake.error_codes.models import MODEL_CODES

__all__ = ["CODES", "TRANSIENT_CODES", "ErrorCode"]
_ENTRIES = (
    ErrorCode(
        code=1001,
        name="shard_unreadable",
        severity="P0",
        what="The shard cannot be opened as the format that its bytes and name say.",
        fix="Fetch the shard again and compare its checksum with the publisher's.",
    ),
    ErrorCode(
        code=1002,
        name="shard_truncated",
        severity="P0",
        what="The shard ends before its format says that it may; what came before was read.",
        fix="Fetch the shard again; the rows that were read stay valid.",
    ),
    ErrorCode(
        code=1003,
        name="record_malformed",
        severity="P0",
        what="One record does not parse (JSON, or a Parquet cell of an unusable type).",
        fix="Correct the record at the source; its bytes are kept as a blob.",
    ),
    ErrorCode(
        code=1004,
        name="not_text",
        severity="P0",
        what="A text record is neither UTF-8 nor in an encoding that can be detected with confidence.",
        fix="Convert the source to UTF-8.",
    ),
    ErrorCode(
        code=1005,
        name="unknown_content",
        severity="P0",
        what="Neither the bytes nor the name have a supported type.",
        fix="Convert the file, or remove it from the landing zone.",
    ),
    ErrorCode(
        code=1006,
        name="empty_file",
        severity="P0",
        what="The file or member has zero bytes.",
        fix="Fetch it again; an interrupted copy leaves such files.",
    ),
    ErrorCode(
        code=1007,
        name="unsafe_member",
        severity="P0",
        what="A file or an archive member that is never opened: a link that leaves, a device, an impossible path, "
        "or a directory that may not be listed.",
        fix="Land regular files with relative names, and give the right to list their directories.",
    ),
    ErrorCode(
        code=1008,
        name="item_too_large",
        severity="P0",
        what="One item is larger than the settings allow, or decompresses to more.",
        fix="Raise `sources.max_item_bytes` if the item is genuine.",
    ),
    ErrorCode(
        code=1009,
        name="duplicate_member",
        severity="P0",
        what="An archive holds two members of one name; every one after the first is kept as a row of its own.",
        fix="Rebuild the archive with distinct names.",
    ),
    ErrorCode(
        code=1010,
        name="content_mismatch",
        severity="P0",
        what="The bytes do not have the hash or the size that their publisher states.",
        fix="Fetch the file again; if that gives the same bytes, ask the publisher, since the file was changed or "
        "damaged after it was hashed.",
    ),
    ErrorCode(
        code=1011,
        name="media_file_missing",
        severity="P0",
        what="A caption, a transcript line or an annotation names an image or recording that is not where it "
        "should be; what it says is kept.",
        fix="Land the medium where the corpus has it (COCO: `train2017/` next to `annotations/`), or remove the line.",
    ),
    ErrorCode(
        code=1012,
        name="packed_file",
        severity="P0",
        what="The file is a 7z or RAR archive, a zip inside an archive, or a document, program or weights that are "
        "a zip inside; its members are not read.",
        fix="Unpack an archive in its place and remove it, or repack it as .zip, .tar, .tar.gz or .tar.zst. "
        "Convert documents, or remove them.",
    ),
    ErrorCode(
        code=1101,
        name="address_refused",
        severity="P1",
        what="The URL has another scheme than http and https, or credentials, or leads to an address that is not "
        "public.",
        fix="List a public http or https address; name networks of your own in `web.allowed_networks`.",
    ),
    ErrorCode(
        code=1102,
        name="host_unresolved",
        severity="P1",
        what="The host of the URL has no address.",
        fix="Try again with `mmlake retry`; if it stays so, the host is gone.",
        is_transient=True,
    ),
    ErrorCode(
        code=1103,
        name="host_unreachable",
        severity="P1",
        what="The host does not accept the connection, or breaks it before it answers.",
        fix="Try again with `mmlake retry`.",
        is_transient=True,
    ),
    ErrorCode(
        code=1104,
        name="answer_timed_out",
        severity="P1",
        what="The answer did not arrive in the time that the settings allow.",
        fix="Try again with `mmlake retry`, or raise `web.total_timeout_s`.",
        is_transient=True,
    ),
    ErrorCode(
        code=1105,
        name="host_busy",
        severity="P1",
        what="The server answered with a status that says to come back later (408, 425, 429 or 5xx), also after "
        "our own retries.",
        fix="Try again with `mmlake retry`, with a longer `web.host_delay_s`.",
        is_transient=True,
    ),
    ErrorCode(
        code=1106,
        name="answer_refused",
        severity="P1",
        what="The answer has a status other than 200, or redirects that lead nowhere.",
        fix="Remove the address from the list, or correct it.",
    ),
    ErrorCode(
        code=1107,
        name="answer_cut",
        severity="P1",
        what="The answer ended before its length said so.",
        fix="Try again with `mmlake retry`.",
        is_transient=True,
    ),
    ErrorCode(
        code=1108,
        name="content_opted_out",
        severity="P1",
        what="The publisher asks in a header or in the page that it is not used for training; the bytes are not kept.",
        fix="Leave it out. `sources.respect_opt_out` is for those who have a permission.",
    ),
    ErrorCode(
        code=1109,
        name="robots_disallowed",
        severity="P1",
        what="The host's robots.txt does not allow the address to our agent.",
        fix="Leave it out. `sources.respect_robots` is for those who have a permission.",
    ),
    ErrorCode(
        code=1110,
        name="robots_unavailable",
        severity="P1",
        what="The host's robots.txt cannot be had at present, which forbids everything for now (RFC 9309).",
        fix="Try again with `mmlake retry`.",
        is_transient=True,
    ),
    ErrorCode(
        code=1111,
        name="address_not_fetched",
        severity="P1",
        what="The record names an image at an address of the web, and files of this name are read without fetching "
        "anything.",
        fix="Call the file a list of URLs (`name.urls.jsonl`, `name.urls.parquet`) to have its images fetched; "
        "the texts are read either way.",
    ),
    ErrorCode(
        code=2001,
        name="blob_missing",
        severity="P0",
        what="The row names a blob that the store does not have.",
        fix="Run `mmlake fsck --repair`, which reads it again from its source.",
    ),
    ErrorCode(
        code=2002,
        name="blob_corrupt",
        severity="P0",
        what="The blob's bytes no longer hash to its name.",
        fix="Run `mmlake fsck --repair`, which reads it again from its source.",
    ),
    *MEDIA_CODES,
    ErrorCode(
        code=3101,
        name="worker_crashed",
        severity="P0",
        what="A decoder ended the worker process that it ran in, twice where that had done other items before.",
        fix="Compare the file with its publisher's, and report the crash; `mmlake retry` tries it again.",
        is_transient=True,
    ),
    ErrorCode(
        code=3102,
        name="item_timed_out",
        severity="P0",
        what="The item was not done in the time that the settings allow, and its worker process was ended.",
        fix="Raise `compute.item_timeout_s` if the item is genuine, then `mmlake retry`.",
        is_transient=True,
    ),
    ErrorCode(
        code=3103,
        name="item_out_of_memory",
        severity="P0",
        what="The item needs more memory than the settings allow one item, or than the machine has.",
        fix="Raise `compute.item_memory_bytes` if the item is genuine, or lower `compute.workers` on a small machine, "
        "then `mmlake retry`.",
        is_transient=True,
    ),
    *DEVICE_CODES,
    ErrorCode(
        code=3201,
        name="transcript_mismatch",
        severity="P1",
        what="The transcript does not match: the sound does not say it, says more or something else, or holds no "
        "speech. Its words have no times.",
        fix="Compare the transcript with the recording; the medium itself is fine.",
    ),
    ErrorCode(
        code=3202,
        name="alignment_impossible",
        severity="P2",
        what="The transcript can be neither confirmed nor doubted: it is hardly English, very short, too long without "
        "cue times, without words, or has no sound.",
        fix="Give long recordings subtitles (SRT, VTT); for other languages nothing can be done yet.",
    ),
    ErrorCode(
        code=3203,
        name="alignment_failed",
        severity="P2",
        what="The transcript could not be laid on its sound although both were decoded before.",
        fix="Try again with `mmlake retry`; search the log of the alignments step for the item's digest.",
        is_transient=True,
    ),
    ErrorCode(
        code=3204,
        name="transcript_drift",
        severity="P2",
        what="The times of the transcript leave those of its speech by more than half a second; its words were laid on "
        "the speech where windows of 30 s or, of another cut of a film, all of its lines together show it to be.",
        fix="Nothing needs to be done for the words of the alignments; correct the times of the cues at the source, or "
        "recognize the recording in parts of ten minutes.",
    ),
    ErrorCode(
        code=3301,
        name="split_failed",
        severity="P0",
        what="A long recording or film could not be cut to spans although it was decoded before.",
        fix="Try again with `mmlake retry`; search the log of the units step for the item's digest.",
        is_transient=True,
    ),
    ErrorCode(
        code=3302,
        name="frames_unlisted",
        severity="P0",
        what="Decoding a film again shows another number of frames than its track has, so that no span can name its "
        "frames.",
        fix="Encode the film again, or make its track again with this version of FFmpeg.",
    ),
    ErrorCode(
        code=3303,
        name="cut_failed",
        severity="P0",
        what="No clip or segment could be cut from the film or recording although it was decoded before.",
        fix="Versions leave the unit out; try again with `mmlake retry --code 3303`, and set `cuts.media` to `encode` "
        "where packets were copied.",
    ),
    ErrorCode(
        code=3401,
        name="speakers_failed",
        severity="P2",
        what="Who speaks when could not be found in the sound although it was decoded before; a diarizer that crashes, "
        "takes too long or leaks has 3101 to 3103.",
        fix="Try again with `mmlake retry`; search the log of the speakers step for the item's digest.",
        is_transient=True,
    ),
    *MODEL_CODES,
    ErrorCode(
        code=5001,
        name="fingerprint_failed",
        severity="P1",
        what="No fingerprint could be made of the item although it was decoded before: near duplicates of it are not "
        "found.",
        fix="Try again with `mmlake retry`; search the log of the fingerprints step for the item's digest.",
    ),
    ErrorCode(
        code=5002,
        name="embedding_failed",
        severity="P1",
        what="No vector could be made of the item although it was decoded before: search by meaning and semantic "
        "duplicates miss it.",
        fix="Try again with `mmlake retry`; search the log of the embeddings step for the item's digest.",
    ),
    ErrorCode(
        code=5003,
        name="nothing_to_embed",
        severity="P2",
        what="The item has nothing of the kind that its encoder reads: a recording without a transcript, a film "
        "without keyframes, a text in a script that it has no words of.",
        fix="Choose another encoder for the modality in `embed.encoders`, or land transcripts with the recordings.",
    ),
)
CODES: dict[int, ErrorCode] = {entry.code: entry for entry in _ENTRIES}
TRANSIENT_CODES = frozenset(entry.code for entry in _ENTRIES if entry.is_transient)  # what `mmlake retry` tries again
