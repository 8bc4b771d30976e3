"""The tracks of one clip on one time axis: keyframes, shots, sound, words and what else has a time.

Places are percentages of the width, so that the axis fits every screen; the script moves the head while the clip plays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from mmlake.report.svg import _px, number, tag, text, ticks

_WIDTH_PX = 690  # at which it is decided what fits; `--measure` of the style without the names at the left
_CHAR_PX = 6.4  # of a word, on average
_FRAME_WH = (72, 42)
_MAX_LANES = 4
_NUM_HUES = 10  # of the style
_LANE_PX = 17
Span = Mapping[str, Any]  # start_s, end_s


def timeline(
    duration_s: float,
    *,
    title: str,
    keyframes: Sequence[tuple[float, str]],
    shots: Sequence[Span],
    peaks: Sequence[float],
    words: Sequence[Span],
    spans: Mapping[str, Sequence[Span]],
    media_start_s: float = 0.0,
) -> Markup:
    """The picture. keyframes: (time_s, data URI). words: each with `text`. spans: further rows by their names, such as
    subtitles, each span with `text`; `speech` is drawn behind the sound, and of `speakers` each has its colour."""
    place = _Axis(duration_s)
    y = 0.0
    parts = []
    for name, (rows, height) in {
        "": _scale(place),
        "keyframes": _frames(place, keyframes),
        "shots": _shots(place, shots),
        "sound": _sound(place, peaks, spans.get("speech", ())),
        "words": _texts(place, words),
        **{name: _texts(place, row, by_text=name == "speakers") for name, row in spans.items() if name != "speech"},
    }.items():
        if height:
            label = text(-6, 12, name, _class="axis", text_anchor="end") if name else Markup("")
            parts.append(tag("svg", {"x": 0, "y": _px(y), "width": "100%", "height": height, "overflow": "visible"},
                             label, *rows))  # fmt: skip
            y += height + 6
    head = tag("line", {"x1": 0, "x2": 0, "y1": 0, "y2": _px(y), "class": "head"})
    names = {
        "width": "100%", "height": _px(y), "class": "tracks", "role": "img", "aria-label": title,
        "data-length": f"{duration_s:.3f}", "data-start": f"{media_start_s:.3f}",
    }  # fmt: skip
    return tag("svg", names, *parts, head)


class _Axis:
    """Seconds to places."""

    def __init__(self, duration_s: float) -> None:
        self.duration_s = max(duration_s, 1e-3)

    def percent(self, time_s: float) -> str:
        return f"{100 * min(max(time_s / self.duration_s, 0.0), 1.0):.3f}%"

    def width(self, span: Span) -> str:
        return f"{100 * max(min(span['end_s'], self.duration_s) - max(span['start_s'], 0.0), 0) / self.duration_s:.3f}%"

    def px(self, time_s: float) -> float:
        return _WIDTH_PX * time_s / self.duration_s


def _scale(place: _Axis) -> tuple[list[Markup], int]:
    rows = []
    for mark in ticks(place.duration_s, count=8):
        if mark <= place.duration_s:
            at = place.percent(mark)
            anchor = "start" if mark == 0 else "end" if mark > 0.97 * place.duration_s else "middle"
            rows.append(text(at, 11, f"{number(mark)} s", _class="axis", text_anchor=anchor))
            rows.append(tag("line", {"x1": at, "x2": at, "y1": 14, "y2": 18, "class": "base"}))
    return rows, 18


def _frames(place: _Axis, keyframes: Sequence[tuple[float, str]]) -> tuple[list[Markup], int]:
    """Those that have room next to each other; a tick where each was filmed."""
    width, height = _FRAME_WH
    rows, free_px = [], -1.0
    for time_s, uri in sorted(keyframes):
        at = place.percent(time_s)
        rows.append(tag("line", {"x1": at, "x2": at, "y1": height, "y2": height + 5, "class": "base"}))
        if place.px(time_s) >= free_px and place.px(time_s) + width <= _WIDTH_PX + 20:
            free_px = place.px(time_s) + width + 3
            picture = {"href": uri, "x": at, "y": 0, "width": width, "height": height, "data-tip": f"{time_s:.2f} s"}
            rows.append(tag("image", picture | {"preserveAspectRatio": "xMinYMid meet"}))
    return rows, height + 5 if rows else 0


def _shots(place: _Axis, shots: Sequence[Span]) -> tuple[list[Markup], int]:
    return [
        tag("rect", {
            "x": place.percent(shot["start_s"]), "y": 0, "width": place.width(shot), "height": 12,
            "class": f"f-c{count % 2 * 2} shot",
            "data-tip": f"shot {count + 1}, by {shot['transition']}, {shot['start_s']:.2f} to {shot['end_s']:.2f} s",
        })
        for count, shot in enumerate(shots)
    ], 12 if shots else 0  # fmt: skip


def _sound(place: _Axis, peaks: Sequence[float], speech: Sequence[Span]) -> tuple[list[Markup], int]:
    if not peaks:
        return [], 0
    rows = [
        tag("rect", {
            "x": place.percent(one["start_s"]), "y": 0, "width": place.width(one), "height": 48, "class": "band-ok",
            "data-tip": f"speech, {one['start_s']:.2f} to {one['end_s']:.2f} s",
        })
        for one in speech
    ]  # fmt: skip
    step = 100 / len(peaks)
    heights = [18.5 * min(max(peak, 0.02), 1) for peak in peaks]
    places = [step * (at + 0.5) for at in range(len(peaks))]
    points = [f"{x:.2f},{20 - tall:.1f}" for x, tall in zip(places, heights, strict=True)]
    points += [f"{x:.2f},{20 + tall:.1f}" for x, tall in reversed(list(zip(places, heights, strict=True)))]
    shape = tag("polygon", {"points": " ".join(points), "class": "f-c0"})
    box = {"viewBox": "0 0 100 40", "preserveAspectRatio": "none", "width": "100%", "height": 48}
    return [*rows, tag("svg", box, shape)], 48


def _texts(place: _Axis, spans: Sequence[Span], *, by_text: bool = False) -> tuple[list[Markup], int]:
    """Each text in the first lane with room for it; where there is none, its bar alone, with the text as a tip.
    by_text: equal texts have one colour, others another."""
    hues = {name: count % _NUM_HUES for count, name in enumerate(dict.fromkeys(str(one["text"]) for one in spans))}
    free_px = [-1.0] * _MAX_LANES
    rows, num_lanes = [], 0
    for span in sorted(spans, key=lambda one: (one["start_s"], one["end_s"])):
        start_px, shown = place.px(span["start_s"]), str(span["text"])
        wide_px = _CHAR_PX * len(shown) + 4
        fits = [lane for lane, free in enumerate(free_px) if start_px >= free and start_px + wide_px <= _WIDTH_PX + 30]
        lane = fits[0] if fits else 0
        if fits:
            free_px[lane] = start_px + wide_px
        num_lanes = max(num_lanes, lane + 1)
        at, top = place.percent(span["start_s"]), lane * _LANE_PX
        tip = f"{shown}, {span['start_s']:.2f} to {span['end_s']:.2f} s"
        hue, height = (hues[shown], 5) if by_text else (1, 3)
        bar = {"x": at, "y": top, "width": place.width(span), "height": height, "class": f"f-c{hue}", "data-tip": tip}
        rows.append(tag("rect", bar))
        if fits:
            rows.append(tag("text", {"x": at, "y": top + 14, "class": "word", "data-tip": tip}, shown))
    return rows, num_lanes * _LANE_PX
