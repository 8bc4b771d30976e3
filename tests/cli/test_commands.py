"""The command line: every command has help with an example, stands in the docs, and does its job on a real lake."""

from __future__ import annotations

import dataclasses
import errno
import importlib.metadata
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer.main
from typer.testing import CliRunner

from mmlake import upkeep
from mmlake.cli import inspect
from mmlake.cli.app import app, main, of_the_disk
from mmlake.cli.pages import cli_page, errors_page
from mmlake.cli.settings_page import settings_page
from mmlake.error_codes import CODES
from mmlake.errors import LakeLocked, MmlakeError, SettingsError
from mmlake.lake import FORMAT, Lake
from mmlake.loader import read_tracks
from mmlake.settings import Settings
from mmlake_assets import console
from tests import make
from tests.blobs import rot

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
COMMANDS = sorted(typer.main.get_command(app).commands)
RUNNER = CliRunner()


def call(*words: object, code: int = 0) -> str:
    result = RUNNER.invoke(app, [str(word) for word in words])
    if isinstance(result.exception, MmlakeError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


def read(*words: object, code: int = 0) -> object:
    return json.loads(call(*words, "--json", code=code))


@pytest.fixture
def lake(done) -> Path:
    return Path(done.resource.root)


def test_the_three_commands_that_go_through_dagster_are_there() -> None:
    assert {"run", "demo", "ui"} <= set(COMMANDS)
    assert console.entry


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    assert f"mmlake {name}" in call(name, "--help")


@pytest.mark.parametrize("command", app.registered_commands, ids=lambda command: command.callback.__name__)
def test_what_stands_between_angle_brackets_is_seen_in_the_help(command) -> None:
    """The help is Markdown, in which `<start:2.10s>` is a tag that is not shown, unless it is marked as code."""
    assert re.findall(r"<\w[^>]*>", re.sub("`[^`]*`", "", command.callback.__doc__)) == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "docs"])
def test_every_command_stands_in_the_docs(name: str) -> None:
    assert f"## mmlake {name}\n" in (DOCS / "cli.md").read_text()


@pytest.mark.parametrize("words", [("run", "--landing", "."), ("publish", "--recipe", "everything")], ids="-".join)
def test_what_writes_a_lake_is_refused_at_once_while_another_run_holds_it(words, lake) -> None:
    with Lake(lake).locked("run"), pytest.raises(LakeLocked, match="written by another process; wait"):
        call(*words, "--lake", lake)


def test_the_generated_pages_are_as_the_code_is() -> None:
    """`make docs` writes them."""
    assert (DOCS / "errors.md").read_text() == errors_page()
    assert (DOCS / "cli.md").read_text() == cli_page(app)
    assert (DOCS / "settings.md").read_text() == settings_page()


def test_every_setting_is_on_its_page_with_its_default_and_what_it_is() -> None:
    rows = [line.split(" | ") for line in settings_page().splitlines() if line.startswith("| `")]
    defaults = Settings()
    named = [
        one.name for held in dataclasses.fields(defaults) for one in dataclasses.fields(getattr(defaults, held.name))
    ]
    assert len(rows) >= len(named) > 200
    assert set(named) <= {name.strip("| `") for name, *_ in rows}
    assert not [name for name, _, *what in rows if len(" | ".join(what)) < 8]


def test_status_adds_up(lake: Path) -> None:
    for row in read("status", "--lake", lake)["modalities"]:
        assert row["num_rows"] == sum(row["statuses"].values())
    assert "units" in call("status", "--lake", lake)


def test_status_says_what_share_of_each_source_is_usable_and_why_not_more(lake: Path) -> None:
    modalities = read("status", "--lake", lake)["modalities"]
    for row in modalities:
        assert sum(one["num_units"] for one in row["sources"]) == row["num_rows"]
        usable = row["statuses"]["ok"] + row["statuses"]["flagged"]
        assert sum(one["num_usable"] for one in row["sources"]) == usable
        for one in row["sources"]:
            assert one["usable_fraction"] == pytest.approx(one["num_usable"] / one["num_units"], abs=1e-6)
            assert one["weighted_fraction"] <= one["usable_fraction"]
            assert sum(one["causes"].values()) == one["num_units"] - one["num_usable"]
    (text,) = (row["sources"] for row in modalities if row["modality"] == "text")
    assert {rule for one in text for rule in one["causes"]} == {"text_too_short"}
    assert "text_too_short 1" in " ".join(call("status", "--lake", lake).split())


def test_search_by_words_finds_the_document_that_holds_them(lake: Path) -> None:
    found = read("search", make.prose(4)[:60], "--lake", lake, "--modality", "text", "--limit", 1)
    assert found[0]["text"] == make.prose(4)


def test_what_a_search_shows_of_a_picture_is_one_line() -> None:
    """Captions of several lines made several lines of one row."""
    row = {"modality": "image", "width_px": 120, "height_px": 80, "text": "A goose.\nes: Un ganso.\n"}
    assert inspect._what(row) == "120x80 px A goose. es: Un ganso."


def test_search_by_example_finds_the_file_itself_first(lake: Path, tmp_path: Path) -> None:
    path = tmp_path / "query.png"
    path.write_bytes(make.picture(2))
    found = read("search", "--like", path, "--lake", lake, "--limit", 1)
    assert found[0]["sample_ids"] == ["image/a.tar/2"] or found[0]["score"] > 0.999


def test_search_by_sql_filters(lake: Path) -> None:
    rows = read("search", "--where", "status = 'quarantined'", "--lake", lake)
    assert [row["rule"] for row in rows] == ["text_too_short"]


def test_search_by_a_measure_needs_no_words_and_shows_its_number(lake: Path) -> None:
    rows = read("search", "--where", "min_side_px >= 1", "--lake", lake)
    assert rows and all(row["min_side_px"] >= 1 and row["modality"] in ("image", "video") for row in rows)


def test_a_wrong_column_is_answered_with_those_there_are(lake: Path) -> None:
    with pytest.raises(SettingsError, match="its columns are digest, .*snr_db"):
        call("search", "--where", "sharpness > 1", "--lake", lake)


def test_a_search_for_nothing_says_what_to_give(lake: Path) -> None:
    with pytest.raises(MmlakeError, match="--like FILE"):
        call("search", "--lake", lake)


def test_why_names_the_rule_and_the_versions_of_a_quarantined_item(lake: Path) -> None:
    digest = read("search", "--where", "status = 'quarantined'", "--lake", lake)[0]["digest"]
    story = call("why", digest[:12], "--lake", lake)
    assert "text_too_short" in story
    assert "curated-v001" in story
    assert "text/a.jsonl" in story


def test_why_answers_for_a_file_of_the_store(lake: Path, done) -> None:
    digest = next(iter(done.lake.store.digests()))
    assert digest in call("why", Path("blobs", digest[:2], digest[2:4], f"{digest}.jpg"), "--lake", lake)


def test_versions_and_diff_show_what_curation_left_out(lake: Path) -> None:
    assert {row["version"] for row in read("versions", "--lake", lake)["versions"]} == {
        "everything-v001",
        "curated-v001",
    }
    found = read("diff", "everything", "curated", "--lake", lake)
    assert found["removed"]["text"] == {"rule:text_too_short": 1, "tier:near": 1}
    assert set(found["reasons"]["removed"]) == {"recipe"}
    assert "recipe" in call("diff", "everything", "curated", "--lake", lake)


def test_log_and_show_say_what_a_branch_and_a_version_are(lake: Path) -> None:
    (move,) = read("log", "curated", "--lake", lake)["moves"]
    shown = read("show", "curated", "--lake", lake)
    assert (move["after"], move["tree"], move["action"]) == (shown["id"], shown["tree"], "branch")
    assert move["names"] == ["curated-v001"]
    assert (shown["names"], shown["is_draft"], shown["parents"]) == (["curated", "curated-v001"], False, [])
    assert shown["recipe"]["name"] == "curated"
    assert shown["made_with"]["settings"]["quality"]["flagged_weight"] == 0.5
    assert "curated-v001" in call("log", "curated", "--lake", lake)
    assert "Left out" in call("show", "curated", "--lake", lake)


def test_tracks_writes_a_line_per_film_and_recording(lake: Path, tmp_path) -> None:
    found = read("tracks", "everything", "--out", tmp_path / "x.jsonl", "--lake", lake)
    modalities = [line.modality for line in read_tracks(tmp_path / "x.jsonl")]
    assert (found["num_lines"], set(modalities)) == (len(modalities), {"audio", "video"})


def test_verify_passes_and_then_names_the_blob_that_rotted(own) -> None:
    root = own.resource.root
    assert read("verify", "curated", "--lake", root)["problems"] == []
    digest = own.lake.versions.items("curated").column("digest").to_pylist()[0]
    rot(own.lake.store, digest)
    assert any(digest in problem for problem in read("verify", "curated", "--lake", root, code=5)["problems"])
    assert any(digest in problem for problem in read("fsck", "--lake", root, code=5)["problems"])


def test_fsck_finds_a_sound_lake_sound(lake: Path) -> None:
    assert read("fsck", "--lake", lake)["problems"] == []


def test_tags_branches_and_rollback_move_references_only(own) -> None:
    root = own.resource.root
    at = read("tag", "release-1", "curated-v001", "--lake", root)["id"]
    assert read("branch", "trial", "everything-v001", "--lake", root)["id"] != at
    assert read("rollback", "curated", "curated-v001", "--lake", root)["id"] == at


def test_costs_lists_stages_and_a_plan(lake: Path) -> None:
    data = read("costs", "--lake", lake, "--reads", 1)
    assert {row["stage"] for row in data["stages"]} >= {"items", "embeddings", "total"}
    assert {row["decision"] for row in data["plan"]} <= {"precompute", "recompute"}


def test_errors_explains_a_code() -> None:
    assert read("errors", "1002")[0]["name"] == "shard_truncated"
    with pytest.raises(MmlakeError, match="9999.*6XXX"):
        call("errors", "9999")


@pytest.mark.parametrize("asked", ["6XXX", "6xxx", "TMP_ERR_CODE_6XXX"])
def test_errors_explains_a_class_of_the_runbooks_by_our_codes(asked: str) -> None:
    found = read("errors", asked)
    assert found["class"] == "6XXX" and "do not belong together" in found["what"] and "P0" in found["cure"]
    assert {4331, 4337, 4002} <= {entry["code"] for entry in found["codes"]}
    shown = call("errors", asked)
    assert "6XXX: sound, picture" in shown and "4331" in shown


def test_a_class_without_codes_of_ours_says_what_is_done() -> None:
    assert read("errors", "5XXX")["codes"] == [] and "second writer" in read("errors", "5XXX")["cure"]
    assert "renamed when it is whole" in call("errors", "5XXX")


def test_scan_lists_shards_without_a_lake(done) -> None:
    keys = {row["key"]: row["modalities"] for row in read("scan", "--landing", done.lake.landing.location)}
    assert keys["image/a.tar"] == ["image"]


def test_probes_are_shown_and_can_be_pinned(own, tmp_path: Path) -> None:
    root = own.resource.root
    before = read("probes", "--lake", root)
    digest = own.lake.versions.items("curated").column("digest").to_pylist()[0]
    path = tmp_path / "mine.jsonl"
    path.write_text(
        json.dumps(
            {"id": "p1", "kind": "text", "modality": "text", "query": "a stone bridge in winter", "relevant": [digest]}
        )
        + "\n"
    )
    assert before["num_probes"] > 0
    assert read("probes", "--lake", root, "--pin", path)["num_probes"] == 1


def test_a_report_is_one_file_that_names_its_version(lake: Path) -> None:
    path = Path(read("report", "curated-v001", "--lake", lake)["report"])
    text = path.read_text()
    assert "<title>mmlake curated-v001</title>" in text
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_an_unknown_lake_names_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(MmlakeError, match="mmlake run --landing"):
        call("status", "--lake", tmp_path / "nothing")


def test_errors_leave_the_program_as_one_line_and_their_own_exit_code(tmp_path: Path) -> None:
    command = shutil.which("mmlake", path=str(Path(sys.executable).parent)) or ""
    words = [command] if command else [sys.executable, "-c", "from mmlake_assets.console import entry; entry()"]
    result = subprocess.run(
        [*words, "versions", "--lake", str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


def test_a_full_or_read_only_disk_is_one_line_and_a_mistake_of_ours_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    def failing(number: int) -> Callable[..., None]:
        def command(**rest: object) -> None:
            raise OSError(number, os.strerror(number), "/lake/blobs")

        return command

    with pytest.raises(SystemExit) as ended:
        main(failing(errno.ENOSPC))
    assert ended.value.code == MmlakeError.exit_code
    assert capsys.readouterr().err.splitlines() == [
        "error: the disk or its rights: /lake/blobs: No space left on device; repair that, then run the same "
        "command again"
    ]
    with pytest.raises(OSError, match="Bad file descriptor"):
        main(failing(errno.EBADF))


def test_a_database_that_cannot_be_written_is_one_line_and_one_that_is_used_wrongly_is_not(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def writing(**rest: object) -> None:
        with closing(sqlite3.connect(f"file:{tmp_path}/d.sqlite?mode=ro", uri=True)) as database:
            database.execute("CREATE TABLE t (a)")

    def mistaken(**rest: object) -> None:
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute("SELECT a FROM nowhere")

    sqlite3.connect(tmp_path / "d.sqlite").close()
    with pytest.raises(SystemExit) as ended:
        main(writing)
    assert ended.value.code == MmlakeError.exit_code
    assert capsys.readouterr().err.splitlines() == [
        "error: the disk or its rights: Read-only file system; repair that, then run the same command again"
    ]
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        main(mistaken)


def test_a_database_that_gives_no_reason_is_on_a_full_disk_where_that_disk_is_full(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failed = sqlite3.OperationalError("disk I/O error")
    failed.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    found = []
    for free in (0, 1 << 40):
        monkeypatch.setattr(shutil, "disk_usage", lambda place, free=free: SimpleNamespace(free=free))
        found.append(of_the_disk(failed, tmp_path))
    assert [(error.errno, error.filename) for error in found] == [
        (errno.ENOSPC, str(tmp_path)),
        (errno.EIO, str(tmp_path)),
    ]


def test_a_reader_who_has_seen_enough_of_the_help_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as nobody:
        result = subprocess.run(
            [sys.executable, "-c", "from mmlake.cli.app import main; main()", "--help"],
            stdout=nobody,
            stderr=subprocess.PIPE,
            check=False,
            cwd=ROOT,
        )
    assert (result.returncode, result.stderr) == (0, b"")


def test_the_version_is_reported() -> None:
    assert call("--version") == f"mmlake {importlib.metadata.version('mmlake')}\n"


def test_the_help_begins_with_what_a_person_begins_with() -> None:
    panels = [command.rich_help_panel for command in app.registered_commands]
    assert list(dict.fromkeys(panels)) == ["Run", "Inspect", "Versions", "Maintain"]


def test_a_scan_says_how_many_directories_are_one_shard(tmp_path: Path) -> None:
    zone = make.land(tmp_path / "in", {f"pages/{at}/page.txt": b"A text." for at in range(70)})
    (row,) = read("scan", "--landing", zone)
    assert row["key"] == "pages~~" and len(row["directories"]) == 70
    assert "pages~~" in (shown := call("scan", "--landing", zone)) and " 70" in shown


def test_a_scan_of_nothing_says_so(tmp_path: Path) -> None:
    assert (
        call("scan", "--landing", tmp_path)
        == f"nothing to ingest in {tmp_path}: no files but hidden, unfinished (.part, .tmp) and marker files\n"
    )


def test_a_ui_on_a_port_in_use_is_refused(lake: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(SettingsError, match="--port"):
        call("ui", "--lake", lake, "--port", server.getsockname()[1])


def test_run_goes_on_with_what_the_lake_remembers_and_finds_nothing_to_do(own) -> None:
    data = read("run", "--lake", own.resource.root)
    assert data["dagster_runs"] == []
    assert data["landing"] == {"new": 0, "changed": 0, "gone": 0, "unchanged": 6}
    assert data["failed"] == len(read("failed", "--lake", own.resource.root)) > 0
    assert Path(data["report"]).exists()


def test_a_code_that_nothing_failed_with_does_not_say_that_nothing_failed(own) -> None:
    said = RUNNER.invoke(app, ["failed", "--lake", str(own.resource.root), "--code", "1110"]).stdout
    assert said.strip() == "nothing of that failed; `mmlake failed` without options lists all"


def test_failed_says_how_often_each_code_stands_there_and_what_to_do_before_it_lists_the_first_items(
    own, monkeypatch: pytest.MonkeyPatch
) -> None:
    (letter,) = read("failed", "--lake", own.resource.root)
    codes = [1005, 1006, 1005, 3002, 1005]
    letters = [letter | {"error_code": code, "name": CODES[code].name} for code in codes]
    monkeypatch.setattr(upkeep, "failed_rows", lambda *args, **kwargs: letters)
    causes, items = call("failed", "--lake", own.resource.root, "--limit", 2).split("\n\n")
    for line, (code, num) in zip(causes.splitlines()[2:], ((1005, 3), (1006, 1), (3002, 1)), strict=True):
        assert re.match(rf"{code} +{CODES[code].name} +{num} +{re.escape(CODES[code].fix)}", line), line
    assert items.startswith("2 of 5 failed; more: --limit 5, --code, --shard, --json\n")
    assert "\n5 failed\n" in call("failed", "--lake", own.resource.root)
    monkeypatch.setattr(upkeep, "failed_rows", lambda *args, **kwargs: letters[:1])
    assert call("failed", "--lake", own.resource.root).startswith("1 failed\n"), "the cause stands in its row"


def test_run_names_the_command_that_lists_what_failed(own) -> None:
    num_failed = len(read("failed", "--lake", own.resource.root))
    said = call("run", "--lake", own.resource.root)
    assert re.search(rf"^failed +{num_failed} items?: mmlake failed --lake ", said, re.M), said


def test_run_takes_a_new_shard_into_new_versions(own) -> None:
    make.land(own.lake.landing.root, {"text/c.jsonl": make.jsonl([make.prose(41)])})
    data = read("run", "--lake", own.resource.root, "--recipe", "curated")
    assert data["new_versions"] == ["curated-v002"]
    assert read("diff", "curated-v001", "curated-v002", "--lake", own.resource.root)["added"] == {"text": {"new": 1}}


def _of_a_lake() -> dict[str, list[str]]:
    """Name of each command that takes a lake -> the words that it needs besides."""
    commands = typer.main.get_command(app).commands.items()
    needed = {name: [one.opts[0] for one in command.params if one.required] for name, command in commands}
    return {
        name: [word for opt in needed[name] for word in ([opt, "x"] if opt.startswith("-") else ["x"])]
        for name, command in commands
        if any("--lake" in one.opts for one in command.params)
    }


@pytest.mark.parametrize(("name", "needed"), _of_a_lake().items())
def test_a_lake_of_a_newer_format_is_refused_with_the_release_that_reads_it(
    name: str, needed: list[str], tmp_path: Path
) -> None:
    """It was misread. Commands read landing zones too, where one is named; none is here."""
    memory = {"format": FORMAT + 1, "release": "9.1", "landing": str(make.land(tmp_path / "landing", {"a.txt": b"a"}))}
    make.land(tmp_path / "lake", {"lake.json": json.dumps(memory).encode()})
    with pytest.raises(SettingsError, match=rf"has format {FORMAT + 1}, and mmlake .* install mmlake 9\.1 or newer"):
        call(name, *needed, "--lake", tmp_path / "lake")
    assert sorted(path.name for path in (tmp_path / "lake").iterdir()) == ["lake.json"]


def test_an_empty_landing_zone_is_an_error_and_makes_no_lake(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    with pytest.raises(MmlakeError, match="nothing to ingest"):
        call("run", "--landing", tmp_path / "landing", "--lake", tmp_path / "lake")
    assert not (tmp_path / "lake" / "lake.json").exists()


def test_fsck_repairs_lost_and_changed_blobs_from_the_landing_zone(own) -> None:
    root, store = own.resource.root, own.lake.store
    lost, changed = (
        own.lake.tables.concat("items", "image", columns=["digest"]).column("digest").drop_null().to_pylist()[:2]
    )
    store.remove(lost)
    rot(store, changed)
    assert len(read("fsck", "--lake", root, code=5)["problems"]) == 2
    data = read("fsck", "--repair", "--lake", root)
    assert sorted(data["repaired"]) == sorted([lost, changed])
    assert data["problems"] == []


def test_a_report_shows_the_diversity_of_its_own_version_and_the_severity_of_each_rule(own) -> None:
    from mmlake.summary import summarize
    from mmlake.version_report import gather

    data = gather(own.lake, "curated-v001", planted={}, summary=summarize(own.lake))
    shown = {one.modality: one.diversity for one in data.maps}
    block = own.lake.versions.read("curated-v001").diversity
    assert shown
    assert all(shown[modality] == block[modality] for modality in shown)
    assert {rule.rule: (rule.severity, rule.error_code) for rule in data.rules}["text_too_short"] == ("P1", 4102)


def test_fsck_builds_a_lost_pack_index_again(own) -> None:
    root = own.resource.root
    index = next((own.lake.store.root / "packs").glob("*.idx"))
    index.unlink()
    problems = read("fsck", "--lake", root, code=5)["problems"]
    assert any(f"pack {index.stem}" in problem for problem in problems)
    data = read("fsck", "--repair", "--lake", root)
    assert (data["problems"], data["rebuilt_indexes"]) == ([], 1)
