"""The CUDA executor: what GPU-heavy assets run their models through."""

import dagster as dg
from pydantic import Field

from mmlake.compute import ComputeSettings, Executor


class CudaExecutorResource(dg.ConfigurableResource):
    """Loads each model once per process and device, decodes ahead of inference, batches by length and backs off when
    memory runs out."""

    device: str = Field(
        default="auto",
        description="'auto' takes the first CUDA device and the CPU where there is none; 'cuda' refuses to run without "
        "one; "
        "'cpu' never uses one.",
    )

    def executor(self, settings: ComputeSettings) -> Executor:
        """An executor for that device; the models that it loads stay in the process."""
        return Executor(self.device, settings=settings)
