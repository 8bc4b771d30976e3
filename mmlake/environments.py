"""Python environments of their own, for libraries whose requirements conflict with ours: made by one command, used by
`mmlake.workers.script`.

Enters: a name of ENVIRONMENTS. Leaves: a folder with a Python that imports the library. Making one goes on where it was
interrupted: what pip has fetched and installed is kept, and the file `environment.json`, written last, says that it is
whole. Model weights are no part of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmlake import checked_json
from mmlake.durable import make_directory, put_in_place
from mmlake.errors import MissingExtra, MmlakeError, RemoteUnavailable, SettingsError
from mmlake.locks import exclusive_lock

Report = Callable[[str], None]  # called with what is done now: "torch: downloading 887.9 MB"
_READY = "environment.json"
_START_S = 120.0  # seconds; a Python answers a question about itself
_LAST_LINES = 40  # of pip's output, kept for what it says of its failure
# what pip, and the sockets below it, say where an index does not answer; all of its other words are not relied on
_NO_NETWORK = (
    "NewConnectionError", "Temporary failure in name resolution", "Name or service not known", "ConnectTimeoutError",
    "ReadTimeoutError", "ProxyError", "Connection refused", "Network is unreachable", "Max retries exceeded",
    "Connection aborted", "getaddrinfo failed", "IncompleteRead",
)  # fmt: skip
_NOT_THERE = ("No matching distribution found", "Could not find a version that satisfies")
_CONFLICT = ("ResolutionImpossible", "conflicting dependencies")
_FULL = ("No space left on device", "Disk quota exceeded")


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """One row of ENVIRONMENTS."""

    name: str
    what: str
    module: str  # what its Python must import
    requirements: tuple[str, ...]
    options: tuple[str, ...] = ()  # of pip install
    least: tuple[int, int] = (3, 10)  # oldest version of Python
    most: tuple[int, int] = (3, 13)
    size: str  # on disk, for a person
    licence: str  # SPDX id of the library


_ROWS = (
    Environment(
        name="whisperx",
        what="recognizer `whisperx`: Whisper with forced alignment",
        module="whisperx",
        requirements=("whisperx>=3.8.6,<4",),
        size="7.6 GB",
        licence="BSD-2-Clause",
    ),
    Environment(
        name="pyannote",
        what="diarizer `pyannote`",
        module="pyannote.audio",
        requirements=("pyannote.audio>=4.0,<5",),
        size="about 7 GB",
        licence="MIT",
    ),
    Environment(
        name="demucs",
        what="denoiser `demucs`: separates voices from everything else",
        module="demucs.api",
        requirements=("demucs>=4.1,<5", "numpy>=1.26"),  # which it imports and does not name
        size="about 6 GB",
        licence="MIT",
    ),
    Environment(
        name="resemblyzer",
        what="weights of the diarizer `resemblyzer`; it runs in mmlake's own Python",
        module="",
        requirements=("Resemblyzer>=0.1.4,<0.2",),
        # its requirements (webrtcvad needs a compiler, librosa) are those of code that is not run
        options=("--no-deps",),
        size="40 MB",
        licence="Apache-2.0",
    ),
)
ENVIRONMENTS: Mapping[str, Environment] = {row.name: row for row in _ROWS}


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """An environment as it is on this machine."""

    name: str
    status: str  # ready, incomplete (an `add` was interrupted), outdated (its requirements have changed) or absent
    folder: Path
    python: str = ""  # version
    versions: Mapping[str, str]  # of its packages
    size_bytes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As plain values; of the packages only what the row of ENVIRONMENTS asks for."""
        return {
            "name": self.name,
            "status": self.status,
            "folder": str(self.folder),
            "python": self.python,
            "versions": dict(self.versions),
            "size_bytes": self.size_bytes,
        }


def environments_folder(folder: Path | str | None = None) -> Path:
    """Where environments lie: that folder, else one in the user's cache."""
    if folder:
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mmlake" / "environments"


def environment(name: str) -> Environment:
    """The row of that name. Raises SettingsError."""
    if name not in ENVIRONMENTS:
        raise SettingsError(f"{name!r} is no environment; choose one of {', '.join(sorted(ENVIRONMENTS))}")
    return ENVIRONMENTS[name]


def installed(name: str, folder: Path | str | None = None) -> Installed:
    """What there is of an environment."""
    row, own = environment(name), environments_folder(folder) / name
    if not own.is_dir():
        return Installed(name=name, status="absent", folder=own, versions={})
    size_bytes = sum(path.lstat().st_size for path in own.rglob("*") if not path.is_symlink())
    if (said := _said(own)) is None:
        return Installed(name=name, status="incomplete", folder=own, versions={}, size_bytes=size_bytes)
    return Installed(
        name=name,
        status="ready" if said.get("requirements") == list(row.requirements) else "outdated",
        folder=own,
        python=str(said.get("python", "")),
        versions={key: str(value) for key, value in said.get("versions", {}).items()},
        size_bytes=size_bytes,
    )


def python_of(name: str, *, purpose: str, folder: Path | str | None = None) -> Path:
    """The Python of an environment that is whole. Raises MissingExtra with the command that makes it. purpose: the
    subject of the error, "diarizer 'pyannote'"."""
    own = environments_folder(folder) / environment(name).name
    python = _python(own)
    if _said(own) is None or not python.exists():
        raise MissingExtra(f"{purpose} needs the environment {name!r}; run: mmlake environments add {name}")
    return python


def site_packages(name: str, folder: Path | str | None = None) -> Path | None:
    """Where the packages of an environment that is whole lie; None where there is none."""
    own = environments_folder(folder) / environment(name).name
    return next(iter(sorted(own.glob("lib/python*/site-packages"))), None) if _said(own) is not None else None


def add_environment(
    name: str,
    *,
    folder: Path | str | None = None,
    python: Path | str | None = None,
    report: Report = lambda text: None,
) -> Installed:
    """The environment, made where it is not whole. pip takes its own settings (PIP_INDEX_URL, PIP_FIND_LINKS, ...).

    python: the one to make it with; else ours where its version fits, else one on PATH. Raises SettingsError where no
    Python fits, RemoteUnavailable where the index does not answer, MmlakeError where pip cannot install.
    """
    row, root = environment(name), environments_folder(folder)
    found = installed(name, root)
    if found.status == "ready":
        return found
    make_directory(root)
    with exclusive_lock(root / f"{name}.lock", what=f"the environment {name!r}"):
        own = root / name
        chosen = _fitting(row, python)
        (own / _READY).unlink(missing_ok=True)
        if not _answers(_python(own)):
            report(f"{name}: a Python of its own, from {chosen}")
            shutil.rmtree(own, ignore_errors=True)
            _run([str(chosen), "-m", "venv", str(own)], what=f"a Python for the environment {name!r}", report=report)
        _install(row, own, report)
        if row.module:
            report(f"{name}: importing {row.module}")
            _run(
                [str(_python(own)), "-I", "-c", f"import {row.module}"],
                what=f"{row.module} is installed but does not load; remove the environment and add it again",
                report=lambda text: None,
            )
        _write(own, row)
    return installed(name, root)


def remove_environment(name: str, *, folder: Path | str | None = None) -> bool:
    """Whether there was one; it is gone now."""
    root = environments_folder(folder)
    own = root / environment(name).name
    if not own.exists():
        return False
    with exclusive_lock(root / f"{name}.lock", what=f"the environment {name!r}"):
        (own / _READY).unlink(missing_ok=True)  # first: half of an environment must not pass for a whole one
        shutil.rmtree(own)
    return True


def _python(own: Path) -> Path:
    return own / "bin" / "python"


def _said(own: Path) -> dict[str, Any] | None:
    """What `environment.json` says; None where the environment is not whole."""
    try:
        said = checked_json.loads((own / _READY).read_bytes())
    except (OSError, ValueError):
        return None
    return said if isinstance(said.get("versions", {}), dict) else None


def _write(own: Path, row: Environment) -> None:
    listed = subprocess.run(
        [str(_python(own)), "-I", "-m", "pip", "list", "--format=json", "--disable-pip-version-check"],
        capture_output=True,
        check=True,
        timeout=_START_S,
    )
    said = {
        "requirements": list(row.requirements),
        "python": ".".join(map(str, _version(_python(own)) or ())),
        "versions": {one["name"]: one["version"] for one in json.loads(listed.stdout)},
    }
    written = own / f"{_READY}.part"
    written.write_bytes(checked_json.dumps(said))
    put_in_place(written, own / _READY)


def _fitting(row: Environment, given: Path | str | None) -> Path:
    """A Python whose version fits. Raises SettingsError."""
    wanted = f"Python {_dotted(row.least)} to {_dotted(row.most)}"
    if given is not None:
        version = _version(Path(given))
        if version is None or not row.least <= version[:2] <= row.most:
            has = "does not start" if version is None else f"is {_dotted(version)}"
            raise SettingsError(f"environment {row.name!r} needs {wanted}; {given} {has}: name another with --python")
        return Path(given)
    if row.least <= sys.version_info[:2] <= row.most:
        return Path(sys.executable)
    for minor in range(row.most[1], row.least[1] - 1, -1):
        path = shutil.which(f"python3.{minor}")
        if path is not None and _answers(Path(path)):
            return Path(path)
    raise SettingsError(
        f"environment {row.name!r} needs {wanted}; this is {_dotted(tuple(sys.version_info[:3]))}, and PATH has no "
        "other: install one, and name it with --python"
    )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _version(python: Path) -> tuple[int, ...] | None:
    """(major, minor, micro); None where it is no Python that starts."""
    try:
        said = subprocess.run(
            [str(python), "-I", "-c", "import sys; print(*sys.version_info[:3])"],
            capture_output=True,
            check=True,
            timeout=_START_S,
        )
        return tuple(int(part) for part in said.stdout.split())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _answers(python: Path) -> bool:
    return _version(python) is not None


def _install(row: Environment, own: Path, report: Report) -> None:
    command = [
        *(str(_python(own)), "-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"),
        *("--progress-bar", "off", "--prefer-binary", *row.options, *row.requirements),
    ]
    _run(command, what=f"{row.name!r} cannot be installed", report=lambda text: report(f"{row.name}: {text}"))


def _run(command: list[str], *, what: str, report: Report) -> None:
    """Run it, with its lines as they come. Raises RemoteUnavailable and MmlakeError, in our words."""
    last: deque[str] = deque(maxlen=_LAST_LINES)
    environ = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ
    ) as process:
        try:
            assert process.stdout is not None
            for line in _lines(process.stdout):
                last.append(line)
                if line.split(" ", 1)[0] in ("Collecting", "Downloading", "Installing", "Successfully", "Building"):
                    report(line[:120])
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise _failure(what, "\n".join(last))


def _lines(output: Any) -> Iterator[str]:
    for line in output:
        if text := line.decode("utf-8", "replace").strip():
            yield text


def _failure(what: str, said: str) -> MmlakeError:
    again = "run the same command again, what was fetched is kept"
    if any(words in said for words in _FULL):
        return MmlakeError(f"{what}: the disk is full; make room, then {again}")
    if any(words in said for words in _NO_NETWORK):
        return RemoteUnavailable(
            f"{what}: the package index does not answer; check the network (or set PIP_INDEX_URL to a mirror), "
            f"then {again}"
        )
    if any(words in said for words in _CONFLICT):
        return MmlakeError(f"{what}: its requirements conflict with each other on this system; try another --python")
    if any(words in said for words in _NOT_THERE):
        return MmlakeError(
            f"{what}: the package index has nothing that fits this system and this Python; try another --python, or "
            "set PIP_INDEX_URL"
        )
    lines = [line for line in said.splitlines() if "rror" in line]
    return MmlakeError(f"{what}{': ' + lines[-1][:300] if lines else ''}")
