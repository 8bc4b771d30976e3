"""What the environment is made of is known: every pin has a hash, a licence and a place in the bill of materials."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def _loaded() -> ModuleType:
    found = importlib.util.spec_from_file_location("supply", ROOT / "deploy" / "supply.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


supply = _loaded()
PINS = supply.pins((ROOT / "constraints.txt").read_text())
HERE = supply.installed()
_OLDER = set() if sys.version_info < (3, 12) else {"overrides"}  # packages that newer releases of Python do without


def test_every_pin_has_a_hash_of_its_version() -> None:
    locked = supply.locked((ROOT / "constraints.sha256").read_text())
    assert {name: version for name, (version, _, _) in locked.items()} == {
        name: version for name, version in PINS.items() if name not in supply.UNHASHED
    }
    assert set(supply.UNHASHED) <= set(PINS)


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11) or sys.platform != "linux", reason="the hashes are of this platform"
)
def test_what_is_installed_has_the_hash_of_its_pin() -> None:
    locked = supply.locked((ROOT / "constraints.sha256").read_text())
    for name in ("aiohttp", "av", "pyarrow", "dagster", "attrs"):
        assert supply.files_hash(HERE[name]) == locked[name][1]


def test_every_pin_has_the_hash_of_its_archive_as_pip_reads_it() -> None:
    lines = [one.split(" --hash=sha256:") for one in (ROOT / "constraints.hashed.txt").read_text().splitlines()[1:]]
    assert dict(one.split("==") for one, _ in lines) == {
        name: version for name, version in PINS.items() if name not in supply.UNHASHED
    }
    assert all(re.fullmatch("[0-9a-f]{64}", sha256) for _, sha256 in lines)


def test_an_archive_that_was_changed_is_refused(tmp_path: Path) -> None:
    wheel, target = tmp_path / "thing-1.0-py3-none-any.whl", tmp_path / "into"

    def written(source: str) -> bytes:
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("thing.py", source)
            archive.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
            archive.writestr(
                "thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr("thing-1.0.dist-info/RECORD", "thing.py,,\nthing-1.0.dist-info/METADATA,,\n")
        return wheel.read_bytes()

    def install() -> subprocess.CompletedProcess[str]:
        words = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--no-index", "--find-links", str(tmp_path)]
        words += ["--target", str(target), "--requirement", str(tmp_path / "hashed.txt"), "--quiet"]
        return subprocess.run([sys.executable, "-m", "pip", "install", *words], capture_output=True, text=True)

    sha256 = hashlib.sha256(written("honest = True")).hexdigest()
    (tmp_path / "hashed.txt").write_text(f"thing==1.0 --hash=sha256:{sha256}\n")
    assert install().returncode == 0 and (target / "thing.py").exists()
    shutil.rmtree(target)
    written("honest = False")
    refused = install()
    assert refused.returncode != 0 and not target.exists()
    assert "DO NOT MATCH THE HASHES" in refused.stderr


def package(root: Path, files: dict[str, bytes]) -> PathDistribution:
    """A package as pip leaves it."""
    home = root / "thing-1.0.dist-info"
    home.mkdir(parents=True)
    (home / "METADATA").write_text("Metadata-Version: 2.4\nName: thing\nVersion: 1.0\nLicense-Expression: MIT\n")
    (home / "INSTALLER").write_text("pip")
    lines = ["thing-1.0.dist-info/INSTALLER,sha256=changes,3", "thing-1.0.dist-info/RECORD,,", "../../bin/x,sha256=a,1"]
    for name, data in files.items():
        (root / name).write_bytes(data)
        sha256 = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={sha256},{len(data)}")
    (home / "RECORD").write_text("\n".join(lines))
    return PathDistribution(home)


def test_a_changed_file_and_a_missing_one_are_found(tmp_path) -> None:
    thing = package(tmp_path, {"a.py": b"1", "b.py": b"2"})
    assert list(supply.changed_files("thing", thing)) == []
    (tmp_path / "a.py").write_bytes(b"3")
    (tmp_path / "b.py").unlink()
    assert list(supply.changed_files("thing", thing)) == [
        "thing: a.py is not as it was installed",
        "thing: b.py is missing",
    ]


def test_a_list_that_was_changed_with_its_file_has_another_hash(tmp_path) -> None:
    before = package(tmp_path / "before", {"a.py": b"1"})
    after = package(tmp_path / "after", {"a.py": b"3"})
    assert list(supply.changed_files("thing", after)) == []
    assert supply.files_hash(before) != supply.files_hash(after)
    assert supply.files_hash(before) == supply.files_hash(package(tmp_path / "again", {"a.py": b"1"}))


def test_the_bill_of_materials_names_every_pin_with_its_licence() -> None:
    bill = supply.sbom()
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    refs = [component["bom-ref"] for component in bill["components"]]
    assert len(set(refs)) == len(refs)
    for name in PINS.keys() - _OLDER:
        assert any(ref.startswith(f"pkg:pypi/{name}@") for ref in refs), name
    assert all(component["licenses"] for component in bill["components"])
    known = {*refs, bill["metadata"]["component"]["bom-ref"]}
    assert {entry["ref"] for entry in bill["dependencies"]} == known
    assert all(set(entry["dependsOn"]) <= known for entry in bill["dependencies"])
    ours = bill["dependencies"][0]["dependsOn"]
    assert {"pyarrow", "dagster", "lancedb"} <= {ref.removeprefix("pkg:pypi/").partition("@")[0] for ref in ours}
    assert supply.sbom() == bill


def test_the_page_of_licences_lists_every_pin() -> None:
    rows = re.findall(r"^\| (\S+) \| (\S+) \| (.+) \|$", (ROOT / "docs" / "licences.md").read_text(), re.MULTILINE)
    listed = {name: version for name, version, _ in rows if name in PINS}
    assert listed == PINS


def _audit(vulnerable: str = "", skipped: str = "") -> str:
    """A report of pip-audit 2.10 on our pins."""
    advisory = {"id": "PYSEC-2026-1", "fix_versions": ["99.0"], "aliases": [], "description": ""}
    entries = [
        {"name": name, "skip_reason": "Dependency not found on PyPI and could not be audited"}
        if skipped in (name, "all")
        else {"name": name, "version": version, "vulns": [advisory] if name == vulnerable else []}
        for name, version in PINS.items()
    ]
    return json.dumps({"dependencies": entries, "fixes": []})


@pytest.mark.parametrize(
    ("report", "code", "said"),
    [
        (_audit(), 0, f"{len(PINS)} of {len(PINS)} pins were looked up, 0 known"),
        (_audit(vulnerable="jinja2"), 1, f"jinja2 {PINS['jinja2']}: PYSEC-2026-1, repaired in 99.0"),
        (_audit(skipped="jinja2"), 3, "NOT CHECKED: jinja2; "),
        (_audit(skipped="all"), 3, f"0 of {len(PINS)} pins"),
        (_audit(vulnerable="jinja2", skipped="pillow"), 1, "NOT CHECKED: pillow; "),
        ("", 3, f"0 of {len(PINS)} pins"),
    ],
)
def test_an_audit_that_checked_nothing_is_no_good_news(report: str, code: int, said: str) -> None:
    """pip-audit 2.10 ends with 0 and "No known vulnerabilities found" where its database knows no package."""
    lines, ends = supply.audited(report)
    assert ends == code
    assert any(said in line for line in lines), lines
