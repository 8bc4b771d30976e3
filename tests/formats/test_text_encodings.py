"""Texts of any usual encoding are read as what they say; what is no text is refused."""

from __future__ import annotations

import random
import zlib

import pytest

from mmlake.errors import UnreadableItem
from mmlake.formats.text_encodings import guessed_encoding
from mmlake.formats.texts import decode_text
from mmlake.formats.word_shapes import letter_fraction, odd_fraction
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.text import decode

TEXTS = {
    "cs": "Loď vyplula z přístavu dříve, než vyšlo slunce, a námořníci zpívali staré písně o dálných ostrovech.",
    "pl": "Statek wypłynął z portu, zanim wzeszło słońce, a żeglarze śpiewali stare pieśni o dalekich wyspach.",
    "hu": "A hajó még napkelte előtt kifutott a kikötőből, és a matrózok régi dalokat énekeltek a távoli szigetekről.",
    "tr": "Gemi güneş doğmadan limandan ayrıldı ve denizciler uzak adalar üzerine eski şarkılar söylediler.",
    "fi": "Laiva lähti satamasta ennen auringonnousua, ja merimiehet lauloivat vanhoja lauluja kaukaisista saarista.",
    "lv": "Kuģis izbrauca no ostas, pirms uzlēca saule, un jūrnieki dziedāja senas dziesmas par tālām salām.",
    "fr": "Le navire a quitté le port avant l'aube, et les marins chantaient de très vieilles chansons sur des îles.",
    "ru": "Корабль вышел из порта ещё до восхода солнца, и матросы пели старые песни о далёких островах.",
    "el": "Το πλοίο έφυγε από το λιμάνι πριν ανατείλει ο ήλιος και οι ναύτες τραγουδούσαν παλιά τραγούδια.",
    "he": "הספינה יצאה מהנמל לפני זריחת השמש, והמלחים שרו שירים ישנים על איים רחוקים מאוד.",
    "ar": "غادرت السفينة الميناء قبل شروق الشمس وكان البحارة يغنون أغاني قديمة عن جزر بعيدة.",
    "th": "เรือออกจากท่าก่อนพระอาทิตย์ขึ้น และลูกเรือร้องเพลงเก่าเกี่ยวกับเกาะที่อยู่ห่างไกล",
    "ja": "船は日の出の前に港を出て、水夫たちは遠い島についての古い歌を歌っていた。風は静かだった。",
    "ko": "배는 해가 뜨기 전에 항구를 떠났고 선원들은 먼 섬에 대한 오래된 노래를 불렀다.",
    "zh": "船在日出之前离开了港口，水手们唱着关于遥远岛屿的古老歌曲，海风很轻，海面很平静。",
}
ENCODINGS = {
    "cs": ["cp1250", "iso8859-2"], "pl": ["cp1250", "iso8859-2"], "hu": ["cp1250", "iso8859-2"], "tr": ["cp1254"],
    "fi": ["cp1252"], "lv": ["cp1257"], "fr": ["cp1252"], "ru": ["cp1251", "koi8-r", "iso8859-5", "cp866"],
    "el": ["cp1253", "iso8859-7"], "he": ["cp1255"], "ar": ["cp1256"], "th": ["cp874"], "ja": ["cp932", "euc_jp"],
    "ko": ["cp949"], "zh": ["gb18030"],
}  # fmt: skip
SETTINGS = PreprocessSettings()


@pytest.mark.parametrize(("language", "encoding"), [(name, one) for name, all_ in ENCODINGS.items() for one in all_])
def test_a_text_without_a_mark_is_read_in_the_encoding_of_its_language(language: str, encoding: str) -> None:
    data = TEXTS[language].encode(encoding)
    assert decode_text(data)[0] == TEXTS[language]
    assert decode(data, settings=SETTINGS) == TEXTS[language], "as a track, it is what it was as an item"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("language", ["fr", "ko", "ru"])
def test_wide_texts_without_a_mark_are_read(language: str, encoding: str) -> None:
    assert decode_text(TEXTS[language].encode(encoding))[0] == TEXTS[language]
    assert decode_text(b"A plain line of words.\n".decode().encode(encoding))[0] == "A plain line of words.\n"


@pytest.mark.parametrize("language", ["fr", "ru", "ja"])
@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16", "utf-32"])
def test_one_broken_character_behind_a_mark_costs_no_text(language: str, mark: str) -> None:
    data = TEXTS[language].encode(mark)
    text, encoding = decode_text(data[:-1])  # cut within the last one
    assert (text.rstrip("\ufffd"), encoding) == (TEXTS[language][:-1], mark)
    assert decode(data[:-1], settings=SETTINGS) == text
    assert decode_text(data[:48] + b"\xff\xff\xff\xff" * (mark != "utf-16") + data[48:])[0].count("\ufffd") <= 6


def test_a_mark_before_a_text_of_another_encoding_does_not_count() -> None:
    for language, encoding in (("fr", "cp1252"), ("ru", "cp1251"), ("ja", "cp932")):
        assert decode_text(b"\xef\xbb\xbf" + TEXTS[language].encode(encoding))[0] == TEXTS[language]


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0"])
def test_a_mark_before_what_is_no_text_makes_it_none(mark: bytes) -> None:
    for seed in range(20):
        with pytest.raises(UnreadableItem, match="1004"):
            decode_text(mark + random.Random(seed).randbytes(2000))


@pytest.mark.parametrize("broken", [b"\xff", b"\xc3", "é".encode("cp1252")])
def test_one_broken_byte_makes_utf_8_no_other_encoding(broken: bytes) -> None:
    """Half of what is not ASCII being valid, it was UTF-8: read as Japanese, every letter with an accent was wrong."""
    data = (TEXTS["fr"] * 3).encode()
    text, encoding = decode_text(data[:60] + broken + b" " + data[60:])
    assert encoding == "utf-8" and text.count("\ufffd") == 1 and text.endswith(TEXTS["fr"])


def test_what_is_not_ascii_may_come_late() -> None:
    """The first 64 KiB were what the guess was made of, and the text was refused as ASCII that is none."""
    text = "A plain line of words.\n" * 10_000 + TEXTS["fi"]
    assert decode_text(text.encode("cp1252"))[0] == text


def test_a_stray_byte_in_a_long_text_is_no_reason_to_lose_it() -> None:
    """A file of word vectors of 2 MB was refused for some bytes that no encoding explains."""
    lines = "".join(f"{at} -0.0{at * 7919} 0.00{at * 104729}\n" for at in range(400)).encode()
    text, encoding = decode_text(lines[:2_000] + b"\x81\xfe" + lines[2_000:])
    assert encoding == "utf-8" and text.count("\ufffd") == 2 and text.endswith("\n")


@pytest.mark.parametrize("size", [40, 400, 4_000, 40_000])
def test_what_is_no_text_is_refused(size: int) -> None:
    draw = random.Random(size)
    record = bytes(range(24)) + "naïve ".encode()  # as in data that name things in UTF-8
    noises = [
        (record + b"\xff") * (size // 24),
        draw.randbytes(size),
        bytes(draw.randrange(32, 256) for _ in range(size)),
        bytes(draw.randrange(128, 256) for _ in range(size)),
        zlib.compress(draw.randbytes(size))[:size],
    ]
    for noise in noises:
        assert guessed_encoding(noise) is None
        with pytest.raises(UnreadableItem, match="1004"):
            decode_text(noise)


def test_few_bytes_are_not_guessed_about() -> None:
    with pytest.raises(UnreadableItem, match="num_bytes=4 that are not UTF-8"):
        decode_text("cœur".encode("cp1252"))


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("cp1252", "Le garçon a déjà mangé la crème brûlée à l'école."),  # was Cyrillic in its words: "garзon a dйjа"
        ("cp1252", "El niño soñó con la montaña."),
        ("cp1252", "y!\r\n- We´re going to get him.\r\n- He was here.\r\nDon´t worry, we have time."),  # chardet issue
        ("cp1252", "latin-1 string of few > éáû"),
        ("cp1252", "today’s research"),
        ("cp1251", "Вчера мы были в старом музее у реки."),
    ],
)
def test_of_the_guesses_about_a_short_text_that_with_words_of_one_script_counts(encoding: str, said: str) -> None:
    assert decode_text(said.encode(encoding))[0] == said


def test_few_letters_with_accents_are_read_however_unsure_the_guess_is() -> None:
    """A table of expenses in Portuguese, as a report to chardet has it (issue 24): the text was refused for 5 letters,
    which are more than one byte in a hundred."""
    said = '"ANO";"TIPO_DESPESA";"VALOR"\r\n"2011";"Aluguel de imóveis para escritório político";"47,65"\r\n'
    said += '"2011";"CERON - CENTRAIS ELÉTRICAS DE RONDÔNIA S.A.";"45216633";"11/01/11";"05.914.650/0001-66"\r\n' * 2
    assert decode_text(said.encode("cp1252"))[0] == said


def test_a_caption_with_an_accent_is_read_and_fewer_bytes_are_not() -> None:
    assert decode_text("Un café à Paris.".encode("cp1252"))[0] == "Un café à Paris."
    with pytest.raises(UnreadableItem, match="1004"):
        decode_text("Un café à Lyon.".encode("cp1252"))


def test_odd_words_are_counted_among_what_is_not_ascii() -> None:
    assert odd_fraction("une école, l’été, naïve — 5 €") == 0
    assert odd_fraction("Catalan col·legi, We´re, MacBook, 5 µm, PC방, Здесь macOS") == 0
    assert odd_fraction("dйjа") == 1.0 and odd_fraction("resŠ") == 1.0 and odd_fraction("Ka┐da") == 1.0
    assert odd_fraction("plain") == 0 and letter_fraction("plain") == 0
    assert letter_fraction("café\x81 5\xfe") == pytest.approx(1 / 3)
