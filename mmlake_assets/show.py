"""A run as a person watches it: a bar per phase while it goes, one summary at the end."""

import errno
import shlex
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from rich.console import Console

from mmlake.cli.app import messages, of_the_disk
from mmlake.drawing import number_of
from mmlake.errors import HistoryCorrupt, LakeLocked, SettingsError
from mmlake.lake import Lake
from mmlake.loader import TrackSample, track_samples
from mmlake.locks import exclusive_lock
from mmlake.publish import Request, read_dead_letters
from mmlake.sample import Truth
from mmlake.summary import Summary, summarize
from mmlake.track_drawing import drawn_tracks
from mmlake.truth import (
    SampleTruth,
    Truthful,
    UnitTruth,
    compare_samples,
    compare_units,
    compare_with_truth,
    pin_sample_probes,
)
from mmlake.upkeep.history import damaged
from mmlake.version_report import newest_report, write_version_report
from mmlake_assets.watching import watching
from mmlake_resources import CudaExecutorResource, LakeResource


@dataclass(kw_only=True)
class Shown:
    """What a run ended in, for people and for programs."""

    lake: Lake
    summary: Summary
    runs: list[str]
    made: list[str]
    versions: dict[str, str]  # branch -> name of the version that now holds it
    report: Path
    seconds: float
    truth: Truthful | None = None
    samples: SampleTruth | None = None  # planted samples, as the curated version holds them
    units: UnitTruth | None = None  # planted films and recordings of minutes, likewise
    tracks: TrackSample | None = None  # of the demo: a clip as the loader reads it from the curated version's shards
    changes: dict[str, int] = field(default_factory=dict)
    num_failed: int = 0  # dead letters, those of earlier runs too

    def to_dict(self) -> dict[str, object]:
        """The JSON of `--json`."""
        return {
            "summary": self.summary.to_dict(),
            "landing": self.changes,
            "dagster_runs": self.runs,
            "new_versions": self.made,
            "failed": self.num_failed,
            "report": str(self.report),
            "seconds": round(self.seconds, 2),
            "truth": self.truth.to_dict() if self.truth else None,
            "planted_samples": asdict(self.samples) if self.samples else None,
            "planted_units": asdict(self.units) if self.units else None,
            "tracks": {"sample": self.tracks.key, **self.tracks.facts} if self.tracks else None,
        }

    @property
    def is_truth_met(self) -> bool:
        """Whether everything that was planted is there as it must be; false where nothing was."""
        planted = (self.truth, self.samples, self.units)
        return all(one is not None and one.is_met for one in planted)

    def draw(self, out: Console) -> None:
        """The summary table, the truth where it is known, and which command comes next."""
        planted = [*(self.truth.tables() if self.truth else ())]
        planted += [one.drawn() for one in (self.samples, self.units) if one is not None]
        clip = [] if self.tracks is None else [drawn_tracks(self.tracks, width=min(out.width, 120))]
        for part in (*self.summary.tables(), *planted, *clip):
            out.print(part)
            out.print()
        lake = shlex.quote(str(self.lake.root))
        for line in self._empty(lake):
            out.print(line, soft_wrap=True)
        done = (
            f"{number_of(len(self.runs), 'Dagster run')}, new: {', '.join(self.made) or 'no version'}"
            if self.runs
            else "nothing to do, everything is up to date"
        )
        out.print(f"{done}; {self.seconds:.1f} s")
        if self.num_failed:
            out.print(f"failed   {number_of(self.num_failed, 'item')}: mmlake failed --lake {lake}", soft_wrap=True)
        if num_waiting := sum(row.num_waiting for row in self.summary.modalities):
            out.print(
                f"waiting  {number_of(num_waiting, 'unit')} without a verdict, of shards that left the landing zone "
                "before a run judged them; with their files back, `mmlake run` does",
                soft_wrap=True,
            )
        out.print(f"report   {self.report}", soft_wrap=True)
        for name, command in (("next", "ui"), ("", 'search "..."'), ("", "why DIGEST"), ("", "status")):
            out.print(f"{name:<8} mmlake {command} --lake {lake}", soft_wrap=True)

    def _empty(self, lake: str) -> Iterator[str]:
        """A line for each version of this run that nothing came into."""
        for row in self.summary.versions:
            if row["version"] in self.versions.values() and not row["num_samples"]:
                is_reported = (
                    "everything" in self.lake.versions.branches() and self.lake.versions.read("everything").num_samples
                )
                where = (
                    f"`mmlake diff everything {row['version']} --lake {lake}` says why"
                    if is_reported
                    else "the report says why"
                )
                yield f"{row['version']}: 0 of {number_of(row['num_excluded'], 'sample')} admitted; {where}"


def run_and_show(
    lake_dir: Path,
    *,
    landing: str | dict[str, str] | None,
    settings: Path | None,
    device: str,
    recipes: Sequence[str | Request],
    quiet: bool,
    truth: Truth | None = None,
    limit: int | None = None,
    workers: int | None = None,
) -> Shown:
    """Run the lake through Dagster with a progress display, write the report, and gather the summary. landing: one
    landing zone or several by name, with absolute paths."""
    from mmlake_assets.instance import dagster_home, open_instance
    from mmlake_assets.run import run_lake

    started = time.perf_counter()
    settings_file = str(settings) if settings else None
    resource = LakeResource.at(str(lake_dir), landing, settings_file=settings_file, limit=limit, workers=workers)
    resource.open().pin_landing()
    pin = (lambda lake: pin_sample_probes(lake, truth)) if truth else None
    with (
        without_stub(lake_dir),
        _explained(dagster_home(lake_dir)),
        open_instance(lake_dir) as instance,
        watching(quiet) as watch,
    ):
        executor = CudaExecutorResource(device=device)
        ran = run_lake(
            resource, executor, instance, recipes=recipes, phase=watch.begin, scanned=watch.scanned, before_versions=pin
        )
    lake = resource.open()
    summary, met = summarize(lake, keep=True), compare_with_truth(lake, truth) if truth else None
    if ran.runs or not (report := newest_report(lake)).exists():
        report = write_version_report(lake, None, planted=met.planted() if met else None, summary=summary)
    changes = {
        "new": len(ran.listing.new),
        "changed": len(ran.listing.changed),
        "gone": len(ran.listing.gone),
        "unchanged": ran.listing.unchanged,
    }
    seconds = time.perf_counter() - started
    return Shown(
        lake=lake,
        summary=summary,
        truth=met,
        samples=compare_samples(lake, truth, ran.versions["curated"]) if truth else None,
        units=compare_units(lake, truth, ran.versions["curated"]) if truth else None,
        tracks=_clip(lake) if truth else None,
        runs=ran.runs,
        made=ran.made,
        versions=ran.versions,
        report=report,
        seconds=seconds,
        changes=changes,
        num_failed=read_dead_letters(lake).num_rows,
    )


def _clip(lake: Lake) -> TrackSample | None:
    """The clip of the curated version with the most to show."""
    return next(iter(track_samples(lake.shards_dir / lake.versions.resolve("curated"), 1)), None)


def publish_and_show(
    lake_dir: Path, request: Request, *, settings: Path | None, device: str, quiet: bool
) -> dict[str, object]:
    """Publish what is asked for, through Dagster, with a progress display; what came of it, for people and programs."""
    from mmlake_assets.instance import dagster_home, open_instance
    from mmlake_assets.run import publish_one

    resource = LakeResource.at(str(lake_dir), None, settings_file=str(settings) if settings else None)
    with _explained(dagster_home(lake_dir)), open_instance(lake_dir) as instance, watching(quiet) as watch:
        ran = publish_one(resource, CudaExecutorResource(device=device), instance, request=request, phase=watch.begin)
    name = ran.versions[request.branch]
    made = resource.open().versions.read(name)
    return {
        "version": name,
        "id": made.id,
        "branch": request.branch,
        "recipe": request.recipe.name,
        "recipe_digest": request.recipe.digest,
        "is_new": bool(ran.made),
        "num_samples": made.num_samples,
        "num_excluded": made.num_excluded,
        "dagster_runs": ran.runs,
    }


@contextmanager
def without_stub(root: Path) -> Iterator[None]:
    """Takes away again what a run has put into the directory that ends before there is a lake in it: an empty history
    and a lock read like a lake that lost its data. Raises SettingsError where the directory cannot be made."""
    new = [path for path in (root, *root.parents) if not path.exists()]
    make_root(root)
    before = set(root.iterdir())
    try:
        yield
    except BaseException:
        with suppress(LakeLocked), exclusive_lock(root / ".run.lock", what=f"lake {root}"):
            if not ((root / "lake.json").exists() or (root / "tables").exists()):
                for path in set(root.iterdir()) - before:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                with suppress(OSError):  # somebody put something there meanwhile
                    for path in new:
                        path.rmdir()
        raise


def make_root(root: Path) -> None:
    """Make the directory of a lake. Raises SettingsError where nothing can be made under that name."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG):
            raise  # of rights or a full disk, which has a message of its own
        raise SettingsError(
            f"lake {root} cannot be made: {error.strerror}; name another directory with --lake"
        ) from error


def ready_history(root: Path) -> None:
    """Make the lake's directory and Dagster's home in it, where they are missing. Raises HistoryCorrupt where a
    database in it cannot be read, before services are started on it."""
    from mmlake_assets.instance import dagster_home, read_history

    make_root(root)
    with _explained(dagster_home(root)):
        read_history(root)


@contextmanager
def _explained(home: Path) -> Iterator[None]:
    """Says what Ctrl-C leaves, and raises a full or read-only disk under Dagster's databases as what it is, and
    HistoryCorrupt where they are damaged."""
    from dagster import DagsterError
    from sqlalchemy.exc import DBAPIError

    try:
        with redirect_stderr(cast("IO[str]", _WithoutEcho(sys.stderr))):
            yield
    except KeyboardInterrupt:
        messages().print(
            "stopped; what is done stays, tables that were begun as well, and the same command goes on from there"
        )
        raise
    except (DBAPIError, DagsterError, sqlite3.Error) as error:
        raised = error.orig if isinstance(error, DBAPIError) else error
        of_disk = of_the_disk(raised, home) if isinstance(raised, sqlite3.Error) else None
        if of_disk is not None:
            raise of_disk from error
        if problems := damaged(home):
            raise HistoryCorrupt(
                f"{problems[0]}; it holds what ran and when, and nothing that was made: "
                "`mmlake fsck --kind history --repair` sets it aside, then run the same command again"
            ) from error
        raise


class _WithoutEcho:
    """A stream without the SQL that Dagster writes to it when its database cannot be written, before it raises the same
    error, which is then explained in one line."""

    _ECHOES = ("Exception while writing logger call to event log: ", "Exception while storing event batch: ")
    _OF_DISK = ("database or disk is full", "disk I/O error", "readonly database", "unable to open database file")

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self._is_echo = stream, False

    def write(self, text: str) -> int:
        """Pass the text on, unless it is an echo or the line that follows one."""
        follows = self._is_echo and text.startswith("Falling back to storing")
        self._is_echo = text.startswith(self._ECHOES) and any(words in text for words in self._OF_DISK)
        return len(text) if self._is_echo or follows else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
