"""Where sentences end in the words and lines of a recording, in scripts of their own signs."""

from __future__ import annotations

import pytest

from mmlake.preprocess.transcripts import sentence_ends
from mmlake.preprocess.transcripts.utterances import CLAUSE, SENTENCE, of_cues, of_words

_SECOND_US = 1_000_000
_SIGNS = "۔ ። ។ ॥ । ။ ། ؟ . ! ? … 。 ！ ？ ｡".split()


@pytest.mark.parametrize("sign", _SIGNS)
def test_a_line_that_ends_a_sentence_is_known_in_every_script(sign: str) -> None:
    """Urdu, Amharic, Khmer, Burmese and Tibetan had no ends, so that films were cut within their sentences."""
    cues = [{"text": f"ab cd{sign}", "start_s": 0.0, "end_s": 1.0}, {"text": "ef", "start_s": 1.0, "end_s": 2.0}]
    assert of_cues(cues, duration_us=2 * _SECOND_US).ends_W.tolist() == [SENTENCE, 0]


@pytest.mark.parametrize(("sign", "kind"), [("۔", SENTENCE), ("።", SENTENCE), ("፣", CLAUSE), ("،", CLAUSE)])
def test_a_word_before_a_sign_ends_what_the_sign_ends(sign: str, kind: int) -> None:
    words = [{"word": word, "start_s": at, "end_s": at + 0.5} for at, word in enumerate(("one", "two", "three"))]
    found = of_words(words, f"one two{sign} three", duration_us=3 * _SECOND_US)
    assert found.ends_W.tolist() == [0, kind, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("これは文です．次の文です．", ["これは文です．", "次の文です．"]),
        ("値は３．１４です．次の文．", ["値は３．１４です．", "次の文．"]),
        ("第１．はじめに", []),
        ("Ｊ．Ｓ．バッハ", []),
        ("はい!そうです。", ["はい!", "そうです。"]),
        ("本当?「うん」と言った。", ["本当?", "「うん」と言った。"]),
        ("Yahoo!ニュースを見た。", ["Yahoo!ニュースを見た。"]),
        ("https://example.com/a?b=1を開く。", ["https://example.com/a?b=1を開く。"]),
        ("这是真的吗?我不信!", ["这是真的吗?", "我不信!"]),
        ("値は3.14です。", ["値は3.14です。"]),
    ],
)
def test_sentences_without_spaces_between_them_end_at_narrow_and_wide_signs(text: str, expected: list[str]) -> None:
    """Japanese texts with the wide point, as of sciences, had no sentences, those with narrow signs few."""
    places = [0, *(end for _, end, kind in sentence_ends.marks(text) if kind == SENTENCE)]
    assert [text[start:end] for start, end in zip(places, places[1:], strict=False)] == expected


def test_a_line_may_end_with_the_wide_point() -> None:
    assert sentence_ends.of_lines(["これは文です．", "値は３．", "次の文"]) == [SENTENCE, 0, 0]
