"""HTML pages to their main text."""

from __future__ import annotations

import copy
import logging
import re
from collections import Counter
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from mmlake.formats import sniff
from mmlake.preprocess.page_parts import keep_parts, wrap_loose_sentences

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_HTML = re.compile(rb"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
# what is no text of the page: of media, what stands there for browsers that cannot show them
_SKIPPED = frozenset(
    "script style noscript template svg head nav footer form button select textarea datalist iframe video audio "
    "canvas".split()
)
_BREAKS = frozenset(
    "address article aside blockquote br dd div dl dt figcaption figure h1 h2 h3 h4 h5 h6 header hr li main ol p "
    "pre section table td th tr ul".split()
)
_SPACES = re.compile(r"[ \t\r\f\u00a0]+")
_LINES = re.compile(r"(?<![^\S\n])[^\S\n]*+\n\s*+")  # a line's end and all white space around it
_BLANKS = re.compile(r"\s+")
_LEFT_OPEN = re.compile(r"<(?=[^<>]*(?:<|\Z))")
_DISPLAYED = re.compile(r"\A\{\\(?:display|text)style\s+(.*)\}\Z", re.DOTALL)  # around each formula of a MediaWiki
_WORD = re.compile(r"[^\W\d_]+")
_SENTENCE_WORDS, _BOXES = 8, ("div", "section", "center")
_MOST_SENTENCES = 0.9  # of the words of a page's sentences, which its article holds
_INLINE = frozenset(
    "a abbr b bdi bdo br cite code data del dfn em font i ins kbd mark q s samp small span strike strong sub sup "
    "time tt u var wbr".split()
)
_MAX_ORDERED_LINES = 200  # each is sought in the whole page; what trafilatura adds to is short
_HIDDEN = re.compile("hid|noprint")  # what a reader of the page does not see
# tags without an end, beyond which a page is no work of a person: html.parser takes the square of their number
_MAX_LEFT_OPEN = 100


def is_html(text: str, content_type: str | None) -> bool:
    """Whether the text is an HTML page, by its type or by how it begins."""
    if content_type is not None and content_type.split(";")[0].strip().lower() in (
        "text/html",
        "application/xhtml+xml",
    ):
        return True
    head = text[:2048].lstrip().encode("utf-8", "surrogatepass")
    return _HTML.match(head, sniff.behind_prolog(head)) is not None


def main_text(page: str) -> str:
    """The article of the page without navigation and notices (trafilatura, precision first); all of its visible text
    where no article is found."""
    import trafilatura

    # what it finds odd about a page is no news of a run: the page's visible text is taken then
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)

    # as characters, not bytes: the page is decoded already, and a declared charset inside it would be applied twice
    tree = trafilatura.load_html(page)
    if tree is None:
        return strip_tags(page)
    for template in list(tree.iter("template")):  # scripts fill it in; trafilatura takes it for a part of the page
        template.drop_tree()
    _write_formulas(tree)
    keep_parts(tree)
    _unname_words(tree)
    wrap_loose_sentences(tree)
    _name_paragraphs(tree)
    shown = "".join(tree.xpath("//text()[not(parent::script or parent::style)]"))
    # where an article is short next to its code, what trafilatura falls back on finds more
    ways = [_with_article(tree), tree]
    found = max((_extracted(way) for way in ways if way is not None), key=lambda text: len(_WORD.findall(text)))
    return _in_order(found, shown) if found else strip_tags(page)


def _extracted(tree: HtmlElement) -> str:
    import trafilatura

    found: str | None = trafilatura.extract(
        tree, favor_precision=True, include_comments=False, include_tables=True, deduplicate=False
    )
    return found or ""


def _in_order(article: str, shown: str) -> str:
    """The lines of an article as the page has them: to a short one trafilatura adds paragraphs from around it, behind
    all others. Lines that the page has not, or more than once, leave the order as it is."""
    lines = [line for line in article.split("\n") if line.strip()]
    if len(lines) > _MAX_ORDERED_LINES:
        return article
    page = _BLANKS.sub("", shown)
    plain = [_BLANKS.sub("", line.removeprefix("- ")) for line in lines]
    places = [page.find(line) for line in plain]
    if places == sorted(places) or any(page.count(line) != 1 for line in plain):
        return article
    return "\n".join(line for _, line in sorted(zip(places, lines, strict=True)))


def _write_formulas(tree: HtmlElement) -> None:
    """Puts formulas in their places as TeX, or as the signs that they show: trafilatura leaves out those without TeX,
    and those that stand hidden next to their picture, as in Wikipedia."""
    for formula in list(tree.iter("math")):
        stated = formula.xpath("string(.//annotation[@encoding='application/x-tex'])") or formula.get("alttext", "")
        tex = _DISPLAYED.sub(r"\1", stated.strip())
        shown = "".join("".join(formula.itertext()).split())
        outer, said = formula, formula.text_content().strip()
        while (around := outer.getparent()) is not None and around.tag == "span":
            if around.text_content().strip() != said:
                break
            outer = around
        outer.tail = (rf"\({tex}\)" if tex else shown) + (outer.tail or "")
        outer.drop_tree()


def _unname_words(tree: HtmlElement) -> None:
    """Takes the names of classes from the words of a sentence: trafilatura leaves out any span whose class names a
    menu, a button or an author, which is how DocBook and Sphinx mark words of their sentences. A paragraph of which
    spans are the greater part, such as a list of tags, keeps them."""
    for paragraph in tree.iter("p"):
        spans = [span for span in paragraph.iter("span") if span.keys() and not _HIDDEN.search(span.get("class", ""))]
        if not spans:
            continue
        num_marked = len(_WORD.findall(" ".join(paragraph.xpath(".//text()[ancestor::span]"))))
        num_own = len(_WORD.findall(" ".join(paragraph.xpath(".//text()[not(ancestor::span)]"))))
        if 2 * num_own >= num_marked:
            for span in spans:
                span.attrib.pop("class", None)
                span.attrib.pop("id", None)


def _name_paragraphs(tree: HtmlElement) -> None:
    """Makes paragraphs of the divs and sections without a name that stand between paragraphs and hold a sentence: where
    a page has some paragraphs, trafilatura passes over the text of others. Captions, boxes and teasers have names, or
    are links."""
    holders = {one.getparent() for one in tree.iter("p") if _num_words(one) >= _SENTENCE_WORDS}
    for div in list(tree.iter(*_BOXES)) if holders else ():
        if any(isinstance(child.tag, str) and child.tag not in _INLINE for child in div):
            continue
        outer, is_named = div, _is_named(div)
        while (around := outer.getparent()) is not None and around.tag in _BOXES and len(around) == 1:
            outer, is_named = around, is_named or _is_named(around)
        num_linked = sum(_num_words(link) for link in div.iter("a"))
        if around in holders and not is_named and _num_words(div) >= max(_SENTENCE_WORDS, 2 * num_linked):
            div.tag = "p"


def _with_article(tree: HtmlElement) -> HtmlElement | None:
    """A copy of the page in which what holds its sentences is an article; None where the page has one by its names, or
    no sentences. Of a page without, as those written by hand and by Doxygen, trafilatura takes paragraphs, tables and
    code alone, and leaves out headings and lists."""
    from trafilatura.xpaths import BODY_XPATH

    copied = copy.deepcopy(tree)
    for anchor in [one for one in copied.iter("a") if not one.get("href")]:  # a heading with one would be a link
        anchor.drop_tag()
    held: Counter[HtmlElement] = Counter()
    for paragraph in copied.iter("p"):
        if (num := _num_words(paragraph)) >= _SENTENCE_WORDS:
            held.update(dict.fromkeys(paragraph.iterancestors(), num))
    known = [found[0] for find in BODY_XPATH if (found := find(copied))]  # menus among them, by their names
    if not held or any(held[one] for one in known):
        return None
    most = held[copied.getroottree().getroot()] * _MOST_SENTENCES
    holder = max((one for one in held if held[one] >= most), key=lambda one: sum(1 for _ in one.iterancestors()))
    article = copied.makeelement("article")
    article.text, holder.text = holder.text, None
    article.extend(list(holder))
    holder.append(article)
    return copied


def _is_named(element: HtmlElement) -> bool:
    return any(element.get(name) for name in ("class", "id", "role"))


def _num_words(element: HtmlElement) -> int:
    return len(_WORD.findall(element.text_content()))


def strip_tags(page: str) -> str:
    """All visible text of the page, one line per block element."""
    if page.count("<") > page.count(">") + _MAX_LEFT_OPEN:
        page = _LEFT_OPEN.sub("&lt;", page)
    stripper = _Stripper()
    stripper.feed(page)
    stripper.close()
    return _LINES.sub("\n", _SPACES.sub(" ", "".join(stripper.parts))).strip()


class _Stripper(HTMLParser):
    """Collects text outside of elements that nobody reads."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._skipped: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "body":
            self._skipped.clear()  # a head that is never closed must not swallow the page
        if tag in _SKIPPED:
            self._skipped.append(tag)
        if tag in _BREAKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._skipped:
            del self._skipped[self._skipped.index(tag) :]
        if tag in _BREAKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.parts.append(data.replace("\n", " "))
