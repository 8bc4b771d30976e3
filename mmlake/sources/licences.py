"""Licence spellings as they occur in data sets, and their SPDX ids. What is not known for certain is NOASSERTION,
never a guess."""

from __future__ import annotations

import re
from functools import lru_cache

from mmlake.errors import SettingsError
from mmlake.recipes.licences import normal_licence
from mmlake.records import UNKNOWN_LICENCE

_CC_VERSIONS = {"1.0", "2.0", "2.5", "3.0", "4.0"}
_CC_KINDS = {"by", "by-sa", "by-nd", "by-nc", "by-nc-sa", "by-nc-nd"}
_SPELLINGS = {  # that are no ids
    "apache 2.0": "Apache-2.0", "apache license 2.0": "Apache-2.0", "apache licence 2.0": "Apache-2.0",
    "apache2": "Apache-2.0", "apache license, version 2.0": "Apache-2.0", "apache-2": "Apache-2.0",
    "mit license": "MIT", "mit licence": "MIT", "the mit license": "MIT", "bsd-3": "BSD-3-Clause",
    "odc-by": "ODC-By-1.0",
    "odc-by 1.0": "ODC-By-1.0", "odbl": "ODbL-1.0", "pddl": "PDDL-1.0",
    "cc0": "CC0-1.0", "cc-0": "CC0-1.0", "cc zero": "CC0-1.0", "cc0 1.0": "CC0-1.0", "cc0 1.0 universal": "CC0-1.0",
    "cc-pdm": "CC-PDM-1.0",
    "public domain mark 1.0": "CC-PDM-1.0", "wtfpl 2.0": "WTFPL",
    "public domain": "LicenseRef-Public-Domain", "public-domain": "LicenseRef-Public-Domain",
    "publicdomain": "LicenseRef-Public-Domain",
}  # fmt: skip
_URL = re.compile(
    r"(?:https?:)?//(?:www\.)?creativecommons\.org/(licenses|publicdomain)/([a-z-]+)(?:/(\d\.\d))?(?:/.*)?"
)
_CC_SHORT = re.compile(
    r"cc[ -]?(by(?:[ -](?:nc|sa|nd))*)(?:[ -]v?(\d(?:\.\d)?))?(?: "
    r"(?:international|unported|generic|deed|licen[cs]e))*"
)
_CC_LONG = re.compile(
    r"(?:creative commons )?(attribution(?:[ -](?:non-?commercial|share-?alike|no-?deriv(?:ative)?s?(?: "
    r"works)?))*)(?: licen[cs]e)?(?: v?(\d\.\d))?"
    r"(?: (?:international|unported|generic|licen[cs]e|public|\([^)]*\)))*"
)
_WORDS = (
    ("attribution", "by"), ("noncommercial", "nc"), ("non-commercial", "nc"), ("sharealike", "sa"),
    ("share-alike", "sa"), ("noderivatives", "nd"), ("noderivs", "nd"), ("no-derivatives", "nd"),
)  # fmt: skip
_OPERATOR = re.compile(r"\s(?:AND|OR|WITH)\s")  # as SPDX writes them: in prose they are small
_REF = re.compile(r"(?:LicenseRef|DocumentRef)-[A-Za-z0-9.:-]+")


def spdx_licence(text: object) -> str:
    """The SPDX id of a licence as a data set spells it; NOASSERTION where the spelling is not known.

    Creative Commons without a version has no SPDX id: it becomes `LicenseRef-CC-BY` and the like, which SPDX allows.
    """
    return _spdx_of(text) if isinstance(text, str) else UNKNOWN_LICENCE


@lru_cache(maxsize=1024)  # a shard has few, and every row names one
def _spdx_of(text: str) -> str:
    stripped = text.strip()
    if _REF.fullmatch(stripped):
        return stripped
    plain = re.sub(r"[\s_]+", " ", stripped.lower())
    if plain in _SPELLINGS:
        return _SPELLINGS[plain]
    if match := _URL.fullmatch(plain):
        return _from_url(*match.groups())
    if match := _CC_SHORT.fullmatch(plain):
        version = match[2] and (match[2] if "." in match[2] else f"{match[2]}.0")
        return _creative_commons(match[1].replace(" ", "-"), version)
    if match := _CC_LONG.fullmatch(plain):
        words = match[1]
        for word, short in _WORDS:
            words = words.replace(word, short)
        return _creative_commons(words.replace(" ", "-"), match[2])
    is_expression = len(stripped.split()) == 1 or _OPERATOR.search(stripped) is not None
    return _expression(stripped) if is_expression and "*" not in stripped else UNKNOWN_LICENCE


def _expression(text: str) -> str:
    """The SPDX expression in its one spelling; NOASSERTION where it is none, or names an id that SPDX does not have."""
    try:
        return normal_licence(text, where="licence")
    except SettingsError:
        return UNKNOWN_LICENCE


def _from_url(branch: str, kind: str, version: str | None) -> str:
    if branch == "publicdomain":
        return {"zero": "CC0-1.0", "mark": "CC-PDM-1.0"}.get(kind, UNKNOWN_LICENCE)
    return _creative_commons(kind, version)


def _creative_commons(kind: str, version: str | None) -> str:
    if kind not in _CC_KINDS or (version is not None and version not in _CC_VERSIONS):
        return UNKNOWN_LICENCE
    return f"CC-{kind.upper()}-{version}" if version else f"LicenseRef-CC-{kind.upper()}"
