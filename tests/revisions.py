"""Alembic's list of Dagster's migrations, read once: each instance that a test opens read 80 files of code for it, two
to four times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def revisions_read_once() -> Iterator[None]:
    """Until the end, a list of migrations that was read in this process is read no more; they do not change."""
    from alembic.config import Config
    from alembic.script.base import ScriptDirectory

    read = ScriptDirectory.from_config
    seen: dict[tuple[str | None, str | None], ScriptDirectory] = {}

    def from_config(config: Config) -> ScriptDirectory:
        key = str(config.config_file_name), config.get_main_option("script_location")
        if key not in seen:
            seen[key] = read(config)
        return seen[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", staticmethod(from_config))
        yield
