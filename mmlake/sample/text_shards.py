"""The text part of the landing zone: JSON lines, Parquet, loose notes and web pages."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from mmlake.records import digest_of
from mmlake.sample import prose
from mmlake.sample.chance import pick, scaled, stream
from mmlake.sample.ledger import Ledger, Piece, gzipped
from mmlake.sample.paraphrases import STATEMENTS
from mmlake.sample.settings import SampleSettings
from mmlake.sample.truth import Probe

_ROW_LICENCES = ("MIT", "CC-BY-SA-4.0", "CC-BY-NC-4.0", "CC0-1.0")
_PLACES = (("lines-gz", 0.38), ("lines", 0.28), ("parquet", 0.25), ("notes", 0.09))
_QUESTIONS = (
    "A story from {p} about {a}",
    "What happened in {p} concerning {a}?",
    "I am looking for a report on {a} near {p}.",
    "Who in {p} knows about {a}?",
)
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{title} | The {place} Gazette</title>\
<style>nav {{ color: #333 }}</style><script>var page = 1;</script></head>
<body>
<nav><ul><li><a href="/">Home</a></li><li><a href="/news">News</a></li>\
<li><a href="/archive">Archive</a></li></ul></nav>
<main><article><h1>{title}</h1>
{paragraphs}
</article></main>
<footer><p><a href="/imprint">Imprint</a> <a href="/contact">Contact</a></p></footer>
</body>
</html>
"""


def lay_text(ledger: Ledger, settings: SampleSettings) -> None:
    """Writes landing/text and enters its truth, probes included."""
    ledger.directory("text", "harbour-press", "CC-BY-4.0", 20)
    ledger.directory("text/notes", "found-notes", "CC0-1.0", 60)
    rng = stream(settings.seed, "text")
    documents, pieces = _clean(settings)
    copies = [pieces[index] for index in rng.integers(0, len(pieces), scaled(18, settings.scale))]
    near = _near(ledger, settings, documents, pieces)
    copies = [replace(piece, licence=None) for piece in copies]
    spread = [
        *pieces,
        *copies,
        *near,
        *_lookalikes(ledger, settings, documents, pieces),
        *_semantic(ledger, settings),
        *_defects(settings),
    ]
    order = rng.permutation(len(spread))
    places = rng.choice(len(_PLACES), len(spread), p=[share for _, share in _PLACES])
    shelves: dict[str, list[Piece]] = {name: [] for name, _ in _PLACES}
    for at, place in zip(order, places, strict=True):
        piece = spread[at]
        # Notes and Parquet rows have no licence of their own, and a file is a poor place for a planted defect of a
        # record.
        name = _PLACES[place][0]
        if name == "notes" and piece.defect is not None:
            name = "lines"
        shelves[name].append(piece if name.startswith("lines") else replace(piece, licence=None))
    _lines(ledger, "text/documents-000.jsonl.gz", shelves["lines-gz"], compressed=True)
    _lines(ledger, "text/documents-001.jsonl", shelves["lines"], compressed=False)
    _parquet(ledger, "text/articles-000.parquet", shelves["parquet"])
    for number, piece in enumerate(shelves["notes"]):
        ledger.loose("text/notes", f"note-{number:03d}.txt", "text", piece, role="document")
    _pages(ledger, settings, documents, pieces)
    _probes(ledger, documents, pieces)


def _clean(settings: SampleSettings) -> tuple[list[prose.Document], list[Piece]]:
    documents = [
        prose.document(number, stream(settings.seed, "document", number))
        for number in range(scaled(272, settings.scale))
    ]
    pieces = []
    for number, document in enumerate(documents):
        rng = stream(settings.seed, "document licence", number)
        pieces.append(
            Piece(data=document.text.encode(), licence=pick(rng, _ROW_LICENCES) if rng.random() < 0.25 else None)
        )
    return documents, pieces


def _long(documents: list[prose.Document]) -> list[int]:
    """Those long enough that one light edit leaves most of their word 5-grams."""
    return [number for number, document in enumerate(documents) if len(document.text.split()) >= 90]


def _near(
    ledger: Ledger, settings: SampleSettings, documents: list[prose.Document], pieces: list[Piece]
) -> list[Piece]:
    edits = []
    long = _long(documents)
    for number in range(max(len(prose.EDITS), scaled(36, settings.scale))):
        kind = tuple(prose.EDITS)[number % len(prose.EDITS)]
        at = long[number * 3 % len(long)]
        text = prose.light_edit(documents[at].text, kind, stream(settings.seed, "edit", number))
        edits.append(Piece(data=text.encode()))
        ledger.same("near", "text", kind, (pieces[at].digest, edits[-1].digest))
    return edits


def _lookalikes(
    ledger: Ledger, settings: SampleSettings, documents: list[prose.Document], pieces: list[Piece]
) -> list[Piece]:
    found = []
    for number in range(scaled(4, settings.scale)):
        # The second half is about a subject that no other document has.
        other = prose.document(len(documents) + number, stream(settings.seed, "lookalike", number))
        text = prose.same_opening(documents[number * 5 % len(documents)], other)
        found.append(Piece(data=text.encode()))
        ledger.same("none", "text", "same_opening", (pieces[number * 5 % len(documents)].digest, found[-1].digest))
    return found


def _semantic(ledger: Ledger, settings: SampleSettings) -> list[Piece]:
    found = []
    for statement in STATEMENTS[: max(2, min(len(STATEMENTS), scaled(len(STATEMENTS), settings.scale)))]:
        group = [Piece(data=wording.encode()) for wording in statement.wordings]
        found += group
        digests = tuple(piece.digest for piece in group)
        ledger.same("semantic", "text", "paraphrase", digests)
        ledger.probes.append(Probe(query=statement.query, kind="text", modality="text", relevant=digests))
    return found


_NOTICES = (
    "This website uses cookies to improve your experience.",
    "By using this site you agree to our terms of use and privacy policy.",
    "Please enable JavaScript to continue.",
    "Sign in to continue.",
    "Accept all cookies.",
    "Subscribe to our newsletter.",
    "All rights reserved.",
    "Share this on Facebook.",
    "Click here to manage cookies.",
    "Already have an account?",
)
_TEASER = "Read more about the stories of the day in the evening edition"
_LOREM = (
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et "
    "dolore magna aliqua. "
    "Ut enim ad minim veniam, quis nostrud exercitation ullamco laboris."
)
# Each about something else: three lists of one field's words would be semantic duplicates.
_LONG_WORDS = (
    "Electroencephalography, immunohistochemistry, otorhinolaryngologists, gastroenterological complications, "
    "hypercholesterolemia, "
    "cardiopulmonary resuscitation, anesthesiological documentation, bronchoconstriction.",
    "Constitutionality, counterrevolutionaries, parliamentarianism, decentralization, enfranchisement, "
    "antidisestablishmentarianism, "
    "intergovernmental representatives, ultraconservative constituencies, reapportionment.",
    "Telecommunications, multiprocessing, microarchitecture, parallelization, synchronization, cryptographically "
    "authenticated transmission, photolithography, semiconductor interconnections, hyperthreading.",
    "Photosynthesizing microorganisms, chrysanthemums, rhododendrons, biodegradability, agroforestry, "
    "phosphorescent dinoflagellates, crossfertilization, hydroelectricity, desertification, overexploitation.",
)


def _defects(settings: SampleSettings) -> list[Piece]:
    found = []
    for number in range(scaled(3, settings.scale)):
        rng = stream(settings.seed, "text defect", number)
        topic_words = prose.document(1000 + number, rng).text.split()
        notices = [_NOTICES[index] for index in rng.permutation(len(_NOTICES))]
        texts = {
            "text_empty": (" \n\t\n", "\u2014 \u2026 \u2014", "?! ... !?", "   ")[number % 4],
            "text_too_short": " ".join(topic_words[: 3 + number % 8]),
            "boilerplate": " ".join(notices) if number % 2 == 0 else f"{_LOREM} {notices[0]} {notices[1]}",
            "repeated_lines": "\n".join(
                [f"Menu {number}: home, news, weather and sport", *[_TEASER] * 12, " ".join(topic_words[:12])]
            ),
            "not_prose": " ".join(f"{int(value):04d} | {value * 1.7:.2f} ;" for value in rng.integers(0, 9999, 40))
            + " total",
            "garbled": _garbled(" ".join(topic_words), rng),
        }
        if number < len(_LONG_WORDS):
            texts["word_length"] = _LONG_WORDS[number]
        found += [Piece(data=text.encode(), defect=rule, rule=rule) for rule, text in texts.items()]
    return found


def _garbled(text: str, rng: np.random.Generator) -> str:
    letters = list(text)
    for at in rng.integers(0, len(letters), len(letters) // 12):
        letters[at] = pick(rng, ("\ufffd", "\ufffd", "\x01", "\x13"))
    return "".join(letters)


def _lines(ledger: Ledger, shard: str, pieces: list[Piece], *, compressed: bool) -> None:
    lines = []
    for number, piece in enumerate(pieces, 1):
        record = {"id": f"{digest_of(shard.encode())[:4]}-{number:05d}", "text": piece.data.decode(), "lang": "en"} | (
            {"license": piece.licence} if piece.licence else {}
        )
        lines.append(json.dumps(record, ensure_ascii=False))
        ledger.note(shard, f"line:{number}", "text", piece, role="document")
    data = ("\n".join(lines) + "\n").encode()
    ledger.put(shard, gzipped(data) if compressed else data)


def _parquet(ledger: Ledger, shard: str, pieces: list[Piece]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "text": pa.array([piece.data.decode() for piece in pieces], pa.string()),
            "id": pa.array([f"article-{number:05d}" for number in range(len(pieces))], pa.string()),
            "url": pa.array([f"https://press.example/articles/{number}" for number in range(len(pieces))], pa.string()),
            "language": pa.array(["en"] * len(pieces), pa.string()),
            "score": pa.array(
                [round(0.5 + (number * 37 % 100) / 200, 3) for number in range(len(pieces))], pa.float64()
            ),
        }
    )
    for number, piece in enumerate(pieces):
        ledger.note(shard, f"row:{number + 1}", "text", piece, role="document")
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", row_group_size=64)
    ledger.put(shard, sink.getvalue().to_pybytes())


def _page(document: prose.Document) -> Piece:
    paragraphs = "\n".join(f"<p>{part}</p>" for part in document.text.replace("&", "&amp;").split("\n\n"))
    title = document.subject[:1].upper() + document.subject[1:]
    return Piece(data=_PAGE.format(title=title, place=document.place, paragraphs=paragraphs).encode())


def _pages(ledger: Ledger, settings: SampleSettings, documents: list[prose.Document], pieces: list[Piece]) -> None:
    """Web pages of their own, and a few that repeat a document of another shard."""
    for number in range(scaled(11, settings.scale)):
        document = prose.document(
            len(documents) + scaled(4, settings.scale) + number, stream(settings.seed, "page", number), num_sentences=7
        )
        ledger.loose("text/notes", f"page-{number:03d}.html", "text", _page(document), role="document")
    long = _long(documents)
    for number in range(scaled(2, settings.scale)):
        at = long[(number * 5 + 1) % len(long)]
        page = _page(documents[at])
        ledger.loose("text/notes", f"reprint-{number:03d}.html", "text", page, role="document")
        ledger.same("near", "text", "markup", (pieces[at].digest, page.digest))


def _probes(ledger: Ledger, documents: list[prose.Document], pieces: list[Piece]) -> None:
    related: dict[str, set[str]] = {}
    for row in ledger.duplicates:
        if row.tier == "near" and row.modality == "text":
            related.setdefault(row.digests[0], set()).update(row.digests)
    for number, document in enumerate(documents):
        if document.alias is not None:
            query = _QUESTIONS[number % len(_QUESTIONS)].format(a=document.alias, p=document.place)
            own = pieces[number].digest
            others = sorted(related.get(own, {own}) - {own})
            ledger.probes.append(Probe(query=query, kind="text", modality="text", relevant=(own, *others)))
