"""Edited copies of texts: articles and web pages, their edits, and pages of sites that only resemble each other.

    python -m benchmarks.dedup_edits.text ../shared/data
    python -m benchmarks.dedup_edits.text ../shared/data --families 3 6 8 10    copies lost of families of so few

The peer is MinHash of word 5-grams (datasketch, 128 permutations) and SimHash of words, each at the bound that calls as
few pairs of different originals duplicates as ours does: the smallest one above all of them. Install it with
`pip install --target benchmarks/.peers/text datasketch`; without it its columns stay empty.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.dedup_edits import Edit, Report
from mmlake import dedup
from mmlake.dedup import CLOSENESS, DedupSettings
from mmlake.letters import count_words
from mmlake.quality.text import MEASURES
from mmlake.store import BlobStore

_PEERS = Path(__file__).parents[1] / ".peers" / "text"
_NOTICE = (
    "Sign up for our newsletter to receive the news of the day in your inbox every morning. All rights reserved. No "
    "part of this site may be copied without permission. Read more stories from our newsroom and follow us."
)
_CONFUSED = {"l": "1", "o": "0", "e": "c", "i": "l", "m": "rn", "b": "h"}
Change = Callable[[np.random.Generator, str, list[str]], str]


def _replaced(fraction: float) -> Change:
    def change(rng: np.random.Generator, text: str, vocabulary: list[str]) -> str:
        words = text.split()
        for at in np.flatnonzero(rng.random(len(words)) < fraction).tolist():
            words[at] = vocabulary[int(rng.integers(len(vocabulary)))]
        return " ".join(words)

    return change


def _cut(fraction: float) -> Change:
    def change(rng: np.random.Generator, text: str, vocabulary: list[str]) -> str:
        words = text.split()
        return " ".join(words[: int(fraction * len(words))])

    return change


def _inserted(rng: np.random.Generator, text: str, vocabulary: list[str]) -> str:
    words = text.split()
    at = int(rng.integers(1, len(words)))
    return " ".join([*words[:at], *_NOTICE.split(), *words[at:]])


def _reordered(rng: np.random.Generator, text: str, vocabulary: list[str]) -> str:
    sentences = text.split(". ")
    passages = [sentences[at : at + 2] for at in range(0, len(sentences), 2)]
    return ". ".join(sentence for at in rng.permutation(len(passages)) for sentence in passages[at])


def _deleted(rng: np.random.Generator, text: str, vocabulary: list[str]) -> str:
    return " ".join(word for word in text.split() if rng.random() > 0.08)


def _swapped(rng: np.random.Generator, text: str, vocabulary: list[str]) -> str:
    words = text.split()
    for at in np.flatnonzero(rng.random(len(words) - 1) < 0.06).tolist():
        words[at], words[at + 1] = words[at + 1], words[at]
    return " ".join(words)


def _misread(rng: np.random.Generator, text: str, vocabulary: list[str]) -> str:
    return "".join(_CONFUSED[sign] if sign in _CONFUSED and rng.random() < 0.03 else sign for sign in text)


def _unmarked(rng: np.random.Generator, text: str, vocabulary: list[str]) -> str:
    return "".join(sign for sign in text if sign.isalnum() or sign.isspace())


def _wrapped(rng: np.random.Generator, text: str, vocabulary: list[str]) -> str:
    return f"<p>{text.replace('. ', '.</p> <p>')}&nbsp;</p>"


def _both(rng: np.random.Generator, text: str, vocabulary: list[str]) -> str:
    return _replaced(0.08)(rng, _cut(0.7)(rng, text, vocabulary), vocabulary)


CHANGES: dict[str, Change] = {
    "5 % of words replaced": _replaced(0.05),
    "8 % of words replaced": _replaced(0.08),
    "12 % of words replaced": _replaced(0.12),
    "15 % of words replaced": _replaced(0.15),
    "20 % of words replaced": _replaced(0.2),
    "30 % of words replaced": _replaced(0.3),
    "8 % of words left out": _deleted,
    "6 % of words swapped with the next": _swapped,
    "paragraph inserted": _inserted,
    "notice before and behind": lambda rng, text, vocabulary: f"{_NOTICE} {text} {_NOTICE}",
    "passages reordered": _reordered,
    "cut to 60 %": _cut(0.6),
    "cut to 30 %": _cut(0.3),
    "cut to 70 %, 8 % replaced": _both,
    "misread (OCR), 3 % of confusable letters": _misread,
    "upper case": lambda rng, text, vocabulary: text.upper(),
    "lower case": lambda rng, text, vocabulary: text.lower(),
    "punctuation lost": _unmarked,
    "markup left behind": _wrapped,
    "garbled quotes": lambda rng, text, vocabulary: text.replace(". ", "â€™. "),
}


_STRONG = ("20 % of words replaced", "30 % of words replaced", "cut to 30 %")  # lost in large families as well


def originals(data: Path, rng: np.random.Generator, limit: int) -> list[str]:
    """Different articles and web pages of 80 words and more; the planted copies among the articles left out."""
    pairs = (data / "truth" / "articles_1000_pairs.txt").read_text().split()
    texts = []
    for path in sorted((data / "landing" / "text").glob("articles-*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            texts += [row["text"] for row in map(json.loads, lines) if row["id"] not in pairs]
    bodies = json.loads((data / "truth" / "article_bodies.json").read_text())
    texts += [one["articleBody"] for one in bodies.values()]
    texts = sorted({text for text in texts if len(text.split()) >= 80})
    return [texts[at] for at in rng.permutation(len(texts))[:limit]]


def alike(rng: np.random.Generator, num: int) -> list[str]:
    """Pages that are different things in much the same words: products, towns, shares, weather, releases."""

    def pick(*words: str) -> str:
        return words[int(rng.integers(len(words)))]

    def number(low: int = 10, high: int = 9_999) -> int:
        return int(rng.integers(low, high))

    names = [f"{one}{two}" for one in ("Nova", "Terra", "Aero", "Medi", "Sol", "Hy") for two in ("corp", "dyne", "lab")]
    pages = []
    for at in range(num):
        name, town, thing = f"{pick(*names)} {number()}", f"{pick('Bonn', 'Ulm', 'Gera', 'Trier')} {at}", pick(*names)
        pages += [
            f"{name}. Buy the {name} online. The {name} weighs {number()} g, measures {number()} by {number()} mm and "
            f"comes in {pick('red', 'blue', 'black')} and {pick('steel', 'oak', 'white')}. Price {number()} euros."
            " Free delivery over 50 euros. Returns are accepted within 30 days of purchase if the item is unused. "
            "Our customer service team is available from Monday to Friday. All prices include value added tax and "
            f"exclude shipping. You may also like these items from the same category. Order your {name} today.",
            f"Looking for a plumber in {town}? Our team of certified plumbers in {town} is ready at all times. "
            f"Whether your sink is blocked or your boiler in {town} fails, we are at your door within {number()} "
            f"minutes. Customers from {town} and the surroundings of {town} have trusted us since {number()}. Call our "
            f"{town} office at {number()} and speak to {pick('Anna', 'Bernd', 'Carl')} {pick('Koch', 'Wolf')}. We work "
            f"at fair prices, give a warranty of two years and take our waste with us. The plumbers of {town} look "
            "forward to your call.",
            f"Shares of {thing} Inc {pick('rose', 'fell')} {number()} percent to close at {number()} dollars on "
            f"{pick('Monday', 'Friday')}. The company reported quarterly revenue of {number()} million, "
            f"{pick('above', 'below')} the {number()} million that analysts had expected, and earnings of {number()} "
            f"cents per share. {thing} expects full year sales between {number()} million and {number()} million. "
            f"Trading volume was {number()} shares, compared with a 30 day average of {number()}. The stock has "
            f"{pick('gained', 'lost')} {number()} percent since the start of the year.",
            f"Weather report for {town}. Today will be {pick('sunny', 'cloudy', 'rainy')} with highs of {number()} and "
            f"lows of {number()} degrees. Wind from the {pick('north', 'south')} at {number()} km per hour with "
            f"gusts of up to {number()}. The chance of rain is {number()} percent and humidity will reach {number()} "
            f"percent. Tomorrow expect {pick('sun', 'clouds')} and temperatures around {number()} degrees. Stay up to "
            "date with our weather app, available for all phones and tablets.",
        ]
    return pages


def _nodes(texts: dict[str, str]) -> pa.Table:
    columns: dict[str, Any] = {
        "digest": list(texts),
        "priority": [0] * len(texts),
        "is_clean": [True] * len(texts),
    }
    for one in dedup.criteria_of("text"):
        if one is not CLOSENESS:
            measure = MEASURES.get(one.column, lambda text: float(count_words(text)))
            columns[one.name] = pa.array([measure(text) for text in texts.values()], pa.float64())
    return pa.table(columns)


def survivors(texts: list[str], store: BlobStore) -> list[int]:
    """For each text the position of the one that stays for it; its own where it stays."""
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    first = {digest: at for at, digest in reversed(list(enumerate(digests)))}
    known = {digest: texts[at] for digest, at in first.items()}
    none = pa.nulls(len(known), pa.float64())
    tracks = pa.table(
        {
            "digest": list(known),
            "parent_digest": list(known),
            "span_start_s": none,
            "span_end_s": none,
            "text": list(known.values()),
        }
    )
    settings, tiers = DedupSettings(), dedup.tiers_of("text")
    prints = dedup.fingerprint(tracks, tiers, store=store, settings=settings)
    criteria = dedup.criteria_of("text")
    pairs = dedup.near_pairs(prints, tiers, nodes=_nodes(known), criteria=criteria, settings=settings)
    goes = {
        row["right"]: row["left"]
        for row in pairs.select(["left", "right", "relation"]).to_pylist()
        if row["relation"] in ("same", "inside")
    }
    return [first[goes.get(digest, digest)] for digest in digests]


def edits(data: Path, *, seed: int, limit: int) -> Report:
    """The table of edits. limit: originals at most."""
    rng = np.random.default_rng(seed)
    store = BlobStore(Path("/nonexistent"))  # texts stand in the rows
    kept = originals(data, rng, limit)
    others = alike(rng, max(1, limit // 8))
    vocabulary = [word for text in kept for word in text.split()]
    peers = _peers(kept + others)
    rows, families = [], [[text] for text in kept]
    for name, change in CHANGES.items():
        copies = [change(rng, text, vocabulary) for text in kept]
        stays = survivors([*kept, *others, *copies], store)
        offset = len(kept) + len(others)
        ours = sum(stays[at] == stays[offset + at] for at in range(len(kept))) / len(kept)
        best = max(((peer(kept, copies), tool) for tool, peer in peers.items()), default=(None, "-"))
        rows.append(Edit(name, len(copies), ours, best[1], best[0]))
        for family, copy in zip(families, copies, strict=True):
            family.append(copy)
    apart = survivors(kept + others, store)
    return Report(
        modality="text",
        edits=rows,
        num_unrelated=len(apart) * (len(apart) - 1) // 2,
        num_false=sum(stays != at for at, stays in enumerate(apart)),
        survivors=_originals_that_stay(families, store),
        num_families=len(families),
        missed=[
            "more than a fifth of the words replaced: such texts are the semantic tier's",
            "edits of texts under 48 words that leave a Jaccard below .7",
        ],
    )


def lost(data: Path, *, seed: int, limit: int, num_copies: int) -> tuple[int, int]:
    """(copies that go for none of those that most of their family go for, texts), of families of so many edited copies
    next to each other: as few as a small site has pages."""
    rng = np.random.default_rng(seed)
    kept = originals(data, rng, limit)
    vocabulary = sorted({word for text in kept for word in text.split()})
    names = [name for name in CHANGES if name not in _STRONG]
    families = [
        [text, *(CHANGES[name](rng, text, vocabulary) for name in rng.choice(names, num_copies, replace=False))]
        for text in kept
    ]
    stays = survivors([text for family in families for text in family], BlobStore(Path("/nonexistent")))
    size = num_copies + 1
    together = [Counter(stays[at * size : (at + 1) * size]).most_common(1)[0][1] for at in range(len(families))]
    return len(stays) - sum(together), len(stays)


def _originals_that_stay(families: list[list[str]], store: BlobStore) -> float:
    texts = [text for family in families for text in family]
    stays = survivors(texts, store)
    size = len(families[0])
    return sum(stays[at * size] == at * size for at in range(len(families))) / len(families)


def _peers(unrelated: list[str]) -> dict[str, Callable[[list[str], list[str]], float]]:
    """Tool -> the share of (original, copy) that it calls duplicates, at a bound above all unrelated pairs."""
    if not (_PEERS / "datasketch").is_dir():
        return {}
    sys.path.append(str(_PEERS))
    minhash = importlib.import_module("datasketch").MinHash

    def signatures(texts: list[str]) -> np.ndarray:
        made = []
        for text in texts:
            words = text.lower().split()
            one = minhash(num_perm=128)
            one.update_batch([" ".join(words[at : at + 5]).encode() for at in range(max(1, len(words) - 4))])
            made.append(one.hashvalues)
        return np.array(made)

    def simhashes(texts: list[str]) -> np.ndarray:
        made = []
        for text in texts:
            digests = b"".join(hashlib.blake2b(word.encode(), digest_size=8).digest() for word in text.lower().split())
            bits = np.unpackbits(np.frombuffer(digests, np.uint8)).reshape(-1, 64)
            made.append(bits.mean(axis=0) > 0.5)
        return np.array(made)

    return {
        tool: _bounded(kind, unrelated) for tool, kind in (("MinHash (datasketch)", signatures), ("SimHash", simhashes))
    }


def _bounded(kind: Callable[[list[str]], np.ndarray], unrelated: list[str]) -> Callable[[list[str], list[str]], float]:
    rows = kind(unrelated)
    bound = max(float((rows[at + 1 :] == rows[at]).mean(axis=1).max()) for at in range(len(rows) - 1))

    def found(one: list[str], copies: list[str]) -> float:
        return float(((kind(one) == kind(copies)).mean(axis=1) > bound).mean())

    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Edited copies of texts: ours and the best tool at hand.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=120, help="originals")
    parser.add_argument("--families", type=int, nargs="+", help="copies in each: count those that are lost")
    given = parser.parse_args()
    for num_copies in given.families or ():
        found = [lost(given.data, seed=seed, limit=given.limit, num_copies=num_copies) for seed in (1, 2)]
        print(f"{num_copies} copies: {sum(one for one, _ in found)} of {sum(of for _, of in found)} texts lost")
    if not given.families:
        print(edits(given.data, seed=given.seed, limit=given.limit).table())
