"""Which branches and tags may be deleted: those without which each version still has a name."""

from __future__ import annotations

from mmlake.errors import RefInUse, RefMissing
from mmlake.versions.refs import Refs


def deletable(refs: Refs, kind: str, name: str, *, force: bool) -> str:
    """The manifest id that the ref names. A branch names where it is and where it was: `mmlake rollback` goes back
    there. kind: "branches" or "tags". Raises RefMissing, and, unless forced, RefInUse where a version would keep no
    name."""
    id_ = refs.get(kind, name)
    if id_ is None:
        known = ", ".join(refs.names(kind)[:10]) or "none"
        raise RefMissing(f"no {_word(kind)} is called {name[:100]!r}; {kind}: {known}")
    named = {id_} if kind == "tags" else {id_, *(move.after for move in refs.log(name))}
    others = {to for other in ("branches", "tags") for one, to in refs.all(other).items() if one != name}
    lost = sorted(named - others)
    if lost and not force:
        which = ", ".join(one[:12] for one in lost[:5]) + (f" and {len(lost) - 5} more" if len(lost) > 5 else "")
        raise RefInUse(
            f"{_word(kind)} '{name}' is the only name of {which}; give each another name with `mmlake tag` first, or "
            "delete it with --force: versions stay, and are then found by their ids alone"
        )
    return id_


def _word(kind: str) -> str:
    return {"branches": "branch", "tags": "tag"}[kind]
