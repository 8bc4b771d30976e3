"""Which signs of a transcript end a sentence: what segmenters of sentences are tested with, in several languages."""

from __future__ import annotations

import pytest

from mmlake.preprocess.transcripts.pronunciation import tokens
from mmlake.preprocess.transcripts.utterances import CLAUSE, SENTENCE, of_cues, of_words

_ONE = [
    "My name is Jonas E. Smith.",
    "Please turn to p. 55.",
    "Were Jane and co. at the party?",
    "They closed the deal with Pitt, Briggs & Co. at noon.",
    "I can see Mt. Fuji from here.",
    "St. Michael's Church is on 5th st. near the light.",
    "I visited the U.S.A. last year.",
    "I work for the U.S. Government in Virginia.",
    "He teaches science (He worked for 5 years as an engineer.) at the local University.",
    'She turned to him, "This is great." she said.',
    "She works at Yahoo! in the accounting department.",
    "Bohr used the analogy of parallel stairways [...] (Smith 55).",
    "我们明天一起去看《摔跤吧！爸爸》好吗？",
    "Wir trafen Dr. med. Meyer in der Stadt.",
    "Wir brauchen Getränke, z. B. Wasser, Saft und Bier.",
    "Was sind die Konsequenzen der Abstimmung vom 12. Juni?",
    "1. Dies ist eine Liste.",
    "Das finden Sie auf S. 225.",
    "Д-р наук А. И. Семенов и пр. выступали на этом семинаре.",
    "Виктор ушел из дома на ул. 1 Мая.",
    "Hola, soy el Lic. Naser Pastoriza.",
    "Sono qui con l'Ing. Mengozzi.",
    "Toto sa mi podarilo až na 10. pokus.",
]
_TWO = [
    ("Hello World.", "My name is Jonas."),
    ("Let's ask Jane and co.", "They should know."),
    ("I live in the U.S.", "How about you?"),
    ("We make a good team, you and I.", "Did you see him yesterday?"),
    ("She has $100.00.", "It is in her bag."),
    ("It was built in 1999.", "Nobody lives there."),
    ("She said no.", "Nobody asked again."),
    ('It begins with "E".', "Nobody knows why."),
    ("This release supports version 8.x.", "To build it, see below."),
    ("Bist du 12?", "Nein, ich bin 13."),
    ("Er flüsterte leise: „Und auch keine Lust.“", "Wir haben 1.000.000 Euro."),
    ("Πού είναι οι τουαλέτες;", "Τις Κυριακές δε δούλευε κανένας."),
    ("Այսօր երկուշաբթի է:", "Ես գնում եմ աշխատանքի:"),
    ("Մութ է։", "Ես պետք է տուն վերադառնամ։"),
    ("i saw mary.", "she was well.", "we left."),  # of a recognizer that writes no capitals
]


def _borders(transcript: str) -> list[int]:
    """Index of each word but the last that ends a sentence."""
    words = [{"word": word, "start_s": at, "end_s": at + 0.9} for at, word in enumerate(tokens(transcript))]
    ends = of_words(words, transcript, duration_us=len(words) * 1_000_000).ends_W
    return [at for at, kind in enumerate(ends[:-1].tolist()) if kind == SENTENCE]


@pytest.mark.parametrize("sentence", _ONE)
def test_no_sentence_ends_within_a_sentence(sentence: str) -> None:
    """Each abbreviation, initial, ordinal and quotation ended one, and clips of films were cut there."""
    assert _borders(sentence) == []


@pytest.mark.parametrize("sentences", _TWO)
def test_sentences_end_where_they_end(sentences: tuple[str, ...]) -> None:
    ends, at = [], -1
    for sentence in sentences[:-1]:
        at += len(tokens(sentence))
        ends.append(at)
    assert _borders(" ".join(sentences)) == ends


def test_signs_without_a_space_behind_them_end_sentences_of_amharic_and_burmese() -> None:
    assert len(_borders("እንደምን አለህ፧መልካም ቀን ይሁንልህ።እባክሽ ያልሽዉን ድገሚልኝ።")) == 2
    assert len(_borders("ခင္ဗ်ားနာမည္ဘယ္လိုေခၚလဲ။၇ွင္ေနေကာင္းလား။")) == 1


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        (["He met Mr.", "Smith in town.", "They talked."], [0, SENTENCE, SENTENCE]),
        (["I wanted to ...", "well, to leave."], [CLAUSE, SENTENCE]),
        (["you came.", "we left."], [SENTENCE, SENTENCE]),
        (["Where is it,", "Ann?", ""], [CLAUSE, SENTENCE, 0]),
    ],
)
def test_a_line_of_subtitles_is_read_with_the_next_one(lines: list[str], kinds: list[int]) -> None:
    cues = [{"text": line, "start_s": at, "end_s": at + 1} for at, line in enumerate(lines)]
    assert of_cues(cues, duration_us=len(lines) * 1_000_000).ends_W.tolist() == kinds
