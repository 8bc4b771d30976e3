"""A version's items as WebDataset tars."""

from mmlake.publish import VERSION_STEPS
from mmlake_assets.factory import version_asset

ASSETS = [version_asset(step) for step in VERSION_STEPS.values() if step.stage == "shards"]
