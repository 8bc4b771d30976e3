"""An image-text-to-text model of transformers, from a folder on this machine: LLaVA, Qwen-VL, SmolVLM and their kin.

Nothing is fetched, and no code of the folder is run: weights are read from safetensors alone.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from mmlake.captions.answers import malformed
from mmlake.endpoint import Picture
from mmlake.errors import ModelMissing
from mmlake.optional import need

_Files = tuple[tuple[str, int, int], ...]  # name, size, time of change


class LocalModel:
    """The model, loaded when it is first asked. One thread at a time."""

    def __init__(self, folder: str, *, device: str, max_tokens: int) -> None:
        """Raises ModelMissing where the folder holds none."""
        self._folder, self._device, self._max_tokens = Path(folder), device, max_tokens
        files = _files(self._folder) if folder else ()
        if not any(name.endswith(".safetensors") for name, _, _ in files):
            raise ModelMissing(
                f"captions.local_model={folder!r} is no folder with config.json and weights as safetensors; copy an "
                "image-text-to-text model there, as save_pretrained writes it"
            )
        self._files = files
        self.name = self._folder.name

    @property
    def revision(self) -> str:
        """`sha256:<12 hex>` over configuration and weights."""
        return _revision(self._folder, self._files)

    def ask(self, parts: Sequence[str | Picture], instructions: str) -> str:
        """The answer, the likeliest token at each place. Raises UnreadableItem for one that does not come to an end."""
        from PIL import Image

        processor, model, torch = _loaded(self._folder, self._files, self._device)
        pictures = [Image.open(io.BytesIO(part.jpeg)).convert("RGB") for part in parts if isinstance(part, Picture)]
        conversation = [
            {"role": "system", "content": [{"type": "text", "text": instructions}]},
            {"role": "user", "content": [_part(part) for part in parts]},
        ]
        prompt = processor.apply_chat_template(conversation, add_generation_prompt=True, tokenize=False)
        inputs = processor(text=[prompt], images=pictures or None, return_tensors="pt").to(self._device)
        with torch.inference_mode():
            tokens = model.generate(**inputs, do_sample=False, max_new_tokens=self._max_tokens)
        written = tokens[:, inputs["input_ids"].shape[1] :]
        if written.shape[1] >= self._max_tokens:
            raise malformed("the model did not come to an end within captions.local_tokens")
        text: str = processor.batch_decode(written, skip_special_tokens=True)[0]
        return text


def _part(part: str | Picture) -> dict[str, str]:
    return {"type": "text", "text": part} if isinstance(part, str) else {"type": "image"}


def _files(folder: Path) -> _Files:
    if not (folder / "config.json").is_file():
        return ()
    paths = [folder / "config.json", *sorted(folder.glob("*.safetensors"))]
    return tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in paths)


@lru_cache(maxsize=4)
def _revision(folder: Path, files: _Files) -> str:
    hasher = hashlib.sha256()
    for name, _, _ in files:
        with (folder / name).open("rb") as file:
            hasher.update(name.encode() + hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{hasher.hexdigest()[:12]}"


@lru_cache(maxsize=1)
def _loaded(folder: Path, files: _Files, device: str) -> tuple[Any, Any, Any]:
    """(processor, model, torch). Raises MissingExtra, ModelMissing."""
    transformers = need("transformers", extra="all", purpose="captions.describer 'local'")
    torch = need("torch", extra="all", purpose="captions.describer 'local'")
    transformers.utils.logging.disable_progress_bar()
    try:
        processor = transformers.AutoProcessor.from_pretrained(folder, local_files_only=True)
        model = transformers.AutoModelForImageTextToText.from_pretrained(
            folder, local_files_only=True, use_safetensors=True
        )
    except (OSError, ValueError, ImportError) as error:  # absent files, unknown types, a processor that needs more
        raise ModelMissing(
            f"captions.local_model={str(folder)!r} does not load as an image-text-to-text model with its processor "
            f"({type(error).__name__}); copy the complete model there"
        ) from error
    return processor, model.to(device).eval(), torch
