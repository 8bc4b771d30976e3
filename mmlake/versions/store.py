"""Versions on disk: segments, trees, versions and refs, written in this order.

    manifests/<version id>.json     trees/<tree id>.json     segments/ab/<digest>.parquet     refs/ logs/ (see refs.py)
    drafts/<version id>             while its checks have not passed
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

from mmlake import checked_json
from mmlake.durable import make_directory, put_in_place
from mmlake.errors import BlobCorrupt, BlobMissing, LakeLocked, RefMissing, SettingsError
from mmlake.locks import waiting_lock
from mmlake.recipes import Recipe, refuse_version_name
from mmlake.records import digest_of, is_digest
from mmlake.store import write_atomically
from mmlake.versions import migration
from mmlake.versions.counts import Tally
from mmlake.versions.deletion import deletable
from mmlake.versions.diff import Diff, Side, compare
from mmlake.versions.drafts import Drafts
from mmlake.versions.manifest import SCHEMA, Manifest, PinnedRecipe, Tree
from mmlake.versions.past import AT, version_at
from mmlake.versions.policy import check_once, check_policy
from mmlake.versions.refs import Move, Refs, safe_name, utc_now
from mmlake.versions.sample_schemas import EXCLUDED, PART, VERSION_SAMPLES
from mmlake.versions.segments import Segment, Segments, cut, unlike

_PREFIX = re.compile(r"[0-9a-f]{4,63}")


class VersionStore:
    """All versions under one root directory. Writers exclude each other; readers need no lock."""

    def __init__(self, root: str | Path, *, clock: Callable[[], str] = utc_now) -> None:
        self.root = Path(root)
        self._clock = clock
        self.segments = Segments(self.root / "segments")
        self._refs = Refs(self.root, clock=clock)
        self._drafts = Drafts(self.root / "drafts")

    def build(
        self,
        samples: pa.Table,
        *,
        recipe: Recipe,
        settings_digest: str,
        encoders: Mapping[str, Any],
        diversity: Mapping[str, Any] | None = None,
        made_with: Mapping[str, Any] | None = None,
        parents: tuple[str, ...] = (),
        excluded: pa.Table | None = None,
        name: str | None = None,
        run: str = "",
        created_at: str | None = None,
        message: str = "",
        draft: bool = False,
    ) -> Manifest:
        """The version, whose tree has the same id for the same samples; where tree, recipe and exclusions are those of
        a parent, that parent. parents: refs or ids. name: a tag to put on it. created_at: now unless given.
        draft: no branch can point at it before `publish`.

        Raises ContractBroken where a sample occurs twice, is also excluded as a whole, or is not admitted by the recipe
        (licence, role).
        """
        samples = _conformed(samples, VERSION_SAMPLES)
        left_out = _conformed(excluded, EXCLUDED) if excluded is not None else EXCLUDED.empty_table()
        check_once(samples, left_out)
        check_policy(samples, recipe)
        if name is not None:
            safe_name(name)
        parents = tuple(sorted(self.resolve(parent) for parent in parents))
        with self._writing():
            tally = Tally()
            tree = Tree(segments=self._written(samples, tally.add_samples))
            out = self._written(left_out, tally.add_excluded)
            manifest = Manifest(
                tree=tree.id,
                recipe=PinnedRecipe.of(recipe),
                settings_digest=settings_digest,
                encoders=encoders,
                made_with=made_with or {},
                diversity=diversity,
                parents=parents,
                excluded_segments=out,
                run=run,
                created_at=created_at or self._clock(),
                message=message,
                **tally.counts(),
            )
            same = (one for one in map(self.read, parents) if one.content == manifest.content)
            manifest = next(same, manifest)
            _write_once(self._tree_path(tree.id), tree.to_json())
            path = self._manifest_path(manifest.id)
            if draft and not path.exists():
                self._drafts.mark(manifest.id)
            _write_once(path, manifest.to_json())
            if name is not None:
                self._refs.create("tags", name, manifest.id)
        return manifest

    def versions(self) -> list[str]:
        """The ids of every manifest, sorted."""
        return sorted(path.stem for path in (self.root / "manifests").glob("*.json"))

    def resolve(self, ref: str) -> str:
        """The manifest id that a branch, a tag, an id or a unique prefix of one (4 characters or more) names, or that a
        branch was at (BRANCH@TIME, see `past`). Raises RefMissing."""
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

    def tree(self, ref: str) -> Tree:
        """The tree of the version, checked against its id. Raises RefMissing, BlobMissing, BlobCorrupt."""
        return self._tree(self.read(ref).tree)

    def iter_samples(self, ref: str) -> Iterator[pa.Table]:
        """The version's samples in order of their shards and names, one segment in memory at a time."""
        for segment in self.tree(ref).segments:
            yield self.segments.read(segment, VERSION_SAMPLES)

    def samples(self, ref: str) -> pa.Table:
        """The version's samples (VERSION_SAMPLES), sorted by name."""
        return pa.concat_tables([VERSION_SAMPLES.empty_table(), *self.iter_samples(ref)]).sort_by("sample")

    def iter_items(self, ref: str) -> Iterator[pa.Table]:
        """The kept parts of the version (PART), segment by segment; a digest may come more than once."""
        for samples in self.iter_samples(ref):
            yield pa.Table.from_struct_array(pc.list_flatten(samples["parts"]))

    def items(self, ref: str) -> pa.Table:
        """The distinct units of the version, sorted by digest: digest, parent_digest (the blob that holds it),
        modality, content_type, size_bytes."""
        names = ["digest", "parent_digest", "modality", "content_type", "size_bytes"]
        parts = [part.select(names) for part in self.iter_items(ref)]
        schema = pa.schema([(name, PART.field(name).type) for name in names])
        table = pa.concat_tables([schema.empty_table(), *parts])
        first = table.group_by("digest", use_threads=False).aggregate([(name, "first") for name in names[1:]])
        return first.rename_columns(names).cast(schema).sort_by("digest")

    def excluded(self, ref: str) -> pa.Table:
        """What the version left out (EXCLUDED), sorted by sample."""
        parts = [self.segments.read(segment, EXCLUDED) for segment in self.read(ref).excluded_segments]
        table = pa.concat_tables([EXCLUDED.empty_table(), *parts]).combine_chunks()
        return table.take(pc.sort_indices(table["sample"]))

    def migrate(self) -> dict[str, list[str]]:
        """The names of the versions of earlier releases that are versions of this one now (`converted`), with their
        branches, tags and logs, and of those that this release cannot read (`set_aside`): their refs, logs and files
        are moved to `old/`. Run again, it ends what was interrupted."""
        with self._writing():
            bodies = {id_: self._old(id_, migration.OLD_SCHEMA) for id_ in self.versions()}
            old = {id_: body for id_, body in bodies.items() if body is not None}
            ids = migration.read_table(self.root)
            for id_, tree, manifest in migration.converted(self.root, old, self._written, known=ids):
                _write_once(self._tree_path(tree.id), tree.to_json())
                _write_once(self._manifest_path(manifest.id), manifest.to_json())
                ids[id_] = manifest.id
            if old:
                write_atomically(self.root / "migrated.json", checked_json.dumps(ids))
            names = migration.rename_refs(self.root, ids) if ids else []
            for id_ in old.keys() & ids.keys():
                self._put_aside(self._manifest_path(id_))
        return {"converted": sorted(names), "set_aside": self._set_old_aside()}

    def _old(self, id_: str, schema: str) -> dict[str, Any] | None:
        """What the file of a version of that older schema says; None for others and for a damaged one."""
        text = self._manifest_path(id_).read_bytes()
        return checked_json.loads(text) if Manifest.schema_of(text) == schema and digest_of(text) == id_ else None

    def _set_old_aside(self) -> list[str]:
        """The names of versions that cannot be read, refs first. Segments stay."""
        with self._writing():
            texts = ((id_, self._manifest_path(id_).read_bytes()) for id_ in self.versions())
            old = {id_ for id_, text in texts if Manifest.schema_of(text) != SCHEMA}
            tags = {name: id_ for name, id_ in self.tags().items() if id_ in old}
            branches = [name for name, id_ in self.branches().items() if id_ in old]
            moved = [self.root / "refs" / "tags" / f"{name}.json" for name in tags]
            for name in branches:
                moved += [self.root / "refs" / "branches" / f"{name}.json", self.root / "logs" / f"{name}.jsonl"]
            self._refs.forget(tags=tags, branches=branches)
            for path in (*moved, *map(self._manifest_path, sorted(old))):
                self._put_aside(path)
        return sorted({*tags, *branches, *(old - set(tags.values()))})

    def _put_aside(self, path: Path) -> None:
        target = self.root / "old" / path.relative_to(self.root)
        make_directory(target.parent)
        if path.exists():
            put_in_place(path, target)

    def verify(self, ref: str) -> list[str]:
        """What is wrong with the version, in sentences: unsound manifest or segments, totals that do not add up.
        Empty when all is well."""
        try:
            manifest = self.read(ref)
            tree = self._tree(manifest.tree)
        except (BlobMissing, BlobCorrupt) as error:
            return [str(error)]
        problems: list[str] = []
        tally = Tally()
        for segments, schema, add in (
            (tree.segments, VERSION_SAMPLES, tally.add_samples),
            (manifest.excluded_segments, EXCLUDED, tally.add_excluded),
        ):
            for segment in segments:
                try:
                    rows = self.segments.read(segment, schema)
                except (BlobMissing, BlobCorrupt) as error:
                    problems.append(str(error))
                    continue
                if problem := unlike(segment, rows):
                    problems.append(problem)
                add(rows)
        if not problems:
            for what, counts in tally.counts().items():
                if counts != getattr(manifest, what):
                    problems.append(
                        f"version {manifest.id}: its {what} do not add up to its segments; build the version again"
                    )
        return problems

    def diff(self, before: str, after: str) -> Diff:
        """What came, went and changed between two versions, each with its cause. Segments that both share are not
        read."""
        return compare(self._side(before), self._side(after), read=self.segments.read)

    def is_draft(self, ref: str) -> bool:
        """Whether the checks of the version have not passed yet. Raises RefMissing."""
        return self._drafts.has(self.resolve(ref))

    def publish(self, ref: str, branch: str, *, expect: str | None) -> str:
        """The id of the version, which is no draft any more, and which the branch is at now. expect: the id that the
        branch must still be at, None where there must be no such branch yet. Raises LakeLocked where somebody else
        moved it: of two writers one wins, and the version of the other stays a draft."""
        id_ = self.resolve(ref)
        safe_name(branch)
        with self._writing():
            at = self._refs.get("branches", branch)
            if at not in (id_, expect):
                raise LakeLocked(
                    f"branch '{branch}' is at {at[:12] if at else 'no version'}, and {ref} was made to follow "
                    f"{expect[:12] if expect else 'none'}: somebody moved the branch; publish again, and the new "
                    "version follows what is there now"
                )
            self._drafts.clear(id_)
            if at is None:
                self._refs.create("branches", branch, id_)
            else:
                self._refs.move(branch, id_, action="advance", expect=at)
        return id_

    def branch(self, name: str, at: str) -> str:
        """The id that the new branch starts at. Raises RefExists, RefMissing, ContractBroken for a draft."""
        return self._created("branches", name, at)

    def tag(self, name: str, at: str) -> str:
        """The id that the tag names. Raises RefExists, RefMissing."""
        return self._created("tags", name, at)

    def delete(self, kind: str, name: str, *, force: bool = False) -> str:
        """The id that the branch or tag named, which is there no more; every version is. kind: "branches" or "tags".
        force: also where a version that it names or named has no other name, and keeps its id alone. Raises RefMissing,
        and RefInUse without force."""
        with self._writing():
            id_ = deletable(self._refs, kind, name, force=force)
            self._refs.delete(kind, name)
        return id_

    def advance(self, branch: str, to: str, *, expect: str | None = None) -> str:
        """The id that the branch is at now. expect: the full id it must still be at, else LakeLocked (compare and
        swap)."""
        id_ = self.resolve(to)
        with self._writing():
            self._drafts.refuse(id_)
            self._refs.move(branch, id_, action="advance", expect=expect)
        return id_

    def rollback(self, branch: str, to: str, *, expect: str | None = None) -> str:
        """The id that the branch is back at; it must have been there before. Media and manifests stay as they are."""
        id_ = self.resolve(to)
        with self._writing():
            if id_ not in {move.after for move in self._refs.log(branch)}:
                raise SettingsError(
                    f"branch '{branch}' was never at {id_[:12]}; roll back to what `mmlake log {branch}` lists"
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

    def is_tagged(self, name: str) -> bool:
        """Whether there is a tag of that name; no other ref is read."""
        try:
            return self._refs.get("tags", name) is not None
        except SettingsError:
            return False  # such a name cannot exist

    def _created(self, kind: str, name: str, at: str) -> str:
        safe_name(name)
        id_ = self.resolve(at)
        with self._writing():
            if self._refs.get(kind, name) is None:  # again is no second one, whatever it is called
                refuse_version_name(name, "tag" if kind == "tags" else "branch")
            if kind == "branches":
                self._drafts.refuse(id_)
            self._refs.create(kind, name, id_)
        return id_

    def _writing(self) -> AbstractContextManager[None]:
        # waits: a command next to a run of the UI; what moves a branch compares it under the lock
        return waiting_lock(self.root / "writer.lock")

    def _named(self, ref: str) -> str | None:
        try:
            if AT in ref:
                return version_at(ref, self._refs.log)
            return self._refs.get("branches", ref) or self._refs.get("tags", ref)
        except SettingsError:
            return None  # such a name cannot exist

    def _written(self, table: pa.Table, add: Callable[[pa.Table], None]) -> tuple[Segment, ...]:
        """The segments of the table, durable. add: takes the rows of each."""
        written = []
        for rows in cut(table):
            add(rows)
            written.append(self.segments.write(rows))
        return tuple(written)

    def _side(self, ref: str) -> Side:
        made = self.read(ref)
        return Side(made=made, segments=self._tree(made.tree).segments)

    def _tree(self, id_: str) -> Tree:
        try:
            text = self._tree_path(id_).read_bytes()
        except FileNotFoundError as error:
            raise BlobMissing(f"tree {id_} is absent from {self.root}; build the version again") from error
        if digest_of(text) != id_:
            raise BlobCorrupt(f"tree {id_} in {self.root} does not hash to its name; build the version again")
        return Tree.from_json(text.decode())

    def _tree_path(self, id_: str) -> Path:
        return self.root / "trees" / f"{id_}.json"

    def _manifest_path(self, id_: str) -> Path:
        return self.root / "manifests" / f"{id_}.json"


def _write_once(path: Path, text: str) -> None:
    data = text.encode()
    if not path.exists() or path.read_bytes() != data:
        write_atomically(path, data)


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the schema's columns."""
    return table.select(schema.names).cast(schema)
