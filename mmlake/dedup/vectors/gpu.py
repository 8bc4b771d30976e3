"""FAISS on a GPU: clones of indexes, within a cap of device memory. Nothing here is reached without a device."""

from __future__ import annotations

from typing import Any

from mmlake.errors import SettingsError
from mmlake.optional import need

_TEMP_FRACTION = 0.125  # of the cap, for FAISS's own buffers


def num_devices() -> int:
    """GPUs that this FAISS can use: 0 for a build without CUDA."""
    faiss = need("faiss", extra="all", purpose="semantic deduplication")
    return int(faiss.get_num_gpus()) if hasattr(faiss, "StandardGpuResources") else 0


def on_gpu(index: Any, *, memory_bytes: int, device: int = 0) -> Any:
    """A clone of the CPU index on the device. Raises SettingsError where no device is there, or the index with
    FAISS's buffers takes more than memory_bytes: FAISS itself would end in the middle of a search."""
    faiss = need("faiss", extra="all", purpose="semantic deduplication")
    if device >= num_devices():
        raise SettingsError(
            f"dedup: FAISS sees {num_devices()} GPUs, so there is no device {device}; install faiss-gpu on a machine "
            "with one, or set dedup.index_gpu_bytes = 0"
        )
    temporary = int(memory_bytes * _TEMP_FRACTION)
    needed = int(faiss.serialize_index(index).nbytes) + temporary
    if needed > memory_bytes:
        raise SettingsError(
            f"dedup: an index of {needed - temporary:,} bytes and buffers of {temporary:,} exceed "
            f"dedup.index_gpu_bytes={memory_bytes:,}; raise it, or choose index = 'ivf-pq'"
        )
    resources = faiss.StandardGpuResources()
    resources.setTempMemory(temporary)
    return faiss.index_cpu_to_gpu(resources, device, index)
