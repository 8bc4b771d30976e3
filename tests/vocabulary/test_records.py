"""The records that every stage speaks in, their one JSON spelling, and the helpers next to them."""

from __future__ import annotations

import hashlib
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.errors import MissingExtra
from mmlake.optional import need
from mmlake.progress import counted, silent
from mmlake.records import ADMITTED, STATUSES, SourceRef, canonical_json, digest_of, is_digest

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # FIPS 180-2: SHA-256 of no bytes
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2: SHA-256 of "abc"


@pytest.mark.parametrize(("data", "digest"), [(b"", EMPTY), (b"abc", ABC), (memoryview(b"_abc")[1:], ABC)])
def test_a_digest_is_the_published_sha256(data, digest) -> None:
    assert digest_of(data) == digest


@pytest.mark.parametrize("text", [EMPTY, ABC, "0" * 64])
def test_a_digest_is_distinguished_from_its_spelling(text) -> None:
    assert is_digest(text)


@pytest.mark.parametrize(
    "text",
    ["", EMPTY[:63], EMPTY + "0", EMPTY.upper(), EMPTY + "\n", " " + EMPTY[1:], "g" * 64, "０" * 64, "sha256:" + EMPTY],
)
def test_any_other_spelling_is_no_digest(text) -> None:
    assert not is_digest(text)


def test_equal_values_have_one_json_spelling() -> None:
    assert canonical_json({"b": [1, None, True], "a": {"ü": 0.5}}) == '{"a":{"ü":0.5},"b":[1,null,true]}'


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, {"deep": [{"er": math.nan}]}])
def test_what_json_cannot_say_is_refused(value) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(value)


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
        ),
    )
)
def test_the_order_of_keys_never_shows(value) -> None:
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)
    assert json.loads(canonical_json(value)) == value


REFS = [
    SourceRef("a.tar"),
    SourceRef("dir/ä b.tar", member="x/y.jpg", byte_offset=512, byte_size=0),
    SourceRef("clip.mp4", frame_index=7),
]


@pytest.mark.parametrize("ref", REFS)
def test_a_source_ref_survives_its_column(ref) -> None:
    assert SourceRef.from_json(ref.to_json()) == ref


def test_a_source_ref_names_all_five_fields_and_its_form() -> None:
    assert (
        SourceRef("a.tar", "m", 1, 2, 3).to_json()
        == '{"byte_offset":1,"byte_size":2,"frame_index":3,"member":"m","path":"a.tar","v":2}'
    )


def test_keys_of_a_later_release_are_ignored() -> None:
    assert SourceRef.from_json('{"path":"a.tar","etag":"x"}') == SourceRef("a.tar")


@pytest.mark.parametrize(
    "text", ["", "[]", "null", '"a.tar"', "{}", '{"path":null}', '{"path":7}', '{"path":"a"', "{'path':'a'}"]
)
def test_what_is_no_source_ref_raises(text) -> None:
    with pytest.raises(ValueError):
        SourceRef.from_json(text)


@pytest.mark.parametrize("record", [SourceRef("a")])
def test_records_cannot_be_changed(record) -> None:
    with pytest.raises(AttributeError):
        record.path = "b"


def test_what_is_admitted_is_the_best_of_the_statuses() -> None:
    assert STATUSES[: len(ADMITTED)] == ADMITTED == ("ok", "flagged")


def test_needed_libraries_come_back_as_modules() -> None:
    assert need("hashlib", extra="cpu", purpose="hashing") is hashlib


@pytest.mark.parametrize("module", ["no_such_library", "no_such_library.part"])
def test_an_absent_library_names_the_extra_that_brings_it(module) -> None:
    with pytest.raises(
        MissingExtra,
        match=rf"encoder 'clip' needs the library '{module}', which is not installed; run: pip install 'mmlake\[gpu\]'",
    ) as caught:
        need(module, extra="gpu", purpose="encoder 'clip'")
    assert caught.value.exit_code == 7


@pytest.mark.parametrize(
    ("source", "culprit"),
    [("import its_absent_dependency", "its_absent_dependency"), ("from json import no_such_name", "json")],
)
def test_a_library_that_does_not_load_is_not_called_absent(tmp_path, monkeypatch, source, culprit) -> None:
    (tmp_path / "broken_library.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtra, match=f"installed but does not load .its import of '{culprit}' fails"):
        need("broken_library", extra="cpu", purpose="a test")


def test_each_item_is_counted_once_it_has_been_used() -> None:
    calls: list[int] = []
    seen = [(item, len(calls)) for item in counted("abc", calls.append)]
    assert (seen, calls) == ([("a", 0), ("b", 1), ("c", 2)], [1, 1, 1])


def test_silent_progress_calls_nobody() -> None:
    assert list(counted([1, 2], silent)) == [1, 2]
