"""The jobs a person launches: a modality's shards, its corpus, its part of the catalog; the samples; a version. All run
in one process."""

import dagster as dg

from mmlake.modalities import MODALITIES
from mmlake.steps import corpus_steps, row_steps


def _selection(modality: str, names: list[str]) -> dg.AssetSelection:
    return dg.AssetSelection.assets(*(dg.AssetKey([modality, name]) for name in names))


ROW_JOBS = {
    modality: dg.define_asset_job(
        f"{modality}_rows",
        _selection(modality, [step.name for step in row_steps(MODALITIES[modality])]),
        description=f"Every row table of {modality} shards, from items to embeddings.",
    )
    for modality in MODALITIES
}
CORPUS_JOBS = {
    modality: dg.define_asset_job(
        f"{modality}_corpus",
        _selection(modality, [step.name for step in corpus_steps(MODALITIES[modality])]),
        description=f"Duplicate pairs and clusters of all {modality} shards.",
    )
    for modality in MODALITIES
}
CATALOG_JOBS = {
    modality: dg.define_asset_job(
        f"{modality}_catalog",
        _selection(modality, ["catalog", "dead_letters"]),
        description=f"The rows of {modality} in the one table over all modalities, and the table of what failed.",
    )
    for modality in MODALITIES
}
SAMPLES_JOB = dg.define_asset_job(
    "lake_samples", dg.AssetSelection.assets("samples"), description="The samples of all shards."
)
VERSION_JOB = dg.define_asset_job(
    "publish_version",
    dg.AssetSelection.assets("manifest").downstream().required_multi_asset_neighbors(),
    description="A dataset version: manifest, diversity, training shards, probe scores, decision, plan.",
)
JOBS = [*ROW_JOBS.values(), *CORPUS_JOBS.values(), *CATALOG_JOBS.values(), SAMPLES_JOB, VERSION_JOB]
