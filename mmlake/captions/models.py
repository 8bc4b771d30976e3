"""The models that can be asked: texts and pictures in, a text out.

Add yours here: a row in MODELS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from mmlake.captions.local_model import LocalModel
from mmlake.captions.settings import CaptionSettings
from mmlake.endpoint import Endpoint, EndpointSettings, Picture
from mmlake.errors import SettingsError
from mmlake.records import canonical_json, digest_of

NONE = "none"
Ask = Callable[[Sequence[str | Picture], str], str]  # (parts of the question, instructions) -> the answer


@dataclass(frozen=True, slots=True)
class Model:
    """A model that is ready to be asked."""

    producer: str  # its row
    name: str
    revision: str
    ask: Ask
    num_threads: int  # questions at once


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelRow:
    """One row of MODELS."""

    name: str
    what: str
    # (settings, of the endpoint, name instead of the settings') -> the model; None: nothing is asked
    load: Callable[[CaptionSettings, EndpointSettings, str], Model] | None


def _load_endpoint(settings: CaptionSettings, endpoint: EndpointSettings, name: str) -> Model:
    client = Endpoint(endpoint, model=name)
    sampling = {"seed": endpoint.seed, "body": dict(endpoint.body), "json_mode": endpoint.json_mode}
    revision = f"seed-{endpoint.seed}-{digest_of(canonical_json(sampling).encode())[:8]}"
    return Model("endpoint", client.model, revision, partial(_ask_endpoint, client), endpoint.concurrency)


def _ask_endpoint(client: Endpoint, parts: Sequence[str | Picture], instructions: str) -> str:
    return client.ask(parts, instructions=instructions)


def _load_local(settings: CaptionSettings, endpoint: EndpointSettings, name: str) -> Model:
    model = LocalModel(settings.local_model, device=settings.device, max_tokens=settings.local_tokens)
    return Model("local", model.name, model.revision, model.ask, 1)


_ROWS = (
    ModelRow(name=NONE, what="nothing is asked, and nothing leaves the machine", load=None),
    ModelRow(name="endpoint", what="an OpenAI-compatible chat endpoint ([endpoint])", load=_load_endpoint),
    ModelRow(name="local", what="image-text-to-text weights of transformers in a local folder", load=_load_local),
)
MODELS: dict[str, ModelRow] = {row.name: row for row in _ROWS}


def load_model(
    row: str, settings: CaptionSettings, endpoint: EndpointSettings, *, name: str, field: str
) -> Model | None:
    """The model of the row; None where nothing is asked. field: the setting that names the row. Raises SettingsError,
    MissingExtra, ModelMissing."""
    if row not in MODELS:
        raise SettingsError(f"captions.{field}={row!r} is not one of {sorted(MODELS)}; choose one of them")
    load = MODELS[row].load
    return None if load is None else load(settings, endpoint, name)
