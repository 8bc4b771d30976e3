"""Texts whose UTF-8 was read in another encoding are garbled, and texts that resemble them are not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake.quality.misread import MISREAD
from mmlake.quality.text import MEASURES
from mmlake.quality.text_rules import TEXT_RULES

GARBLED = next(rule for rule in TEXT_RULES if rule.name == "garbled")
RIGHT = {
    "Czech": "Příliš žluťoučký kůň úpěl ďábelské ódy u řeky, která tekla městem.",
    "Polish": "Zażółć gęślą jaźń, powiedział woźny i zamknął źle pomalowane drzwi łazienki.",
    "Latvian": "Rīgas tirgū pārdeva āboļus, ķiršus un žāvētas zivis līdz vēlai naktij.",
    "Vietnamese": "Tiếng Việt được viết bằng chữ Quốc ngữ với nhiều dấu thanh khác nhau.",
    "Greek": "Το πλοίο έφυγε από το λιμάνι πριν ξημερώσει και κανείς δεν το είδε.",
    "Bulgarian": "Корабът тръгна преди изгрев и никой не го видя да излиза от пристанището.",
    "Ukrainian": "Корабель вийшов з гавані ще до світанку, і ніхто його не бачив.",
    "Hebrew": "הספינה יצאה מהנמל לפני הזריחה ואיש לא ראה אותה",
    "Arabic": "غادرت السفينة الميناء قبل شروق الشمس ولم يرها أحد",
    "Hindi": "जहाज सूरज उगने से पहले बंदरगाह से निकल गया और किसी ने उसे नहीं देखा",
    "Thai": "เรือออกจากท่าก่อนพระอาทิตย์ขึ้นและไม่มีใครเห็น",
    "Japanese": "船は日の出前に港を出たが、誰もそれを見なかった。",
    "Korean": "배는 해가 뜨기 전에 항구를 떠났고 아무도 보지 못했다.",
    "emoji": "The ship left before dawn 😂 and nobody saw it go 🚢 at all.",
    "quotes": "“Nobody saw it,” she said – “it’s gone… for good.”",
    "signs": "½ of the crew ≤ 5 ♫ went ashore ✔ and the rest → stayed.",
}


def read_as(text: str, encoding: str) -> str:
    """The text with each byte that the encoding lacks as Latin-1 has it."""
    return "".join(
        bytes([number]).decode(encoding) if number not in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else chr(number)
        for number in text.encode()
    )


def is_garbled(text: str) -> bool:
    fraction = MEASURES["garbled_fraction"](text)
    return fraction is not None and not GARBLED.holds(fraction, GARBLED.low, GARBLED.high)


@pytest.mark.parametrize("language", RIGHT)
def test_utf8_read_as_windows_1252_is_garbled(language: str) -> None:
    """Also without the controls that bytes without a letter became, by which alone some were found."""
    wrong = RIGHT[language].encode().decode("cp1252", "ignore")
    assert is_garbled(wrong)
    assert not is_garbled(RIGHT[language])


@pytest.mark.parametrize("language", ["Bulgarian", "Ukrainian", "quotes"])
def test_utf8_read_as_windows_1251_is_garbled(language: str) -> None:
    assert is_garbled(RIGHT[language].encode().decode("cp1251", "ignore"))


@pytest.mark.parametrize("language", ["Czech", "Polish", "Bulgarian", "Ukrainian", "Greek", "Arabic", "quotes"])
def test_utf8_read_as_windows_1250_is_garbled(language: str) -> None:
    """As programs of Central Europe read it."""
    assert is_garbled(RIGHT[language].encode().decode("cp1250", "ignore"))


@pytest.mark.parametrize("language", ["Czech", "Polish", "Vietnamese", "Bulgarian", "Ukrainian", "quotes"])
def test_utf8_read_in_the_code_page_of_a_console_is_garbled(language: str) -> None:
    assert is_garbled(RIGHT[language].encode().decode("cp437"))


@pytest.mark.parametrize("text", ["Le régime du château", "Der Weiß-Bär", RIGHT["Hebrew"], RIGHT["quotes"]])
def test_utf8_read_as_mac_roman_is_garbled(text: str) -> None:
    assert is_garbled(text.encode().decode("mac_roman"))


def test_what_was_read_twice_in_a_wrong_encoding_is_garbled() -> None:
    once = "doesn’t".encode().decode("cp1252")
    assert is_garbled(f"The painting {once.encode().decode('cp1252')} have eyebrows.")


@pytest.mark.parametrize(
    "text",
    [
        "„Das macht Spaß“, sagte er. »Ließ« er »PÅ« sein? CAFÉ… CAFÉ® CAFÉ™ CAFÉ – CAFÉ’s JOSÉ² «É» É° 5 Ø½ 3×¼ 2×½",
        "¡YO SÉ! ¿POR QUÉ? QUÉ¿ SÉ¡ VÝŠE, NÍŽE, BÍŽ: « café », « CAFÉ », « ÉTÉ » et “café…” — “‘été’”",
        "НІЧОГО НЕ РІЗНІШЕ: МІСІЇ, ПОЛІЦІЇ, ЛІЦЕНЗІЇ. Поздрављамо. ПоздравЂаво, ЊЕЊЕ.",
        "The diagonal is a√2, the root is √π or 2√π, and x√y. └── é ├── à │ “été” – “à” —",
        "„ŢARĂ…” CASĂ™ PĂŞUNE, Ăştia VARĂ – MÂNĂ’ «STRADĂ» STĹP VĹČA KĹB, ŘŮRA ŇOUMA ĐŠ ĐAK, Ďáblův Říman.",
        "a ├── b │ c ┼ d ┬ é ── à | ß║ ═╤═╤═ ╨ ╨ ΓΕΙΑ Γ ΓÉ",
        "IRMÃO, MAÇÃ, “IRMÃ” e ‘MAÇÃ’ – MANHÃ… ROMÂNIA “Â” There are a lot of Ã’s here.",
    ],
)
def test_what_resembles_it_is_not_garbled(text: str) -> None:
    assert re.findall(MISREAD, text) == []


@given(st.text(st.characters(codec="utf-8", categories=["Lo"]), min_size=3).filter(lambda text: not text.isascii()))
def test_letters_of_scripts_without_case_are_found_whatever_they_are(letters: str) -> None:
    """Three in a row at least, as any word has them."""
    wide = "".join(letter for letter in letters if ord(letter) >= 0x800)
    if len(wide) >= 2:
        wrong = read_as(wide, "cp1252")
        assert sum(map(len, re.findall(MISREAD, wrong))) == len(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "LietuviÅ³ kalba",
        "voilÃ  le travail",
        "voilÃ\u00a0 le travail",
        "signiп¬Ѓcantly lower",
        "cafГ© Paris",
        "expected Г‚ВЈ5.8bn",
        "Le Vigne di Zam√≤",
        "ievƒìlƒìts",
        "tik≈°anƒÅs",
        "t‚Äö√†√∂¬¨¬©l",
    ],
)
def test_one_letter_in_a_word_is_found(text: str) -> None:
    """Alone in its word: no word goes on with a capital with an accent, with a root, or in another script."""
    assert re.search(MISREAD, text) is not None


@pytest.mark.parametrize(
    "text", ["12 Å³ of space", "PÅ³ and Ã alone", "сло¬во и сло¬ії", "ƒ(x)≈°", "x≈É. T≈Ü1", "Г. В«нём»"]
)
def test_units_hyphens_and_formulas_are_not_found(text: str) -> None:
    """Cubic ångströms, the hyphens of recognized pages, functions and what is nearly equal."""
    assert re.findall(MISREAD, text) == []
