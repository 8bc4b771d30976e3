"""Texts in every script are measured as English is: by words with their marks, and by their own ends of sentences."""

from __future__ import annotations

import pytest
from quality_media import measures_of, rules_broken, text_track

from mmlake.letters import count_words, sentences
from mmlake.store import BlobStore

STORE = BlobStore("/nonexistent")  # text measures read no blob
HINDI = (
    "परिषद ने मंगलवार को पुराने पुल की मरम्मत पर चर्चा की। कई निवासियों ने पूछा कि सड़क कब तक बंद रहेगी। "
    "एक इंजीनियर ने समझाया कि उत्तरी खंभे की नींव बाढ़ में बह गई थी। काम मई में शुरू होगा और ग्यारह सप्ताह चलेगा।"
)
TAMIL = (
    "மன்றம் பழைய பாலத்தின் பழுதுபார்ப்பு பற்றி விவாதித்தது. சாலை எவ்வளவு காலம் மூடப்பட்டிருக்கும் என்று பலர் கேட்டனர். "
    "வெள்ளத்தில் வடக்கு தூண் அடித்தளத்தை இழந்தது என்று பொறியாளர் விளக்கினார்."
)
KOREAN = (
    "시의회는 화요일에 오래된 다리의 보수에 대해 논의했다. 여러 주민들이 도로가 얼마나 오래 폐쇄될 것인지 물었다. "
    "한 기술자는 북쪽 기둥이 봄 홍수 때 기초를 잃었다고 설명했다."
)
HEBREW = "בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם וְאֵת הָאָרֶץ וְהָאָרֶץ הָיְתָה תֹהוּ וָבֹהוּ וְחֹשֶׁךְ עַל פְּנֵי תְהוֹם"
CHINESE = (
    "市议会周二开会讨论旧桥的维修问题。几位居民询问道路将关闭多久。一位工程师解释说，北侧桥墩在春季洪水中失去了基础。"
    "工程将于五月开始，大约需要十一周。店主们担心夏季的生意，但市长承诺设置路标和渡轮。"
)


def track_of(text: str) -> dict[str, object]:
    return text_track(text) | {"num_words": count_words(text)}


def broken(text: str) -> list[str]:
    return rules_broken(track_of(text), STORE)


def measured(text: str, name: str) -> float | None:
    return measures_of(track_of(text), STORE)[name]


@pytest.mark.parametrize("text", [HINDI, TAMIL, KOREAN, HEBREW, CHINESE])
def test_prose_is_clean_in_every_script(text):
    assert broken(text) == []


@pytest.mark.parametrize(
    ("text", "num_letters"),
    [
        ("पुल की", (3 + 2) / 2),  # vowels are letters, whether they are marks or not
        ("בָּרָא", 3),  # points are none
        ("다리", 4),  # each syllable is two letters
        ("e\u0301te\u0301", 3),
        ("می\u200cخواهم", 7),  # one word, whatever joins it
    ],
)
def test_length_of_words_is_counted_in_letters(text, num_letters):
    assert measured(text, "mean_word_length_chars") == num_letters


@pytest.mark.parametrize(("text", "end", "space"), [(HINDI, "।", " "), (CHINESE, "。", "")])
def test_a_notice_is_one_sentence_and_not_the_whole_text(text, end, space):
    first, rest = text.split(end, 1)
    noticed = f"{first}{end}{space}click here to{end}{rest}"
    assert broken(noticed) == []
    assert 0 < measured(noticed, "boilerplate_fraction") < 0.2


@pytest.mark.parametrize(("text", "end", "space"), [(HINDI, "।", " "), (CHINESE, "。", "")])
def test_sentences_that_repeat_are_found_in_every_script(text, end, space):
    sentences = [part.strip() + end for part in text.split(end) if part.strip()]
    assert measured(space.join(sentence + space + sentence for sentence in sentences), "repeated_line_fraction") == 0.5


def test_phrases_that_repeat_are_found_where_nothing_divides_words():
    assert measured(CHINESE, "repeated_ngram_fraction") == 0
    assert measured("今天天气很好我们一起去公园散步吧" * 20, "repeated_ngram_fraction") > 0.9
    assert "repeated_phrases" in broken("今天天气很好我们一起去公园散步吧" * 20)


@pytest.mark.parametrize(
    ("text", "count"), [("परिषद ने पूछा", 3), ("בְּרֵאשִׁית בָּרָא", 2), ("می\u200cخواهم بروم", 2), ("বৈঠক করেছে", 2)]
)
def test_marks_do_not_break_words(text, count):
    assert count_words(text) == count


@pytest.mark.parametrize("marks", ["،۔", "؛؟", "፣።", "၊။", "।॥"])
def test_marks_of_every_script_divide_a_text(marks):
    words = "سڑک " * 30
    assert measured(words * 2, "unpunctuated_fraction") == 1
    assert measured(f"{words}{marks[0]} {words}{marks[1]}", "unpunctuated_fraction") == 0


@pytest.mark.parametrize("text", ["Մութ է։ Անձրև է։ Ցուրտ է։", "መልካም ቀን።እንደምን አለህ፧ደህና ነኝ።", "ဟုတ်တယ်။မဟုတ်ဘူး။ကောင်းပါတယ်။"])
def test_sentences_end_at_the_signs_of_their_script(text):
    """Those of Armenian, and of Amharic and Burmese where no space follows, were one sentence."""
    assert len([part for part in sentences(text) if part.strip()]) == 3


@pytest.mark.parametrize("line", ["Մութ է։", "Er sagte: „Keine Lust.“"])
def test_a_line_ends_with_the_mark_of_its_script(line):
    assert measured(f"{line}\n" * 3, "ended_line_fraction") == 1


@pytest.mark.parametrize("marks", ['""', "“”", "„“", "«»", "()"])
def test_a_quoted_notice_is_one_sentence_and_not_the_rest_of_the_text(marks):
    """No sentence ended at a quotation mark behind its period, so that what followed was of the notice."""
    rest = "Then they walked home along the harbour, and nobody said a word until they stood before the door."
    text = f"The sign at the door was old. {marks[0]}All rights reserved.{marks[1]} {rest}"
    assert 0 < measured(text, "boilerplate_fraction") < 0.2
