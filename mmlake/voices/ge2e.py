"""The speaker encoder of Resemblyzer: an LSTM of three layers, trained by the generalized end-to-end loss (Wan et al.
2018). Its weights lie in the wheel `Resemblyzer` (Apache-2.0), of whose code nothing is run."""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mmlake.environments import site_packages
from mmlake.errors import MissingExtra, ModelMissing

WINDOW_FRAMES = 160  # 1.6 s, what it was trained on
_WEIGHTS = "pretrained.pt"
_LEVEL = 10 ** (-30 / 20)  # root mean square of the speech that it was trained on
_BATCH = 64  # windows

Embed = Callable[[np.ndarray, np.ndarray], np.ndarray]


def weights_path(folder: str | None = None) -> Path:
    """The file of weights: of the wheel in this Python, else of the environment 'resemblyzer'. Raises MissingExtra."""
    spec = importlib.util.find_spec("resemblyzer")
    places = [Path(place) for place in (spec.submodule_search_locations or [])] if spec is not None else []
    if (packages := site_packages("resemblyzer", folder)) is not None:
        places.append(packages / "resemblyzer")
    for place in places:
        if (place / _WEIGHTS).is_file():
            return place / _WEIGHTS
    raise MissingExtra(
        "diarizer 'resemblyzer' needs the weights in the wheel of that name; run: mmlake environments add resemblyzer "
        "(or pip install --no-deps Resemblyzer)"
    )


def load(path: Path) -> Embed:
    """A function from (mel energies, first frames of windows) to voices: float32 unit vectors of shape (windows, 256).
    Raises ModelMissing."""
    import torch

    try:
        said = torch.load(path, map_location="cpu", weights_only=True)["model_state"]
        lstm, linear = torch.nn.LSTM(40, 256, 3, batch_first=True), torch.nn.Linear(256, 256)
        lstm.load_state_dict({key[5:]: value for key, value in said.items() if key.startswith("lstm.")})
        linear.load_state_dict({key[7:]: value for key, value in said.items() if key.startswith("linear.")})
    except (OSError, KeyError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
        raise ModelMissing(f"{path} holds no weights of Resemblyzer; install the wheel again") from error

    def embed(energies: np.ndarray, starts: np.ndarray) -> np.ndarray:
        found = np.empty((len(starts), 256), np.float32)
        for first in range(0, len(starts), _BATCH):
            part = starts[first : first + _BATCH]
            windows = torch.from_numpy(energies[part[:, None] + np.arange(WINDOW_FRAMES)])
            with torch.inference_mode():
                _, (hidden, _) = lstm(windows)
                raw = torch.relu(linear(hidden[-1]))
                found[first : first + _BATCH] = torch.nn.functional.normalize(raw, dim=1).numpy()
        return found

    return embed


def levelled(samples: np.ndarray, is_speech: np.ndarray) -> np.ndarray:
    """The sound with its speech as loud as what the encoder was trained on, if it is softer. is_speech: per sample."""
    spoken = samples[is_speech]
    loud = float(np.sqrt(np.mean(np.square(spoken, dtype=np.float64)))) if len(spoken) else 0.0
    return samples if loud == 0.0 or loud >= _LEVEL else samples * np.float32(_LEVEL / loud)
