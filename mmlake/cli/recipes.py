"""Commands on recipes: list, show, check, diff. `mmlake publish` is in `mmlake_assets.console`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from mmlake.cli.app import DEFAULT_LAKE, JsonOption, LakeOption, app, emit, open_lake
from mmlake.drawing import key_values, short, table

if TYPE_CHECKING:
    from mmlake.publish.dry_run import DryRun

recipe_app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
app.add_typer(
    recipe_app,
    name="recipe",
    rich_help_panel="Versions",
    help="Recipes: what versions admit, how many of each group, and how often each is trained on.\n\n"
    "Example: `mmlake recipe list`, `mmlake recipe check captioned.toml`",
)
RecipeArgument = Annotated[str, typer.Argument(help="Name of a recipe of the package or the lake, or a file of TOML.")]


@recipe_app.command("list")
def list_recipes(lake: LakeOption = DEFAULT_LAKE, as_json: JsonOption = False) -> None:
    """Every recipe of the package and of the lake's folder `recipes/`.

    Example: `mmlake recipe list --lake ./lake`
    """
    from mmlake.recipes import recipes_of

    rows = [
        {"name": one.name, "digest": one.digest, "description": one.description, "file": one.origin}
        for one in recipes_of(lake).values()
    ]

    def draw(out: Console) -> None:
        lines = [[row["name"], short(row["digest"]), row["description"], row["file"]] for row in rows]
        out.print(table("Recipes", ["name", "digest", "description", "file"], lines))

    emit({"recipes": rows}, as_json=as_json, draw=draw)


@recipe_app.command()
def show(recipe: RecipeArgument, lake: LakeOption = DEFAULT_LAKE, as_json: JsonOption = False) -> None:
    """A recipe with all of its keys, those included that it leaves at their defaults.

    Example: `mmlake recipe show curated`
    """
    from mmlake.recipes import find_recipe

    found = find_recipe(lake, recipe)
    data = {"file": found.origin, "digest": found.digest, **_keys(found.to_dict())}
    emit(data, as_json=as_json, draw=lambda out: out.print(key_values({key: str(one) for key, one in data.items()})))


@recipe_app.command()
def check(recipe: RecipeArgument, lake: LakeOption = DEFAULT_LAKE, as_json: JsonOption = False) -> None:
    """Whether a recipe can be published: its keys, licences and condition, and, where there is a lake with a catalog,
    its columns, quotas and groups. Exit code 2 with what is wrong where it cannot.

    Example: `mmlake recipe check captioned.toml --lake ./lake`
    """
    from mmlake.recipes import find_recipe

    found = find_recipe(lake, recipe)
    data: dict[str, Any] = {"recipe": found.name, "digest": found.digest, "checked_against": None}
    if (lake / "lake.json").exists():
        from mmlake.publish import wanted
        from mmlake.publish.dry_run import dry_run

        opened = open_lake(lake)
        wanted(opened, recipe)
        if opened.catalog.count():
            data |= {"checked_against": str(lake), "num_admitted": dry_run(opened, found).num_admitted}
    against = f"; its columns, quotas and groups were not checked, since {lake} holds no lake with a catalog"
    if data["checked_against"]:
        against = f"; {data['num_admitted']} samples of {lake} are admitted"
    emit(data, as_json=as_json, draw=lambda out: out.print(f"recipe '{found.name}' is sound{against}"))


@recipe_app.command("diff")
def diff_recipes(
    before: RecipeArgument, after: RecipeArgument, lake: LakeOption = DEFAULT_LAKE, as_json: JsonOption = False
) -> None:
    """The keys in which two recipes differ.

    Example: `mmlake recipe diff curated captioned.toml`
    """
    from mmlake.recipes import find_recipe

    old, new = find_recipe(lake, before), find_recipe(lake, after)
    left, right = (_keys(one.to_dict()) for one in (old, new))
    keys = {
        key: {"before": left.get(key), "after": right.get(key)}
        for key in dict.fromkeys([*left, *right])
        if left.get(key) != right.get(key)
    }
    data = {"before": old.digest, "after": new.digest, "is_same": old.digest == new.digest, "keys": keys}

    def draw(out: Console) -> None:
        lines = [[key, str(one["before"]), str(one["after"])] for key, one in keys.items()]
        out.print(table(f"{old.name} -> {new.name}", ["key", old.name, new.name], lines) if lines else "no difference")

    emit(data, as_json=as_json, draw=draw)


def draw_dry_run(out: Console, found: DryRun, lake: Path) -> None:
    """The counts of a dry run, for people."""
    lines = [[one.clause, one.alone, one.in_order] for one in found.clauses]
    columns = ["clause", "alone", "in order"]
    out.print(table(f"{found.recipe.name}: samples that each clause takes away", columns, lines, right=columns[1:]))
    out.print()
    if found.masked:
        masked = [[cause, count] for cause, count in found.masked.items()]
        out.print(table("Parts left out of samples that stay", ["cause", "parts"], masked, right=["parts"]))
        out.print()
    if found.mixture:
        groups = [[name, one["num_samples"], one["num_positions"]] for name, one in found.mixture.items()]
        columns = ["group", "samples", "given out per epoch"]
        out.print(table("Mixture", columns, groups, right=columns[1:]))
        out.print()
    out.print(f"{found.num_admitted} of {found.num_samples} samples of {lake} are admitted; nothing was published")


def _keys(values: dict[str, Any]) -> dict[str, Any]:
    """The canonical form with the keys that documents have, defaults included."""
    from mmlake.recipes import Recipe

    blank = Recipe(name="x", description="")
    for name in ("where", "sources", "size", "languages", "quotas", "mixture", "seed"):
        default = getattr(blank, name)
        values.setdefault(name, list(default) if isinstance(default, tuple) else default)
    licences = {"allow": values.pop("allow_licences"), "deny": values.pop("deny_licences")}
    return values | {"licences": licences}
