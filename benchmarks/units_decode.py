"""One decode of an item for all of its units: CPU seconds of measures, fingerprints and embeddings for a long film or
recording as one whole unit, as 30 units, and as 30 units each worked on by itself.

    python benchmarks/units_decode.py FILE [minutes] [units] [rounds]
    python benchmarks/units_decode.py --memory FILE [minutes] [units]
    python benchmarks/units_decode.py --planted DIRECTORY [clips]
FILE: a film (.mp4, .mkv) or recording of any length; its packets are repeated until it is so long, and tracks are made
of it before the clock starts. --memory: peak resident memory of a process that works on the whole, and of one that
works on the units. --planted: which share of clips of 8 to 20 s, encoded anew, that also lie inside of longer items is
found among the units of those, when their borders are elsewhere; the directory holds films or recordings.
"""

from __future__ import annotations

import hashlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import av
import numpy as np
import pyarrow as pa

from mmlake import dedup, embed, preprocess, quality, schemas
from mmlake.compute import Executor
from mmlake.dedup import DedupSettings
from mmlake.embed import EmbedSettings
from mmlake.modalities import MODALITIES
from mmlake.store import BlobStore

FILMS = (".mp4", ".mkv", ".webm", ".avi")


def looped(source: Path, target: Path, seconds: float) -> None:
    """The source's packets over and over, with times that go on."""
    with av.open(str(target), "w") as sink:
        streams: dict[int, object] = {}
        at_s = 0.0
        while at_s < seconds:
            with av.open(str(source)) as container:
                chosen = [*container.streams.video[:1], *container.streams.audio[:1]]
                streams = streams or {one.index: sink.add_stream_from_template(one) for one in chosen}
                end_s = at_s
                for packet in container.demux(chosen):
                    if packet.dts is None:
                        continue
                    offset = round(at_s / packet.time_base)
                    end_s = max(end_s, float((packet.pts + packet.duration) * packet.time_base) + at_s)
                    packet.pts, packet.dts = packet.pts + offset, packet.dts + offset
                    packet.stream = streams[packet.stream.index]
                    sink.mux(packet)
            at_s = end_s


def tracks_of(paths: list[Path], modality: str, store: BlobStore) -> pa.Table:
    """The tracks of the files."""
    rows = []
    for at, path in enumerate(paths):
        digest = store.put_stream(path.open("rb"), extension=path.suffix[1:])[0]
        rows.append(
            {
                "item_id": f"bench#{at:06d}",
                "digest": digest,
                "sample_id": f"bench/{at}",
                "position": 0,
                "modality": modality,
                "role": "media",
                "source_ref": "{}",
                "source": "bench",
                "licence": "NOASSERTION",
                "size_bytes": path.stat().st_size,
                "status": "ok",
            }
        )
    items = schemas.from_rows(schemas.ITEMS, rows)
    return preprocess.tracks(items, modality, decoder=MODALITIES[modality].decoder, store=store)


def units_of(tracks: pa.Table, borders: dict[str, list[float]] | int) -> pa.Table:
    """The tracks of units: cut evenly to so many each, or at these seconds."""
    rows = []
    for digest, length_s in zip(tracks["digest"].to_pylist(), tracks["duration_s"].to_pylist(), strict=True):
        inner = (
            [length_s * at / borders for at in range(1, borders)]
            if isinstance(borders, int)
            else borders.get(digest, [])
        )
        edges = [0, *(round(one * 1e6) for one in inner), round(length_s * 1e6)]
        for at, (start, end) in enumerate(zip(edges, edges[1:], strict=False)):
            name = digest if len(edges) == 2 else hashlib.sha256(f"{digest}{at}".encode()).hexdigest()
            kind = "whole" if len(edges) == 2 else "clip"
            rows.append(
                {"digest": name, "parent_digest": digest, "position": at, "kind": kind, "axis": "us", "start": start}
                | {"end": end, "producer": "even@1", "role": "media", "status": "ok"}
            )
    return preprocess.unit_tracks(tracks, schemas.from_rows(schemas.UNITS, rows))


def worked(units: pa.Table, modality: str, store: BlobStore) -> list[float]:
    """CPU seconds of measures, fingerprints and embeddings."""
    row, times = MODALITIES[modality], [time.process_time()]
    quality.measure(units, row.measurements, store=store)
    times.append(time.process_time())
    dedup.fingerprint(units, row.tiers, store=store, settings=DedupSettings())
    times.append(time.process_time())
    embed.embed(units, modality, encoder=row.encoder, store=store, executor=Executor("cpu"), settings=EmbedSettings())
    times.append(time.process_time())
    return np.diff(times).tolist()


def contests(path: Path, minutes: float, num_units: int, rounds: int) -> None:
    """Three ways to work on one item."""
    modality = "video" if path.suffix in FILMS else "audio"
    with tempfile.TemporaryDirectory() as folder:
        long, store = Path(folder) / f"long{path.suffix}", BlobStore(Path(folder) / "store")
        looped(path, long, 60 * minutes)
        tracks = tracks_of([long], modality, store)
        whole, units = units_of(tracks, 1), units_of(tracks, num_units)
        found: dict[str, list[list[float]]] = {"whole": [], "units": [], "each alone": []}
        worked(whole, modality, store)  # imports
        for _ in range(rounds):
            found["whole"].append(worked(whole, modality, store))
            found["units"].append(worked(units, modality, store))
            alone = [worked(units.slice(at, 1), modality, store) for at in range(units.num_rows)]
            found["each alone"].append(np.sum(alone, axis=0).tolist())
        print(f"{path.name}: {tracks['duration_s'][0].as_py():.0f} s, {units.num_rows} units, CPU s")
        for name, runs in found.items():
            parts = [statistics.median(one) for one in zip(*runs, strict=True)]
            ratio = statistics.median(sum(one) / sum(base) for one, base in zip(runs, found["whole"], strict=True))
            print(f"{name:10} " + " ".join(f"{one:8.2f}" for one in [*parts, sum(parts)]) + f"  {ratio:5.2f} x")


def memory(path: Path, minutes: float, num_units: int) -> None:
    """Peak resident memory of each way, in a process of its own."""
    modality = "video" if path.suffix in FILMS else "audio"
    with tempfile.TemporaryDirectory() as folder:
        long = Path(folder) / f"long{path.suffix}"
        looped(path, long, 60 * minutes)
        tracks = tracks_of([long], modality, BlobStore(Path(folder) / "store"))
        for count in (1, num_units):
            with (
                pa.OSFile(f"{folder}/units.arrow", "wb") as file,
                pa.ipc.new_file(file, (units := units_of(tracks, count)).schema) as sink,
            ):
                sink.write_table(units)
            command = [sys.executable, __file__, "--one", folder, modality]
            print(count, "units:", subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


def one(folder: str, modality: str) -> None:
    """The peak resident memory before and after the work."""
    with pa.OSFile(f"{folder}/units.arrow") as file:
        units = pa.ipc.open_file(file).read_all()
    store = BlobStore(Path(folder) / "store")
    small = store.put(b"x")
    assert small
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    worked(units, modality, store)
    print(f"{before / 1024:.0f} MiB before, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} at most")


def excerpt(source: Path, target: Path, start_s: float, end_s: float) -> None:
    """The stretch of the file, decoded and encoded again at a low rate."""
    with av.open(str(source)) as container, av.open(str(target), "w") as sink:
        is_film = bool(container.streams.video)
        stream = container.streams.video[0] if is_film else container.streams.audio[0]
        if is_film:
            out = sink.add_stream("libx264", rate=stream.average_rate, options={"crf": "30", "preset": "veryfast"})
            out.width, out.height, out.pix_fmt = stream.width // 4 * 2, stream.height // 4 * 2, "yuv420p"
        else:
            out = sink.add_stream("mp3", rate=stream.rate, layout="mono")
            out.bit_rate = 32_000
        resampler = None if is_film else av.AudioResampler(format=out.format, layout="mono", rate=stream.rate)
        number = 0
        for frame in container.decode(stream):
            if not start_s <= frame.time < end_s:
                continue
            for part in [frame.reformat(out.width, out.height, "yuv420p")] if is_film else resampler.resample(frame):
                part.pts = number if is_film else None
                part.time_base = 1 / stream.average_rate if is_film else part.time_base
                number += 1
                sink.mux(out.encode(part))
        sink.mux(out.encode(None))


def planted(directory: Path, num_clips: int) -> None:
    """How many excerpts of long items are found near the unit that holds most of them."""
    rng, found = np.random.default_rng(0), []
    sources = sorted(path for path in directory.iterdir() if path.suffix in (*FILMS, ".mp3", ".wav", ".flac"))
    for modality in ("video", "audio"):
        mine = [path for path in sources if (path.suffix in FILMS) == (modality == "video")]
        if not mine:
            continue
        with tempfile.TemporaryDirectory() as folder:
            store = BlobStore(Path(folder) / "store")
            long = tracks_of(mine, modality, store)
            lengths = dict(zip(long["digest"].to_pylist(), long["duration_s"].to_pylist(), strict=True))
            borders = {digest: _random_borders(rng, length_s) for digest, length_s in lengths.items()}
            names = [store.put_stream(path.open("rb"), extension=path.suffix[1:])[0] for path in mine]
            share = np.array([lengths[name] for name in names]) / sum(lengths.values())
            clips, spans = [], []
            for at in range(num_clips):
                which = int(rng.choice(len(mine), p=share))
                seconds = min(float(rng.uniform(8, 20)), 0.9 * lengths[names[which]])
                start_s = float(rng.uniform(0, lengths[names[which]] - seconds))
                clips.append(Path(folder) / f"{at}{'.mp4' if modality == 'video' else '.mp3'}")
                excerpt(mine[which], clips[-1], start_s, start_s + seconds)
                spans.append((names[which], start_s, start_s + seconds))
            short = tracks_of(clips, modality, store)
            units = pa.concat_tables([units_of(long, borders), units_of(short, 1)])
            prints = dedup.fingerprint(units, MODALITIES[modality].tiers, store=store, settings=DedupSettings())
            pairs = dedup.near_pairs(prints, MODALITIES[modality].tiers, settings=DedupSettings())
            near = {frozenset(pair) for pair in zip(pairs["left"].to_pylist(), pairs["right"].to_pylist(), strict=True)}
            stretches = list(
                zip(*(units[name].to_pylist() for name in ("digest", "parent_digest", "span_start_s", "span_end_s")),
                    strict=True)
            )  # fmt: skip
            for path, (name, start_s, end_s) in zip(clips, spans, strict=True):
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                overlaps = [
                    (min(end_s, high or 1e9) - max(start_s, low or 0), (high or lengths[name]) - (low or 0), unit)
                    for unit, parent, low, high in stretches
                    if parent == name
                ]
                overlap_s, length_s, _ = max(overlaps)
                is_found = any(frozenset((digest, unit)) in near for seconds, _, unit in overlaps if seconds > 0)
                found.append((modality, overlap_s / (end_s - start_s), (end_s - start_s) / length_s, is_found))
    _report(found)


def _random_borders(rng: np.random.Generator, length_s: float) -> list[float]:
    borders = [float(rng.uniform(10, 30))]
    while borders[-1] + 10 < length_s:
        borders.append(borders[-1] + float(rng.uniform(10, 30)))
    return borders[:-1]


def _report(found: list[tuple[str, float, float, bool]]) -> None:
    for modality in ("video", "audio"):
        mine = [one for one in found if one[0] == modality]
        cases = {
            "all": mine,
            "70 % or more in one unit": [one for one in mine if one[1] >= 0.7],
            "... and at least half of its length": [one for one in mine if one[1] >= 0.7 and one[2] >= 0.5],
            "70 % or more in a unit over twice as long": [one for one in mine if one[1] >= 0.7 and one[2] < 0.5],
            "split over units": [one for one in mine if one[1] < 0.7],
        }
        for name, some in cases.items():
            if some:
                print(json.dumps({"of": modality, "clips": name, "num": len(some), "found": sum(x[3] for x in some)}))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--one", folder, modality]:
            one(folder, modality)
        case ["--memory", file, *rest]:
            minutes, count = (*rest, *("60", "180")[len(rest) :])
            memory(Path(file), float(minutes), int(count))
        case ["--planted", directory, *rest]:
            planted(Path(directory), int(rest[0]) if rest else 40)
        case [file, *rest]:
            minutes, count, rounds = (*rest, *("10", "30", "3")[len(rest) :])
            contests(Path(file), float(minutes), int(count), int(rounds))
