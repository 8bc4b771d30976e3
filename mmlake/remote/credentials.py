"""The credentials of remote storage: logins that were written into an address, and storage options, whose secrets come
from the environment.

Enters: an address as a person writes it, `remote.storage_options` of the settings, MMLAKE_STORAGE_OPTIONS. Leaves: the
address without its login, and the options for it. A login is kept in memory alone, by the connections of whoever gave
the address: no table, file or log ever has it.
"""

from __future__ import annotations

import base64
import json
import logging
import netrc
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mmlake.errors import SettingsError
from mmlake.remote.settings import RemoteSettings

_LOG = logging.getLogger("mmlake.remote")
VARIABLE = "MMLAKE_STORAGE_OPTIONS"
_FROM_ENVIRONMENT = "env:"
_WEB = ("http", "https")  # the user name is often the token itself, so nothing of the login is shown
# the user name says whose files are meant, so it stays in the address
_ACCOUNT = ("ftp", "sftp", "ssh", "smb", "webhdfs")
_LOGIN = re.compile(rf"(?P<scheme>{'|'.join((*_WEB, *_ACCOUNT))})://(?P<login>[^/?#]*)@", re.IGNORECASE)
_SECRET_NAME = re.compile(
    r"(?i)token|secret|passw|passphrase|key|credential|auth|cookie|signature|sas|connection_string"
)
# values of gcsfs's `token` that name a way to log in and are no secret
_PLAIN = ("anon", "cache", "cloud", "google_default", "browser")


@dataclass(frozen=True, slots=True)
class Login:
    """A user and a password."""

    user: str
    password: str = field(repr=False)

    @property
    def basic(self) -> str:
        """The value of an Authorization header (RFC 7617)."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def split_login(address: str) -> tuple[str, Login | None]:
    """(the address without its password, and for http and https without its user, which may be a token; the login or
    None)."""
    found = _LOGIN.match(address)
    if found is None:
        return address, None
    user, colon, password = found["login"].partition(":")
    scheme = found["scheme"].lower()
    shown = "" if scheme in _WEB else f"{user}@"
    login = Login(unquote(user), unquote(password)) if colon or scheme in _WEB else None
    return f"{scheme}://{shown}{address[found.end() :]}", login


class Logins:
    """The logins that addresses had. They live as long as the connections that keeps them, and in memory alone."""

    def __init__(self) -> None:
        # by the address without its login, and by its origin (scheme://host:port, or scheme://user@host:port)
        self._by_address: dict[str, Login] = {}

    def take_from(self, address: str) -> str:
        """The address as it may be shown and kept; its login is kept here, for `of`."""
        plain, login = split_login(address)
        if login is not None:
            self._by_address[_origin(plain)] = self._by_address[plain] = login
        return plain

    def of(self, address: str) -> Login | None:
        """The login that was taken from the address, else the last one that was taken from any of its origin; None
        where there is none."""
        return self._by_address.get(address) or self._by_address.get(_origin(address))

    def __repr__(self) -> str:
        return f"Logins({len(self._by_address)} addresses)"  # no user, no password


def netrc_login(host: str) -> Login | None:
    """The host's login in the file that NETRC names, or in ~/.netrc without NETRC; None where the file has none, is
    missing or cannot be read."""
    path = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
    try:
        found = netrc.netrc(path).authenticators(host)
    except FileNotFoundError:
        return None
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
        _LOG.warning("%s cannot be read as a netrc file; its logins are not used", path)
        return None
    return None if found is None else Login(found[0], found[2] or "")


def options_of(address: str, settings: RemoteSettings) -> dict[str, Any]:
    """The storage options for an address, with the environment's values in place of `env:NAME`.

    They are looked up by the longest key that the address begins with, else by its scheme; MMLAKE_STORAGE_OPTIONS goes
    before the settings.
    Raises SettingsError for a secret in the settings, a variable that is not set, and options of a bare "http" or
    "https".
    """
    for given, where, is_secret in (
        (_of_environment(), VARIABLE, True),
        (settings.storage_options, "remote.storage_options", False),
    ):
        key = _key_for(address, given)
        if key is None:
            continue
        options = given[key]
        if not isinstance(options, Mapping):
            raise SettingsError(
                f"{where} has no table of options under {split_login(key)[0]!r}; write one name = value for each option"
            )
        return {
            str(name): _resolved(value, f"{where} for {split_login(key)[0]!r}", str(name), is_secret)
            for name, value in options.items()
        }
    return {}


def _key_for(address: str, given: Mapping[str, Any]) -> str | None:
    scheme = address.partition("://")[0].lower()
    if scheme in _WEB and scheme in given:
        raise SettingsError(
            f"storage options of {scheme!r} would be sent to every host; write the host, as in "
            f'"{scheme}://data.example.org"'
        )
    longest = max((key for key in given if "://" in key and _begins(address, key)), key=len, default=None)
    return longest or (scheme if scheme in given else None)


def _begins(address: str, key: str) -> bool:
    """Whether the address is at the key or below it: `https://host` is no beginning of `https://host.example.org`."""
    whole, start = f"{address.rstrip('/')}/", f"{key.rstrip('/')}/"
    return whole.startswith(start)


def _of_environment() -> Mapping[str, Any]:
    text = os.environ.get(VARIABLE)
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise SettingsError(f'{VARIABLE} is no JSON object; write {{"gs": {{"project": "corpus"}}}}')
    return found


def _resolved(value: Any, where: str, name: str, is_secret: bool) -> Any:
    """The value, with every `env:NAME` in it replaced. is_secret: secrets may be written there as they are."""
    if isinstance(value, Mapping):
        return {str(key): _resolved(one, where, str(key), is_secret) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_resolved(one, where, name, is_secret) for one in value]
    if not isinstance(value, str):
        return value
    if value.startswith(_FROM_ENVIRONMENT):
        variable = value.removeprefix(_FROM_ENVIRONMENT)
        if variable not in os.environ:
            raise SettingsError(
                f"{where}: option {name!r} is taken from the variable {variable[:80]!r}, which is not set; export it"
            )
        return os.environ[variable]
    if not is_secret and _SECRET_NAME.search(name) and value not in _PLAIN:
        raise SettingsError(
            f'{where}: option {name!r} resembles a secret, which settings must not hold; write "env:NAME" and '
            "export NAME"
        )
    return value


def _origin(address: str) -> str:
    return re.match(r"[^:]*://[^/?#]*", address)[0].lower() if "://" in address else address  # type: ignore[index]
