"""Plugins: packages that bring rows for the tables of parts, and the settings that name them.

A plugin is a plain value, made by the function `mmlake_rows` of a module or by what an entry point of the group
`mmlake.plugins` names. Nothing is imported that the settings do not name: what is installed on a machine never decides
what its tables hold. How the rows enter the tables is `mmlake/parts.py`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from mmlake.dedup import DedupSettings, Tier
from mmlake.dedup.tiers import Match, Prints
from mmlake.embed import EmbedSettings, Encoder
from mmlake.embed.classical import Classical
from mmlake.embed.encoder_protocol import LoadedEncoder
from mmlake.embed.media import Media
from mmlake.errors import SettingsError, UnreadableItem
from mmlake.progress import Advance
from mmlake.quality import Measurement, Rule, Scorer
from mmlake.quality.measurement import Measures, Score, Subject, Track, own_blob
from mmlake.records import SourceRef
from mmlake.sources import Connector, Content, RawItem
from mmlake.sources.raw_items import Reading
from mmlake.spans import Sound, Span
from mmlake.store import Blobs

# what rows are made of, for plugins to import from here: where it stands inside may change
__all__ = [
    "Advance",
    "Blobs",
    "Classical",
    "Connector",
    "Content",
    "DedupSettings",
    "EmbedSettings",
    "Encoder",
    "LoadedEncoder",
    "Match",
    "Measurement",
    "Measures",
    "Media",
    "Plugin",
    "PluginSettings",
    "Prints",
    "RawItem",
    "Reading",
    "Rule",
    "Score",
    "Scorer",
    "Sound",
    "SourceRef",
    "Span",
    "Subject",
    "Tier",
    "Track",
    "UnreadableItem",
    "load",
    "own_blob",
]
GROUP = "mmlake.plugins"  # of entry points
OFFER = "mmlake_rows"  # the function of a plugin's module
ALL = "*"  # every installed entry point of the group
_NAME = re.compile(r"[a-z][a-z0-9]*")  # no separator, so that no row has a name like another plugin's
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class PluginSettings:
    """Which plugins are loaded; none unless named. JSON-able."""

    modules: tuple[str, ...] = ()
    # importable names of Python modules that have a function `mmlake_rows`
    entry_points: tuple[str, ...] = ()
    # names of installed entry points of the group `mmlake.plugins`, or "*" for all of them: then an installed package
    # is enough to change tables


@dataclass(frozen=True, kw_only=True, slots=True)
class Plugin:
    """What one plugin brings. Names of its rows begin with its own: `acme_dark` for rules, measurements and scorers,
    `acme-thumb` for tiers, encoders and connectors."""

    name: str  # lower-case letters and digits
    version: str  # another one makes the tables that its rows steer stale, and only those
    rules: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)  # by modality
    measurements: tuple[Measurement, ...] = ()
    scorers: tuple[Scorer, ...] = ()
    tiers: tuple[Tier, ...] = ()
    encoders: tuple[Encoder, ...] = ()
    connectors: tuple[Connector, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a name or a version that rows and stamps could not show."""
        for what, value, form in (("name", self.name, _NAME), ("version", self.version, _VERSION)):
            if not isinstance(value, str) or form.fullmatch(value) is None:
                raise SettingsError(
                    f"a plugin has the {what} {value!r}, expected {form.pattern}; correct it in its Plugin(...)"
                )

    @property
    def signature(self) -> str:
        """How rows and stamps name it: "name==version"."""
        return f"{self.name}=={self.version}"


def load(settings: PluginSettings) -> tuple[Plugin, ...]:
    """The plugins that the settings name, sorted by name. Raises SettingsError naming the one that cannot be had."""
    found = [_offered(name, _imported(name)) for name in settings.modules]
    found += [_offered(point.name, _loaded(point)) for point in _points(settings.entry_points)]
    return tuple(sorted(found, key=lambda plugin: plugin.name))


def _imported(name: str) -> Any:
    module = _of_plugin(
        name, lambda: importlib.import_module(name), "cannot be imported", "install it where mmlake runs"
    )
    offer = getattr(module, OFFER, None)
    if offer is None:
        raise SettingsError(
            f"[plugins] modules names {name!r}, which has no function {OFFER}() -> mmlake.plugins.Plugin; add it, or "
            "name the module that has it"
        )
    return offer


def _of_plugin(name: str, call: Callable[[], Any], fails: str, remedy: str) -> Any:
    """What the call gives. Raises SettingsError for whatever a plugin's own code raises: the border of foreign code."""
    try:
        return call()
    except SettingsError as error:
        raise SettingsError(f"plugin {name!r}: {error}") from error
    except Exception as error:
        raise SettingsError(
            f"plugin {name!r} {fails} ({type(error).__name__}: {error}); {remedy}, or take it out of [plugins]"
        ) from error


def _points(wanted: tuple[str, ...]) -> list[metadata.EntryPoint]:
    """The entry points of the names. Raises SettingsError for one that is not installed, or is by several packages."""
    if not wanted:
        return []
    installed = sorted(metadata.entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    if ALL in wanted:
        return installed
    chosen = []
    for name in dict.fromkeys(wanted):
        points = [point for point in installed if point.name == name]
        if len(points) != 1:
            raise SettingsError(
                f"[plugins] entry_points names {name!r}, which {len(points) or 'no'} installed packages offer in the "
                f"group {GROUP!r}; expected one of {sorted({point.name for point in installed})}: install its package, "
                "or correct the name"
            )
        chosen += points
    return chosen


def _loaded(point: metadata.EntryPoint) -> Any:
    return _of_plugin(point.name, point.load, f"({point.value}) cannot be imported", "install what it needs")


def _offered(name: str, offer: Any) -> Plugin:
    """The plugin that a module or an entry point offers: a Plugin, or a function that makes one."""
    if callable(offer):
        offer = _of_plugin(name, offer, "fails to give its rows", "use a release of it that fits this mmlake")
    if not isinstance(offer, Plugin):
        raise SettingsError(
            f"plugin {name!r} offers a {type(offer).__name__}, expected a mmlake.plugins.Plugin; correct its {OFFER}()"
        )
    return offer
