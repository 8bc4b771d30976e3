"""What the text of a filter may hold before the catalog's planner reads it: one condition, in brackets that close, of
known functions, and not so deep that the planner, which recurses, ends the process."""

from __future__ import annotations

import re

_MAX_CHARS = 20_000
_MAX_DEPTH = 32  # brackets in brackets
_MAX_OPERATORS = 500  # a chain of operators is as deep as it is long; the planner ends the process at some thousands
# each gives a value no larger than its arguments, in time in proportion to them
FUNCTIONS = frozenset(
    "abs ceil ceiling floor round sign sqrt exp ln log log10 log2 pow power greatest least nullif coalesce "
    "lower upper length char_length character_length octet_length trim ltrim rtrim btrim left right substr substring "
    "strpos starts_with ends_with contains regexp_like regexp_match split_part array_length cardinality "
    "array_has array_has_any array_has_all array_contains list_has list_contains array_position "
    "cast try_cast date_part date_trunc extract to_timestamp to_date".split()
)
_BEFORE_BRACKETS = frozenset("and or not in between like ilike is when then else case any".split())
_TYPES = frozenset("decimal numeric varchar char timestamp".split())  # of a cast, with a size in brackets
_WORD_OPERATORS = frozenset("and or not like ilike between in is when".split())
_TOKEN = re.compile(
    r"""\s+|(?P<text>'(?:[^']|'')*')|(?P<name>"[^"]*"|`[^`]*`)|(?P<word>[^\W\d]\w*)|(?P<number>\d[\w.]*|\.\d+)"""
    r"""|(?P<open>[(\[])|(?P<close>[)\]])|(?P<operator><=|>=|<>|!=|==|\|\||[-+*/%=<>~!&|^])|(?P<rest>[.,])""",
)
_CLOSES = {")": "(", "]": "["}


def objection(text: str) -> str | None:
    """What a filter may not have, where the text has such; in words that follow its own."""
    if len(text) > _MAX_CHARS:
        return f"has {len(text)} characters, more than {_MAX_CHARS}"
    open_brackets: list[str] = []
    at, num_operators, before = 0, 0, ""
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or text.startswith(("--", "/*"), at):
            return f"has {text[at : at + 2]!r} at character {at}, which no condition has"
        kind, token = found.lastgroup, found[0].lower()
        at = found.end()
        if kind is None:
            continue
        if kind == "open":
            open_brackets.append(token)
            if token == "(" and before and before not in FUNCTIONS | _BEFORE_BRACKETS | _TYPES:
                return f"calls {before}(), which is none of the functions {', '.join(sorted(FUNCTIONS))}"
            if len(open_brackets) > _MAX_DEPTH:
                return f"has more than {_MAX_DEPTH} brackets in brackets"
        if kind == "close" and (not open_brackets or open_brackets.pop() != _CLOSES[token]):
            return f"closes a bracket at character {at - 1} that it did not open"
        num_operators += kind == "operator" or token in _WORD_OPERATORS
        before = token if kind == "word" else token.strip('"`') if kind == "name" else ""
    if open_brackets:
        return "opens a bracket that it does not close"
    return f"has {num_operators} operators, more than {_MAX_OPERATORS}" if num_operators > _MAX_OPERATORS else None
