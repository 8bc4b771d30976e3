"""The loops that numba compiles for known types, compiled ahead: when an image of a machine is made, or before tests.

Without it each is compiled where it is first needed, and whoever needs it at that time waits. Where the machine code is
kept is said in `mmlake.numba_compiler` and `mmlake.dedup.loops.machine_code`; of another processor it is compiled
again.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator

# what they serve -> (module, function that compiles and loads them)
LOOPS = {
    "prints of texts": ("mmlake.dedup.loops.text_kernels", "kernels"),
    "shared keys": ("mmlake.dedup.loops.key_kernels", "kernels"),
    "pairs of texts": ("mmlake.dedup.text.walk_kernels", "kernels"),
    "places of sounds": ("mmlake.dedup.audio.kernels", "kernels"),
    "high dynamic range of films": ("mmlake.media.high_dynamic_range", "kernel"),
    "small planes of films": ("mmlake.preprocess.visual.plane_kernels", "kernels"),
    "textures of films": ("mmlake.preprocess.visual.texture_kernels", "texture_kernels"),
    "dissolves": ("mmlake.preprocess.visual.blend_kernels", "blend_kernels"),
    "agreement of transcripts": ("mmlake.preprocess.transcripts.agreement", "editing"),
    "denoising of speech": ("mmlake.speech.wiener", "attenuation"),
    "cepstra of speech": ("mmlake.speech.cepstra", "noise_suppression"),
    "alignment of phones": ("mmlake.speech.phone_search", "searches"),
}


def compile_all() -> Iterator[tuple[str, float]]:
    """(what the loops serve, seconds that it took), one after the other."""
    for name, (module, function) in LOOPS.items():
        began = time.perf_counter()
        getattr(importlib.import_module(module), function)()
        yield name, time.perf_counter() - began
