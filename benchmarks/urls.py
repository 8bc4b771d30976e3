"""Downloading a list of small pictures, against img2dataset, in one run: CPU seconds (user + system), median of the
rounds, ratios per round.

    python benchmarks/urls.py [pictures] [bytes of each]
A server in a process of its own, on 127.0.0.1, whose CPU does not count; every downloader in a process of its own, in
turn, 64 at once, nothing decoded or resized. The time of the same program with a list of one picture is taken off. Both
are durable at the end: ours by syncing, img2dataset, which syncs nothing, by one `sync` after it. Ours also asks for
robots.txt, checks every address and header, sniffs, hashes, and keeps a journal. img2dataset is expected in
`benchmarks/peers/img2dataset` (a virtual environment).
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 3
PARALLEL = 64
PEER = Path(__file__).parent / "peers/img2dataset/bin/img2dataset"

_SERVER = """
import random, sys
from aiohttp import web
size = int(sys.argv[1])
body = random.Random(0).randbytes(size)
async def page(request):
    if request.path == "/robots.txt":
        return web.Response(status=404)
    number = int(request.match_info["number"])
    return web.Response(body=b"\\xff\\xd8\\xff\\xe0" + number.to_bytes(4, "big") + body, content_type="image/jpeg")
app = web.Application()
app.router.add_get("/robots.txt", page)
app.router.add_get("/{number}.jpg", page)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[2]), print=None, access_log=None)
"""

_OURS = """
import sys
from pathlib import Path
from mmlake import sources
from mmlake.store import BlobStore
root, parallel = Path(sys.argv[1]), int(sys.argv[2])
settings, store = sources.SourceSettings(), BlobStore(root / "blobs")
web = sources.WebSettings(allowed_networks=("127.0.0.0/8",), max_parallel=parallel, max_parallel_per_host=parallel)
downloads = sources.JournalledDownloads(root / "downloads.sqlite", store=store, settings=web)
for shard in sources.scan(root / "landing", settings=settings):
    landing = root / "landing"
    table = sources.ingest(shard, "image", landing=landing, store=store, settings=settings, downloads=downloads)
    assert set(table.column("status").to_pylist()) == {"ok"}
downloads.close()
"""


def cpu_s(command: list[str]) -> tuple[float, float]:
    """(CPU seconds, wall seconds) of the program and all that it starts. Raises CalledProcessError where it fails."""
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.perf_counter() - began_s


def ours(root: Path, urls: list[str]) -> tuple[float, float]:
    (root / "landing").mkdir(parents=True)
    (root / "landing" / "a.urls").write_text("\n".join(urls) + "\n")
    return cpu_s([sys.executable, "-c", _OURS, str(root), str(PARALLEL)])


def peer(root: Path, urls: list[str]) -> tuple[float, float]:
    root.mkdir(parents=True)
    (root / "list.txt").write_text("\n".join(urls) + "\n")
    options = {
        "url_list": root / "list.txt",
        "input_format": "txt",
        "output_folder": root / "out",
        "output_format": "webdataset",
        "processes_count": 1,
        "thread_count": PARALLEL,
        "resize_mode": "no",
        "disable_all_reencoding": True,
        "encode_format": "jpg",
        "enable_wandb": False,
        "number_sample_per_shard": 10_000,
    }
    found = cpu_s([str(PEER), *(f"--{name}={value}" for name, value in options.items())])
    os.sync()
    num_files = sum(
        int(subprocess.run(["tar", "tf", str(path)], capture_output=True, check=True).stdout.count(b".jpg"))
        for path in (root / "out").glob("*.tar")
    )
    if num_files != len(urls):
        raise SystemExit(f"img2dataset kept {num_files} of {len(urls)} pictures; the comparison would not be fair")
    return found


def main(num_pictures: int = 5000, size_bytes: int = 8000) -> None:
    port = random.Random().randint(20_000, 40_000)
    server = subprocess.Popen([sys.executable, "-c", _SERVER, str(size_bytes), str(port)])
    base = Path(tempfile.mkdtemp(prefix="mmlake-urls-"))
    urls = [f"http://127.0.0.1:{port}/{number}.jpg" for number in range(num_pictures)]
    rounds: list[dict[str, float]] = []
    try:
        time.sleep(2)
        for at in range(ROUNDS):
            found = {}
            for name, act in (("ours", ours), *((("img2dataset", peer),) if PEER.exists() else ())):
                start_s, _ = act(base / f"{at}-{name}-one", urls[:1])
                used_s, wall_s = act(base / f"{at}-{name}", urls)
                found[name] = used_s - start_s
                print(f"round {at}: {name}: {used_s - start_s:.2f} CPU s, {wall_s:.2f} s, start {start_s:.2f} CPU s")
            rounds.append(found)
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(base)
    for name in rounds[0]:
        print(f"{name}: {num_pictures / statistics.median(one[name] for one in rounds):.0f} pictures per CPU second")
    if len(rounds[0]) == 2:
        print(f"ours / img2dataset: {statistics.median(one['img2dataset'] / one['ours'] for one in rounds):.2f} x")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
