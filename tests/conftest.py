"""What every test has: no telemetry, no hub, and a quiet, single-threaded machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ |= {"DO_NOT_TRACK": "1", "DAGSTER_DISABLE_TELEMETRY": "yes", "HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0", "TOKENIZERS_PARALLELISM": "false"}
sys.path.insert(0, str(Path(__file__).parents[1]))  # `from tests import make` from any folder
