"""Mutated shards through the reader: nothing may crash, hang, eat memory, or go missing.

    python -m tests.hostile.fuzz --inputs 20000 --seed 1 --workers 2 --json
Every input is a function of its number and the seed: `--only 4711` repeats one, `--keep DIR` writes the inputs that
failed.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import logging
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hostile import addresses, oracle
from tests.hostile.mutations import mutated
from tests.hostile.seeds import media

# of the processor, so that a busy machine is no fault of an input; a worker that takes three times as long by the clock
# is ended
DEADLINE_S = 10.0
MAX_GROWTH_BYTES = 512 << 20  # resident memory above what the worker held before the input
_STORE_INPUTS = 250  # after so many the blobs are thrown away
_FETCHES = 6  # locators followed per shard
_DECODED_SHARE = 10  # every tenth input's media go through the decoders


@dataclass
class Tally:
    """What a run saw."""

    num_inputs: int = 0
    num_rows: int = 0
    num_ok: int = 0
    num_decoded: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    largest_growth_bytes: int = 0
    violations: list[dict[str, Any]] = field(default_factory=list)

    def add(self, found: dict[str, Any]) -> None:
        """Count one input's result."""
        self.num_inputs += 1
        for name in ("num_rows", "num_ok", "num_decoded"):
            setattr(self, name, getattr(self, name) + found.get(name, 0))
        self.codes.update(found.get("codes", {}))
        self.formats.update(found.get("formats", {}))
        self.slowest_s = max(self.slowest_s, found["wall_s"])
        self.largest_growth_bytes = max(self.largest_growth_bytes, found["growth_bytes"])
        self.violations.extend(
            {"number": found["number"], "name": found["name"], "what": what} for what in found["violations"]
        )


class Bench:
    """One worker's landing zone and store, in memory where the machine has such a file system."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.root = Path(
            tempfile.mkdtemp(prefix="mmlake-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        )
        self._count = 0

    def close(self) -> None:
        """Take everything away."""
        shutil.rmtree(self.root, ignore_errors=True)

    def run(self, number: int) -> dict[str, Any]:
        """What one input did: counts, and violations in words."""
        name, data, start = mutated(number, self.seed)
        if self._count % _STORE_INPUTS == 0:
            shutil.rmtree(self.root / "store", ignore_errors=True)
        self._count += 1
        shutil.rmtree(self.root / "in", ignore_errors=True)
        for path, content in (*start.companions, (name, data)):
            (self.root / "in" / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / "in" / path).write_bytes(content)
        found: dict[str, Any] = {
            "number": number,
            "name": name,
            "violations": [],
            "codes": Counter(),
            "formats": Counter(),
        }
        before, start, start_cpu_s = _reset_peak(), time.monotonic(), time.process_time()
        try:
            self._check(found, decode=number % _DECODED_SHARE == 0)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            where = next((frame for frame in reversed(frames) if "/mmlake/" in frame.filename), frames[-1])
            found["violations"].append(
                f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {str(error)[:200]}"
            )
        found["wall_s"], found["growth_bytes"] = time.monotonic() - start, max(0, _peak_bytes() - before)
        if (cpu_s := time.process_time() - start_cpu_s) > DEADLINE_S:
            found["violations"].append(f"cpu_s={cpu_s:.1f} not in [0, {DEADLINE_S}]")
        if found["growth_bytes"] > MAX_GROWTH_BYTES:
            found["violations"].append(f"growth_bytes={found['growth_bytes']} not in [0, {MAX_GROWTH_BYTES}]")
        return found

    def _check(self, found: dict[str, Any], *, decode: bool) -> None:
        from mmlake import schemas, sources
        from mmlake.store import BlobStore

        landing, store, settings = self.root / "in", BlobStore(self.root / "store"), sources.SourceSettings()
        downloads = addresses.Answers(store, media())
        shards = sources.scan(landing, settings=settings)
        wrong: list[str] = found["violations"]
        if not shards:
            wrong.append("a file belongs to no shard")
        for shard in shards:
            tables = {
                modality: sources.ingest(
                    shard, modality, landing=landing, store=store, settings=settings, downloads=downloads
                )
                for modality in shard.modalities
            }
            again = sources.ingest(
                shard, shard.modalities[0], landing=landing, store=store, settings=settings, downloads=downloads
            )
            if not again.equals(tables[shard.modalities[0]]):
                wrong.append("two reads of one shard differ")
            rows = sorted(
                (row for table in tables.values() for row in table.to_pylist()), key=lambda row: row["item_id"]
            )
            for table in tables.values():
                wrong.extend(oracle.table_faults(table, schemas.ITEMS.arrow))
            wrong.extend(oracle.row_faults(rows, shard.key))
            path = landing / shard.path
            data = path.read_bytes() if path.is_file() else b"files"
            wrong.extend(
                addresses.lost(shard.path, oracle.expand(data), rows)
                if shard.format == "urls"
                else oracle.lost(data, shard.format, rows)
            )
            # locators into lists lead to the lake's own downloads
            wrong.extend(_byte_faults(rows, landing, store, follow=shard.format != "urls"))
            if decode:
                found["num_decoded"] = found.get("num_decoded", 0) + sum(_decoded(tables, store, wrong))
            found["formats"][shard.format] += 1
            found["num_rows"] = found.get("num_rows", 0) + len(rows)
            found["num_ok"] = found.get("num_ok", 0) + sum(row["status"] == "ok" for row in rows)
            found["codes"].update(str(row["error_code"]) for row in rows if row["error_code"])


def _byte_faults(rows: list[dict[str, Any]], landing: Path, store: Any, *, follow: bool) -> Iterator[str]:
    """Rows whose bytes are not in the store under their digest, and locators that lead to other bytes."""
    from mmlake import sources
    from mmlake.records import SourceRef, digest_of

    kept = [row for row in rows if row["digest"] is not None]
    for row in kept:
        if digest_of(store.read(row["digest"])) != row["digest"] or store.size(row["digest"]) != row["size_bytes"]:
            yield f"{row['item_id']}: the store has other bytes under its digest"
    for row in kept[:: max(1, len(kept) // _FETCHES)] if follow else ():
        if digest_of(sources.fetch(SourceRef.from_json(row["source_ref"]), landing=landing)) != row["digest"]:
            yield f"{row['item_id']}: its locator leads to other bytes"


def _decoded(tables: dict[str, Any], store: Any, wrong: list[str]) -> Iterator[int]:
    """The number of digests that the decoders gave a row for, per modality."""
    from mmlake.modalities import MODALITIES
    from mmlake.preprocess import tracks

    for modality, table in tables.items():
        decoder = MODALITIES[modality].decoder
        found = tracks(table, modality, decoder=decoder, store=store)
        if set(found.column("digest").to_pylist()) != {
            digest for digest in table.column("digest").to_pylist() if digest is not None
        }:
            wrong.append(f"the decoders of {modality} did not give one row for each digest")
        yield found.num_rows


def _reset_peak() -> int:
    """Resident bytes now; the kernel's high-water mark starts again from here."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return _peak_bytes()


def _peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _work(numbers: list[int], seed: int, sink: Any) -> None:
    """A worker: says which input it starts, then what came of it. A hang ends the process, since C code listens to
    nothing else."""
    os.environ["OMP_NUM_THREADS"] = "1"
    logging.disable(logging.WARNING)  # every other input is worth a warning
    bench = Bench(seed)
    sink.send({"root": str(bench.root)})
    bench.run(numbers[0])  # imports and pools: not the input's memory
    try:
        for number in numbers:
            sink.send({"start": number})
            faulthandler.dump_traceback_later(3 * DEADLINE_S, exit=True)
            sink.send(bench.run(number))
            faulthandler.cancel_dump_traceback_later()
        sink.send({"done": True})
    finally:
        bench.close()


def _results(numbers: list[int], seed: int) -> Iterator[dict[str, Any]]:
    """The results of the inputs, from one worker after another where an input kills its worker."""
    context = multiprocessing.get_context("spawn")
    while numbers:
        source, sink = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(numbers, seed, sink))
        worker.start()
        sink.close()
        current, root, done = numbers[0], None, False
        try:
            while not done:
                message = source.recv()
                root, current, done = (
                    message.get("root", root),
                    message.get("start", current),
                    message.get("done", False),
                )
                if "violations" in message:
                    yield message
                    numbers = [number for number in numbers if number != message["number"]]
        except EOFError:
            worker.join()
            what = f"the worker ended with exit code {worker.exitcode}: a crash, or no end within {3 * DEADLINE_S} s"
            yield {
                "number": current,
                "name": mutated(current, seed)[0],
                "violations": [what],
                "wall_s": 3 * DEADLINE_S,
                "growth_bytes": 0,
            }
            numbers = [number for number in numbers if number != current]
            if root is not None:
                shutil.rmtree(root, ignore_errors=True)
        worker.join()
        if done:
            return


def fuzz(numbers: Iterable[int], *, seed: int = 1, workers: int = 1) -> Tally:
    """What the inputs with these numbers did, in that many processes."""
    import threading

    tally, lock, numbers = Tally(), threading.Lock(), list(numbers)

    def collect(part: list[int]) -> None:
        for found in _results(part, seed):
            with lock:
                tally.add(found)

    threads = [
        threading.Thread(target=collect, args=(part,)) for at in range(workers) if (part := numbers[at::workers])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tally.violations.sort(key=lambda violation: violation["number"])
    return tally


def main() -> int:
    """Exit code 0 where nothing was found."""
    parser = argparse.ArgumentParser(description="Feed mutated shards to the reader.")
    parser.add_argument("--inputs", type=int, default=20_000, help="how many; 20,000 take about 20 minutes of one core")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", type=int, help="this one input, in this process")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="directory that gets the inputs that failed")
    parser.add_argument("--json", action="store_true", help="one JSON object and nothing else")
    given = parser.parse_args()
    tally = (
        _alone(given.only, given.seed)
        if given.only is not None
        else fuzz(range(given.first, given.first + given.inputs), seed=given.seed, workers=given.workers)
    )
    for number in {violation["number"] for violation in tally.violations} if given.keep else ():
        given.keep.mkdir(parents=True, exist_ok=True)
        name, data, _ = mutated(number, given.seed)
        (given.keep / f"{number}-{name.replace('/', '%2F')}").write_bytes(data)
    summary = {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(tally).items()}
    print(json.dumps(summary) if given.json else "\n".join(f"{name}: {value}" for name, value in summary.items()))
    return 1 if tally.violations else 0


def _alone(number: int, seed: int) -> Tally:
    tally, bench = Tally(), Bench(seed)
    tally.add(bench.run(number))
    bench.close()
    return tally


if __name__ == "__main__":
    sys.exit(main())
