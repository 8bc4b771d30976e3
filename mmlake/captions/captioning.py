"""The stage itself: a row per unit and kind of question; what no model answers is a row as well.

Enters: tracks of units, and the table as it was. Leaves: the CAPTIONS table. Answers are kept as they came: a question
that was answered before is not asked again, and a new bound judges the old answer.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.border import Failure, Runner, attempt, map_opened
from mmlake.captions import correction, description
from mmlake.captions.models import Model, load_model
from mmlake.captions.settings import CaptionSettings
from mmlake.endpoint import EndpointSettings, Picture
from mmlake.progress import Advance, silent
from mmlake.records import canonical_json, digest_of
from mmlake.schemas.captions import CAPTIONS, CORRECTION, DESCRIPTION
from mmlake.store import Blobs

T = TypeVar("T")
R = TypeVar("R")

_log = logging.getLogger(__name__)
GLOSSARY = "glossary"
_FAILED, _LINES_REFUSED = 3806, 3804
_COLUMNS = ("digest", "status", "duration_s", "keyframes", "cues", "transcript", "transcript_source")
_RECOGNIZED = "asr:"  # begins the transcript_source of what a recognizer wrote
_Key = tuple[str, str, str]  # digest, kind, question_digest


@dataclass(frozen=True, kw_only=True, slots=True)
class _Question:
    """What is asked about one unit."""

    digest: str
    kind: str
    model: Model | None  # None: the glossary alone
    instructions: str
    parts: list[list[str | _Frame]]  # of each of its conversations
    judge: Callable[[Sequence[str]], dict[str, Any]]  # answers, one per conversation -> columns; UnreadableItem
    revision: str

    @property
    def producer(self) -> str:
        return GLOSSARY if self.model is None else self.model.producer

    def question_digest(self) -> str:
        """SHA-256 of all that the answer depends on; no picture is read for it."""
        asked = [[part if isinstance(part, str) else {"jpeg": part.digest} for part in one] for one in self.parts]
        model = None if self.model is None else [self.model.producer, self.model.name, self.model.revision]
        return digest_of(canonical_json([self.kind, model, self.instructions, asked]).encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class _Frame:
    """A picture of a question, before it is read."""

    digest: str


@dataclass(frozen=True, slots=True)
class _Opened:
    """A question with its pictures."""

    model: Model
    instructions: str
    parts: list[list[str | Picture]] = field(default_factory=list)


def captions(
    tracks: pa.Table,
    *,
    store: Blobs,
    describes: bool,
    before: pa.Table | None = None,
    settings: CaptionSettings | None = None,
    endpoint: EndpointSettings | None = None,
    advance: Advance = silent,
) -> pa.Table:
    """The CAPTIONS table of the units that decoded: a correction of each transcript, a description of each clip with
    keyframes, as far as the settings ask for them.

    An answer that is missing or cannot be used is a row with a code. Raises for settings, missing libraries and
    weights, a failing store, and a server that answers nobody. tracks: of units. describes: whether units are clips of
    films. before: the table as it was, whose answers to the same questions are taken over.
    """
    settings, endpoint = settings or CaptionSettings(), endpoint or EndpointSettings()
    asked = _asked(tracks, settings, endpoint, describes=describes)
    known = _answered(before)
    rows, open_questions = [], []
    for question in asked:
        key = (question.digest, question.kind, question.question_digest())
        if question.model is None or key in known:
            rows.append(_row(question, known.get(key, [])))
        else:
            open_questions.append(question)
    workers = max((one.model.num_threads for one in open_questions if one.model is not None), default=1)
    found = map_opened(
        _Threads(workers),
        _ask,
        open_questions,
        opened=partial(_opened, store=store),
        code=_FAILED,
        what="the model cannot answer",
    )
    rows += [_row(question, answers) for question, answers in found]
    advance(tracks.num_rows)
    table = schemas.from_rows(CAPTIONS, rows)
    num_flawed = int(pc.sum(pc.not_equal(table["status"], "ok")).as_py() or 0)
    _log.info("captions: %d rows, %d asked, %d flagged or failed", len(rows), len(open_questions), num_flawed)
    return table


def _asked(
    tracks: pa.Table, settings: CaptionSettings, endpoint: EndpointSettings, *, describes: bool
) -> list[_Question]:
    corrects, is_glossary = settings.corrector != "none", settings.corrector == GLOSSARY
    describes = describes and settings.describer != "none"
    if not tracks.num_rows or not (corrects or describes):
        return []
    corrector = describer = None
    if corrects and not is_glossary:
        name = settings.corrector_model
        corrector = load_model(settings.corrector, settings, endpoint, name=name, field="corrector")
    if describes:
        name = settings.describer_model
        describer = load_model(settings.describer, settings, endpoint, name=name, field="describer")
    wanted = tracks.select(list(_COLUMNS)).filter(pc.equal(tracks["status"], "ok"))
    found: dict[tuple[str, str], _Question] = {}
    for track in wanted.to_pylist():
        if corrects and (question := _correction(track, corrector, settings)) is not None:
            found.setdefault((question.digest, question.kind), question)
        if describer is not None and track["keyframes"]:
            found.setdefault((track["digest"], DESCRIPTION), _description(track, describer, settings))
    return list(found.values())


def _correction(track: Mapping[str, Any], model: Model | None, settings: CaptionSettings) -> _Question | None:
    """What is asked about the transcript; None where there is none."""
    is_recognized = str(track["transcript_source"]).startswith(_RECOGNIZED)
    lines = correction.lines_of(track["cues"], track["transcript"], is_recognized=is_recognized)
    if not lines:
        return None
    lines = correction.by_glossary(lines, settings.glossary)
    return _Question(
        digest=track["digest"],
        kind=CORRECTION,
        model=model,
        instructions=correction.INSTRUCTIONS,
        parts=[] if model is None else [[part] for part in correction.questions(lines, settings)],
        judge=partial(_judged_correction, lines, settings, is_asked=model is not None),
        revision=correction.REVISION,
    )


def _judged_correction(
    lines: Sequence[correction.Line], settings: CaptionSettings, answers: Sequence[str], *, is_asked: bool
) -> dict[str, Any]:
    found, refusals = correction.corrected(lines, answers, settings) if is_asked else (list(lines), [])
    columns: dict[str, Any] = {"lines": [asdict(line) for line in found]}
    return columns | _flagged(_LINES_REFUSED, refusals)


def _description(track: Mapping[str, Any], model: Model, settings: CaptionSettings) -> _Question:
    parts: list[str | _Frame] = [f"The clip lasts {track['duration_s']:.2f} s."]
    for frame in description.chosen(track["keyframes"], settings):
        parts += [f"At {frame['time_s']:.2f} s:", _Frame(frame["digest"])]
    return _Question(
        digest=track["digest"],
        kind=DESCRIPTION,
        model=model,
        instructions=description.instructions(settings),
        parts=[parts],
        judge=partial(_judged_description, track["duration_s"], settings),
        revision=description.REVISION,
    )


def _judged_description(duration_s: float, settings: CaptionSettings, answers: Sequence[str]) -> dict[str, Any]:
    found = description.described(answers[0], duration_s=duration_s, settings=settings)
    columns = {"caption": found.caption, "event_tags": found.event_tags, "events": found.events}
    return columns | _flagged(description.REFUSED, found.refusals)


def _flagged(code: int, refusals: Sequence[str]) -> dict[str, Any]:
    if not refusals:
        return {"status": "ok"}
    more = f", and {len(refusals) - 1} more" if len(refusals) > 1 else ""
    return {"status": "flagged", "error_code": code, "error": refusals[0] + more}


@contextmanager
def _opened(question: _Question, *, store: Blobs) -> Iterator[_Opened]:
    """The question with its pictures. Raises BlobMissing, BlobCorrupt, and what a failing store raises."""
    assert question.model is not None
    parts = [
        [part if isinstance(part, str) else Picture(store.read(part.digest)) for part in one] for one in question.parts
    ]
    yield _Opened(question.model, question.instructions, parts)


def _ask(opened: _Opened) -> list[str]:
    return [opened.model.ask(parts, opened.instructions) for parts in opened.parts]


def _row(question: _Question, answers: Sequence[str] | Failure) -> dict[str, Any]:
    row: dict[str, Any] = {
        "digest": question.digest,
        "kind": question.kind,
        "producer": question.producer,
        "model": "" if question.model is None else question.model.name,
        "revision": "/".join([*([question.model.revision] if question.model else []), question.revision]),
        "question_digest": question.question_digest(),
        "answers": [] if isinstance(answers, Failure) else [_storable(one) for one in answers],
    }
    judged = (
        answers
        if isinstance(answers, Failure)
        else attempt(question.judge, row["answers"], code=_FAILED, what="the model's answer cannot be judged")
    )
    if isinstance(judged, Failure):
        return row | {"status": "unreadable", "error_code": judged.code, "error": judged.reason}
    return row | judged


def _storable(answer: str) -> str:
    """The answer as UTF-8 can hold it: JSON may name halves of characters."""
    return answer.encode("utf-8", "replace").decode()


def _answered(before: pa.Table | None) -> dict[_Key, list[str]]:
    """The answers of the table as it was, by what was asked."""
    if before is None:
        return {}
    rows = before.select(["digest", "kind", "question_digest", "answers"]).to_pylist()
    return {(row["digest"], row["kind"], row["question_digest"]): row["answers"] for row in rows if row["answers"]}


@dataclass(frozen=True, slots=True)
class _Threads(Runner):
    """The Runner whose kernels wait for others: threads of this process."""

    workers: int

    def map(
        self, kernel: Callable[[T], R], items: Iterable[T], *, code: int, what: str, advance: Advance = silent
    ) -> Iterator[R | Failure]:
        """See `Runner.map`; one item for each thread is ahead."""
        waiting: deque[Future[R | Failure]] = deque()
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="mmlake-model")
        try:
            for item in items:
                waiting.append(pool.submit(attempt, kernel, item, code=code, what=what))
                if len(waiting) > self.workers:
                    yield waiting.popleft().result()
                    advance(1)
            while waiting:
                yield waiting.popleft().result()
                advance(1)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
