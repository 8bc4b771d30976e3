"""Spoken prompts of telephone exchanges and their copies by a telephone's codec: which copies are found, by length, and
which prompts of other names pair.

    python -m benchmarks.spoken_prompts SOUNDS/en_US_f_Allison SOUNDS/it_IT_f_Menardi

SOUNDS is `usr/share/asterisk/sounds` of the Debian packages asterisk-core-sounds-en-wav, -en-gsm, -fr-wav, -fr-gsm and
asterisk-prompt-it-menardi-wav, -gsm: each prompt is there as WAV at 8 kHz and as GSM 06.10 (13 kbit/s), coded by who
made them. Some names hold the same words twice, which is no error of a pair.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.dedup_edits.audio import clusters, inspected, near_pairs, program
from mmlake.dedup import DedupSettings
from mmlake.dedup.audio import fingerprints
from mmlake.dedup.audio.align import firm_bits

_LENGTHS_S = (0.0, 0.6, 1.0, 2.0, 4.0, np.inf)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", type=Path, nargs="+")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        decoded = Path(temporary) / "call.wav"
        for directory in given.directories:
            for original in sorted(directory.rglob("*.wav")):
                called = original.with_suffix(".gsm")
                is_audible = firm_bits(
                    fingerprints.fingerprint_samples(inspected(original)[1])[fingerprints.BANDS]
                ).any()
                if not called.exists() or not is_audible:
                    continue
                command = [program(), "-v", "error", "-y", "-f", "gsm", "-i", called, decoded]
                subprocess.run(command, check=True)
                name = f"{directory.name}/{original.relative_to(directory).with_suffix('')}"
                rows += [(len(rows) // 2, name, *inspected(path)) for path in (original, decoded)]
    digests = [f"{at:064x}" for at in np.random.default_rng(1).permutation(len(rows)).tolist()]
    near = near_pairs(rows, digests, DedupSettings())
    cluster = clusters(digests, near)
    lengths_s = [len(row[3]) / fingerprints.RATE_HZ for row in rows[::2]]
    found = [cluster[digests[at]] == cluster[digests[at + 1]] for at in range(0, len(rows), 2)]
    for low, high in zip(_LENGTHS_S, _LENGTHS_S[1:], strict=False):
        own = [is_found for is_found, length in zip(found, lengths_s, strict=True) if low <= length < high]
        print(f"{low:4.1f} to {high:4.1f} s: {sum(own)} of {len(own)} copies found ({np.mean(own):.2f})")
    names = defaultdict[str, set[str]](set)
    for digest, row in zip(digests, rows, strict=True):
        names[cluster[digest]].add(row[1])
    print("of several names:", *(", ".join(sorted(one)) for one in names.values() if len(one) > 1), sep="\n  ")


if __name__ == "__main__":
    main()
