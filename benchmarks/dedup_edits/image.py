"""Edited copies of photographs: which of them the lake finds, and which PDQ and the hashes of imagehash find.

    python -m benchmarks.dedup_edits.image ../shared/data [families] [seed]
    pip install --no-deps --target benchmarks/.peers/image ImageHash PyWavelets pdqhash      the peers

A peer's bound is the largest that gives no more false pairs among the originals than ours.
"""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.dedup_edits import Edit, Report
from mmlake.dedup import DedupSettings
from mmlake.dedup.image import fingerprints, matcher
from mmlake.dedup.matching import INSIDE, SAME
from mmlake.dedup.prints import Ragged, digests_of
from mmlake.dedup.stars.leaders import stars
from mmlake.dedup.stars.standings import standing_of
from mmlake.dedup.stars.star_edges import Stars
from mmlake.quality.image import decoded
from mmlake.quality.image_fidelity import fidelity

Edits = dict[str, bytes]


def coded(picture: Any, kind: str = "JPEG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def edits_of(data: bytes, rng: np.random.Generator) -> Edits:
    """Edit -> copy of the photograph with it."""
    from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps

    one = Image.open(io.BytesIO(data)).convert("RGB")
    width, height = one.size
    font = ImageFont.load_default(max(10, height // 14))
    values = np.asarray(one, dtype=np.float64)
    down, across = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")

    def jpeg(picture: Any) -> bytes:
        return coded(picture, quality=92)

    def lit(gain_HW: NDArray[np.float64]) -> bytes:
        return jpeg(Image.fromarray((values * gain_HW[..., None]).clip(0, 255).astype(np.uint8)))

    def cropped(left: float, top: float, right: float, bottom: float) -> bytes:
        return jpeg(
            one.crop((int(left * width), int(top * height), int(width * (1 - right)), int(height * (1 - bottom))))
        )

    def captioned(part: float, ground: str, ink: str) -> bytes:
        canvas = Image.new("RGB", (width, int(height * (1 + part))), ground)
        canvas.paste(one)
        ImageDraw.Draw(canvas).text((width // 20, height + height * part / 4), "What the picture shows", ink, font=font)
        return jpeg(canvas)

    def marked(part: float) -> bytes:
        canvas = one.copy()
        corner = (int(width * (0.97 - part)), int(height * (0.97 - part / 2)), int(width * 0.97), int(height * 0.97))
        ImageDraw.Draw(canvas).rectangle(corner, "#c02020")
        ImageDraw.Draw(canvas).text(corner[:2], "LOGO", "white", font=font)
        return jpeg(canvas)

    layer = Image.new("RGBA", one.size, (0, 0, 0, 0))
    ImageDraw.Draw(layer).text(
        (width // 8, height // 2), "SAMPLE", (255, 255, 255, 110), ImageFont.load_default(height // 7)
    )
    noisy = values + rng.normal(0, 12, values.shape)
    return {
        "JPEG q10": coded(one, quality=10),
        "JPEG q30": coded(one, quality=30),
        "JPEG q60": coded(one, quality=60),
        "JPEG q90": coded(one, quality=90),
        "WebP": coded(one, "WEBP", quality=80),
        "PNG of JPEG q30": coded(Image.open(io.BytesIO(coded(one, quality=30))), "PNG"),
        "half size": jpeg(one.resize((width // 2, height // 2), 1)),
        "twice the size": jpeg(one.resize((width * 2, height * 2), 3)),
        "blur 2 px": jpeg(one.filter(ImageFilter.GaussianBlur(2))),
        "crop 5 % per side": cropped(0.05, 0.05, 0.05, 0.05),
        "crop 10 % per side": cropped(0.1, 0.1, 0.1, 0.1),
        "crop 10 % of one side": cropped(*(0.1 * (np.arange(4) == rng.integers(4)))),
        "border": jpeg(ImageOps.expand(one, max(width, height) // 16, "black")),
        "letterbox": jpeg(ImageOps.pad(one, (width, int(height * 1.33)), color="black")),
        "pillarbox": jpeg(ImageOps.pad(one, (int(width * 1.4), height), color="black")),
        "caption bar": captioned(0.14, "white", "black"),
        "logo 15 %": marked(0.15),
        "logo 25 %": marked(0.25),
        "watermark across": jpeg(Image.alpha_composite(one.convert("RGBA"), layer).convert("RGB")),
        "grey": jpeg(one.convert("L")),
        "mirrored": jpeg(ImageOps.mirror(one)),
        "rotated 2 degrees": jpeg(one.rotate(2, 2)),
        "rotated 90 degrees": jpeg(one.rotate(90, expand=True)),
        "gamma .6": jpeg(Image.fromarray((255 * (values / 255) ** 0.6).astype(np.uint8))),
        "gamma 1.8": jpeg(Image.fromarray((255 * (values / 255) ** 1.8).astype(np.uint8))),
        "noise 12 levels": jpeg(Image.fromarray(noisy.clip(0, 255).astype(np.uint8))),
        "brighter by half": jpeg(Image.fromarray((1.5 * values).clip(0, 255).astype(np.uint8))),
        "contrast doubled": jpeg(ImageEnhance.Contrast(one).enhance(2)),
        "light from the right": lit(1 + 0.3 * across),
        "dark corners": lit(1.1 - 0.3 * (down**2 + across**2)),
    }


def edits(data: Path, *, seed: int, limit: int) -> Report:
    """The report of at most so many families; all photographs of the folder are originals that must stay apart."""
    rng = np.random.default_rng(seed)
    photos = [path.read_bytes() for path in sorted((data / "landing" / "image").glob("*.JPEG"))]
    chosen = sorted(rng.permutation(len(photos))[:limit].tolist())
    families = {at: edits_of(photos[at], rng) for at in chosen}
    blobs = [(at, "", blob) for at, blob in enumerate(photos)]
    blobs += [(at, name, blob) for at, family in families.items() for name, blob in family.items()]
    survivor = survivors([blob for _, _, blob in blobs])
    lead = {at: survivor[at] for at in range(len(photos))}
    names = list(next(iter(families.values())))
    hits = dict.fromkeys(names, 0)
    for place, (at, name, _) in enumerate(blobs):
        if name:
            hits[name] += survivor[place] == lead[at]
    num_false = sum(blobs[place][0] != blobs[keeper][0] for place, keeper in enumerate(survivor))
    peers = _peers(photos, families, allowed=num_false)
    rows = []
    for name in names:
        tool, recall = max(
            ((tool, found[name]) for tool, found in peers.items()), key=lambda one: one[1], default=("-", None)
        )
        rows.append(Edit(name, len(families), hits[name] / len(families), tool, recall))
    kept = sum(lead[at] == at for at in families)
    num_unrelated = len(photos) * (len(photos) - 1) // 2
    missed = [f"{row.name}: {1 - row.ours:.0%} of the copies" for row in rows if row.ours < 1]
    beaten = [blobs[lead[at]][1] for at in families if lead[at] != at]
    return Report("image", rows, num_unrelated, num_false, kept / len(families), len(families), missed, beaten)


def survivors(blobs: list[bytes]) -> list[int]:
    """For each picture the position of the one that stays for it."""
    from PIL import Image

    digests = np.array([hashlib.sha256(blob).hexdigest() for blob in blobs])
    order = np.argsort(digests)
    prints = [fingerprints.fingerprint(blobs[at]) for at in order]
    table = {method: Ragged.of([one[method] for one in prints]) for method in fingerprints.METHODS}
    sizes = [Image.open(io.BytesIO(blobs[at])).size for at in order]
    shapes = [
        {"width_px": size[0], "height_px": size[1], "min_side_px": min(size), "aspect_ratio": max(size) / min(size)}
        for size in sizes
    ]
    measures = [fidelity(decoded(blobs[at])) | shape for at, shape in zip(order, shapes, strict=True)]
    columns = {one.name: [row[one.column] for row in measures] for one in fingerprints.FIDELITY if one.is_of_column}
    nodes = {"digest": digests[order].tolist(), "priority": [0] * len(order), "is_clean": [True] * len(order)}
    standing = standing_of(pa.table({**nodes, **columns}), fingerprints.FIDELITY)
    found = stars(matcher.matcher(table, DedupSettings()), standing, equal=digests_of(table))
    return keepers(found, order)


def keepers(found: Stars, order: NDArray[np.int64]) -> list[int]:
    """For each picture the position of the one that it goes for, or its own; the closest pairs that are not the same,
    which a join lists too, make nobody go. order: of the positions in the join."""
    keeper = list(range(len(order)))
    for left, right, relation in zip(found.left, found.right, found.relation, strict=True):
        if relation in (SAME, INSIDE):
            keeper[order[right]] = int(order[left])
    return keeper


def _hashers() -> dict[str, Callable[[bytes], np.ndarray]]:
    """Peer -> bits of a picture, of those that are installed."""
    from PIL import Image

    sys.path.insert(0, str(Path(__file__).parents[1] / ".peers" / "image"))
    found: dict[str, Callable[[bytes], np.ndarray]] = {}
    try:
        import imagehash
    except ImportError:
        pass
    else:
        for name in ("phash", "dhash", "whash"):
            hasher = getattr(imagehash, name)
            found[name] = lambda blob, hasher=hasher: hasher(Image.open(io.BytesIO(blob))).hash.ravel()
    try:
        import pdqhash
    except ImportError:
        pass
    else:
        found["PDQ"] = lambda blob: pdqhash.compute(np.asarray(Image.open(io.BytesIO(blob)).convert("RGB")))[0] > 0
    return found


def _peers(photos: list[bytes], families: dict[int, Edits], *, allowed: int) -> dict[str, dict[str, float]]:
    """Peer -> edit -> recall, at its largest bound with no more false pairs than allowed."""
    recalls = {}
    for name, hasher in _hashers().items():
        own = np.stack([hasher(blob) for blob in photos])
        apart = np.sort((own[:, None] != own[None]).sum(axis=2)[np.triu_indices(len(own), 1)])
        bound = apart[allowed] - 1
        recalls[name] = {
            edit: float(np.mean([(hasher(family[edit]) != own[at]).sum() <= bound for at, family in families.items()]))
            for edit in next(iter(families.values()))
        }
    return recalls


if __name__ == "__main__":
    limit = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 12
    print(edits(Path(sys.argv[1]), seed=seed, limit=limit).table())
