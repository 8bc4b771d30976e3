"""The part of the landing zone whose items belong together: pictures with five captions and labels, interleaved
documents."""

from __future__ import annotations

import json
from typing import Any

from mmlake.records import digest_of
from mmlake.sample import pictures, prose
from mmlake.sample.chance import pick, scaled, stream
from mmlake.sample.ledger import Ledger, Piece, tar
from mmlake.sample.pictures import Gallery
from mmlake.sample.settings import SampleSettings
from mmlake.sample.topics import NAMES, PLACES
from mmlake.sample.truth import TruthSample

ALBUM, PAGES = "albums/captions.tar", "albums/pages.tar"
NUM_CAPTIONS = 5
_SIZE_PX = (320, 240)
# the third is the same for every picture: captions are no documents, so nothing takes it away
_CAPTIONS = (
    "{p}, seen by {n}.",
    "{n} kept this one: {p}, shown in {pl}.",
    "A picture from the album of the town.",
    "On the wall in {pl}: {p}.",
    "What {n} calls {p}.",
)
_FIRST_DOCUMENT = 100_000  # subjects that no other document joins


def lay_albums(ledger: Ledger, settings: SampleSettings, gallery: Gallery) -> None:
    """Writes landing/albums and enters its truth, samples included."""
    ledger.directory("albums", "town-albums", "CC-BY-4.0", 40)
    _lay_captions(ledger, settings, gallery)
    _lay_pages(ledger, settings, gallery)


def _lay_captions(ledger: Ledger, settings: SampleSettings, gallery: Gallery) -> None:
    """Pictures with five captions each, a label and other typed fields. The last of all has a caption that is empty."""
    members: list[tuple[str, bytes]] = []
    count = scaled(12, settings.scale)
    for number in range(count):
        rng, key = stream(settings.seed, "album", number), f"{number:06d}"
        painted, phrase = gallery.new(_SIZE_PX)
        place, name = pick(rng, PLACES), pick(rng, NAMES)
        captions = [pattern.format(p=phrase, n=name, pl=place) for pattern in _CAPTIONS]
        is_spoilt = number == count - 1
        if is_spoilt:
            captions[1] = " "
        fields: dict[str, Any] = {
            "label": phrase.split()[-1],
            "rating": round(float(rng.uniform(1, 5)), 2),
            "year": int(rng.integers(1950, 2026)),
            "is_framed": bool(rng.random() < 0.5),
        }
        picture = Piece(data=pictures.jpeg(painted), extension="jpg")
        members += [
            (f"{key}.jpg", picture.data),
            (f"{key}.json", json.dumps(fields | {"captions": captions}, ensure_ascii=False).encode()),
        ]
        ledger.companions.append((ALBUM, f"{key}.json"))
        ledger.note(ALBUM, f"{key}.jpg", "image", picture)
        kept = [("media", picture.digest)]
        for at, text in enumerate(captions):
            rule = None if text.strip() else "text_empty"
            caption = Piece(data=text.encode(), defect=rule, rule=rule)
            ledger.note(ALBUM, f"{key}.json#/captions/{at}", "text", caption, role="caption")
            if rule is None:
                kept.append(("caption", caption.digest))
        ledger.samples.append(
            TruthSample(
                sample_id=f"{ALBUM}/{key}",
                modality="image",
                parts=tuple(kept),
                num_masked=1 + NUM_CAPTIONS - len(kept),
                fields=fields,
            )
        )
    ledger.put(ALBUM, tar(members))


def _lay_pages(ledger: Ledger, settings: SampleSettings, gallery: Gallery) -> None:
    """Interleaved documents: passages and pictures in turn, named by their positions."""
    members: list[tuple[str, bytes]] = []
    for number in range(scaled(6, settings.scale)):
        key = f"{number:06d}"
        order: list[tuple[str, str, bytes]] = []  # (role, modality, bytes) of each position
        for place in range(4 + number % 2):
            at = _FIRST_DOCUMENT + 10 * number + place
            if place % 2 == 0:
                text = prose.document(at, stream(settings.seed, "page", at)).text
                order.append(("document", "text", text.encode()))
            else:
                order.append(("media", "image", pictures.jpeg(gallery.new(_SIZE_PX)[0])))
        names = [f"{key}.{at}.jpg" if role == "media" else None for at, (role, _, _) in enumerate(order)]
        fields = {"title": f"Page {number + 1}", "page": number + 1}
        record = fields | {
            "texts": [data.decode() if role == "document" else None for role, _, data in order],
            "images": names,
        }
        members.append((f"{key}.json", json.dumps(record, ensure_ascii=False).encode()))
        ledger.companions.append((PAGES, f"{key}.json"))
        for at, (role, modality, data) in enumerate(order):
            member = names[at] or f"{key}.json#/texts/{at}"
            ledger.note(PAGES, member, modality, Piece(data=data), role=role)
            if names[at] is not None:
                members.append((member, data))
        ledger.samples.append(
            TruthSample(
                sample_id=f"{PAGES}/{key}",
                modality="interleaved",
                parts=tuple((role, digest_of(data)) for role, _, data in order),
                num_masked=0,
                fields=fields,
            )
        )
    ledger.put(PAGES, tar(members))
