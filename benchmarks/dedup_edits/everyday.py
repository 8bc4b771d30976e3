"""Edits that people make of pictures before they send them on, found and missed, and which of two stays.

    python -m benchmarks.dedup_edits.everyday DIRECTORY [limit] [seed] [development|held-out]

Originals are the pictures of the directory of 300 px and more on their shorter side, reduced to 1,000 px (lossy ones
always by a fifth and more), of which one half by the digest of their name. Printed are the share of each edit that goes
for what its original goes for, the peers' share at the bound with as many false pairs of originals, those pairs, to be
read by eye, and of how many pairs of an original and one copy the original stays.
"""

from __future__ import annotations

import hashlib
import io
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.dedup_edits import Edit, Report
from benchmarks.dedup_edits.image import _peers, coded, survivors

_LEAST_PX, _MOST_PX, _SHRUNK, _QUALITY = 300, 1_000, 1.25, 92
Edits = dict[str, bytes]


def screened(values_HWC: NDArray[Any]) -> NDArray[np.uint8]:
    """A photograph of a screen that shows it: seen from one side, on a dark room, with lines of the screen's pixels and
    another gamma."""
    import cv2

    height, width = values_HWC.shape[:2]
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    seen = corners * (0.9, 0.9) + (0.05 * width, 0.05 * height)
    seen += np.array([[0.02, 0.03], [-0.03, 0.0], [0.01, -0.02], [0.0, 0.01]]) * (width, height)
    warp = cv2.getPerspectiveTransform(corners, seen.astype(np.float32))
    down, across = np.mgrid[:height, :width]
    beats = 1 + 0.05 * np.sin(0.9 * across + 0.13 * down) + 0.04 * np.sin(1.1 * down)
    lit = 255 * (values_HWC / 255) ** 0.8 * beats[..., None]
    shown = cv2.warpPerspective(lit.clip(0, 255).astype(np.uint8), warp, (width, height), borderValue=(24, 22, 20))
    return np.asarray(cv2.GaussianBlur(shown, (0, 0), 0.8), np.uint8)


def _font(one: Any, share: float) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(max(10, int(one.height * share)))


def meme(one: Any, *, is_inside: bool) -> Any:
    """Letters in the picture, or in white bars above and below it."""
    from PIL import Image, ImageDraw

    bar = 0 if is_inside else int(0.18 * one.height)
    canvas = Image.new("RGB", (one.width, one.height + 2 * bar), "white")
    canvas.paste(one, (0, bar))
    ink = {"fill": "white", "stroke_fill": "black", "stroke_width": 3} if is_inside else {"fill": "black"}
    draw = ImageDraw.Draw(canvas)
    for text, y in (("WHEN IT WORKS", 0.03), ("AT THE FIRST TRY", 0.87)):
        draw.text((one.width / 2, y * canvas.height), text, font=_font(one, 0.09), anchor="ma", **ink)
    return canvas


def window(one: Any) -> Any:
    """A screen with the picture in a window."""
    from PIL import Image, ImageDraw, ImageFont

    width, height = one.size
    canvas = Image.new("RGB", (width + 120, height + 150), "#30465c")
    draw = ImageDraw.Draw(canvas)
    draw.rectangle((50, 40, width + 70, height + 100), "#e8e8e8")
    draw.text((70, 50), "picture.jpg - Viewer", "black", font=ImageFont.load_default(18))
    for at in range(3):
        draw.ellipse((width + 62 - 26 * at, 52, width + 46 - 26 * at + 32, 68), "#c04040")
    canvas.paste(one, (60, 80))
    draw.rectangle((0, height + 120, width + 120, height + 150), "#202020")
    draw.text((width - 10, height + 126), "12:41", "white", font=ImageFont.load_default(16))
    return canvas


def collage(pictures: list[Any]) -> Any:
    """Four pictures, in the size of the first."""
    from PIL import Image, ImageOps

    width, height = pictures[0].size
    canvas = Image.new("RGB", (width, height), "white")
    for at, part in enumerate(pictures):
        small = ImageOps.fit(part, (width // 2 - 4, height // 2 - 4))
        canvas.paste(small, (at % 2 * (width // 2) + 2, at // 2 * (height // 2) + 2))
    return canvas


def tiled(one: Any) -> Any:
    """See-through letters all over it."""
    from PIL import Image, ImageDraw

    width, height = one.size
    layer = Image.new("RGBA", (2 * width, 2 * height), (0, 0, 0, 0))
    draw = ImageDraw.Draw(layer)
    for y in range(0, 2 * height, max(40, height // 5)):
        for x in range(0, 2 * width, max(90, width // 3)):
            draw.text((x, y), "stock photo", (255, 255, 255, 95), font=_font(one, 0.05))
    layer = layer.rotate(25).crop((width // 2, height // 2, width // 2 + width, height // 2 + height))
    return Image.alpha_composite(one.convert("RGBA"), layer).convert("RGB")


def stickers(one: Any) -> Any:
    """Two faces on it, a fifth of its shorter side each."""
    from PIL import ImageDraw

    canvas, side = one.copy(), min(one.size) // 5
    draw = ImageDraw.Draw(canvas)
    for x, y, colour in ((0.2, 0.65, "#ffd020"), (0.68, 0.3, "#e03060")):
        left, top = int(x * one.width), int(y * one.height)
        draw.ellipse((left, top, left + side, top + side), colour, "white", 4)
        for eye in (0.3, 0.6):
            corner = left + eye * side, top + 0.3 * side
            draw.ellipse((*corner, corner[0] + 0.1 * side, corner[1] + 0.15 * side), "black")
    return canvas


def rounded(one: Any) -> Any:
    """Its corners cut off, on white."""
    from PIL import Image, ImageDraw

    mask = Image.new("L", one.size, 0)
    corner_px = min(one.size) // 8
    ImageDraw.Draw(mask).rounded_rectangle((0, 0, one.width - 1, one.height - 1), corner_px, 255)
    return Image.composite(one, Image.new("RGB", one.size, "white"), mask)


def local_contrast(one: Any) -> Any:
    """CLAHE of its lightness."""
    import cv2
    from PIL import Image

    lab = cv2.cvtColor(np.asarray(one), cv2.COLOR_RGB2LAB)
    lab[..., 0] = cv2.createCLAHE(3.0, (8, 8)).apply(lab[..., 0])
    return Image.fromarray(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB))


def edits_of(data: bytes, neighbours: list[bytes]) -> Edits:
    """Edit -> copy of the picture as its file shows it. neighbours: three pictures to stand next to it."""
    from PIL import Image, ImageOps

    one, *others = (Image.open(io.BytesIO(blob)).convert("RGB") for blob in (data, *neighbours))
    width, height = one.size
    values = np.asarray(one, np.float64)

    def jpeg(picture: Any, quality: int = 88) -> bytes:
        return coded(picture, quality=quality)

    luma = np.asarray(one.convert("L"), np.float64)[..., None]
    sepia = (luma * (1.08, 0.9, 0.68) + (12, 6, 0)).clip(0, 255).astype(np.uint8)
    sent = ImageOps.contain(one, (640, 640))
    return {
        "sent by messenger (640 px, q70)": jpeg(sent, 70),
        "centre square, q70": jpeg(ImageOps.fit(sent, (min(sent.size),) * 2), 70),
        "portrait 4:5 of it": jpeg(ImageOps.fit(one, (int(0.8 * height), height)) if width > height else one, 80),
        "sent three times (q70, 640, 480, 400 px)": _sent(one, (640, 480, 400)),
        "screenshot in a window": coded(window(one), "PNG"),
        "meme, white bars above and below": jpeg(meme(one, is_inside=False)),
        "meme, letters inside": jpeg(meme(one, is_inside=True)),
        "one of a collage of four": jpeg(collage([one, *others])),
        "photograph of a screen": jpeg(Image.fromarray(screened(values)), 85),
        "watermark in tiles": jpeg(tiled(one)),
        "two stickers": jpeg(stickers(one)),
        "rounded corners on white": coded(rounded(one), "PNG"),
        "on its own blur, whole, 1:1": jpeg(_on_blur(one, (max(one.size),) * 2)),
        "a tall part on its own blur": jpeg(
            _on_blur(one.crop((int(0.28 * width), 0, int(0.72 * width), height)), one.size)
        ),
        "auto-contrast": jpeg(ImageOps.autocontrast(one, cutoff=2)),
        "equalized": jpeg(ImageOps.equalize(one)),
        "local contrast (CLAHE)": jpeg(local_contrast(one)),
        "sepia": jpeg(Image.fromarray(sepia)),
        "negative": jpeg(ImageOps.invert(one)),
        "16 colours, dithered": coded(one.quantize(16, dither=Image.Dither.FLOYDSTEINBERG), "PNG"),
        "posterized to 3 bits": jpeg(ImageOps.posterize(one, 3)),
        "black and white, dithered": coded(one.convert("1"), "PNG"),
        "stretched to a square": jpeg(one.resize((min(one.size),) * 2)),
        "cropped by a fifth of each side": jpeg(
            one.crop(tuple(int(x) for x in np.outer((0.2, 0.8), one.size).ravel()))
        ),
    }


def _on_blur(one: Any, size: tuple[int, int]) -> Any:
    """The picture in the middle of an enlarged, blurred and darker copy of itself."""
    from PIL import ImageEnhance, ImageFilter, ImageOps

    ground = ImageOps.fit(one, size).filter(ImageFilter.GaussianBlur(max(size) / 30))
    ground = ImageEnhance.Brightness(ground).enhance(0.8)
    small = ImageOps.contain(one, size)
    ground.paste(small, ((size[0] - small.width) // 2, (size[1] - small.height) // 2))
    return ground


def _sent(one: Any, sides: tuple[int, ...]) -> bytes:
    from PIL import Image, ImageOps

    blob = b""
    for side in sides:
        blob = coded(ImageOps.contain(one, (side, side)), quality=70)
        one = Image.open(io.BytesIO(blob)).convert("RGB")
    return blob


def originals(folder: Path, limit: int, rng: np.random.Generator, half: str) -> Iterator[tuple[str, bytes]]:
    """(name, JPEG of at most 1,000 px) of that half of the files, drawn without repeats."""
    from PIL import Image

    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".png", ".jpg", ".jpeg", ".webp"))
    drawn = [paths[at] for at in rng.permutation(len(paths))]
    places = Counter[Path]()
    ranks = {path: places.update([path.parent]) or places[path.parent] for path in drawn}
    seen, num = set(), 0
    for path in sorted(drawn, key=lambda path: ranks[path]):  # one of each folder in turn
        name = path.name
        is_held_out = hashlib.sha256(name.encode()).digest()[0] % 2 == 1
        if is_held_out != (half == "held-out"):
            continue
        try:
            with Image.open(path) as opened:
                # of a lossy file only what is shrunk so far that no trace of its codec is left is an original
                least = _LEAST_PX if opened.format == "PNG" else _SHRUNK * _MOST_PX
                if min(opened.size) < _LEAST_PX or not least <= max(opened.size) <= 8 * _MOST_PX:
                    continue
                picture = opened.convert("RGBA")
                picture.thumbnail((_MOST_PX, _MOST_PX), Image.Resampling.LANCZOS)
        except (OSError, SyntaxError, ValueError):
            continue  # no picture
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture).convert("RGB")
        digest = hashlib.sha256(picture.tobytes()).hexdigest()
        if digest in seen:
            continue
        seen.add(digest)
        yield name, coded(picture, quality=_QUALITY)
        num += 1
        if num >= limit:
            return


def report(named: list[tuple[str, bytes]]) -> tuple[Report, list[tuple[str, str]]]:
    """(the table, false pairs by name of what went and of what stays)."""
    photos = [photo for _, photo in named]
    num = len(named)
    families = {
        at: edits_of(photo, [photos[(at + step) % num] for step in (1, 2, 3)]) for at, photo in enumerate(photos)
    }
    blobs = [(at, "", blob) for at, blob in enumerate(photos)]
    blobs += [(at, name, blob) for at, family in families.items() for name, blob in family.items()]
    kept = survivors([blob for _, _, blob in blobs])
    false = [
        (f"{named[at][0]} {edit}", f"{named[blobs[kept[place]][0]][0]} {blobs[kept[place]][1]}")
        for place, (at, edit, _) in enumerate(blobs)
        if blobs[kept[place]][0] != at
    ]
    hits = Counter(edit for place, (at, edit, _) in enumerate(blobs) if kept[place] == kept[at])
    peers = _peers(photos, families, allowed=len(false))
    rows = []
    for name in families[0]:
        best = max(peers, key=lambda peer: peers[peer][name], default="-")
        rows.append(Edit(name, num, hits[name] / num, best, peers[best][name] if peers else None))
    beaten = [blobs[kept[at]][1] for at in range(num) if kept[at] != at]
    stays = sum(kept[at] == at for at in range(num)) / num
    return Report("image", rows, num * (num - 1) // 2, len(false), stays, num, beaten=beaten), false


def main(folder: str, limit: str = "24", seed: str = "0", half: str = "held-out") -> None:
    named = list(originals(Path(folder), int(limit), np.random.default_rng(int(seed)), half))
    found, false = report(named)
    print(found.table())
    for one, other in false:
        print(f"  {one}  ->  {other}")
    pairs(named)


def pairs(named: list[tuple[str, bytes]]) -> None:
    """Print of each edit in how many pairs the two are one picture, and in how many of these the original stays."""
    found, stays = Counter[str](), Counter[str]()
    for at, (_, photo) in enumerate(named):
        others = [named[(at + step) % len(named)][1] for step in (1, 2, 3)]
        for name, blob in edits_of(photo, others).items():
            keepers = survivors([photo, blob])
            found[name] += keepers[0] == keepers[1]
            stays[name] += keepers == [0, 0]
    for name, num in found.items():
        print(f"| {name} | {stays[name]} of {num} |")
    print(f"| all | {stays.total()} of {found.total()} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
