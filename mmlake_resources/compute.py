"""The CUDA executor: what GPU-heavy assets run their models through."""

import dagster as dg
from pydantic import Field, PrivateAttr

from mmlake.compute import ComputeSettings, Executor

_DEVICES = (
    "'auto' takes the first CUDA device and the CPU where there is none; 'cuda' refuses to run without one; 'cpu' "
    "never uses one."
)


class CudaExecutorResource(dg.ConfigurableResource):
    """Loads each model once per process and device, decodes ahead of inference, batches by length and backs off when
    memory runs out."""

    device: str = Field(default="auto", description=_DEVICES)
    _definition: dg.ResourceDefinition | None = PrivateAttr(default=None)  # Dagster expects the same one each time

    def get_resource_definition(self) -> dg.ResourceDefinition:  # type: ignore[override]  # not Dagster's own class of it
        """The resource as runs have it: the device is a text. Dagster's own form also takes the name of an environment
        variable, whose value the error would show to whoever launches."""
        if self._definition is None:
            self._definition = dg.ResourceDefinition(
                lambda context: CudaExecutorResource(device=context.resource_config["device"]),
                config_schema={"device": dg.Field(str, default_value=self.device, description=_DEVICES)},
                description="Runs the models of a step on one device.",
            )
        return self._definition

    def executor(self, settings: ComputeSettings) -> Executor:
        """An executor for that device; the models that it loads stay in the process."""
        return Executor(self.device, settings=settings)
