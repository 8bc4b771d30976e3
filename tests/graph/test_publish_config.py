"""The configuration of the job `publish_version`: recipe, branch and message."""

from __future__ import annotations

import dagster as dg
import pytest

from mmlake.errors import SettingsError
from mmlake.publish import request_of
from mmlake_assets.jobs import VERSION_JOB
from mmlake_assets.publish_config import ask_as_configured


def test_the_job_takes_a_recipe_a_branch_and_a_message(done) -> None:
    from mmlake_assets import definitions
    from mmlake_resources import CudaExecutorResource

    job = definitions.build(done.resource, CudaExecutorResource(device="cpu")).resolve_job_def(VERSION_JOB.name)
    config = {"recipe": "curated", "branch": "curated", "message": "a try"}
    assert dg.validate_run_config(job, {"ops": {"manifest": {"config": config}}})
    assert dg.validate_run_config(job, {})
    with pytest.raises(dg.DagsterInvalidConfigError, match="recpie"):
        dg.validate_run_config(job, {"ops": {"manifest": {"config": {"recpie": "curated"}}}})


def test_a_version_is_what_the_configuration_says(done) -> None:
    lake = done.lake
    ask_as_configured(lake, "mine-v001", {"recipe": "everything", "branch": "mine", "message": "a try"})
    asked = request_of(lake, "mine-v001")
    assert (asked.recipe.name, asked.branch, asked.message) == ("everything", "mine", "a try")


def test_an_empty_configuration_asks_for_nothing(done) -> None:
    ask_as_configured(done.lake, "other-v001", {"recipe": "", "branch": "", "message": ""})
    ask_as_configured(done.lake, "other-v001", None)
    with pytest.raises(SettingsError, match="begins with the name of no recipe"):
        request_of(done.lake, "other-v001")


def test_another_branch_than_the_one_in_the_name_is_refused(done) -> None:
    with pytest.raises(SettingsError, match="version curated-v009 is of branch 'curated', the configuration says 'x'"):
        ask_as_configured(done.lake, "curated-v009", {"recipe": "curated", "branch": "x", "message": ""})
