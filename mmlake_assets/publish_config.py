"""The configuration of the job `publish_version`: recipe, branch and message of the version."""

from pathlib import Path

import dagster as dg

from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.publish import ask_for, branch_of, wanted
from mmlake.recipes import is_file

MANIFEST_CONFIG = {
    "recipe": dg.Field(
        str,
        default_value="",
        description="Name of a recipe of the package or the lake, or a file in the lake; empty for what was asked for "
        "with `mmlake publish`, else the recipe that the version's name begins with.",
    ),
    "branch": dg.Field(
        str,
        default_value="",
        description="Branch that moves; empty for the one that the version's name begins with, which it must be.",
    ),
    "message": dg.Field(str, default_value="", description="A sentence to keep with the version."),
}


def ask_as_configured(lake: Lake, version: str, config: dict[str, str] | None) -> None:
    """Write down what the configuration asks the version to be, where it names a recipe. Raises SettingsError, also for
    a file outside of the lake: whoever may launch a run may not read the files of this machine by it."""
    if not config or not config["recipe"]:
        return
    if is_file(config["recipe"]) and not Path(config["recipe"]).resolve().is_relative_to(lake.root.resolve()):
        raise SettingsError(
            f"recipe {config['recipe']} is not in lake {lake.root}; put it into {lake.root / 'recipes'}, or run "
            "`mmlake publish --recipe` with the file"
        )
    branch = branch_of(version)
    if config["branch"] not in ("", branch):
        raise SettingsError(
            f"version {version} is of branch '{branch}', the configuration says '{config['branch']}'; add the "
            f"partition '{config['branch']}-v001', or the next one that is free, and materialize that"
        )
    ask_for(lake, version, wanted(lake, config["recipe"], branch=branch, message=config["message"]))
