"""What people see: text of data is drawn as it is, whatever stands in it."""

from __future__ import annotations

import io
import json

import pytest
import typer
from rich.console import Console

from mmlake.cli.app import bars_of, console, main
from mmlake.drawing import json_shown, key_values, shown, table
from mmlake.errors import MissingExtra


def drawn(part: object, **options: object) -> str:
    sink = io.StringIO()
    Console(file=sink, width=100, **options).print(part)
    return sink.getvalue()


@pytest.mark.parametrize("text", ["[/b] closed", "[red]not red[/red]", "mmlake[s3]", ":fire:", "x not in [8, inf)"])
def test_brackets_in_data_are_no_markup(text: str) -> None:
    assert text in drawn(table("", ["what"], [[text]]))
    assert text in drawn(key_values({"what": text}))
    assert text in drawn(table(text, ["what"], []))


def test_control_characters_are_spelled_out() -> None:
    assert shown("a\x1b[2Jb\u202ec\r\ud800\té\u200d\n") == "a\\x1b[2Jb\\u202ec\\r\\ud800\té\u200d\n"


@pytest.mark.parametrize(
    "code", [0x1B, 0x7F, 0x85, 0x9B, 0x61C, 0x200E, 0x200F, 0x2028, 0x202E, 0x2066, 0x2069, 0x206A, 0x206F]
)
def test_json_for_programs_moves_no_terminal_and_is_read_back_as_it_was(code: int) -> None:
    """A C1 control begins a sequence of the terminal as ESC does; bidirectional characters show another name."""
    text = f"a{chr(code)}b é\n"
    written = json_shown({text: [text]})
    assert chr(code) not in written
    assert "é" in written
    assert json.loads(written) == {text: [text]}
    assert chr(code) not in shown(text)


def test_a_long_title_stays_on_one_line() -> None:
    assert (
        drawn(table("three files in a directory of a long name", ["n"], [["1"]])).splitlines()[0]
        == "three files in a directory of a long name"
    )


def test_an_error_keeps_the_extra_that_it_names(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    application = typer.Typer()

    @application.command()
    def fail() -> None:
        raise MissingExtra("pip install 'mmlake[gpu]' [/x]")

    monkeypatch.setattr("sys.argv", ["mmlake"])
    with pytest.raises(SystemExit) as ended:
        main(application)
    assert (ended.value.code, capsys.readouterr().err) == (7, "error: pip install 'mmlake[gpu]' [/x]\n")


def test_no_bar_is_drawn_where_nobody_sees_it_move() -> None:
    assert bars_of(as_json=False)["disable"] and bars_of(as_json=True)["disable"]


def test_the_console_draws_text_as_it_is(capsys) -> None:
    console().print("[/x] :fire:")
    assert capsys.readouterr().out == "[/x] :fire:\n"
