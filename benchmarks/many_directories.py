"""What directories cost: `mmlake run` over the same generated texts, with each directory as a shard of its own and
gathered as by default, then with one directory more.

    python -m benchmarks.many_directories --directories 400
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.grown_lake import run
from mmlake.sample import prose

_TEXTS = 4  # in a directory


def _land(landing: Path, *, first: int, num: int) -> None:
    """Write directories of generated texts, forty below one."""
    rng = np.random.default_rng(first)
    for at in range(first, first + num):
        folder = landing / f"{at // 40:04}" / f"{at:06}"
        folder.mkdir(parents=True)
        for number in range(_TEXTS):
            (folder / f"{number}.txt").write_text(prose.document(at * _TEXTS + number, rng).text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directories", type=int, default=400)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for name, above in (("a shard each", 10**6), ("gathered", 64)):
            base = Path(temporary) / name.replace(" ", "-")
            settings = base / "settings.toml"
            _land(base / "landing", first=0, num=given.directories)
            settings.write_text(f"[sources]\ngather_above = {above}\n")
            for what, first, num in (("first run", given.directories, 0), ("one more", given.directories, 1)):
                _land(base / "landing", first=first, num=num)
                cpu, wall, memory = run(base, "--settings", str(settings))
                row = {"directories": name, "what": what, "cpu_s": cpu, "wall_s": wall, "max_mib": memory}
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
