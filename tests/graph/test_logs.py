"""What a run of a lake's Dagster says in the terminal, where nobody asked for more."""

from pathlib import Path

import dagster as dg
import pytest

from mmlake_assets.instance import open_instance


def test_runs_of_a_lake_show_the_terminal_no_debug_messages_and_the_history_all(
    tmp_path: Path, capfd, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dg.op
    def made(context: dg.OpExecutionContext) -> None:
        context.log.debug("a detail")
        context.log.info("a message")

    @dg.job
    def work() -> None:
        made()

    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    # An instance of the UI sends what a step writes through a file and `tail`, which a busy machine starts too late.
    with open_instance(tmp_path) as instance:
        result = work.execute_in_process(instance=instance)
        entries = instance.all_logs(result.run_id)
    said = capfd.readouterr().err
    assert "a message" in said
    assert "a detail" not in said and " DEBUG " not in said
    assert any(entry.is_dagster_event and entry.dagster_event.is_step_start for entry in entries)
