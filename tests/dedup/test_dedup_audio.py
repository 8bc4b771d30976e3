"""Near duplicates of recordings, on generated material with labelled distortions."""

from __future__ import annotations

import io
import subprocess

import imageio_ffmpeg
import numpy as np
import pytest

from mmlake.dedup import DedupSettings
from mmlake.dedup.audio import chroma, fingerprints
from mmlake.dedup.audio.align import Common
from mmlake.dedup.audio.keys import keys_of
from mmlake.dedup.matching import HOLDS, INSIDE, OVERLAPS, SAME
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Ragged
from mmlake.errors import UnreadableItem

SETTINGS = DedupSettings()
RATE = 16_000


def voice(seed, seconds=1.2):
    """Sound with changing pitch and formants, as speech has."""
    rng = np.random.default_rng(seed)
    time = np.arange(int(seconds * RATE)) / RATE
    knots = np.linspace(0, seconds, 4 + int(8 * seconds))  # eight syllables a second
    pitch = np.interp(time, knots, rng.uniform(90, 260, len(knots)))
    out = np.zeros_like(time)
    for k in range(1, 14):
        out += (
            np.interp(time, knots, rng.uniform(0, 1, len(knots)) ** 3)
            * np.sin(2 * np.pi * k * np.cumsum(pitch) / RATE)
            / k**0.5
        )
    return (0.2 * out / np.abs(out).max()).astype(np.float32)


def matcher(sounds):
    prints = [fingerprints.fingerprint_samples(one) for one in sounds]
    return fingerprints.matcher(
        {name: Ragged.of([one[name] for one in prints]) for name in fingerprints.METHODS}, SETTINGS
    )


def relations(sounds):
    """(i, j) -> how i relates to j, of all pairs that relate at all."""
    found, num = matcher(sounds), len(sounds)
    rows = {i: found.compare(i, np.arange(num)).relation for i in range(num)}
    return {(i, j): int(rows[i][j]) for i in range(num) for j in range(i + 1, num) if rows[i][j]}


def audio_pairs(sounds):
    """Pairs of which one may go."""
    return {pair for pair, relation in relations(sounds).items() if relation != OVERLAPS}


@pytest.mark.parametrize("seconds", [0.4, 1.2, 5.0])
def test_gain_noise_trim_and_padding_are_found_and_other_recordings_are_not(seconds):
    """Labelled pairs: 8 recordings x 4 distortions at three lengths; precision and recall against the original 1."""
    rng = np.random.default_rng(0)
    originals = [voice(seed, seconds) for seed in range(8)]
    sounds, labels = list(originals), list(range(8))
    for label, one in enumerate(originals):
        noise = rng.normal(0, np.sqrt((one**2).mean()) / 10, len(one)).astype(np.float32)
        sounds += [0.3 * one, one + noise, one[len(one) // 10 :], np.concatenate([np.zeros(3_000, np.float32), one])]
        labels += [label] * 4
    pairs = audio_pairs(sounds)
    assert all(labels[i] == labels[j] for i, j in pairs)
    assert all((label, at) in pairs for at, label in enumerate(labels) if at >= 8)


def test_silence_and_nothing_never_pair():
    quiet = np.zeros(RATE, np.float32)
    assert audio_pairs([quiet, quiet + np.float32(1e-6), np.empty(0, np.float32), voice(1)]) == set()


def test_steady_tones_of_different_pitch_do_not_pair():
    time = np.arange(RATE) / RATE
    tones = [0.5 * np.sin(2 * np.pi * hertz * time).astype(np.float32) for hertz in (440, 466.2, 880)]
    assert audio_pairs(tones) == set()


def test_an_excerpt_of_less_than_half_is_a_part_and_no_duplicate():
    long = voice(3, 6.0)
    assert audio_pairs([long, long[: 2 * RATE]]) == set()


def test_a_recording_at_another_rate_is_refused():
    import soundfile

    buffer = io.BytesIO()
    soundfile.write(buffer, np.zeros(100), 8_000, format="WAV")
    with pytest.raises(UnreadableItem, match="sample_rate_hz=8000"):
        fingerprints.fingerprint(buffer.getvalue())


def song(seed, seconds):
    """Chords, a melody and drums."""
    rng = np.random.default_rng(seed)
    beat_s, out = rng.uniform(0.3, 0.6), np.zeros(int((seconds + 4) * RATE))
    for beat in range(int(seconds / beat_s)):
        at, time = int(beat * beat_s * RATE), np.arange(int(beat_s * 1.5 * RATE)) / RATE
        for hertz in 110 * 2 ** (rng.choice([0, 2, 4, 5, 7, 9, 11, 12, 16, 19], 3) / 12):
            tone = sum(np.sin(2 * np.pi * k * hertz * time) / k for k in range(1, 6))
            out[at : at + len(time)] += tone * np.exp(-3 * time)
        out[at : at + 800] += rng.normal(0, 2, 800) * np.exp(-np.arange(800) / 150)
    return (0.3 * out[: int(seconds * RATE)] / np.abs(out).max()).astype(np.float32)


def test_the_signs_are_chromaprint_bit_for_bit():
    """Reference: FFmpeg's muxer, which is libchromaprint, on samples at its own rate."""
    import imageio_ffmpeg
    import soxr

    for samples in (song(1, 12.0), voice(2, 8.0), np.concatenate([np.zeros(2 * RATE, np.float32), voice(3, 6.0)])):
        pcm = np.clip(np.rint(soxr.resample(samples, RATE, 11_025) * 32_767), -32_768, 32_767).astype("<i2")
        program = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-f", "s16le", "-ar", "11025", "-ac", "1", "-i", "-"]
        run = subprocess.run(
            [*program, "-f", "chromaprint", "-fp_format", "raw", "-"],
            input=pcm.tobytes(),
            capture_output=True,
            check=True,
        )
        assert np.array_equal(chroma.words(samples, RATE).astype(np.uint32), np.frombuffer(run.stdout, "<u4"))


def faster(samples, factor):
    import soxr

    return soxr.resample(samples, RATE * factor, RATE).astype(np.float32)


def test_noise_speed_and_music_underneath_are_found_from_ten_seconds():
    """Labelled: 2 songs and 2 voices of 12 s, 5 distortions each; recall and precision 1."""
    rng = np.random.default_rng(0)
    originals = [make(seed, 12.0) for make in (song, voice) for seed in range(2)]
    sounds, labels = list(originals), list(range(4))
    for label, one in enumerate(originals):
        level = np.sqrt((one**2).mean())
        under = song(100 + label, 12.0)
        sounds += [
            one + rng.normal(0, level * 10**-0.5, len(one)).astype(np.float32),
            faster(one, 1.01),
            faster(one, 0.99),
            np.round(one * 127) / 127,
            one + 0.5 * under * level / np.sqrt((under**2).mean()),
        ]
        labels += [label] * 5
    found = matcher(sounds)
    for label in range(4):
        same = np.isin(found.compare(label, np.arange(len(sounds))).relation, (SAME, INSIDE, HOLDS))
        assert np.array_equal(same, np.array(labels) == label)


def test_an_excerpt_lies_inside_its_song_and_says_where():
    whole = song(5, 60.0)
    found = matcher([whole[20 * RATE : 31 * RATE], whole, song(6, 60.0)]).compare(0, np.array([1, 2]))
    assert found.relation.tolist() == [INSIDE, 0]
    assert np.allclose(found.spans_s[0], [0, 11, 20, 31], atol=0.7)


def test_silence_put_around_a_brief_recording_makes_it_no_whole_of_which_that_is_a_part():
    """A part never stays for its whole, so the original would go."""
    for seconds in (3.0, 5.0):
        one, silence = voice(11, seconds), np.zeros(RATE, np.float32)
        assert relations([one, np.concatenate([silence, one, silence])]) == {(0, 1): SAME}


def test_noise_and_music_all_along_a_recording_of_five_seconds_are_found():
    """The evidence of both kinds of words counts together where they find one place."""
    rng, originals = np.random.default_rng(3), [voice(seed, 5.0) for seed in (21, 22)] + [song(23, 5.0), song(24, 5.0)]
    copies = []
    for at, one in enumerate(originals):
        level, music = float(np.sqrt((one**2).mean())), song(30 + at, 5.0)
        copies.append((one + rng.normal(0, level * 10**-0.5, len(one))).astype(np.float32))
        copies.append(one + 0.5 * level / float(np.sqrt((music**2).mean())) * music)
    found = relations(originals + copies)
    assert {(at % 4, 4 + 2 * (at % 4) + at // 4) for at in range(8)} <= set(found)
    assert all(i >= 4 or (j - 4) // 2 == i for i, j in found)


def test_a_common_jingle_is_evidence_and_loses_nobody():
    jingle = song(7, 9.0)
    sounds = [np.concatenate([jingle, voice(1, 20.0)]), np.concatenate([voice(2, 15.0), jingle, voice(3, 9.0)])]
    found = matcher(sounds).compare(0, np.array([1]))
    assert found.relation.tolist() == [OVERLAPS]
    assert np.allclose(found.spans_s[0], [0, 9, 15, 24], atol=2.7)


def test_a_comparison_is_the_mirror_image_of_its_inverse():
    whole = song(8, 30.0)
    sounds = [whole, whole[5 * RATE : 20 * RATE], 0.5 * whole, voice(4, 30.0), voice(5, 1.0), voice(5, 1.0)[:14_000]]
    found = matcher(sounds)
    for i in range(len(sounds)):
        for j in range(len(sounds)):
            if i != j:
                one, other = found.compare(i, np.array([j])), found.compare(j, np.array([i])).mirrored()
                assert one.relation[0] == other.relation[0] and one.score[0] == pytest.approx(other.score[0])


@pytest.mark.parametrize(
    "make",
    [
        lambda at: np.zeros(6 * RATE, np.float32),
        lambda at: (0.3 * np.sin(2 * np.pi * (50 + 0.01 * at) * np.arange(6 * RATE) / RATE)).astype(np.float32),
        lambda at: np.random.default_rng(at).normal(0, 0.1, 6 * RATE).astype(np.float32),
    ],
    ids=["silence", "hum", "noise"],
)
def test_silence_hum_and_noise_are_no_duplicates_of_their_kind(make):
    assert relations([make(at) for at in range(8)]) == {}


def random_words(rng, num):
    """Words that change as slowly as real ones do, all firm."""
    flips = rng.random((num, 32)) < 0.15
    bits = (np.cumsum(flips, axis=0) + rng.integers(0, 2, 32)) % 2
    signs = (bits.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1, dtype=np.uint64)
    return signs | np.uint64(0xFFFFFFFF << 32)


def copy_of(rng, words, weak=0.23, firm=0.042):
    """Signs turned, weak ones before firm ones, in shares that were measured of noise at 10 dB."""
    draws, is_firm = rng.random((len(words), 32)), (words[:, None] >> np.arange(32, 64, dtype=np.uint64)) & 1
    turned = (draws < np.where(is_firm, firm, weak)) @ (1 << np.arange(32, dtype=np.uint64))
    return words ^ turned.astype(np.uint64)


def partly_firm(rng, words):
    mask = (rng.random((len(words), 32)) < 0.75) @ (1 << np.arange(32, dtype=np.uint64))
    return words & (mask.astype(np.uint64) << np.uint64(32) | np.uint64(0xFFFFFFFF))


@pytest.mark.parametrize("num", [200, 2_000])
def test_candidates_are_found_however_many_strangers_there_are(num):
    """Every copy with an eleventh of its signs turned is among the best candidates of its original."""
    rng = np.random.default_rng(num)
    rows = [partly_firm(rng, random_words(rng, 150)) for _ in range(num)]
    rows += [copy_of(rng, rows[at]) for at in range(20)]
    found = fingerprints.matcher(
        {fingerprints.METHOD: Ragged.of(rows), fingerprints.BANDS: Ragged.empty(num + 20)}, SETTINGS
    )
    postings = Postings(found.keys)
    postings.add_all(np.arange(num))
    others = [postings.sharing(num + at) for at in range(20)]
    assert sum(units[np.argmax(shared)] == at for at, (units, shared) in enumerate(others) if len(units)) >= 19


@pytest.mark.parametrize("kind", fingerprints._KINDS, ids=[kind.name for kind in fingerprints._KINDS])
def test_keys_of_a_recording_depend_on_no_other_one(kind):
    """So that what comes later changes none, and costs its own keys alone."""
    rng = np.random.default_rng(1)
    rows = [random_words(rng, num) for num in (5, 40, 40, 300, 2_000)]
    rows.append(rows[1].copy())
    together = keys_of(Ragged.of(rows), kind)
    assert all(np.array_equal(together[at], keys_of(Ragged.of([row]), kind)[0]) for at, row in enumerate(rows))
    assert np.array_equal(together[1], together[5]) and len(together[1])


def test_a_recording_has_a_few_keys_and_a_long_one_some_for_each_second():
    """Of half a minute 3 KB at most, of a quarter of an hour no more than eight bytes for a quarter of a second."""
    rng = np.random.default_rng(2)
    prints = {fingerprints.METHOD: Ragged.of([random_words(rng, num) for num in (120, 240, 7_200)])}
    prints[fingerprints.BANDS] = Ragged.of([random_words(rng, num) for num in (930, 1_900, 0)])
    lengths = fingerprints.keys(prints).lengths
    assert lengths.tolist() == [192 + 192, 192 + 192, 192 + (7_200 - 256) // 2]


def test_strangers_that_share_a_key_by_chance_are_not_laid_along_each_other(monkeypatch):
    """Two hundred pairs of strangers with a few keys in common; a copy of a part is compared."""
    rng = np.random.default_rng(3)
    rows = [random_words(rng, 150) for _ in range(201)]
    for row in rows[1:200]:
        row[40:46] = rows[0][40:46]
    rows[200] = copy_of(rng, rows[0])
    rows[200][60:] = random_words(rng, 90)
    found = fingerprints.matcher(
        {fingerprints.METHOD: Ragged.of(rows), fingerprints.BANDS: Ragged.empty(201)}, SETTINGS
    )
    found.keys = keys_of(Ragged.of(rows), fingerprints._KINDS[0]._replace(num=10_000, usual=10_000))
    shared = [len(np.intersect1d(found.keys[0], found.keys[at])) for at in range(1, 201)]
    few = np.array([at for at, num in enumerate(shared[:199], 1) if 0 < num <= 8])
    compared = []
    monkeypatch.setattr(
        fingerprints.Recordings, "_compared", lambda _, *args: compared.append(args) or (0, 0.0, 0, (0,) * 4)
    )
    assert len(few) > 150
    found.compare(0, few)
    assert len(compared) <= len(few) // 20
    found.compare(0, np.array([200]))
    assert set(compared[-1]) == {0, 200}


def test_a_tone_has_no_keys():
    time = np.arange(2 * RATE) / RATE
    tones = [(0.3 * np.sin(2 * np.pi * hertz * time)).astype(np.float32) for hertz in (440, 440.5, 441)]
    assert not matcher(tones).keys.lengths.any()


def test_equal_recordings_are_compared_once(monkeypatch):
    compared = []
    measured = fingerprints.Recordings._compared
    monkeypatch.setattr(fingerprints.Recordings, "_compared", lambda *args: compared.append(args) or measured(*args))
    found = matcher([voice(1)] * 5 + [voice(2)]).compare(0, np.arange(1, 6))
    assert found.relation.tolist() == [SAME] * 4 + [0] and len(compared) == 2


def relation_of_words(one, other):
    prints = {fingerprints.METHOD: Ragged.empty(2), fingerprints.BANDS: Ragged.of([one, other])}
    return int(fingerprints.matcher(prints, SETTINGS).compare(0, np.array([1])).relation[0])


@pytest.mark.parametrize(
    "num_faint, num_opposed, expected", [(0, 0, SAME), (3, 0, SAME), (7, 0, 0), (3, 4, 0), (0, 4, SAME)]
)
def test_words_are_one_where_they_end_together_or_no_bits_oppose_each_other(num_faint, num_opposed, expected):
    """Half a second; a faint ending of 48 ms is what a cut loses, one of 112 ms is another form of the word, and a
    consonant of 64 ms in which 5 of 32 signs differ is one where the end differs too."""
    rng = np.random.default_rng(3)
    word, faint = random_words(rng, 34), random_words(rng, num_faint) & np.uint64(0xFFFFFFFF)
    other = np.concatenate([word, faint])
    other[14 : 14 + num_opposed] ^= np.uint64(0b11111 << 9)
    assert relation_of_words(word, other) == relation_of_words(other, word) == expected


def coded(samples, encode, container):
    """What a codec of telephones leaves, by the program of imageio-ffmpeg."""

    def run(data, *options):
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", *options, "pipe:1"]
        return subprocess.run(command, input=data, capture_output=True, check=True).stdout

    raw = ("-f", "f32le", "-ar", str(RATE), "-ac", "1")
    sent = run(samples.astype("<f4").tobytes(), *raw, "-i", "pipe:0", "-ar", "8000", *encode, "-f", container)
    return np.frombuffer(run(sent, "-f", container, "-i", "pipe:0", *raw), "<f4").copy()


@pytest.mark.parametrize(
    ("seconds", "encode", "container"),
    [
        (1.0, ("-c:a", "libopencore_amrnb", "-b:a", "12.2k"), "amr"),
        (0.7, ("-c:a", "g726", "-b:a", "24k"), "wav"),
    ],
    ids=["AMR", "G.726"],
)
def test_a_word_by_telephone_is_the_same_word_and_no_other(seconds, encode, container):
    words = [voice(seed, seconds) for seed in range(8)]
    calls = [coded(word, encode, container) for word in words]
    assert audio_pairs([*words, *calls]) == {(at, at + 8) for at in range(8)}


@pytest.mark.parametrize(
    ("is_everywhere", "expected"), [(True, SAME), (False, 0)], ids=["a bit in each word", "all in one place"]
)
def test_words_that_oppose_each_other_everywhere_are_one_and_in_one_place_are_two(is_everywhere, expected):
    rng = np.random.default_rng(3)
    word = random_words(rng, 40)
    turned = np.uint64(1) << rng.integers(0, 32, 40).astype(np.uint64)
    weak = np.uint64(0xFF) << rng.integers(0, 25, 40).astype(np.uint64)  # no longer firm
    other = word & ~(weak << np.uint64(32))
    if is_everywhere:
        other = other ^ turned ^ np.roll(turned, 1)
    else:
        other[16:24] ^= np.uint64(0b1111100000)
    assert relation_of_words(word, other) == relation_of_words(other, word) == expected


def test_what_hardly_changes_is_no_word_by_telephone():
    """A hum of 2.4 s that turns now and then agrees as a copy does."""
    bands = Common(0.75, 0.6, 144, 12, (1.0, 1.0), (0, 144, 0, 144), 0.05, 0.08, 0.02)
    assert fingerprints._is_coded(bands._replace(num_changes=144), 144) and not fingerprints._is_coded(bands, 144)


@pytest.mark.parametrize("seed", range(6))
def test_a_word_between_digital_silence_is_the_same_word(seed):
    word, silence = voice(seed, 0.45), np.zeros(6_000, np.float32)
    assert audio_pairs([word, np.concatenate([silence, word, silence])]) == {(0, 1)}


def test_equal_prints_of_which_little_is_firm_are_one_and_those_of_a_tone_are_not():
    rng, time = np.random.default_rng(5), np.arange(24_000) / RATE
    beeps = [
        (0.3 * np.sin(2 * np.pi * 900 * time) * (time < 0.5) + rng.normal(0, 0.01, len(time))).astype(np.float32)
        for _ in range(6)
    ]
    found = matcher([*beeps, *beeps])
    assert all(found.compare(at, np.array([at + 6])).relation[0] == SAME for at in range(6))
    tone = (0.3 * np.sin(2 * np.pi * 440 * time)).astype(np.float32)
    assert audio_pairs([tone, tone.copy()]) == set()
