"""Phones and words that are found in a sound, against those of pocketsphinx, whose model and dictionary they use."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.sample import voices
from mmlake.speech.cepstra import features
from mmlake.speech.phone_model import Scores, dictionary, phone_model
from mmlake.speech.phone_search import WordGraph, spoken_phones, word_spans

WORDS = "nobody remembered where the green bicycle had been left".split()


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    """The words in one sentence, at a full scale of 32768, with a little noise."""
    if voices.engine() != "espeak-ng":
        pytest.skip("espeakng-loader is not installed: there is no voice with words")
    (one,) = voices.speak([voices.utterance((" ".join(WORDS),), 2)], seed=11)
    return np.rint(one.samples * 32000 + np.random.default_rng(0).normal(0, 5, len(one.samples)))


def graph_of(words: list[str]) -> WordGraph:
    number = {name: at for at, name in enumerate(phone_model().phones)}
    return WordGraph.of(phone_model(), [[tuple(number[one] for one in dictionary()[word].split())] for word in words])


def scores_of(samples: np.ndarray, graph: WordGraph) -> Scores:
    wanted = np.concatenate([phone_model().states_P.ravel(), np.array(graph.states).ravel()])
    return phone_model().scores(features(samples), wanted)


def by_pocketsphinx(samples: np.ndarray, **chosen: object) -> list[tuple[str, int]]:
    """(name, first frame) of what it finds: phones, or the words where no phone loop is asked for."""
    from pocketsphinx import Config, Decoder

    decoder = Decoder(Config(lm=None, samprate=16000.0, cmn="batch", loglevel="FATAL", **chosen))
    if "allphone" not in chosen:
        decoder.set_align_text(" ".join(WORDS))
    decoder.start_utt()
    decoder.process_raw(samples.astype("<i2").tobytes(), full_utt=True)
    decoder.end_utt()
    return [(segment.word.partition("(")[0], segment.start_frame) for segment in decoder.seg()]


def edits(left: list[str], right: list[str]) -> int:
    """Fewest phones to replace, add or leave out."""
    row = list(range(len(right) + 1))
    for at, one in enumerate(left, 1):
        before, row = row, [at]
        for column, other in enumerate(right, 1):
            row.append(min(before[column] + 1, row[-1] + 1, before[column - 1] + (one != other)))
    return row[-1]


def test_words_begin_where_pocketsphinx_finds_them(samples):
    graph = graph_of(WORDS)
    found = word_spans(graph, scores_of(samples, graph))
    expected = [first for name, first in by_pocketsphinx(samples) if name in WORDS]
    assert found is not None and [number for number, _, _ in found] == list(range(len(WORDS)))
    assert np.abs(np.array([first for _, first, _ in found]) - expected).max() <= 5  # hundredths of a second
    assert all(behind <= first for (_, _, behind), (_, first, _) in zip(found, found[1:], strict=False))


def test_phones_are_nearer_to_those_of_the_dictionary_than_those_of_pocketsphinx(samples):
    from pocketsphinx import get_model_path

    loop = by_pocketsphinx(samples, allphone=get_model_path("en-us/en-us-phone.lm.bin"), dict=None, lw=2.0)
    names = [
        phone_model().phones[phone] for phone, _, _ in spoken_phones(phone_model(), scores_of(samples, graph_of([])))
    ]
    expected = " ".join(dictionary()[word] for word in WORDS).split()
    ours, theirs = (
        [one for one in said if one.isalpha() and one != "SIL"] for said in (names, [one for one, _ in loop])
    )
    assert edits(ours, expected) <= edits(theirs, expected)


def test_phones_follow_each_other_from_the_first_frame_to_the_last(samples):
    spans = spoken_phones(phone_model(), scores_of(samples, graph_of([])))
    edges = [0, *(behind for _, _, behind in spans)]
    assert [first for _, first, _ in spans] == edges[:-1]
    assert edges[-1] == 1 + (len(samples) - 410) // 160


def test_a_pause_belongs_to_no_word(samples):
    """Half a second of silence before the sentence and a second behind it."""
    padded = np.concatenate([np.zeros(8000), samples, np.zeros(16000)])
    padded += np.random.default_rng(1).normal(0, 5, len(padded))
    graph = graph_of(WORDS)
    found = word_spans(graph, scores_of(padded, graph))
    assert found is not None
    assert found[0][1] >= 45 and found[-1][2] <= 50 + len(samples) // 160 + 10


def test_the_way_to_say_a_word_that_sounds_is_taken(samples):
    """Of a right and a wrong one, whatever their order."""
    number = {name: at for at, name in enumerate(phone_model().phones)}
    right, wrong = (tuple(number[one] for one in dictionary()[word].split()) for word in ("bicycle", "motorboat"))
    others = [[tuple(number[one] for one in dictionary()[word].split())] for word in WORDS]
    for ways in ([right, wrong], [wrong, right]):
        graph = WordGraph.of(phone_model(), [*others[:5], ways, *others[6:]])
        either = word_spans(graph, scores_of(samples, graph))
        alone = graph_of(WORDS)
        assert either == word_spans(alone, scores_of(samples, alone))


def test_a_sound_that_is_too_short_has_neither_phones_nor_words(samples):
    graph = graph_of(WORDS)
    assert word_spans(graph, scores_of(samples[:4000], graph)) is None
    assert spoken_phones(phone_model(), scores_of(samples[:400], graph)) == []
    assert features(samples[:409]).shape == (3, 0, 13)
