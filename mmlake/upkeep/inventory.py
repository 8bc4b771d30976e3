"""Every file of a lake belongs to one kind: what it is, how it is checked, and from what it is made again.

`KINDS` is the table, in the order in which kinds are checked and repaired: what others are made from comes first. A
file is of the first kind that one of its patterns matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from mmlake.errors import MmlakeError, SettingsError
from mmlake.lake import Lake
from mmlake.progress import Advance, silent
from mmlake.upkeep import checks, history, names, rebuilding
from mmlake.upkeep.integrity import check_blobs, named_blobs
from mmlake.upkeep.leftovers import SCRATCH
from mmlake.upkeep.repair import Repair, repair_blobs

_ROUNDS = 3  # a version's results need its manifest, whose selection needs the results of its request
Check = Callable[[Lake, str], Iterator[checks.Problem]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One row of the table."""

    name: str
    places: tuple[str, ...]  # patterns of paths below the lake; * stands for slashes too
    what: str
    checked: str  # by what, as docs/upkeep.md says it
    rebuilt: str  # from what
    units: Callable[[Lake], list[str]] | None = None  # what is checked and repaired as one; None: nothing to check
    check: Check | None = None  # of one unit; None for blobs, which are hashed together
    pass_over: Callable[[Lake], Check] | None = None  # a check of units that share files, for one pass over them
    repair: Callable[[Lake, list[str]], Iterator[Repair]] | None = None


def kind_of(path: str) -> Kind | None:
    """The kind of the file. path: below the lake, with slashes."""
    found = (kind for kind in KINDS for place in kind.places if fnmatchcase(path, place))
    return next(found, None)


def named(kinds: Iterable[str]) -> list[Kind]:
    """The kinds of these names, all that can be checked where there are none. Raises SettingsError."""
    known = {kind.name: kind for kind in KINDS if kind.units is not None}
    wanted = list(dict.fromkeys(kinds))
    if unknown := [name for name in wanted if name not in known]:
        raise SettingsError(f"there is no kind {unknown[0]!r} of files to check; kinds are {', '.join(known)}")
    return [kind for kind in known.values() if not wanted or kind.name in wanted]


def problems_of(kind: Kind, lake: Lake, units: list[str], *, advance: Advance = silent) -> Iterator[tuple[str, str]]:
    """(unit, sentence) for what is wrong with those units."""
    check = kind.check if kind.pass_over is None else kind.pass_over(lake)
    if check is None:
        for digest, what in check_blobs(lake, units, advance=advance):
            yield digest, f"blob {digest} is {what}"
        return
    for unit in units:
        try:
            yield from check(lake, unit)
        except MmlakeError as error:  # of a file of another kind that this one is compared with
            yield unit, str(error)
        except IsADirectoryError as error:
            yield unit, f"{error.filename} is a directory where a file belongs; move it away, then repair"
        advance(1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """What checking one kind found, and repairing it did."""

    kind: str
    num_units: int
    problems: list[str]  # before the repair
    left: list[str]  # after it
    repaired: list[str]  # units
    remarks: list[str]  # what is not as it was

    def followed_by(self, now: Checked) -> Checked:
        """The two as one."""
        return replace(
            self,
            left=now.left,
            repaired=sorted({*self.repaired, *now.repaired}),
            remarks=list(dict.fromkeys([*self.remarks, *now.remarks])),
        )

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {"checked": self.num_units, "problems": self.problems, "left": len(self.left), "repaired": self.repaired}


def checked_all(
    lake: Lake, kinds: Sequence[tuple[Kind, list[str]]], *, repair: bool, advance_of: Callable[[Kind], Advance]
) -> list[Checked]:
    """What is wrong with those units of the kinds. repair: what can be had again is, and once more what could not while
    files of another kind were damaged."""
    found = [checked_and_repaired(kind, lake, units, repair=repair, advance=advance_of(kind)) for kind, units in kinds]
    for _ in range(_ROUNDS if repair else 0):
        if not (any(one.left for one in found) and any(one.repaired for one in found)):
            break
        again = [
            checked_and_repaired(kind, lake, units, repair=True) if one.left else one
            for (kind, units), one in zip(kinds, found, strict=True)
        ]
        is_still = again == found
        found = [one if one is now else one.followed_by(now) for one, now in zip(found, again, strict=True)]
        if is_still:
            break
    return found


def checked_and_repaired(
    kind: Kind, lake: Lake, units: list[str], *, repair: bool = False, advance: Advance = silent
) -> Checked:
    """What is wrong with those units of the kind, once what can be had again is. repair: else nothing is changed."""
    found = _found(kind, lake, units, advance=advance)
    outcomes: dict[str, Repair] = {}
    if repair and found and kind.repair is not None:
        with lake.locked("run"):  # a run would read what is being put back
            # A run that has ended since wrote those files while they were read.
            found = _found(kind, lake, sorted(found))
            outcomes = {one.unit: one for one in kind.repair(lake, sorted(found))} if found else {}
    done = [unit for unit, one in outcomes.items() if one.outcome in (rebuilding.REPAIRED, rebuilding.REPLACED)]
    left = {unit: problems for unit, problems in sorted(found.items()) if unit not in done}
    return Checked(
        kind=kind.name,
        num_units=len(units),
        problems=[problem for problems in found.values() for problem in problems],
        left=[
            f"{problem}: {outcomes[unit].detail if unit in outcomes else _advice(kind)}"
            for unit, problems in left.items()
            for problem in problems
        ],
        repaired=sorted(done),
        remarks=[f"{kind.name} {unit}: {outcomes[unit].detail}" for unit in sorted(done) if outcomes[unit].detail],
    )


def _found(kind: Kind, lake: Lake, units: list[str], *, advance: Advance = silent) -> dict[str, list[str]]:
    """Unit -> what is wrong with it."""
    found: dict[str, list[str]] = {}
    for unit, problem in problems_of(kind, lake, units, advance=advance):
        found.setdefault(unit, []).append(problem)
    return found


def _advice(kind: Kind) -> str:
    return f"run `mmlake fsck --kind {kind.name} --repair`" + (
        ", or `mmlake why` names where it came from" if kind.name == "blobs" else ""
    )


_ONE_OF_OURS = "`checksum` in the file"
_COPY_BACK = "nothing: copy it back"

KINDS: tuple[Kind, ...] = (
    Kind(
        name="unfinished",
        places=("*.part", f"{SCRATCH}/*"),
        what="what running steps write, and killed ones left",
        checked="nobody: no reader opens them",
        rebuilt="not needed; `fsck --repair` and `gc` remove those older than a day",
    ),
    Kind(
        name="locks",
        places=("*.lock", "*/lock", "blobs/incoming/*"),
        what="locks, which the kernel holds",
        checked="nobody: they hold nothing",
        rebuilt="made when they are taken",
    ),
    Kind(
        name="quarantine",
        places=("blobs/quarantine/*", "versions/old/*", "dagster/damaged/*"),
        what="damaged bytes and databases, versions of older releases, put aside for a person",
        checked="nobody: they are not read",
        rebuilt="not needed",
    ),
    Kind(
        name="yours",
        places=("holds/*", "recipes/*", "*.toml"),
        what="holds, recipes and settings that a person wrote",
        checked="their reader, line by line; a version keeps the recipe that it was made with",
        rebuilt=_COPY_BACK,
    ),
    Kind(
        name="memory",
        places=("lake.json", ".lake.json"),
        what="where the landing zone and the blobs are, twice",
        checked=_ONE_OF_OURS,
        rebuilt="the other copy",
        units=names.memories,
        check=checks.memory,
        repair=rebuilding.memory,
    ),
    Kind(
        name="landing",
        places=("landing.sqlite*",),
        what="the shards of the landing zone that are known",
        checked="a checksum in every row, SQLite's own check of its pages",
        rebuilt="a scan of the landing zone",
        units=names.one,
        check=checks.landing,
        repair=rebuilding.landing,
    ),
    Kind(
        name="downloads",
        places=("downloads.sqlite*",),
        what="the result of every address that was requested",
        checked="a checksum in every row, SQLite's own check of its pages",
        rebuilt="begun anew: addresses are requested again when their tables are made again",
        units=names.one,
        check=checks.downloads,
        repair=rebuilding.downloads,
    ),
    Kind(
        name="tables",
        places=("tables/*.parquet", "tables/*.stamp.json"),
        what="stage tables and the stamps of everything that is made",
        checked="SHA-256 of the rows in the stamp, `checksum` in the stamp; every table and stamp that a later one "
        "names is there",
        rebuilt="the tables before them, at the next run; items from the landing zone",
        units=names.tables,
        check=checks.tables,
        repair=rebuilding.tables,
    ),
    Kind(
        name="blobs",
        places=("blobs/*",),
        what="media, texts, keyframes and sound tracks",
        checked="their name, the SHA-256 of their bytes; pack indexes have a checksum",
        rebuilt="the landing zone, or decoding the parent at the next run; pack indexes from packs",
        units=named_blobs,
        repair=lambda lake, units: repair_blobs(lake, units),
    ),
    Kind(
        name="catalog",
        places=("catalog/files.json", "catalog/catalog.lance/*"),
        what="the LanceDB table, its indexes and old versions",
        checked="SHA-256 of each file in catalog/files.json, before every first answer of a process",
        rebuilt="the tables, at the next run, which does so by itself",
        units=names.one,
        check=checks.catalog,
        repair=rebuilding.catalog,
    ),
    Kind(
        name="refs",
        places=("versions/refs/*", "versions/logs/*"),
        what="branches, tags and their logs",
        checked="`checksum` in file and line, files against logs",
        rebuilt="the logs, or the version's results; a lost log begins anew",
        units=names.refs,
        check=checks.refs,
        repair=rebuilding.refs,
    ),
    Kind(
        name="versions",
        places=("versions/manifests/*", "versions/trees/*", "versions/segments/*", "versions/drafts/*"),
        what="manifests, trees and segments",
        checked="their name, the SHA-256 of their text or values",
        rebuilt="selecting again, while the tables are those that the version was made from",
        units=names.versions,
        check=checks.versions,
        repair=rebuilding.version_files,
    ),
    Kind(
        name="migrated",
        places=("versions/migrated.json",),
        what="which version of the release before became which",
        checked=_ONE_OF_OURS,
        rebuilt="the versions, which say what they were converted from",
        units=names.migrated,
        check=checks.migrated,
        repair=rebuilding.migrated,
    ),
    Kind(
        name="pins",
        places=("versions/pins/*", "versions/packs/*"),
        what="the texts and facts that a version was published with",
        checked="the SHA-256 in the version's results, and the names of packs",
        rebuilt="the tables, while they hold the same",
        units=names.pinned,
        check=checks.pins,
        repair=rebuilding.pins,
    ),
    Kind(
        name="results",
        places=("results/*",),
        what="what the steps of a version found, and what it was asked to be",
        checked="`checksum` in the file, the SHA-256 in its stamp",
        rebuilt="running the step again; costs then say what holds now",
        units=names.results,
        check=checks.results,
        repair=rebuilding.results,
    ),
    Kind(
        name="chains",
        places=("versions/chains/*",),
        what="the provenance of each version",
        checked="the SHA-256 in the version's results",
        rebuilt="the stamps, while they are those of then",
        units=names.chained,
        check=checks.chains,
        repair=rebuilding.chains,
    ),
    Kind(
        name="shards",
        places=("shards/*",),
        what="training shards, their indexes and mixtures",
        checked="`checksum` in index.json, size, SHA-256 and members as it says, results and version against it",
        rebuilt="the version's samples, pins and blobs",
        units=names.shards,
        pass_over=checks.shards,
        repair=rebuilding.shards,
    ),
    Kind(
        name="probes",
        places=("evals/*",),
        what="frozen probes and their query vectors",
        checked="the set's name, `checksum` in pinned.json, a SHA-256 before the vectors",
        rebuilt="results (which set), the catalog while it gives the same set, encoding (vectors)",
        units=names.probes,
        check=checks.probes,
        repair=rebuilding.probes,
    ),
    Kind(
        name="kept",
        places=("kept/*.join", "kept/*.rows", "kept/*.files", "kept/*.hashed", "kept/aside/*", "kept/begun/*"),
        what="joins of near duplicates, what tables were made from, counts, begun tables, files' blobs, hashed shards",
        checked="a SHA-256 in front; a damaged one is never used",
        rebuilt="joining, making, reading and hashing all at the next change; may be deleted at any time",
        units=names.kept,
        check=checks.kept,
        repair=rebuilding.kept,
    ),
    Kind(
        name="cuts",
        places=("cuts/*",),
        what="clips and segments, and which units could not be cut",
        checked="a SHA-256 next to each; a damaged one is never used",
        rebuilt="cutting again when needed; may be deleted at any time",
        units=names.cuts,
        check=checks.cuts,
        repair=rebuilding.cuts,
    ),
    Kind(
        name="retries",
        places=("retries/*",),
        what="rows to try again, and how often they were",
        checked=_ONE_OF_OURS,
        rebuilt="removed: `mmlake retry` asks again",
        units=names.retries,
        check=checks.documents,
        repair=rebuilding.forgotten("removed; `mmlake retry` asks again"),
    ),
    Kind(
        name="condemned",
        places=("condemned.json",),
        what="blobs that nothing names, and since when",
        checked=_ONE_OF_OURS,
        rebuilt="removed: the grace of every unnamed blob begins anew",
        units=names.condemned,
        check=checks.documents,
        repair=rebuilding.forgotten("removed; the grace period of every unnamed blob begins anew"),
    ),
    Kind(
        name="reports",
        places=("reports/*",),
        what="reports as HTML",
        checked="a SHA-256 behind the page",
        rebuilt="writing the report again, of what holds now",
        units=names.reports,
        check=checks.reports,
        repair=rebuilding.reports,
    ),
    Kind(
        name="eval-sets",
        places=("decontaminate/*",),
        what="the small lakes of eval sets",
        checked="as the tables, blobs and landing of any lake; the digest of the names and revisions of its files",
        rebuilt="the eval set, when it is compared next",
        units=names.eval_sets,
        check=checks.eval_sets,
        repair=rebuilding.eval_sets,
    ),
    Kind(
        name="history",
        places=("dagster/*",),
        what="runs and events, which are Dagster's own; the lake stands without them",
        checked="SQLite's own check, which sees broken pages and no changed values",
        rebuilt="nothing: it is set aside in dagster/damaged, and begun anew",
        units=lambda lake: history.databases(lake.root / "dagster"),
        check=history.check,
        repair=history.set_aside,
    ),
)
