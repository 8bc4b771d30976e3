"""docs/settings.md: every setting with its default and the comment at its field, so that no page repeats them by
hand."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_type_hints

from mmlake.cli.pages import MADE
from mmlake.records import canonical_json
from mmlake.settings import Settings


def settings_page() -> str:
    """The page."""
    parts = [
        "# Settings",
        "",
        MADE,
        "",
        "`--settings FILE` of a command names a TOML file with sections and fields of this page; what it does not name "
        "keeps its default. Names and values that there are not are refused. What a table was made with is in its "
        "stamp, so a changed setting makes anew what it steers and nothing else.",
        "",
    ]
    defaults = Settings()
    for section in dataclasses.fields(Settings):
        held = getattr(defaults, section.name)
        parts += [f"## [{section.name}]", "", _sentence(type(held)), ""]
        parts += _table((one, getattr(held, one.name), what) for one, what in _commented(type(held)))
        for name, kind in _nested(type(held)):
            parts += [f"### [{section.name}.{name}]", "", _sentence(kind), ""]
            parts += _table((one, one.default, what) for one, what in _commented(kind))
    return "\n".join(parts)


def _sentence(kind: type) -> str:
    """The docstring of the class, on one line."""
    return " ".join((kind.__doc__ or "").split())


def _table(rows: Iterator[tuple[dataclasses.Field[Any], Any, str]]) -> list[str]:
    lines = ["| setting | default | what it is |", "| --- | --- | --- |"]
    lines += [
        f"| `{one.name}` | {_shown(default)} | {what.replace('|', chr(92) + '|')} |" for one, default, what in rows
    ]
    return [*lines, ""]


def _shown(default: Any) -> str:
    """A default as TOML has it."""
    if default is dataclasses.MISSING:
        return "needed"
    if default is None:
        return "not set"
    if isinstance(default, Mapping) and not default:
        return "`{}`"
    return f"`{canonical_json(default).replace('|', chr(92) + '|')}`"


def _nested(kind: type) -> Iterator[tuple[str, type]]:
    """Tables of any NAME within the section."""
    for name, hint in get_type_hints(kind).items():
        for one in get_args(hint):
            if isinstance(one, type) and dataclasses.is_dataclass(one):
                yield f"{name}.NAME", one


def _commented(kind: type) -> Iterator[tuple[dataclasses.Field[Any], str]]:
    """Each field, with the comment on its last line and below it."""
    source = inspect.getsource(sys.modules[kind.__module__])
    lines = source.splitlines()
    (body,) = (
        node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    )
    ends = {
        node.target.id: node for node in body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    for one in dataclasses.fields(kind):
        node = ends[one.name]
        assert node.end_lineno is not None
        said = [lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode().strip()]
        for line in lines[node.end_lineno :]:
            if not line.strip().startswith("#"):
                break
            said.append(line.strip())
        yield one, " ".join(text.lstrip("# ") for text in said if text).removeprefix("fmt: skip ")
