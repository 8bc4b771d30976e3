"""What the environment is made of: hashes of the pins, a bill of materials (CycloneDX 1.6) and licences. Standard
library and `packaging` alone; nothing is fetched.

    python deploy/supply.py lock          constraints.sha256, of what is installed
    python deploy/supply.py archives FILE constraints.hashed.txt, of a report of `pip install --dry-run --report FILE`
    python deploy/supply.py check         installed files against their packages' lists, and these against the lock
    python deploy/supply.py sbom OUT      the bill of materials of what is installed
    python deploy/supply.py licences OUT  the same as a page
    python deploy/supply.py audited FILE  what `pip-audit --format json` found and what it skipped

A hash is that of the list of files that a package has, each with its SHA-256: equal wherever the same wheel is
installed, from whatever index. Wheels of another platform, and builds of one's own such as torch for CPUs, have others.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import platform
import re
import sys
import uuid
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PINS, LOCK = ROOT / "constraints.txt", ROOT / "constraints.sha256"
ARCHIVES = ROOT / "constraints.hashed.txt"
OURS = "mmlake"
# where a CPU build is at hand it is installed, and nothing is known of the other
UNHASHED = frozenset({"torch"})
_LOCKED = re.compile(r"^(\S+)==(\S+) sha256:([0-9a-f]{64}) (\S+)$")
# written at installation, or by the tool that built the wheel where a package has none
_WRITTEN = re.compile(r"\.dist-info/(?!entry_points\.txt$)|\.pyc$|^\.\.")
_ANY = "any"
_CLASSIFIED = {  # of packages without an SPDX expression
    "Apache Software License": "Apache-2.0", "BSD License": "BSD-3-Clause", "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0", "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0", "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense", "Historical Permission Notice and Disclaimer (HPND)": "HPND",
    "GNU Lesser General Public License v2 or later (LGPLv2+)": "LGPL-2.1-or-later",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
    "GNU Lesser General Public License v3 or later (LGPLv3+)": "LGPL-3.0-or-later",
    "GNU Library or Lesser General Public License (LGPL)": "LGPL",
    "GNU General Public License v3 (GPLv3)": "GPL-3.0-only",
    "GNU General Public License v3 or later (GPLv3+)": "GPL-3.0-or-later",
    "zlib/libpng License": "Zlib", "Boost Software License 1.0 (BSL-1.0)": "BSL-1.0",
}  # fmt: skip


def pins(text: str) -> dict[str, str]:
    """Canonical name -> version of every pin."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def installed() -> dict[str, Distribution]:
    """Canonical name -> distribution, of what is installed besides ours."""
    named = ((one.metadata["Name"], one) for one in distributions())  # each time it is asked for, it is parsed
    found = {canonicalize_name(name): one for name, one in named if name}
    return {name: found[name] for name in sorted(found) if name != OURS}


def lock() -> str:
    """The text of LOCK: name, version, hash of the files and platform of every pin."""
    here, lines = installed(), []
    for name in pins(PINS.read_text()):
        if name not in UNHASHED:
            lines.append(f"{name}=={here[name].version} sha256:{files_hash(here[name])} {_platform(here[name])}")
    return "\n".join(["# made by `make lock`; checked by `make audit`", *lines]) + "\n"


def archives(report: str) -> str:
    """The text of ARCHIVES: a requirement with the hash of its archive, for every pin, as pip reports it."""
    found = {canonicalize_name(one["metadata"]["name"]): one["download_info"] for one in json.loads(report)["install"]}
    lines = [
        f"{name}=={version} --hash=sha256:{found[name]['archive_info']['hashes']['sha256']}"
        for name, version in pins(PINS.read_text()).items()
        if name not in UNHASHED
    ]
    head = (
        f"# made by `make lock`, of the archives for {sys.platform}-{platform.machine()} and CPython 3.11; torch apart"
    )
    return "\n".join([head, *lines]) + "\n"


def files_hash(distribution: Distribution) -> str:
    """The SHA-256 of the list of the package's files."""
    listed = _record(distribution.read_text("RECORD") or "")
    return hashlib.sha256("".join(f"{path} {listed[path]}\n" for path in sorted(listed)).encode()).hexdigest()


def _platform(distribution: Distribution) -> str:
    """`any`, or the machine and Python that the package was built for."""
    is_pure = "Root-Is-Purelib: true" in (distribution.read_text("WHEEL") or "")
    return _ANY if is_pure else f"{sys.platform}-{platform.machine()}-cp{sys.version_info[0]}{sys.version_info[1]}"


def locked(text: str) -> dict[str, tuple[str, str, str]]:
    """Canonical name -> (version, hash, platform)."""
    matches = (_LOCKED.match(line) for line in text.splitlines())
    return {found[1]: (found[2], found[3], found[4]) for found in matches if found}


def problems() -> Iterator[str]:
    """What is wrong with the environment, in sentences."""
    wanted, here = locked(LOCK.read_text()), installed()
    for name, version in pins(PINS.read_text()).items():
        if name not in here:
            yield f"{name} is pinned and not installed"
            continue
        distribution = here[name]
        if distribution.version.partition("+")[0] != version:
            yield f"{name} is installed as {distribution.version}, pinned is {version}"
        elif name in UNHASHED:
            continue
        elif wanted.get(name, ("",))[0] != version:
            yield f"{name}=={version} has no hash in {LOCK.name}; run `make lock`"
        elif wanted[name][2] == _platform(distribution) and wanted[name][1] != files_hash(distribution):
            yield f"{name}=={version} holds other files than {LOCK.name} says"
    for name, distribution in here.items():
        yield from changed_files(name, distribution)


def changed_files(name: str, distribution: Distribution) -> Iterator[str]:
    """The installed files that are not as the list of their package says."""
    for path, sha256 in _record(distribution.read_text("RECORD") or "").items():
        place = Path(str(distribution.locate_file(path)))
        if not place.is_file():
            yield f"{name}: {path} is missing"
        elif _digest(place) != sha256:
            yield f"{name}: {path} is not as it was installed"


def _record(text: str) -> dict[str, str]:
    """Path -> URL-safe Base64 of its SHA-256, without what is written at installation."""
    rows = (row for row in csv.reader(text.splitlines()) if len(row) == 3)
    return {path: kept[7:] for path, kept, _ in rows if kept.startswith("sha256=") and not _WRITTEN.search(path)}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        raw = hashlib.file_digest(file, "sha256").digest()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def licence(distribution: Distribution) -> str:
    """An SPDX expression where the package gives one or its classifiers mean one; else its own words; `unknown`."""
    metadata = distribution.metadata
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classifiers = [
        line.rpartition(" :: ")[2]
        for line in metadata.get_all("Classifier") or []
        if line.startswith("License ::") and not line.endswith(":: OSI Approved")
    ]
    if classifiers:
        return " AND ".join(sorted({_CLASSIFIED.get(one, one) for one in classifiers}))
    said = (metadata.get("License") or "").strip().splitlines()
    return said[0][:80] if said else "unknown"


def sbom() -> dict[str, object]:
    """The bill of materials of what is installed; the same for the same packages."""
    here = installed()
    components = []
    for name, one in here.items():
        spelled = licence(one)
        is_expression = re.fullmatch(r"[\w.+-]+(?: (?:AND|OR|WITH) [\w.+-]+)*", spelled) and spelled != "unknown"
        components.append(
            {
                "type": "library",
                "bom-ref": _purl(name, one.version),
                "name": one.metadata["Name"],
                "version": one.version,
                "purl": _purl(name, one.version),
                "licenses": [{"expression": spelled} if is_expression else {"license": {"name": spelled}}],
                "properties": [{"name": "mmlake:files-sha256", "value": files_hash(one)}],
            }
        )
    ours = next(one for one in distributions() if one.metadata["Name"] == OURS)
    root = _purl(OURS, ours.version)
    parts = {_purl(name, one.version): _needs(one, here) for name, one in here.items()}
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": OURS,
                "version": ours.version,
                "licenses": [{"expression": "Apache-2.0"}],
            }
        },
        "components": components,
        "dependencies": [{"ref": root, "dependsOn": _needs(ours, here)}]
        + [{"ref": ref, "dependsOn": needs} for ref, needs in parts.items()],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    return {**body, "serialNumber": f"urn:uuid:{serial}"}


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _needs(distribution: Distribution, here: dict[str, Distribution]) -> list[str]:
    """What of the installed packages it requires, in any of its extras."""
    found = set()
    for line in distribution.requires or []:
        try:
            requirement = Requirement(line)
            extras = ["", *(distribution.metadata.get_all("Provides-Extra") or [])]
            marker = requirement.marker
            holds = marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)
        except (InvalidRequirement, UndefinedEnvironmentName):
            continue
        name = canonicalize_name(requirement.name)
        if holds and name in here:
            found.add(_purl(name, here[name].version))
    return sorted(found)


def licences() -> str:
    """A page with the licence of every pinned package that is installed."""
    here = installed()
    lines = [
        "# Licences of the dependencies",
        "",
        "<!-- made by `make licences`; do not edit -->",
        "",
        "mmlake is Apache-2.0. What it is installed with (`cpu,postgres,dev`), as each package says in its metadata: "
        "an SPDX expression, what its classifiers mean, or its own words. `make sbom` writes the same as CycloneDX.",
        "",
        "| package | version | licence |",
        "| --- | --- | --- |",
    ]
    for name, version in pins(PINS.read_text()).items():
        if name in here:
            lines.append(f"| {name} | {version} | {licence(here[name]).replace('|', '/')} |")
    return "\n".join(lines) + "\n"


def audited(report: str) -> tuple[list[str], int]:
    """(lines to print, exit code) of a report of pip-audit: 1 where something is known to be vulnerable, 3 where a pin
    was not looked up. pip-audit itself ends well where its database knows none of the packages. report: empty where
    none was written."""
    try:
        entries = {canonicalize_name(one["name"]): one for one in json.loads(report)["dependencies"]}
    except (ValueError, KeyError, TypeError):
        entries = {}
    wanted = pins(PINS.read_text())
    checked = [name for name in wanted if "vulns" in entries.get(name, {})]
    lines = [
        f"{name} {wanted[name]}: {one['id']}, repaired in {', '.join(one.get('fix_versions', ())) or 'no release'}"
        for name in checked
        for one in entries[name]["vulns"]
    ]
    code = 1 if lines else 0
    lines.append(f"{len(checked)} of {len(wanted)} pins were looked up, {len(lines)} known vulnerabilities")
    if left := [name for name in wanted if name not in checked]:
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""
        lines.append(
            f"NOT CHECKED: {', '.join(left[:3])}{more}; the database was not reached, or is a mirror's without "
            "advisories: run this where pypi.org itself answers"
        )
    return lines, code or (3 if left else 0)


def main(arguments: list[str]) -> None:
    """See the module."""
    command, *rest = arguments or [""]
    if command == "lock" and not rest:
        LOCK.write_text(lock())
    elif command == "archives" and len(rest) == 1:
        ARCHIVES.write_text(archives(Path(rest[0]).read_text()))
    elif command == "check" and not rest:
        if found := list(problems()):
            sys.exit("\n".join(found))
        print(f"{len(installed())} packages are as their lists and {LOCK.name} say")
    elif command == "sbom" and len(rest) == 1:
        Path(rest[0]).write_text(json.dumps(sbom(), indent=1) + "\n")
    elif command == "licences" and len(rest) == 1:
        Path(rest[0]).write_text(licences())
    elif command == "audited" and len(rest) == 1:
        lines, code = audited(Path(rest[0]).read_text())
        print("\n".join(lines))
        sys.exit(code)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
