"""Text: rules on the measures of `text`. Sources as there; each bound that is not its source's says why."""

from __future__ import annotations

from mmlake.quality.rule import Rule, unmeasured

_DOCUMENT = ("document",)
_WRITTEN = ("document", "caption", "transcript")
TEXT_RULES = (
    unmeasured("text"),
    Rule(
        name="text_empty",
        error_code=4101,
        severity="P0",
        measure="num_words",
        unit="words",
        low=1,
        roles=_WRITTEN,
        what="The text holds no word.",
        fix="Check the extraction at the source, or drop the record.",
    ),
    Rule(
        name="text_too_short",
        error_code=4102,
        severity="P1",
        measure="num_words",
        unit="words",
        low=11,
        roles=_DOCUMENT,
        what="A document of ten words or fewer teaches nothing.",
        fix="Attach it as a caption to what it describes, or drop it.",
    ),
    Rule(
        name="boilerplate",
        error_code=4103,
        severity="P1",
        measure="boilerplate_fraction",
        high=0.5,
        roles=_DOCUMENT,
        what="Most of the text is notices (cookies, terms, scripts, log-in) or filler Latin.",
        fix="Extract the main text at the source.",
    ),
    # Gopher (table A1): 0.30 of lines, 0.20 of characters in them. Here 0.3 of either: lines are compared without case
    # and signs, and sentences stand in for them, so that more are equal. Of 2,151 documents of packages 151 have more;
    # of 54 with 0.2 to 0.3 of the characters 17 break `repeated_phrases`, 30 of the others are change logs, 3 copyright
    # notices: names and dates above each entry are no defect (2026-12-01)
    Rule(
        name="repeated_lines",
        error_code=4104,
        severity="P1",
        measure="repeated_line_fraction",
        high=0.3,
        roles=_DOCUMENT,
        what="Lines or sentences repeat earlier ones of the same text.",
        fix="Remove menus and headers that each page repeats.",
    ),
    # Gopher: 0.8 of words hold a letter
    Rule(
        name="not_prose",
        error_code=4105,
        severity="P1",
        measure="word_with_letter_fraction",
        low=0.8,
        roles=_DOCUMENT,
        what="Too many words are numbers or symbols: a table, a log or code.",
        fix="Send tables and code to a corpus of their own.",
    ),
    Rule(
        name="garbled",
        error_code=4106,
        severity="P1",
        measure="garbled_fraction",
        high=0.005,
        roles=_WRITTEN,
        what="Replacement or control characters, or an encoding that was read as another.",
        fix="Decode the source with its true encoding.",
    ),
    # Gopher: mean word length 3 to 10
    Rule(
        name="word_length",
        error_code=4107,
        severity="P2",
        measure="mean_word_length_chars",
        unit="chars",
        low=3,
        high=10,
        roles=_DOCUMENT,
        what="Words are shorter or longer than in prose.",
        fix="Search for lost spaces, spaced-out letters or identifiers.",
    ),
    # Gopher: 0.10 of characters in repeated 10-grams; 0.3 because a quoted paragraph is no defect
    Rule(
        name="repeated_phrases",
        error_code=4108,
        severity="P1",
        measure="repeated_ngram_fraction",
        high=0.3,
        roles=_DOCUMENT,
        what="Runs of ten words repeat within the text.",
        fix="Search for generated text or a page that was concatenated with itself.",
    ),
    # Gopher: 0.18 of the characters in the most frequent phrase of three words
    Rule(
        name="one_phrase",
        error_code=4111,
        severity="P2",
        measure="top_phrase_fraction",
        high=0.18,
        roles=_DOCUMENT,
        what="One phrase of three words is nearly a fifth of the text.",
        fix="Search for a page that was written for search engines, a list with one beginning, or generated text.",
    ),
    # of 1,925 texts of 17 packages five had more, a patch of HTML and programs in tags; of 489 pages of GNOME's help
    # as the XML that they are written in, 460; of 300 manual pages in troff 294, of 1,308 documents, sources and
    # Markdown files none as one (2026-11-30)
    Rule(
        name="markup",
        error_code=4109,
        severity="P1",
        measure="markup_fraction",
        high=0.3,
        roles=_DOCUMENT,
        what="Three of ten characters or more are tags, entities or escapes, or lie in lines with requests of troff: "
        "XML, HTML or a manual page as it is stored, or a list of addresses.",
        fix="Extract its text before it lands; of a page, name it .html; of a manual page, save what `man` shows.",
    ),
    # Gopher: 0.1 hash signs or ellipses a word
    Rule(
        name="symbols",
        error_code=4112,
        severity="P2",
        measure="symbol_word_ratio",
        high=0.1,
        roles=_DOCUMENT,
        what="Hash signs or ellipses stand at every tenth word: tags of posts, or sentences that were cut short.",
        fix="Take the whole texts at the source, without their tags.",
    ),
    # Gopher: nine of ten lines
    Rule(
        name="bullets",
        error_code=4113,
        severity="P2",
        measure="bulleted_line_fraction",
        high=0.9,
        roles=_DOCUMENT,
        what="Nearly all lines are items of a list.",
        fix="Search for menus and lists of links that were taken for the text.",
    ),
    # Gopher: three of ten lines
    Rule(
        name="elided_lines",
        error_code=4114,
        severity="P2",
        measure="elided_line_fraction",
        high=0.3,
        roles=_DOCUMENT,
        what="Three of ten lines or more end in an ellipsis: beginnings of other texts.",
        fix="Take the texts that the page announces in place of it.",
    ),
)
