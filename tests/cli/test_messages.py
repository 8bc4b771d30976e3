"""What a person reads when something outside of the data is wrong: one line; and nothing is left behind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from typer.testing import CliRunner, Result

from mmlake.cli.app import main
from mmlake.errors import ContractBroken, SettingsError, UnreadableItem
from mmlake.landing import LocalLanding
from mmlake.landing.local import refuse_around
from mmlake_assets import event_storage
from mmlake_assets.console import app
from mmlake_assets.run import root_cause
from tests import make


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def _failed(*words: object, error: type[BaseException] = SettingsError, match: str = "") -> None:
    result = run(*words)
    with pytest.raises(error, match=match):
        raise result.exception


def _one_line(result: Result) -> str:
    """What was printed, without the box and the line breaks that depend on the length of a path."""
    return " ".join(result.output.replace("│", " ").split())


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    make.land(tmp_path / "landing", {"a.jsonl": make.jsonl([make.prose(1)])})
    return tmp_path / "landing"


@pytest.mark.parametrize("recipe", ["nope", "everything"])
def test_a_run_that_fails_before_there_is_a_lake_leaves_none(tmp_path: Path, landing: Path, recipe: str) -> None:
    """A history and a lock were left, which every later command took for something."""
    (tmp_path / "empty").mkdir()
    zone, why = (
        (landing, "there is no recipe 'nope'") if recipe == "nope" else (tmp_path / "empty", "nothing to ingest")
    )
    _failed("run", "--lake", tmp_path / "new" / "lake", "--landing", zone, "--recipe", recipe, match=why)
    assert not (tmp_path / "new" / "lake").exists()


def test_such_a_run_leaves_what_was_there(tmp_path: Path, landing: Path) -> None:
    make.land(tmp_path / "lake", {"recipes/mine.toml": b"name = 3\n", "notes.txt": b"mine"})
    _failed("run", "--lake", tmp_path / "lake", "--landing", landing, "--recipe", "mine", match=r"recipes/mine\.toml")
    left = sorted(path.relative_to(tmp_path / "lake").as_posix() for path in (tmp_path / "lake").rglob("*"))
    assert left == ["notes.txt", "recipes", "recipes/mine.toml"]


def test_a_run_that_fails_in_a_lake_leaves_the_lake(done, tmp_path: Path) -> None:
    before = {path.name for path in Path(done.resource.root).iterdir()}
    _failed("run", "--lake", done.resource.root, "--recipe", "nope", match="there is no recipe 'nope'")
    assert {path.name for path in Path(done.resource.root).iterdir()} >= before


@pytest.mark.parametrize("command", ["run", "ui"])
@pytest.mark.parametrize("place", ["link", "file", "file/lake"])
def test_a_lake_that_cannot_be_made_is_named(tmp_path: Path, landing: Path, command: str, place: str) -> None:
    """A link that leads nowhere ended in a traceback."""
    (tmp_path / "link").symlink_to(tmp_path / "gone" / "lake")
    (tmp_path / "file").write_bytes(b"")
    more = ["--port", "3459"] if command == "ui" else []
    match = "cannot be made: .*; name another directory"
    _failed(command, "--lake", tmp_path / place, "--landing", landing, *more, match=match)


@pytest.mark.parametrize("place", ["", "lake", "deep/er/lake"])
def test_a_lake_within_its_landing_zone_is_refused_since_the_next_run_would_ingest_it(
    tmp_path: Path, landing: Path, place: str
) -> None:
    """Its history and tables became rows."""
    before = sorted(tmp_path.rglob("*"))
    lake = landing / place
    _failed(
        "run", "--lake", lake, "--landing", landing, match="lies in its landing zone .*; name a directory elsewhere"
    )
    _failed("run", "--lake", lake, "--landing", f"a={landing}", match="lies in its landing zone")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_lake_in_a_hidden_directory_of_its_landing_zone_or_around_it_is_not(tmp_path: Path, landing: Path) -> None:
    assert refuse_around(landing / ".lake", LocalLanding(landing)).root == landing
    assert refuse_around(tmp_path, LocalLanding(landing)).root == landing


@pytest.mark.parametrize(("command", "name"), [("run", "n" * 300), ("ui", "n" * 300), ("demo", "file/lake")])
def test_a_lake_that_cannot_be_written_is_one_line(
    tmp_path: Path,
    landing: Path,
    command: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_bytes(b"")
    options = ["--dir"] if command == "demo" else ["--landing", str(landing), "--lake"]
    monkeypatch.setattr(sys, "argv", ["mmlake", command, *options, str(tmp_path / name)])
    with pytest.raises(SystemExit) as ended:
        main(app)
    assert ended.value.code == 1
    line = capsys.readouterr().err
    assert line.startswith("error: the disk or its rights: ")
    assert line.count("\n") == 1


def test_a_full_disk_under_the_history_is_one_line(
    tmp_path: Path, landing: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Dagster wrote its SQL above it. The databases may not grow, for which SQLite has the words of a full disk."""
    relax = event_storage._relax

    def frozen(connection: Any, record: object) -> None:
        relax(connection, record)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")

    monkeypatch.setattr(event_storage, "_relax", frozen)
    monkeypatch.setattr(sys, "argv", ["mmlake", "run", "--lake", f"{tmp_path}/lake", "--landing", str(landing)])
    with pytest.raises(SystemExit) as ended:
        main(app)
    assert ended.value.code == 1
    output = capsys.readouterr().err
    assert "sqlite3" not in output
    assert output.splitlines()[-1].startswith(
        f"error: the disk or its rights: {tmp_path}/lake/dagster: No space left on device; repair that"
    )


def test_a_search_by_words_that_no_encoder_compares_says_so(done) -> None:
    """It said "nothing found", as though there was none."""
    result = run("search", "a drawing of nothing", "--modality", "image", "--lake", done.resource.root)
    assert "nothing found" in result.output
    assert "the words were looked up in captions and transcripts alone: the encoder 'colour-gradient' of image" in (
        " ".join(result.output.split())
    )
    for words in (["--modality", "text"], ["--modality", "image", "--words-only"]):
        result = run("search", "zxqvw", *words, "--where", "status = 'none'", "--lake", done.resource.root)
        assert "encoder" not in result.output


def test_words_in_a_script_that_the_encoder_has_none_of_are_searched_for_without_a_vector(done) -> None:
    result = run("search", "расписание паромов", "--modality", "text", "--lake", done.resource.root)
    assert result.exit_code == 0
    said = " ".join(result.output.split())
    assert "searched by words alone, without their vector: query 'расписание паромов' cannot be encoded" in said
    assert "minilm-l6 has no words of their script; give other words" in said


@pytest.mark.parametrize(
    ("raised", "cause", "expected"),
    [
        (ContractBroken("unit 1 cannot be cut"), UnreadableItem(3303, "num_samples=0"), ("unit 1 cannot be cut", 9)),
        (ContractBroken("no sum"), OSError("disk full"), ("no sum", 9)),
        (SettingsError("outer"), ContractBroken("inner"), ("inner", 9)),
        (ValueError("outer"), OSError("disk full"), ("OSError: disk full", 1)),
    ],
)
def test_a_failed_step_is_explained_in_our_words_where_there_are_some(raised, cause, expected) -> None:
    """An item's own error, which names no unit and no remedy, stood there in place of ours."""

    @dg.op
    def fails() -> None:
        raise raised from cause

    @dg.job
    def job() -> None:
        fails()

    result = job.execute_in_process(raise_on_error=False, run_config={"loggers": {"console": {"config": {}}}})
    (event,) = [event for event in result.all_events if event.is_step_failure]
    assert root_cause(event) == expected


@pytest.mark.parametrize(
    "words",
    [
        ("review", "blurred", "--out"),
        ("transcode",),
        ("bench", "ann", "--out"),
        ("bench", "av", "--out"),
        ("docs", "--out"),
        ("environments", "add", "demucs", "--folder"),
    ],
    ids=lambda words: words[0],
)
def test_a_file_where_a_directory_is_to_be_written_is_named(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Most of these ended in a traceback."""
    (tmp_path / "a.txt").write_bytes(b"mine")
    result = run(*words, tmp_path / "a.txt")
    assert (result.exit_code, "is a file" in _one_line(result)) == (2, True)
    assert (tmp_path / "a.txt").read_bytes() == b"mine"


@pytest.mark.parametrize("words", [("tracks", "curated", "--out"), ("clusters", "3f2a9c41", "--out")])
def test_a_directory_where_a_file_is_to_be_written_is_named(tmp_path: Path, words: tuple[str, ...]) -> None:
    """It named the file that is renamed in the end."""
    result = run(*words, tmp_path)
    assert (result.exit_code, "is a directory" in _one_line(result)) == (2, True)


def test_the_folder_of_the_generated_pages_is_made(tmp_path: Path) -> None:
    assert run("docs", "--out", tmp_path / "new" / "docs").exit_code == 0
    assert sorted(path.name for path in (tmp_path / "new" / "docs").iterdir()) == ["cli.md", "errors.md", "settings.md"]


@pytest.mark.parametrize("port", [0, 65_536])
def test_a_port_that_no_machine_has_is_refused(port: int) -> None:
    assert run("ui", "--port", port).exit_code == 2
