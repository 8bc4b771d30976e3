"""CPU seconds and peak memory of selecting, building, verifying and comparing a version of many samples.

    python benchmarks/versions.py [num_samples] [num_shards]
Nine of ten samples are documents, the others pictures with a caption; one in twenty is quarantined, one in twenty a
near duplicate. Each operation runs in a process of its own. `peak` is the most that the process had resident, `inputs`
what it had before it began: the interpreter and the tables handed over (`select` reads samples shard by shard). `diff`
compares with a version of the same samples, of which 1 % have another weight and which has one shard of 1 % more.
"""

from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

OPERATIONS = ("select", "build", "verify", "build_changed", "diff")
_STRINGS = pa.list_(pa.string())


def _digests(prefix: str, count: int) -> pa.Array:
    return pa.array([hashlib.sha256(f"{prefix}{number}".encode()).hexdigest() for number in range(count)])


def _offsets(counts: np.ndarray) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())


def _one_each(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1), pa.int32()), values)


def _repeated(value: str | None, count: int) -> pa.Array:
    return pa.array([value], pa.string()).take(pa.array(np.zeros(count, np.int64)))


def make_tables(num_samples: int, num_shards: int, seed: int = 0) -> tuple[pa.Table, pa.Table]:
    """(catalog rows, samples) as `select` takes them."""
    rng = np.random.default_rng(seed)
    is_pair = np.arange(num_samples) % 10 == 0
    counts = np.where(is_pair, 2, 1)
    num_parts = int(counts.sum())
    digests = _digests("unit", num_parts)
    owner = np.repeat(np.arange(num_samples), counts)
    place = np.arange(num_parts) - np.repeat(np.cumsum(counts) - counts, counts)
    pair = is_pair[owner]
    roles = pa.array(["document", "media", "caption"]).take(pa.array(np.where(pair, 1 + place, 0)))
    modality = pa.array(["text", "image"]).take(pa.array((pair & (place == 0)).astype(np.int64)))
    kinds = pa.array(["text/plain", "image/png"]).take(pa.array((pair & (place == 0)).astype(np.int64)))
    none = pa.nulls(num_parts, pa.int64())
    columns = {
        "position": pa.array(place, pa.int32()),
        "role": roles,
        "modality": modality,
        "digest": digests,
        "item_id": pa.array([f"s#{number:09d}" for number in range(num_parts)]),
        "content_type": kinds,
        "size_bytes": pa.array(rng.integers(200, 5000, num_parts)),
        "licence": _repeated("MIT", num_parts),
        "fields_json": pa.nulls(num_parts, pa.string()),
        "parent_digest": digests,
        "start_us": none,
        "end_us": none,
    }
    parts = pa.ListArray.from_arrays(_offsets(counts), pa.StructArray.from_arrays(columns.values(), names=[*columns]))
    shard = np.arange(num_samples) * num_shards // num_samples
    samples = pa.table(
        {
            "sample": _digests("sample", num_samples),
            "modality": pa.array(["text", "image"]).take(pa.array(is_pair.astype(np.int64))),
            "sample_ids": _one_each(pa.array([f"s/{number:09d}" for number in range(num_samples)])),
            "num_occurrences": pa.array(np.ones(num_samples), pa.int32()),
            "shard": pa.array([f"web/{number:05d}" for number in range(num_shards)]).take(pa.array(shard)),
            "source": _repeated("web", num_samples),
            "licences": _one_each(_repeated("MIT", num_samples)),
            "fields_json": pa.nulls(num_samples, pa.large_string()),
            "parts": parts,
        }
    )
    draw = rng.random(num_parts)
    bad, near = draw < 0.05, (draw > 0.05) & (draw < 0.1)
    survivors = digests.take(pa.array(np.where(near, 0, np.arange(num_parts))))
    catalog = pa.table(
        {
            "digest": digests,
            "modality": modality,
            "status": pa.array(["ok", "quarantined"]).take(pa.array(bad.astype(np.int64))),
            "severity": pa.array(["P1", None]).take(pa.array((~bad).astype(np.int64))),
            "rule": pa.array(["blank", None]).take(pa.array((~bad).astype(np.int64))),
            "reason": pa.array(["luma_std=0", None]).take(pa.array((~bad).astype(np.int64))),
            "weight": pa.array(np.ones(num_parts), pa.float32()),
            "licences": _one_each(_repeated("MIT", num_parts)),
            "sources": _one_each(_repeated("web", num_parts)),
            "tier": pa.array(["near", None]).take(pa.array((~near).astype(np.int64))),
            "survivor": pa.array(np.where(near, 0, -1)).cast(pa.string()) if not num_parts else survivors,
        }
    )
    return catalog, samples


def _write(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _read(path: Path) -> pa.Table:
    with pa.OSFile(str(path), "rb") as source:
        return pa.ipc.open_file(source).read_all()


def _by_shard(path: Path) -> Iterator[pa.Table]:
    """The samples of each source shard, as a lake reads them: one in memory at a time."""
    with pa.OSFile(str(path), "rb") as source:
        batches = pa.ipc.open_file(source)
        for number in range(batches.num_record_batches):
            yield pa.Table.from_batches([batches.get_batch(number)])


def _changed(samples: pa.Table, more: pa.Table) -> pa.Table:
    """The samples with another weight of each hundredth shard, and those of one shard more."""
    first = samples["shard"][0].as_py()
    at = np.array([shard == first for shard in samples["shard"].to_pylist()])
    weight = pa.array(np.where(at, 0.5, samples["weight"].to_numpy()))
    samples = samples.set_column(samples.column_names.index("weight"), "weight", weight)
    return pa.concat_tables([samples, more.cast(samples.schema)]).combine_chunks()


def prepare(root: Path, num_samples: int, num_shards: int) -> None:
    """The tables that the operations are handed."""
    from mmlake.versions import RECIPES, select

    catalog, samples = make_tables(num_samples, num_shards)
    _write(root / "catalog.arrow", catalog)
    with pa.OSFile(str(root / "by_shard.arrow"), "wb") as sink, pa.ipc.new_file(sink, samples.schema) as writer:
        writer.write_table(samples, max_chunksize=-(-num_samples // num_shards))
    made = select(catalog, samples, RECIPES["curated"])
    _write(root / "selected.arrow", made.samples)
    _write(root / "excluded.arrow", made.excluded)
    more = made.samples.slice(0, num_samples // num_shards)
    renamed = _digests("another", more.num_rows)
    more = more.set_column(0, "sample", renamed)
    at = more.column_names.index("shard")
    more = more.set_column(at, "shard", _repeated("web/99999", more.num_rows))
    _write(root / "changed.arrow", _changed(made.samples, more))


def measure(root: Path, operation: str) -> None:
    """Print what the operation used."""
    from mmlake.versions import RECIPES, VersionStore, select

    recipe, store = RECIPES["curated"], VersionStore(root / "store")
    names = {
        "select": ("catalog",),
        "build": ("selected", "excluded"),
        "build_changed": ("changed", "excluded"),
    }
    tables = [_read(root / f"{name}.arrow") for name in names.get(operation, ())]
    by_shard = partial(_by_shard, root / "by_shard.arrow")
    before = resource.getrusage(resource.RUSAGE_SELF)
    if operation == "select":
        select(*tables, by_shard, recipe)
    elif operation.startswith("build"):
        store.build(
            tables[0], excluded=tables[1], recipe=recipe, settings_digest="s", encoders={}, name=f"{operation}-tag"
        )
    elif operation == "verify":
        assert store.verify("build-tag") == []
    else:
        print(store.diff("build-tag", "build_changed-tag").summary(), file=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak, inputs = (f"{used.ru_maxrss / 1024:6.0f} MiB" for used in (after, before))
    print(f"{operation:14} {cpu_s:8.1f} CPU s   peak {peak}   inputs {inputs}")


def main() -> None:
    """Every operation, each in a process of its own."""
    num_samples, num_shards = (
        (int(one) for one in [*sys.argv[1:], "1000000", "100"][:2]) if len(sys.argv) != 2 else (int(sys.argv[1]), 100)
    )
    with tempfile.TemporaryDirectory() as root:
        for operation in ("prepare", *OPERATIONS):
            command = [sys.executable, __file__, "--one", root, operation, str(num_samples), str(num_shards)]
            subprocess.run(command, check=True, env=os.environ)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        if sys.argv[3] == "prepare":
            prepare(Path(sys.argv[2]), int(sys.argv[4]), int(sys.argv[5]))
        else:
            measure(Path(sys.argv[2]), sys.argv[3])
    else:
        main()
