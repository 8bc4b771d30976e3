"""A Ceph object gateway on this machine, where its programs are installed (Debian: `apt install --no-install-recommends
ceph-mon ceph-osd radosgw ceph-common`): one monitor, one storage daemon in memory, one gateway.

They have keys: without logins among themselves the storage daemon ended at its start now and then."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.ports import free_port

PROGRAMS = ("ceph-authtool", "monmaptool", "ceph-mon", "ceph", "ceph-osd", "radosgw", "radosgw-admin")
_LIMIT_S = 180.0  # for the gateway to answer; 18 s on two cores that do other work as well
_MEMORY_BYTES = 1 << 30  # what the objects may take
_CONFIGURATION = """
[global]
fsid = {fsid}
mon host = [v1:127.0.0.1:{monitor}]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind msgr2 = false
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = true
mon data avail warn = 1
mon data avail crit = 0
mon allow pool size one = true
mon max pg per osd = 1000
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd objectstore = memstore
osd memory target = {memory}
memstore device bytes = {memory}
mon data = {home}/monitor
osd data = {home}/disk
rgw data = {home}/gateway
run dir = {home}
crash dir = {home}
admin socket = {home}/$name.socket
pid file = {home}/$name.pid
log file = {home}/$name.log
keyring = {home}/keyring
rgw frontends = beast endpoint=127.0.0.1:{gateway}
rgw thread pool size = 32
"""


def missing() -> list[str]:
    """The programs that are not installed."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


@contextmanager
def ceph_gateway(key_id: str, secret: str) -> Iterator[str]:
    """The endpoint of a gateway that knows one user by these keys. All of it ends, and is forgotten, with the
    context."""
    with ExitStack() as stack:
        # not below a test's own folder: the names of sockets may have 107 bytes
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mmlake-ceph-")))
        fsid, monitor, gateway = str(uuid.uuid4()), free_port(), free_port()
        named = {"fsid": fsid, "monitor": monitor, "gateway": gateway, "home": home, "memory": _MEMORY_BYTES}
        (home / "ceph.conf").write_text(_CONFIGURATION.format(**named))
        for name in ("monitor", "disk", "gateway"):
            (home / name).mkdir()

        def do(program: str, *given: str) -> None:
            command = [program, "-c", str(home / "ceph.conf"), *given]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)}: status {done.returncode}\n{done.stderr[-3000:]}")

        def start(program: str, *given: str) -> subprocess.Popen[bytes]:
            log = stack.enter_context((home / f"{program}.out").open("wb"))
            command = [program, "-c", str(home / "ceph.conf"), *given, "-f"]
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            stack.callback(_end, process)
            return process

        keys, places = home / "keyring", home / "monmap"
        do("ceph-authtool", "--create-keyring", str(keys), "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        rights = [part for of in ("mon", "osd", "mgr") for part in ("--cap", of, "allow *")]
        do("ceph-authtool", str(keys), "--gen-key", "-n", "client.admin", *rights)
        do("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v1:127.0.0.1:{monitor}]", str(places))
        do("ceph-mon", "--mkfs", "-i", "a", "--monmap", str(places), "--keyring", str(keys))
        start("ceph-mon", "-i", "a")
        disk = str(uuid.uuid4())
        do("ceph", "--connect-timeout", "60", "osd", "new", disk)
        rights = ["mon", "allow profile osd", "mgr", "allow profile osd", "osd", "allow *"]
        do("ceph", "auth", "get-or-create", "osd.0", *rights, "-o", str(keys.with_name("disk.keyring")))
        of_disk = ("-i", "0", "--keyring", str(keys.with_name("disk.keyring")))
        do("ceph-osd", *of_disk, "--mkfs", "--osd-uuid", disk)
        storage = start("ceph-osd", *of_disk)
        asked = ["ceph", "-c", str(home / "ceph.conf"), "tell", "osd.0", "version"]
        _wait_for(lambda: not subprocess.run(asked, capture_output=True, check=False).returncode, storage, home)
        endpoint = f"http://127.0.0.1:{gateway}"
        _wait_for(lambda: _answers(endpoint), start("radosgw", "--name", "client.admin"), home)
        user = ("--uid", "mmlake", "--display-name", "mmlake", "--access-key", key_id, "--secret-key", secret)
        do("radosgw-admin", "--name", "client.admin", "user", "create", *user)
        yield endpoint


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
    if process.poll() is None:
        process.kill()
        process.wait()


def _answers(endpoint: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(endpoint, timeout=5):
        return True
    return False


def _wait_for(is_up: Callable[[], bool], process: subprocess.Popen[bytes], home: Path) -> None:
    until = time.monotonic() + _LIMIT_S
    while time.monotonic() < until and process.poll() is None:
        if is_up():
            return
        time.sleep(0.2)
    said = [f"{path.name}: {path.read_text(errors='replace')[-1000:]}" for path in sorted(home.glob("*.[ol][uo][tg]"))]
    raise RuntimeError(f"{process.args} is not up, status {process.poll()}\n" + "\n".join(said))
