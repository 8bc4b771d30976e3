"""Cues that a border of an item cuts: which of their words are said before it and which behind it.

Enters: cues, the words of an alignment, borders. Leaves: cuts of the text of cues, and tracks whose cues are cut so. A
cue whose words were not laid on the sound stays whole, and is of the span that its middle lies in.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.preprocess.transcripts.pronunciation import tokens

CUTS = "cue_cuts"  # the column of UNITS
Cuts = Sequence[Mapping[str, Any]]  # cue, time_s, at
_Timed = tuple[str, float, float]  # token, start and end in seconds


def cue_cuts(
    cues: Sequence[Mapping[str, Any]], words: Iterable[Mapping[str, Any]], borders_s: Sequence[float]
) -> list[dict[str, Any]]:
    """Where borders cut the text of cues, in order: cue, its number; time_s, the border; at, how many characters of the
    text are said before it, from none to all. words: of the alignment, in order of time. borders_s: increasing."""
    spoken = [(part.casefold(), word["start_s"], word["end_s"]) for word in words for part in tokens(str(word["word"]))]
    starts_s = [start_s for _, start_s, _ in spoken]
    found: list[dict[str, Any]] = []
    for number, cue in enumerate(cues):
        inside = borders_s[bisect_right(borders_s, cue["start_s"]) : bisect_left(borders_s, cue["end_s"])]
        if not inside:
            continue
        pieces, ends = _pieces(cue["text"])
        laid = _laid(cue, [token for piece in pieces for token in piece], spoken, starts_s)
        if not laid:
            continue
        behind = list(accumulate(len(piece) for piece in pieces))  # tokens up to the end of each piece
        for border_s in inside:
            count = sum((start_s + end_s) / 2 < border_s for _, start_s, end_s in laid)
            if count == 0 or count in behind:  # not within a piece, such as one word with a hyphen
                at = 0 if count == 0 else len(cue["text"]) if count == len(laid) else ends[behind.index(count)]
                found.append({"cue": number, "time_s": border_s, "at": at})
    return found


def _pieces(text: str) -> tuple[list[list[str]], list[int]]:
    """(the tokens of each part between spaces, the character behind it)."""
    pieces, ends, at = [], [], 0
    for part in text.split():
        at = text.index(part, at) + len(part)
        pieces.append([token.casefold() for token in tokens(part)])
        ends.append(at)
    return pieces, ends


def _laid(
    cue: Mapping[str, Any], wanted: Sequence[str], spoken: Sequence[_Timed], starts_s: Sequence[float]
) -> Sequence[_Timed]:
    """The words of the cue as they were laid on the sound: those that follow each other as in its text, over its time;
    of several the nearest to its middle. Empty where there are none."""
    size = len(wanted)
    low = max(0, bisect_left(starts_s, cue["start_s"]) - size)
    high = min(len(spoken) - size, bisect_left(starts_s, cue["end_s"]))
    middle_s = (cue["start_s"] + cue["end_s"]) / 2
    best: tuple[float, Sequence[_Timed]] = (np.inf, [])
    for at in range(low, high + 1) if size else ():
        run = spoken[at : at + size]
        if [token for token, _, _ in run] == list(wanted) and run[0][1] < cue["end_s"] and run[-1][2] > cue["start_s"]:
            best = min(best, (abs((run[0][1] + run[-1][2]) / 2 - middle_s), run))
    return best[1]


def cuts_by_item(units: pa.Table) -> dict[str, Cuts]:
    """Item -> where its borders cut its cues, of those of which any is cut."""
    if units[CUTS].null_count == units.num_rows:
        return {}
    cut = units.filter(pc.is_valid(units[CUTS]))
    return dict(zip(cut["parent_digest"].to_pylist(), cut[CUTS].to_pylist(), strict=True))


def with_cut_cues(tracks: pa.Table, cuts: Mapping[str, Cuts]) -> pa.Table:
    """The tracks with two cues or more in place of each that is cut: one a side of each border, without those of which
    nothing is said."""
    is_cut = pc.is_in(tracks["digest"], value_set=pa.array(cuts, pa.string()))
    if not pc.any(is_cut).as_py():
        return tracks
    cut = tracks.filter(is_cut).select(["digest", "cues"])
    made = [_cut(row["cues"], cuts[row["digest"]]) for row in cut.to_pylist()]
    places = np.arange(tracks.num_rows)
    places[np.flatnonzero(is_cut.to_numpy())] = tracks.num_rows + np.arange(cut.num_rows)
    field = tracks.schema.field("cues")
    both = pa.concat_arrays([tracks["cues"].combine_chunks(), pa.array(made, field.type)])
    return tracks.set_column(tracks.column_names.index("cues"), field, both.take(pa.array(places)))


def _cut(cues: Sequence[Mapping[str, Any]], cuts: Cuts) -> list[Mapping[str, Any]]:
    by_cue: dict[int, list[tuple[float, int]]] = {}
    for one in cuts:
        by_cue.setdefault(one["cue"], []).append((one["time_s"], one["at"]))
    found: list[Mapping[str, Any]] = []
    for number, cue in enumerate(cues):
        if number not in by_cue:
            found.append(cue)
            continue
        edges = [(cue["start_s"], 0), *by_cue[number], (cue["end_s"], len(cue["text"]))]
        for (start_s, first), (end_s, last) in pairwise(edges):
            if text := cue["text"][first:last].strip():
                found.append({**cue, "text": text, "start_s": start_s, "end_s": end_s})
    return found
