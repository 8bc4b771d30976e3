"""Manual pages as they are stored, in troff, are markup; texts that describe troff are not."""

from __future__ import annotations

import pytest

from mmlake.quality.text import MEASURES
from mmlake.quality.text_rules import TEXT_RULES

(RULE,) = (rule for rule in TEXT_RULES if rule.name == "markup")
WORDS = "The program reads each line of its input and writes the longest of them to its output."
MAN = f""".TH LONGEST 1 "2024" "tools"
.SH NAME
longest \\- find the longest line
.SH SYNOPSIS
.B longest
[\\fB\\-n\\fR \\fInumber\\fR] file
.SH DESCRIPTION
.PP
{WORDS}
.TP
\\fB\\-n\\fR
Print so many lines in place of one.
"""
MDOC = f""".Dd March 1, 2024
.Dt LONGEST 1
.Os
.Sh NAME
.Nm longest
.Nd find the longest line
.Sh DESCRIPTION
{WORDS}
.Bl -tag -width indent
.It Fl n Ar number
"""
TUTORIAL = f"""{WORDS * 3}
A page begins with its title:
.TH LONGEST 1
and sections follow, each behind .SH and its name. {WORDS * 3}
"""
OTHERS = {
    "prose": WORDS * 4,
    "a tutorial on troff": TUTORIAL,
    "a list of hidden files": "\n".join(f".{name} holds settings" for name in ("vim", "ssh", "git", "npm")),
    "LaTeX": f"\\section{{One}}\n\\textbf{{bold}} \\& more\n{WORDS}",
    "a pattern": f"{WORDS}\nre.compile(r'\\- \\fB \\s+')\n{WORDS}",
}


def fraction(text: str) -> float:
    value = MEASURES["markup_fraction"](text)
    assert value is not None
    return value


@pytest.mark.parametrize("text", [MAN, MDOC], ids=["man", "mdoc"])
def test_a_manual_page_is_markup(text: str) -> None:
    assert RULE.high is not None and fraction(text) > RULE.high


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_manual_page_is_not(name: str) -> None:
    assert RULE.high is not None and fraction(OTHERS[name]) < RULE.high / 2


def test_lines_with_requests_and_escapes_count_whole() -> None:
    lines = [".SH NAME", "words alone here", "one \\fBbold\\fR word"]
    assert fraction("\n".join(lines)) == pytest.approx((len(lines[0]) + len(lines[2])) / (sum(map(len, lines)) + 2))
