"""Where a branch was at a time: `curated@2026-11-30` names the version that `mmlake log curated` has for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from mmlake.errors import RefMissing
from mmlake.versions.refs import Move

AT = "@"  # no name of a ref has one
_TIME = re.compile(r"[0-9TWZ:.,+-]+")


def version_at(ref: str, log: Callable[[str], list[Move]]) -> str:
    """The manifest id that the branch was at.

    ref: BRANCH@TIME, the time as ISO 8601, in UTC unless it says otherwise; a day stands for its first moment. log: the
    moves of a branch, newest first. Raises RefMissing for another text, and for a time at which the branch had no
    version that is known."""
    branch, _, text = ref.partition(AT)
    try:
        if not _TIME.fullmatch(text):  # any character would part day and hour, also one that parts directories
            raise ValueError(text)
        time = datetime.fromisoformat(text)
    except ValueError:
        raise RefMissing(
            f"{text[:50]!r} of {ref[:100]!r} is no time; give it as ISO 8601, as in 2026-11-30 or 2026-11-30T18:00"
        ) from None
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    moves = log(branch)
    for move in moves:
        if datetime.fromisoformat(move.at) <= time:
            return move.after
    raise RefMissing(f"branch '{branch}' had no version at {time.isoformat()}; its log begins at {moves[-1].at}")
