"""What bringing the catalog up to date takes of the memory, by what `[engine] memory_gib` allows one step.

    python -m benchmarks.catalog_memory --texts 200000 --memory-gib 64 .5

Tables of texts of a kilobyte with vectors of 384 numbers, made up, ten shards; each contestant is a process of its own
that joins them and writes a catalog of its own. Printed are MiB at most above what the process had before, CPU seconds,
and the data version, which is the same for all.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from mmlake import schemas
from mmlake.lake import Lake
from mmlake.publish import update_catalog
from mmlake.settings import Settings
from mmlake.steps import CORPUS_STEPS, ROW_STEPS
from mmlake.tables import Slot

_SHARDS, _WORDS = 10, 160


def _tables(lake: Lake, num: int) -> None:
    """The tables that the catalog is joined from."""
    rng = np.random.default_rng(1)
    words = np.array(["".join(rng.choice(list("abcdefghijklmnoprstu"), 6)) for _ in range(20_000)])
    for shard in range(_SHARDS):
        texts = [" ".join(rng.choice(words, _WORDS)) for _ in range(num // _SHARDS)]
        digests = sorted(rng.bytes(32).hex() for _ in texts)
        each = {name: [value] * len(texts) for name, value in (("status", "ok"), ("role", "document"))}
        named = each | {"modality": ["text"] * len(texts), "size_bytes": [len(text) for text in texts]}
        vectors = rng.normal(size=(len(texts), 384)).astype(np.float32)
        vectors = np.round(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), 6)
        ids = [f"s{shard}#{at:06}" for at in range(len(texts))]
        columns = {
            "items": named | {"item_id": ids, "sample_id": ids, "digest": digests, "position": [0] * len(texts)}
            | {"text_content": texts, "source_ref": ["{}"] * len(texts), "source": ["made up"] * len(texts)}
            | {"licence": ["CC0-1.0"] * len(texts)},
            "tracks": named | {"digest": digests, "text": texts, "transcript_source": ["none"] * len(texts)}
            | {name: [[]] * len(texts) for name in ("damages", "shots", "keyframes", "signals", "cues")},
            "units": each | {"digest": digests, "parent_digest": digests, "position": [0] * len(texts)}
            | {"kind": ["whole"] * len(texts), "producer": ["whole"] * len(texts)},
            "verdicts": {"digest": digests, "status": each["status"], "weight": [1.0] * len(texts)}
            | {"findings": [[]] * len(texts)},
            "embeddings": {"digest": digests, "encoder": ["minilm-l6"] * len(texts), "status": each["status"]}
            | {"revision": ["made up"] * len(texts), "dimension": [384] * len(texts), "vector": list(vectors)},
            "measures": {"digest": digests, "measure": ["num_words"] * len(texts), "status": each["status"]}
            | {"producer": ["words"] * len(texts), "revision": ["1"] * len(texts)}
            | {"value": [float(_WORDS)] * len(texts)},
        }  # fmt: skip
        for name, given in columns.items():
            _write(lake, Slot(name, "text", f"s{shard}"), schemas.from_columns(ROW_STEPS[name].schema, given))
    for name in ("duplicate_clusters", "contamination"):
        _write(lake, Slot(name, "text"), schemas.empty(CORPUS_STEPS[name].schema))


def _write(lake: Lake, slot: Slot, table: pa.Table) -> None:
    step = ROW_STEPS.get(slot.table) or CORPUS_STEPS[slot.table]
    lake.tables.write(slot, step.schema, table, code_version="made up", settings_digest="", inputs={})


def _join(root: Path, memory_gib: float) -> None:
    """In this process: print what it took."""
    with Lake(root, settings=Settings.of({"engine": {"memory_gib": memory_gib}})) as lake:
        lake.catalog.drop()
        lake.catalog.count()
        before = resource.getrusage(resource.RUSAGE_SELF)
        made = update_catalog(lake, "text")["text"]
        after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = {"mib": (after.ru_maxrss - before.ru_maxrss) // 1024, "cpu_s": round(cpu, 1)}
    print(json.dumps({"memory_gib": memory_gib, "rows": made.num_rows} | peak | {"version": made.data_version[:12]}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=200_000)
    parser.add_argument("--memory-gib", type=float, nargs="+", default=[64, 0.5])
    parser.add_argument("--lake", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.lake is not None:
        return _join(given.lake, given.memory_gib[0])
    with tempfile.TemporaryDirectory() as folder:
        with Lake(folder) as lake:
            _tables(lake, given.texts)
        command = [sys.executable, "-m", "benchmarks.catalog_memory", "--lake", folder, "--memory-gib"]
        for memory_gib in given.memory_gib:
            subprocess.run([*command, str(memory_gib)], check=True)
    return None


if __name__ == "__main__":
    main()
