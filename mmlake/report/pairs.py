"""Pairs next to their bound, side by side: what a reader needs to judge where the bound lies."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup, escape

from mmlake.report.data import Example, PairExample

_COMPARED_WORDS = 1_500  # of each text; comparing takes time with the square of it
_EXCERPT_WORDS = 110
_LEAD_WORDS = 12  # before the first difference
_MODALITIES = ("text", "image", "audio")  # films come last: their bytes leave nothing to others

Shown = dict[str, Any]


def pair_groups(
    pairs: Sequence[PairExample], *, example: Callable[[Example], Shown], players: Callable[[Example], Shown]
) -> list[tuple[tuple[str, str, str], dict[str, list[Shown]]]]:
    """((tier, modality, method), {"above": pairs, "below": pairs}), in the order of arrival.

    example: an item without its sound and film. players: these; asked for once all items are there, since one film may
    take as many bytes as all pictures.
    """
    groups: dict[tuple[str, str, str], dict[str, list[Shown]]] = {}
    waiting: list[tuple[Example, Shown]] = []
    for pair in pairs:
        left, right = example(pair.left), example(pair.right)
        if pair.left.text and pair.right.text:
            left["marked"], right["marked"] = marked(pair.left.text, pair.right.text)
        waiting += [(pair.left, left), (pair.right, right)]
        shown = {
            "left": left,
            "right": right,
            "score": pair.score,
            "bound": pair.bound,
            "relation": pair.relation,
            "found": pair.found,
        }
        spans = {"left_span_s": pair.left_span_s, "right_span_s": pair.right_span_s}
        sides = groups.setdefault((pair.tier, pair.modality, pair.method), {"above": [], "below": []})
        sides["above" if pair.is_above else "below"].append(shown | spans)
    waiting.sort(key=lambda one: _MODALITIES.index(one[0].modality) if one[0].modality in _MODALITIES else 9)
    for given, drawn in waiting:
        drawn.update(players(given))
    return list(groups.items())


def marked(left: str, right: str) -> tuple[Markup, Markup]:
    """Excerpts of both texts from shortly before the first difference, words that the other text lacks in <mark>."""
    words = [text.split()[:_COMPARED_WORDS] for text in (left, right)]
    changes = [
        change
        for change in difflib.SequenceMatcher(a=words[0], b=words[1], autojunk=False).get_opcodes()
        if change[0] != "equal"
    ]
    first = changes[0] if changes else ("equal", 0, 0, 0, 0)
    ranges = [[(low, high) for _, low, high, _, _ in changes], [(low, high) for _, _, _, low, high in changes]]
    # short texts are shown whole
    rest = max(len(words[0]) - first[1], len(words[1]) - first[3])
    lead = max(_LEAD_WORDS, _EXCERPT_WORDS - rest)
    starts = (max(0, first[1] - lead), max(0, first[3] - lead))
    one, other = (
        _excerpt(mine, differing, start) for mine, differing, start in zip(words, ranges, starts, strict=True)
    )
    return one, other


def _excerpt(words: Sequence[str], differing: Sequence[tuple[int, int]], start: int) -> Markup:
    end = min(len(words), start + _EXCERPT_WORDS)
    parts, at = ([Markup("…")] if start else []), start
    for low, high in differing:
        low, high = max(low, at), min(high, end)
        if low >= high:
            continue
        parts += [escape(" ".join(words[at:low]))] if low > at else []
        parts.append(Markup("<mark>{}</mark>").format(" ".join(words[low:high])))
        at = high
    parts += [escape(" ".join(words[at:end]))] if at < end else []
    return Markup(" ").join(part for part in [*parts, *(["…"] if end < len(words) else [])] if part)
