"""One frozen tree of settings: a section per stage, each kept next to the code that it steers.

A step's stamp holds the digest of just the sections that it reads, so a new quality bound re-judges and does not decode
again.
A TOML file has one table per section: `[quality]`, `[dedup]`, ...; environment variables that
change one (MMLAKE_WORKERS, MMLAKE_DEVICE) are read in `mmlake_assets`. Those of secrets, of S3 and of the user's cache
are read where they are used: they change no result.
"""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from mmlake.captions import CaptionSettings
from mmlake.compute import ComputeSettings
from mmlake.cuts import CutSettings
from mmlake.dedup import DecontaminateSettings, DedupSettings
from mmlake.embed import EmbedSettings
from mmlake.endpoint import EndpointSettings
from mmlake.engine import EngineSettings
from mmlake.errors import SettingsError
from mmlake.evaluate import EvaluateSettings
from mmlake.film_decoders import DecodeSettings
from mmlake.plugins import PluginSettings
from mmlake.preprocess import AlignSettings, PreprocessSettings, UnitSettings
from mmlake.quality import CheckSettings, QualitySettings
from mmlake.records import LATER, canonical_json, digest_of
from mmlake.remote.settings import RemoteSettings
from mmlake.shards import ShardSettings
from mmlake.sources import SourceSettings, WebSettings
from mmlake.speech.denoise import DENOISERS
from mmlake.store import StoreSettings
from mmlake.versions.settings import PublishSettings
from mmlake.voices.settings import SpeakerSettings

# what lists and tables of settings hold
_ELEMENTS: dict[Any, str] = {str: "texts", int: "whole numbers", dict: "tables"}


@dataclass(frozen=True, kw_only=True)  # without slots, for the digests that are known
class Settings:
    """Everything that can be set, with defaults that work on a fresh machine."""

    sources: SourceSettings = field(default_factory=SourceSettings)
    preprocess: PreprocessSettings = field(default_factory=PreprocessSettings)
    decode: DecodeSettings = field(default_factory=DecodeSettings)
    align: AlignSettings = field(default_factory=AlignSettings)
    speakers: SpeakerSettings = field(default_factory=SpeakerSettings)
    units: UnitSettings = field(default_factory=UnitSettings)
    captions: CaptionSettings = field(default_factory=CaptionSettings)
    endpoint: EndpointSettings = field(default_factory=EndpointSettings)
    quality: QualitySettings = field(default_factory=QualitySettings)
    checks: CheckSettings = field(default_factory=CheckSettings)
    dedup: DedupSettings = field(default_factory=DedupSettings)
    decontaminate: DecontaminateSettings = field(default_factory=DecontaminateSettings)
    embed: EmbedSettings = field(default_factory=EmbedSettings)
    cuts: CutSettings = field(default_factory=CutSettings)
    shards: ShardSettings = field(default_factory=ShardSettings)
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)
    publish: PublishSettings = field(default_factory=PublishSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    remote: RemoteSettings = field(default_factory=RemoteSettings)
    web: WebSettings = field(default_factory=WebSettings)
    compute: ComputeSettings = field(default_factory=ComputeSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    plugins: PluginSettings = field(default_factory=PluginSettings)

    def __post_init__(self) -> None:
        """Refuse a denoiser that is not there before anything is made."""
        object.__setattr__(self, "_digests", {})  # no field: sections are
        for section, name in (("preprocess", self.preprocess.denoiser), ("cuts", self.cuts.denoiser)):
            if name not in DENOISERS:
                raise SettingsError(
                    f"{section}.denoiser={name!r} is not one of {sorted(DENOISERS)}; choose one of them"
                )

    def digest(self, names: tuple[str, ...]) -> str:
        """First 16 hex characters of the SHA-256 of these sections ("dedup") and fields ("dedup.seed"): equal settings,
        equal digest."""
        digests: dict[tuple[str, ...], str] = self.__dict__["_digests"]
        if (found := digests.get(names)) is None:  # a run asks once for each table
            found = digests[names] = self._digest(names)
        return found

    def _digest(self, names: tuple[str, ...]) -> str:
        values: dict[str, Any] = {}
        for name in names:
            section, _, field_name = name.partition(".")
            held = dataclasses.asdict(getattr(self, section))
            values[name] = held[field_name] if field_name else held
            for later in dataclasses.fields(getattr(self, section)):
                if later.metadata == LATER and not field_name and held[later.name] == later.default:
                    del held[later.name]
        return digest_of(canonical_json(values).encode())[:16]

    @classmethod
    def load(cls, path: Path | None) -> Settings:
        """The defaults, changed by what the TOML file says. Raises SettingsError naming the unknown section or
        field."""
        return cls.of(_toml(path), where=str(path)) if path is not None else cls()

    @classmethod
    def of(cls, given: dict[str, dict[str, Any]], *, where: str = "settings") -> Settings:
        """The defaults, changed by a nested dict."""
        sections: dict[str, Any] = {}
        known = {f.name: f for f in dataclasses.fields(cls)}
        for name, values in given.items():
            if name not in known:
                raise SettingsError(f"{where}: section [{name}] is not known; expected one of {sorted(known)}")
            default = getattr(cls(), name)
            kind = type(default)
            names = {f.name for f in dataclasses.fields(kind)}
            if not isinstance(values, dict) or (unknown := values.keys() - names):
                raise SettingsError(
                    f"{where}: [{name}] has the fields "
                    f"{sorted(unknown) if isinstance(values, dict) else values!r}; expected some of "
                    f"{sorted(names)}"
                )
            plain = {key: _plain(value) for key, value in values.items()}
            if wrong := sorted(key for key, value in plain.items() if not _is_alike(getattr(default, key), value)):
                expected = ", ".join(f"{key} like {getattr(default, key)!r}" for key in wrong)
                raise SettingsError(
                    f"{where}: [{name}] has values of another kind than the settings, expected {expected}; correct them"
                )
            if strange := _strange_elements(kind, plain):
                raise SettingsError(f"{where}: [{name}] has lists or tables of something else: {strange}; correct them")
            try:
                sections[name] = kind(**plain)
            # a nested table with unknown names or values of another kind
            except (TypeError, ValueError, AttributeError) as error:
                raise SettingsError(
                    f"{where}: [{name}] has a nested value that does not fit, among {sorted(plain)}; compare "
                    f"it with the comments in {kind.__module__.replace('.', '/')}.py"
                ) from error
        return cls(**sections)


def _is_alike(default: Any, value: Any) -> bool:
    """Whether the value is of the default's kind: a whole number does for a fraction, a truth value is no number."""
    if default is None:
        return True
    if isinstance(default, Mapping):
        return isinstance(value, Mapping)
    if isinstance(default, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return type(value) is type(default)


def _strange_elements(kind: type, given: dict[str, Any]) -> str:
    """The first element of each list, and value of each table, that is not of the type that the field says, with that
    type; empty for none."""
    found = []
    for name, hint in get_type_hints(kind).items():
        of_table = get_origin(hint) is Mapping
        wanted = get_args(hint)[of_table] if of_table or get_origin(hint) is tuple else None
        wanted = dict if get_origin(wanted) is Mapping else wanted
        if wanted not in _ELEMENTS or name not in given:
            continue
        values = given[name].values() if of_table else given[name]
        strange = [one for one in values if type(one) is not wanted]
        found += [f"{name} holds {strange[0]!r}, expected {_ELEMENTS[wanted]}"] if strange else []
    return ", ".join(found)


def _toml(path: Path) -> dict[str, Any]:
    """What the file says. Raises SettingsError naming the line where it is no TOML."""
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except FileNotFoundError as error:
        raise SettingsError(
            f"settings file {path} is not there; name another with --settings or MMLAKE_SETTINGS, or leave it out for "
            "the defaults"
        ) from error
    except OSError as error:
        raise SettingsError(f"settings file {path} cannot be read: {error.strerror}; name a file that can") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        if isinstance(error, UnicodeDecodeError):
            place = f", byte {error.start} is not UTF-8"
        else:  # the number stands in the text alone; without one, the end came too early
            found = re.search(r"at line (\d+)", str(error))
            place = f" in line {found[1] if found else text.count(chr(10)) + 1}"
        raise SettingsError(
            f"settings file {path} cannot be read as TOML{place}; correct it or leave out --settings"
        ) from error


def _plain(value: Any) -> Any:
    """Lists as tuples; an open end of a bound, which TOML writes as inf, as None."""
    if isinstance(value, list):
        return tuple(_plain(one) for one in value)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return None if isinstance(value, float) and math.isinf(value) else value
