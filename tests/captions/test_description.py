"""A description counts as far as it lies within its clip, in order, and within the vocabulary."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mmlake.captions import CaptionSettings
from mmlake.captions.description import chosen, described
from mmlake.errors import UnreadableItem

SETTINGS = CaptionSettings(vocabulary=("sports", "impact", "screen_recording"), max_events=3)
EVENTS = [
    {"start_s": 1.2, "end_s": 3.5, "text": "the boy runs up"},
    {"start_s": 3.5, "end_s": 5.1, "text": "he spins"},
]


def _answer(**given: Any) -> str:
    return json.dumps({"caption": "a boy falls", "tags": ["sports"], "events": EVENTS} | given)


def _described(answer: str) -> Any:
    return described(answer, duration_s=6.8, settings=SETTINGS)


def test_a_good_answer_is_taken_over() -> None:
    found = _described(_answer(tags=["impact", "[Sports]", "screen recording", "sports"]))
    assert found.caption == "a boy falls"
    assert found.event_tags == ["impact", "screen_recording", "sports"]
    assert found.events == EVENTS
    assert found.refusals == []


def test_a_clip_in_which_nothing_happens_has_no_events() -> None:
    assert _described(_answer(events=[])).events == []


def test_tags_that_the_vocabulary_lacks_are_left_out_and_named() -> None:
    found = _described(_answer(tags=["sports", "skateboarding", "cats"]))
    assert found.event_tags == ["sports"]
    assert found.refusals == ["num_unknown_tags=2 not in [0, 0], the first is 'cats'"]


@pytest.mark.parametrize("end_s, kept_s", [(6.8, 6.8), (6.9, 6.8), (6.85, 6.8)])
def test_an_end_that_was_rounded_is_the_clips_end(end_s: float, kept_s: float) -> None:
    assert _described(_answer(events=[EVENTS[0] | {"end_s": end_s}])).events[0]["end_s"] == kept_s


@pytest.mark.parametrize(
    "events",
    [
        [EVENTS[0] | {"end_s": 6.91}],
        [EVENTS[0] | {"start_s": -0.01}],
        [EVENTS[0] | {"start_s": 3.5}],
        [EVENTS[0] | {"start_s": 6.8, "end_s": 6.85}],
        [EVENTS[0] | {"end_s": 1e300}],
        EVENTS[::-1],
        [EVENTS[0]] * 4,
    ],
)
def test_events_that_cannot_be_of_the_clip_refuse_the_answer(events: list[object]) -> None:
    with pytest.raises(UnreadableItem) as caught:
        _described(_answer(events=events))
    assert caught.value.code == 3805


@pytest.mark.parametrize(
    "given",
    [
        {"caption": None},
        {"caption": " "},
        {"caption": ["a"]},
        {"caption": "a" * 2_001},
        {"tags": "sports"},
        {"tags": [1]},
        {"tags": ["sports"] * 33},
        {"events": None},
        {"events": [3]},
        {"events": [{"start_s": "1", "end_s": 2, "text": "a"}]},
        {"events": [{"start_s": True, "end_s": 2, "text": "a"}]},
        {"events": [{"start_s": 10**400, "end_s": 2, "text": "a"}]},
        {"events": [{"start_s": 1, "end_s": 2}]},
        {"events": [{"start_s": 1, "end_s": 2, "text": ""}]},
    ],
)
def test_an_answer_of_another_form_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(UnreadableItem) as caught:
        _described(_answer(**given))
    assert caught.value.code == 3802


TIMES = st.floats() | st.integers() | st.floats(-1, 8)
RANDOM_EVENTS = st.lists(
    st.fixed_dictionaries({"start_s": TIMES, "end_s": TIMES, "text": st.text(max_size=20)}), max_size=5
)


@examples(max_examples=300, deadline=None)
@given(events=RANDOM_EVENTS, tags=st.lists(st.text(max_size=9), max_size=5), duration_s=st.floats(0.04, 60))
def test_whatever_comes_back_lies_in_the_clip_in_order_and_in_the_vocabulary(events, tags, duration_s) -> None:
    try:
        found = described(_answer(events=events, tags=tags), duration_s=duration_s, settings=SETTINGS)
    except UnreadableItem:
        return
    starts_s = [event["start_s"] for event in found.events]
    assert starts_s == sorted(starts_s) and len(starts_s) <= 3
    assert all(0 <= event["start_s"] < event["end_s"] <= duration_s for event in found.events)
    assert all(math.isfinite(event["end_s"]) and event["text"].strip() for event in found.events)
    assert set(found.event_tags) <= set(SETTINGS.vocabulary)


@pytest.mark.parametrize("max_frames, wanted", [(1, [0]), (2, [0, 9]), (4, [0, 3, 6, 9]), (20, list(range(10)))])
def test_frames_are_chosen_evenly_in_order_of_time(max_frames: int, wanted: list[int]) -> None:
    frames = [{"time_s": float(at), "digest": str(at)} for at in reversed(range(10))]
    found = chosen(frames, CaptionSettings(max_frames=max_frames))
    assert [int(frame["digest"]) for frame in found] == wanted
