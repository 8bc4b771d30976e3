"""Numbers that a deployment sets in the environment."""

import os

from mmlake.errors import SettingsError


def whole_number(name: str, default: int) -> int:
    """The variable's whole number from 1 on; the default where it is not set, or empty. A default of 0 stands for as
    many as the machine has cores. Raises SettingsError."""
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        by_default = default or "as many as the machine has cores"
        raise SettingsError(
            f"the environment variable {name} is {text!r}, expected a whole number from 1 on; correct it, or unset it "
            f"for the default, {by_default}"
        )
    return number
