"""Cosines of pictures with words and sound, by tiny models of real configurations; a reason where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake import compute, schemas
from mmlake.compute import Executor
from mmlake.embed import EmbedSettings, embed, encode_text_query, model_measures
from mmlake.embed.agreement import PICTURE_SOUND, PICTURE_TEXT, THINGS, passages
from mmlake.modalities import MODALITIES
from mmlake.quality import judge, measure, with_measures
from mmlake.store import BlobStore
from tests import make
from tests.embed.tiny_models import picture, recording, saved

pytest.importorskip("torch")
SAID = "a photo of dog"


@pytest.fixture(autouse=True)
def _no_models_left():
    yield
    compute.forget_models()


@pytest.fixture
def films(tmp_path):
    """(store, tracks) of a film with words and sound, one without words, one without sound and pictures."""
    store = BlobStore(tmp_path / "blobs")
    frames = [{"time_s": 0.0, "digest": store.put(picture(seed)), "shot": 0} for seed in range(2)]
    base = {"modality": "video", "role": "media", "status": "ok", "size_bytes": 1, "transcript_source": "source"}
    sound = store.put(recording(1))
    rows = [
        base | {"digest": "a" * 64, "keyframes": frames, "audio_digest": sound, "transcript": SAID},
        base | {"digest": "b" * 64, "keyframes": frames, "audio_digest": sound},
        base | {"digest": "c" * 64, "transcript": SAID},
    ]
    return store, make.as_units(schemas.from_rows(schemas.TRACKS, rows))


def taken(films, settings: EmbedSettings):
    """(digest's first letter, measure) -> what was found."""
    store, tracks = films
    found = model_measures(
        tracks, "video", (PICTURE_TEXT, PICTURE_SOUND), store=store, executor=Executor("cpu"), settings=settings
    )
    return {(digest[0], one.measure): one for digest, one in found}


def weights(tmp_path, *names: str) -> EmbedSettings:
    models = {}
    for name in names:
        (tmp_path / name).mkdir()
        models |= saved(name, tmp_path / name).models
    return EmbedSettings(models=models)


def vector(films, settings: EmbedSettings, modality: str, encoder: str) -> np.ndarray:
    """Of the first film, as the embeddings step makes it."""
    store, tracks = films
    table = embed(
        tracks.slice(0, 1), modality, encoder=encoder, store=store, executor=Executor("cpu"), settings=settings
    )
    return np.array(table.column("vector").to_pylist()[0])


def test_the_cosine_is_that_of_the_vectors_of_keyframes_and_words(films, tmp_path) -> None:
    settings = weights(tmp_path, "clip")
    found = taken(films, settings)
    words = encode_text_query(SAID, encoder="clip", executor=Executor("cpu"), settings=settings)
    assert found["a", PICTURE_TEXT].value == pytest.approx(vector(films, settings, "video", "clip") @ words, abs=1e-4)
    assert (found["a", PICTURE_TEXT].producer, found["a", PICTURE_TEXT].revision[:7]) == ("clip", "sha256:")
    assert [found[one, PICTURE_TEXT].value for one in "bc"] == [None, None]
    assert found["b", PICTURE_TEXT].note == "no transcript to compare"
    assert found["c", PICTURE_TEXT].note == "num_keyframes=0 not in [1, inf)"
    assert {found[one, PICTURE_SOUND].note for one in "abc"} == {
        "no encoder of sounds and texts in embed.models, such as clap"
    }


def test_pictures_and_sounds_are_compared_by_what_both_have_to_do_with(films, tmp_path) -> None:
    settings = weights(tmp_path, "clip", "clap")
    found = taken(films, settings)

    executor = Executor("cpu")  # it keeps what it loaded

    def profile(of: np.ndarray, encoder: str, phrase: str) -> np.ndarray:
        cosines = [
            of @ encode_text_query(phrase.format(one), encoder=encoder, executor=executor, settings=settings)
            for one in THINGS
        ]
        return np.array(cosines) - np.mean(cosines)

    seen = profile(vector(films, settings, "video", "clip"), "clip", "a photo of {}")
    sounding = profile(vector(films, settings, "audio", "clap"), "clap", "the sound of {}")
    expected = seen @ sounding / np.linalg.norm(seen) / np.linalg.norm(sounding)
    assert found["a", PICTURE_SOUND].value == pytest.approx(expected, abs=0.02)
    assert found["b", PICTURE_SOUND].value == pytest.approx(
        found["a", PICTURE_SOUND].value, abs=1e-4
    )  # words do not matter
    assert found["c", PICTURE_SOUND].value is None and found["a", PICTURE_SOUND].producer == "clip+clap"


def test_without_weights_the_measures_are_null_with_the_setting_to_change_and_break_no_rule(films) -> None:
    store, tracks = films
    found = model_measures(
        tracks, "video", (PICTURE_TEXT, PICTURE_SOUND), store=store, executor=Executor("cpu"), settings=EmbedSettings()
    )
    rows = [{"digest": digest, "measure": one.measure, "value": one.value, "note": one.note,
             "producer": one.producer, "revision": one.revision} for digest, one in found]  # fmt: skip
    assert len(rows) == 6 and all(row["value"] is None and "embed.models" in row["note"] for row in rows)
    measures = with_measures(measure(tracks, [], store=store), rows)
    rules = [rule for rule in MODALITIES["video"].rules if rule.measure in (PICTURE_TEXT, PICTURE_SOUND)]
    assert len(rules) == 2
    assert set(judge(tracks, measures, rules).column("status").to_pylist()) == {"ok"}


def test_long_transcripts_are_read_in_passages_over_their_length() -> None:
    words = [str(number) for number in range(1000)]
    found = passages(" ".join(words))
    assert len(found) == 8 and found[0].split() == words[:40] and found[-1].split()[-1] == "999"
    assert passages("  ") == []
