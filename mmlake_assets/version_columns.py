"""The columns of what is made per version, for the asset pages: from the schemas and classes that write them."""

import dataclasses

import dagster as dg

from mmlake.costs import COSTS, PLAN
from mmlake.evaluate import EvaluateSettings
from mmlake.evaluate.decision import Difference
from mmlake.evaluate.scores import score_schema
from mmlake.evaluate.shape import Diversity
from mmlake.shards import ShardEntry
from mmlake.tables import Stamp
from mmlake.versions import VERSION_SAMPLES
from mmlake_assets.column_notes import note_of
from mmlake_assets.page import columns_of


def _text(name: str, note: str) -> dg.TableColumn:
    return dg.TableColumn(name, "string", description=note)


def _fields_of(written: type) -> list[dg.TableColumn]:
    """A column per field of the dataclass."""
    kinds = {field.name: getattr(field.type, "__name__", str(field.type)) for field in dataclasses.fields(written)}
    return [dg.TableColumn(name, kind, description=note_of(name)) for name, kind in kinds.items()]


VERSION_COLUMNS: dict[str, list[dg.TableColumn]] = {
    "manifest": columns_of(VERSION_SAMPLES),
    "diversity": [
        _text("space", "modality of the vectors"),
        _text("encoder", "of the vectors"),
        *_fields_of(Diversity),
    ],
    "training_shards": _fields_of(ShardEntry),
    "probe_scores": columns_of(score_schema(EvaluateSettings().ks)),
    "decision": _fields_of(Difference),
    "publication": [_text("check", "of those that keep a version a draft"), _text("problem", "null where it passed")],
    "stage_costs": columns_of(COSTS),
    "precompute_plan": columns_of(PLAN),
    "provenance": [
        _text("slot", "modality/table[shard], or the name of an input that is no table"),
        _text("kind", "table or external"),
        dg.TableColumn("current", "bool", description="whether the table on disk is still the one that was used"),
        *_fields_of(Stamp),
    ],
}
