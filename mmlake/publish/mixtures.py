"""The mixture of a version's recipe: the sizes of its groups, and what the loader reads of them next to the shards."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa

from mmlake.lake import Lake
from mmlake.loader import ShardStream, write_mixture
from mmlake.publish.requests import request_of
from mmlake.recipes import Recipe, groups_of


def mixture_counts(samples: pa.Table, recipe: Recipe) -> dict[str, dict[str, int]]:
    """Group -> num_samples and num_positions, how many of an epoch are the group's; nothing without a mixture. Raises
    SettingsError where the mixture names a group of which there is no sample."""
    if recipe.mixture is None:
        return {}
    names, numbers = groups_of(samples, recipe.mixture.by)
    recipe.mixture.check_groups(names, recipe.place)
    counted = Counter(numbers.tolist())
    sizes = {name: counted[number] for number, name in enumerate(names)}
    positions = recipe.mixture.counts(sizes)
    return {name: {"num_samples": size, "num_positions": positions[name]} for name, size in sizes.items()}


def mix_shards(lake: Lake, version: str, directory: Path) -> None:
    """Put the mixture of the version's recipe into its finished folder of shards, or take it away where there is
    none."""
    recipe = request_of(lake, version).recipe
    if recipe.mixture is None:
        write_mixture(directory, None, seed=0, keys=(), modalities=(), groups={})
        return
    samples = lake.versions.samples(version)
    names, numbers = groups_of(samples, recipe.mixture.by)
    of_samples = zip(samples["sample"].to_pylist(), numbers.tolist(), strict=True)
    groups = {sample: names[number] for sample, number in of_samples}
    stream = ShardStream(directory, verify="fast", mixture=False)
    try:
        keys, modalities = stream.keys(), stream.modalities()
    finally:
        stream.close()
    write_mixture(directory, recipe.mixture, seed=recipe.seed, keys=keys, modalities=modalities, groups=groups)
