"""One word per idea: words that gave way to those of the field do not come back.

Read are the names of files, identifiers, docstrings and comments of all code, the messages of the packages, and the
pages for people. Identifiers are split at underscores and capitals: `is_told` and `isTold` are both found.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# a banned expression, and what to write instead
WORDS = {
    r"tells?|telling|told|untold": "detect, classify, distinguish, report, say",
    r"(look|looks|looked|looking)\b(?! up\b)": "inspect, scan, search, resemble",
    r"beside": "sidecar, sibling, companion, next to, while",
    r"weigh|weighs|weighed|weighing": "estimate; a sample has a weight",
    r"wish|wishes|wished": "opt-out, request",
    r"listeners?": "SpeechRecognizer; a server has a socket",
    r"hear|hears|heard|hearing": "recognize, obey",
    r"dear|dearer": "expensive",
    r"mend|mends|mended|mending": "repair",
    r"speaks? of|spoke of|speaks? for": "describe, refer to",
    r"for ever": "permanently, without end",
    r"heed|heeds|heeded": "obey",
    r"in vain": "fruitless, without result",
    r"seeds/\w+|(?-i:FACTS|DESIGN|STYLE)(\.md)?": "a page of docs/; readers have no other",
}
# banned as whole identifiers; in a sentence and in the name of a test they are plain English
NAMES = {"but": "replace, spared"}
# identifiers that others chose
FOREIGN = ("tell",)  # the position in a file, as Python's files name it
# what is left out of a file: its path and an expression
ALLOWED = {
    "docs/features.md": r"cannot tell:|Optical-flow track beside",  # the words of the requirement
    "mmlake/quality/text.py": r"are looking for",  # a phrase that pages of errors have
}
# their strings are sentences of the sample corpus, which has the words that people use
PROSE = ("image_shards.py", "paraphrases.py", "prose.py", "sentences.py", "text_shards.py", "topics.py")
FOLDERS = ("mmlake", "mmlake_assets", "mmlake_resources", "benchmarks", "examples", "tests")
FILES = sorted(
    path
    for path in (
        *(path for folder in FOLDERS for kind in ("py", "html") for path in (ROOT / folder).rglob(f"*.{kind}")),
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),  # the records of docs/decisions are not rewritten
        *(ROOT / "benchmarks").glob("*.md"),
    )
    if path != Path(__file__) and not {"peers", ".peers"} & set(path.parts)
)


def _split(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.replace("_", " "))


def _names(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string.strip("_")


def _sentences(text: str, *, with_messages: bool) -> Iterator[tuple[int, str]]:
    """Comments and docstrings; with all other strings where these are messages."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    tree = ast.parse(text)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (with_messages or id(node) in alone):
            yield node.lineno, node.value


def _banned(text: str, words: dict[str, str]) -> Iterator[str]:
    for expression, instead in words.items():
        for found in re.finditer(rf"(?i)(?<![\w-])(?:{expression})(?![\w-])", _split(text)):
            yield f"'{found[0]}', write: {instead}"


def _found(path: Path) -> Iterator[str]:
    name = str(path.relative_to(ROOT))
    yield from _banned(path.stem, WORDS)
    text = re.sub(ALLOWED[name], "", path.read_text()) if name in ALLOWED else path.read_text()
    if path.suffix != ".py":
        # a test that a page names is read where it stands
        lines = enumerate(re.sub(r"::test_\w+", "", text).splitlines(), start=1)
        yield from (f"{number}: {word}" for number, line in lines for word in _banned(line, WORDS))
        return
    for number, one in _names(text):
        if one in NAMES:
            yield f"{number}: '{one}', write: {NAMES[one]}"
        if one not in FOREIGN:
            yield from (f"{number}: {word}" for word in _banned(one, WORDS))
    with_messages = name.startswith("mmlake") and path.name not in PROSE
    for number, sentence in _sentences(text, with_messages=with_messages):
        yield from (f"{number}: {word}" for word in _banned(sentence, WORDS))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_use_the_words_of_the_field(path: Path) -> None:
    assert list(_found(path)) == []


def test_the_glossary_has_each_noun_once_in_order() -> None:
    rows = [line.split(" | ") for line in (ROOT / "docs" / "glossary.md").read_text().splitlines()[6:]]
    nouns = [row[0].removeprefix("| ") for row in rows]
    assert nouns == sorted(set(nouns))
    assert all(len(row) == 3 and row[1].endswith(".") for row in rows)


def test_the_places_of_the_glossary_exist() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    pages = re.findall(r"\]\(([^)]+)\)", text)
    code = re.findall(r"`(mmlake[\w/.]+)`", text)
    assert [name for name in pages if not (ROOT / "docs" / name).exists()] == []
    assert [name for name in code if not (ROOT / name).exists()] == []
