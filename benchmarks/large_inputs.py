"""Inputs that are large in one way: wall and CPU seconds and the peak of memory, each in a process of its own.

    python benchmarks/large_inputs.py               # all
    python benchmarks/large_inputs.py members loose # some
    members   a tar of 100,000 texts
    member    a tar with one member of 4 GiB (sparse), which is the bound, and a text behind it; `above`: a byte above
    loose     50,000 texts in one directory
    more      200,000 texts in one directory, which are 256 shards
    shards    5,000 shards: ticks of the sensor until all are registered, and one more
A landing zone is scanned and its rows are made, their bytes durable in a store, as the `items` table does it. Asserts
how many rows there are and of what status.
"""

from __future__ import annotations

import io
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mmlake import sources
from mmlake.sources import SourceSettings
from mmlake.sources.parsed_files import ParsedFiles
from mmlake.store import BlobStore

_MEMBERS, _LOOSE, _SHARDS = 100_000, 50_000, 5_000
_GIB = 1 << 30


def _text(number: int) -> bytes:
    return f"Text number {number}: the harbour lies in the east, and {number * 7919 % 10_007} ships in it.".encode()


def _info(name: str, size_bytes: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size_bytes
    return info


def members(base: Path) -> None:
    with tarfile.open(base / "many.tar", "w") as tar:
        for number in range(_MEMBERS):
            data = _text(number)
            tar.addfile(_info(f"{number:06d}.txt", len(data)), io.BytesIO(data))


def member(base: Path, *, above: int = 0) -> None:
    """The member's bytes are a hole in the file."""
    size = 4 * _GIB + above
    with (base / "large.tar").open("wb") as file:
        file.write(_info("film.mp4", size).tobuf(tarfile.GNU_FORMAT))
        file.seek(size + -size % 512, io.SEEK_CUR)
        data = _text(1)
        file.write(_info("note.txt", len(data)).tobuf(tarfile.GNU_FORMAT))
        file.write(data.ljust(512, b"\0") + bytes(1024))


def loose(base: Path, num: int = _LOOSE) -> None:
    for number in range(num):
        (base / f"{number:06d}.txt").write_bytes(_text(number))


def more(base: Path) -> None:
    loose(base, 4 * _LOOSE)


def _ingested(landing: Path, store: Path) -> Iterator[str]:
    settings, statuses, parsed = SourceSettings(), Counter[str](), ParsedFiles()
    began_s = time.perf_counter()
    found = sources.scan(landing, settings=settings)
    yield f"{len(found)} shards found in {time.perf_counter() - began_s:.1f} s"
    for shard in found:
        for modality in shard.modalities:
            blobs = BlobStore(store)
            with blobs.batch():
                rows = sources.ingest(shard, modality, landing=landing, store=blobs, settings=settings, parsed=parsed)
            codes = rows.column("error_code").to_pylist() if "error_code" in rows.column_names else []
            statuses.update(f"{modality} {status}" for status in rows.column("status").to_pylist())
            statuses.update(f"code {code}" for code in codes if code)
    yield ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))


def shards(base: Path) -> None:
    for number in range(_SHARDS):
        (base / f"{number:05d}.jsonl").write_bytes(b'{"text": "' + _text(number) + b'"}\n')


def _ticked(landing: Path, lake: Path) -> Iterator[str]:
    import dagster as dg

    from mmlake_assets.sensors import landing_zone
    from mmlake_resources import LakeResource

    resource_ = LakeResource(root=str(lake), landing=str(landing), settle_s=0.0)
    (lake.parent / "dagster").mkdir()
    with dg.DagsterInstance.ephemeral(tempdir=str(lake.parent / "dagster")) as instance:
        num_ticks, longest_s, known = 0, 0.0, -1
        while known < (known := len(instance.get_dynamic_partitions("text_shards"))) or not known:
            began_s = time.perf_counter()
            with dg.build_sensor_context(instance=instance, resources={"lake": resource_}) as context:
                result = landing_zone(context)
            for request in getattr(result, "dynamic_partitions_requests", None) or []:
                instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
            num_ticks, longest_s = num_ticks + 1, max(longest_s, time.perf_counter() - began_s)
        last_s = time.perf_counter() - began_s
        yield f"{known} shards registered by {num_ticks} ticks of {longest_s:.1f} s at most, the last {last_s:.1f} s"


def above(base: Path) -> None:
    member(base, above=1)


CASES = {case.__name__: case for case in (members, member, above, loose, more, shards)}


def _measured(case: str, base: str) -> None:
    """In a process of its own: the work of a case, and what it took."""
    landing, began_s = Path(base) / "landing", time.perf_counter()
    lines = list((_ticked if case == "shards" else _ingested)(landing, Path(base) / "lake"))
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        f"{case}: {time.perf_counter() - began_s:.1f} s, {used.ru_utime + used.ru_stime:.1f} CPU s, "
        f"{used.ru_maxrss / 1024:.0f} MiB at most; {'; '.join(lines)}"
    )


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        _measured(*sys.argv[2:4])
        return
    for case in sys.argv[1:] or CASES:
        with tempfile.TemporaryDirectory() as base:
            (Path(base) / "landing").mkdir()
            CASES[case](Path(base) / "landing")
            subprocess.run([sys.executable, __file__, "--one", case, base], check=True)


if __name__ == "__main__":
    main()
