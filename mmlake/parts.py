"""The tables of parts as one lake uses them: the built-in rows and those of the plugins that its settings name.

Immutable values, made by functions: no row is ever registered, and two lakes in one process may use different ones.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from mmlake.catalog import is_taken
from mmlake.dedup import Tier
from mmlake.embed import ENCODERS, Encoder, encoder_for
from mmlake.error_codes import CODES
from mmlake.errors import SettingsError
from mmlake.modalities import MODALITIES, Modality
from mmlake.plugins import Plugin, load
from mmlake.quality import Measurement, Rule, Scorer, rules_digest
from mmlake.quality.rule import NUM_FAILURES
from mmlake.records import signed
from mmlake.schemas import TRACKS
from mmlake.settings import Settings
from mmlake.sources import SOURCES, Connector, Connectors

PLUGIN_CODES = range(9000, 10_000)  # error codes of rules that plugins bring; the catalogue ends below
_OF_TRACKS = ("width_px", "height_px", "duration_s", "num_words")  # numbers that the catalog takes from the tracks
Row = Rule | Measurement | Scorer | Tier | Encoder | Connector
_R = TypeVar("_R", Rule, Measurement, Scorer, Tier, Encoder, Connector)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Every table of parts. Not a part itself: `plugins` are those whose rows the tables hold."""

    modalities: Mapping[str, Modality]
    encoders: Mapping[str, Encoder]
    connectors: Connectors
    plugins: tuple[Plugin, ...] = field(default=())

    def modality(self, name: str) -> Modality:
        """The row. Raises SettingsError for one that no table has."""
        if name not in self.modalities:
            raise SettingsError(f"modality is {name!r}, expected one of {', '.join(self.modalities)}; correct the name")
        return self.modalities[name]

    def encoder(self, name: str, modality: str) -> Encoder:
        """The row, which takes that modality. Raises SettingsError naming those that do."""
        return encoder_for(name, modality, self.encoders)

    @cached_property
    def semantic_bounds(self) -> dict[str, float]:
        """Encoder -> the cosine from which on two items are semantic duplicates."""
        return {row.name: row.duplicate_cosine for row in self.encoders.values()}


BUILT_IN = Parts(modalities=MODALITIES, encoders=ENCODERS, connectors=SOURCES)


def parts_of(settings: Settings, *, base: Parts = BUILT_IN) -> Parts:
    """The tables for these settings: those of `base` and the rows of the plugins that the settings name. Raises
    SettingsError for a plugin that cannot be used and for settings that name a row that no table has."""
    parts = assemble(load(settings.plugins), base=base)
    _check_names(settings, parts)
    return parts


def assemble(plugins: Iterable[Plugin], *, base: Parts = BUILT_IN) -> Parts:
    """The tables of `base` with the rows of the plugins behind their own. Raises SettingsError naming plugin, row,
    what was expected and what to do."""
    parts = base
    for plugin in plugins:
        if plugin in parts.plugins:
            continue  # named as a module and as an entry point
        if any(plugin.name == other.name for other in parts.plugins):
            raise SettingsError(f"two plugins are called {plugin.name!r}; name one of them in [plugins]")
        parts = _with(plugin, parts)
    return parts


def steering(rows: Iterable[Row]) -> dict[str, str]:
    """What a stamp says of the plugins among the rows that steer a table: plugins/<name> -> version."""
    signatures = sorted({row.plugin for row in rows if row.plugin})
    return {f"plugins/{name}": version for name, _, version in (one.partition("==") for one in signatures)}


def measure_columns(modality: Modality) -> list[str]:
    """The measures of the modality that are columns of the catalog, by name; those that the catalog takes from the
    track, as the measurement does, are there already. Raises SettingsError for a name that means something else."""
    names = {NUM_FAILURES, *modality.model_measures}
    for one in (*modality.measurements, *(scorer.as_measurement() for scorer in modality.scorers)):
        for name in one.measures:
            if not is_taken(name):
                names.add(name)
            elif name not in _OF_TRACKS or name not in one.columns:
                raise SettingsError(
                    f"measure {name!r} of {signed(one.name, one.plugin)!r} has the name of the catalog's column "
                    f"{name!r}, which holds something else; rename the measure"
                )
    return sorted(names)


def rule_versions(rules: Sequence[Rule]) -> dict[str, str]:
    """What a stamp says of the rules that plugins bring: their version, and a digest, since a bound that was moved
    without a new version shall judge again as well."""
    foreign = [rule for rule in rules if rule.plugin]
    return steering(foreign) | ({"plugins/rules": rules_digest({"": foreign})} if foreign else {})


def _with(plugin: Plugin, parts: Parts) -> Parts:
    old = parts.modalities.values()
    taken = [one for before in old for one in before.rules]
    rules = {
        name: _signed(plugin, Rule, rows, taken, table="rules") for name, rows in _by_modality(plugin, parts).items()
    }
    measuring: list[Measurement | Scorer] = [one for before in old for one in before.measurements]
    measuring += [one for before in old for one in before.scorers]
    measurements = _signed(plugin, Measurement, plugin.measurements, measuring, table="measurements")
    scorers = _signed(plugin, Scorer, plugin.scorers, [*measuring, *measurements], table="scorers")
    tiers = _signed(plugin, Tier, plugin.tiers, [one for before in old for one in before.tiers], table="tiers")
    encoders = _signed(plugin, Encoder, plugin.encoders, parts.encoders.values(), table="encoders")
    connectors = _signed(plugin, Connector, plugin.connectors, parts.connectors.values(), table="connectors")
    readers: list[Measurement | Scorer] = [*measurements, *scorers]
    of_several: list[Measurement | Scorer | Encoder] = [*readers, *encoders]
    for row in of_several:
        _refuse_unknown(plugin, row, row.modalities, parts.modalities, "modality")
    for tier in tiers:
        _refuse_unknown(plugin, tier, (tier.modality,), parts.modalities, "modality")
    for reader in readers:
        _refuse_unknown(plugin, reader, reader.columns, TRACKS.arrow.names, "column of tracks")
    modalities = {
        name: replace(
            before,
            rules=(*before.rules, *rules.get(name, ())),
            measurements=(*before.measurements, *(one for one in measurements if name in one.modalities)),
            scorers=(*before.scorers, *(one for one in scorers if name in one.modalities)),
            tiers=(*before.tiers, *(one for one in tiers if one.modality == name)),
        )
        for name, before in parts.modalities.items()
    }
    _check_rules(plugin, modalities)
    for modality in modalities.values():
        measure_columns(modality)
    return Parts(
        modalities=modalities,
        encoders={**parts.encoders, **{row.name: row for row in encoders}},
        connectors=Connectors([*connectors, *parts.connectors.values()]),  # the last built-in one takes every file
        plugins=(*parts.plugins, plugin),
    )


def _by_modality(plugin: Plugin, parts: Parts) -> Mapping[str, Sequence[Rule]]:
    if unknown := sorted(plugin.rules.keys() - parts.modalities.keys()):
        raise SettingsError(
            f"plugin {plugin.name}: rules are given for the modality {unknown[0]!r}, expected one of "
            f"{', '.join(parts.modalities)}; correct the key"
        )
    return plugin.rules


def _signed(plugin: Plugin, kind: type[_R], rows: Iterable[_R], taken: Iterable[Row], *, table: str) -> tuple[_R, ...]:
    """The rows with the plugin's signature, each of the right type, with names that no other row of the table has,
    and importable by worker processes."""
    used = {name for row in taken for name in _names(row)}
    # names of checks in the UI take underscores, columns of vectors in the catalog are made from hyphens
    mark = "_" if kind in (Rule, Measurement, Scorer) else "-"
    form = f"{plugin.name}{mark}[a-z0-9{mark}]+"
    made: list[_R] = []
    for row in rows:
        if not isinstance(row, kind):
            raise SettingsError(
                f"plugin {plugin.name}: {table} holds a {type(row).__name__}, expected rows of the type "
                f"{kind.__name__}; correct its Plugin(...)"
            )
        for name in _names(row):
            if name in used:
                raise SettingsError(
                    f"plugin {plugin.name}: {table} has the name {name!r}, which another row has already; expected "
                    f"{form}, each row its own"
                )
            if re.fullmatch(form, name) is None:
                raise SettingsError(
                    f"plugin {plugin.name}: {table} has the name {name!r}, expected {form}, so that it never meets "
                    "another's; rename it"
                )
        used.update(_names(row))
        for column, function in _functions(row):
            _refuse_local(plugin, f"{table} {row_name(row)!r}", column, function)
        made.append(replace(row, plugin=plugin.signature))
    return tuple(made)


def row_name(row: Row) -> str:
    """The name of a row of any table."""
    return row.method if isinstance(row, Tier) else row.name


def _names(row: Row) -> tuple[str, ...]:
    """Every name that the row brings into tables."""
    match row:
        case Measurement():
            return tuple(dict.fromkeys((row.name, *row.measures)))
        case Tier():
            return tuple(dict.fromkeys((row.method, *row.methods)))
    return (row_name(row),)


def _functions(row: Row) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The row's functions that worker processes call."""
    match row:
        case Measurement():
            yield "take", row.take
            if row.take_spans is not None:
                yield "take_spans", row.take_spans
        case Scorer():
            yield "load", row.load
        case Tier():
            yield "fingerprint", row.fingerprint
            if row.of_spans is not None:
                yield "of_spans", row.of_spans
        case Encoder():
            yield "loader", row.loader


def _refuse_local(plugin: Plugin, where: str, column: str, function: Callable[..., Any]) -> None:
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise SettingsError(
            f"plugin {plugin.name}: {column} of {where} is {getattr(function, '__qualname__', function)!r}, which "
            "worker processes cannot import by its name; define it at the top level of the plugin's module"
        ) from error


def _refuse_unknown(plugin: Plugin, row: Row, given: Iterable[str], known: Iterable[str], what: str) -> None:
    known = tuple(known)
    if unknown := [one for one in given if one not in known]:
        raise SettingsError(
            f"plugin {plugin.name}: {row_name(row)!r} names the {what} {unknown[0]!r}, expected one of "
            f"{', '.join(known)}; correct the row"
        )


def _check_rules(plugin: Plugin, modalities: Mapping[str, Modality]) -> None:
    """Refuse rules whose measure nobody takes, since they would never break, and codes that mean something else."""
    taken: dict[int, str] = {}
    for modality in modalities.values():
        measures = {name for row in (*modality.measurements,) for name in row.measures}
        measures |= {"num_failures", *(row.name for row in modality.scorers)}
        for rule in modality.rules:
            if not rule.plugin:
                continue
            if rule.measure not in measures:
                raise SettingsError(
                    f"plugin {plugin.name}: rule {rule.name!r} judges {rule.measure!r}, which no "
                    f"measurement of {modality.name} gives; expected one of {', '.join(sorted(measures))}"
                )
            if rule.error_code not in PLUGIN_CODES or rule.error_code in CODES:
                raise SettingsError(
                    f"plugin {plugin.name}: rule {rule.name!r} has the error code {rule.error_code}, expected one of "
                    f"{PLUGIN_CODES.start} to {PLUGIN_CODES.stop - 1}, which are those of plugins; choose another"
                )
            if taken.setdefault(rule.error_code, rule.name) != rule.name:
                raise SettingsError(
                    f"plugin {plugin.name}: rules {taken[rule.error_code]!r} and {rule.name!r} both have the error "
                    f"code {rule.error_code}; give each its own"
                )


def _check_names(settings: Settings, parts: Parts) -> None:
    """Raises SettingsError where the settings name a rule, a modality or an encoder that no table has."""
    known = {rule.name for row in parts.modalities.values() for rule in row.rules}
    if unknown := sorted((set(settings.quality.bounds) | set(settings.quality.disabled)) - known):
        raise SettingsError(
            f"quality.bounds or quality.disabled names {unknown}, which are no rules; the rules are {sorted(known)}"
        )
    if unknown := sorted(settings.dedup.semantic_bounds.keys() - parts.encoders.keys()):
        raise SettingsError(
            f"dedup.semantic_bounds names {unknown}, which are no encoders; the encoders are {sorted(parts.encoders)}"
        )
    settings.decontaminate.check_modalities(parts.modalities)
    for modality, encoder in settings.embed.encoders.items():
        parts.encoder(encoder, parts.modality(modality).name)
