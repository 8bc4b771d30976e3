"""Versions on disk: manifests, segments and refs, written in the order segments -> manifest -> ref.

    manifests/<id>.json     segments/ab/<sha256>.jsonl.z     refs/ logs/ (see refs.py)
Whatever a writer leaves behind when it dies is named by nothing; building again gives the same bytes under the same
names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import BlobCorrupt, BlobMissing, ContractBroken, RefMissing, SettingsError
from mmlake.locks import exclusive_lock
from mmlake.records import digest_of, is_digest
from mmlake.store import write_atomically
from mmlake.versions.diff import Diff, compare
from mmlake.versions.manifest import Manifest, causes, totals_by
from mmlake.versions.recipe import Recipe, check_policy
from mmlake.versions.refs import Move, Refs, safe_name, utc_now
from mmlake.versions.segments import Segment, Segments
from mmlake.versions.selection import EXCLUDED, VERSION_ITEMS

_PREFIX = re.compile(r"[0-9a-f]{4,63}")


class VersionStore:
    """All versions under one root directory. Writers exclude each other; readers need no lock."""

    def __init__(self, root: str | Path, *, clock: Callable[[], str] = utc_now) -> None:
        self.root = Path(root)
        self._segments = Segments(self.root / "segments")
        self._refs = Refs(self.root, clock=clock)

    def build(
        self,
        items: pa.Table,
        *,
        recipe: Recipe,
        settings_digest: str,
        encoders: Mapping[str, Any],
        diversity: Mapping[str, Any] | None = None,
        parents: tuple[str, ...] = (),
        excluded: pa.Table | None = None,
        name: str | None = None,
    ) -> Manifest:
        """The published version; the same arguments always give the same id. parents: refs or ids. name: a tag to put
        on it.

        Raises ContractBroken where an item occurs twice, is also excluded, or is not admitted by the recipe (licence,
        status, role).
        """
        items = _sorted(items, VERSION_ITEMS)
        left_out = _sorted(excluded, EXCLUDED) if excluded is not None else EXCLUDED.empty_table()
        digests = (
            pa.concat_arrays(items["digest"].chunks + left_out["digest"].chunks)
            if items.num_rows + left_out.num_rows
            else pa.array([], pa.string())
        )
        if digests.null_count or pc.count_distinct(digests).as_py() != len(digests):
            raise ContractBroken(
                f"{len(digests)} rows selected and excluded hold {pc.count_distinct(digests).as_py()} distinct "
                "digests; every digest must stand in one table once"
            )
        check_policy(items, recipe)
        if name is not None:
            safe_name(name)
        parents = tuple(sorted(self.resolve(parent) for parent in parents))
        with self._writing():
            manifest = Manifest(
                recipe=recipe,
                settings_digest=settings_digest,
                encoders=encoders,
                diversity=diversity,
                parents=parents,
                totals=totals_by(items, "modality"),
                licences=totals_by(items, "licences"),
                sources=totals_by(items, "sources"),
                excluded=causes(left_out),
                segments=self._segments.write(items),
                excluded_segments=self._segments.write(left_out),
            )
            self._write_manifest(manifest)
            if name is not None:
                self._refs.create("tags", name, manifest.id)
        return manifest

    def versions(self) -> list[str]:
        """The ids of every manifest, sorted."""
        return sorted(path.stem for path in (self.root / "manifests").glob("*.json"))

    def resolve(self, ref: str) -> str:
        """The manifest id that a branch, a tag, an id or a unique prefix of one (4 characters or more) names. Raises
        RefMissing."""
        if (named := self._named(ref)) is not None:
            return named
        found = (
            [id_ for id_ in self.versions() if id_.startswith(ref)] if is_digest(ref) or _PREFIX.fullmatch(ref) else []
        )
        if len(found) > 1:
            raise RefMissing(f"'{ref}' begins {len(found)} version ids; give more characters")
        if not found:
            known = ", ".join([*self.branches(), *self.tags()][:10]) or "none yet"
            raise RefMissing(f"no version, branch or tag is called {ref[:100]!r}; branches and tags: {known}")
        return found[0]

    def read(self, ref: str) -> Manifest:
        """The manifest, checked against its id. Raises RefMissing, BlobMissing, BlobCorrupt."""
        id_ = self.resolve(ref)
        try:
            text = self._manifest_path(id_).read_bytes()
        except FileNotFoundError as error:
            raise BlobMissing(
                f"manifest {id_} is named by '{ref}' but absent from {self.root}; build the version again"
            ) from error
        if digest_of(text) != id_:
            raise BlobCorrupt(f"manifest {id_} in {self.root} does not hash to its name; build the version again")
        return Manifest.from_json(text.decode())

    def iter_items(self, ref: str) -> Iterator[pa.Table]:
        """The version's items in order of digest, one segment in memory at a time."""
        for segment in self.read(ref).segments:
            yield pa.Table.from_pylist(self._segments.read(segment), schema=VERSION_ITEMS)

    def items(self, ref: str) -> pa.Table:
        """The version's items (VERSION_ITEMS), sorted by digest."""
        return pa.concat_tables([VERSION_ITEMS.empty_table(), *self.iter_items(ref)])

    def excluded(self, ref: str) -> pa.Table:
        """What the version left out (EXCLUDED), sorted by digest."""
        parts = [
            pa.Table.from_pylist(self._segments.read(segment), schema=EXCLUDED)
            for segment in self.read(ref).excluded_segments
        ]
        return pa.concat_tables([EXCLUDED.empty_table(), *parts])

    def verify(self, ref: str) -> list[str]:
        """What is wrong with the version, in sentences: unsound manifest or segments, totals that do not add up.
        Empty when all is well."""
        try:
            manifest = self.read(ref)
        except (BlobMissing, BlobCorrupt) as error:
            return [str(error)]
        problems: list[str] = []
        items = self._sound_rows(manifest.segments, VERSION_ITEMS, problems)
        left_out = self._sound_rows(manifest.excluded_segments, EXCLUDED, problems)
        if not problems:
            for what, counted in (
                ("totals", totals_by(items, "modality")),
                ("licences", totals_by(items, "licences")),
                ("sources", totals_by(items, "sources")),
                ("excluded", causes(left_out)),
            ):
                if counted != getattr(manifest, what):
                    problems.append(
                        f"manifest {manifest.id}: its {what} do not add up to its segments; build the version again"
                    )
        return problems

    def diff(self, before: str, after: str) -> Diff:
        """What came, went and changed between two versions, each with its cause. Segments that both share are not
        read."""
        return compare(self.read(before), self.read(after), read=self._segments.read)

    def branch(self, name: str, at: str) -> str:
        """The id that the new branch starts at. Raises RefExists, RefMissing."""
        return self._created("branches", name, at)

    def tag(self, name: str, at: str) -> str:
        """The id that the tag names. Raises RefExists, RefMissing."""
        return self._created("tags", name, at)

    def advance(self, branch: str, to: str, *, expect: str | None = None) -> str:
        """The id that the branch is at now. expect: the full id it must still be at, else LakeLocked (compare and
        swap)."""
        id_ = self.resolve(to)
        with self._writing():
            self._refs.move(branch, id_, action="advance", expect=expect)
        return id_

    def rollback(self, branch: str, to: str, *, expect: str | None = None) -> str:
        """The id that the branch is back at; it must have been there before. Media and manifests stay as they are."""
        id_ = self.resolve(to)
        with self._writing():
            if id_ not in {move.after for move in self._refs.log(branch)}:
                raise SettingsError(
                    f"branch '{branch}' was never at {id_[:12]}; roll back to a version of its log, or use advance"
                )
            self._refs.move(branch, id_, action="rollback", expect=expect)
        return id_

    def log(self, branch: str) -> list[Move]:
        """The moves of the branch, newest first. Raises RefMissing."""
        return self._refs.log(branch)

    def branches(self) -> dict[str, str]:
        """Branch names and their manifest ids, sorted."""
        return self._refs.all("branches")

    def tags(self) -> dict[str, str]:
        """Tag names and their manifest ids, sorted."""
        return self._refs.all("tags")

    def _created(self, kind: str, name: str, at: str) -> str:
        safe_name(name)
        id_ = self.resolve(at)
        with self._writing():
            self._refs.create(kind, name, id_)
        return id_

    def _writing(self) -> AbstractContextManager[None]:
        return exclusive_lock(self.root / "writer.lock", what=f"the version store {self.root}")

    def _named(self, ref: str) -> str | None:
        try:
            return self._refs.get("branches", ref) or self._refs.get("tags", ref)
        except SettingsError:
            return None  # such a name cannot exist

    def _sound_rows(self, segments: tuple[Segment, ...], schema: pa.Schema, problems: list[str]) -> pa.Table:
        rows: list[dict[str, Any]] = []
        for segment in segments:
            try:
                part = self._segments.read(segment)
            except (BlobMissing, BlobCorrupt) as error:
                problems.append(str(error))
                continue
            if (len(part), part[0]["digest"], part[-1]["digest"]) != (segment.num_items, segment.first, segment.last):
                problems.append(
                    f"segment {segment.digest}: its rows are not those that the manifest counts; build the "
                    "version again"
                )
            rows += part
        return pa.Table.from_pylist(rows, schema=schema)

    def _write_manifest(self, manifest: Manifest) -> None:
        path, data = self._manifest_path(manifest.id), manifest.to_json().encode()
        if not path.exists() or path.read_bytes() != data:
            write_atomically(path, data)

    def _manifest_path(self, id_: str) -> Path:
        return self.root / "manifests" / f"{id_}.json"


def _sorted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.select(schema.names).cast(schema).sort_by("digest")
