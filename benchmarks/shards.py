"""Write and read throughput of our shards against webdataset, in one run: CPU seconds (user + system), median of three
rounds, ratios.

    python benchmarks/shards.py [num_samples] [sample_bytes] [num_captions]
    python benchmarks/shards.py --workers [num_samples] [sample_bytes]
    python benchmarks/shards.py --again [num_samples] [sample_bytes]
The second form writes 16 source shards by 1, 2 and 4 writers, in wall-clock seconds. The third takes shards that are
there, and checks them, as each version of a lake does, with and without knowing which were hashed before.
Each competitor runs in a process of its own, in turn. `limit` is what no shard writer or reader can beat: hashing the
bytes, or reading them. The library `datasets` takes part where benchmarks/peers/datasets is an environment that has it.
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
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from mmlake.store import BlobStore

ROUNDS = 3
PEER = Path(__file__).parent / "peers" / "datasets" / "bin" / "python"


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _blobs(root: Path) -> list[Path]:
    return sorted((root / "blobs").rglob("*.bin"))


def prepare(root: Path, num_samples: int, sample_bytes: int, num_captions: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from mmlake.shards import SAMPLES_READ
    from mmlake.store import BlobStore

    rng, store, rows = random.Random(0), BlobStore(root / "blobs"), []
    for number in range(num_samples):
        kinds = [("media", "image", "image/jpeg", rng.randbytes(sample_bytes))]
        for caption in range(num_captions):
            kinds.append(("caption", "text", "text/plain", f"caption {caption} of picture {number}, in words".encode()))
        parts = [
            {
                "position": position,
                "role": role,
                "modality": modality,
                "digest": store.put(data),
                "content_type": content_type,
                "size_bytes": len(data),
                "fields_json": None,
            }
            for position, (role, modality, content_type, data) in enumerate(kinds)
        ]
        facts = {"sample": hashlib.sha256(b"%d" % number).hexdigest(), "modality": "image", "weight": 1.0}
        facts |= {"licences": ["MIT"], "sources": ["bench"], "sample_ids": [f"s/{number}"], "num_occurrences": 1}
        rows.append(facts | {"fields_json": json.dumps({"label": number}), "parts": parts})
    rows.sort(key=lambda row: row["sample"])
    pq.write_table(pa.Table.from_pylist(rows, schema=SAMPLES_READ), root / "samples.parquet")


def _samples(root: Path) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(root / "samples.parquet")


def write_ours(root: Path) -> float:
    from mmlake.modalities import MODALITIES
    from mmlake.shards import write_shards
    from mmlake.store import BlobStore

    samples, store, out = _samples(root), BlobStore(root / "blobs"), Path(tempfile.mkdtemp(dir=root))
    texts = _texts(samples, store)
    start = _cpu_s()
    index = write_shards(
        samples, store=store, out=out, manifest_id="00" * 32, modalities=tuple(MODALITIES), texts=texts.get
    )
    used = _cpu_s() - start
    (root / "ours.txt").write_text(str(index.directory))
    return used


def _texts(samples: pa.Table, store: BlobStore) -> dict[str, str]:
    parts = (part for row in samples.column("parts").to_pylist() for part in row if part["modality"] == "text")
    return {part["digest"]: store.read(part["digest"]).decode() for part in parts}


def write_webdataset(root: Path) -> float:
    import webdataset

    from mmlake.store import BlobStore

    samples, out = _samples(root), Path(tempfile.mkdtemp(dir=root))
    texts = _texts(samples, BlobStore(root / "blobs"))
    paths = {path.stem: path for path in _blobs(root)}
    start = _cpu_s()
    with webdataset.ShardWriter(
        str(out / "image-%06d.tar"), maxsize=256 << 20, encoder=False, mtime=0, verbose=0
    ) as writer:
        for row in samples.to_pylist():
            medium, *captions = row["parts"]
            for part in captions:
                part["text"] = texts[part["digest"]]
            members = {"caption.txt": captions[0]["text"].encode()} if captions else {}
            data = paths[medium["digest"]].read_bytes()
            writer.write({"__key__": row["sample"], "jpg": data, "json": json.dumps(row).encode()} | members)
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
    assert count == _samples(root).num_rows
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


def read_datasets(root: Path) -> float:
    """Rows through the library's cache, which it writes once and would read in later runs; pictures not decoded."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import datasets

    urls = sorted(str(path) for path in Path((root / "ours.txt").read_text()).glob("*.tar"))
    datasets.disable_progress_bars()
    start = _cpu_s()
    loaded = datasets.load_dataset("webdataset", data_files=urls, split="train", cache_dir=tempfile.mkdtemp(dir=root))
    sum(1 for _ in loaded.cast_column("jpg", datasets.Image(decode=False)))
    return _cpu_s() - start


def read_limit(root: Path) -> float:
    start, buffer = _cpu_s(), io.BytesIO()
    for path in sorted(Path((root / "ours.txt").read_text()).glob("*.tar")):
        with path.open("rb") as file:
            while data := file.read(1 << 20):
                buffer.seek(0)
                buffer.write(data)
    return _cpu_s() - start


def compare_workers(num_samples: int, sample_bytes: int) -> None:
    """Print the wall-clock and CPU seconds of each number of writers, and their median ratio to one writer."""
    from mmlake.modalities import MODALITIES
    from mmlake.shards import write_shards
    from mmlake.store import BlobStore

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        prepare(root, num_samples, sample_bytes, 0)
        samples, store = _samples(root), BlobStore(root / "blobs")
        shards = [f"image/{number % 16:02d}.tar" for number in range(samples.num_rows)]
        samples = samples.set_column(samples.column_names.index("shard"), "shard", [shards])
        walls: dict[int, list[float]] = {1: [], 2: [], 4: []}
        for _ in range(ROUNDS):
            for workers, taken in walls.items():
                out, start, used = Path(tempfile.mkdtemp(dir=root)), time.perf_counter(), _cpu_s()
                write_shards(
                    samples,
                    store=store,
                    out=out,
                    manifest_id="00" * 32,
                    modalities=tuple(MODALITIES),
                    workers=workers,
                )
                taken.append(time.perf_counter() - start)
                print(f"{workers} writers {taken[-1]:8.3f} s {_cpu_s() - used:8.3f} cpu-s")
        for workers, taken in walls.items():
            ratio = statistics.median(one / many for one, many in zip(walls[1], taken, strict=True))
            print(f"{workers} writers: {ratio:.2f} x the speed of one")


def compare_again(num_samples: int, sample_bytes: int) -> None:
    """Print the CPU seconds that taking and checking shards costs which are there, of two versions."""
    from mmlake.modalities import MODALITIES
    from mmlake.shards import HashedFiles, verify_shards, write_shards
    from mmlake.store import BlobStore

    def version(root: Path, samples: pa.Table, id_: str, known: Path | None) -> None:
        hashed = None if known is None else HashedFiles(known)
        write_shards(
            samples,
            store=BlobStore(root / "blobs"),
            out=root / "out",
            manifest_id=id_,
            modalities=tuple(MODALITIES),
            hashed=hashed,
        )
        problems = verify_shards(root / "out" / id_, hashed=hashed, only_new=True)
        assert not problems, problems

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        prepare(root, num_samples, sample_bytes, 0)
        samples, ids = _samples(root), ("00" * 32, "11" * 32)
        version(root, samples, ids[0], None)
        time.sleep(3)  # what has just changed is hashed anyway
        version(root, samples, ids[0], root / "known")
        for name, known in (("hashed each time", None), ("known", root / "known")) * ROUNDS:
            start = _cpu_s()
            for id_ in ids:
                version(root, samples, id_, known)
            print(f"{name:18} {_cpu_s() - start:8.3f} cpu-s of {num_samples * sample_bytes / 1e6:.0f} MB, two versions")


CONTESTS = {
    "write": [write_ours, write_webdataset, write_limit],
    "read": [read_ours, read_ours_shuffled, read_ours_checked, read_webdataset, read_datasets, read_limit],
}


def main(num_samples: int, sample_bytes: int, num_captions: int = 0) -> None:
    """Print one line per competitor."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        prepare(root, num_samples, sample_bytes, num_captions)
        for contest, competitors in CONTESTS.items():
            used: dict[str, list[float]] = {}
            for _ in range(ROUNDS):
                for competitor in competitors:
                    python = str(PEER) if competitor is read_datasets else sys.executable
                    if competitor is read_datasets and not PEER.exists():
                        continue
                    run = subprocess.run(
                        [python, __file__, "--one", competitor.__name__, folder],
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
    elif sys.argv[1:2] == ["--workers"]:
        compare_workers(*(int(value) for value in (sys.argv[2:] or ["1500", "120000"])))
    elif sys.argv[1:2] == ["--again"]:
        compare_again(*(int(value) for value in (sys.argv[2:] or ["1500", "250000"])))
    else:
        main(*(int(value) for value in (sys.argv[1:] or ["1500", "120000"])))
