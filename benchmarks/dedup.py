"""Tables of edits: for each modality and each way to change a copy, how many of the copies are found.

    python benchmarks/dedup.py ../shared/data                  all four modalities, as Markdown
    python benchmarks/dedup.py ../shared/data --modality image --limit 20 --json

Originals are the media of the folder and generated ones; the peers of a modality are used where they are installed in
benchmarks/.peers/<modality> (pip install --target).
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

MODALITIES = ("text", "image", "video", "audio")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with landing/ and more/, as for development")
    parser.add_argument("--modality", choices=MODALITIES, action="append", help="only this one; may be repeated")
    parser.add_argument("--limit", type=int, default=40, help="families per modality (default: 40)")
    parser.add_argument("--seed", type=int, default=12, help="of what is chosen and generated (default: 12)")
    parser.add_argument("--json", action="store_true", help="one JSON object in place of Markdown")
    arguments = parser.parse_args()
    reports = {}
    for modality in arguments.modality or MODALITIES:
        begin_s = time.process_time()
        edits = importlib.import_module(f"benchmarks.dedup_edits.{modality}").edits
        report = edits(arguments.data, seed=arguments.seed, limit=arguments.limit)
        reports[modality] = asdict(report)
        if not arguments.json:
            print(f"## {modality} ({time.process_time() - begin_s:.0f} CPU s)\n\n{report.table()}\n", flush=True)
    if arguments.json:
        print(json.dumps({"machine": platform.platform(), "reports": reports}, indent=2))


if __name__ == "__main__":
    main()
