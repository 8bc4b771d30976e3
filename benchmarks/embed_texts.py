"""Texts to vectors of all-MiniLM-L6-v2: ours in each precision, and sentence-transformers.

    python -m benchmarks.embed_texts DIRECTORY [--num 300] [--chars 900]
    pip install sentence-transformers                                    the peer

DIRECTORY: text files; of each the first characters, no more than the 256 tokens that the peer reads, and files that are
longer than the others give (`--chars 0`: whole texts, which the peer cuts). CPU seconds of one process on all of its
cores, without start-up and loading, and the cosine with float32. Of the peer batches of 32 by falling length, as its
`encode` makes them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mmlake.compute import Executor
from mmlake.embed import EmbedSettings, encode_text_queries
from mmlake.embed.settings import PRECISIONS
from mmlake.embed.weights import minilm_folder

Vectors = np.ndarray


def ours(texts: list[str], precision: str) -> Callable[[], Vectors]:
    executor, settings = Executor("cpu"), EmbedSettings(precision=precision, max_spelled_fraction=1.0)
    encode_text_queries(texts[:2], encoder="minilm-l6", executor=executor, settings=settings)  # loads it

    def run() -> Vectors:
        made = encode_text_queries(texts, encoder="minilm-l6", executor=executor, settings=settings)
        return np.array(made)

    return run


def peer(texts: list[str]) -> Callable[[], Vectors] | None:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        return None
    model = SentenceTransformer(str(minilm_folder()), device="cpu")
    return lambda: np.asarray(model.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--num", type=int, default=300)
    parser.add_argument("--chars", type=int, default=900, help="of each text; 0: all")
    asked = parser.parse_args()
    files = sorted(path for path in asked.directory.rglob("*") if path.is_file())
    read = (path.read_text("utf-8", errors="replace")[: asked.chars or None] for path in files)
    texts = [text for text in read if len(text.split()) > 5][: asked.num]
    runs = {f"ours, {one}": ours(texts, one) for one in PRECISIONS}
    if (encode := peer(texts)) is not None:
        runs["sentence-transformers"] = encode
    took: dict[str, list[float]] = {name: [] for name in runs}
    vectors: dict[str, Vectors] = {}
    for _ in range(3):
        for name, run in runs.items():
            before = time.process_time()
            vectors[name] = run()
            took[name].append(time.process_time() - before)
    print(f"{len(texts)} texts\n\n| | CPU s, of three | texts per CPU s | least cosine with float32 |")
    print("| --- | --- | --- | --- |")
    whole = vectors["ours, float32"]
    for name, seconds in took.items():
        cosines = (vectors[name].astype(np.float64) * whole).sum(axis=1)
        print(f"| {name} | {min(seconds):.2f} | {len(texts) / min(seconds):.0f} | {cosines.min():.6f} |")


if __name__ == "__main__":
    main()
