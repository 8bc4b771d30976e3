"""Readable documents about one subject each, their light edits, and texts that only resemble each other.

Enters: a random stream and a subject number. Leaves: `Document`s. Two documents share a topic's words but neither their
subject, their people nor five words in a row (tests/sample/test_sample_prose.py holds the bound).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from mmlake.sample.chance import pick
from mmlake.sample.topics import NAMES, PLACES, QUALITIES, TIMES, TOPICS, Topic

_INTROS = (
    "{N} came to {P} {W} to write about {S}.",
    "Ask anyone in {P} about {S} and you will hear of {N}.",
    "The people of {P} have argued over {S} for {n} years.",
    "{n} pages in the archive of {P} deal with {S}.",
    "For {N}, a {q} {r} from {P}, everything began with {S}.",
    "{W}, the paper in {P} carried a {q} report on {S}.",
    "When {N} first heard of {S}, {c}.",
    "Nothing divides {P} like {S}, says {N}.",
    "A {q} exhibition in {P} tells of {S}.",
    "This is a {q} account of {S}, set down by {N}.",
    "{S}: that was the {q} question which brought {N} to {P}.",
    "Between {P} and {P2}, travellers still speak of {S}.",
)
_BODIES = (
    "A {r} {v} {t} {w}, and {c}.",
    "{N2}, the {q} {r}, {v} {t} while a {r2} {v2} {t2}.",
    "{C}, although {N} had {v} {t} {w}.",
    "Only {n} of the visitors noticed how a {r} {v} {t}.",
    "{W} the {r} from {P2} {v} {t}; {c}.",
    "Because {c}, {N2} {v} {t} again.",
    "It was {q} work: one {r} {v} {t}, another {v2} {t2}.",
    "The {q} part, according to {N2}, was that {c}.",
    "Some {v} {t}, others {v2} {t2}, and {w} {c}.",
    "With {t} and {t2} on the table, {N} {v} nothing else {w}.",
    "Neither the {r} nor the {r2} expected {t} to matter, yet {c}.",
    "{N2} wrote to {P2} that {c}, and asked for {t}.",
    "After {n} attempts the {r2} {v} {t} and {c}.",
    "Where {t} had been, {N2} found {t2}, which looked {q}.",
    '"{C}," recalled the {r}, who {v} {t} {w}.',
    "By then {n} people in {P} had {v} {t}.",
    "{T} cost more than {t2}, so the {q} {r} {v} both.",
    "Later {c}; the {r2} blamed {t}, {N} blamed {t2}.",
    "Visitors from {P2} {v} {t} without asking, and the {r} grew {q}.",
    "In {n} cases out of a hundred {c}, as the {r2} had {v} {w}.",
    "The {r} kept {t} in {P2}, {n} miles from where {N2} {v} {t2}.",
    "What looked {q} {w} seemed {q2} once the {r2} {v} {t}.",
)
_ENDS = (
    "{W}, {N} left {P} with {t}, but {S} stayed a {q} memory.",
    "In {P}, {S} will remain a {q} matter.",
    "{N2} keeps {t} in {P2}, to be reminded of {S}.",
    "Whether the {r} was right about {S}, {P} will decide {w}.",
    "So {t} went to {P2}, and {S} became {q} news.",
    "The next {n} years will show what {P} makes of {S}.",
)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One generated text and what it is about."""

    text: str
    topic: str
    subject: str
    alias: str | None  # the subject in other words, where the vocabulary has them
    place: str


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def subjects() -> list[tuple[Topic, str, str | None]]:
    """Every subject with its topic and its other wording, topics in turn so that any prefix covers all of them."""
    rows: list[tuple[Topic, str, str | None]] = []
    for number in range(max(len(topic.subjects) for topic in TOPICS)):
        for topic in TOPICS:
            subject, _, alias = topic.subjects[number].partition("|")
            rows.append((topic, subject, alias or None))
    # those with another wording first: the smallest corpus then still has search probes
    return sorted(rows, key=lambda row: row[2] is None)


def _sentence(pattern: str, rng: np.random.Generator, topic: Topic, fixed: dict[str, str]) -> str:
    things = rng.permutation(len(topic.things))
    verbs = rng.permutation(len(topic.verbs))
    roles = rng.permutation(len(topic.roles))
    qualities = rng.permutation(len(QUALITIES))
    slots = fixed | {
        "t": topic.things[things[0]],
        "t2": topic.things[things[1]],
        "v": topic.verbs[verbs[0]],
        "v2": topic.verbs[verbs[1]],
        "r": topic.roles[roles[0]],
        "r2": topic.roles[roles[1]],
        "c": pick(rng, topic.clauses),
        "q": QUALITIES[qualities[0]],
        "q2": QUALITIES[qualities[1]],
        "w": pick(rng, TIMES),
        "n": str(int(rng.integers(3, 98))),
    }
    slots |= {"T": _capital(slots["t"]), "C": _capital(slots["c"]), "W": _capital(slots["w"])}
    text = _capital(pattern.format(**slots))
    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)


def document(number: int, rng: np.random.Generator, *, num_sentences: int | None = None) -> Document:
    """The document about subject `number`, 40 to 200 words; numbers past the vocabulary join two subjects.

    num_sentences: of the body; drawn between 2 and 8 where not given.
    """
    table = subjects()
    topic, subject, alias = table[number % len(table)]
    if number >= len(table):
        _, other, _ = table[(number * 7 + number // len(table)) % len(table)]
        subject, alias = f"{subject} and {other}", None
    places = rng.permutation(len(PLACES))
    names = rng.permutation(len(NAMES))
    fixed = {"S": subject, "P": PLACES[places[0]], "P2": PLACES[places[1]], "N": NAMES[names[0]], "N2": NAMES[names[1]]}
    count = int(rng.integers(2, 9)) if num_sentences is None else num_sentences
    bodies = [_BODIES[index] for index in rng.permutation(len(_BODIES))[:count]]
    sentences = [_sentence(pattern, rng, topic, fixed) for pattern in (pick(rng, _INTROS), *bodies, pick(rng, _ENDS))]
    while len(" ".join(sentences).split()) < 45:
        sentences.insert(-1, _sentence(pick(rng, _BODIES), rng, topic, fixed))
    split = len(sentences) // 2
    text = (
        " ".join(sentences)
        if len(sentences) < 6
        else " ".join(sentences[:split]) + "\n\n" + " ".join(sentences[split:])
    )
    return Document(text=text, topic=topic.name, subject=subject, alias=alias, place=fixed["P"])


def jaccard(left: str, right: str, *, size: int = 5) -> float:
    """Share of word `size`-grams that two texts have in common, 0..1; words in lower case, punctuation aside."""
    sets = []
    for text in (left, right):
        words = _WORD.findall(text.lower())
        sets.append({tuple(words[i : i + size]) for i in range(max(1, len(words) - size + 1))})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def _swap_word(text: str, rng: np.random.Generator) -> str:
    words = text.split(" ")
    long = [i for i, word in enumerate(words) if word.isalpha() and len(word) > 4 and word.islower()]
    at = pick(rng, long)
    words[at] = pick(rng, [other for other in QUALITIES if other != words[at]])
    return " ".join(words)


def _prepend(text: str, rng: np.random.Generator) -> str:
    return f"Updated {int(rng.integers(2, 28))} {pick(rng, ('March', 'May', 'June', 'October'))}. " + text


def _cut_tail(text: str, rng: np.random.Generator) -> str:
    words = text.split(" ")
    return " ".join(words[: len(words) - int(rng.integers(5, 9))]) + " ..."


def _respace(text: str, rng: np.random.Generator) -> str:
    shouted = text.replace(", ", " , ").replace(".", " .").replace("\n\n", "\n")
    return shouted.upper() if rng.random() < 0.5 else shouted.replace('"', "'")


def _append_credit(text: str, rng: np.random.Generator) -> str:
    return f"{text}\n\nReporting by {pick(rng, NAMES)}."


EDITS = {"word": _swap_word, "dateline": _prepend, "cut": _cut_tail, "typography": _respace, "credit": _append_credit}


def light_edit(text: str, kind: str, rng: np.random.Generator) -> str:
    """The text after one light edit of that kind; it keeps at least 0.85 of the word 5-grams when the text has 90
    words or more."""
    return EDITS[kind](text, rng)


def same_opening(first: Document, second: Document) -> str:
    """A text that opens with the sentences of `first` and goes on as `second`: alike at a glance, not a duplicate of
    either."""
    opening = first.text.replace("\n\n", " ").split(". ")[0]
    return f"{opening}. That is another story, though. {second.text}"
