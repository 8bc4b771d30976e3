"""The pages that a newcomer follows: every command exists, every link leads somewhere, every example runs as
written."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer.main

from mmlake.settings import Settings
from mmlake_assets.console import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DECISIONS = sorted((DOCS / "decisions").glob("*.md"))
PAGES = [ROOT / "CONTRIBUTING.md", DOCS / "README.md", DOCS / "quickstart.md", DOCS / "deploy.md"]
GENERATED = {"errors.md", "cli.md"}
INDEX = (DOCS / "README.md").read_text()
COMMANDS = typer.main.get_command(app)


def _typed(page: Path) -> list[str]:
    """The mmlake command lines of a page's indented blocks."""
    lines = re.findall(r"^    (?:docker compose exec code )?(mmlake [a-z].*)$", page.read_text(), re.MULTILINE)
    return [re.split(r"\s{2,}#|\s+# ", line)[0].strip() for line in lines]


@pytest.mark.parametrize("line", sorted({line for page in PAGES for line in _typed(page)}))
def test_a_command_in_the_docs_is_understood(line):
    name, *arguments = shlex.split(line)[1:]
    command = COMMANDS.commands[name]
    command.make_context(name, arguments)  # raises on an option or argument that is not there


def test_the_index_lists_every_page():
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"README.md"}
    assert pages - set(re.findall(r"\]\(([^)]+)\)", INDEX)) == set()


def test_the_index_names_no_page_that_is_not_there():
    missing = [link for link in re.findall(r"\]\(([^)]+)\)", INDEX) if not (DOCS / link).exists()]
    assert set(missing) <= GENERATED


@pytest.mark.parametrize("page", [*PAGES, *DECISIONS], ids=lambda path: path.name)
def test_a_path_in_the_docs_exists(page):
    named = re.findall(
        r"`((?:mmlake|mmlake_assets|mmlake_resources|docs|deploy|tests)/[A-Za-z0-9_./-]*)`", page.read_text()
    )
    missing = [path for path in named if not (ROOT / path).exists()]
    assert {Path(path).name for path in missing} <= GENERATED


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.name)
def test_a_decision_has_four_parts_and_fits_a_page(path):
    text = path.read_text()
    parts = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert [part for part in parts if part not in ("Measured", "Why")] == [
        "Context",
        "Decision",
        "Consequences",
        "Rejected",
    ]
    assert text.count("\n") <= 40


def test_decisions_are_numbered_without_a_gap():
    assert [path.name[:4] for path in DECISIONS] == [f"{number:04d}" for number in range(1, len(DECISIONS) + 1)]
    assert all(path.read_text().startswith(f"# {path.name[:4]} ") for path in DECISIONS)


def test_the_index_names_each_decision_once():
    assert re.findall(r"^- \[\d+\]\(decisions/(.*?)\)", INDEX, re.MULTILINE) == [path.name for path in DECISIONS]


def test_the_five_tables_are_where_contributing_says():
    rows = re.findall(
        r"^\| [^|]+ \| `([A-Z]+)`, (?:in the modality's file under )?`([^`]+)`",
        (ROOT / "CONTRIBUTING.md").read_text(),
        re.MULTILINE,
    )
    assert [name for name, _ in rows] == ["SOURCES", "RULES", "TIERS", "ENCODERS", "MODALITIES"]
    texts = {
        name: [
            path.read_text() for path in sorted((ROOT / place).glob("*.py") if place.endswith("/") else [ROOT / place])
        ]
        for name, place in rows
    }
    assert [
        name
        for name in texts
        if not any(re.search(rf"^(?:\w+_)?{name}\b.* = \w*[({{]$", text, re.M) for text in texts[name])
    ] == []


def test_the_rule_of_contributing_is_a_rule_that_does_not_exist_yet():
    from mmlake.error_codes import CODES
    from mmlake.modalities import MODALITIES
    from mmlake.quality.rule import Rule

    text = re.search(r"^    (Rule\(\n.*?^    \)),$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL)[
        1
    ]
    rule = Rule(**{given.arg: ast.literal_eval(given.value) for given in ast.parse(text, mode="eval").body.keywords})
    taken = {other.error_code for row in MODALITIES.values() for other in row.rules} | set(CODES)
    assert rule.error_code not in taken
    assert rule.error_code - 1 in taken


def test_the_settings_of_the_quickstart_are_settings():
    block = re.search(r"    \[quality\]\n.*?\n\n    mmlake", (DOCS / "quickstart.md").read_text(), re.DOTALL)[
        0
    ].removesuffix("    mmlake")
    settings = Settings.of(tomllib.loads(block.replace("    ", "")))
    assert "static" in settings.quality.disabled
    assert settings.digest(("quality",)) != Settings().digest(("quality",))


def test_the_training_loop_of_the_quickstart_compiles():
    code = re.search(r"```python\n(.*?)```", (DOCS / "quickstart.md").read_text(), re.DOTALL)[1]
    compile(code, "quickstart.md", "exec")


@pytest.mark.parametrize("page", [*PAGES, *DECISIONS], ids=lambda path: path.name)
def test_the_docs_are_about_the_project_alone(page):
    assert not re.search(r"/work/|\bsession\b|\bTODO\b", page.read_text())
