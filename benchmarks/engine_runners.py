"""The same questions answered by this machine and by a Ray cluster of this machine, with the cost of each.

    python benchmarks/engine_runners.py 1000000                    both, one process after the other
    python benchmarks/engine_runners.py 1000000 --runner ray       needs the extra `ray`

Group-by, semi-join and anti-join of digests, and fingerprints of texts to columns (sorted, and put together by digest).
CPU seconds are those of the process and of all processes that it began; the start of the cluster has a row of its own.
The last column is a digest of the answer: it is equal for both, or the answers differ.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.dedup_memory import Texts, names
from mmlake.dedup.print_columns import print_columns
from mmlake.engine import Engine, EngineSettings

_TICK = os.sysconf("SC_CLK_TCK")


def cpu_s() -> float:
    """Of this process and of all that descend from it, those that ended included."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        stats[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    mine = {os.getpid()}
    while more := {pid for pid, (parent, _) in stats.items() if parent in mine} - mine:
        mine |= more
    return sum(stats[pid][1] for pid in mine if pid in stats) / _TICK


def digest(answer: object) -> str:
    """Of an array, a table, or columns of prints."""
    found = hashlib.sha256()
    if isinstance(answer, tuple):
        digests, prints, _ = answer
        for text in digests:
            found.update(text.as_py().encode())
        for rows in prints.values():
            found.update(rows.offsets.tobytes())
            found.update(rows.values.tobytes())
    else:
        table = answer if isinstance(answer, pa.Table) else pa.table({"key": answer})
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            found.update(repr(row).encode())
    return found.hexdigest()[:12]


def measured(num: int, settings: EngineSettings, folder: Path) -> None:
    """Print a Markdown row for each question."""
    engine = Engine(folder, settings)
    asked = engine.relations
    few = [pa.table({"digest": ["a"]})]
    texts = Texts(num // 10, 80)
    questions: dict[str, Callable[[], object]] = {
        "start": lambda: asked.distinct(few, few),
        "group-by": lambda: asked.least_and_count(names(num, with_value=True)),
        "semi-join": lambda: asked.distinct(names(num), names(num // 2)),
        "anti-join": lambda: asked.strangers(names(num), names(num // 2)),
        f"columns of {num // 10:,} texts": lambda: print_columns(texts, ("shingles", "words"), engine=engine),
    }
    for name, ask in questions.items():
        begun_s, begin_s = cpu_s(), time.perf_counter()
        answer = ask()
        used_s, taken_s = cpu_s() - begun_s, time.perf_counter() - begin_s
        print(f"| {settings.runner} | {name} | {num:,} | {used_s:.1f} | {taken_s:.1f} | {digest(answer)} |", flush=True)


def main() -> None:
    """Each runner in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("num", type=int)
    parser.add_argument("--runner", choices=("both", "local", "ray"), default="both")
    parser.add_argument("--cluster", default="", help="address of a cluster that is there; else one is begun")
    given = parser.parse_args()
    if given.runner == "both":
        for runner in ("local", "ray"):
            subprocess.run([sys.executable, __file__, str(given.num), "--runner", runner], check=True)
        return
    cluster = given.cluster if given.runner == "ray" else ""
    with tempfile.TemporaryDirectory() as folder:
        measured(given.num, EngineSettings(runner=given.runner, cluster=cluster), Path(folder))


if __name__ == "__main__":
    main()
