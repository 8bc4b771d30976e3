"""Each text rule with a case just inside and just outside of its range."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quality_media import measures_of, rules_broken, text_track

from mmlake.quality.text import _PHRASES, MEASURES
from mmlake.store import BlobStore

STORE = BlobStore("/nonexistent")  # text measures read no blob
PROSE = (
    "The council met on Tuesday to discuss the repair of the old bridge. Several residents asked how long the "
    "road would stay closed. "
    "An engineer explained that the northern pillar had lost its footing during the spring flood. Work begins "
    "in May and should take about eleven weeks. "
    "Until then, buses go round by the mill. Shop owners fear for their summer trade, but the mayor promised "
    "signs and a ferry."
)


def broken(text: str, role: str = "document") -> list[str]:
    return rules_broken(text_track(text, role=role), STORE)


def measured(text: str, name: str) -> float | None:
    return measures_of(text_track(text), STORE)[name]


def test_prose_is_clean():
    assert broken(PROSE) == []


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", ["text_empty", "text_too_short"]),
        (" ".join(PROSE.split()[:10]), ["text_too_short"]),
        (" ".join(PROSE.split()[:11]), []),
    ],
)
def test_ten_words_are_too_short_and_eleven_are_not(text, rules):
    assert broken(text) == rules


@pytest.mark.parametrize("role", ["caption", "transcript"])
def test_captions_and_transcripts_may_be_short_but_not_empty(role):
    assert broken("A dog.", role) == []
    assert broken("", role) == ["text_empty"]


@pytest.mark.parametrize(
    "text",
    [
        "We use cookies to improve your experience on our site. By using this website you agree to our terms "
        "of service. "
        "Please enable JavaScript to continue. Read our privacy policy. All rights reserved.",
        "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore "
        "et dolore magna aliqua. "
        "Duis aute irure dolor in reprehenderit in voluptate velit.",
        "404 error: page not found. The page you requested has moved. "
        "Click here to go to the start page, or sign in to continue. Follow us on social media and subscribe "
        "to our newsletter today.",
    ],
)
def test_notices_are_boilerplate(text):
    assert "boilerplate" in broken(text)


def test_an_article_with_a_notice_below_is_no_boilerplate():
    assert broken(PROSE + " All rights reserved. Subscribe to our newsletter.") == []


def test_an_article_about_cookies_and_scripts_is_no_boilerplate():
    text = (
        "Regulators fined the company over how its pages handle cookies. The new law on privacy asks for clear words. "
        + PROSE
    )
    assert measured(text, "boilerplate_fraction") == 0


@given(st.from_regex(_PHRASES, fullmatch=True))
@settings(max_examples=400)
def test_no_notice_is_passed_over_by_what_it_would_have_a_part_of(phrase):
    words = f"Yesterday {phrase} at noon"
    assert _PHRASES.search(words) and measured(f"{words}. Nothing.", "boilerplate_fraction") > 0


def test_the_boilerplate_fraction_counts_words():
    assert measured("One two three four. All rights reserved now.", "boilerplate_fraction") == 0.5


LINES = [sentence.strip() for sentence in PROSE.split(".") if sentence.strip()]


@pytest.mark.parametrize(("repeats", "is_broken"), [(2, False), (3, True)])
def test_three_of_ten_lines_repeated_is_the_bound(repeats, is_broken):
    lines = [f"{LINES[0]} {index}" for index in [*range(10 - repeats), *[0] * repeats]]  # all of one length
    assert measured("\n".join(lines), "repeated_line_fraction") == pytest.approx(repeats / 10)
    assert ("repeated_lines" in broken("\n".join(lines))) == is_broken


def test_a_refrain_of_three_lines_is_not_measured():
    assert measured("Row the boat\nRow the boat\nMerrily down", "repeated_line_fraction") is None


def test_a_text_pasted_twice_repeats_its_phrases():
    assert "repeated_phrases" in broken(PROSE + "\n" + PROSE)


@pytest.mark.parametrize(("numbers", "is_broken"), [(4, False), (5, True)])
def test_more_than_a_fifth_of_words_without_letters_is_no_prose(numbers, is_broken):
    text = " ".join([*PROSE.split()[: 20 - numbers], *(str(1000 + index) for index in range(numbers))])
    assert ("not_prose" in broken(text)) == is_broken


def test_the_lines_of_a_table_are_no_words():
    rows = "\n".join(f"| {word} | {other} |" for word, other in zip(PROSE.split(), PROSE.split()[1:], strict=False))
    assert measured("| name | meaning |\n|---|:---:|\n" + rows, "word_with_letter_fraction") == 1
    assert measured("| 1 | 2 | three | ||| a|b", "word_with_letter_fraction") == 0.5


@pytest.mark.parametrize("separator", [",", ";"])
def test_each_cell_of_separated_values_is_words_of_its_own(separator):
    rows = ["zip,latitude,longitude,city", "00501,40.9,-72.6,Holtsville", "00544,40.9,-72.6,Holtsville"]
    table = "\n".join(rows).replace(",", separator)
    assert measured(table, "word_with_letter_fraction") == 6 / 12
    assert "not_prose" in broken("\n".join([table] * 20))


def test_commas_of_prose_part_no_words():
    # spaces follow some, lines next to each other have other numbers of them, and one alone parts nothing
    prose = "It cost 1,000,000, or so.\nThen, later, and last, 5,000.\nOne,1\nTwo,2"
    assert measured(prose, "word_with_letter_fraction") == 10 / 12


@pytest.mark.parametrize(("damaged", "is_broken"), [(1, False), (2, True)])
def test_half_a_percent_of_replacement_characters_is_the_bound(damaged, is_broken):
    text = (PROSE[: 399 - damaged] + "\ufffd" * damaged)[-399:]
    assert ("garbled" in broken(text)) == is_broken


def test_utf8_read_as_latin1_is_garbled():
    assert "garbled" in broken(
        "Die Käufer drängen sich vor der Tür des Bäckers, weil es früh süße Brötchen für alle gibt.".encode().decode(
            "latin-1"
        )
    )


@pytest.mark.parametrize(
    "text",
    [
        "São Paulo não é só uma cidade, é um mundo inteiro que nunca para de crescer e mudar.",
        "«Â peine arrivé, il repartit», dit-elle en souriant, et personne ne sut jamais vraiment pourquoi ce soir-là.",
    ],
)
def test_accents_alone_are_not_garbled(text):
    assert measured(text, "garbled_fraction") == 0


@pytest.mark.parametrize(
    ("word", "is_broken"), [("abc", False), ("ab", True), ("abcdefghi", False), ("abcdefghij", True)]
)
def test_mean_word_length_is_bounded_on_both_sides(word, is_broken):
    assert ("word_length" in broken(" ".join(f"{word}" for _ in range(15)))) == is_broken


@pytest.mark.parametrize(("num_letters", "is_broken"), [(701, False), (700, True), (300, True)])
def test_a_text_of_tags_is_markup(num_letters, is_broken):
    """XML that nobody extracted passed as prose. Three hundred characters of tags next to so many others."""
    tags = "<item>" * 50
    letters = ("the miller carried flour over the bridge in the evening and came home " * 20)[:num_letters]
    assert ("markup" in broken(tags + letters)) == is_broken


def test_scripts_without_spaces_have_no_word_length():
    assert measured("今日は天気がいいので、公園まで歩いて行きました。", "mean_word_length_chars") is None


@pytest.mark.parametrize(
    "text",
    [
        "\ud800".encode("utf-16", "surrogatepass").decode("utf-16", "replace"),
        "a" * 100_000,
        "\n" * 50,
        "#" * 500,
        "🙂" * 40,
        "%s{}\\x00",
    ],
)
def test_odd_texts_are_measured_without_failing(text):
    assert measured(text, "num_failures") == 0


def test_case_says_nothing_of_a_text_in_a_script_without_case() -> None:
    """Names of programs are sentences in lower case, as far as letters with case go."""
    text = "この 端末 の 利用者 が apt-get update を 実行 します。 次に 管理者 が reboot を 待ち ます。"
    assert MEASURES["one_case_fraction"](text) is None
    assert MEASURES["one_case_fraction"]("die ganze zeile ist klein geschrieben, auch größe und maß.") == 1.0
    assert MEASURES["one_case_fraction"]("Эта строка написана как обычно. вся эта строка строчными буквами.") > 0.5


def test_addresses_and_encoded_bytes_are_no_words():
    addresses = "\n".join(f"https://www.example{at}.org/a/path/{at}/index.html" for at in range(30))
    encoded = "\n".join(
        "QmFzZTY0IGlzIG5vIHByb3NlLCB3aGF0ZXZlciBsZXR0ZXJzIGl0IGhhcyBpbiBpdA" + str(at) for at in range(9)
    )
    assert "not_prose" in broken(addresses)
    assert "not_prose" in broken(encoded)


def test_an_address_in_prose_is_one_word_of_many():
    text = f"{PROSE} See https://example.org/bridge for more."
    num_tokens = len(text.split())
    assert measured(text, "word_with_letter_fraction") == pytest.approx(1 - 1 / num_tokens)
    assert broken(text) == []


def test_what_marks_the_items_of_a_list_is_no_word():
    assert measured("• one\n1. two\n(2) two\n- three\n  * four", "word_with_letter_fraction") == 1
    assert measured("5 five\n6 - 7\n-", "word_with_letter_fraction") == pytest.approx(1 / 6)


def test_marks_of_headings_quotations_and_fences_are_no_words():
    page = "# One\n```\ntwo\n```\n> three\n>> four\nFive\n=====\n***\n  ---  \n~~~~"
    assert measured(page, "word_with_letter_fraction") == 1
    # what stands among words, and lines of several signs or of two, are counted
    assert measured("a # b > c === d\n+--+\n--\n#", "word_with_letter_fraction") == pytest.approx(4 / 10)


def test_addresses_of_the_web_in_angle_brackets_are_no_markup():
    assert measured("See <https://example.org/a?b=c> and <ftp://example.org>.", "markup_fraction") == 0
    tagged = '<a href="https://example.org">x</a>'
    assert measured(tagged, "markup_fraction") == pytest.approx(1 - 1 / len(tagged))
    assert measured("<ann@example.org>", "markup_fraction") == 1  # lists of people are kept out by it


def test_numbers_in_a_page_without_spaces_do_not_outnumber_its_words():
    page = "将软件包转换为另一种格式之后应当检查它们 100 200 300 是否安装成功。"  # 20 and 6 signs: 10 and 3 words
    assert measured(page, "word_with_letter_fraction") == pytest.approx(13 / 16)


def test_an_ellipsis_is_one_symbol_of_any_length_and_a_heading_none():
    assert measured("他说……然后走了", "symbol_word_ratio") == pytest.approx(1 / 3)
    assert measured("# One\n## Two\nthree..... #four", "symbol_word_ratio") == pytest.approx(2 / 6)
