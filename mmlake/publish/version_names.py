"""Names of versions: `<branch>-v<number>`; unless another is given, a branch has the name of its recipe."""

from __future__ import annotations

from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.recipes import VERSION_NAME
from mmlake.tables import Slot


def branch_of(version: str) -> str:
    """The branch in a version's name. Raises SettingsError where the name has none."""
    match = VERSION_NAME.fullmatch(version)
    if match is None:
        raise SettingsError(f"version name {version!r} is not <branch>-v<number>, such as 'curated-v001'")
    return match["branch"]


def version_names(lake: Lake, branch: str | None = None) -> list[str]:
    """Names of the lake's versions, begun or finished, oldest first within a branch."""
    names = set(lake.versions.tags()) | set(lake.tables.shards("manifest", "all"))
    found = [(match["branch"], int(match["number"]), name) for name in names if (match := VERSION_NAME.fullmatch(name))]
    # by number: as text, v1000 stands before v999
    return [name for kind, _, name in sorted(found) if branch in (None, kind)]


def next_version(lake: Lake, branch: str) -> str:
    """The first free name of the branch."""
    names = version_names(lake, branch)
    return f"{branch}-v{_number(names[-1]) + 1 if names else 1:03d}"


def earlier_versions(lake: Lake, version: str) -> list[str]:
    """The versions of the same branch before this one, oldest first."""
    number = _number(version)
    return [name for name in version_names(lake, branch_of(version)) if _number(name) < number]


def slot_of(step: str, version: str) -> Slot:
    """Where the stamp of a version's step lies."""
    return Slot(step, "all", version)


def _number(version: str) -> int:
    return int(version.rpartition("-v")[2])
