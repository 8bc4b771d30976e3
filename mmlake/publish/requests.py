"""What a version is asked to be: a recipe on a branch, written down before the first step of the version, so that a
killed run goes on with the recipe that it began with, whatever became of its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from mmlake import checked_json
from mmlake.errors import SettingsError, TableCorrupt
from mmlake.lake import Lake
from mmlake.publish.catalog import catalog_is_current
from mmlake.publish.selected import known_columns
from mmlake.publish.version_names import branch_of
from mmlake.recipes import Recipe, check_branch, find_recipe, recipes_of
from mmlake.store import write_atomically


@dataclass(frozen=True, kw_only=True)
class Request:
    """A version that is wanted."""

    recipe: Recipe
    branch: str  # that it moves, and that its name begins with
    message: str = ""


def wanted(lake: Lake, recipe: str, *, branch: str | None = None, message: str = "") -> Request:
    """The request for a recipe by its name or file, on the branch of its name unless another is given. Raises
    SettingsError, before anything is made, where there is no such recipe or a column that it names is unknown; source
    fields are known once there is a catalog of what lies in the landing zone."""
    (found,) = all_wanted(lake, [recipe])
    return replace(found, branch=check_branch(branch or found.branch), message=message)


def all_wanted(lake: Lake, recipes: Iterable[str | Request]) -> Iterator[Request]:
    """The requests for recipes, each as `wanted` makes it; one that is made already stays. The folder of recipes is
    read once, and once it is asked whether the catalog is up to date, which inspects every table of the lake."""
    asked = list(recipes)
    if all(isinstance(one, Request) for one in asked):
        known, columns, fields = {}, [], None
    else:
        known, columns = recipes_of(lake.root), known_columns(lake)
        fields = lake.catalog.source_fields() if catalog_is_current(lake) else None
    for one in asked:
        if isinstance(one, Request):
            yield one
            continue
        recipe = find_recipe(lake.root, one, known=known)
        recipe.check(columns, fields)
        yield Request(recipe=recipe, branch=check_branch(recipe.name))


def ask_for(lake: Lake, version: str, request: Request) -> None:
    """Write down what the version is to be, in place of what was asked for before it was made. Raises SettingsError
    where it is made already, and something else."""
    if (known := _written(lake, version)) is not None and lake.versions.is_tagged(version):
        if known.recipe.digest != request.recipe.digest or known.branch != request.branch:
            raise SettingsError(
                f"version {version} is recipe '{known.recipe.name}' on branch '{known.branch}', not "
                f"'{request.recipe.name}' on '{request.branch}'; publish under the next free name"
            )
        return
    rewrite_request(lake, version, request)


def rewrite_request(lake: Lake, version: str, request: Request) -> None:
    """Write down what the version is to be, whatever was asked for before."""
    body = {"recipe": request.recipe.to_dict(), "branch": request.branch, "message": request.message}
    path = lake.root / "results" / version / "request.json"
    write_atomically(path, checked_json.dumps(body | {"text": request.recipe.text}))


def request_of(lake: Lake, version: str) -> Request:
    """What the version was asked to be; where nothing was written, the recipe that its name begins with. Raises
    SettingsError where there is none of that name."""
    if (written := _written(lake, version)) is not None:
        return written
    branch, known = branch_of(version), recipes_of(lake.root)
    if branch not in known:
        raise SettingsError(
            f"version {version} begins with the name of no recipe and was not asked for by `mmlake publish`; recipes "
            f"are {', '.join(known)}"
        )
    return Request(recipe=known[branch], branch=branch)


def _written(lake: Lake, version: str) -> Request | None:
    path = lake.root / "results" / version / "request.json"
    try:
        body = checked_json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise TableCorrupt(f"{path} is not what was written; run `mmlake fsck --repair`") from error
    return Request(recipe=Recipe.from_dict(body["recipe"]), branch=body["branch"], message=body["message"])
