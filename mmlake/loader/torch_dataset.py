"""The torch datasets: `ShardStream` and `LengthBatches` as IterableDatasets that know their DataLoader worker. Only
this module loads torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch  # noqa: TID253 - this module is the lazily loaded one
from torch.utils.data import IterableDataset, get_worker_info  # noqa: TID253

from mmlake import checked_json
from mmlake.errors import SettingsError
from mmlake.loader.joined_streams import JoinedStreams
from mmlake.loader.length_batches import LengthBatches
from mmlake.loader.passes import SampleStream
from mmlake.loader.stream import ShardStream

_SHARED_BYTES = 4096  # a flag, and the seed, epoch and position as JSON
_WORKER = "worker"  # key of a state that is one worker's


class _SharedPlace:
    """Where the next pass begins, in memory that is shared with the workers, and whether one has run."""

    def __init__(self) -> None:
        self._bytes = torch.zeros(_SHARED_BYTES, dtype=torch.uint8).share_memory_()  # type: ignore[no-untyped-call]

    @property
    def has_workers(self) -> bool:
        return bool(self._bytes[0])

    def mark_worker(self) -> None:
        """Say that a worker runs."""
        self._bytes[0] = 1

    def write(self, **place: int) -> None:
        """Let workers that live on begin their next pass there."""
        data = checked_json.dumps(place)
        if len(data) >= _SHARED_BYTES:
            raise SettingsError(f"seed and epoch take {len(data)} bytes, expected less than {_SHARED_BYTES}")
        self._bytes.numpy()[1:] = np.frombuffer(data.ljust(_SHARED_BYTES - 1), np.uint8)

    def read(self) -> dict[str, int]:
        try:
            place: dict[str, int] = checked_json.loads(self._bytes.numpy()[1:].tobytes().rstrip())
        except ValueError as error:
            raise SettingsError(
                "the epoch was set while workers began a pass; call set_epoch and load_state_dict between two passes"
            ) from error
        return place

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not self._bytes.is_shared():  # type: ignore[no-untyped-call]  # a copy has its own
            self._bytes = self._bytes.clone().share_memory_()  # type: ignore[no-untyped-call]


class _InDataLoader(ABC):
    """What a pass through samples, or through batches, does within a DataLoader.

    What `set_epoch` and `load_state_dict` set lies in memory that is shared with the workers: those that outlive an
    epoch (`persistent_workers=True`) read it when they begin the next one.
    """

    seed: int
    epoch: int
    _start: int
    _counted: ClassVar[str]  # the argument of `state_dict` that says how much the training loop received
    _pass: Any

    def _join_workers(self) -> None:
        """Begin to share what the next pass depends on."""
        self._shared = _SharedPlace()
        self._num_passes = 0  # of this worker
        self._share()

    @abstractmethod
    def _place(self) -> dict[str, int] | None:
        """Which worker of which rank this process is; None where it is none."""

    def _worker(self) -> dict[str, int] | None:
        """The arguments of `iterate` for this worker; None in the training process."""
        if (info := get_worker_info()) is None:
            return None
        self._shared.mark_worker()
        if self._num_passes:  # the first one begins where the dataset was when the DataLoader started its workers
            place = self._shared.read()
            self.seed, self.epoch, self._start = place["seed"], place["epoch"], place["start"]
        self._num_passes += 1
        return {"worker": info.id, "num_workers": info.num_workers}

    def _state(self, state: Callable[[int | None], dict[str, Any]], taken: int | None) -> dict[str, Any]:
        """The state after so many; that of the worker, within one, where torchdata's StatefulDataLoader asks."""
        if taken is None and (place := self._place()) is not None:
            return state(0) | {_WORKER: place | {self._counted: self._pass.taken}}
        if taken is None and self._shared.has_workers:
            raise SettingsError(
                "the dataset is read by DataLoader workers, which run ahead of training; pass "
                f"state_dict({self._counted}=...), counted by the training loop"
            )
        return state(taken)

    def _load(self, load: Callable[[Any], None], state: Mapping[str, Any]) -> int:
        """Load what is every worker's of the state; what this worker had passed, 0 where it is no worker's."""
        plain = dict(state) if isinstance(state, Mapping) else state
        then = plain.pop(_WORKER, None) if isinstance(plain, dict) else None
        passed = 0
        if then is not None:
            then, now = dict(then), self._place()
            passed = then.pop(self._counted, 0)
            if then != now:
                raise SettingsError(
                    f"the loader state is that of a DataLoader's worker, {then}, and this is {now or 'none'}; go on "
                    f"with equally many ranks, workers and samples of a batch, or save state_dict({self._counted}=...)"
                )
        load(plain)
        self._share()
        return int(passed)

    def _share(self) -> None:
        """Let workers that live on begin their next pass where this process says."""
        if get_worker_info() is None:
            self._shared.write(seed=self.seed, epoch=self.epoch, start=self._start)


class _TorchStream(_InDataLoader, SampleStream):
    """A stream of samples within a DataLoader."""

    _counted = "num_samples"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._join_workers()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return super().__iter__() if (worker := self._worker()) is None else self.iterate(**worker)

    def set_epoch(self, epoch: int) -> None:
        """See SampleStream. Call it between two passes of the DataLoader."""
        super().set_epoch(epoch)
        self._share()

    def state_dict(self, num_samples: int | None = None) -> dict[str, Any]:
        """See SampleStream. Raises SettingsError without num_samples once workers have run, for only the training
        loop knows what it received. Within a worker, where torchdata's StatefulDataLoader asks, it is the state of that
        worker."""
        return self._state(super().state_dict, num_samples)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See SampleStream. The state of a worker goes on in the same place alone: rank, worker, their numbers and the
        batch size; and for one pass."""
        self._pass_over(self._load(super().load_state_dict, state))

    def _place(self) -> dict[str, int] | None:
        if (info := get_worker_info()) is None:
            return None
        numbers = {"id": info.id, "num_workers": info.num_workers, "batch_size": self.batch_size}
        return numbers | {"rank": self.rank, "world_size": self.world_size}


class ShardDataset(_TorchStream, ShardStream, IterableDataset[dict[str, Any]]):
    """Samples for a training job. Arguments as ShardStream; pass the DataLoader's batch_size, and iterate with
    workers or without."""


class JoinedDataset(_TorchStream, JoinedStreams, IterableDataset[dict[str, Any]]):
    """Samples of several versions for a training job. Arguments as JoinedStreams; pass the DataLoader's batch_size, and
    iterate with workers or without."""


class LengthBatchDataset(_InDataLoader, LengthBatches, IterableDataset[list[dict[str, Any]]]):
    """Batches of like length for a training job. Arguments as LengthBatches; give the DataLoader `batch_size=None`, for
    what it takes is a batch already."""

    _counted = "num_batches"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._join_workers()

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        return super().__iter__() if (worker := self._worker()) is None else self.iterate(**worker)

    def set_epoch(self, epoch: int) -> None:
        """See LengthBatches. Call it between two passes of the DataLoader."""
        super().set_epoch(epoch)
        self._share()

    def state_dict(self, num_batches: int | None = None) -> dict[str, Any]:
        """See LengthBatches. Raises SettingsError without num_batches once workers have run, for only the training
        loop knows what it received. Within a worker, where torchdata's StatefulDataLoader asks, it is the state of that
        worker."""
        return self._state(super().state_dict, num_batches)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See LengthBatches. The state of a worker goes on in the same place alone: rank, worker and their numbers; and
        for one pass."""
        self._pass_over(self._load(super().load_state_dict, state))

    def _place(self) -> dict[str, int] | None:
        if (info := get_worker_info()) is None:
            return None
        numbers = {"id": info.id, "num_workers": info.num_workers}
        return numbers | {"rank": self._stream.rank, "world_size": self._stream.world_size}
