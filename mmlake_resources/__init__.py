"""Dagster resources: thin skins over the library. Configuration in, library objects out, no logic."""

from mmlake_resources.compute import CudaExecutorResource
from mmlake_resources.lake import LakeResource

__all__ = ["CudaExecutorResource", "LakeResource"]
