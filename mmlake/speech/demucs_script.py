"""The script of the denoiser `demucs`: runs in an environment that has demucs and no mmlake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

RATE_HZ = 16_000


def load(config: dict[str, Any]) -> Callable[[dict[str, Any], memoryview[float]], tuple[dict[str, Any], bytes]]:
    """A function from mono samples to the voices in them, as many."""
    import json
    from pathlib import Path

    import julius
    import torch
    from demucs.apply import BagOfModels, apply_model
    from demucs.hf import load_safetensors_model
    from safetensors import safe_open

    paths = sorted(Path(config["model"]).glob("*.safetensors"))
    for path in paths:  # the file names a class that is called: it must be one of the library's own
        with safe_open(str(path), framework="pt") as file:
            said = file.metadata() or {}
        if not str(said.get("klass", "")).startswith("demucs.") or "_class" in json.dumps(said.get("structure", "")):
            raise ValueError(f"{path.name} is no model of demucs")
    bag = BagOfModels([load_safetensors_model(path) for path in paths])
    bag.eval()
    voices = bag.sources.index("vocals")
    up = julius.ResampleFrac(RATE_HZ, bag.samplerate)
    down = julius.ResampleFrac(bag.samplerate, RATE_HZ)

    def answer(request: dict[str, Any], samples: memoryview[float]) -> tuple[dict[str, Any], bytes]:
        sound = torch.frombuffer(samples, dtype=torch.float32)
        if not len(sound):
            return {}, b""
        mix = up(sound)[None].repeat(bag.audio_channels, 1)
        middle, spread = mix.mean(), mix.std() + 1e-8
        with torch.inference_mode():
            found = apply_model(bag, ((mix - middle) / spread)[None], shifts=0, split=True)[0, voices]
        mono = down((found * spread + middle).mean(0))[: len(sound)]
        mono = torch.nn.functional.pad(mono, (0, len(sound) - len(mono)))
        return {}, mono.contiguous().numpy().astype("<f4").tobytes()

    return answer
