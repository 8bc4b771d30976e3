"""Emoji in the tones of skin that they are drawn in: pairs of two tones, and edited copies of emoji.

    python -m benchmarks.dedup_edits.repaints SOURCE [--limit 30] [--edits 30] [--seed 3]

SOURCE: a colour font with bitmaps of 109 px (NotoColorEmoji.ttf of the Debian package fonts-noto-color-emoji), drawn at
128 and at 64 px, or a directory of PNGs named by code points (`1f44b-1f3fb.png`), as the npm package
emoji-datasource-twitter has them. All are laid on white. Printed are the pairs of two tones of one emoji that would be
one picture, and the edits of emoji that the seed draws that are found.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from benchmarks.dedup_edits.drawings import matcher, print_edits
from benchmarks.dedup_edits.picture_families import coded

TONES = ("", "1f3fb", "1f3fc", "1f3fd", "1f3fe", "1f3ff")
# hands, faces, people and sports that a font has in all tones
_PEOPLE = """1f44b 1f44c 1f44d 1f44a 270b 1f446 1f64f 1f4aa 1f442 1f443 1f476 1f466 1f467 1f468 1f469 1f474 1f475 1f46e
1f477 1f478 1f385 1f57a 1f483 1f6b6 1f3c3 1f3ca 1f6b4""".split()
_THINGS = range(0x1F400, 0x1F640)
_FONT_PX, _CANVAS = 109, (136, 128)

Draw = Callable[[str], Image.Image | None]


def of_font(path: Path) -> tuple[Draw, list[str], list[str], list[int]]:
    """(what draws code points, those that have tones, those to be edited, heights in px)."""
    font = ImageFont.truetype(str(path), _FONT_PX)

    def draw(name: str) -> Image.Image:
        found = Image.new("RGB", _CANVAS, "white")
        letters = "".join(chr(int(code, 16)) for code in name.split("-"))
        ImageDraw.Draw(found).text((0, 0), letters, font=font, embedded_color=True)
        return found

    things = [f"{code:x}" for code in _THINGS if f"{code:x}" not in TONES]
    return draw, _PEOPLE, things, [128, 64]


def of_folder(folder: Path) -> tuple[Draw, list[str], list[str], list[int]]:
    """The same of a directory of PNGs."""

    def draw(name: str) -> Image.Image | None:
        paths = [folder / f"{name}.png", folder / f"{name}-fe0f.png"]
        path = next((one for one in paths if one.exists()), None)
        if path is None:
            return None
        with Image.open(path) as opened:
            layer = opened.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")

    names = sorted(path.stem for path in folder.glob("*.png"))
    people = [name.removesuffix("-1f3fb") for name in names if name.count("-") == 1 and name.endswith("-1f3fb")]
    return draw, people, [name for name in names if "-" not in name and name not in TONES], [0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--limit", type=int, default=30, help="emoji whose tones are compared")
    parser.add_argument("--edits", type=int, default=30, help="emoji that are edited")
    parser.add_argument("--seed", type=int, default=3)
    asked = parser.parse_args()
    draw, people, things, heights = (of_folder if asked.source.is_dir() else of_font)(asked.source)
    rng = np.random.default_rng(asked.seed)
    num, pairs = 0, np.zeros((len(TONES), len(TONES)), int)
    for name in rng.permutation(people)[: asked.limit].tolist():
        for height in heights:
            drawn = [(at, draw("-".join(filter(None, (name, tone))))) for at, tone in enumerate(TONES)]
            known = [(at, one) for at, one in drawn if one is not None]
            sized = [one.resize((one.width * height // one.height, height)) if height else one for _, one in known]
            judge = matcher([coded(one, "PNG") for one in sized])
            for at in range(len(known) - 1):
                relation = judge.compare(at, np.arange(at + 1, len(known))).relation
                num += len(relation)
                for other in np.flatnonzero(relation == 1).tolist():
                    pairs[known[at][0], known[at + 1 + other][0]] += 1
    print(f"{pairs.sum()} of {num:,} pairs of two tones would be one picture; by tones:\n{pairs}\n")
    chosen = (draw(name) for name in rng.permutation(things)[: asked.edits].tolist())
    print_edits([coded(one, "PNG") for one in chosen if one is not None], "emoji")


if __name__ == "__main__":
    main()
