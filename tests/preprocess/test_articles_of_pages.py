"""Pages that name no article, as those written by hand and those of Doxygen, keep their headings and lists."""

from __future__ import annotations

import pytest

from mmlake.preprocess.markup import main_text

MENU = "".join(f"<li><a href='{name}.html'>{name.title()}</a></li>" for name in ("home", "news", "people", "contact"))
PROSE = "".join(
    f"<p>The miller carried the {number} sack of flour over the bridge and came back in the evening.</p>"
    for number in ("first", "second", "third", "fourth")
)
LIST = "<ul><li>How much a sack weighs when it is <a href='dry.html'>dry</a>.</li><li>What the bridge bears.</li></ul>"
BODY = f"<h1>{{anchor}}The bridge</h1><p>In this chapter you learn the following things about it:</p>{LIST}{PROSE}"
LINES = ["The bridge", "- How much a sack weighs when it is dry.", "- What the bridge bears."]


@pytest.mark.parametrize(
    "page",
    [
        "<html><body>{body}</body></html>",
        "<html><body><div class='outer'><div class='textblock'>{body}</div></div></body></html>",
        "<html><body><table><tr><td>{body}</td></tr></table></body></html>",
        # a menu whose name is that of an article
        "<html><body><div id='main-nav'><ul>{menu}</ul></div><div class='textblock'>{body}</div></body></html>",
    ],
    ids=["by hand", "in boxes", "in a table", "with a menu"],
)
@pytest.mark.parametrize("anchor", ["", "<a class='anchor' id='bridge'></a>\n", "<a name='bridge'></a>"])
def test_headings_and_lists_stay(page: str, anchor: str) -> None:
    """They were left out without a word, and the paragraphs alone stayed."""
    found = [line.strip() for line in main_text(page.format(body=BODY.format(anchor=anchor), menu=MENU)).split("\n")]
    assert [line for line in found if line in LINES] == LINES
    assert "The miller carried the fourth sack of flour over the bridge and came back in the evening." in found
    assert not {"Home", "- Home"} & set(found)


def test_what_stands_around_the_paragraphs_is_no_part_of_the_article() -> None:
    page = (
        f"<html><body><ul>{MENU}</ul><div class='textblock'>{BODY.format(anchor='')}</div>"
        "<address>Generated on Monday</address></body></html>"
    )
    assert not {"Generated on Monday", "- Home"} & set(main_text(page).split("\n"))


def test_an_article_that_has_a_name_is_the_article() -> None:
    page = f"<html><body><div>{PROSE}</div><article>{BODY.format(anchor='')}</article></body></html>"
    assert main_text(page).count("the first sack") == 1
