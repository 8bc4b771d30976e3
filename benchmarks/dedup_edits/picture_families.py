"""Families of pictures for the question who stays: originals of many kinds, and copies of each, in a development half
and one that is held out.

Originals: photographs as they are, photographs shrunk (so that their first compression is gone) and saved as PNG, as
JPEG of quality 60 to 95, as WebP, with the noise of a camera, at 200 px; frames of films; renderings of 1,600 px; pages
of text and plots.

    python -m benchmarks.dedup_edits.picture_families ../shared/data --half held-out --limit 24
"""

from __future__ import annotations

import argparse
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.dedup_edits.image import edits_of, survivors

HALVES = ("development", "held-out")
Picture = Any
_LARGE_PX, _SMALL_PX = 1_600, 200


def coded(picture: Picture, kind: str = "JPEG", **options: Any) -> bytes:
    """The file of the picture."""
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def opened(data: bytes) -> Picture:
    """The picture of a file, in colour."""
    from PIL import Image

    return Image.open(io.BytesIO(data)).convert("RGB")


def originals(data: Path, *, half: str, limit: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """(kind, file) of so many originals; the halves share no picture and no scene."""
    from PIL import Image

    parity, rng = HALVES.index(half), np.random.default_rng([seed, HALVES.index(half)])
    photos = sorted((data / "landing" / "image").glob("*.JPEG"))[parity::2]
    photos = [photos[at] for at in rng.permutation(len(photos))]
    films = sorted([*data.glob("*/video/*.mkv"), *data.glob("*/video/*.mp4")])[parity::2]
    frames = [frame for path in films for frame in _frames(path, rng)]
    for at in range(limit):
        turn, quality = at % 12, int(rng.integers(60, 96))
        if turn >= 10:
            made = (_rendering, page)[turn - 10](rng)
            is_lossless = at // 12 % 2 == 0
            kind = f"{('rendering', 'page')[turn - 10]} as {'PNG' if is_lossless else 'JPEG'}"
            yield kind, coded(made, "PNG") if is_lossless else coded(made, quality=max(70, quality))
        elif turn in (8, 9) and frames:
            frame = frames[int(rng.integers(len(frames)))]
            yield "frame", coded(frame, "PNG") if turn == 8 else coded(frame, quality=max(75, quality))
        elif turn in (0, 1):
            yield "photograph", photos[at % len(photos)].read_bytes()
        else:
            one = Image.open(photos[at % len(photos)]).convert("RGB")
            one = one.resize((one.width // 2, one.height // 2), Image.Resampling.BOX)
            yield _saved(one, turn, quality, rng)


def _saved(one: Picture, turn: int, quality: int, rng: np.random.Generator) -> tuple[str, bytes]:
    if turn == 3:
        return "JPEG 4:2:0", coded(one, quality=quality)
    if turn == 4:
        return "JPEG 4:4:4", coded(one, quality=quality, subsampling=0)
    if turn == 5:
        return "WebP", coded(one, "WEBP", quality=quality)
    if turn == 6:
        return "camera noise", coded(_grainy(one, rng), quality=95)
    if turn == 7:
        return "200 px", coded(_small(one), quality=max(75, quality))
    return "PNG", coded(one, "PNG")


def _frames(path: Path, rng: np.random.Generator) -> list[Picture]:
    import av

    found = []
    with av.open(str(path)) as container:
        stop = int(rng.integers(20, 60))
        for at, frame in enumerate(container.decode(video=0)):
            if at == stop:
                found.append(frame.to_image())
                break
    return found


def _small(picture: Picture) -> Picture:
    scale = _SMALL_PX / max(picture.size)
    return picture.resize((int(picture.width * scale), int(picture.height * scale)), 1)


def _grainy(picture: Picture, rng: np.random.Generator) -> Picture:
    """With noise as of a sensor: more of it where there is more light, the same in its neighbours' colours."""
    from PIL import Image

    values = np.asarray(picture, dtype=np.float64)
    noise = rng.normal(0, 1, values.shape) * np.sqrt(4 + rng.uniform(0.1, 0.4) * values)
    return Image.fromarray((values + noise).clip(0, 255).astype(np.uint8))


def _rendering(rng: np.random.Generator) -> Picture:
    """A scene: a sky, hills of fractal texture, discs and boxes with shades."""
    from PIL import Image, ImageDraw, ImageFilter

    height, width = int(_LARGE_PX * rng.uniform(0.6, 0.8)), _LARGE_PX
    down, across = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None]
    radius = np.maximum(np.hypot(down, across), 1 / width) ** rng.uniform(1.0, 1.5)
    planes = [np.fft.irfft2(np.fft.rfft2(rng.normal(size=(height, width))) / radius, s=(height, width)) for _ in "rgb"]
    texture = np.stack([planes[0] + 0.4 * plane for plane in planes], axis=2)
    sky = np.linspace(200, 90, height)[:, None, None] * np.array(rng.uniform(0.6, 1.0, 3))
    scene = Image.fromarray((sky + 25 * texture / texture.std()).clip(0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(scene)
    for _ in range(int(rng.integers(8, 30))):
        x, y, size = rng.uniform(0, width), rng.uniform(0, height), rng.uniform(20, 260)
        ink = tuple(int(value) for value in rng.integers(0, 256, 3))
        shape = draw.ellipse if rng.random() < 0.5 else draw.rectangle
        shape((x, y, x + size, y + size * rng.uniform(0.5, 1.5)), fill=ink)
    return scene.filter(ImageFilter.GaussianBlur(0.6))


def page(rng: np.random.Generator) -> Picture:
    """A plot with lines, points and words."""
    from PIL import Image, ImageDraw, ImageFont

    page = Image.new("RGB", (900, 640), "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(18)
    draw.rectangle((80, 40, 860, 560), outline="black", width=2)
    for at in range(int(rng.integers(2, 6))):
        heights = 300 + np.cumsum(rng.normal(0, 12, 78))
        ink = tuple(int(value) for value in rng.integers(0, 200, 3))
        draw.line([(85 + 10 * x, float(np.clip(y, 50, 550))) for x, y in enumerate(heights)], fill=ink, width=3)
        name = "".join(chr(97 + int(letter)) for letter in rng.integers(0, 26, 9))
        draw.text((100, 60 + 24 * at), name, ink, font=font)
    for _ in range(int(rng.integers(40, 160))):
        x, y = rng.uniform(90, 850), rng.uniform(50, 550)
        draw.ellipse((x, y, x + 7, y + 7), fill="#3060c0")
    return page


def copies(data: bytes, rng: np.random.Generator) -> dict[str, bytes]:
    """Edit -> file: those of the table of edits, and what else spoils a copy. Each family is saved at one quality, or
    without further loss."""
    from PIL import Image, ImageEnhance, ImageFilter, ImageOps

    one = opened(data)
    width, height = one.size
    values = np.asarray(one, dtype=np.float64)
    form: tuple[str, dict[str, int]] = [
        ("JPEG", {"quality": 85}),
        ("JPEG", {"quality": 92}),
        ("JPEG", {"quality": 97}),
        ("PNG", {}),
    ][int(rng.integers(4))]

    def save(picture: Picture) -> bytes:
        return coded(picture, form[0], **form[1])

    def of(changed: np.ndarray) -> Picture:
        return Image.fromarray(changed.clip(0, 255).astype(np.uint8))

    def grain(levels: float) -> Picture:
        return of(values + rng.normal(0, levels, values.shape))

    enlarged = one.resize((int(width * 1.5), int(height * 1.5)), 3)
    found = edits_of(data, rng)
    found |= {name: save(opened(found[name])) for name in ("gamma .6", "mirrored", "watermark across", "logo 15 %")}
    return found | {
        "JPEG q75": coded(one, quality=75),
        "JPEG q95": coded(one, quality=95),
        "JPEG q50, then q95": coded(opened(coded(one, quality=50)), quality=95),
        "PNG of JPEG q75": coded(opened(coded(one, quality=75)), "PNG"),
        "WebP q40": coded(one, "WEBP", quality=40),
        "PNG of WebP q60": coded(opened(coded(one, "WEBP", quality=60)), "PNG"),
        "1.5 times the size": save(enlarged),
        "1.5 times the size, PNG": coded(enlarged, "PNG"),
        "halved and enlarged": save(one.resize((width // 2, height // 2), 1).resize((width, height), 3)),
        "blur .8 px": save(one.filter(ImageFilter.GaussianBlur(0.8))),
        "median": save(one.filter(ImageFilter.MedianFilter(3))),
        "sharpened": save(one.filter(ImageFilter.UnsharpMask(2, 120, 2))),
        "noise 5 levels": save(grain(5)),
        "noise 5 levels, PNG": coded(grain(5), "PNG"),
        "enlarged with noise": save(
            of(np.asarray(enlarged, np.float64) + rng.normal(0, 5, (enlarged.height, enlarged.width, 1)))
        ),
        "3 px cropped": save(one.crop((3, 3, width, height))),
        "8 % cropped": save(one.crop((width // 12, height // 12, width - width // 12, height - height // 12))),
        "rotated 1 degree": save(one.rotate(1, 2)),
        "contrast 1.4": save(ImageEnhance.Contrast(one).enhance(1.4)),
        "faded": save(of(values * 0.75 + 40)),
        "saturation 1.6": save(ImageEnhance.Color(one).enhance(1.6)),
        "saturation .5": save(ImageEnhance.Color(one).enhance(0.5)),
        "warm cast": save(of(values * (1.08, 1.0, 0.85))),
        "palette of 64": coded(one.quantize(64), "PNG"),
        "narrow border": save(ImageOps.expand(one, max(2, width // 50), "white")),
    }


def resized(data: bytes) -> dict[str, bytes]:
    """Edit -> file: thumbnails and enlargements, as sites keep them."""
    one = opened(data)
    found = {}
    for factor, quality in ((0.25, 85), (0.3, 95), (0.4, 70), (0.4, 95), (0.55, 90), (0.75, 90), (1.3, 90), (3, 90)):
        size = max(64, int(one.width * factor)), max(64, int(one.height * factor))
        found[f"{factor} times, q{quality}"] = coded(one.resize(size, 1 if factor < 1 else 3), quality=quality)
    return found


def pairs(families: Iterator[tuple[str, bytes]], rng: np.random.Generator) -> None:
    """Print in how many pairs of an original and one copy, of those that are found, the original stays."""
    found: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for _, data in families:
        for name, copy in (copies(data, rng) | resized(data)).items():
            keepers = survivors([data, copy])
            found[name] += keepers[0] == keepers[1]
            kept[name] += keepers == [0, 0]
    for name in found:
        print(f"{name}: {kept[name]} of {found[name]}")
    print(f"of two the original stays in {kept.total()} of {found.total()}")


def main() -> None:
    """Print who stays, of whole families and of fourteen random copies of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with landing/ and more/")
    parser.add_argument("--half", choices=HALVES, default=HALVES[0])
    parser.add_argument("--limit", type=int, default=24, help="families")
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--pairs", action="store_true", help="each copy alone with its original instead")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    families = originals(arguments.data, half=arguments.half, limit=arguments.limit, seed=arguments.seed)
    if arguments.pairs:
        pairs(families, rng)
        return
    num: Counter[tuple[str, str]] = Counter()
    kept: Counter[tuple[str, str]] = Counter()
    beaten: Counter[str] = Counter()
    for kind, data in families:
        family = copies(data, rng)
        some = rng.choice(sorted(family), 14, replace=False).tolist()
        for names, size in ((sorted(family), "all copies"), (some, "14 copies")):
            keeper = survivors([data, *(family[name] for name in names)])[0]
            num[kind, size] += 1
            kept[kind, size] += keeper == 0
            if keeper:
                beaten[names[keeper - 1]] += 1
    for (kind, size), total in sorted(num.items()):
        print(f"{kind}, {size}: {kept[kind, size]} of {total}")
    for size in ("all copies", "14 copies"):
        of_size = [key for key in num if key[1] == size]
        print(
            f"{size}: the original stays in {sum(kept[key] for key in of_size)} of {sum(num[key] for key in of_size)}"
        )
    print("stays in its place:", ", ".join(f"{name} {times}" for name, times in beaten.most_common()) or "nothing")


if __name__ == "__main__":
    main()
