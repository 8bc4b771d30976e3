"""How well the default text encoder knows a language: what it spells out, and how alike it finds different pages.

    python -m benchmarks.spelled_texts HANDBOOK [--translations DIRECTORY]

HANDBOOK: pages of one book in many languages, `LANGUAGE/sect*.html`, as the Debian package debian-handbook has them;
of each page 2,000 characters, of each language 20 pages that are in it (half of the letters not ASCII, for languages in
other letters). Near duplicates are none of these: each page is another section. DIRECTORY: of `benchmarks.encodings`,
for the share of letters that is spelled out in pieces of 200 characters.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import numpy as np

from benchmarks.encodings import sentences
from mmlake.embed import ENCODERS, EmbedSettings
from mmlake.embed.minilm import load
from mmlake.preprocess.markup import main_text

_OTHER_LETTERS = ("ar", "el", "fa", "ja", "ko", "ru", "zh")
_PAGES, _LEAST_CHARS, _CHARS, _PIECES, _PIECE_CHARS = 20, 400, 2_000, 60, 200


def pages(folder: Path) -> list[str]:
    """Pages in the folder's language."""
    found = []
    for path in sorted(folder.glob("sect*.html"))[::3]:
        text = main_text(path.read_text("utf-8"))[:_CHARS]
        letters = [sign for sign in text if sign.isalpha()]
        is_other = sum(not sign.isascii() for sign in letters) > len(letters) / 2
        if len(text) >= _LEAST_CHARS and is_other == folder.name.startswith(_OTHER_LETTERS):
            found.append(text)
    return found[:_PAGES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("handbook", type=Path)
    parser.add_argument("--translations", type=Path)
    arguments = parser.parse_args()
    encoder, bound = load(EmbedSettings(max_spelled_fraction=1.0), "cpu"), ENCODERS["minilm-l6"].duplicate_cosine
    for folder in sorted(path for path in arguments.handbook.iterdir() if path.is_dir()):
        texts = pages(folder)
        if len(texts) < 4:
            continue
        vectors = np.stack([encoder.infer([encoder.prepare(text)])[0] for text in texts])
        cosines = (vectors @ vectors.T)[np.triu_indices(len(texts), 1)]
        share = np.median([encoder.spelled_fraction(text) for text in texts])
        above = f"{(cosines >= bound).sum()} of {len(cosines)} pairs from {bound} on"
        print(f"{folder.name}: {len(texts)} pages, spelled {share:.2f}, mean cosine {cosines.mean():.2f}, {above}")
    draw = random.Random(0)
    roots = arguments.translations.glob("**/locale/*") if arguments.translations else ()
    for language in sorted({path.name for path in roots if path.is_dir()}):
        said = sentences(arguments.translations, language)
        if len(said) < 10:
            continue
        shares = []
        for _ in range(_PIECES):
            draw.shuffle(said)
            shares.append(encoder.spelled_fraction(" ".join(said)[:_PIECE_CHARS]))
        print(f"{language}: spelled {np.median(shares):.2f}, from {min(shares):.2f} to {max(shares):.2f}")


if __name__ == "__main__":
    main()
