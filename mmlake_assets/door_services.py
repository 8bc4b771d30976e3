"""What `mmlake ui` becomes: the code server, the daemon and the web server of one lake, which end together.

As `dagster dev`, but that the web server is in this process, behind the door.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import dagster as dg
import uvicorn
from dagster._cli.proxy_server_manager import ProxyServerManager
from dagster._core.workspace.load_target import ModuleTarget
from dagster._utils.interrupts import setup_interrupt_handlers
from dagster._utils.log import configure_loggers

from mmlake_assets.door_server import server_of, workspace_context

_CODE = ModuleTarget("mmlake_assets.definitions", None, None, None)
_DAEMON_S = 5  # for the daemon to end what it does; what a kill interrupts, the next one takes up as after a power cut


def run(port: int, log_level: str) -> int:
    """Serve until a signal ends it; 1 where the daemon or the web server ended by itself."""
    with ExitStack() as stack:
        instance = stack.enter_context(dg.DagsterInstance.get())
        code = stack.enter_context(ProxyServerManager(instance, _CODE, log_level))
        workspace = Path(stack.enter_context(TemporaryDirectory(prefix="mmlake-ui-"))) / "workspace.yaml"
        workspace.write_text(json.dumps({"load_from": code.get_code_server_specs()}))  # JSON is YAML
        daemon = stack.enter_context(_daemon(workspace, log_level))
        context = stack.enter_context(workspace_context(instance, workspace, read_only=False))
        server = server_of(context, port=port)
        threading.Thread(target=_end_with, args=(daemon, server), daemon=True).start()
        stack.callback(daemon.terminate)  # first, so that it ends while all others do; it took as long as they together
        server.run()  # a signal that ended it comes again here, as KeyboardInterrupt
    return 1


@contextmanager
def _daemon(workspace: Path, log_level: str) -> Iterator[subprocess.Popen[bytes]]:
    """Dagster's daemon: sensors, automation, the queue of runs."""
    words = ["-m", "dagster._daemon", "run", "--log-level", log_level, "--code-server-log-level", log_level]
    process = subprocess.Popen([sys.executable, *words, "--workspace", str(workspace)])
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_DAEMON_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_with(daemon: subprocess.Popen[bytes], server: uvicorn.Server) -> None:
    """End the web server when the daemon has ended: without it, nothing that is launched would run."""
    code = daemon.wait()
    if not server.should_exit:
        print(f"the daemon of Dagster has ended with exit code {code}; the UI ends with it", file=sys.stderr)
        server.should_exit = True


def main() -> int:
    """What `python -m` calls."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log-level", default="warning")
    given = parser.parse_args()
    os.environ["DAGSTER_IS_DEV_CLI"] = "1"  # what cannot be loaded is logged once, by the code server
    configure_loggers(formatter="colored", log_level=given.log_level.upper())
    setup_interrupt_handlers()  # SIGTERM is Ctrl-C
    try:
        return run(given.port, given.log_level)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
