"""The classes of errors of the runbooks for video and audio, 1xxx to 8xxx, and what stands for each here."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ASKED = re.compile(r"(?:TMP_ERR_CODE_)?([1-8])XXX", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FieldCode:
    """One class."""

    name: str  # 1XXX to 8XXX
    what: str  # happens
    cure: str  # what is done against it here, and what can be set
    codes: tuple[int, ...]  # of ours
    test: str  # provokes it


FIELD_CODES = (
    FieldCode(
        "1XXX",
        "storage does not answer in time under many readers; without jitter all come back at once",
        "Waits are drawn with full jitter and doubled up to a cap, within a budget; what is read lies in a bounded "
        "cache on local disk, and reading ahead grows. `[remote] cache_bytes`.",
        (1103, 1104, 1105),
        "tests/remote/test_remote_backoff.py::test_waits_are_drawn_evenly_below_a_bound_that_doubles_up_to_the_cap",
    ),
    FieldCode(
        "2XXX",
        "a decoder runs out of memory, or a GPU of streams",
        "Films of more than 1080 lines are shrunk while they are decoded, streams are counted per device, and "
        "what finds none is decoded by the CPU, with the reason in its row. `[decode] shrink_above_px`, `max_streams`.",
        (3103, 3004, 3111, 3112),
        "tests/decoding/test_film_decoders.py::test_a_driver_that_gives_up_leaves_the_film_to_the_cpu",
    ),
    FieldCode(
        "3XXX",
        "the times of a transcript drift",
        "Long recordings are split at silence, windows of 30 s are held against the sound, and words that lie off by "
        "more than half a second are aligned again.",
        (3204,),
        "tests/preprocess/test_drift.py::test_words_of_a_transcript_that_drifts_lie_where_they_are_said",
    ),
    FieldCode(
        "4XXX",
        "a diarizer leaks until it is killed",
        "Models of speakers run in a process of their own under a cap of memory, which ends after two hours of sound; "
        "what is found until then stays. `[speakers]`.",
        (3101, 3102, 3103, 3401),
        "tests/voices/test_speakers.py::test_a_leak_over_many_recordings_loses_none_of_their_speakers",
    ),
    FieldCode(
        "5XXX",
        "several processes write one shard",
        "The second writer is asked to wait; a shard is written under another name, and renamed when it is whole.",
        (),
        "tests/shards/test_shard_files.py::test_a_second_writer_is_asked_to_wait",
    ),
    FieldCode(
        "6XXX",
        "sound, picture and words do not belong together: found by their times and words, and by meaning where there "
        "are encoders",
        "P0 never enters, P1 is isolated, P2 is down-weighted; bounds are those of `[quality.bounds]`.",
        (4331, 4332, 4333, 4334, 4335, 4336, 4337, 4002),
        "tests/wiring/test_mismatch_in_lakes.py::test_each_film_has_the_verdict_of_what_was_planted",
    ),
    FieldCode(
        "7XXX",
        "frames come out of order, or of another place",
        "Clips are sought before their film is opened (`-ss` before `-i`), and their frames are counted.",
        (3302,),
        "tests/cuts/test_cut_films.py::test_neighbouring_clips_hold_every_frame_of_the_film_once",
    ),
    FieldCode(
        "8XXX",
        "noise masks the speech",
        "What drowns is `noisy`; noise is taken out for recognizers, and out of samples, where it is asked for. "
        "`[preprocess] denoiser`, `[cuts] denoiser`.",
        (4403,),
        "tests/quality/test_quality_audio.py::test_speech_that_drowns_is_noisy",
    ),
)


def field_code(asked: str) -> FieldCode | None:
    """The class of that name (`6XXX`, or as runbooks write it, `TMP_ERR_CODE_6XXX`); None where it names none."""
    found = _ASKED.fullmatch(asked)
    return FIELD_CODES[int(found[1]) - 1] if found else None


def field_codes_table() -> list[str]:
    """The lines of the table in docs/errors.md."""
    lines = ["| class | what happens | what is done | ours | provoked by |", "| --- | --- | --- | --- | --- |"]
    for row in FIELD_CODES:
        ours = ", ".join(str(code) for code in row.codes) or "none"
        lines.append(f"| {row.name} | {row.what} | {row.cure} | {ours} | `{row.test}` |")
    return lines
