"""From texts to verified clusters, in CPU seconds: ours, and Daft's minhash path where it is installed.

    python -m benchmarks.text_dedup ../shared/data --documents 20000

Documents are made of the sentences of the folder's articles with three words in ten replaced, so that each is its own;
a tenth of them are copies in which up to 3 % of the words are replaced. Recall is the share of copies that go; a
document that goes for one of another original is false.
Each tool runs in a process of its own, and its imports count: neither finds a library that the other one loaded.
Daft: `minhash` (128 hashes, 5-grams), 25 bands of 5, a group-by over the bands and union-find, as its guide has it,
without a verification. Figures: docs/dedup-at-scale.md, Speed. Daft: `pip install --target benchmarks/.peers/text
daft`.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

_PEERS = Path(__file__).parent / ".peers" / "text"


def documents(data: Path, num: int, rng: np.random.Generator) -> tuple[list[str], list[int]]:
    """(texts of some 250 words, the original that each is a copy of or is itself)."""
    sentences: list[str] = []
    for path in sorted((data / "landing" / "text").glob("articles-*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            sentences += [part for line in lines for part in json.loads(line)["text"].split(". ")]
    words = [word for sentence in sentences for word in sentence.split()]
    texts, origin = [], []
    for at in range(num):
        if at and rng.random() < 0.1:
            source = origin[int(rng.integers(len(texts)))]
            parts = texts[source].split()
            for place in np.flatnonzero(rng.random(len(parts)) < 0.03 * rng.random()).tolist():
                parts[place] = words[int(rng.integers(len(words)))]
            texts.append(" ".join(parts))
            origin.append(source)
        else:
            parts = ". ".join(sentences[int(one)] for one in rng.integers(0, len(sentences), 9)).split()
            for place in np.flatnonzero(rng.random(len(parts)) < 0.3).tolist():
                parts[place] = words[int(rng.integers(len(words)))]
            texts.append(" ".join(parts))
            origin.append(at)
    return texts, origin


def ours(texts: list[str]) -> dict[int, int]:
    """What goes -> what it goes for."""
    from mmlake.dedup import DedupSettings
    from mmlake.dedup.matching import INSIDE, SAME
    from mmlake.dedup.prints import digests_of
    from mmlake.dedup.stars.leaders import stars
    from mmlake.dedup.stars.standings import in_order
    from mmlake.dedup.text import fingerprints
    from mmlake.dedup.text.matcher import TextMatcher

    prints = fingerprints.print_table(texts)
    found = stars(TextMatcher(prints, DedupSettings()), in_order(len(texts)), equal=digests_of(prints))
    edges = zip(found.right, found.left, found.relation, strict=True)
    return {goes: stays for goes, stays, relation in edges if relation in (SAME, INSIDE)}


def by_daft(texts: list[str]) -> dict[int, int]:
    """What goes -> the first of its component."""
    sys.path.append(str(_PEERS))
    daft = importlib.import_module("daft")
    frame = daft.from_pydict({"id": list(range(len(texts))), "text": texts})
    hashed = frame.with_column("hashes", daft.col("text").minhash(num_hashes=128, ngram_size=5)).select("id", "hashes")
    table = hashed.to_arrow()
    rows = table["hashes"].combine_chunks().flatten().to_numpy().reshape(len(texts), 128).astype(np.uint64)
    factors = np.array([3, 5, 7, 11, 13], np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    keys = np.stack([(rows[:, 5 * band : 5 * band + 5] * factors).sum(axis=1) + np.uint64(band) for band in range(25)])
    ids = np.tile(table["id"].to_numpy(), 25)
    groups = (
        daft.from_pydict({"key": keys.ravel(), "id": ids})
        .groupby("key")
        .agg(daft.col("id").list_agg().alias("ids"))
        .to_pydict()["ids"]
    )
    root = list(range(len(texts)))

    def found(one: int) -> int:
        while root[one] != one:
            root[one] = root[root[one]]
            one = root[one]
        return one

    for group in (group for group in groups if len(group) > 1):
        for other in group[1:]:
            left, right = sorted((found(group[0]), found(other)))
            root[right] = left
    return {at: found(at) for at in range(len(texts)) if found(at) != at}


TOOLS = {"mmlake": ours, "daft": by_daft}


def measured(tool: str, texts: list[str], origin: list[int]) -> dict[str, Any]:
    """CPU seconds of this process, its threads and imports included; recall and precision of what goes."""
    before = _cpu_s()
    goes = TOOLS[tool](texts)
    spent = _cpu_s() - before
    should = {at for at, source in enumerate(origin) if source != at}
    right = {one for one, other in goes.items() if origin[one] == origin[other]}
    return {
        "tool": tool,
        "cpu_s": round(spent, 2),
        "documents_per_cpu_s": round(len(texts) / spent),
        "recall": round(len(right & should) / max(1, len(should)), 4),
        "precision": round(len(right) / max(1, len(goes)), 4),
    }


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print a JSON object per tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measure", choices=TOOLS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measured(given.measure, *json.loads(given.data.read_text()))), flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "documents"
        made.write_text(json.dumps(documents(given.data, given.documents, np.random.default_rng(given.seed))))
        for tool in TOOLS if (_PEERS / "daft").is_dir() else ["mmlake"]:
            subprocess.run([sys.executable, "-m", "benchmarks.text_dedup", str(made), "--measure", tool], check=True)


if __name__ == "__main__":
    main()
