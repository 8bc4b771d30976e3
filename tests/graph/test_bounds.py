"""Checks that can fail: shares of quarantined units and of broken rules, and versions that lost samples."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from mmlake import pipeline, publish
from mmlake.errors import SettingsError
from mmlake.modalities import MODALITIES
from mmlake.publish.version import publish_version
from mmlake.quality import CheckSettings
from mmlake.settings import Settings
from mmlake.steps import row_steps
from mmlake.tables import Slot
from mmlake_assets import checks
from mmlake_resources import LakeResource
from tests.lakes import Done

ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN


def _verdicts(done: Done, bounds: CheckSettings) -> dict[str, dg.AssetCheckEvaluation]:
    """The evaluations of text by the name of their check: of 7 units one is too short, which quarantines it."""
    check = checks.rule_checks(done.lake.parts.modality("text"), bounds)
    return _evaluated(check, done.resource, partition=None)


def _evaluated(
    check: dg.AssetChecksDefinition, resource: LakeResource, *, partition: str | None
) -> dict[str, dg.AssetCheckEvaluation]:
    job = dg.define_asset_job("checked", dg.AssetSelection.checks(*check.check_keys))
    defs = dg.Definitions(asset_checks=[check], jobs=[job], resources={"lake": resource})
    with dg.DagsterInstance.ephemeral() as instance:
        result = defs.resolve_job_def("checked").execute_in_process(instance=instance, partition_key=partition)
    return {one.check_name: one for one in result.get_asset_check_evaluations()}


@pytest.mark.parametrize(("most", "passed"), [(0.1, False), (0.5, True)])
def test_too_large_a_share_of_quarantined_units_fails(done, most: float, passed: bool) -> None:
    found = _verdicts(done, CheckSettings(quarantined={"text": most}))["quarantined"]
    assert (found.passed, found.severity) == (passed, ERROR)
    assert found.metadata["fraction"].value == pytest.approx(found.metadata["items_broken"].value / 6)
    assert found.metadata["items_broken"].value == 1


def test_a_rule_with_a_bound_fails_and_one_without_warns(done, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but damage could turn a check red before."""
    found = _verdicts(done, CheckSettings(broken={"text_too_short": 0.01}))
    assert (found["text_too_short"].passed, found["text_too_short"].severity) == (False, ERROR)
    assert {one.passed for name, one in found.items() if name != "text_too_short"} == {True}
    monkeypatch.setattr(checks, "BOUND", 0.01)
    unset = _verdicts(done, CheckSettings())["text_too_short"]
    assert (unset.passed, unset.severity) == (False, WARN)


def test_a_version_that_lost_a_third_of_a_modality_warns_and_the_first_one_does_not(own) -> None:
    first = _evaluated(checks.dropped, own.resource, partition=None)["dropped"]
    assert first.passed
    with own.resource.open() as lake:
        for step in row_steps(MODALITIES["text"]):
            lake.tables.remove(Slot(step.name, "text", "text/b.jsonl"))
        lake.registry.record([], gone=["text/b.jsonl"])
        pipeline.run_tables(lake, modalities=["text"])
        publish.update_samples(lake)
        publish.update_catalog(lake)
        publish_version(lake, "everything-v002")
    found = _evaluated(checks.dropped, own.resource, partition=None)["dropped"]
    assert (found.passed, found.severity) == (False, WARN)
    assert found.description.startswith("everything-v002 has ") and found.description.endswith(
        "fewer samples of text than the version before."
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"quarantined": {"text": 1.5}}, r"checks\.quarantined\.text=1\.5 is no share"),
        ({"broken": {"blurred": "half"}}, r"checks\.broken\.blurred='half' is no share"),
        ({"dropped": -1.0}, r"checks\.dropped=-1\.0 is no share"),
    ],
)
def test_what_is_no_share_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Settings.of({"checks": given})


@pytest.mark.parametrize("text", ["[checks.quarantined]\ntexts = 0.1\n", "[checks.broken]\nblured = 0.1\n"])
def test_a_bound_on_what_does_not_exist_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "mmlake.toml").write_text(text)
    resource = LakeResource(root=str(tmp_path / "lake"), settings_file=str(tmp_path / "mmlake.toml"))
    with pytest.raises(SettingsError, match=r"checks\.(quarantined|broken) names \['(texts|blured)'\]"):
        checks.checks(resource.parts(), resource.check_settings())
