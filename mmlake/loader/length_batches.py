"""Batches of samples of like length, without torch: which samples are a batch, who takes it, and how to go on after a
stop.

The order of an epoch is that of the stream, in windows of so many positions. A window is sorted by length, within its
groups where there are some, cut into batches from the longest on, and its batches are shuffled; so a batch depends on
seed, epoch, lengths, groups and bounds, never on ranks or workers. Rank r of W takes the batches start + j*W + r of an
epoch, worker w of K of its rank the j with j mod K = w, which is the order in which a DataLoader asks. Therefore, when
every rank has taken n batches, exactly the batches start..start + n*W - 1 are used up, and any other world size goes on
from there. In memory are the lengths, the groups, the number of batches of each window, and one window.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mmlake.errors import SettingsError
from mmlake.loader.passes import SampleStream, whole_number
from mmlake.loader.permutation import Permutation
from mmlake.records import digest_of

_STATE = "mmlake.length_batches/1"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pass:
    """One way through the batches: where it began, which nothing changes any more, and how far it came."""

    start: int  # the first batch of the epoch
    taken: int = 0  # batches of its rank, or of its worker, that it has passed
    ends_at: int | None = None  # `taken` at its end; None where nobody iterates over it


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What a batch may hold."""

    max_padded: float  # the longest times the samples, in the unit of the lengths
    max_samples: int
    window: int  # positions of the epoch that are sorted together


class _Epoch:
    """The batches of one epoch by number."""

    def __init__(
        self, stream: SampleStream, lengths: np.ndarray, groups: np.ndarray, bounds: _Bounds, seed: int, epoch: int
    ) -> None:
        self._stream, self._lengths, self._groups, self._bounds = stream, lengths, groups, bounds
        self.seed, self.epoch = seed, epoch
        counts = [len(self._window(at)) for at in range(-(-stream.num_positions // bounds.window))]
        self._ends = np.cumsum([0, *counts])
        self.num_batches = int(self._ends[-1])
        self._kept: tuple[int, list[np.ndarray]] = (-1, [])  # the window that was asked for last

    def numbers(self, batch: int) -> list[int]:
        """The sample numbers of that batch, the longest last."""
        at = int(np.searchsorted(self._ends, batch, side="right")) - 1
        if self._kept[0] != at:
            self._kept = (at, self._window(at))
        found: list[int] = self._kept[1][batch - int(self._ends[at])].tolist()
        return found

    def _window(self, at: int) -> list[np.ndarray]:
        """The batches of a window in the order in which they are given out."""
        bounds, stream = self._bounds, self._stream
        positions = np.arange(at * bounds.window, min((at + 1) * bounds.window, stream.num_positions), dtype=np.int64)
        numbers = stream.numbers_at(positions, seed=self.seed, epoch=self.epoch)
        numbers = numbers[~np.isnan(self._lengths[numbers])]
        numbers = numbers[np.argsort(self._lengths[numbers], kind="stable")]
        groups = np.zeros(len(numbers), np.int64)
        if len(self._groups):
            numbers = numbers[np.argsort(self._groups[numbers], kind="stable")]
            groups = self._groups[numbers]
        begins = np.searchsorted(groups, groups).tolist()  # where the group of each begins
        lengths, batches, end = self._lengths[numbers].tolist(), [], len(numbers)
        while end:
            most = bounds.max_padded / longest if (longest := lengths[end - 1]) > 0 else math.inf
            first = max(begins[end - 1], end - max(1, int(min(most, bounds.max_samples))))
            batches.append(numbers[first:end])
            end = first
        order = Permutation(len(batches), seed=f"{self.seed} batches {at}", epoch=self.epoch)
        return [batches[place] for place in order.at(np.arange(len(batches), dtype=np.int64))]


class LengthBatches:
    """Lists of samples of the stream, each of like length: iterable from the resumed batch to the end of the epoch.

    Seed, epoch, rank, world size, `tail`, decoders and mixture are those of the stream when this is made; its position
    and batch size count for nothing. Raises SettingsError for an argument that is not usable, and what the stream
    raises.
    """

    def __init__(
        self,
        stream: SampleStream,
        lengths: npt.ArrayLike,
        *,
        max_padded: float,
        groups: npt.ArrayLike | None = None,
        max_samples: int | None = None,
        window: int = 8192,
    ) -> None:
        """lengths: of every sample in index order, shape (num_samples,), >= 0, in any unit (seconds, words, pixels);
        NaN leaves the sample out, and `num_left_out` counts these. max_padded: bound of the longest of a batch times
        the samples of the batch, in that unit, which is what a padded batch takes. groups: of every sample in index
        order, all numbers or all words; a batch holds samples of one group, and a window at most one more batch for
        each. None puts all into one. max_samples: of a batch. window: positions that are sorted together: more means
        less padding, fewer means batches drawn from nearer by."""
        if not isinstance(stream, SampleStream):
            raise SettingsError(f"the stream is {stream!r}, expected a ShardStream or JoinedStreams")
        self._stream, self._lengths = stream, _numbers("lengths", lengths)
        self._groups = _codes(groups, stream.num_samples)
        window = whole_number("window", window)
        most = window if max_samples is None else whole_number("max_samples", max_samples)
        self._bounds = _Bounds(float(_numbers("max_padded", max_padded)), most, window)
        self._check()
        self.num_left_out = int(np.count_nonzero(np.isnan(self._lengths)))
        if self.num_left_out:
            _log.info("%d of %d samples have no length and are left out", self.num_left_out, stream.num_samples)
        self.seed, self.epoch = stream.seed, stream.epoch
        self._digest = digest_of(self._lengths.astype("<f8").tobytes())
        self._digest_of_groups = digest_of(self._groups.astype("<i8").tobytes()) if groups is not None else None
        self._start = 0  # the first batch of the epoch that is not used up
        self._passed = 0  # what a worker had passed when its state was saved; the next pass begins behind it
        self._pass = _Pass(0)
        self._planned: _Epoch | None = None

    def _check(self) -> None:
        lengths, bounds, held = self._lengths, self._bounds, self._stream.num_samples
        if lengths.shape != (held,):
            raise SettingsError(f"lengths has shape {lengths.shape}, expected ({held},), one of each sample")
        if not 0 < bounds.max_padded < math.inf or bounds.max_samples < 1 or bounds.window < 1:
            raise SettingsError(f"{bounds}: expected finite numbers above 0")
        if wrong := int(np.count_nonzero((lengths < 0) | np.isinf(lengths))):
            raise SettingsError(f"{wrong} lengths are below 0 or infinite; NaN leaves a sample out")
        if longer := int(np.count_nonzero(lengths > bounds.max_padded)):
            raise SettingsError(
                f"{longer} of {held} samples are longer than max_padded {bounds.max_padded:g}, the longest "
                f"{np.nanmax(lengths):g}; raise max_padded, or leave them out by a length of NaN"
            )

    def __len__(self) -> int:
        """Batches that this rank still gives out in this epoch."""
        return self._stream.share_of_rank(self.num_batches - self._start)

    @property
    def num_batches(self) -> int:
        """Batches of the whole epoch, of all ranks together."""
        return self._plan().num_batches

    def _plan(self) -> _Epoch:
        if self._planned is None or (self._planned.seed, self._planned.epoch) != (self.seed, self.epoch):
            self._planned = _Epoch(self._stream, self._lengths, self._groups, self._bounds, self.seed, self.epoch)
        return self._planned

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        self._use_up()
        return self.iterate()

    def _use_up(self) -> None:
        """Who has taken the last batch, and asked for no more, has used up the loaded position as well."""
        if self._pass.taken == self._pass.ends_at:
            self._start = 0

    def iterate(self, *, worker: int = 0, num_workers: int = 1) -> Iterator[list[dict[str, Any]]]:
        """The batches of one worker of this rank, from the resumed one to the end of the epoch. `state_dict` counts the
        pass that began last; `set_epoch` and `load_state_dict` are for the next one, and change none that has begun.
        Raises SettingsError for a loaded position behind the end."""
        plan = self._plan()
        if self._start > plan.num_batches:
            raise SettingsError(f"the loader state is at batch {self._start} of {plan.num_batches}")
        ordinals = range(worker, self._stream.share_of_rank(plan.num_batches - self._start), num_workers)
        begun = self._pass = _Pass(self._start, self._passed, len(ordinals))
        self._passed = 0
        return self._batches(plan, begun, ordinals[begun.taken :])

    def _batches(self, plan: _Epoch, begun: _Pass, ordinals: range) -> Iterator[list[dict[str, Any]]]:
        stream = self._stream
        for ordinal in ordinals:
            batch = (begun.start + ordinal * stream.world_size + stream.rank) % plan.num_batches
            samples = [stream.sample_or_skip(number) for number in plan.numbers(batch)]
            begun.taken += 1  # not before: where a sample raises, a state goes on with its batch
            if given := [sample for sample in samples if sample is not None]:
                yield given

    def _pass_over(self, num_batches: int) -> None:
        """Let the next pass, which is a worker's, begin behind so many of its own batches."""
        self._passed = num_batches
        self._pass = _Pass(self._start, num_batches)

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be that epoch, from its first batch; from the loaded one where a state of that epoch was
        loaded."""
        epoch = whole_number("epoch", epoch)
        self._use_up()
        self._go_to(self.seed, epoch, self._start if epoch == self.epoch else 0)

    def state_dict(self, num_batches: int | None = None) -> dict[str, Any]:
        """Where to go on, the same on every rank that has taken equally many batches.

        num_batches: how many this rank's training loop has received since the pass began, or since the last
        `load_state_dict`; needed with DataLoader workers, which run ahead of the loop. Without it, the count of this
        process is used.
        """
        taken = self._pass.taken if num_batches is None else whole_number("num_batches", num_batches)
        if taken < 0:
            raise SettingsError(f"num_batches is {taken}, expected 0 or more")
        batch = min(self._pass.start + taken * self._stream.world_size, self.num_batches)
        return {"schema": _STATE, "seed": self.seed, "epoch": self.epoch, "batch": batch} | self._identity()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from the state; rank, world size and workers may be others than before. Raises SettingsError for other
        data, lengths or bounds."""
        if not isinstance(state, Mapping) or state.get("schema") != _STATE:
            schema = state.get("schema") if isinstance(state, Mapping) else type(state).__name__
            raise SettingsError(f"the loader state is of schema {schema!r}, expected {_STATE}")
        if differing := [name for name, value in self._identity().items() if state.get(name) != value]:
            raise SettingsError(f"the loader state belongs to other batches, by its {', '.join(differing)}")
        seed, epoch, batch = (
            whole_number(f"{name} of the loader state", state.get(name)) for name in ("seed", "epoch", "batch")
        )
        if batch < 0:
            raise SettingsError(f"the loader state is at batch {batch}, expected 0 or more")
        self._go_to(seed, epoch, batch)

    def _go_to(self, seed: int, epoch: int, batch: int) -> None:
        """Let the next pass begin there."""
        self.seed, self.epoch, self._start = seed, epoch, batch
        self._pass_over(0)

    def _identity(self) -> dict[str, Any]:
        bounds = self._bounds
        return self._stream.identity() | {
            "lengths": self._digest,
            "groups": self._digest_of_groups,
            "max_padded": bounds.max_padded,
            "max_samples": bounds.max_samples,
            "window": bounds.window,
        }


def _numbers(name: str, values: npt.ArrayLike) -> np.ndarray:
    """The values as float64. Raises SettingsError where they are no numbers."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise SettingsError(f"{name} is {str(values)[:100]}, expected numbers") from None


def _codes(groups: npt.ArrayLike | None, num_samples: int) -> np.ndarray:
    """The group of every sample as a number from 0 on, int64 of shape (num_samples,); empty where there are none.
    Raises SettingsError."""
    if groups is None:
        return np.zeros(0, np.int64)
    try:
        given = np.asarray(groups)
        codes: np.ndarray = np.unique(given, return_inverse=True)[1].astype(np.int64)
    except (TypeError, ValueError):  # of words and None, or lists of several sizes
        raise SettingsError("groups are not all numbers, or all words; give each sample's as one of them") from None
    if given.shape != (num_samples,):
        raise SettingsError(f"groups has shape {given.shape}, expected ({num_samples},), one of each sample")
    return codes
