"""Error rates count words that are said, over all texts together."""

from __future__ import annotations

import pytest

from mmlake.captions.error_rates import error_rates, spoken
from mmlake.errors import SettingsError
from mmlake.word_errors import read_gold
from tests import make


@pytest.mark.parametrize(
    "text, said",
    [
        ("Hello, World!", "hello world"),
        ("don\u2019t - 'quote' well-known", "don't quote well-known"),
        ("  a\n\tb_c ", "a b c"),
        ("STRASSE straße", "strasse strasse"),
        ("¿Qué? … ", "qué"),
        ("ＡＢ", "ab"),
    ],
)
def test_what_is_compared_is_what_is_said(text: str, said: str) -> None:
    assert spoken(text) == said


def test_the_rates_are_those_of_all_texts_together() -> None:
    """Two of four words and none of one: 2 of 5, not the mean of 0.5 and 0."""
    found = error_rates(["the cat sat down", "yes"], ["The cat set", "yes."])
    assert (found.num_texts, found.num_words, found.substitutions, found.deletions, found.insertions) == (2, 5, 1, 1, 0)
    assert found.wer == pytest.approx(2 / 5)
    assert found.cer == pytest.approx((1 + 5) / (16 + 3))  # an e for an a, and " down"


def test_words_where_nothing_was_said_are_insertions() -> None:
    found = error_rates(["one two", "..."], ["one two", "thank you"])
    assert (found.insertions, found.wer) == (2, 1.0)
    assert error_rates(["", "!"], ["a b", ""]).wer is None
    assert error_rates(["", "!"], ["a b", ""]).insertions == 2


def test_a_missing_transcript_is_all_deletions() -> None:
    assert error_rates(["one two"], [""]).wer == 1.0


def test_gold_is_read_from_texts_subtitles_and_lists_of_utterances(tmp_path) -> None:
    files = {
        "a.txt": b"one two\n",
        "deep/b.srt": b"1\n00:00:01,000 --> 00:00:02,000\nthree\n\n2\n00:00:03,000 --> 00:00:04,000\nfour\n",
        "84-121123.trans.txt": b"84-121123-0000 GO ON\n84-121123-0001 YES\n",
        "c.flac": b"",
    }
    assert read_gold(make.land(tmp_path, files)) == {
        "a": "one two",
        "b": "three four",
        "84-121123-0000": "GO ON",
        "84-121123-0001": "YES",
    }


@pytest.mark.parametrize("between", [" ", "\t", "  "])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_names_of_a_list_end_at_a_space_or_a_tab(tmp_path, between: str, mark: str) -> None:
    """With a tab the name held the first word, behind a byte order mark the first name did: no item had either."""
    table = f"{mark}1-2-0000{between}GO ON\n\n1-2-0001{between}YES\n1-2-0002\n"
    found = read_gold(make.land(tmp_path, {"1-2.trans.txt": table.encode()}))
    assert found == {"1-2-0000": "GO ON", "1-2-0001": "YES", "1-2-0002": ""}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1251"])
def test_gold_is_read_in_the_encodings_of_transcripts(tmp_path, encoding: str) -> None:
    """Each letter of another one than UTF-8 was an error of the recognizer."""
    said = "Мы ехали домой поздно вечером, и дождь не переставал до самого утра."
    assert read_gold(make.land(tmp_path, {"a.txt": said.encode(encoding)})) == {"a": said}


def test_gold_that_is_no_text_is_refused(tmp_path) -> None:
    with pytest.raises(SettingsError, match=r"a\.txt is no text"):
        read_gold(make.land(tmp_path, {"a.txt": bytes(range(256)) * 4}))


def test_two_gold_texts_of_one_name_are_refused(tmp_path) -> None:
    with pytest.raises(SettingsError, match="two gold texts for 'a'"):
        read_gold(make.land(tmp_path, {"x/a.txt": b"1", "y/a.txt": b"2"}))


def test_a_folder_without_gold_is_refused(tmp_path) -> None:
    with pytest.raises(SettingsError, match="no gold texts"):
        read_gold(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("काम मई में शुरू होगा।", "काम मई में शुरू होगा"),  # vowels that are marks are letters
        ("בְּרֵאשִׁית, בָּרָא", "בראשית ברא"),
        ("الْحَمْدُ للــه", "الحمد لله"),
        ("می\u200cخواهم", "می خواهم"),
        ("ශ්\u200dරී", "ශ්රී"),
    ],
)
def test_marks_of_letters_are_said_and_points_are_not(text: str, said: str) -> None:
    assert spoken(text) == said


def test_vowels_of_hindi_count_as_errors() -> None:
    """Each vowel broke its word, and was left out: five words were eight, half of them right."""
    rates = error_rates(["काम मई में शुरू होगा"], ["कम मई मे शुर हगा"])
    assert (rates.num_words, rates.substitutions, rates.wer) == (5, 4, 0.8)
