"""What version steps find out, one JSON document each: `results/<version>/<step>.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mmlake import checked_json
from mmlake.errors import MmlakeError, TableCorrupt
from mmlake.lake import Lake
from mmlake.publish.version_names import slot_of
from mmlake.records import canonical_json, digest_of
from mmlake.store import write_atomically


def result_path(lake: Lake, version: str, step: str, suffix: str = "json") -> Path:
    """Where the step's result lies, made or not."""
    return lake.root / "results" / version / f"{step}.{suffix}"


def write_result(lake: Lake, version: str, step: str, document: dict[str, Any]) -> str:
    """The SHA-256 of the document's canonical text, once it is durable."""
    data = canonical_json(document).encode()
    write_atomically(result_path(lake, version, step), checked_json.dumps(document))
    return digest_of(data)


def made_from(lake: Lake, version: str) -> dict[str, str] | None:
    """Data versions of the tables that the version was selected from; None where no record says.

    The stamp says it, and before there is a stamp the result document, which is written before the version gets its
    name.
    """
    stamp = lake.tables.stamp(slot_of("manifest", version))
    if stamp is not None:
        return dict(stamp.inputs)
    try:
        recorded: dict[str, str] | None = read_result(lake, version, "manifest").get("made_from")
    except MmlakeError:
        return None
    return recorded


def read_result(lake: Lake, version: str, step: str) -> dict[str, Any]:
    """The document. Raises MmlakeError where the step has not run, TableCorrupt where the file is damaged."""
    try:
        return checked_json.loads(result_path(lake, version, step).read_bytes())
    except FileNotFoundError as error:
        raise MmlakeError(
            f"version {version} has no {step} yet in {lake.root}; materialize it, or run `mmlake run`"
        ) from error
    except ValueError as error:
        raise TableCorrupt(
            f"{result_path(lake, version, step)} is not what was written; run `mmlake fsck --repair`, then `mmlake run`"
        ) from error
