"""One text typed in several ways is one text: umlauts written out, Serbian in both scripts, Markdown and what a reader
sees of it; words that differ stay different."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from mmlake import dedup, schemas
from mmlake.dedup.text.fingerprints import print_table
from mmlake.dedup.text.spellings import as_seen, folded_spelling, without_targets
from tests.dedup.test_copies_of_texts import GERMAN, VIETNAMESE, bare, spelled_out

SERBIAN = (
    "Србија је држава у југоисточној Европи. Њени људи пишу и ћирилицом и латиницом, а џепови старих кућа чувају "
    "ђердане и љиљане из давнина.",
    "Srbija je država u jugoistočnoj Evropi. Njeni ljudi pišu i ćirilicom i latinicom, a džepovi starih kuća čuvaju "
    "đerdane i ljiljane iz davnina.",
)
DANISH = (
    "Børnene på øen går ned til åen og ser på ænderne, som svømmer under den gamle bro hver dag.",
    "Boernene paa oeen gaar ned til aaen og ser paa aenderne, som svoemmer under den gamle bro hver dag.",
)
CHINESE = (
    "图书馆每天早上九点开门，读者可以借书和报纸。书架后面有几张桌子，学生们在这里写作业。请不要大声说话，也不要带吃的东西进来。",
    "圖書館每天早上九點開門，讀者可以借書和報紙。書架後面有幾張桌子，學生們在這裡寫作業。請不要大聲說話，也不要帶吃的東西進來。",
)
HONG_KONG = (CHINESE[0], CHINESE[1].replace("裡", "裏").replace("說", "説"))
_TURKISH = (
    "İlk gün sınıfta kimse konuşmadı. Işıklar söndü ve İstanbul'un üzerinde ince bir sis kaldı. Kızlar pencerenin "
    "önünde bekledi, çünkü ışık yalnızca oradan geliyordu."
)
TURKISH = (_TURKISH, _TURKISH.replace("i", "İ").replace("ı", "I").upper())
GREEK = (
    "Η πόλη είναι μεγάλη και οι δρόμοι είναι γεμάτοι από κόσμο που περιμένει το τρένο",
    "Η ΠΟΛΗ ΕΙΝΑΙ ΜΕΓΑΛΗ ΚΑΙ ΟΙ ΔΡΟΜΟΙ ΕΙΝΑΙ ΓΕΜΑΤΟΙ ΑΠΟ ΚΟΣΜΟ ΠΟΥ ΠΕΡΙΜΕΝΕΙ ΤΟ ΤΡΕΝΟ",
)
RUSSIAN = (
    "Ещё идёт чёрный кот, а её ребёнок поёт весёлые песни о полёте и всё ждёт самолёт",
    "Еще идет черный кот, а ее ребенок поет веселые песни о полете и все ждет самолет",
)
ROMANIAN = (
    "Și țara aceasta își știe țăranii și soții lor care așteaptă ploaia de toamnă",
    "Şi ţara aceasta îşi ştie ţăranii şi soţii lor care aşteaptă ploaia de toamnă",
)
SWEDISH = (
    "Färjan går från bryggan varje timme. På ön ligger en gård där åtta får betar på ängen, och över sjön hörs måsar.",
    "Farjan gar fran bryggan varje timme. Pa on ligger en gard dar atta far betar pa angen, och over sjon hors masar.",
)
POLISH = (
    "Łódź płynie wzdłuż rzeki, a żółte liście leżą na ścieżce. Później dzieci idą przez łąkę i liczą źdźbła trawy.",
    "Lodz plynie wzdluz rzeki, a zolte liscie leza na sciezce. Pozniej dzieci ida przez lake i licza zdzbla trawy.",
)
HUNGARIAN = (
    "A hűvös szél fújt a tó felől, és az öreg fűzfák alatt üldögélő nők őszi ködről és hűtőházról beszélgettek.",
    "A huvos szel fujt a to felol, es az oreg fuzfak alatt uldogelo nok oszi kodrol es hutohazrol beszelgettek.",
)
FRENCH = (
    "Le cœur de la forêt était déjà très sombre. À Noël, l’élève âgé rêvait d’îles où l’été dure, même l’an passé.",
    "Le coeur de la foret etait deja tres sombre. A Noel, l'eleve age revait d'iles ou l'ete dure, meme l'an passe.",
)
STRESSED = (
    "Москва\u0301 стои\u0301т на реке\u0301, и лю\u0301ди е\u0301дут сюда\u0301 отовсю\u0301ду",
    "Москва стоит на реке, и люди едут сюда отовсюду",
)
WORDS = [f"{one}{other}" for one in ("ba", "ke", "lo", "mi", "nu", "pa") for other in ("rin", "sol", "tem", "vak")]


def relation(one: str, other: str) -> list[str]:
    (tier,) = dedup.tiers_of("text")
    rows = [
        {"digest": name * 64, "method": method, "hashes": prints[0].tolist(), "status": "ok"}
        for name, text in (("a", one), ("b", other))
        for method, prints in print_table([text]).items()
    ]
    table = schemas.from_rows(schemas.FINGERPRINTS, rows)
    found = dedup.near_pairs(table, (tier,), settings=dedup.DedupSettings())
    return found.filter(pa.compute.is_in(found["relation"], pa.array(["same", "inside"])))["relation"].to_pylist()


def with_links(words: list[str], rng: np.random.Generator) -> str:
    """Markdown in which every seventh word is a link."""
    address = (f"https://example.org/{rng.integers(9_999)}/page_(one).html" for _ in words)
    return " ".join(f'[{word}]({next(address)} "title")' if at % 7 == 3 else word for at, word in enumerate(words))


def html_of(text: str) -> str:
    """Every fourth word a link, each sentence a paragraph."""
    words = [f'<a href="https://example.org/{at}/x.html">{word}</a>' for at, word in enumerate(text.split())]
    linked = " ".join(word if at % 4 else words[at] for at, word in enumerate(text.split()))
    return f"<p>{linked.replace('. ', '.</p><p>')}</p>"


@pytest.mark.parametrize(
    ("one", "other"),
    [(GERMAN, spelled_out(GERMAN)), SERBIAN, DANISH, CHINESE, HONG_KONG, TURKISH, GREEK, RUSSIAN, ROMANIAN],
    ids=["German", "Serbian", "Danish", "Chinese", "Chinese of Hong Kong", "Turkish", "Greek", "Russian", "Romanian"],
)
def test_a_text_in_another_spelling_is_the_same(one, other):
    assert relation(one, other) == ["same"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (GERMAN, bare(GERMAN)),
        (bare(GERMAN), spelled_out(GERMAN)),
        (VIETNAMESE, bare(VIETNAMESE)),
        (DANISH[0], DANISH[1].replace("oe", "o").replace("aa", "a").replace("ae", "a")),
        SWEDISH,
        POLISH,
        HUNGARIAN,
        FRENCH,
        (TURKISH[0], bare(TURKISH[0]).replace("ı", "i")),
        STRESSED,
    ],
    ids="German spelled Vietnamese Danish Swedish Polish Hungarian French Turkish stressed".split(),
)
def test_a_text_without_its_accents_is_the_same(one, other):
    """Subtitles, messages and old encodings have none; each word that lost one was another word."""
    assert relation(one, other) == ["same"]


def test_letters_that_marks_make_others_are_kept():
    """No text in Cyrillic, Arabic or an Indic script leaves these marks out."""
    for one, other in (("мой дом", "мои дом"), ("काम", "कम"), ("آب", "اب")):
        assert print_table([one])["words"].values.tolist() != print_table([other])["words"].values.tolist()


def test_second_letters_are_left_out_in_equal_ways_however_many_they_are():
    """`øen` is `oeen` and `oen`; a run of a million letters takes no long."""
    words = [print_table([text])["words"].values.tolist() for text in ("øen", "oeen", "oen", "on")]
    assert words[0] == words[1] == words[2] == words[3]
    began = time.process_time()
    print_table(["o" + "e" * 200_000])
    assert time.process_time() - began < 2


@pytest.mark.parametrize("sign", [0xAD, 0x34F, 0x180E, 0x200B, 0x200D, 0x200E, 0x2063, 0x2069, 0xFE0F, 0xFEFF, 0xE0041])
def test_signs_that_no_reader_sees_make_no_other_text(sign):
    """Marks of a copy: each word was another one, or two."""
    text = "The harbour of the town is small, and boats that come in the evening wait outside until there is room."
    assert relation(text, " ".join(f"{word[:2]}{chr(sign)}{word[2:]}" for word in text.split())) == ["same"]


def test_the_non_joiner_of_persian_divides_words_as_a_space_does():
    assert folded_spelling("می\u200cخواهم") != folded_spelling("میخواهم")


def test_characters_that_have_no_other_form_are_kept():
    both = [print_table([text])["words"].values.tolist() for text in ("人山口", "大山口")]
    assert both[0] != both[1]
    assert print_table(["𠀀のかな"])["words"].values.tolist()  # beyond the first block, and kana


def test_markdown_is_the_same_as_what_a_reader_sees_of_it():
    rng = np.random.default_rng(3)
    words = rng.choice(WORDS, 200).tolist()
    assert relation(" ".join(words), with_links(words, rng)) == ["same"]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("see [the page](https://a.org/b).", "see [the page] ."),
        ("see [it](#part) and ![a cat](cat.png)", "see [it]  and ![a cat] "),
        ("values[0](x) and values[1](y, z)", "values[0](x) and values[1](y, z)"),
        ("text\n[1]: https://a.org/b\nmore", "text\n\nmore"),
        ("[note]: two words", "[note]: two words"),
        ("open [link](https://a.org", "open [link](https://a.org"),
    ],
)
def test_addresses_of_links_are_left_out_and_code_is_not(text, seen):
    assert without_targets(text) == seen


@pytest.mark.parametrize("copy", [html_of, lambda text: text.encode("ascii", "xmlcharrefreplace").decode("ascii")])
def test_a_text_with_tags_or_references_is_the_same(copy):
    """Documents out of tables of records hold such text; addresses of links were words, references numbers."""
    assert relation(SWEDISH[0], copy(SWEDISH[0])) == ["same"]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("<p>one<br/>two</p><p>three</p>", " one two  three "),
        ('a <a href="https://a.org/b" title="x">page</a>, H<sub>2</sub>O', "a page, H2O"),
        ("the <b> and <i> tags", "the <b> and <i> tags"),
        ("vector<T> and map<K, V> </code>", "vector<T> and map<K, V> "),
        ("caf&eacute; &#233; &#xE9; &notaname; R&D; AT&T", "café é é &notaname; R&D; AT&T"),
    ],
)
def test_tags_and_references_are_read_as_they_are_shown(text, seen):
    """What is no element of HTML stays: programs have other things between such signs."""
    assert as_seen(text) == seen


@pytest.mark.parametrize("text", ["</" + "<a " * 60_000, "</a " + " " * 200_000, "&#" * 90_000, "</" + "<a x" * 60_000])
def test_tags_that_never_end_take_no_long(text):
    began = time.process_time()
    as_seen(text)
    assert time.process_time() - began < 2


def test_russian_keeps_its_letters():
    assert folded_spelling("Это русский текст") == "это русский текст"


@pytest.mark.parametrize(
    "text", ["](" * 60_000, "](a." * 40_000, '](a.b "' * 20_000, "](a.(" * 30_000, "[a]: " * 40_000]
)
def test_addresses_that_never_end_take_no_long(text):
    began = time.process_time()
    without_targets(text)
    assert time.process_time() - began < 1
