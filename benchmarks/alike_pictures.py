"""What a join of pictures costs that are alike and no copies, as frames of one figure, tiles and renderings are: CPU
seconds from prints to edges in one process, and how many pairs were compared and how many aligned.

    python -m benchmarks.alike_pictures DIRECTORY --pictures 1500

DIRECTORY is any folder of pictures; the README names `usr/share/freedroidrpg` of the Debian package freedroidrpg-data
1.0, 5,462 distinct pictures of which hundreds show one robot from other sides.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mmlake import dedup, schemas
from mmlake.dedup import DedupSettings
from mmlake.dedup.criteria import CLOSENESS
from mmlake.dedup.image import alignment, fingerprints
from mmlake.errors import UnreadableItem
from mmlake.modalities import MODALITIES
from mmlake.records import digest_of

_ENDINGS = (".jpg", ".jpeg", ".png", ".webp")


def _prints(directory: Path, num: int) -> dict[str, dict[str, Any]]:
    """The prints of so many pictures of the folder by digest, the same ones each time."""
    paths = sorted(path for path in directory.rglob("*") if path.suffix.lower() in _ENDINGS)
    found: dict[str, dict[str, Any]] = {}
    for at in np.random.default_rng(1).permutation(len(paths)).tolist():
        data = paths[at].read_bytes()
        if len(found) < num and (digest := digest_of(data)) not in found:
            try:
                found[digest] = fingerprints.fingerprint(data)
            except UnreadableItem:
                continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--pictures", type=int, default=1500)
    given = parser.parse_args()
    prints, counts = _prints(given.directory, given.pictures), Counter[str]()
    rows = [(digest, method, values) for digest, one in prints.items() for method, values in one.items()]
    num = len(rows)
    table = schemas.from_columns(
        schemas.FINGERPRINTS,
        {
            "digest": [row[0] for row in rows],
            "method": [row[1] for row in rows],
            "hashes": [row[2] for row in rows],
            "times_s": [np.empty(0, np.float32)] * num,
            "status": ["ok"] * num,
            "error_code": pa.nulls(num, pa.int32()),
            "error": pa.nulls(num, pa.string()),
        },
    )
    criteria, digests = MODALITIES["image"].survivors, sorted(prints)
    columns = {one.name: pa.nulls(len(digests), pa.float64()) for one in criteria if one is not CLOSENESS}
    nodes = pa.table({"digest": digests, "priority": [0] * len(digests), "is_clean": [True] * len(digests)} | columns)
    for name in ("compare", "_verified", "aligned", "_judged"):
        setattr(alignment, name, _counted(name, getattr(alignment, name), counts))
    began = time.process_time()
    pairs = dedup.near_pairs(
        table, dedup.tiers_of("image"), nodes=nodes, criteria=criteria, settings=DedupSettings()
    ).to_pylist()
    edges = sum(row["relation"] != "apart" for row in pairs)
    took = ", ".join(f"{counts[name]:,} {name.strip('_')}" for name in counts)
    print(f"{len(digests):,} pictures, {edges:,} edges: {time.process_time() - began:.1f} CPU s; {took}")


def _counted(name: str, function: Any, counts: Counter[str]) -> Any:
    def called(*given: Any, **named: Any) -> Any:
        counts[name] += 1
        return function(*given, **named)

    return called


if __name__ == "__main__":
    main()
