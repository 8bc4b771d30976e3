"""Parts of a page's article that trafilatura would leave out or jumble, rewritten in place as what it keeps.

A parsed page comes in and is changed. Whether a page has an article at all is decided in `markup`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_LETTERS = re.compile(r"[^\W\d_]+")
_BLANKS = re.compile(r"\s+")
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_CODE = ("code", "tt", "kbd", "samp", "var")
_MARKS = frozenset((*_CODE, "a", "b", "em", "i", "span", "strong", "sub", "sup", "u", "q", "cite", "abbr", "small"))
_HOLDERS = ("div", "section", "center", "article", "main", "blockquote")
_INLINE = frozenset(
    (*_MARKS, "br", "font", "big", "strike", "s", "del", "ins", "mark", "dfn", "time", "img", "wbr", "nobr")
)
_PARTED = ("li", "dt", "dd", "blockquote", "figcaption", *sorted(_HEADINGS))  # whose boxes trafilatura runs together
_BOXES = ("div", "section", "article", "center", "address", "header", "footer", "figure", "blockquote")
_LINE_NUMBERS = frozenset(("lineno", "linenos"))  # Pygments, which Sphinx and MkDocs write by
_NUMBERS = re.compile(r"[\s\d]*")
_MIN_NAMED = 2  # sections that keep their names anyway: one alone may be the article around a box "Related posts"
_EMBEDDED = re.compile(r"(?:\A|\s)embed(?:ded)?(?:\s|\Z)")
_OTHER_SITES = ("iframe", "object", "embed", "video", "audio", "script", "blockquote")  # how players and posts come
_NOTE = re.compile(r"(?:\A|\s)(?:admonition|note|tip|hint|important|warning|caution|danger|footnote)(?:\s|\Z)")
_MIN_SENTENCE_WORDS = 8  # as in `markup`; a shorter caption names a photographer or an agency


def keep_parts(tree: HtmlElement) -> None:
    """Rewrites code, listings, captions, notes, boxes and sections of a page so that its extracted text has them in
    order, and leaves out what it hides."""
    _drop_hidden(tree)
    _join_code(tree)
    _unlink_code(tree)
    _write_listings(tree)
    _drop_line_numbers(tree)
    _join_listings(tree)
    _part_boxes(tree)
    _write_captions(tree)
    _write_notes(tree)
    _unname_sections(tree)
    _unname_embedded(tree)


def _drop_hidden(tree: HtmlElement) -> None:
    """Leaves out what the page hides by the attribute for it (HTML, section 6.1); what may be searched for stays."""
    for part in tree.xpath("//*[@hidden and not(self::html or self::body or @hidden = 'until-found')]"):
        if part.getparent() is not None:
            part.drop_tree()


def _part_boxes(tree: HtmlElement) -> None:
    """Puts each box within an item, a quotation or a heading on a line of its own: of `<li><div>one</div><div>two
    </div></li>` trafilatura makes the word `onetwo`. Boxes that hold no others become words of the line."""
    boxes = [box for box in tree.iter(*_BOXES) if next(box.iterancestors(*_PARTED), None) is not None]
    for box in reversed(boxes):  # the inner ones first
        is_behind = box.getprevious() is not None or (box.getparent().text or "").strip()
        if is_behind and box.tag == "blockquote":  # trafilatura keeps it, and cuts white space before them
            box.insert(0, _line_end(box, box.text))
            box.text = None
        elif is_behind:
            box.addprevious(_line_end(box))
        if (box.tail or "").strip() or _is_inline(box.getnext()):
            tail, box.tail = box.tail, None
            box.addnext(_line_end(box, tail))
        if box.tag not in ("blockquote", "figure") and all(
            _is_inline(part) for part in box if isinstance(part.tag, str)
        ):
            box.tag = "span"


def _line_end(box: HtmlElement, tail: str | None = None) -> HtmlElement:
    end = box.makeelement("br")
    end.tail = "\n" + (tail or "")  # for who reads characters alone
    return end


def _is_inline(part: HtmlElement | None) -> bool:
    return part is not None and part.tag in _INLINE


def _join_code(tree: HtmlElement) -> None:
    """Code in a sentence becomes one run of characters: of code with marked words in it, as DocBook writes what is to
    be replaced, trafilatura puts the marked words behind the next comma."""
    for code in list(tree.iter(*_CODE)):
        if next(code.iterancestors("pre"), None) is not None:
            continue
        if any(not isinstance(part.tag, str) or part.tag not in _MARKS for part in code.iterdescendants()):
            continue
        text = _BLANKS.sub(" ", code.text_content())
        code[:] = []
        code.text = text


def _unlink_code(tree: HtmlElement) -> None:
    """Makes words of the names in a sentence that lead to their reference, where the sentence has as many words of its
    own: trafilatura takes what is mostly links for a menu."""
    for sentence in tree.iter("p", "li", "dd"):
        links = [link for link in sentence.iter("a") if not (link.text or "").strip() and _is_code(link)]
        if not links:
            continue
        num_linked = sum(_num_words(link) for link in sentence.iter("a"))
        if _num_words(sentence) >= max(_MIN_SENTENCE_WORDS, 2 * num_linked):
            for link in links:
                link.tag = "span"
                link.attrib.clear()


def _is_code(link: HtmlElement) -> bool:
    return len(link) > 0 and all(part.tag in _CODE and not (part.tail or "").strip() for part in link)


def _write_listings(tree: HtmlElement) -> None:
    """Listings whose lines are divs, as Doxygen writes them, become preformatted text without numbers of lines."""
    for listing in list(tree.iter("div")):
        if "fragment" not in listing.get("class", "").split() or not len(listing):
            continue
        if any(line.tag != "div" or "line" not in line.get("class", "").split() for line in listing):
            continue
        lines = ["".join(line.xpath(".//text()[not(ancestor::*[@class='lineno'])]")).rstrip() for line in listing]
        tail = listing.tail
        listing.clear()
        listing.tag, listing.text, listing.tail = "pre", "\n".join(lines), tail


def _drop_line_numbers(tree: HtmlElement) -> None:
    """Leaves out the numbers of a listing's lines as Pygments writes them: spans within it, or a cell before it, whose
    table then is the listing."""
    for number in tree.xpath("//pre//span[@class]"):
        if not _LINE_NUMBERS.isdisjoint(number.get("class").split()):
            number.drop_tree()
    for table in list(tree.iter("table")):
        listings = list(table.iter("pre"))
        code = [one for one in listings if not _NUMBERS.fullmatch(one.text_content())]
        is_whole = _BLANKS.sub("", table.text_content()) == _BLANKS.sub("", "".join(map(_text, listings)))
        if len(listings) == 2 and len(code) == 1 and is_whole and table.getparent() is not None:
            code[0].tail = None
            table.addprevious(code[0])
            table.drop_tree()


def _text(element: HtmlElement) -> str:
    return str(element.text_content())


def _join_listings(tree: HtmlElement) -> None:
    """Listings with marked words, as Pygments writes them, become plain ones within an item, a definition or a
    quotation: trafilatura runs the lines of the marked ones together."""
    for listing in list(tree.iter("pre")):
        parts = [part for part in listing.iterdescendants() if isinstance(part.tag, str)]
        are_words = all(part.tag in _INLINE and part.tag not in ("a", "img") for part in parts)
        if not parts or not are_words or next(listing.iterancestors(*_PARTED), None) is None:
            continue
        for part in parts:
            if part.tag == "br":
                part.tail = "\n" + (part.tail or "")
        text = listing.text_content()
        code = next((part for part in parts if part.tag == "code"), None)
        listing[:] = []
        listing.text = text
        if code is not None:  # which says that it is code
            code[:] = []
            code.text, code.tail, listing.text = text, None, None
            listing.append(code)


def _write_captions(tree: HtmlElement) -> None:
    """Captions of figures that are sentences become paragraphs behind their figures, which are left out."""
    for caption in list(tree.iter("figcaption")):
        figure = next(caption.iterancestors("figure"), None)
        for block in [part for part in caption.iterdescendants() if part.tag == "br" or part.tag not in _INLINE]:
            block.tail = " " + (block.tail or "")
            if isinstance(block.tag, str):
                block.text = " " + (block.text or "")
        text = _BLANKS.sub(" ", caption.text_content()).strip()
        num_linked = sum(_num_words(link) for link in caption.iter("a"))
        num_words = _num_words(caption)
        if figure is None or figure.getparent() is None or num_words < max(_MIN_SENTENCE_WORDS, 2 * num_linked):
            continue
        paragraph = tree.makeelement("p")
        paragraph.text = text
        figure.addnext(paragraph)  # the text behind the figure is then behind the paragraph


def _write_notes(tree: HtmlElement) -> None:
    """Notes and warnings in the course of a text, as docutils writes them, are boxes; other asides stay aside."""
    for aside in list(tree.iter("aside")):
        if _NOTE.search(aside.get("class", "")):
            aside.tag = "div"


def _unname_sections(tree: HtmlElement) -> None:
    """Takes the names from sections that are named after their headings where two others are so too: trafilatura leaves
    out each whose name holds `related`, `nav`, `menu`, `share`, `author` or `button`, such as
    `handling-security-related-bugs`. Sections that hold mostly links stay named."""
    named = [one for one in tree.iter("section", "div") if one.get("id") and _is_named_after_heading(one)]
    if len(named) <= _MIN_NAMED:
        return
    try:
        from trafilatura.xpaths import OVERALL_DISCARD_XPATH
    except ImportError:  # of a release that keeps them elsewhere: nothing of it promises where
        return
    left_out = {one for find in OVERALL_DISCARD_XPATH for one in find(tree)}
    if sum(one not in left_out for one in named) < _MIN_NAMED:
        return
    for section in named:
        num_linked = sum(_num_words(link) for link in section.iter("a"))
        if section in left_out and _num_words(section) >= 2 * num_linked:
            section.attrib.pop("id")


def _is_named_after_heading(section: HtmlElement) -> bool:
    """Whether a section begins with a heading whose letters are those of its name, as far as the name goes."""
    if (section.text or "").strip():
        return False
    for child in section:
        if child.tag in _HEADINGS:
            heading = "".join(_LETTERS.findall(child.text_content())).lower()
            name = "".join(_LETTERS.findall(section.get("id"))).lower()
            return bool(name) and heading.startswith(name)
        if child.tag not in ("a", "span") or child.text_content().strip() or (child.tail or "").strip():
            return False  # what may stand before a heading are empty anchors
    return False


def _unname_embedded(tree: HtmlElement) -> None:
    """Takes the class `embedded` from boxes of text: trafilatura takes it for players and posts of other sites, and
    manuals for paragraphs that several of their pages share."""
    for box in list(tree.iter("div", "section", "p", "span")):
        if _EMBEDDED.search(box.get("class", "")) and next(box.iterdescendants(*_OTHER_SITES), None) is None:
            box.attrib.pop("class")


def _num_words(element: HtmlElement) -> int:
    return len(_LETTERS.findall(element.text_content()))


def wrap_loose_sentences(tree: HtmlElement) -> None:
    """Makes paragraphs of the sentences that lie between the blocks of a body or of a box without a name, as browsers
    show them (CSS 2.1, anonymous block boxes), where the page has paragraphs: of such text trafilatura keeps what
    stands behind one of them. Of a page without any it takes all text, which one paragraph would end."""
    if all(_num_words(one) < _MIN_SENTENCE_WORDS for one in tree.iter("p")):
        return
    for holder in list(tree.iter("body", *_HOLDERS)):
        is_named = holder.tag != "body" and any(holder.get(name) for name in ("class", "id", "role"))
        if not is_named and any(isinstance(child.tag, str) and child.tag not in _INLINE for child in holder):
            _wrap_runs(holder)


def _wrap_runs(holder: HtmlElement) -> None:
    run: list[HtmlElement] = []
    before: HtmlElement | None = None  # the block above the run; its tail is where the run begins
    for child in [*holder, None]:
        if child is not None and isinstance(child.tag, str) and child.tag in _INLINE:
            run.append(child)
            continue
        text = (holder.text if before is None else before.tail) or ""
        num_linked = sum(_num_words(link) for part in run for link in part.iter("a"))
        num_words = len(_LETTERS.findall(text)) + sum(
            _num_words(part) + len(_LETTERS.findall(part.tail or "")) for part in run
        )
        if num_words >= max(_MIN_SENTENCE_WORDS, 2 * num_linked):
            paragraph = holder.makeelement("p")
            paragraph.text = text
            holder.insert(0 if before is None else holder.index(before) + 1, paragraph)
            if before is None:
                holder.text = None
            else:
                before.tail, paragraph.tail = None, None
            paragraph.extend(run)
        before, run = child, []
