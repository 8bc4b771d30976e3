"""A condition over catalog rows in SQL: one expression, checked before it runs, and run where it can reach nothing.

The text is parsed alone, and every node of it must be of a known kind: no statement, no subquery, no table function, no
name that is no column. Functions are those of FUNCTIONS: each gives the same for the same row, and takes time and
memory in proportion to it. What runs is written anew from the parsed expression, in an empty database without access
to files or the network, within bounds of memory and time.
"""

from __future__ import annotations

import atexit
import json
import re
import threading
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mmlake.errors import SettingsError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MAX_CHARS = 20_000
TIME_LIMIT_S = 120.0  # a million rows take a second or two
MEMORY_LIMIT = "1GB"
NUM_THREADS = 2
METADATA = "metadata"  # the column whose fields are those of the source
FUNCTIONS = frozenset(
    "+ - * / // % ** ^ || ~~ !~~ ~~* !~~* ~~~ @ & | "
    "abs ceil ceiling coalesce concat concat_ws contains date_part day dayofweek ends_with even exp floor greatest "
    "hash if ifnull instr isfinite isinf isnan lcase least left len length like_escape not_like_escape ilike_escape "
    "not_ilike_escape list_contains list_has list_has_all list_has_any array_contains array_has array_has_all "
    "array_has_any list_extract array_extract list_element list_value list_pack list_position list_unique "
    "list_distinct array_length ln log log10 log2 lower ltrim md5 mod month nullif nfc_normalize ord pow power prefix "
    "regexp_extract "
    "regexp_full_match regexp_matches right round rtrim sha256 sign split split_part sqrt starts_with str_split "
    "string_split strip_accents strlen strpos struct_extract substr substring suffix trim trunc try_cast ucase "
    "unicode upper year add subtract multiply divide mod position element_at array_slice list_slice".split()
)
_CLASSES = frozenset(
    "COMPARISON CONJUNCTION CONSTANT COLUMN_REF FUNCTION CAST CASE BETWEEN OPERATOR COLLATE TYPE".split()
)
_BANNED_TYPES = re.compile(r"SUBQUERY|PARAMETER|LAMBDA|WINDOW|STAR|POSITIONAL|DEFAULT")
_SPACE = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*")|(--[^\n]*|/\*.*?\*/|\s)+""", re.DOTALL)


def canonical(text: str) -> str:
    """The condition without comments, with one blank for any white space: two that differ in no more are equal."""
    return _SPACE.sub(lambda found: found[1] or " ", text).strip()


class Condition:
    """A condition that is one SQL expression."""

    def __init__(self, text: str, *, where: str) -> None:
        """where: what the text stands in, for messages. Raises SettingsError where it is no single expression, or has
        something in it that a condition may not have."""
        self.text, self._where = text, where
        if not text.strip() or len(text) > MAX_CHARS:
            raise SettingsError(
                f"{where}: the condition has {len(text.strip())} characters, expected 1 to {MAX_CHARS}; leave the key "
                "out to take everything"
            )
        self._sql, names, self._terms = _parsed(text, where)
        self.names: tuple[tuple[str, ...], ...] = names  # columns as they are spelled, ("metadata", field) for a field

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads, in lower case, sorted."""
        return tuple(sorted({name[0].lower() for name in self.names}))

    def only(self, columns: Iterable[str]) -> Condition | None:
        """What it asks of these columns alone: those of its terms, joined by AND, that name no other one. None where it
        asks nothing of them."""
        found = [term for term, names in self._terms if names and names <= set(columns)]
        return Condition(" AND ".join(f"({term})" for term in found), where=self._where) if found else None

    def check(self, columns: Iterable[str], fields: Iterable[str] | None) -> None:
        """Raises SettingsError, with near names, where a column or a source field is unknown. fields: those of
        `metadata`; None where they are not known yet."""
        known = {name.lower(): name for name in columns}
        known_fields = None if fields is None else {name.lower(): name for name in fields}
        for name in self.names:
            spelled = ".".join(name)
            if name[0].lower() == METADATA:
                if len(name) != 2:
                    raise SettingsError(
                        f'{self._where}: {spelled!r} is no source field; write metadata.NAME, or metadata."NAME"'
                    )
                if known_fields is not None and name[1].lower() not in known_fields:
                    raise SettingsError(
                        f"{self._where}: the sources have no field {name[1]!r}{near(name[1], known_fields.values())}; "
                        f"expected one of {_some(known_fields.values())}"
                    )
            elif len(name) != 1 or name[0].lower() not in known:
                raise SettingsError(
                    f"{self._where}: the catalog has no column {spelled!r}{near(spelled, known.values())}; expected "
                    f"one of {_some([*known.values(), 'metadata.FIELD'])}; text stands in single quotes"
                )

    def holds(self, rows: pa.Table, *, time_limit_s: float = TIME_LIMIT_S) -> np.ndarray:
        """Whether each row meets the condition, bool; one of unknown value (NULL) does not. Raises SettingsError where
        the types do not fit, or it takes too long or too much memory."""
        struct = rows.schema.field(METADATA).type if METADATA in rows.column_names else None
        fields = [field.name for field in struct] if struct is not None else []
        self.check([name for name in rows.column_names if name != METADATA], fields)
        if not rows.num_rows:
            return np.zeros(0, dtype=bool)
        needed = [name for name in rows.column_names if name.lower() in self.columns]
        table = rows.select(needed).append_column("__row", pa.array(np.arange(rows.num_rows)))
        found = self._run(table, time_limit_s)
        holds = np.zeros(rows.num_rows, dtype=bool)
        holds[found] = True
        return holds

    def _run(self, table: pa.Table, time_limit_s: float) -> np.ndarray:
        import duckdb

        with _database(MEMORY_LIMIT) as database:
            database.register("catalog", table)
            clock = threading.Timer(time_limit_s, database.interrupt)
            clock.start()
            try:
                answer = database.execute(f"SELECT __row FROM catalog WHERE ({self._sql})").fetchnumpy()
            except duckdb.InterruptException:
                raise self._refused(f"takes more than {time_limit_s:g} s; make it simpler") from None
            except duckdb.OutOfMemoryException:
                raise self._refused(f"takes more than {MEMORY_LIMIT} of memory; make it simpler") from None
            except duckdb.Error as error:
                raise self._refused(f"does not fit the columns: {_reason(error)}; correct it") from None
            finally:
                clock.cancel()
        found: np.ndarray = np.asarray(answer["__row"], dtype=np.int64)
        return found

    def _refused(self, reason: str) -> SettingsError:
        return SettingsError(f"{self._where}: the condition {self.text[:200]!r} {reason}")


def near(name: str, known: Iterable[str]) -> str:
    """ ", did you mean ...?" for messages; empty where nothing is near."""
    by_lower = {one.lower(): one for one in known}
    found = get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)
    return f" (near: {', '.join(by_lower[one] for one in found)})" if found else ""


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:60]) + (" and others" if len(listed) > 60 else "") if listed else "none"


def _database(memory: str, *, threads: int = NUM_THREADS) -> DuckDBPyConnection:
    import duckdb

    database = duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
            "memory_limit": memory,
            "threads": str(threads),
        },
    )
    database.execute("SET lock_configuration = true")
    return database


class _Parser:
    """An empty database that parses expressions, and starts with the first: that takes as long as fifty of them."""

    def __init__(self) -> None:
        self._database: DuckDBPyConnection | None = None
        self._lock = threading.Lock()

    def cursor(self) -> DuckDBPyConnection:
        """A connection for one thread, to be closed."""
        with self._lock:
            if self._database is None:
                self._database = _database("256MB", threads=1)
            return self._database.cursor()

    def close(self) -> None:
        """Let go of the database; the next question starts another one."""
        with self._lock:
            if self._database is not None:
                self._database.close()
            self._database = None


@cache
def _parser() -> _Parser:
    """That of this process: a folder of recipes is read by each command, sensor and version."""
    found = _Parser()
    atexit.register(found.close)  # else DuckDB prints what was left open when the interpreter ends
    return found


@lru_cache(maxsize=64)
def _parsed(text: str, where: str) -> tuple[str, tuple[tuple[str, ...], ...], _Terms]:
    """(the expression as it is run, names of its columns, its terms)."""
    import duckdb

    def refuse(what: str) -> SettingsError:
        return SettingsError(
            f"{where}: {text[:200]!r} {what}; expected one SQL condition over columns of the catalog, such as "
            "modality = 'image' AND min_side_px >= 64"
        )

    with _parser().cursor() as database:
        try:
            answer = database.execute("SELECT json_serialize_sql(?)", [f"SELECT {text}"]).fetchone()
            parsed = json.loads(answer[0] if answer else "null")
        except (duckdb.Error, ValueError, RecursionError):
            _parser().close()  # after an error of its own a database may refuse all that follows
            raise refuse("cannot be read") from None
        if parsed.get("error"):
            raise refuse(f"is no SQL expression ({str(parsed.get('error_message'))[:120]})")
        expression = _only_expression(parsed["statements"])
        if expression is None:
            raise refuse("is more than one expression")
        for node in _nodes(expression):
            if (reason := _objection(node)) is not None:
                raise refuse(reason)
        written = [_written(database, parsed, term) for term in (expression, *_terms_of(expression))]
    if "" in written:
        raise refuse("cannot be read")
    columns = [frozenset(name[0].lower() for name in _columns(term)) for term in _terms_of(expression)]
    return written[0], tuple(sorted(_columns(expression))), tuple(zip(written[1:], columns, strict=True))


_Terms = tuple[tuple[str, frozenset[str]], ...]  # what is joined by AND, each with its columns in lower case


def _written(database: DuckDBPyConnection, parsed: dict[str, Any], expression: dict[str, Any]) -> str:
    """The expression, written anew: no comment, bracket or semicolon of the text reaches what runs. Empty where it
    cannot be."""
    (statement,) = parsed["statements"]
    query = parsed | {"statements": [statement | {"node": statement["node"] | {"select_list": [expression]}}]}
    answer = database.execute("SELECT json_deserialize_sql(?)", [json.dumps(query)]).fetchone()
    sql = answer[0] if answer else ""
    return sql[len("SELECT ") :].rstrip().rstrip(";") if sql.upper().startswith("SELECT ") else ""


def _terms_of(expression: dict[str, Any]) -> list[dict[str, Any]]:
    if expression.get("type") != "CONJUNCTION_AND":
        return [expression]
    return [term for child in expression["children"] for term in _terms_of(child)]


def _columns(expression: dict[str, Any]) -> set[tuple[str, ...]]:
    return {tuple(node["column_names"]) for node in _nodes(expression) if node.get("class") == "COLUMN_REF"}


def _only_expression(statements: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The expression of a query that is nothing else."""
    if len(statements) != 1 or statements[0].get("named_param_map"):
        return None
    query = statements[0]["node"]
    bare = (
        query.get("type") == "SELECT_NODE"
        and len(query["select_list"]) == 1
        and not query["select_list"][0].get("alias")
        and (query.get("from_table") or {}).get("type") == "EMPTY"
        and not (query.get("cte_map") or {}).get("map")
        and not any(
            query.get(part)
            for part in ("modifiers", "where_clause", "group_expressions", "group_sets", "having", "sample", "qualify")
        )
    )
    return query["select_list"][0] if bare else None


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every JSON object of the parsed expression."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _objection(node: dict[str, Any]) -> str | None:
    """What a condition may not have, where the node is such."""
    kind, what = str(node.get("class", "")), str(node.get("type", ""))
    if "statements" in node or "select_list" in node or _BANNED_TYPES.search(f"{kind} {what}"):
        return f"has a {(kind or what).lower().replace('_', ' ')} in it"
    if kind and kind not in _CLASSES:
        return f"has a {kind.lower()} in it"
    if kind == "FUNCTION":
        name = str(node.get("function_name", "")).lower()
        if name not in FUNCTIONS or node.get("schema") or node.get("catalog"):
            return f"calls {name!r}, which no condition may"
    return None


def _reason(error: Exception) -> str:
    """The first line of what the database said, without its class."""
    line = (str(error).strip().splitlines() or ["unknown"])[0]
    return line.partition(": ")[2][:200] or line[:200]
