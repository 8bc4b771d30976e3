"""The tracks of one clip in a terminal: keyframes, shots, sound and words above one time axis."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from mmlake.drawing import shown
from mmlake.loader import TrackSample

_BLOCKS = "▁▂▃▄▅▆▇█"
_NAME_CHARS = 11
_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600)


def drawn_tracks(sample: TrackSample, *, width: int = 96) -> Text:
    """The lines, at most so many characters wide; words are wrapped."""
    facts, cells = sample.facts, max(width - _NAME_CHARS, 20)
    span = facts.get("span")
    place = f", {span['start_s']:.2f} to {span['end_s']:.2f} s of {span['parent'][:10]}" if span else ""
    lines = [
        f"sample {sample.key[:10]} in {sample.shard}: {sample.media_type}, {sample.duration_s:.2f} s{place}",
        _row("time", _axis(sample.duration_s, cells)),
        _row("keyframes", _marks([time_s for time_s, _ in sample.keyframes], sample.duration_s, cells)),
        _row("shots", _shots(facts.get("shots", []), sample.duration_s, cells)),
        _row("sound", _sound(sample.sound, cells)),
        *_words(facts.get("words", []) or facts.get("cues", []), cells),
        *_said(facts, cells),
    ]
    return Text("\n".join(line for line in lines if line.strip()), no_wrap=True, overflow="ignore")


def _said(facts: Mapping[str, Any], cells: int) -> list[str]:
    """What a model says of the clip: a line for its sentence, its tags and each event."""
    events = [f"{one['start_s']:.2f}-{one['end_s']:.2f} s {one['text']}" for one in facts.get("events", [])]
    rows = [("caption", facts.get("caption") or ""), ("tags", ", ".join(facts.get("event_tags", [])))]
    rows += [("events" if at == 0 else "", event) for at, event in enumerate(events)]
    return [_row(name, shown(text)[:cells]) for name, text in rows]


def _row(name: str, cells: str) -> str:
    return f"{name:<{_NAME_CHARS}}{cells}" if cells else ""


def _axis(duration_s: float, cells: int) -> str:
    step = next((one for one in _STEPS_S if cells * one / max(duration_s, 1e-3) >= 8), duration_s)
    line, mark = [" "] * cells, 0.0
    while mark < duration_s:
        at = int(cells * mark / duration_s)
        label = f"|{mark:g}"
        line[at : at + len(label)] = list(label)
        mark = round(mark + step, 3)
    return "".join(line)[:cells].rstrip()


def _marks(times_s: Sequence[float], duration_s: float, cells: int) -> str:
    line = [" "] * cells
    for time_s in times_s:
        line[min(int(cells * max(time_s, 0.0) / duration_s), cells - 1)] = "◆"
    return "".join(line).rstrip()


def _shots(shots: Sequence[Mapping[str, Any]], duration_s: float, cells: int) -> str:
    line = [" "] * cells
    for shot in shots:
        first = min(int(cells * max(shot["start_s"], 0.0) / duration_s), cells - 1)
        stop = max(first + 1, min(int(cells * shot["end_s"] / duration_s), cells))
        label = f"[{shot['transition']}"[: stop - first]
        line[first:stop] = list(label + "─" * (stop - first - len(label)))
    return "".join(line).rstrip()


def _sound(flac: bytes | None, cells: int) -> str:
    if flac is None:
        return ""
    import numpy as np
    import soundfile

    samples, _ = soundfile.read(io.BytesIO(flac), dtype="float32")
    if not len(samples):
        return ""
    starts = (np.arange(cells) * len(samples)) // cells
    peaks = np.maximum.reduceat(np.abs(samples), starts) / max(float(np.abs(samples).max()), 1e-4)
    return "".join(_BLOCKS[min(int(peak * len(_BLOCKS)), len(_BLOCKS) - 1)] for peak in peaks)


def _words(words: Sequence[Mapping[str, Any]], cells: int) -> list[str]:
    """Each with its time, as many as there is room for in a line."""
    lines, line = [], ""
    for word in words:
        part = f"{word['start_s']:.2f} {shown(str(word.get('word') or word.get('text'))).strip()}"
        if line and len(line) + 3 + len(part) > cells:
            lines.append(line)
            line = ""
        line = f"{line} · {part}" if line else part[:cells]
    lines += [line] if line else []
    return [_row("words" if at == 0 else "", one) for at, one in enumerate(lines)]
