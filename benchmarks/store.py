"""Keeping files by their content, against borg, restic and dvc-data, in one run: CPU seconds (user + system), median of
the rounds, ratios per round.

    python benchmarks/store.py [folder for the data and the stores, on the disk to be measured]
Each competitor runs in a process of its own, in turn. All are durable at the end: ours by syncing what it names, borg
and restic by syncing their packs, dvc-data, which syncs nothing, by one `sync` after it, loose files of ours each on
its own. The start of borg and restic (an archive of an empty folder) is taken off. `limit` reads and hashes, no more.
Peers are expected in benchmarks/peers: `borg/bin/borg` (borgbackup 1.4), `restic/usr/bin/restic`, `dvc/bin/python` (a
virtual environment with dvc-data); missing ones are left out.
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 5
PEERS = Path(__file__).parent / "peers"
BORG, RESTIC, DVC = PEERS / "borg/bin/borg", PEERS / "restic/usr/bin/restic", PEERS / "dvc/bin/python"
BUFFER_BYTES = 1 << 20


def _used_s() -> tuple[float, float]:
    """(CPU seconds of this process and its finished children, wall seconds)."""
    parts = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in parts), time.perf_counter()


def timed(act: Callable[[], object]) -> tuple[float, float]:
    """(CPU seconds, wall seconds) of a call."""
    before = _used_s()
    act()
    after = _used_s()
    return after[0] - before[0], after[1] - before[1]


def prepare(root: Path, num_files: int, low_bytes: int, high_bytes: int, *, is_text: bool) -> None:
    """A landing zone of so many files of incompressible bytes (or of words), 500 to a folder."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(5000)]
    for number in range(num_files):
        folder = root / "landing" / f"{number // 500:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        size = rng.randint(low_bytes, high_bytes)
        data = " ".join(rng.choices(words, k=size // 4)).encode()[:size] if is_text else rng.randbytes(size)
        (folder / f"{number:06d}.{'txt' if is_text else 'bin'}").write_bytes(data)


def _files(root: Path) -> list[Path]:
    return sorted(path for path in (root / "landing").rglob("*") if path.is_file())


def limit(root: Path, out: Path) -> tuple[float, float]:
    """Read and hash."""
    paths, buffer = _files(root), memoryview(bytearray(BUFFER_BYTES))

    def act() -> None:
        for path in paths:
            hasher = hashlib.sha256()
            with path.open("rb", buffering=0) as file:
                while count := file.readinto(buffer):
                    hasher.update(buffer[:count])

    return timed(act)


def _ours(root: Path, out: Path, *, is_batch: bool) -> tuple[float, float]:
    from contextlib import nullcontext

    from mmlake.store import BlobStore

    paths, store = [(path, path.suffix) for path in _files(root)], BlobStore(out / "blobs")

    def act() -> None:
        with store.batch() if is_batch else nullcontext():
            for path, extension in paths:
                with path.open("rb", buffering=0) as file:
                    store.put_stream(file, extension=extension)

    used = timed(act)
    assert len(list(store.digests())) == len(paths)
    return used


def ours_batch(root: Path, out: Path) -> tuple[float, float]:
    """Our store, all files in one batch."""
    return _ours(root, out, is_batch=True)


def ours_loose(root: Path, out: Path) -> tuple[float, float]:
    """Our store, every file durable before the next."""
    return _ours(root, out, is_batch=False)


def ours_ingest(root: Path, out: Path) -> tuple[float, float]:
    """What `mmlake run` does: the shards of the folder to blobs and rows of `items`."""
    from mmlake import sources
    from mmlake.sources import SourceSettings
    from mmlake.store import BlobStore

    settings, store = SourceSettings(), BlobStore(out / "blobs")

    def ingest(landing: Path, shards: list) -> int:
        rows = 0
        for shard in shards:
            for modality in shard.modalities:
                with store.batch():
                    rows += sources.ingest(shard, modality, landing=landing, store=store, settings=settings).num_rows
        return rows

    small = out / "landing" / "one"
    small.mkdir(parents=True)
    (small / "one.txt").write_text("loads what is imported on first use, as the start of a peer is taken off")
    ingest(small.parent, list(sources.scan(small.parent, settings=settings)))
    shards, rows = list(sources.scan(root / "landing", settings=settings)), []
    used = timed(lambda: rows.append(ingest(root / "landing", shards)))
    assert rows == [len(_files(root))]
    return used


def _command(start: list[str], work: list[str], **environment: str) -> tuple[float, float]:
    """The cost of the second command over that of the first, which finds nothing to do."""

    def run(words: list[str]) -> tuple[float, float]:
        return timed(lambda: subprocess.run(words, env=os.environ | environment, check=True, capture_output=True))

    idle, busy = run(start), run(work)
    return busy[0] - idle[0], busy[1] - idle[1]


def _borg(root: Path, out: Path, *options: str) -> tuple[float, float]:
    (out / "empty").mkdir()
    environment = {"BORG_BASE_DIR": str(out), "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}
    subprocess.run(
        [BORG, "init", "-e", "none", out / "repo"], env=os.environ | environment, check=True, capture_output=True
    )
    create = [str(BORG), "create", "--compression", "none", *options]
    return _command(
        [*create, f"{out}/repo::empty", str(out / "empty")],
        [*create, f"{out}/repo::all", str(root / "landing")],
        **environment,
    )


def borg(root: Path, out: Path) -> tuple[float, float]:
    """borg as it comes, without encryption and compression."""
    return _borg(root, out)


def borg_fixed(root: Path, out: Path) -> tuple[float, float]:
    """borg with chunks of a fixed size, which spares it the rolling hash."""
    return _borg(root, out, "--chunker-params", "fixed,4194304")


def restic(root: Path, out: Path) -> tuple[float, float]:
    """restic without compression; it always encrypts."""
    (out / "empty").mkdir()
    environment = {
        "RESTIC_PASSWORD": "x",
        "RESTIC_CACHE_DIR": str(out / "cache"),
        "RESTIC_REPOSITORY": str(out / "repo"),
    }
    subprocess.run(
        [RESTIC, "init", "--repository-version", "2"], env=os.environ | environment, check=True, capture_output=True
    )
    backup = [str(RESTIC), "backup", "--compression", "off", "--quiet"]
    return _command([*backup, str(out / "empty")], [*backup, str(root / "landing")], **environment)


def dvc_data(root: Path, out: Path) -> tuple[float, float]:
    """dvc-data: build and transfer into its object database, as `dvc add` does. Runs in the peer's own environment."""
    from dvc_data.hashfile.build import build
    from dvc_data.hashfile.db.local import LocalHashFileDB
    from dvc_data.hashfile.transfer import transfer
    from dvc_objects.fs.local import LocalFileSystem

    disk = LocalFileSystem()
    database = LocalHashFileDB(disk, str(out / "cache"), tmp_dir=str(out / "tmp"))

    def act() -> None:
        staging, _, tree = build(database, str(root / "landing"), disk, "md5")
        transfer(staging, database, {tree.hash_info}, shallow=False, hardlink=False)
        os.sync()

    used = timed(act)
    assert sum(1 for _ in (out / "cache").rglob("*") if _.is_file()) >= len(_files(root))
    return used


COMPETITORS = {
    limit: sys.executable,
    ours_batch: sys.executable,
    ours_ingest: sys.executable,
    ours_loose: sys.executable,
    borg: sys.executable if BORG.exists() else None,
    borg_fixed: sys.executable if BORG.exists() else None,
    restic: sys.executable if RESTIC.exists() else None,
    dvc_data: str(DVC) if DVC.exists() else None,
}


def contest(name: str, root: Path) -> None:
    """Print one line per competitor."""
    num_files, num_bytes = len(_files(root)), sum(path.stat().st_size for path in _files(root))
    cpu: dict[str, list[float]] = {}
    wall: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for competitor, python in COMPETITORS.items():
            if python is not None:
                out = root / "out"
                out.mkdir()
                run = subprocess.run(
                    [python, __file__, "--one", competitor.__name__, root, out],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if run.returncode:
                    raise SystemExit(run.stderr)
                used = run.stdout.split()[-2:]
                cpu.setdefault(competitor.__name__, []).append(float(used[0]))
                wall.setdefault(competitor.__name__, []).append(float(used[1]))
                shutil.rmtree(out)
                os.sync()
    print(f"{name}: {num_files} files, {num_bytes / 1e6:.0f} MB, {ROUNDS} rounds")
    for competitor_name, seconds in cpu.items():
        ratios = " ".join(
            f"{statistics.median(peer / own for peer, own in zip(cpu[other], seconds, strict=True)):6.2f} x {other}"
            for other in cpu
            if not other.startswith(("ours", competitor_name))
        )
        middle = statistics.median(seconds)
        print(
            f"{competitor_name:12} {middle:8.3f} cpu-s {statistics.median(wall[competitor_name]):8.3f} s "
            f"{num_bytes / 1e6 / middle:6.0f} MB/cpu-s {num_files / middle:8.0f} files/cpu-s {ratios}"
        )


def main(parent: str | None) -> None:
    """Both cases, one after the other."""
    for name, num_files, low_bytes, high_bytes, is_text in (
        ("small", 10_000, 4096, 8192, True),
        ("large", 200, 10_000_000, 10_000_000, False),
    ):
        with tempfile.TemporaryDirectory(dir=parent) as folder:
            prepare(Path(folder), num_files, low_bytes, high_bytes, is_text=is_text)
            contest(name, Path(folder))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(*globals()[sys.argv[2]](Path(sys.argv[3]), Path(sys.argv[4])))
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else None)
