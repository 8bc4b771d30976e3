"""mmlake: raw multimodal shards in, versioned, deduplicated, evaluated training data out.

The library half: no Dagster, and nothing heavy (torch, faiss, lancedb, av, cv2) is imported until a function needs it.
Start reading in `mmlake/modalities.py`: one row per modality, one column per stage; then `mmlake/steps`: one row per
table, with what it is made from. CONTRIBUTING.md says which module stands above which.
"""

from __future__ import annotations

__version__ = "0.1.0"
