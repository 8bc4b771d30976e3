"""The image part of the landing zone: two WebDataset tars and a folder of scans."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from mmlake.sample import pictures, prose
from mmlake.sample.chance import pick, scaled, stream
from mmlake.sample.ledger import Ledger, Piece
from mmlake.sample.pictures import SIZES_PX, Gallery
from mmlake.sample.settings import SampleSettings
from mmlake.sample.topics import NAMES, PLACES
from mmlake.sample.truth import Probe

_CAPTIONS = (
    "{p}, painted for the cover of a book about {s}",
    "{p}; from the album of {n}, who wrote on {s}",
    "{p}, on a poster for a lecture about {s} in {pl}",
    "postcard from {pl} to a reader interested in {s}: {p}",
    "{p}, hung in {pl} beside an exhibit on {s}",
)
_LICENCES = ("CC0-1.0", "CC-BY-SA-4.0", "CC-BY-NC-4.0")


@dataclass(frozen=True, slots=True)
class _Shown:
    picture: np.ndarray
    piece: Piece


def lay_image(ledger: Ledger, settings: SampleSettings, gallery: Gallery) -> None:
    """Writes landing/image and out/probes, and enters their truth."""
    ledger.directory("image", "open-pictures", "CC-BY-4.0", 30)
    ledger.directory("image/scans", "attic-scans", "CC-BY-NC-4.0", 70)
    shown = [_clean(number, settings, gallery) for number in range(scaled(94, settings.scale))]
    copies = [shown[number * 11 % len(shown)].piece for number in range(scaled(9, settings.scale))]
    tarred: list[list[tuple[Piece, str]]] = [[], []]
    loose: list[Piece] = []
    for number, entry in enumerate(shown):
        if number % 5 == 4:
            loose.append(replace(entry.piece, licence=None, caption=None))
        else:
            tarred[number % 2].append((entry.piece, ("json", "txt", "json", "none")[number % 4]))
    for number, piece in enumerate(copies):  # within the tar, across tars, and into the folder
        if number % 3 == 2:
            loose.append(replace(piece, licence=None, caption=None))
        else:
            tarred[number % 2].append((replace(piece, caption=None), "none"))
    for number, piece in enumerate([*_near(ledger, settings, shown), *_defects(settings, gallery)]):
        if number % 3 == 0:
            loose.append(piece)
        else:
            tarred[number % 2].append((piece, "txt" if piece.caption is not None else "none"))
    plain = replace(
        shown[0].piece, data=pictures.jpeg(gallery.new(SIZES_PX[1])[0]), extension="jpg", caption="\n", licence=None
    )
    tarred[0].append((plain, "txt"))
    for number, samples in enumerate(tarred):
        order = stream(settings.seed, "photos", number).permutation(len(samples))
        ledger.webdataset(f"image/photos-{number:03d}.tar", "image", [samples[at] for at in order])
    for number, piece in enumerate(loose):
        ledger.loose("image/scans", f"scan-{number:03d}.{piece.extension}", "image", piece)
    _probes(ledger, settings, shown)


def _clean(number: int, settings: SampleSettings, gallery: Gallery) -> _Shown:
    rng = stream(settings.seed, "image", number)
    small = number % 5 == 4  # scans: PNG is large
    picture, phrase = gallery.new((288, 216) if small else SIZES_PX[number % len(SIZES_PX)])
    if small:
        data, extension = (pictures.png(picture), "png") if number % 10 == 4 else (pictures.webp(picture, 88), "webp")
    else:
        data, extension = pictures.jpeg(picture, int(rng.integers(82, 95))), "jpg"
    subjects = prose.subjects()
    subject = subjects[len(subjects) - 1 - number * 5 % len(subjects)][1]
    caption = pick(rng, _CAPTIONS).format(p=phrase, s=subject, n=pick(rng, NAMES), pl=pick(rng, PLACES))
    caption = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", caption[:1].upper() + caption[1:]) + "."
    return _Shown(
        picture,
        Piece(
            data=data,
            extension=extension,
            caption=caption,
            licence=pick(rng, _LICENCES) if rng.random() < 0.3 else None,
        ),
    )


def _near(ledger: Ledger, settings: SampleSettings, shown: list[_Shown]) -> list[Piece]:
    found = []
    for number in range(max(len(pictures.DISGUISES), scaled(36, settings.scale))):
        kind = pictures.DISGUISES[number % len(pictures.DISGUISES)]
        original = shown[number * 3 % len(shown)]
        data, extension = pictures.disguised(original.picture, kind)
        found.append(Piece(data=data, extension=extension))
        if found[-1].digest != original.piece.digest:
            ledger.same("near", "image", kind, (original.piece.digest, found[-1].digest))
    return found


def _defects(settings: SampleSettings, gallery: Gallery) -> list[Piece]:
    found = []
    for number in range(scaled(3, settings.scale)):
        rng = stream(settings.seed, "image defect", number)
        size_px = SIZES_PX[number % len(SIZES_PX)]
        made = [gallery.new(size_px)[0] for _ in range(3)]
        tint = np.full((size_px[1], size_px[0], 3), rng.integers(10, 245, 3), np.uint8)
        strip = gallery.new((1200, 96))[0]
        whole_jpeg, whole_png = pictures.jpeg(made[1]), pictures.png(made[2][:160, :200])
        found += [
            _defect(pictures.png(made[0][40:64, 60 : 60 + 20 + 4 * number]), "png", "too_small"),
            _defect(pictures.jpeg(tint), "jpg", "blank"),
            _defect(pictures.jpeg(pictures.smoothed(made[0], 7.0 + number)), "jpg", "blurred"),
            _defect(pictures.jpeg(strip), "jpg", "extreme_aspect"),
            _defect(whole_jpeg[: len(whole_jpeg) * (2 + number % 3) // 6], "jpg", "truncated_jpeg", "media_truncated"),
            _defect(whole_png[: len(whole_png) // 2], "png", "truncated_png", "media_truncated"),
            _defect(rng.bytes(4000 + 500 * number), "jpg", "random_bytes", "undecodable"),
        ]
    return found


def _defect(data: bytes, extension: str, name: str, rule: str | None = None) -> Piece:
    return Piece(data=data, extension=extension, defect=name, rule=rule or name)


def _probes(ledger: Ledger, settings: SampleSettings, shown: list[_Shown]) -> None:
    """Pictures to search with: cropped, darker and squeezed copies of clean ones."""
    folder = ledger.out / "probes"
    folder.mkdir(parents=True, exist_ok=True)
    related: dict[str, set[str]] = {}
    for row in ledger.duplicates:
        if row.tier == "near" and row.modality == "image":
            related.setdefault(row.digests[0], set()).update(row.digests[1:])
    for number in range(scaled(12, settings.scale)):
        original = shown[(number * 7 + 2) % len(shown)]
        height, width = original.picture.shape[:2]
        cropped = original.picture[height // 40 : height - height // 40, width // 40 : width - width // 40]
        (folder / f"picture-{number:02d}.jpg").write_bytes(pictures.jpeg((cropped * 0.92).astype(np.uint8), 55))
        digest = original.piece.digest
        ledger.probes.append(
            Probe(
                query=f"probes/picture-{number:02d}.jpg",
                kind="image",
                modality="image",
                relevant=(digest, *sorted(related.get(digest, ()))),
            )
        )
