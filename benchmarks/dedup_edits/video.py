"""Edits of film clips: which of them the near tier finds, and which two rules on frame hashes do.

    python -m benchmarks.dedup_edits.video ../shared/data

Originals are scenes of 5 s of the films in the folder, and pans over its photographs. The peers compare one frame a
second: PDQ at vPDQ's bounds (31 of 256 bits, four fifths of the frames), and imagehash's pHash (10 of 64 bits, the same
share), with their false pairs of originals.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / ".peers" / "video"))

from benchmarks.dedup_edits import Edit, Report
from mmlake import dedup
from mmlake.dedup import DedupSettings
from mmlake.quality.measurement import Subject
from mmlake.quality.video_fidelity import video_fidelity
from mmlake.spans import SPAN_COLUMNS
from mmlake.store import BlobStore

_RATE, _SCENE_S, _HEIGHT = 20, 5.0, 240
_OTHER_LEVELS = 12.0  # mean difference of 16x16 luma; two moments of one slide are no two originals
_SHARE = 0.8  # of the frames of the shorter clip
Frames = list[np.ndarray]
Change = Callable[[Frames], Frames]


def _part(start: float, end: float) -> Change:
    return lambda frames: frames[round(start * len(frames)) : round(end * len(frames))]


def _speed(factor: float) -> Change:
    return lambda frames: [frames[int(at * factor)] for at in range(int(len(frames) / factor))]


def _each(change: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda frames: [change(frame) for frame in frames]


def _scaled(factor: float) -> Change:
    import cv2

    return _each(lambda frame: cv2.resize(frame, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC))


def _crop(top: float, bottom: float, left: float, right: float) -> Change:
    return _each(
        lambda frame: frame[
            int(top * len(frame)) : int(bottom * len(frame)), int(left * frame.shape[1]) : int(right * frame.shape[1])
        ]
    )


def _pad(y: float, x: float, colour: tuple[int, int, int] = (0, 0, 0)) -> Change:
    def padded(frame: np.ndarray) -> np.ndarray:
        height, width = int(frame.shape[0] * y), int(frame.shape[1] * x)
        found = np.empty((frame.shape[0] + 2 * height, frame.shape[1] + 2 * width, 3), np.uint8)
        found[:] = colour
        found[height : height + frame.shape[0], width : width + frame.shape[1]] = frame
        return found

    return _each(padded)


def _drawn(top: float, bottom: float, left: float, right: float, text: str) -> Change:
    import cv2

    def drawn(frame: np.ndarray) -> np.ndarray:
        found, (height, width) = frame.copy(), frame.shape[:2]
        rows, columns = slice(int(top * height), int(bottom * height)), slice(int(left * width), int(right * width))
        found[rows, columns] = (20, 20, 20) if text else (240, 240, 240)
        cv2.putText(found, text, (int(0.1 * width), int(0.95 * height)), 0, height / 400, (255, 255, 255), 1)
        return found

    return _each(drawn)


def _blurred(frame: np.ndarray) -> np.ndarray:
    import cv2

    return cv2.GaussianBlur(frame, (0, 0), 3)


def _toned(frame: np.ndarray) -> np.ndarray:
    return (255 * (frame / 255.0) ** 0.75 * (1.0, 0.9, 0.75)).clip(0, 255).astype(np.uint8)


def _led(frames: Frames) -> Frames:
    return [np.zeros_like(frames[0])] * _RATE + frames + [np.zeros_like(frames[0])] * _RATE


EDITS: dict[str, tuple[Change, dict[str, str]]] = {
    "x264 at crf 40": (list, {"crf": "40"}),
    "mpeg4": (list, {"codec": "mpeg4"}),
    "half size": (_scaled(0.5), {}),
    "twice the size": (_scaled(2.0), {}),
    "blurred": (_each(_blurred), {}),
    "toned": (_each(_toned), {}),
    "grey": (_each(lambda frame: frame.mean(axis=2, keepdims=True).repeat(3, axis=2).astype(np.uint8)), {}),
    "letterbox": (_pad(0.17, 0.0), {}),
    "pillarbox": (_pad(0.0, 0.2), {}),
    "picture in a frame": (_pad(0.15, 0.15, (40, 80, 160)), {}),
    "5 % cropped from each side": (_crop(0.05, 0.95, 0.05, 0.95), {}),
    "10 % cropped from each side": (_crop(0.1, 0.9, 0.1, 0.9), {}),
    "10 % cropped from two sides": (_crop(0.0, 0.9, 0.0, 0.9), {}),
    "logo": (_drawn(0.05, 0.17, 0.8, 0.95, ""), {}),
    "caption bar": (_drawn(0.86, 1.0, 0.0, 1.0, "a line that was not filmed"), {}),
    "mirrored": (_each(lambda frame: frame[:, ::-1]), {}),
    "12 frames a second": (
        lambda frames: [frames[int(at / 0.6)] for at in range(int(len(frames) * 0.6))],
        {"rate": "12"},
    ),
    "10 % trimmed": (_part(0.1, 1.0), {}),
    "30 % excerpt": (_part(0.37, 0.67), {}),
    "1.25x": (_speed(1.25), {}),
    "0.8x": (_speed(0.8), {}),
    "black before and behind": (_led, {}),
}


def edits(data: Path, *, seed: int, limit: int) -> Report:
    """The table of at most `limit` originals."""
    with tempfile.TemporaryDirectory() as folder:
        store = BlobStore(Path(folder))
        families = [_family(frames, store) for frames in originals(data, np.random.default_rng(seed), min(limit, 16))]
        return _reported(families, store)


def _family(frames: Frames, store: BlobStore) -> dict[str, str]:
    """Name of the edit -> digest, the original under the empty name."""
    family = {"": store.put(encoded(frames, crf="18"), extension="mp4")}
    for name, (change, options) in EDITS.items():
        family[name] = store.put(encoded(change(frames), **({"crf": "26"} | options)), extension="mp4")
    return family


def encoded(
    frames: Frames, *, codec: str = "libx264", crf: str = "26", rate: str = str(_RATE), quantizer: int | None = None
) -> bytes:
    """A film of the frames. quantizer: a fixed step of a codec without crf."""
    import av

    height, width = (side // 2 * 2 for side in frames[0].shape[:2])
    sink = io.BytesIO()
    with av.open(sink, "w", format="mp4") as container:
        options = {"crf": crf, "preset": "veryfast", "threads": "1"} if codec == "libx264" else {}
        stream = container.add_stream(codec, rate=int(rate), options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        if quantizer is not None:
            stream.codec_context.qmin = stream.codec_context.qmax = quantizer
            stream.bit_rate = 20_000_000
        elif codec == "mpeg4":
            stream.bit_rate = 300_000
        for at, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels[:height, :width]), format="rgb24")
            frame.pts, frame.time_base = at, Fraction(1, int(rate))
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return sink.getvalue()


def originals(data: Path, rng: np.random.Generator, limit: int, *, part: slice = slice(None)) -> Iterator[Frames]:
    """Scenes that differ from one another, of films and of pans over photographs in turn. part: of the sources."""
    seen: list[np.ndarray] = []
    sources = [_scenes(path) for path in sorted((*data.glob("*/video/*.mkv"), *data.glob("*/video/*.mp4")))[part]]
    photographs = sorted(path for path in data.glob("*/image/*") if path.suffix.lower() in (".jpg", ".jpeg"))[part]
    photographs = [photographs[at] for at in rng.permutation(len(photographs))[:4]]
    sources += [_pan(path, rng) for path in photographs]
    while sources and len(seen) < limit:
        source = sources.pop(0)
        frames = next(source, None)
        if frames is None:
            continue
        sources.append(source)
        small = _small(frames[len(frames) // 2])
        if all(np.abs(small - other).mean() > _OTHER_LEVELS for other in seen):
            seen.append(small)
            yield frames


def _small(frame: np.ndarray) -> np.ndarray:
    import cv2

    return cv2.resize(frame.mean(axis=2), (16, 16), interpolation=cv2.INTER_AREA)


def _scenes(path: Path) -> Iterator[Frames]:
    import av

    frames: Frames = []
    with av.open(str(path)) as container:
        stream, begin_s = container.streams.video[0], 0.0
        for frame in container.decode(stream):
            if frame.time is None or frame.time < begin_s + len(frames) / _RATE:
                continue
            width = round(frame.width * _HEIGHT / frame.height / 2) * 2
            frames.append(frame.reformat(width, _HEIGHT, "rgb24", interpolation="AREA").to_ndarray())
            if len(frames) == _SCENE_S * _RATE:
                yield frames
                begin_s, frames = frame.time, []
    if len(frames) >= 1.5 * _RATE:
        yield frames


def _pan(path: Path, rng: np.random.Generator) -> Iterator[Frames]:
    """A window that wanders over the photograph, nearer and further."""
    import cv2
    from PIL import Image

    picture = np.asarray(Image.open(path).convert("RGB").resize((640, 480)))
    ends, frames = rng.uniform((0.5, 0, 0), (0.8, 1, 1), (2, 3)), []
    for share in np.linspace(0, 1, int(_SCENE_S * _RATE)):
        size, y, x = ends[0] * (1 - share) + ends[1] * share
        height, width = int(480 * size), int(640 * size)
        top, left = int(y * (480 - height)), int(x * (640 - width))
        frames.append(cv2.resize(picture[top : top + height, left : left + width], (320, _HEIGHT)))
    yield frames


def keepers(digests: list[str], store: BlobStore) -> dict[str, str]:
    """Film that goes -> the one that it goes for. digests: sorted, without repeats."""
    table = pa.table({"digest": digests} | {name: pa.nulls(len(digests)) for name in SPAN_COLUMNS})
    table = table.append_column("frames_digest", pa.nulls(len(digests), pa.string()))  # no frames were kept
    columns = {"parent_digest": pa.array(digests, pa.string())}
    for name in ("span_start_s", "span_end_s"):
        columns[name] = pa.nulls(len(digests), pa.float64())
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, values)
    tiers, settings, criteria = dedup.tiers_of("video"), DedupSettings(), dedup.criteria_of("video")
    prints = dedup.fingerprint(table, tiers, store=store, settings=settings)
    measures = {digest: _measured(digest, store) for digest in digests}
    nodes = pa.table(
        {"digest": digests, "priority": [0] * len(digests), "is_clean": [True] * len(digests)}
        | {one.name: pa.array([measures[at].get(one.column) for at in digests], pa.float64()) for one in criteria}
    )
    pairs = dedup.near_pairs(prints, tiers, nodes=nodes, criteria=criteria, settings=settings).to_pylist()
    return {row["right"]: row["left"] for row in pairs if row["relation"] in ("same", "inside")}


def _reported(families: list[dict[str, str]], store: BlobStore) -> Report:
    digests = sorted({digest for family in families for digest in family.values()})
    keeper = keepers(digests, store)
    root = {digest: keeper.get(digest, digest) for digest in digests}
    peers = _peers(families, store)
    found, num = [], len(families)
    for name in EDITS:
        ours = sum(root[family[name]] == root[family[""]] for family in families) / num
        best = max(peers, key=lambda peer: peers[peer].get(name, 0.0), default="-")
        found.append(Edit(name, num, ours, best, peers[best].get(name, 0.0) if peers else None))
    family_of = {digest: at for at, family in enumerate(families) for digest in family.values()}
    false = {tuple(sorted((family_of[one], family_of[other]))) for one, other in root.items()}
    num_false = sum(one != other for one, other in false)
    survivors = sum(family[""] not in keeper for family in families) / num
    missed = [f"{edit.name}: {1 - edit.ours:.0%}" for edit in found if edit.ours < 1]
    edit_of = {digest: name for family in families for name, digest in family.items()}
    beaten = [edit_of[keeper[family[""]]] for family in families if family[""] in keeper]
    return Report("video", found, num * (num - 1) // 2, num_false, survivors, num, missed, beaten)


def _measured(digest: str, store: BlobStore) -> dict[str, float | None]:
    import av

    with store.local(digest) as path:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            track = {"width_px": float(stream.width), "height_px": float(stream.height)}
            track["duration_s"] = (container.duration or 0) / av.time_base
        return dict(video_fidelity(Subject({}, path=path))) | track


def _peers(families: list[dict[str, str]], store: BlobStore) -> dict[str, dict[str, float]]:
    """Peer -> edit -> share of the copies that it finds."""
    hashers: dict[str, tuple[Callable[[np.ndarray], np.ndarray], int]] = {}
    try:
        import pdqhash

        hashers["PDQ a second (vPDQ)"] = (lambda frame: pdqhash.compute(frame)[0].astype(bool), 31)
    except ImportError:
        pass
    try:
        import imagehash
        from PIL import Image

        hashers["pHash a second (imagehash)"] = (lambda frame: imagehash.phash(Image.fromarray(frame)).hash.ravel(), 10)
    except ImportError:
        pass
    shares: dict[str, dict[str, float]] = {peer: dict.fromkeys(EDITS, 0.0) for peer in hashers}
    originals: dict[str, list[np.ndarray]] = {peer: [] for peer in hashers}
    for family in families:
        seconds = {name: _seconds(store, digest) for name, digest in family.items()}
        for peer, (hasher, radius) in hashers.items():
            bits = {name: np.stack([hasher(frame) for frame in frames]) for name, frames in seconds.items()}
            for name in EDITS:
                shares[peer][name] += _is_near(bits[""], bits[name], radius) / len(families)
            originals[peer].append(bits[""])
    named = {}
    for peer, (_, radius) in hashers.items():
        kept = originals[peer]
        num_false = sum(_is_near(one, other, radius) for at, one in enumerate(kept) for other in kept[:at])
        named[f"{peer}, {num_false} false"] = shares[peer]
    return named


def _is_near(one: np.ndarray, other: np.ndarray, radius: int) -> bool:
    near = (one[:, None] != other[None]).sum(axis=2) <= radius
    return bool(max(near.any(axis=0).mean(), near.any(axis=1).mean()) >= _SHARE)


def _seconds(store: BlobStore, digest: str) -> Frames:
    import av

    with store.local(digest) as path, av.open(str(path)) as container:
        frames: Frames = []
        for frame in container.decode(video=0):
            if frame.time is not None and frame.time >= len(frames):
                frames.append(frame.to_ndarray(format="rgb24"))
        return frames


if __name__ == "__main__":
    print(edits(Path(sys.argv[1]), seed=12, limit=int(sys.argv[2]) if len(sys.argv) > 2 else 16).table())
