"""How well captions say what their media show: the cosine of both vectors, in the space of one encoder.

Enters: pairs of a unit and a caption, vectors of the units, words of the captions. Leaves: CAPTION_SCORES. The cosine
of CLIP is what LAION-400M (at least .3) and DataComp (arXiv:2304.14108) filter pictures by; CLIP, SigLIP and CLAP have
scales of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mmlake import contracts, schemas
from mmlake.border import Failure
from mmlake.compute import Executor
from mmlake.embed.agreement import mean_of_passages
from mmlake.embed.embedding import Running
from mmlake.embed.encoders import Encoder
from mmlake.embed.settings import EmbedSettings
from mmlake.progress import Advance, silent
from mmlake.records import signed
from mmlake.schemas.caption_scores import CAPTION_SCORES

_PAIRS_AT_ONCE = 16_384
_DECIMALS = 4
_FAILED = 5002


def caption_scores(
    pairs: pa.Table,
    captions: pa.Table,
    vectors: pa.Table,
    *,
    row: Encoder,
    executor: Executor,
    settings: EmbedSettings,
    advance: Advance = silent,
) -> pa.Table:
    """CAPTION_SCORES, one row per pair; where one of the two has no vector, status, code and reason.

    pairs: digest, caption; each once. captions: digest, text. vectors: rows of EMBEDDINGS by the encoder, those that
    failed included, of all digests of pairs. Raises ModelMissing, MissingExtra.
    """
    if not pairs.num_rows:
        return schemas.empty(CAPTION_SCORES)
    running = Running.start(row, executor, settings)
    pairs = pairs.sort_by([("caption", "ascending"), ("digest", "ascending")])
    found = []
    for start in range(0, pairs.num_rows, _PAIRS_AT_ONCE):  # captions next to each other: each is encoded once
        some = pairs.slice(start, _PAIRS_AT_ONCE)
        found.append(_scored(some, captions, vectors, running, signed(running.model.revision, row.plugin)))
        advance(some.num_rows)
    return pa.concat_tables(found)


def _scored(pairs: pa.Table, captions: pa.Table, vectors: pa.Table, running: Running, revision: str) -> pa.Table:
    names = pc.unique(pairs["caption"])
    words = captions["text"].take(pc.index_in(names, value_set=_flat(captions["digest"]))).to_pylist()
    said = mean_of_passages(running, zip(names.to_pylist(), words, strict=True))
    media = vectors.take(pc.index_in(pairs["digest"], value_set=_flat(vectors["digest"])))
    cosines, failures = _cosines(pairs, media, said, revision)
    columns = {
        "digest": pairs["digest"],
        "caption": pairs["caption"],
        "cosine": pa.array(cosines, pa.float64(), from_pandas=True),
        "encoder": [running.name] * pairs.num_rows,
        "revision": media["revision"],
        **contracts.failure_columns(failures),
    }
    return schemas.conform(CAPTION_SCORES, schemas.from_columns(CAPTION_SCORES, columns))


def _cosines(
    pairs: pa.Table, media: pa.Table, said: Mapping[str, NDArray[Any] | Failure], revision: str
) -> tuple[NDArray[np.float64], list[Failure | None]]:
    """(cosine of each pair to four digits, below which lies the noise of which texts share a batch, NaN where there is
    none; why there is none)."""
    words = [said.get(caption) for caption in pairs["caption"].to_pylist()]
    dimension = next((len(one) for one in words if one is not None and not isinstance(one, Failure)), 0)
    lengths = pc.list_value_length(media["vector"]).to_pylist()
    rows = zip(words, *(media[name].to_pylist() for name in ("status", "error_code", "error", "revision")), lengths,
               strict=True)  # fmt: skip
    failures = [_failure(*row, now=revision, dimension=dimension) for row in rows]
    made = np.array([one is None for one in failures], bool)
    cosines = np.full(len(made), np.nan)
    if made.any():
        shown = pc.list_flatten(media["vector"].filter(pa.array(made))).to_numpy().reshape(-1, dimension)
        meant = np.array([one for one, is_made in zip(words, made, strict=True) if is_made], np.float64)
        scale = np.linalg.norm(meant, axis=1) * np.linalg.norm(shown, axis=1)
        cosines[made] = np.einsum("pd,pd->p", shown.astype(np.float64), meant) / np.maximum(scale, 1e-12)
    return cosines.round(_DECIMALS), failures


def _failure(
    words: NDArray[Any] | Failure | None,
    status: str,
    code: int | None,
    error: str | None,
    revision: str,
    length: int,
    *,
    now: str,
    dimension: int,
) -> Failure | None:
    """Why the pair has no cosine; None where it has."""
    if status != "ok":
        return Failure(code or _FAILED, error or "no vector")
    if words is None:
        return Failure(5003, "num_words=0 not in [1, inf)")
    if isinstance(words, Failure):
        return words
    if revision != now:
        return Failure(_FAILED, f"its vector is of revision {revision}, the weights are {now} now")
    return None if length == dimension else Failure(_FAILED, f"dimension={length} not in [{dimension}, {dimension}]")


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
