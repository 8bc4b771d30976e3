"""Near duplicates of recordings: copies, excerpts and common parts, whatever was done to their sound.

Enters: mono 16 kHz samples. Leaves: prints "chromaprint" (from 2.7 s, a word each 124 ms) and "band-signs" (up to 32 s,
a word each 16 ms), and a matcher. Each method alone needs more evidence than both together; how much counts is a
question of how many words agree, so half a second must agree nearly wholly and half a minute by a third.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.audio import anchors as audio_anchors
from mmlake.dedup.audio import bands as audio_bands
from mmlake.dedup.audio import chroma as audio_chroma
from mmlake.dedup.audio.align import NOWHERE, Common, common_part, firm_bits, num_changes
from mmlake.dedup.audio.keys import Kind, are_strangers, keys_of, together
from mmlake.dedup.criteria import CLOSENESS, Criterion, length_of
from mmlake.dedup.matching import DECODERS_DB, HOLDS, INSIDE, NONE, OVERLAPS, SAME, Found, nothing
from mmlake.dedup.prints import DERIVED, KEYS, Positions, PrintTable, Ragged, digests_of
from mmlake.dedup.settings import DedupSettings
from mmlake.errors import UnreadableItem
from mmlake.spans import Sound, Span

METHOD, BANDS = "chromaprint", "band-signs"
ANCHORS = "anchor-levels"  # of a pair: no codec lies between the two (`anchors`)
METHODS = (METHOD, BANDS, ANCHORS)
PAIR_METHODS = (METHOD, BANDS, "chromaprint+band-signs", ANCHORS)
# What a copy lost for good comes first. Noise and music, which reach higher and last longer than the original, go
# before what they feign; the margin is what an equalizer changes. A copy made louder has gaps between its steps. A file
# without loss is no truer for that, as most edits are saved so whatever they were made of: what was coded from what is
# asked first, and whether a file is lossless last
FIDELITY = (
    Criterion(
        name="saved",
        column="",
        best="",
        recoded=ANCHORS,
        files=("lossless", "rate", "channels", "bandwidth", "sample_rate"),
        says="the lossy file that the other one was saved of",
    ),
    Criterion(name="bit_depth", column="bit_depth", tolerance=0, margin=0.5, says="more bits that say something"),
    Criterion(name="channels", column="num_true_channels", tolerance=0, says="more channels that differ"),
    Criterion(name="bandwidth", column="bandwidth_hz", tolerance=0.25, says="higher frequencies"),
    Criterion(name="noise", column="floor_db", best="low", tolerance=0, margin=8, says="quieter pauses"),
    Criterion(name="sample_rate", column="filled_hz", tolerance=0.25, says="nothing cut off above"),
    Criterion(name="length", column="sound_s", tolerance=0.09, margin=0.5, says="longer uncut"),
    Criterion(
        name="usual_length", column="duration_s", table="tracks", best="usual", tolerance=0.03, says="usual length"
    ),
    Criterion(
        name="padding", column="padding_s", best="low", tolerance=0, margin=0.5, says="less silence put around it"
    ),
    Criterion(
        name="clipping", column="clipped_fraction", best="low", tolerance=0, margin=0.0005, says="fewer tops cut off"
    ),
    Criterion(
        name="usual_loudness",
        column="rms_dbfs",
        best="usual",
        tolerance=0,
        margin=1.5,
        share=0.5,
        says="usual loudness",
    ),
    Criterion(name="loudness", column="rms_dbfs", tolerance=0, margin=5.5, says="recorded louder"),
    # of one recording at many rates the middle one is closest to the rest; what has four fifths more was coded from it,
    # or from nothing better
    Criterion(name="rate", column="coded_kbps", tolerance=0.44, says="more bits a second for its codec"),
    CLOSENESS,
    Criterion(name="lossless", column="is_lossless", tolerance=0, says="lossless over lossy"),
    Criterion(name="finer_rate", column="coded_kbps", tolerance=0.05, says="more bits a second for its codec"),
    length_of("duration_s"),
)
RATE_HZ = 16_000
_CHROMA, _BANDS, _BOTH, _ANCHORS = range(4)
_KEPT_ANCHORS = 4_096  # recordings, 3 kB each
_MAX_BANDS_S = 32.0  # longer recordings have evidence enough without them
_CHROMA_PART, _BANDS_PART = {"block": 32, "drift": 2, "window": 24}, {"block": 64, "drift": 4, "window": 8}
# two kinds of words at one place need less evidence of each
_CHROMA_WITNESS, _BANDS_WITNESS, _SAME_PLACE_S = 3.5, 5.0, 0.4
# the evidence of both, of what has noise or music underneath all along; sentences by one synthetic voice reach 7.7 only
# where they share a phrase, which is a fifth of them
_SUM_OF_WITNESSES, _EITHER_WITNESS, _THROUGHOUT = 8.0, 1.5, (0.8, 0.4)
_EVEN_CORRELATION, _EVEN_WORST, _EVEN_WORDS = 0.79, 0.72, 12
_BANDS_COVERED, _WHOLLY_COVERED, _LEAST_CHANGES = 0.83, 0.95, 0.3
# of what is shorter than a second (docs/dedup.md): words of band signs, and shares of the firm bits that differ in all
# and in the worst quarter
_WORD, _WORD_APART, _WORD_OPPOSED = 64, 4, (0.015, 0.04)
_NOISE_OPPOSED, _CUT_OPPOSED, _CUT_WORDS, _CUT_CORRELATION = (0.06, 0.09), (0.038, 0.05), (2, 3), 0.81
# what a codec of telephones leaves of a word: evidence, correlation and covered part at least, words,
# shares of the firm bits that differ in all and in the best quarter, and of the worst quarter over all
_CODED_EVIDENCE, _CODED_CORRELATION, _CODED_COVERED, _CODED_WORDS = 4.2, 0.68, 0.92, 36
_CODED_OPPOSED, _CODED_EVERYWHERE, _CODED_NOWHERE = 0.11, 0.005, 2.2
_EQUAL_CHANGES = 64  # signs: recordings whose prints are equal and change as often are one, however little is firm
_EXCERPT_S, _EXCERPT_COVERED = 2.5, 0.95
_LOST, _LOST_AT_CUTS_S, _MOST_LOST_S = 0.1, 1.5, 10.0
LEAST_SCORE = 0.3  # of a pair: the correlation below which a word belongs to no common part
_KINDS = (
    Kind(METHOD, 0, signs=13, lag=5, num=192, usual=256, every=2, least=0, around=np.arange(-8, 24), brief=0),
    # longer recordings have keys enough without them
    Kind(BANDS, 1, signs=14, lag=4, num=192, usual=625, every=0, least=192, around=np.arange(-16, 48, 2), brief=250),
)


def fingerprint(data: bytes) -> dict[str, NDArray[np.generic]]:
    """Method -> hashes of an audio blob (any file that libsndfile reads). Raises UnreadableItem."""
    return _of_sound(Sound(data))


def span_fingerprints(path: Path, spans: Sequence[Span]) -> Iterable[dict[str, NDArray[np.generic]]]:
    """The fingerprint of each span of the sound, in order; of a file whose samples are found without decoding it, as
    FLAC. Raises UnreadableItem."""
    return map(_of_sound, map(partial(Sound, path), spans))


def _of_sound(sound: Sound) -> dict[str, NDArray[np.generic]]:
    samples, rate_hz = sound.samples()
    if rate_hz != RATE_HZ:
        raise UnreadableItem(3001, f"sample_rate_hz={rate_hz} not in [{RATE_HZ}, {RATE_HZ}]")
    return fingerprint_samples(samples)


def fingerprint_samples(samples: NDArray[np.float32]) -> dict[str, NDArray[np.generic]]:
    """Method -> hashes of mono samples at 16 kHz; empty where nothing is audible."""
    chroma = audio_chroma.words(samples, RATE_HZ)
    is_brief = len(samples) <= _MAX_BANDS_S * RATE_HZ
    bands = audio_bands.words(samples) if is_brief else np.empty(0, np.uint64)
    if not firm_bits(chroma).any():
        chroma = np.empty(0, np.uint64)
    times_s = (np.arange(len(chroma)) * audio_chroma.STEP_S).astype(np.float32)
    return {METHOD: chroma, BANDS: bands, ANCHORS: audio_anchors.words(samples), "times_s": times_s}


class Recordings:
    """The matcher of recordings; positions are rows of the print table."""

    min_shared = 1
    neighbours = None
    is_mirrored = True  # the shorter one is laid along the longer one, whichever is asked for

    def __init__(self, prints: PrintTable, settings: DedupSettings) -> None:
        self._settings = settings
        self._chroma, self._bands = prints[METHOD], prints[BANDS]
        self._words = (self._chroma, self._bands)
        self._anchors = functools.lru_cache(maxsize=_KEPT_ANCHORS)(partial(_anchors_of, prints.get(ANCHORS)))
        known = prints.get(KEYS, prints.get(DERIVED))
        self.keys = keys(prints) if known is None else known
        digests = digests_of({METHOD: self._chroma, BANDS: self._bands})
        # units with equal prints have one number, which depends on what they hold alone
        self._prints = np.unique(digests, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)

    def compare(self, one: int, others: Positions) -> Found:
        """See `mmlake.dedup.matching.Matcher`."""
        _, first, place = np.unique(self._prints[others], return_index=True, return_inverse=True)
        found = nothing(len(first))
        spans_s = np.full((len(first), 4), np.nan, np.float32)
        others = others[first]
        is_alike = ~are_strangers(self._words, _KINDS, self.keys, one, others)
        for at, other in zip(np.flatnonzero(is_alike).tolist(), others[is_alike].tolist(), strict=True):
            # the shorter one is laid along the longer one, whichever of them is asked for
            is_short = self._size(one) <= self._size(other)
            short, long = (one, other) if is_short else (other, one)
            relation, score, method, span_s = self._compared(short, long)
            if not is_short:
                relation, span_s = {INSIDE: HOLDS, HOLDS: INSIDE}.get(relation, relation), (*span_s[2:], *span_s[:2])
            if relation == SAME and self._coded_db(one, other) <= DECODERS_DB:
                method = _ANCHORS
            found.relation[at], found.score[at], found.method[at] = relation, score, method
            if relation in (INSIDE, HOLDS, OVERLAPS):
                spans_s[at] = span_s
        return found._replace(spans_s=spans_s).at(place.reshape(-1))

    def made_of(self, copies: Positions, originals: Positions) -> NDArray[np.float64]:
        """See `mmlake.dedup.matching.MadeOf`."""
        pairs = zip(copies.tolist(), originals.tolist(), strict=True)
        return np.array([self._coded_db(copy, original) for copy, original in pairs], np.float64)

    def _coded_db(self, copy: int, original: int) -> float:
        return audio_anchors.coded_db(self._anchors(copy), self._anchors(original))

    def _size(self, at: int) -> tuple[int, int, int]:
        return len(self._chroma[at]), len(self._bands[at]), int(self._prints[at])

    def _says_enough(self, at: int) -> bool:
        """Whether no other recording has these prints by chance; those of a tone do not change."""
        words = max(self._bands[at], self._chroma[at], key=len)
        return bool(firm_bits(words).any()) and num_changes(words) >= _EQUAL_CHANGES

    def part_in(self, short: int, long: int) -> tuple[float, float, tuple[float, ...]]:
        """(share of the sound of the shorter one that the longer one has in one piece, how alike that is, its start and
        end in seconds in either); zeros where it has nothing."""
        chroma = _common(self._chroma, short, long, _CHROMA_PART)
        is_enough = chroma.evidence >= self._settings.audio_evidence
        bands = NOWHERE if is_enough else _common(self._bands, short, long, _BANDS_PART)
        if is_enough or _agree(chroma, bands):
            return chroma.covered[0], chroma.correlation, _chroma_spans_s(chroma)
        if _is_inside(bands, self._settings.audio_brief_evidence):
            return bands.covered[0], bands.correlation, _bands_spans_s(bands)
        return 0.0, 0.0, (0.0,) * 4

    def _compared(self, short: int, long: int) -> tuple[int, float, int, tuple[float, ...]]:
        """(relation of the shorter one to the longer one, score, method, spans in seconds)."""
        if self._prints[short] == self._prints[long] and self._says_enough(short):
            return SAME, 1.0, _CHROMA if len(self._chroma[short]) else _BANDS, (np.nan,) * 4
        chroma = _common(self._chroma, short, long, _CHROMA_PART)
        bands = _common(self._bands, short, long, _BANDS_PART)
        if chroma.evidence >= self._settings.audio_evidence:
            return _finer_relation(chroma, bands), chroma.correlation, _CHROMA, _chroma_spans_s(chroma)
        score = max(chroma.correlation * chroma.covered[0], bands.correlation * bands.covered[0], 0.0)
        if _agree(chroma, bands):
            relation = _finer_relation(chroma, bands)
            if relation != OVERLAPS:
                return relation, max(chroma.correlation, bands.correlation), _BOTH, _chroma_spans_s(chroma)
        length = min(len(self._bands[short]), len(self._bands[long]))
        if _is_same(bands, length, self._settings.audio_brief_evidence) or _is_coded(bands, length):
            return SAME, bands.correlation, _BANDS, _bands_spans_s(bands)
        if _is_inside(bands, self._settings.audio_brief_evidence):
            return INSIDE, bands.correlation, _BANDS, _bands_spans_s(bands)
        return NONE, score, _CHROMA, (np.nan,) * 4


def _anchors_of(prints: Ragged | None, at: int) -> audio_anchors.Anchors:
    """None of units that are compared by their words alone."""
    return audio_anchors.unpacked(np.empty(0, np.uint64) if prints is None else prints[at])


def matcher(prints: PrintTable, settings: DedupSettings) -> Recordings:
    """The matcher of these recordings."""
    return Recordings(prints, settings)


def keys(prints: PrintTable) -> Ragged:
    """The keys of each recording, of both kinds of words."""
    return together([keys_of(prints[kind.name], kind) for kind in _KINDS])


def _common(rows: Ragged, short: int, long: int, how: dict[str, int]) -> Common:
    one, other = rows[short], rows[long]
    if not len(one) or not len(other):
        return NOWHERE
    if len(one) <= len(other):
        return common_part(one, other, **how)
    found = common_part(other, one, **how)
    return found._replace(covered=found.covered[::-1], spans=(*found.spans[2:], *found.spans[:2]))


def _relation(common: Common, step_s: float) -> int:
    """SAME where either is covered, INSIDE where the shorter one is, HOLDS where only the longer one is."""
    short, long = (_is_covered(share, begin, end, step_s) for share, begin, end in _sides(common))
    return SAME if short and long else INSIDE if short else HOLDS if long else OVERLAPS


def _sides(common: Common) -> list[tuple[float, int, int]]:
    a, b, c, d = common.spans
    return [(common.covered[0], a, b), (common.covered[1], c, d)]


def _is_covered(share: float, begin: int, end: int, step_s: float) -> bool:
    return share > 0 and may_be_lost(1 - share, (end - begin) * step_s / max(share, 1e-9))


def may_be_lost(share: float, total_s: float) -> bool:
    """Whether so much of a recording may be in no common part: a tenth, a quarter of what is brief, never more than
    10 s. Words at a cut cover both sides of it."""
    return share * total_s <= min(max(_LOST * total_s, min(_LOST_AT_CUTS_S, 0.25 * total_s)), _MOST_LOST_S)


def _finer_relation(chroma: Common, bands: Common) -> int:
    """The relation by Chromaprint words, or by band signs that found the same place. A word of Chromaprint covers
    2.7 s, so silence around a brief recording is sound to it; band signs are lost in noise, which it is not."""
    by_chroma = _relation(chroma, audio_chroma.STEP_S)
    if bands.evidence < _BANDS_WITNESS or not _at_one_place(chroma, bands):
        return by_chroma
    by_bands = _relation(bands, audio_bands.STEP_S)
    return by_bands if by_bands == SAME or by_chroma == OVERLAPS else by_chroma


def _at_one_place(chroma: Common, bands: Common) -> bool:
    apart_s = (chroma.spans[2] - chroma.spans[0]) * audio_chroma.STEP_S
    apart_s -= (bands.spans[2] - bands.spans[0]) * audio_bands.STEP_S
    return abs(apart_s) <= _SAME_PLACE_S


def _agree(chroma: Common, bands: Common) -> bool:
    """Whether both kinds of words, neither of which is enough, are found at one place."""
    if not _at_one_place(chroma, bands):
        return False
    if chroma.evidence >= _CHROMA_WITNESS and bands.evidence >= _BANDS_WITNESS:
        return True
    by_chroma = chroma.evidence >= _CHROMA_WITNESS and chroma.covered[0] >= _THROUGHOUT[0]
    by_bands = chroma.evidence >= _EITHER_WITNESS and bands.covered[0] >= _THROUGHOUT[1]
    return chroma.evidence + bands.evidence >= _SUM_OF_WITNESSES and (by_chroma or by_bands)


def _is_same(bands: Common, length: int, evidence: float) -> bool:
    """Whether two brief recordings are one; length: words of the shorter one. Words by one synthetic voice that differ
    in a consonant agree but for a tenth of a second, so a part of a second must agree everywhere."""
    if min(bands.covered) < _BANDS_COVERED or max(bands.covered) < _WHOLLY_COVERED:
        return False
    if bands.num_changes < max(4, _LEAST_CHANGES * bands.num_words):
        return False
    if length < _WORD and not _is_word(bands):
        return False
    is_even = bands.correlation >= _EVEN_CORRELATION and bands.worst >= _EVEN_WORST
    return (is_even and bands.num_words >= _EVEN_WORDS) or bands.evidence >= evidence


def _is_word(bands: Common) -> bool:
    """Whether what agrees is one spoken word. Another consonant makes firm bits oppose each other, and an ending is as
    long as what a cut loses: where both begin and end together noise may oppose some bits, else hardly any may; forms
    of one word share their beginnings, so a cut beginning may oppose more than a cut end."""
    head, tail = bands.apart
    if head == tail == 0:
        bound, worst = _NOISE_OPPOSED
    elif tail <= 1 and head in _CUT_WORDS and bands.correlation >= _CUT_CORRELATION:
        bound, worst = _CUT_OPPOSED
    else:
        bound, worst = _WORD_OPPOSED
    return max(bands.apart) <= _WORD_APART and bands.opposed <= bound and bands.opposed_worst <= worst


def _is_coded(bands: Common, length: int) -> bool:
    """Whether two brief recordings are one that was coded for a telephone, which leaves less evidence than `_is_same`
    asks for: both begin and end together, and some firm bits oppose each other everywhere, nowhere many. Other words
    by one voice, as near as that, agree in all but one place."""
    return (
        length >= _CODED_WORDS
        and bands.num_changes >= _LEAST_CHANGES * bands.num_words
        and bands.evidence >= _CODED_EVIDENCE
        and bands.correlation >= _CODED_CORRELATION
        and min(bands.covered) >= _CODED_COVERED
        and max(bands.apart) <= 1
        and bands.opposed <= _CODED_OPPOSED
        and bands.opposed_best >= _CODED_EVERYWHERE
        and bands.opposed_worst <= _CODED_NOWHERE * bands.opposed
    )


def _is_inside(bands: Common, evidence: float) -> bool:
    """Whether the shorter one is an excerpt of the longer one, and long enough to be no word that both say."""
    is_long = bands.num_words * audio_bands.STEP_S >= _EXCERPT_S
    return is_long and bands.covered[0] >= _EXCERPT_COVERED and bands.evidence >= evidence


def _chroma_spans_s(common: Common) -> tuple[float, ...]:
    return _spans_s(common, audio_chroma.STEP_S, audio_chroma.SPAN_S)


def _bands_spans_s(common: Common) -> tuple[float, ...]:
    return _spans_s(common, audio_bands.STEP_S, audio_bands.SPAN_S)


def _spans_s(common: Common, step_s: float, word_s: float) -> tuple[float, ...]:
    """Start and end in the shorter, then in the longer one."""
    a, b, c, d = common.spans
    return a * step_s, (b - 1) * step_s + word_s, c * step_s, (d - 1) * step_s + word_s
