"""Text reaches one spelling whatever it was encoded as, and damage stays visible."""

from __future__ import annotations

import unicodedata

import pytest

from mmlake.errors import UnreadableItem
from mmlake.letters import count_words
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.markup import strip_tags
from mmlake.preprocess.text import text_track
from mmlake.preprocess.transcripts.subtitles import parse_cues

SETTINGS = PreprocessSettings()
PARAGRAPH = (
    "Der Bäcker an der Straße öffnet früh, und die Käufer drängen sich schon vor der Tür. Später fährt er müde nach "
    "Hause. "
)
ARTICLE = "The river rose by two metres overnight and the lower road was closed to all traffic. " * 12
PAGE = (
    "<!doctype html><html><head><title>x</title><script>var cookie=1;</script></head><body><nav><a "
    "href=/>Home</a><a href=/b>Sports</a></nav>"
    f"<article><h1>Flood</h1><p>{ARTICLE}</p></article><footer>All rights reserved</footer></body></html>"
)


def read(data: bytes, content_type: str | None = "text/plain") -> str:
    return str(text_track(data, content_type, settings=SETTINGS)["text"])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_each_encoding_gives_the_same_text(encoding):
    assert read((PARAGRAPH * 4).encode(encoding)) == (PARAGRAPH * 4).strip()


def test_japanese_escapes_are_decoded():
    assert read("日本語の文章です。".encode("iso2022_jp")) == "日本語の文章です。"


def test_a_declared_charset_is_believed_when_every_byte_fits_it():
    page = f'<html><head><meta charset="iso-8859-2"></head><body><p>{"Zażółć gęślą jaźń. " * 3}</p></body></html>'
    assert "Zażółć gęślą jaźń." in read(page.encode("iso-8859-2"), "text/html")


def test_damaged_utf8_keeps_the_damage_visible():
    text = read(("naïve café " * 30).encode().replace(b"\xc3\xa9", b"\xc3", 3))
    assert text.count("\ufffd") == 3
    assert "naïve" in text


def test_random_bytes_are_not_text():
    with pytest.raises(UnreadableItem) as caught:
        read(bytes(range(256)) * 8)
    assert caught.value.code == 1004


def test_newlines_become_one_kind_and_nfc_holds():
    text = read("a\u0301\r\nb\rc\u2028d".encode())
    assert text == "á\nb\nc\nd"
    assert unicodedata.is_normalized("NFC", text)


def test_one_stray_control_character_is_dropped():
    assert "\ufffd" not in read(("word " * 500 + "\x07").encode())


def test_many_control_characters_stay_visible():
    assert read(b"wo\x01rd " * 100).count("\ufffd") == 100


def test_entities_of_plain_text_are_resolved_but_tags_are_not_made():
    assert read(b"Tom &amp; Jerry &lt;b&gt;") == "Tom & Jerry &lt;b&gt;"


def test_a_page_gives_its_article_alone():
    text = read(PAGE.encode(), "text/html")
    assert "The river rose" in text
    assert "cookie" not in text
    assert "Sports" not in text


def test_a_page_keeps_the_words_of_a_sentence_that_it_marks():
    """Requirement: a class on words of a sentence, as DocBook and Sphinx write it, takes no word from the text."""
    marked = '<p>Choose <span class="guimenu">Filters</span> → <span class="guimenuitem">Lava</span> to begin.</p>'
    text = read(PAGE.replace("</article>", marked + "</article>").encode(), "text/html")
    assert "Choose Filters → Lava to begin." in text


def test_a_list_of_tags_and_hidden_words_are_no_words_of_a_page():
    tags = '<p>Tags: <span class="tags">rivers floods roads bridges</span></p>'
    hidden = '<p>The bridge is open <span class="note hidden">invisible</span> again since noon.</p>'
    text = read(PAGE.replace("</article>", tags + hidden + "</article>").encode(), "text/html")
    assert "The bridge is open" in text
    assert "bridges" not in text
    assert "invisible" not in text


def test_a_page_is_known_by_its_bytes_too():
    assert "<p>" not in read(PAGE.encode(), None)


def test_a_page_without_article_gives_its_visible_words():
    assert (
        read(b"<html><head><style>p{}</style></head><body><p>Short note</p></body></html>", "text/html") == "Short note"
    )


def test_stripping_breaks_lines_at_blocks_and_survives_an_open_head():
    assert (
        strip_tags("<html><head><body><div>one</div><p>two &amp; three<script>x()</script></p>") == "one\ntwo & three"
    )


def test_subtitles_lose_their_times():
    assert (
        read(b"1\n00:00:01,000 --> 00:00:02,000\nHello there\n\n2\n00:00:02,500 --> 00:00:03,000\nagain\n")
        == "Hello there\nagain"
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("one", 1), ("it's 3,000 e-mails - really", 4), ("…!?", 0), ("日本語文", 2), ("Straße öffnet", 2)],
)
def test_words_are_counted_as_a_reader_would(text, count):
    assert count_words(text) == count


def test_srt_cues_keep_their_times_and_lose_their_markup():
    cues = parse_cues(
        "\ufeff1\r\n00:01:01,500 --> 00:01:02,250\r\n<i>Hello</i>\r\nthere\r\n\r\n2\r\n00:00:01,000 --> "
        "00:00:02,000\r\nFirst\r\n"
    )
    assert [(cue.text, cue.start_s, cue.end_s) for cue in cues] == [("First", 1.0, 2.0), ("Hello there", 61.5, 62.25)]


def test_vtt_headers_notes_and_settings_are_no_words():
    cues = parse_cues(
        "WEBVTT\n\nNOTE a remark\n\nid-7\n00:01.000 --> 00:02.000 align:start\n<v Anna>Good morning\n\n00:03.000 "
        "--> 00:02.000\nbackwards\n"
    )
    assert [(cue.text, cue.start_s, cue.end_s) for cue in cues if cue.is_shown] == [("Good morning", 1.0, 2.0)]


@pytest.mark.parametrize("opened", ["<a ", '<a href="', "<!-- ", "<p x='"])
def test_tags_that_nobody_closes_take_no_more_than_their_number(opened):
    # a minute and more where each of them is sought to the end of the page
    assert strip_tags(f"<p>words</p>{opened * 60_000}").startswith("words")


@pytest.mark.parametrize("content_type", ["text/html", "text/plain", None])
def test_a_page_that_shows_nothing_has_no_text_whatever_its_type_says(content_type):
    """Recognised by its bytes; its markup is no text."""
    page = (
        b"<!DOCTYPE html><html><head><script>var words = 1;</script></head><body><script>run()</script></body></html>"
    )
    assert text_track(page, content_type, settings=PreprocessSettings()) == {"text": "", "num_chars": 0, "num_words": 0}


UNSEEN = "Nobody who reads this page sees this sentence, however long one waits for it to appear."


@pytest.mark.parametrize(
    "element",
    [
        f"<template><p>{UNSEEN}</p></template>",
        f"<video controls><source src='a.mp4'><p>{UNSEEN}</p></video>",
        f"<textarea>{UNSEEN}</textarea>",
        f"<iframe src='/b'>{UNSEEN}</iframe>",
        f"<datalist><option>{UNSEEN}</option></datalist>",
    ],
)
@pytest.mark.parametrize("words", [f"<article><h1>Flood</h1><p>{ARTICLE}</p></article>", "<div>Closed today.</div>"])
def test_what_a_page_does_not_show_is_no_text_of_it(element, words):
    """Templates stood in articles; what stands in place of films, and drafts of forms, in pages without one."""
    text = read(f"<!doctype html><html><body>{element}{words}{element}</body></html>".encode(), "text/html")
    assert UNSEEN not in text
    assert ("Closed today." in text) or (ARTICLE.strip() in text)


def test_paragraphs_around_a_short_article_stand_where_the_page_has_them():
    """They were behind the article, the introduction included."""
    page = (
        "<html><body><p>The ferry leaves at six.</p><div class='article-content'><p>It needs an hour.</p>"
        "<p>Nobody <b>swims</b>.</p></div><p>The pier is empty by seven.</p></body></html>"
    )
    assert read(page.encode(), "text/html").split("\n") == [
        "The ferry leaves at six.",
        "It needs an hour.",
        "Nobody swims.",
        "The pier is empty by seven.",
    ]


def test_a_line_that_the_page_has_twice_moves_no_other():
    """A table of contents has the headings of the article, and before it."""
    headings = "".join(f"<h2>Part {at}</h2><p>{ARTICLE} {at}</p>" for at in range(3))
    contents = "".join(f"<div>Part {at}</div>" for at in range(3))
    text = read(f"<html><body>{contents}<article>{headings}</article></body></html>".encode(), "text/html")
    lines = [line for line in text.split("\n") if line.startswith("Part")]
    assert [text.index(line) for line in lines] == sorted(text.index(line) for line in lines)
    assert text.index("closed to all traffic") < text.index("Part 1")


@pytest.mark.parametrize(
    "around",
    ["<div>{}</div>", "<div><div>{}</div></div>", "<section>{}</section>", "<center>{}</center>"],
    ids="bare nested section centred".split(),
)
def test_a_paragraph_that_is_a_div_stands_among_the_others(around):
    """Where a page had some paragraphs, the text of its divs was lost."""
    text = "In winter the storms throw waves over the outer wall of the harbour, and no <b>ferry</b> leaves."
    page = f"<html><body><article><p>{ARTICLE}</p>{around.format(text)}<p>{ARTICLE}</p></article></body></html>"
    assert read(page.encode(), "text/html").count("and no ferry leaves.") == 1


@pytest.mark.parametrize(
    "teaser",
    ['<div class="promo">{}</div>', '<div id="box"><div>{}</div></div>', '<div><a href="/b">{}</a></div>'],
    ids=["class", "id", "link"],
)
def test_a_box_and_a_teaser_between_paragraphs_are_no_paragraphs(teaser):
    text = "Sign up today and get all the news of the harbour by mail every single morning."
    page = f"<html><body><article><p>{ARTICLE}</p>{teaser.format(text)}<p>{ARTICLE}</p></article></body></html>"
    assert "Sign up today" not in read(page.encode(), "text/html")
