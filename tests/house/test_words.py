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
from functools import cache
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
# the position in a file, as Python's files name it; a kind of subtitles, as FFmpeg names it
FOREIGN = ("tell", "hearing_impaired")
# what is left out of a file: its path and an expression
ALLOWED = {
    "docs/features.md": r"cannot tell:|Optical-flow track beside",  # the words of the requirement
    "mmlake/preprocess/transcripts/subtitles.py": r"\|STYLE\|",  # a block of WebVTT
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


def _folder(path: Path) -> str:
    """The first part of the path of a file below the root; `.` for one at the root."""
    return path.relative_to(ROOT).parts[0] if path.parent != ROOT else "."


def _split(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.replace("_", " "))


def _names(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Every identifier: whatever a tree has as a string that is no constant."""
    line = 0
    for node in nodes:
        line = getattr(node, "lineno", line)
        if not isinstance(node, ast.Constant):
            for _, value in ast.iter_fields(node):
                for one in value if isinstance(value, list) else (value,):
                    if isinstance(one, str):
                        yield from ((line, part.strip("_")) for part in one.split("."))


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """The comments of a text in which something banned stands behind a `#`; that may be a string, which only reading
    all of it shows."""
    if any(_ANY.search(_split(line.partition("#")[2])) for line in text.splitlines() if "#" in line):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def _strings(nodes: list[ast.AST], *, with_messages: bool) -> Iterator[tuple[int, str]]:
    """Docstrings; with all other strings where these are messages."""
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (with_messages or id(node) in alone):
            yield node.lineno, node.value


_ANY = re.compile(rf"(?i)(?<![\w-])(?:{'|'.join(f'(?:{expression})' for expression in WORDS)})(?![\w-])")


def _banned(text: str) -> Iterator[str]:
    if not _ANY.search(parts := _split(text)):
        return
    for expression, instead in WORDS.items():
        for found in re.finditer(rf"(?i)(?<![\w-])(?:{expression})(?![\w-])", parts):
            yield f"'{found[0]}', write: {instead}"


@cache
def _banned_name(name: str) -> tuple[str, ...]:
    if name in NAMES:
        return (f"'{name}', write: {NAMES[name]}",)
    return () if name in FOREIGN else tuple(_banned(name))


def _found(path: Path) -> Iterator[str]:
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    yield from _banned(path.stem)
    text = re.sub(ALLOWED[name], "", path.read_text()) if name in ALLOWED else path.read_text()
    if path.suffix != ".py":
        # a test that a page names is read where it stands
        lines = enumerate(re.sub(r"::test_\w+", "", text).splitlines(), start=1)
        yield from (f"{number}: {word}" for number, line in lines for word in _banned(line))
        return
    nodes = list(ast.walk(ast.parse(text)))
    for number, name_in_code in sorted(set(_names(nodes))):
        yield from (f"{number}: {word}" for word in _banned_name(name_in_code))
    with_messages = name.startswith("mmlake") and path.name not in PROSE
    for number, sentence in (*_comments(text), *_strings(nodes, with_messages=with_messages)):
        yield from (f"{number}: {word}" for word in _banned(sentence))


@pytest.mark.parametrize("folder", sorted({_folder(path) for path in FILES}))
def test_files_use_the_words_of_the_field(folder: str) -> None:
    found = {str(path.relative_to(ROOT)): list(_found(path)) for path in FILES if _folder(path) == folder}
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def told() -> int:\n    return 1\n", 1),
        ("x = 1\nisTold = x\n", 2),
        ("def f(is_told: int) -> None:\n    g(told=1)\n", 1),
        ("import told.a\n", 1),
        ("try:\n    pass\nexcept OSError as told:\n    pass\n", 3),
        ("but = 1\n", 1),
        ("x.but\n", 1),
        ("x = 1  # as we told you\n", 1),
        ('def f() -> None:\n    """What is told."""\n', 2),
    ],
)
def test_a_banned_word_is_found_wherever_it_stands(text: str, line: int, tmp_path: Path) -> None:
    (path := tmp_path / "a.py").write_text(text)
    assert {found.partition(":")[0] for found in _found(path)} >= {str(line)}


@pytest.mark.parametrize("text", ['x = "# told"\n', "x.tell()\n", "# untolds\n", "x = ['but']\n"])
def test_what_is_no_identifier_comment_or_docstring_is_not_read(text: str, tmp_path: Path) -> None:
    (path := tmp_path / "a.py").write_text(text)
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
