"""The picture of rows passing the stages of one modality: a band that narrows where rows leave it."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from mmlake.report.data import FlowStep
from mmlake.report.svg import tag, text

_COLUMN_PX, _LAST_PX, _BAND_PX, _TOP_PX = 160, 96, 86, 34  # five columns fit the page, without scrolling
# first word of a cause -> colour
_CAUSES = {
    "unreadable": "unreadable",
    "quarantined": "quarantined",
    "not judged": "flagged",
    "exact": "c1",
    "near": "c4",
    "semantic": "c6",
}


def flow(steps: Sequence[FlowStep], *, title: str) -> Markup:
    """Height of the band is the number of rows; what leaves bends down and says how many and why."""
    if not steps:
        return Markup("")
    largest = max(max(step.num_rows for step in steps), 1)
    width = _COLUMN_PX * (len(steps) - 1) + _LAST_PX + 20
    most = max(len([1 for count in step.lost.values() if count]) for step in steps)
    height = _TOP_PX + _BAND_PX + 30 + 26 * max(most, 1)
    parts: list[Markup] = []
    for place, step in enumerate(steps):
        x = 10 + _COLUMN_PX * place
        parts += _column(step, x=x, scale=_BAND_PX / largest, last=place == len(steps) - 1)
    return tag(
        "svg",
        {
            "viewBox": f"0 0 {width} {height}",
            "width": width,
            "height": height,
            "class": "flow",
            "role": "img",
            "aria-label": title,
        },
        *parts,
    )


def _column(step: FlowStep, *, x: float, scale: float, last: bool) -> list[Markup]:
    lost = {cause: count for cause, count in step.lost.items() if count > 0}
    enters = max(step.num_rows * scale, 1.0 if step.num_rows else 0.0)
    stays = max((step.num_rows - sum(lost.values())) * scale, 0.0)
    parts = [text(x + 4, 12, step.name, _class="lab"), text(x + 4, 28, f"{step.num_rows:,}", _class="val")]
    bend, end = x + 62, x + _COLUMN_PX
    parts.append(tag("rect", {"x": x, "y": _TOP_PX, "width": 6, "height": enters, "class": "node"}))
    if last:
        parts.append(
            tag(
                "rect", {"x": x + 6, "y": _TOP_PX, "width": _LAST_PX - 6, "height": enters, "rx": 2, "class": "band-ok"}
            )
        )
        return parts
    if stays:
        parts.append(
            tag("rect", {"x": x + 6, "y": _TOP_PX, "width": end - x - 6, "height": max(stays, 1.0), "class": "band-ok"})
        )
    y, floor = _TOP_PX + stays, _TOP_PX + _BAND_PX + 22
    for place, (cause, count) in enumerate(lost.items()):
        thick = max(count * scale, 1.5)
        colour = next((colour for word, colour in _CAUSES.items() if cause.startswith(word)), "quarantined")
        parts.append(_leaves(x + 6, y, bend=bend - 9 * place, thick=thick, floor=floor + 26 * place, colour=colour))
        label = text(bend - 9 * place + 8, floor + 26 * place + 4, f"−{count:,} {cause}", _class="lost")
        parts.append(label)
        y += count * scale
    return parts


def _leaves(x: float, y: float, *, bend: float, thick: float, floor: float, colour: str) -> Markup:
    """A ribbon that runs right at (x, y) and turns down to the floor, where it ends in a thin stalk."""
    stalk = min(thick, 5.0)
    turn, low = max(floor - 10, y + thick), y + thick
    points = (
        f"M{x:.1f},{y:.1f} L{x + 14:.1f},{y:.1f} C{bend:.1f},{y:.1f} {bend + stalk:.1f},{low:.1f} "
        f"{bend + stalk:.1f},{turn:.1f}",
        f"L{bend + stalk:.1f},{floor:.1f} L{bend:.1f},{floor:.1f} L{bend:.1f},{max(floor - 8, low):.1f}",
        f"C{bend:.1f},{low + 6:.1f} {bend - 14:.1f},{low:.1f} {x + 10:.1f},{low:.1f} L{x:.1f},{low:.1f} Z",
    )
    return tag("path", {"d": " ".join(points), "class": f"f-{colour} ribbon"})
