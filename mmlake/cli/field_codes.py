"""The classes of errors of the runbooks for video and audio, 1xxx to 8xxx, and what stands for each here."""

from __future__ import annotations

# (class, what happens, our codes, the test that provokes it)
FIELD_CODES: tuple[tuple[str, str, tuple[int, ...], str], ...] = (
    ("1XXX", "storage does not answer in time under many readers; without jitter all come back at once",
     (1103, 1104, 1105),
     "tests/remote/test_remote_backoff.py::test_waits_are_drawn_evenly_below_a_bound_that_doubles_up_to_the_cap"),
    ("2XXX", "a decoder runs out of memory, or a GPU of streams", (3103, 3004, 3111, 3112),
     "tests/decoding/test_film_decoders.py::test_a_driver_that_gives_up_leaves_the_film_to_the_cpu"),
    ("3XXX", "the times of a transcript drift", (3204,),
     "tests/preprocess/test_drift.py::test_words_of_a_transcript_that_drifts_lie_where_they_are_said"),
    ("4XXX", "a diarizer leaks until it is killed", (3101, 3102, 3103, 3401),
     "tests/voices/test_speakers.py::test_a_leak_over_many_recordings_loses_none_of_their_speakers"),
    ("5XXX", "several processes write one shard", (),
     "tests/shards/test_shard_files.py::test_a_second_writer_is_asked_to_wait"),
    ("6XXX", "sound, picture and words do not belong together: found by their times and words, and by meaning where "
     "there are encoders", (4331, 4332, 4333, 4334, 4335, 4336, 4337, 4002),
     "tests/wiring/test_mismatch_in_lakes.py::test_each_film_has_the_verdict_of_what_was_planted"),
    ("7XXX", "frames come out of order, or of another place", (3302,),
     "tests/cuts/test_cut_films.py::test_neighbouring_clips_hold_every_frame_of_the_film_once"),
    ("8XXX", "noise masks the speech", (4403,),
     "tests/quality/test_quality_audio.py::test_speech_that_drowns_is_noisy"),
)  # fmt: skip


def field_codes_table() -> list[str]:
    """The lines of the table in docs/errors.md."""
    lines = ["| class | what happens | ours | provoked by |", "| --- | --- | --- | --- |"]
    for name, what, codes, test in FIELD_CODES:
        ours = ", ".join(str(code) for code in codes) or "the second writer is asked to wait"
        lines.append(f"| {name} | {what} | {ours} | `{test}` |")
    return lines
