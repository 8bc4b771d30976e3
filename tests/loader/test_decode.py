"""Which decoder a member goes through."""

from __future__ import annotations

import pytest

from mmlake.loader.decode import decoded, decoders


@pytest.mark.parametrize(
    ("ending", "data", "expected"),
    [
        ("txt", b"words", "words"),
        ("caption.txt", b"words", "words"),
        ("000.txt", b"words", "words"),
        ("json", b'{"label":3}', {"label": 3}),
        ("data.json", b"{ what a source called JSON", b"{ what a source called JSON"),
        ("mp4", b"film", b"film"),
        ("001.flac", b"sound", b"sound"),
    ],
)
def test_members_decode_by_what_follows_the_last_dot(ending: str, data: bytes, expected: object) -> None:
    assert decoded(ending, data, decoders("auto")) == expected


def test_the_whole_ending_comes_before_its_last_part() -> None:
    choice = decoders({"txt": "text", "caption.txt": "bytes"})
    assert [decoded(ending, b"x", choice) for ending in ("000.txt", "caption.txt", "json")] == ["x", b"x", b"x"]


def test_without_a_choice_members_stay_bytes() -> None:
    assert decoded("txt", b"words", decoders("bytes")) == b"words"
