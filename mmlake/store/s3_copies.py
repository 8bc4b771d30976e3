"""Taking further copies of blobs out of packs on S3, which has no locks: one process at a time has the turn, which
numbered marks give it.

The turn belongs to the process that made the mark with the highest number, which a conditional PUT gives to one process
alone. A mark whose maker was killed is passed over once it is a day old, and its maker, should it still live, deletes
nothing from half a day on. Two turns are thus never at work at once, and neither can take the copy that the other
keeps. Every other rewriter uploads before it deletes, so that what is kept stays.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from mmlake.records import Digest
from mmlake.remote.bucket import Bucket
from mmlake.store.files import Buffers
from mmlake.store.index import Entry, places
from mmlake.store.s3_packs import S3Pack, S3Packs

_LOG = logging.getLogger("mmlake.store")
_ABANDONED_S = 24 * 3600.0  # as old as what `sweep` takes for left behind by a killed writer
_TURN_S = 12 * 3600.0


def thin(
    packs: S3Packs,
    buffers: Buffers,
    *,
    bucket: Bucket,
    marks: str,
    objects: Iterable[Digest],
    has_sound_object: Callable[[Digest], bool],
) -> int:
    """The number of further copies that were removed: a blob stays as its object where that is sound, else in the
    largest pack that holds it sound. 0 while another process does this.

    marks: the prefix of the marks. The storage honours conditional writes, or this process is the only writer.
    """
    with _turn(bucket, marks) as has_turn:
        if not has_turn():
            _LOG.info("packs of %s are thinned by another process, or one was killed within the last day", bucket.name)
            return 0
        there = sorted(packs.all(), key=lambda pack: (-pack.index.pack_bytes, pack.name))
        spare: dict[str, set[Digest]] = {}
        own: set[Digest] = set()
        for digest in objects:
            if (holders := [pack for pack in there if pack.index.find(digest) is not None]) and has_sound_object(
                digest
            ):
                own.add(digest)
                for pack in holders:
                    spare.setdefault(pack.name, set()).add(digest)
        several = [
            found
            for found in places([pack.index for pack in there])
            if len(found) > 1 and found[0][1].digest not in own
        ]
        for kept, found in _kept(there, several):
            for at, entry in found:
                if at != kept:
                    spare.setdefault(there[at].name, set()).add(entry.digest)
        num_removed = 0
        for pack in there:
            if dropped := spare.get(pack.name):
                may_delete = partial(_may_go, packs, pack, dropped - own, has_turn)
                num_removed += packs.take_out(pack, frozenset(dropped), buffers, may_delete=may_delete) * len(dropped)
        return num_removed


def _may_go(packs: S3Packs, old: S3Pack, digests: Iterable[Digest], has_turn: Callable[[], bool]) -> bool:
    """Whether another pack still has each of the blobs, and nobody else has the turn."""
    others = [pack for pack in packs.all() if pack.name != old.name]
    return all(any(pack.index.find(digest) is not None for pack in others) for digest in digests) and has_turn()


def _kept(there: list[S3Pack], several: list[list[tuple[int, Entry]]]) -> Iterator[tuple[int, list[tuple[int, Entry]]]]:
    """(which pack keeps it, copies) of each blob that has a sound copy; packs are read front to back, the first
    choice of every blob before the second of any."""
    choice = 0
    while several:
        by_pack: dict[int, list[tuple[Entry, list[tuple[int, Entry]]]]] = {}
        for found in several:
            if choice < len(found):
                by_pack.setdefault(found[choice][0], []).append((found[choice][1], found))
        several = []
        for at, wanted in by_pack.items():
            read = there[at].in_order()
            for entry, found in sorted(wanted, key=lambda one: one[0].offset):
                if there[at].remains(entry, read=read).is_sound:
                    yield at, found
                else:
                    several.append(found)
        choice += 1


@contextmanager
def _turn(bucket: Bucket, marks: str) -> Iterator[Callable[[], bool]]:
    """A function that reports whether this process has the turn, as the storage sees it now."""
    began_s, token = time.time(), secrets.token_bytes(16)
    before = _numbered(bucket, marks)
    number = max(before, default=0) + 1
    key = f"{marks}{number:08d}"
    is_free = not before or began_s - before[number - 1] >= _ABANDONED_S

    def has_turn() -> bool:
        return is_ours and time.time() - began_s < _TURN_S and max(_numbered(bucket, marks), default=0) == number

    is_ours = is_free and (bucket.put(key, token) is not None or _holds(bucket, key, token))
    try:
        yield has_turn
    finally:
        if is_ours:
            bucket.delete([*(f"{marks}{older:08d}" for older in before), key])


def _numbered(bucket: Bucket, marks: str) -> dict[int, float]:
    """Number -> Unix time of each mark."""
    found = ((one.key.removeprefix(marks), one.modified_ns / 1e9) for one in bucket.objects(marks))
    return {int(name): made_s for name, made_s in found if name.isascii() and name.isdigit()}


def _holds(bucket: Bucket, key: str, token: bytes) -> bool:
    """Whether the object has this content: a PUT whose answer was lost is made twice, and the second finds the
    first."""
    found = bucket.head(key)
    return (
        found is not None
        and found.size_bytes == len(token)
        and bucket.read_range(key, etag=found.etag, offset=0, size=len(token)) == token
    )
