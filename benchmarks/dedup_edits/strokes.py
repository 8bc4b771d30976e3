"""Letters with and without accents, arrows, triangles and turned letters as pictures: pairs of two, and edited copies.

    python -m benchmarks.dedup_edits.strokes FONT ... [--sides 28 36] [--fills .55 .7] [--edits 3] [--seed 7]

FONT: TrueType files, as those of DejaVu are. Each group is drawn at each size and compared with itself alone, in one of
three pairs of colours that the seed draws. Printed are the pairs that would be one picture and the edits that are
found, of letters that the seed draws.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFont

from benchmarks.dedup_edits.drawings import matcher
from benchmarks.dedup_edits.picture_families import coded

GROUPS = (
    "AÀÁÂÃÄÅ",
    "EÈÉÊË",
    "NÑM",
    "OÒÓÔÖQ",
    "CÇGSŠ",
    "aàáâä",
    "eèéë",
    "ИЙШЩцЦ",
    "←→↑↓",
    "△▽◁▷",
    "⇐⇒⇑⇓<>",
    "bdpq69",
    "0O8B3",
)
COLOURS = (("black", "white"), ("#c02020", "#f0f0d0"), ("white", "#2040a0"))


def drawn(letter: str, font: Path, side_px: int, fill: float, colours: tuple[str, str]) -> Image.Image:
    """The letter in the middle of a square; fill: its size, of the side."""
    found = Image.new("RGB", (side_px, side_px), colours[1])
    used = ImageFont.truetype(str(font), int(side_px * fill))
    ImageDraw.Draw(found).text((side_px / 2, side_px / 2), letter, colours[0], used, anchor="mm")
    return found


def copies(picture: Image.Image, rng: np.random.Generator) -> dict[str, bytes]:
    """Edit -> copy."""
    side = picture.width
    padded = Image.new("RGB", (side + side // 4,) * 2, picture.getpixel((0, 0)))
    padded.paste(picture, (side // 8, side // 8))
    pixels = np.asarray(picture)
    noisy = (pixels + rng.normal(0, 8, pixels.shape)).clip(0, 255).astype(np.uint8)
    small = picture.resize((side * 3 // 5,) * 2, Image.Resampling.BICUBIC)
    found = {
        "twice the size": picture.resize((2 * side,) * 2, Image.Resampling.BICUBIC),
        "half size": picture.resize((side // 2,) * 2, Image.Resampling.BOX),
        ".8 of the size": picture.resize((int(0.8 * side),) * 2, Image.Resampling.BICUBIC),
        "padded by its ground": padded,
        "shifted by 1 px": Image.fromarray(np.roll(pixels, (1, 1), (0, 1))),
        "noise of 8 levels": Image.fromarray(noisy),
        "contrast .7": ImageEnhance.Contrast(picture).enhance(0.7),
        "grey": picture.convert("L"),
        "blurred": small.resize((side, side), Image.Resampling.BICUBIC),
        **{f"crop {round(100 * off)} % per side": cropped(picture, off) for off in (0.03, 0.08)},
    }
    lossy = {f"JPEG q{quality}": coded(picture, "JPEG", quality=quality) for quality in (20, 60)}
    return {name: coded(one, "PNG") for name, one in found.items()} | lossy


def cropped(picture: Image.Image, off: float) -> Image.Image:
    low, high = int(picture.width * off), int(picture.width * (1 - off) + 1)
    return picture.crop((low, low, high, high))


def false_pairs(pictures: dict[str, Image.Image]) -> list[str]:
    """Those of two that would be one."""
    judge, letters, found = matcher([coded(one, "PNG") for one in pictures.values()]), list(pictures), []
    for at in range(len(letters) - 1):
        relation = judge.compare(at, np.arange(at + 1, len(letters))).relation
        found += [letters[at] + letters[at + 1 + other] for other in np.flatnonzero(relation == 1).tolist()]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fonts", nargs="+", type=Path)
    parser.add_argument("--sides", nargs="+", type=int, default=[28, 36, 56, 72, 140, 260])
    parser.add_argument("--fills", nargs="+", type=float, default=[0.55, 0.7])
    parser.add_argument("--edits", type=int, default=3, help="letters of each drawing that are edited")
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    rng, hits, num_false, num = np.random.default_rng(asked.seed), {}, 0, 0
    for font, side_px, fill in ((f, s, p) for f in asked.fonts for s in asked.sides for p in asked.fills):
        colours, false = COLOURS[rng.integers(len(COLOURS))], []
        for group in GROUPS:
            false += false_pairs({letter: drawn(letter, font, side_px, fill, colours) for letter in group})
            num += len(group) * (len(group) - 1) // 2
        num_false += len(false)
        print(font.stem, side_px, fill, len(false), *false)
        for letter in rng.choice(list("".join(GROUPS)), asked.edits, replace=False).tolist():
            picture = drawn(letter, font, side_px, fill, colours)
            edits = copies(picture, rng)
            found = matcher([coded(picture, "PNG"), *edits.values()]).compare(0, np.arange(1, len(edits) + 1))
            for edit, relation in zip(edits, found.relation.tolist(), strict=True):
                hits.setdefault(edit, []).append(relation == 1)
    print(f"\n{num_false} of {num:,} pairs of two would be one picture\n")
    print("| edit | copies | found |\n| --- | --- | --- |")
    for edit, found in hits.items():
        print(f"| {edit} | {len(found)} | {np.mean(found):.2f} |")
    print(f"| all | {sum(map(len, hits.values()))} | {np.mean(np.concatenate(list(hits.values()))):.3f} |")


if __name__ == "__main__":
    main()
