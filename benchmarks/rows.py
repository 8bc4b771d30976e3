"""Tar to rows against NVIDIA NeMo Curator and the webdataset library, in one run: CPU seconds (user + system), median
of the rounds, ratios within the rounds and of the fastest ones.

    python benchmarks/rows.py [num_samples] [image_bytes] [rounds] [contest]
    python benchmarks/rows.py --memory
Each competitor runs in a process of its own, in turn, and reads a shard of ten samples before the clock starts: imports
do not count. NeMo Curator is no dependency: it runs with `benchmarks/peers/nemo/bin/python` where that exists (python
-m venv, then pip install nemo-curator pillow). `limit` is a header walk and one read of the bytes, with nothing made of
them.
"""

from __future__ import annotations

import io
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROUNDS = 3
NEMO = Path(__file__).parent / "peers" / "nemo" / "bin" / "python"
MEMORY_MB = (100, 1000, 4000)
_WORDS = "river stone market harvest engine garden winter lantern bridge copper signal meadow harbour village".split()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _sentence(rng: random.Random, num_words: int) -> str:
    return " ".join(rng.choices(_WORDS, k=num_words))


def _members(kind: str, num_samples: int, image_bytes: int) -> Iterator[tuple[str, bytes]]:
    """interleaved: JSON with texts and images in turn, 1 to 3 images; "timed" the same. pairs: an image, its
    caption, its JSON."""
    rng = random.Random(0)
    for number in range(num_samples):
        name = f"{number:07d}"
        if kind != "pairs":
            num_images = rng.randint(1, 3)
            texts = [entry for _ in range(num_images) for entry in (_sentence(rng, 40), None)]
            images = [entry for at in range(num_images) for entry in (None, f"{name}.{at}.jpg")]
            record = {
                "texts": texts,
                "images": images,
                "url": f"http://example.org/{number}",
                "score": number / 7,
                "meta": {"n": number},
            }
            yield f"{name}.json", json.dumps(record).encode()
            yield from ((f"{name}.{at}.jpg", b"\xff\xd8\xff" + rng.randbytes(image_bytes)) for at in range(num_images))
        else:
            yield f"{name}.jpg", b"\xff\xd8\xff" + rng.randbytes(image_bytes)
            yield f"{name}.txt", _sentence(rng, 12).encode()
            yield (
                f"{name}.json",
                json.dumps({"url": f"http://example.org/{number}", "width": 640, "height": 480, "id": number}).encode(),
            )


def prepare(root: Path, kind: str, num_samples: int, image_bytes: int) -> None:
    path = root / kind / "image" / "s.tar"
    path.parent.mkdir(parents=True)
    is_timed = kind == "timed"  # a PAX record with the time before each member, as the webdataset library writes it
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT if is_timed else tarfile.USTAR_FORMAT) as archive:
        for name, data in _members(kind, num_samples, image_bytes):
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1795316522.5 if is_timed else 0
            archive.addfile(info, io.BytesIO(data))


class _Hashing:
    """A store that names bytes and keeps none: what is left of ingest is reading."""

    def put(self, data: bytes, *, extension: str = "bin") -> str:
        from mmlake.records import digest_of

        return digest_of(data)

    def put_stream(self, stream: io.BufferedIOBase, *, extension: str = "bin", head: bytes = b"") -> tuple[str, int]:
        import hashlib

        hasher, size = hashlib.sha256(head), len(head)
        while data := stream.read(1 << 20):
            hasher.update(data)
            size += len(data)
        return hasher.hexdigest(), size


def _ours(root: Path, kind: str, *, materialize: str) -> float:
    from mmlake import rows, sources

    landing = root / kind
    (shard,) = sources.scan(landing, settings=sources.SourceSettings())
    start = _cpu_s()
    count = sum(batch.num_samples for batch in rows.read_rows(shard, landing=landing, materialize=materialize))
    used = _cpu_s() - start
    assert count
    return used


def _ours_hashed(root: Path, kind: str) -> float:
    from mmlake import sources

    landing, settings = root / kind, sources.SourceSettings()
    (shard,) = sources.scan(landing, settings=settings)
    start = _cpu_s()
    # as the pipeline does: a walk each
    tables = [
        sources.ingest(shard, modality, landing=landing, store=_Hashing(), settings=settings)
        for modality in shard.modalities
    ]
    used = _cpu_s() - start
    assert all(table.column("digest").null_count == 0 for table in tables)
    return used


def _nemo(root: Path, kind: str, *, materialize: bool) -> float:
    os.environ["LOGURU_LEVEL"] = "ERROR"
    from nemo_curator.stages.interleaved.io.readers.webdataset import InterleavedWebdatasetReaderStage
    from nemo_curator.tasks import FileGroupTask

    stage = InterleavedWebdatasetReaderStage(materialize_on_read=materialize)
    task = FileGroupTask(dataset_name="bench", data=[str(root / kind / "image" / "s.tar")])
    start = _cpu_s()
    batch = stage.process(task)
    used = _cpu_s() - start
    assert batch.data.num_rows
    return used


def _webdataset(root: Path, kind: str) -> float:
    os.environ["WDS_SECURE"] = "1"
    import webdataset

    def decoded(sample: dict[str, bytes]) -> dict[str, object]:
        return {
            name: value.decode() if name == "txt" else json.loads(value) if name == "json" else value
            for name, value in sample.items()
            if not name.startswith("__")
        }

    start = _cpu_s()
    for sample in webdataset.WebDataset([str(root / kind / "image" / "s.tar")], shardshuffle=False, empty_check=False):
        decoded(sample)
    return _cpu_s() - start


def _limit(root: Path, kind: str) -> float:
    start = _cpu_s()
    with (root / kind / "image" / "s.tar").open("rb") as file:
        while (header := file.read(512)) and header[0]:
            size = int(header[124:135], 8)
            file.read(size + -size % 512)
    return _cpu_s() - start


CONTESTS = {
    "interleaved, lazy": {
        "ours": lambda root: _ours(root, "interleaved", materialize="never"),
        "nemo": lambda root: _nemo(root, "interleaved", materialize=False),
        "limit": lambda root: _limit(root, "interleaved"),
    },
    "interleaved as webdataset writes it, lazy": {
        "ours": lambda root: _ours(root, "timed", materialize="never"),
        "nemo": lambda root: _nemo(root, "timed", materialize=False),
    },
    "interleaved, with bytes": {
        "ours": lambda root: _ours(root, "interleaved", materialize="read"),
        "ours, hashed": lambda root: _ours_hashed(root, "interleaved"),
        "nemo": lambda root: _nemo(root, "interleaved", materialize=True),
        "limit": lambda root: _limit(root, "interleaved"),
    },
    "pairs, with bytes": {
        "ours": lambda root: _ours(root, "pairs", materialize="read"),
        "ours, hashed": lambda root: _ours_hashed(root, "pairs"),
        "webdataset": lambda root: _webdataset(root, "pairs"),
        "limit": lambda root: _limit(root, "pairs"),
    },
}


def memory(root: Path) -> int:
    """Resident bytes above those at the start, at the most, while every row is made and every byte hashed."""
    from mmlake import sources

    settings = sources.SourceSettings()
    (shard,) = sources.scan(root / "pairs", settings=settings)
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak_bytes()
    for modality in shard.modalities:
        sources.ingest(shard, modality, landing=root / "pairs", store=_Hashing(), settings=settings)
    return _peak_bytes() - before


def _peak_bytes() -> int:
    return next(
        int(line.split()[1]) << 10
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )


def _one(*arguments: str, python: str = sys.executable) -> float:
    run = subprocess.run([python, __file__, "--one", *arguments], capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{arguments}: {run.stderr[-2000:]}")
    return float(run.stdout.splitlines()[-1])


def main(num_samples: int, image_bytes: int, rounds: int, only: str) -> None:
    """Print one line per competitor. only: what the names of contests begin with."""
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("interleaved", "timed", "pairs"):
            prepare(Path(folder), kind, num_samples, image_bytes)
            prepare(Path(folder) / "warm", kind, 10, 100)
        for contest, competitors in CONTESTS.items():
            if not contest.startswith(only):
                continue
            used: dict[str, list[float]] = {}
            for _ in range(rounds):
                for name in competitors:
                    if name != "nemo" or NEMO.exists():
                        used.setdefault(name, []).append(
                            _one(contest, name, folder, python=str(NEMO) if name == "nemo" else sys.executable)
                        )
            peer = next((name for name in ("nemo", "webdataset", "limit") if name in used), next(iter(competitors)))
            for name, seconds in used.items():
                ratio = statistics.median(other / own for other, own in zip(used[peer], seconds, strict=True))
                fastest = min(used[peer]) / min(seconds)  # neighbours only ever add to what a round takes
                middle = statistics.median(seconds)
                print(
                    f"{contest:41} {name:14} {middle:8.3f} cpu-s {num_samples / middle:9.0f} samples/cpu-s "
                    f"{ratio:7.2f} x {peer}, {fastest:.2f} x by the fastest rounds",
                    flush=True,
                )


def measure_memory() -> None:
    """Print the memory that shards of several sizes take, 100 kB images."""
    for size_mb in MEMORY_MB:
        with tempfile.TemporaryDirectory() as folder:
            prepare(Path(folder), "pairs", size_mb * 10, 100_000)
            print(f"{size_mb:6} MB shard: {_one('memory', folder) / 1e6:6.0f} MB")


if __name__ == "__main__":
    if sys.argv[1:3] == ["--one", "memory"]:
        print(memory(Path(sys.argv[3])))
    elif sys.argv[1:2] == ["--one"]:
        competitor = CONTESTS[sys.argv[2]][sys.argv[3]]
        competitor(Path(sys.argv[4]) / "warm")
        print(competitor(Path(sys.argv[4])))
    elif sys.argv[1:2] == ["--memory"]:
        measure_memory()
    else:
        given = [*sys.argv[1:5], *("3000", "20000", str(ROUNDS), "")[len(sys.argv) - 1 :]]
        main(*map(int, given[:3]), given[3])
