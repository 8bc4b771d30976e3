"""Loose files on S3 behind a network: seconds to scan them and to ingest them, in one process, next to the limit that
requests set, one GET per file with as many in flight as `remote.connections` allows.

    pip install 'mmlake[s3]' 'moto[server]'
    python -m benchmarks.remote_files --files 600 --delay-ms 30

The server is moto in a process of its own, which answers each request so much later. Of each layout (all files in one
directory; three in each of many directories) it is another bucket, and the block cache is empty.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from mmlake.landing import as_landing
from mmlake.remote.settings import RemoteSettings
from mmlake.sources import SourceSettings, ingest, scan
from mmlake.store import BlobStore

_SERVER = """
import sys, time
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
answer, delay = DomainDispatcherApplication(create_backend_app), float(sys.argv[2])
def later(environ, start):
    time.sleep(0 if "moto-api" in environ["PATH_INFO"] else delay)
    return answer(environ, start)
run_simple("127.0.0.1", int(sys.argv[1]), later, threaded=True)
"""


@contextmanager
def _server(delay_s: float, port: int) -> Iterator[str]:
    command = [sys.executable, "-c", _SERVER, str(port), str(delay_s)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until and process.poll() is None:
                with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/data.json"):
                    break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _land(client: Any, bucket: str, *, files: int, per_directory: int) -> list[str]:
    """The keys of so many objects of 1 to 120 KiB that begin as JPEG files do."""
    rng, keys = np.random.default_rng(7), list[str]()
    client.create_bucket(Bucket=bucket)
    with ThreadPoolExecutor(16) as pool:
        for at in range(files):
            keys.append(f"{at // per_directory:05}/{at:06}.jpg")
            body = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + rng.bytes(int(rng.integers(1 << 10, 120 << 10)))
            pool.submit(client.put_object, Bucket=bucket, Key=keys[-1], Body=body)
    return keys


def _measure(client: Any, bucket: str, keys: list[str], remote: RemoteSettings) -> dict[str, float]:
    def get(key: str) -> int:
        return len(client.get_object(Bucket=bucket, Key=key)["Body"].read())

    started = time.monotonic()
    with ThreadPoolExecutor(remote.connections) as pool:
        num_bytes = sum(pool.map(get, keys))
    limit_s = time.monotonic() - started
    with tempfile.TemporaryDirectory() as temporary:
        remote = RemoteSettings(cache_dir=f"{temporary}/cache", connections=remote.connections)
        landing, settings = as_landing(f"s3://{bucket}", remote=remote), SourceSettings()
        started = time.monotonic()
        shards = scan(landing, settings=settings)
        scan_s = time.monotonic() - started
        started = time.monotonic()
        store = BlobStore(Path(temporary) / "store")
        with store.batch():
            tables = [
                ingest(shard, kind, landing=landing, store=store, settings=settings)
                for shard in shards
                for kind in shard.modalities
            ]
        ingest_s = time.monotonic() - started
    num_rows = sum(table.num_rows for table in tables)
    assert num_rows == len(keys), f"{num_rows} rows of {len(keys)} files"
    assert sum(sum(table.column("size_bytes").to_pylist()) for table in tables) == num_bytes
    return {"limit": limit_s, "scan": scan_s, "ingest": ingest_s}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=600)
    parser.add_argument("--delay-ms", type=float, default=30.0)
    parser.add_argument("--port", type=int, default=5599)
    given = parser.parse_args()
    import boto3
    from botocore.config import Config

    os.environ.update(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret", AWS_DEFAULT_REGION="us-east-1")
    remote = RemoteSettings()
    print(f"{'files':>6}  {'layout':<22}{'limit':>8}{'scan':>8}{'ingest':>8}   s")
    with _server(given.delay_ms / 1000, given.port) as endpoint:
        os.environ["MMLAKE_S3_ENDPOINT"] = endpoint
        client = boto3.client("s3", endpoint_url=endpoint, config=Config(max_pool_connections=remote.connections))
        for name, per_directory in (("one directory", given.files), ("three in a directory", 3)):
            bucket = name.replace(" ", "-")
            keys = _land(client, bucket, files=given.files, per_directory=per_directory)
            found = _measure(client, bucket, keys, remote)
            times = "".join(f"{seconds:8.1f}" for seconds in found.values())
            print(f"{given.files:>6}  {name:<22}{times}", flush=True)


if __name__ == "__main__":
    main()
