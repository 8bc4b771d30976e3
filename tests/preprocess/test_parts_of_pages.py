"""Parts of articles that manuals have: marked code, listings, captions, notes and sections with names."""

from __future__ import annotations

import time

import pytest

from mmlake.preprocess.markup import main_text

PROSE = "".join(
    f"<p>The miller carried the {number} sack of flour over the bridge and came back in the evening.</p>"
    for number in ("first", "second", "third", "fourth")
)


def text_of(part: str) -> str:
    return main_text(f"<html><body><div><h1>The bridge</h1>{PROSE}{part}{PROSE}</div></body></html>")


def test_marked_words_of_code_stay_in_their_places() -> None:
    """The name stood behind the comma, glued to the next code: `new, and go on with this.patchlist`."""
    name = "<code>new\n<em><code>this.patch</code></em></code>"
    part = f"<p>Name it: {name}, and go on with <code>list <i>it</i></code>.</p>"
    assert "Name it: new this.patch, and go on with list it." in text_of(part)


def test_code_in_preformatted_text_keeps_its_lines() -> None:
    assert "one\n  two" in text_of("<pre><code><span>one</span>\n  <span>two</span></code></pre>")


def test_listings_of_divs_are_listings() -> None:
    lines = "".join(f"<div class='line'><span class='lineno'> {n}</span>{'  ' * n}call({n});</div>" for n in range(3))
    assert "call(0);\n  call(1);\n    call(2);" in text_of(f"<div class='fragment'>{lines}</div>")


def test_captions_that_are_sentences_stay_and_credits_go() -> None:
    said = "The wheel of the mill turns once in four seconds."
    figure = "<figure><img src='a.png'><figcaption>{}</figcaption></figure>behind it"
    assert said in text_of(figure.format(said))
    assert "Photo" not in text_of(figure.format("Photo by an agency"))


def test_notes_in_the_course_of_a_text_stay_and_other_asides_go() -> None:
    aside = "<aside class='{}'><p>Nobody crosses the bridge while the ice drifts below it.</p></aside>"
    assert "ice drifts" in text_of(aside.format("admonition note"))
    assert "ice drifts" not in text_of(aside.format("teaser"))


def sections(*titles: str, outer: str = "section") -> str:
    return "".join(
        f"<{outer} id='{title.lower().replace(' ', '-')}'><h2>{title}</h2>"
        f"<p>Of {title} the miller says in the evening that it is as it has always been.</p></{outer}>"
        for title in titles
    )


@pytest.mark.parametrize("title", ["Handling related floods", "Navigating the weir", "Sharing a boat", "Author of it"])
def test_sections_named_after_their_headings_stay(title: str) -> None:
    """Whole sections were left out because of a word in their heading."""
    text = text_of(sections("Ways to the mill", "Stones", title))
    assert f"Of {title} the miller says" in text


def test_a_box_of_other_pages_goes_though_it_has_a_heading() -> None:
    links = "<p><a href='a'>All about the mills of this valley</a></p>"
    box = f"<section id='related-pages'><h2>Related pages</h2>{links}</section>"
    assert "All about the mills" not in text_of(sections("Ways to the mill", "Stones") + box)
    assert "Of Related mills" not in text_of(sections("Related mills"))


def test_embedded_paragraphs_stay_and_posts_of_other_sites_go() -> None:
    said = "Under the bridge the water is as deep as three men are tall."
    assert said in text_of(f"<div class='embedded'><p>{said}</p></div>")
    assert said not in text_of(f"<div class='embed'><blockquote><p>{said}</p></blockquote></div>")


def test_names_that_lead_to_their_reference_are_words() -> None:
    item = "<li>Add <a href='b'><code>{0}</code></a>, as {0} of <a href='c'>{0}</a> is too slow to be of use.</li>"
    text = text_of("<ul>" + "".join(item.format(name) for name in ("fopen", "fclose", "fseek")) + "</ul>")
    assert "- Add fopen, as fopen of fopen is too slow to be of use." in text


def test_hostile_parts_take_time_in_proportion() -> None:
    """Marks in marks and ten thousand of each part: a second of processor time, where squares would take minutes."""
    marks = "<code>" + "<b>x</b>" * 20_000 + "</code>"
    links = "<p>" + "some words of it <a href='a'><code>x</code></a> " * 10_000 + "</p>"
    lines = "<div class='fragment'>" + "<div class='line'>x</div>" * 10_000 + "</div>"
    from lxml import html

    from mmlake.preprocess.page_parts import keep_parts

    tree = html.fromstring(f"<html><body>{marks}{links}{lines}{'<code>' * 200}</body></html>")
    before = time.process_time()
    keep_parts(tree)
    assert time.process_time() - before < 3


def _ferry(hour: int) -> str:
    return f"The ferry to the island leaves at {hour} in the morning and comes back unless the wind is too strong. " * 3


@pytest.mark.parametrize(
    "body",
    [
        "{0}<div><p>{1}</p></div>{2}<div>{3}</div>{4}",
        "<center><h1>Times</h1></center><font size=2>{0}</font><p>{1}</p><blockquote>{2}</blockquote>{3}<hr>{4}",
        "<h1>Times</h1>{0}<p>{1}</p>{2}<h2>Winter</h2>{3}<p>{4}</p>",
    ],
    ids=["between boxes", "in a font", "behind headings"],
)
def test_sentences_between_blocks_are_paragraphs(body: str) -> None:
    """Pages of the nineties have text that lies in no element of its own; browsers show it as a block."""
    text = main_text(f"<html><body>{body.format(*map(_ferry, range(5, 10)))}</body></html>")
    assert [hour for hour in range(5, 10) if f"leaves at {hour} " in text] == [5, 6, 7, 8, 9]


def test_loose_menus_and_pages_without_paragraphs_stay_as_they_are() -> None:
    menu = " | ".join(f'<a href="/{hour}">The ferry of {hour} in the morning</a>' for hour in range(5, 10))
    page = f"<html><body>{menu}<div><p>{_ferry(5)}</p><p>{_ferry(6)}</p></div></body></html>"
    assert "The ferry of 7" not in main_text(page)
    boxes = f"<html><body>{_ferry(5)}<div>{_ferry(6)}</div><div><span>{_ferry(7)}</span></div></body></html>"
    assert all(f"leaves at {hour} " in main_text(boxes) for hour in (5, 6, 7))


@pytest.mark.parametrize("outer", ["ul><li", "ol><li", "dl><dd", "dl><dt", "blockquote", "h2"])
@pytest.mark.parametrize(
    "inner",
    [
        "<div>The upper weir</div><div>The lower weir</div>",
        "The upper weir<div>The lower weir</div>",
        "<b>The upper weir</b><section class='x'>The lower weir</section>",
        "<div>The upper weir</div><a href='w'>The lower weir</a>",
        "<div><div>The upper weir</div><div>The lower weir</div></div>",
        "The upper weir<article>The lower weir</article>",
    ],
)
def test_boxes_of_an_item_are_lines_of_it(outer: str, inner: str) -> None:
    """The last word of one and the first of the next were one word: `weirThe`."""
    opened = f"<{outer}>{inner}" + "".join(f"</{tag}>" for tag in reversed(outer.replace("<", "").split(">")))
    assert "The upper weir\nThe lower weir\n" in text_of(opened) + "\n"


def test_words_behind_a_box_or_a_figure_of_an_item_are_words_of_their_own() -> None:
    found = text_of(
        "<ul><li>Boats<div>of oak</div>and rafts</li><li>Nets<figure><img src='n'></figure>and lines</li></ul>"
    )
    assert "- Boats\nof oak\nand rafts\n- Nets\nand lines" in found


def test_quotations_in_quotations_are_lines() -> None:
    nested = "<blockquote>He said<blockquote>It froze</blockquote>and left</blockquote>"
    assert "He said\nIt froze\nand left" in text_of(nested)


def test_blocks_of_a_caption_are_words_of_their_own() -> None:
    caption = "The wheel of the mill turns<br>once in four seconds,<p>as it did before.</p>Nobody counts."
    said = "The wheel of the mill turns once in four seconds, as it did before. Nobody counts."
    assert said in text_of(f"<figure><img src='a.png'><figcaption>{caption}</figcaption></figure>")


def test_what_a_page_hides_is_no_text_of_it() -> None:
    secret = "The flour of this sack was never carried over any bridge at all."
    assert secret in text_of(f"<p>{secret}</p>") and secret in text_of(f"<p hidden='until-found'>{secret}</p>")
    assert secret not in text_of(f"<p hidden>{secret}</p>")
    assert "it stays" in text_of("<div hidden>never</div>it stays, as what is behind a hidden box must, in its place")
    assert secret in main_text(f"<html hidden><body hidden><p>{secret}</p></body></html>")


MARKED = (
    "<span></span><span class='k'>def</span> <span>f</span>(x):\n"
    "    <span>if</span> x:\n        <span>return</span> 1\n"
)
PLAIN = "def f(x):\n    if x:\n        return 1\n"


@pytest.mark.parametrize(
    "listing", ["<div class='highlight'><pre>{}</pre></div>", "<pre><code class='py'>{}</code></pre>"]
)
@pytest.mark.parametrize(
    "outer", ["<ul><li>So: {}then</li></ul>", "<ol><li><p>So:</p>{}</li></ol>", "<dl><dd>So: {}</dd></dl>",
              "<blockquote>{}</blockquote>", "{}"],
)  # fmt: skip
def test_listings_with_marked_words_keep_their_lines_within_items(listing: str, outer: str) -> None:
    """Sphinx writes each listing so, and within an item its lines were one: `def f(x): if x: return 1`."""
    assert PLAIN in text_of(outer.format(listing.format(MARKED))) + "\n"


def test_numbers_of_lines_are_none_of_a_listing() -> None:
    within = MARKED.replace("<span></span>", "<span class='linenos'>1</span>")
    assert f"\n{PLAIN}" in text_of(f"<pre>{within}</pre>")
    before_it = f"<td class='linenos'><pre>1\n2\n3</pre></td><td class='code'><div><pre>{MARKED}</pre></div></td>"
    assert f"\n{PLAIN}" in text_of(f"<table class='highlighttable'><tr>{before_it}</tr></table>")
    said = "<table><tr><td><pre>1999</pre></td><td>the <pre>year</pre></td></tr></table>"
    assert "1999" in text_of(said)
