"""Where sentences end in the words and lines of a recording, in scripts of their own signs."""

from __future__ import annotations

import pytest

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
