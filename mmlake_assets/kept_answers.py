"""Answers of a SQLite database that are given again until somebody changes it.

A connection knows both: how many rows it has changed itself (`total_changes`), and whether another connection, of any
process, has committed since (`PRAGMA data_version`). What matches neither empties the store, so nobody has to list the
methods that write; a writer that knows what it changes spares the rest.
"""

import sqlite3
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

_MAX_ANSWERS = 1024  # each a record, or tags of a hundred partitions: a few MB. A run of a modality keeps a hundred
_T = TypeVar("_T")


class KeptAnswers:
    """The answers to questions that were asked before. For one thread at a time."""

    def __init__(self) -> None:
        self._answers: dict[str, dict[Hashable, Any]] = {}  # subject -> question -> answer
        self._num_kept = 0
        self._of: tuple[sqlite3.Connection, int, int] | None = None  # whose, its changes, its data version

    def answer(self, connection: sqlite3.Connection, subject: str, question: Hashable, ask: Callable[[], _T]) -> _T:
        """What `ask` gives, or gave for the same question. subject: by whose change alone the answer may change."""
        return self.answers(connection, (subject,), question, lambda _: {subject: ask()})[subject]

    def answers(
        self,
        connection: sqlite3.Connection,
        subjects: Collection[str],
        question: Hashable,
        ask: Callable[[list[str]], Mapping[str, _T]],
    ) -> Mapping[str, _T]:
        """What `ask` gives for each subject, or gave before; it is called once, with those of which nothing is known,
        and has an answer for each."""
        if connection.in_transaction:  # what is not committed may be taken back, which changes no count
            return ask(list(subjects))
        self._check(connection)
        known = {
            subject: kept[question] for subject in subjects if question in (kept := self._answers.get(subject, {}))
        }
        if not (missing := [subject for subject in subjects if subject not in known]):
            return known
        found = ask(missing)
        if self._num_kept + len(missing) > _MAX_ANSWERS:
            self._forget_all()
        for subject in missing:
            self._answers.setdefault(subject, {})[question] = found[subject]
        self._num_kept += len(missing)
        return {**known, **found}

    @contextmanager
    def sparing(self, connection: sqlite3.Connection, changed: Collection[str]) -> Iterator[None]:
        """A block that writes, and changes the answers about these subjects alone; they are forgotten."""
        self._check(connection)
        for subject in changed:
            self._num_kept -= len(self._answers.pop(subject, ()))
        yield
        if self._of is not None:  # where others commit meanwhile, the data version still differs
            self._of = (connection, connection.total_changes, self._of[2])

    def _check(self, connection: sqlite3.Connection) -> None:
        now = (connection, connection.total_changes, connection.execute("PRAGMA data_version").fetchone()[0])
        if self._of != now:
            self._forget_all()
            self._of = now

    def _forget_all(self) -> None:
        self._answers.clear()
        self._num_kept = 0
