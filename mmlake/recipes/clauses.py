"""What each clause of a recipe keeps out of a version, over whole columns of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import SettingsError
from mmlake.recipes.sql import METADATA, Condition, near

SIZES = ("size_bytes", "width_px", "height_px", "duration_s", "num_words")  # columns that `size` may bound
NEVER = "P0"  # the severity of what enters no version that reads verdicts
CONTAMINATED, EVAL_SETS = "contaminated", "eval_sets"  # columns: whether an eval set has it, and which ones
_LANGUAGES = ("language", "lang", "locale")  # fields in which sources state it


def causes(
    rows: pa.Table, statuses: tuple[str, ...], denied: Callable[[Sequence[str]], str | None], *, judges: bool
) -> pa.Array:
    """See `Recipe.causes`. denied: the first of these licences that is not admitted. judges: whether verdicts count;
    then P0 keeps out whatever the statuses are."""
    status = pc.fill_null(rows["status"].combine_chunks().cast(pa.string()), "None")
    rule = pc.fill_null(rows["rule"].combine_chunks().cast(pa.string()), "")
    named = pc.if_else(
        pc.not_equal(rule, ""),
        pc.binary_join_element_wise("rule", rule, ":"),
        pc.binary_join_element_wise("status", status, ":"),
    )
    admitted = pc.is_in(status, value_set=pa.array(list(statuses), pa.string()))
    if judges:
        severity = pc.fill_null(rows["severity"].combine_chunks().cast(pa.string()), "")
        admitted = pc.and_(admitted, pc.not_equal(severity, NEVER))
    by_status = pc.if_else(admitted, pa.scalar(None, pa.string()), named)
    return pc.coalesce(by_status, _denied(rows["licences"].combine_chunks(), denied))


@dataclass(frozen=True, kw_only=True)
class LeadClauses:
    """The clauses that are asked of leading parts alone."""

    place: str  # what messages call the recipe
    sources: tuple[str, ...]
    size: tuple[tuple[str, float | None, float | None], ...]
    languages: tuple[str, ...]
    condition: Condition | None

    def causes(self, rows: pa.Table) -> pa.Array:
        """See `Recipe.lead_causes`."""
        found = [pa.nulls(rows.num_rows, pa.string())]
        names = {name.lower(): name for name in rows.column_names}
        self.check(list(names.values()), _fields(rows))
        if self.sources:
            found.append(_foreign(rows["sources"].combine_chunks(), self.sources))
        if self.size:
            fits = np.ones(rows.num_rows, dtype=bool)
            for column, low, high in self.size:
                fits &= _within(rows[names[column]], low, high)
            found.append(_where(~fits, "size"))
        if self.languages:
            found.append(_where(~_states(rows, self.languages), "language"))
        if self.condition is not None:
            out = ~self.condition.holds(rows)
            if CONTAMINATED in self.condition.columns:
                found.append(_in_eval_set(rows[names[EVAL_SETS]].combine_chunks(), out))
            found.append(_where(out, "where"))
        return pc.coalesce(*found)

    def contaminated(self, rows: pa.Table) -> pa.Array:
        """See `Recipe.contaminated_causes`."""
        asked = None if self.condition is None else self.condition.only((CONTAMINATED, EVAL_SETS))
        if asked is None:
            return pa.nulls(rows.num_rows, pa.string())
        names = {name.lower(): name for name in rows.column_names}
        return _in_eval_set(rows[names[EVAL_SETS]].combine_chunks(), ~asked.holds(rows))

    def check(self, columns: Sequence[str], fields: Sequence[str] | None) -> None:
        """See `Recipe.check`."""
        if self.condition is not None:
            self.condition.check(columns, fields)
        known = {name.lower() for name in columns}
        for column, _, _ in self.size:
            if column not in known:
                raise SettingsError(
                    f"{self.place}: size: the catalog has no column {column!r}{near(column, SIZES)}; expected one of "
                    f"{', '.join(SIZES)}"
                )
        if self.languages and fields is not None and not set(_LANGUAGES) & set(fields):
            raise SettingsError(
                f"{self.place}: languages: no source states one in {' or '.join(_LANGUAGES)}; leave the key out, or "
                "ask for another field with `where`"
            )


def _denied(licences: pa.Array, denied: Callable[[Sequence[str]], str | None]) -> pa.Array:
    """The cause of each row whose licences the recipe denies."""
    joined = pc.binary_join(licences, "\n").dictionary_encode()
    lists = [text.split("\n") if text else [] for text in joined.dictionary.to_pylist()]
    found = [None if (licence := denied(one)) is None else f"licence:{licence}" for one in lists]
    return pa.array(found, pa.string()).take(joined.indices) if found else pa.nulls(len(licences), pa.string())


def _foreign(sources: pa.Array, admitted: tuple[str, ...]) -> pa.Array:
    joined = pc.binary_join(sources, "\n").dictionary_encode()
    lists = [sorted(text.split("\n")) if text else ["none stated"] for text in joined.dictionary.to_pylist()]
    found = [None if set(one) & set(admitted) else f"source:{one[0]}" for one in lists]
    named = pa.array(found, pa.string()).take(joined.indices) if found else pa.nulls(len(sources), pa.string())
    return pc.if_else(pc.is_null(sources), pa.scalar("source:none stated"), named)


def _in_eval_set(sets: pa.Array, out: np.ndarray) -> pa.Array:
    """The first eval set of each row that is out and that one has."""
    held = pc.greater(pc.fill_null(pc.list_value_length(sets), 0), 0)
    chosen = pc.and_(held, pa.array(out))
    named = pc.binary_join_element_wise(CONTAMINATED, pc.list_element(sets.filter(chosen), 0), ":")
    return pc.replace_with_mask(pa.nulls(len(sets), pa.string()), chosen, named)


def _within(column: pa.ChunkedArray, low: float | None, high: float | None) -> np.ndarray:
    values = pc.cast(column, pa.float64()).combine_chunks()
    fits = pc.and_(
        pc.greater_equal(values, -np.inf if low is None else low),
        pc.less_equal(values, np.inf if high is None else high),
    )
    found: np.ndarray = pc.fill_null(fits, True).to_numpy(zero_copy_only=False)
    return found


def _states(rows: pa.Table, languages: tuple[str, ...]) -> np.ndarray:
    """Whether each row's language is among these, or not stated: `en` stands for `en-GB` too."""
    cells = rows[METADATA].combine_chunks()
    stated = pa.nulls(len(cells), pa.string())
    for name in _LANGUAGES:
        if name in _fields(rows):
            stated = pc.coalesce(stated, pc.cast(pc.struct_field(cells, name), pa.string()))
    spelled = stated.dictionary_encode()
    wanted = tuple(one.lower() for one in languages)
    fits = [
        any(text.lower() == one or text.lower().replace("_", "-").startswith(f"{one}-") for one in wanted)
        for text in spelled.dictionary.to_pylist()
    ]
    known = pa.array(fits, pa.bool_()).take(spelled.indices) if fits else pa.nulls(len(stated), pa.bool_())
    found: np.ndarray = pc.fill_null(known, True).to_numpy(zero_copy_only=False)
    return found


def _fields(rows: pa.Table) -> list[str]:
    if METADATA not in rows.column_names:
        return []
    return [field.name for field in rows.schema.field(METADATA).type]


def _where(chosen: np.ndarray, cause: str) -> pa.Array:
    return pc.if_else(pa.array(chosen), pa.scalar(cause), pa.scalar(None, pa.string()))
