"""The torch dataset: `ShardStream` as an IterableDataset that knows its DataLoader worker. Only this module loads
torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch  # noqa: TID253 - this module is the lazily loaded one
from torch.utils.data import IterableDataset, get_worker_info  # noqa: TID253

from mmlake.errors import SettingsError
from mmlake.loader.stream import ShardStream


class ShardDataset(ShardStream, IterableDataset[dict[str, Any]]):
    """Samples for a training job. Arguments as ShardStream; pass the DataLoader's batch_size, and iterate with
    workers or without."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # set by workers, seen by the process that started them
        self._in_workers = torch.zeros(1, dtype=torch.int8).share_memory_()  # type: ignore[no-untyped-call]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        info = get_worker_info()
        if info is None:
            return self.iterate()
        self._in_workers[0] = 1
        return self.iterate(worker=info.id, num_workers=info.num_workers)

    def state_dict(self, num_samples: int | None = None) -> dict[str, Any]:
        """See ShardStream. Raises SettingsError without num_samples once workers have run, for only the training
        loop knows what it received."""
        if num_samples is None and self._in_workers[0]:
            raise SettingsError(
                "the dataset is read by DataLoader workers, which run ahead of training; pass "
                "state_dict(num_samples=batches * batch_size)"
            )
        return super().state_dict(num_samples)
