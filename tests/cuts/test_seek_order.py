"""`-ss` stands before `-i` wherever ffmpeg is called: behind it, ffmpeg decodes from the beginning and throws away."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmlake.cuts import CutSettings, Span, cut_film, video
from mmlake.errors import UnreadableItem
from tests import make

ROOT = Path(__file__).parents[2]
FOLDERS = ("mmlake", "mmlake_assets", "mmlake_resources", "benchmarks", "examples", "deploy", "tests")
SEEK = "-ss"


def _files(folder: Path) -> Iterator[Path]:
    """The Python files of the tree; environments of the benchmarks' peers are none of it."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("peers", ".peers", "__pycache__")]
        yield from (Path(place) / name for name in names if name.endswith(".py"))


def _words(node: ast.AST) -> list[str | None]:
    """The words of a list, tuple or call, in order; None for what is no constant."""
    held = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
    return [one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else None for one in held]


def late_seeks(code: str) -> list[int]:
    """Lines on which a seek stands behind its input, or is an option of an output of ffmpeg-python."""
    found: list[int] = []
    if SEEK not in code and "ss=" not in code:
        return found
    for node in ast.walk(ast.parse(code)):
        words = _words(node)
        if SEEK in words and "-i" in words and words.index(SEEK) > words.index("-i"):
            found.append(node.lineno)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "output":
            found += [node.lineno for option in node.keywords if option.arg == "ss"]
    return found


def test_no_file_of_the_tree_seeks_behind_the_input() -> None:
    files = [path for folder in FOLDERS for path in _files(ROOT / folder)]
    assert len(files) > 500
    late = {str(path.relative_to(ROOT)): lines for path in files if (lines := late_seeks(path.read_text()))}
    assert late == {}


@pytest.mark.parametrize("code", ["run('-i', film, '-ss', '3', out)", "ffmpeg.output(node, out, ss=3)"])
def test_a_late_seek_would_be_found(code: str) -> None:
    assert late_seeks(code) == [1]


@pytest.mark.parametrize("media", ["encode", "copy"])
def test_a_clip_is_sought_before_its_film_is_opened(
    media: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def noted(graph, **_):
        commands.append(graph.get_args())
        raise UnreadableItem(3303, "not run")

    monkeypatch.setattr(video, "run_ffmpeg", noted)
    (tmp_path / "film.mp4").write_bytes(make.film(1))
    span = Span(digest="a", parent_digest="b", start_us=500_000, end_us=900_000)
    with pytest.raises(UnreadableItem):
        cut_film(tmp_path / "film.mp4", tmp_path / "clip.mp4", span, settings=CutSettings(media=media))
    assert commands
    for words in commands:
        assert words.index(SEEK) < words.index("-i") and words.count(SEEK) == 1
