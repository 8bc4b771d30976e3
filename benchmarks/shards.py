"""Write and read throughput of our shards against webdataset, in one run: CPU seconds (user + system), median of three
rounds, ratios.

    python benchmarks/shards.py [num_samples] [sample_bytes]
Each competitor runs in a process of its own, in turn. `limit` is what no shard writer or reader can beat: hashing the
bytes, or reading them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 3


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _blobs(root: Path) -> list[Path]:
    return sorted((root / "blobs").rglob("*.bin"))


def prepare(root: Path, num_samples: int, sample_bytes: int) -> None:
    from mmlake.store import BlobStore

    rng, store = random.Random(0), BlobStore(root / "blobs")
    rows = []
    for number in range(num_samples):
        row = {
            "digest": store.put(rng.randbytes(sample_bytes)),
            "modality": "image",
            "role": "media",
            "content_type": "image/jpeg",
            "size_bytes": sample_bytes,
            "weight": 1.0,
        }
        rows.append(row | {"licences": ["MIT"], "sources": ["bench"], "sample_ids": [f"s/{number}"]})
    (root / "rows.json").write_text(json.dumps(rows))


def write_ours(root: Path) -> float:
    import pyarrow as pa

    from mmlake.modalities import MODALITIES
    from mmlake.shards import write_shards
    from mmlake.store import BlobStore

    items = pa.Table.from_pylist(json.loads((root / "rows.json").read_text()))
    out = Path(tempfile.mkdtemp(dir=root))
    start = _cpu_s()
    index = write_shards(
        items, store=BlobStore(root / "blobs"), out=out, manifest_id="00" * 32, modalities=tuple(MODALITIES)
    )
    used = _cpu_s() - start
    (root / "ours.txt").write_text(str(index.directory))
    return used


def write_webdataset(root: Path) -> float:
    import webdataset

    rows = json.loads((root / "rows.json").read_text())
    out = Path(tempfile.mkdtemp(dir=root))
    paths = {path.stem: path for path in _blobs(root)}
    start = _cpu_s()
    with webdataset.ShardWriter(
        str(out / "image-%06d.tar"), maxsize=256 << 20, encoder=False, mtime=0, verbose=0
    ) as writer:
        for row in rows:
            writer.write(
                {"__key__": row["digest"], "jpg": paths[row["digest"]].read_bytes(), "json": json.dumps(row).encode()}
            )
    return _cpu_s() - start


def write_limit(root: Path) -> float:
    """Read every blob, hash it twice (its name and the shard's checksum), write it once."""
    start, shard = _cpu_s(), hashlib.sha256()
    with (root / "limit.bin").open("wb") as file:
        for path in _blobs(root):
            data = path.read_bytes()
            hashlib.sha256(data).digest()
            shard.update(data)
            file.write(data)
    return _cpu_s() - start


def _read_stream(root: Path, *, shuffle: bool, verify: str) -> float:
    from mmlake.loader import ShardStream

    start = _cpu_s()
    count = sum(1 for _ in ShardStream((root / "ours.txt").read_text(), shuffle=shuffle, verify=verify))
    used = _cpu_s() - start
    assert count == len(json.loads((root / "rows.json").read_text()))
    return used


def read_ours(root: Path) -> float:
    return _read_stream(root, shuffle=False, verify="fast")


def read_ours_shuffled(root: Path) -> float:
    return _read_stream(root, shuffle=True, verify="fast")


def read_ours_checked(root: Path) -> float:
    return _read_stream(root, shuffle=True, verify="members")


def read_webdataset(root: Path) -> float:
    os.environ["WDS_SECURE"] = "1"
    import webdataset

    urls = sorted(str(path) for path in Path((root / "ours.txt").read_text()).glob("*.tar"))
    start = _cpu_s()
    sum(1 for _ in webdataset.WebDataset(urls, shardshuffle=False, empty_check=False))
    return _cpu_s() - start


def read_limit(root: Path) -> float:
    start, buffer = _cpu_s(), io.BytesIO()
    for path in sorted(Path((root / "ours.txt").read_text()).glob("*.tar")):
        with path.open("rb") as file:
            while data := file.read(1 << 20):
                buffer.seek(0)
                buffer.write(data)
    return _cpu_s() - start


CONTESTS = {
    "write": [write_ours, write_webdataset, write_limit],
    "read": [read_ours, read_ours_shuffled, read_ours_checked, read_webdataset, read_limit],
}


def main(num_samples: int, sample_bytes: int) -> None:
    """Print one line per competitor."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        prepare(root, num_samples, sample_bytes)
        for contest, competitors in CONTESTS.items():
            used: dict[str, list[float]] = {}
            for _ in range(ROUNDS):
                for competitor in competitors:
                    run = subprocess.run(
                        [sys.executable, __file__, "--one", competitor.__name__, folder],
                        capture_output=True,
                        text=True,
                        check=True,
                    )
                    used.setdefault(competitor.__name__, []).append(float(run.stdout.splitlines()[-1]))
            for name, seconds in used.items():
                ratio = statistics.median(
                    peer / own for peer, own in zip(used[f"{contest}_webdataset"], seconds, strict=True)
                )
                middle = statistics.median(seconds)
                print(
                    f"{name:22} {middle:8.3f} cpu-s {num_samples * sample_bytes / 1e6 / middle:9.0f} MB/cpu-s "
                    f"{num_samples / middle:10.0f} samples/cpu-s  {ratio:6.2f} x webdataset"
                )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(globals()[sys.argv[2]](Path(sys.argv[3])))
    else:
        main(*(int(value) for value in (sys.argv[1:] or ["1500", "120000"])))
