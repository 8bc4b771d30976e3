"""The acoustic model that the package pocketsphinx carries (US English, phonetically tied mixtures), as arrays.

Enters: the files of the model. Leaves: the words of its dictionary, which states a phone between two others has, and
how well each frame of features fits a state. pocketsphinx evaluates Gaussians one by one; as products of matrices they
cost a tenth of that.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

# T frames, P = 42 phones, D = 128 densities of a phone's codebook, F = 3 streams of features, K = 13 features of one,
# S states (tied; the model calls them senones)
NUM_STATES = 3  # of a phone, one after the other
INSIDE, FIRST, LAST, ALONE = range(4)  # place of a phone in its word
_LOG_BASE = np.log(1.0001)  # of scores in the model's files and of its language model
_LOG_STEP = 1024 * _LOG_BASE  # of mixture weights, kept in eight bits
# To each density e^-9.83 of the frame's best one is added: the model is meant for scores of eight bits, which end there
_LEAST = np.float32(np.exp(-96 * _LOG_STEP))
_MIN_VARIANCE, _MIN_TRANSITION = 1e-4, 1e-4
_CHUNK_FRAMES = 64  # whose densities stay in the processor's cache
_LANGUAGE_WEIGHT, _INSERTION = 2.0, np.log(0.65)  # of the phone loop; chosen on benchmarks/alignment.py --fit


class Scores(NamedTuple):
    """How well frames fit states: logarithms of likelihoods, up to a constant of each frame."""

    column_of: np.ndarray  # int32, of each state of the model; -1 where it was not asked for
    values_TS: np.ndarray  # float32


@dataclass(frozen=True, slots=True)
class PhoneModel:
    """The model."""

    phones: tuple[str, ...]  # the dictionary's, and a silence and two noises
    is_filler_P: np.ndarray  # silence and noises
    transitions_P: np.ndarray  # float32 (P, 3, 2): logarithms of staying in a state and of leaving it
    trigrams: np.ndarray  # float32 (P, P, P): logarithm that the last phone follows the first two
    _phone_of: np.ndarray  # int32 (4, P, P, P): row of _states, by place, phone, the one before and the one behind
    _states: np.ndarray  # int64 (number of phones in context, 3)
    _codebook_S: np.ndarray  # phone whose densities a state mixes
    _gaussians: np.ndarray  # float32 (F, 2 K + 1, P D): factors of squares, of values, of 1
    _weights: np.ndarray  # float32 (F, S, D)
    _found: dict[tuple[int, int, int, int], tuple[int, int, int]] = field(default_factory=dict)

    @property
    def silence(self) -> int:
        """Its number among the phones."""
        return self.phones.index("SIL")

    @property
    def states_P(self) -> np.ndarray:
        """The states of each phone whatever its neighbours are, shape (P, 3)."""
        return self._states[: len(self.phones)]

    def states_between(self, place: int, phone: int, before: int, behind: int) -> tuple[int, int, int]:
        """The states of a phone next to two others: of the nearest that the model knows."""
        key = (place, phone, before, behind)
        if key not in self._found:
            first, second, third = self._states[self._nearest(*key)].tolist()
            self._found[key] = (first, second, third)
        return self._found[key]

    def _nearest(self, place: int, phone: int, before: int, behind: int) -> int:
        before, behind = (self.silence if self.is_filler_P[one] else one for one in (before, behind))
        at_edges = (
            self.silence if place in (FIRST, ALONE) else before,
            self.silence if place in (LAST, ALONE) else behind,
        )
        for left, right in ((before, behind), at_edges):
            for other in (place, INSIDE, FIRST, LAST, ALONE):
                if (row := int(self._phone_of[other, phone, left, right])) >= 0:
                    return row
        return phone

    def scores(self, features_FTK: np.ndarray, wanted: np.ndarray) -> Scores:
        """How well each frame fits each of these states."""
        order_S = np.unique(wanted)
        order_S = order_S[np.argsort(self._codebook_S[order_S], kind="stable")]
        column_of = np.full(len(self._codebook_S), -1, np.int32)
        column_of[order_S] = np.arange(len(order_S))
        codebooks, starts = np.unique(self._codebook_S[order_S], return_index=True)
        edges = list(zip(codebooks.tolist(), starts.tolist(), [*starts[1:].tolist(), len(order_S)], strict=True))
        weights_FSD = self._weights[:, order_S]
        least_FS = _LEAST * weights_FSD.sum(axis=2)
        found_TS = np.zeros((features_FTK.shape[1], len(order_S)), np.float32)
        num = weights_FSD.shape[2]
        for start in range(0, len(found_TS), _CHUNK_FRAMES):
            values_FTK = features_FTK[:, start : start + _CHUNK_FRAMES]
            for values_TK, gaussians, weights_SD, least_S in zip(
                values_FTK, self._gaussians, weights_FSD, least_FS, strict=True
            ):
                ones = np.ones((len(values_TK), 1), np.float32)
                density_T = np.concatenate([values_TK * values_TK, values_TK, ones], axis=1) @ gaussians
                density_T -= density_T.max(axis=1, keepdims=True)
                np.exp(density_T, out=density_T)
                mixed_TS = np.empty((len(values_TK), len(order_S)), np.float32)
                for one, first, last in edges:
                    mixed_TS[:, first:last] = density_T[:, one * num : (one + 1) * num] @ weights_SD[first:last].T
                mixed_TS += least_S
                found_TS[start : start + len(values_TK)] += np.log(mixed_TS, out=mixed_TS)
        return Scores(column_of, found_TS)


@functools.lru_cache(maxsize=1)
def phone_model() -> PhoneModel:
    """The model, read once in a process: 20 MB."""
    from pocketsphinx import get_model_path

    folder = Path(get_model_path("en-us/en-us"))
    names, rows, states = _definition((folder / "mdef").read_bytes())
    is_filler = rows["what"][: len(names), 0] == 1
    known = rows[len(names) :]
    phone_of = np.full((4, *[len(names)] * 3), -1, np.int32)
    place, phone, before, behind = known["what"].T
    phone_of[place, phone, before, behind] = np.arange(len(names), len(rows))
    of_rows = states[rows["states"]].astype(np.int64)
    codebook = np.zeros(states.max() + 1, np.int64)
    codebook[of_rows] = np.concatenate([np.arange(len(names)), phone])[:, None]
    return PhoneModel(
        names,
        is_filler,
        _transitions((folder / "transition_matrices").read_bytes())[rows["transitions"][: len(names)]],
        _trigrams(names, get_model_path("en-us/en-us-phone.lm.bin")),
        phone_of,
        of_rows,
        codebook,
        _gaussian_factors((folder / "means").read_bytes(), (folder / "variances").read_bytes()),
        _mixture_weights((folder / "sendump").read_bytes(), len(codebook)),
    )


@functools.lru_cache(maxsize=1)
def dictionary() -> dict[str, str]:
    """Words in lower case and their phones; further ways to say one as `word(2)`, `word(3)`."""
    from pocketsphinx import get_model_path

    lines = Path(get_model_path("en-us/cmudict-en-us.dict")).read_text(encoding="utf-8").splitlines()
    return {word: phones for word, _, phones in (line.partition(" ") for line in lines)}


def _definition(data: bytes) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """(names of the phones; of them and of each phone in context its sequence of states, transitions, place and
    neighbours; sequences of states) of a binary model definition."""
    start = 12 + int.from_bytes(data[8:12], "little")  # behind byte order, version and a description of the format
    num_phones, num_rows, _, _, _, _, num_sequences, _, num_nodes, _ = np.frombuffer(data, "<i4", 10, start).tolist()
    start += 40
    names = data[start:].split(b"\0", num_phones)[:num_phones]
    at = start + -(-sum(len(name) + 1 for name in names) // 4) * 4 + 8 * num_nodes  # a search tree of 8 bytes a node
    kind = np.dtype([("states", "<i4"), ("transitions", "<i4"), ("what", "u1", 4)])
    rows = np.frombuffer(data, kind, num_rows, at)
    sequences = np.frombuffer(data, "<u2", num_sequences * NUM_STATES, at + rows.nbytes + 4)
    return tuple(name.decode() for name in names), rows, sequences.reshape(-1, NUM_STATES)


def _numbers(data: bytes, num_sizes: int) -> tuple[list[int], np.ndarray]:
    """(sizes, all numbers) of a file of arrays: text, a mark of the byte order, sizes, a count, floats, a checksum."""
    at = data.index(b"endhdr\n") + 7 + 4
    sizes = np.frombuffer(data, "<i4", num_sizes, at).tolist()
    (count,) = np.frombuffer(data, "<i4", 1, at + 4 * num_sizes).tolist()
    return sizes, np.frombuffer(data, "<f4", count, at + 4 * num_sizes + 4)


def _transitions(data: bytes) -> np.ndarray:
    (num, num_from, num_to), counts = _numbers(data, 3)
    share = counts.reshape(num, num_from, num_to).astype(np.float64)
    share /= share.sum(axis=2, keepdims=True)
    at = np.arange(num_from)
    found = np.stack([share[:, at, at], share[:, at, at + 1]], axis=2)
    return np.asarray(np.log(np.maximum(found, _MIN_TRANSITION)), np.float32)


def _gaussian_factors(means: bytes, variances: bytes) -> np.ndarray:
    """Factors of (squares, values, 1) whose sum is the logarithm of each density."""
    (num_books, num_streams, num_densities, *lengths), mean = _numbers(means, 3 + 3)
    _, variance = _numbers(variances, 3 + 3)
    shape = (num_books, num_streams, num_densities, lengths[0])
    mean_PFDK = mean.reshape(shape).astype(np.float64)
    precision_PFDK = 1 / np.maximum(variance.reshape(shape).astype(np.float64), _MIN_VARIANCE)
    constant = 0.5 * (np.log(precision_PFDK / (2 * np.pi)) - mean_PFDK**2 * precision_PFDK).sum(axis=3, keepdims=True)
    factors = np.concatenate([-0.5 * precision_PFDK, mean_PFDK * precision_PFDK, constant], axis=3)
    by_stream = factors.transpose(1, 3, 0, 2).reshape(num_streams, 2 * lengths[0] + 1, -1)
    return np.ascontiguousarray(by_stream, dtype=np.float32)


def _mixture_weights(data: bytes, num_states: int) -> np.ndarray:
    """Weights, float32 (F, S, D); the file has lines of text, each behind its length, and then logarithms."""
    at = 0
    while length := int.from_bytes(data[at : at + 4], "little"):
        at += 4 + length
    num_densities, num_columns = np.frombuffer(data, "<i4", 2, at + 4).tolist()
    logs = np.frombuffer(data, np.uint8, offset=at + 12).reshape(-1, num_densities, num_columns)[:, :, :num_states]
    return np.asarray(np.exp(-_LOG_STEP * np.ascontiguousarray(logs.transpose(0, 2, 1))), np.float32)


def _trigrams(names: Sequence[str], path: str) -> np.ndarray:
    """Weighted logarithms; noises are silence to the language model. It is asked for each of 74,000, which takes
    a tenth of a second."""
    from pocketsphinx import NGramModel

    model = NGramModel.readfile(path)
    said = [name if name.isalpha() else "SIL" for name in names]
    logs = [[[model.prob([behind, middle, before]) for behind in said] for middle in said] for before in said]
    return np.asarray(_LANGUAGE_WEIGHT * _LOG_BASE * np.array(logs) + _INSERTION, np.float32)
