"""SVG elements with everything escaped, and the charts made of them.

Colours are CSS classes, so that light and dark are the page's matter. Charts that hold text have percentages and no
viewBox:
on a phone they get narrower and their text does not shrink.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

NUM_COLOURS = 10


def tag(name: str, attributes: Mapping[str, object] | None = None, *children: object) -> Markup:
    """The element. Attribute values and children are escaped unless they are Markup; attributes that are None are
    left out."""
    # written by one format: a map has a thousand dots
    given = "".join(
        f' {key.replace("_", "-")}="{escape(_plain(value))}"'
        for key, value in (attributes or {}).items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{''.join(map(escape, children))}</{name}>")


def text(x: object, y: object, content: object, **attributes: object) -> Markup:
    """A text element; `_class` and `text_anchor` style it."""
    return tag("text", {"x": x, "y": y, **{key.lstrip("_"): value for key, value in attributes.items()}}, content)


def number(value: float) -> str:
    """The number as a reader wants it: whole ones with separators, others with three significant digits."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def size(num_bytes: float) -> str:
    """Bytes with a unit of thousands."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if num_bytes >= scale:
            return f"{num_bytes / scale:.1f} {unit}"
    return f"{num_bytes:.0f} B"


def usd(amount: float) -> str:
    """Dollars, small amounts with as many digits as they need."""
    if amount >= 1 or amount == 0:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= 0.001 else f"${amount:.6f}" if amount >= 1e-6 else "< $0.000001"


def share(fraction: float) -> str:
    """A fraction as a percentage."""
    return f"{100 * fraction:.1f} %"


def ticks(largest: float, *, count: int = 4) -> list[float]:
    """Round numbers from 0 to at least `largest`, about `count` steps."""
    if not largest > 0:
        return [0.0, 1.0]
    raw = largest / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    return [step * place for place in range(math.ceil(largest / step - 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class Bar:
    """One horizontal bar: a label, a value, and the CSS class of its colour."""

    label: str
    value: float
    shown: str  # the value with its unit, as text
    colour: str = "c0"


def bars(rows: Sequence[Bar], *, title: str, unit: str) -> Markup:
    """Horizontal bars on a common axis; label and value stand above each bar, so that nothing is cut off on a narrow
    screen."""
    marks = ticks(max((row.value for row in rows), default=0))
    top, row_px = 6, 34
    bottom = top + row_px * len(rows)
    parts = [_gridline(mark / marks[-1], bottom, number(mark)) for mark in marks]
    for place, row in enumerate(rows):
        y = top + row_px * place
        parts.append(text(0, y + 12, row.label, _class="lab"))
        parts.append(text("100%", y + 12, row.shown, _class="val", text_anchor="end"))
        parts.append(
            tag(
                "rect",
                {
                    "x": 0,
                    "y": y + 18,
                    "width": _percent(row.value / marks[-1]),
                    "height": 9,
                    "rx": 2,
                    "class": f"f-{row.colour}",
                },
            )
        )
    parts.append(text("100%", bottom + 28, unit, _class="axis", text_anchor="end"))
    return _figure(parts, height=bottom + 34, title=title)


def histogram(counts: Sequence[int], *, title: str, x_label: str, y_label: str) -> Markup:
    """Vertical bars, one per count, in the colours of their clusters, with a dashed line at the even share."""
    marks = ticks(max(counts, default=0), count=3)
    height, base = 170, 140
    parts = []
    for mark in marks:
        y = base - 120 * mark / marks[-1]
        parts.append(tag("line", {"x1": 0, "x2": "100%", "y1": _px(y), "y2": _px(y), "class": "grid"}))
        parts.append(text("100%", _px(y - 3), number(mark), _class="axis", text_anchor="end"))
    slot = 0.93 / max(len(counts), 1)
    for place, count in enumerate(counts):
        size = 120 * count / marks[-1]
        bar = {
            "x": _percent(slot * (place + 0.08)),
            "y": _px(base - size),
            "width": _percent(slot * 0.84),
            "height": _px(size),
            "class": f"f-c{place % NUM_COLOURS}",
            "data_tip": f"cluster {place}: {count:,} items",
        }
        parts.append(tag("rect", bar))
    if counts:
        even = base - 120 * (sum(counts) / len(counts)) / marks[-1]
        parts.append(tag("line", {"x1": 0, "x2": "93%", "y1": _px(even), "y2": _px(even), "class": "even"}))
    parts.append(tag("line", {"x1": 0, "x2": "100%", "y1": base, "y2": base, "class": "base"}))
    parts.append(text(0, base + 18, x_label, _class="axis"))
    parts.append(text(0, 12, y_label, _class="axis"))
    return _figure(parts, height=height, title=title)


def scatter(
    points: Sequence[tuple[float, float]], clusters: Sequence[int], labels: Sequence[str], *, title: str
) -> Markup:
    """Points of [-1, 1] x [-1, 1] in the colours of their clusters; the label is shown on hover."""
    dots = []
    for place, (x, y) in enumerate(points):
        cluster = clusters[place] if place < len(clusters) else 0
        label = labels[place] if place < len(labels) else ""
        tip = f"{label} · cluster {cluster}" if label else f"cluster {cluster}"
        dots.append(
            tag(
                "circle",
                {
                    "cx": _px(220 + 205 * x),
                    "cy": _px(215 - 200 * y),
                    "r": 3.2,
                    "class": f"f-c{cluster % NUM_COLOURS} dot",
                    "data_tip": tip,
                },
            )
        )
    axes = [
        tag("line", {"x1": 220, "x2": 220, "y1": 10, "y2": 420, "class": "grid"}),
        tag("line", {"x1": 10, "x2": 430, "y1": 215, "y2": 215, "class": "grid"}),
    ]
    names = [
        text(428, 209, "component 1", _class="axis", text_anchor="end"),
        text(226, 18, "component 2", _class="axis"),
    ]
    return tag(
        "svg", {"viewBox": "0 0 440 430", "class": "map", "role": "img", "aria-label": title}, *axes, *dots, *names
    )


def waveform(peaks: Sequence[float], *, title: str) -> Markup:
    """A mirrored envelope of peaks in 0..1."""
    if not peaks:
        return Markup("")
    step = 100 / len(peaks)
    upper = " ".join(
        f"{_px(step * (place + 0.5))},{_px(20 - 19 * min(max(peak, 0.02), 1))}" for place, peak in enumerate(peaks)
    )
    lower = " ".join(
        f"{_px(step * (place + 0.5))},{_px(20 + 19 * min(max(peak, 0.02), 1))}"
        for place, peak in reversed(list(enumerate(peaks)))
    )
    shape = tag("polygon", {"points": f"{upper} {lower}", "class": "f-c0"})
    return tag(
        "svg",
        {"viewBox": "0 0 100 40", "preserveAspectRatio": "none", "class": "wave", "role": "img", "aria-label": title},
        shape,
    )


def intervals(
    rows: Sequence[tuple[str, float, float, float, str, str]], *, title: str, unit: str, margin: float
) -> Markup:
    """One row per (label, low, middle, high, shown, colour): a line from low to high with a dot, around a common
    zero."""
    reach = max([abs(value) for _, low, _, high, _, _ in rows for value in (low, high)] + [margin, 1e-6])
    marks = ticks(reach, count=2)
    reach = marks[-1]

    def place_of(value: float) -> str:
        return _percent(0.03 + 0.94 * (value + reach) / (2 * reach))

    top, row_px = 6, 38
    bottom = top + row_px * len(rows)
    parts = []
    if margin > 0:
        parts.append(
            tag(
                "rect",
                {
                    "x": place_of(-margin),
                    "y": top,
                    "width": _percent(0.94 * margin / reach),
                    "height": bottom - top,
                    "class": "band",
                },
            )
        )
    for mark in sorted({sign * mark for mark in marks for sign in (-1, 1)}):
        parts.append(
            tag(
                "line",
                {
                    "x1": place_of(mark),
                    "x2": place_of(mark),
                    "y1": top,
                    "y2": bottom,
                    "class": "base" if mark == 0 else "grid",
                },
            )
        )
        parts.append(
            text(place_of(mark), bottom + 14, f"{mark:+g}" if mark else "0", _class="axis", text_anchor="middle")
        )
    for place, (label, low, middle, high, shown, colour) in enumerate(rows):
        y = top + row_px * place
        parts.append(text(0, y + 12, label, _class="lab"))
        parts.append(text("100%", y + 12, shown, _class="val", text_anchor="end"))
        parts.append(
            tag(
                "line",
                {"x1": place_of(low), "x2": place_of(high), "y1": y + 25, "y2": y + 25, "class": f"s-{colour} ci"},
            )
        )
        parts.append(tag("circle", {"cx": place_of(middle), "cy": y + 25, "r": 4.5, "class": f"f-{colour}"}))
    parts.append(text("100%", bottom + 30, unit, _class="axis", text_anchor="end"))
    return _figure(parts, height=bottom + 36, title=title)


def _gridline(share: float, bottom: float, label: str) -> Markup:
    anchor = "start" if share <= 0 else "end" if share >= 0.999 else "middle"
    line = tag("line", {"x1": _percent(share), "x2": _percent(share), "y1": 22, "y2": bottom, "class": "grid"})
    return line + text(_percent(share), bottom + 13, label, _class="axis", text_anchor=anchor)


def _figure(parts: Sequence[Markup], *, height: float, title: str) -> Markup:
    return tag(
        "svg", {"width": "100%", "height": _px(height), "class": "chart", "role": "img", "aria-label": title}, *parts
    )


def _percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.2f}%"


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _plain(value: object) -> str:
    return _px(value) if isinstance(value, float) else str(value)
