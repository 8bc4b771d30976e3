"""The sample corpus: a small landing zone made from nothing, byte for byte the same on every run, and the truth about
it.

`generate` writes it; `Truth.read` says what a perfect pipeline finds in it. It is made with classical means only and
needs no network.
"""

from __future__ import annotations

from mmlake.sample.generate import generate
from mmlake.sample.recipe_file import write_recipe
from mmlake.sample.settings import SampleSettings
from mmlake.sample.truth import Duplicate, Excerpt, LongItem, Probe, Sentence, Truth, TruthItem, TruthSample

__all__ = [
    "Duplicate",
    "Excerpt",
    "LongItem",
    "Probe",
    "SampleSettings",
    "Sentence",
    "Truth",
    "TruthItem",
    "TruthSample",
    "generate",
    "write_recipe",
]
