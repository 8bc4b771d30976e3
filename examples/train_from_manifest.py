"""Train a small character model on the text of one dataset version, stop in the middle, and go on exactly there.

python examples/train_from_manifest.py demo/lake curated-v001
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

from mmlake.lake import Lake
from mmlake.loader import ShardDataset

CONTEXT_BYTES, WIDTH, BATCH_WINDOWS = 16, 64, 64


class Predictor(nn.Module):
    """The next byte from the sixteen before it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Embedding(256, WIDTH),
            nn.Flatten(1),
            nn.Linear(CONTEXT_BYTES * WIDTH, 4 * WIDTH),
            nn.ReLU(),
            nn.Linear(4 * WIDTH, 256),
        )

    def forward(self, contexts: torch.Tensor) -> torch.Tensor:
        """contexts: int64, shape (N, CONTEXT_BYTES). Logits of shape (N, 256)."""
        return self.layers(contexts)


def batches(dataset: ShardDataset) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """(contexts, next bytes, sample weights): flagged items count less, as their verdict says."""
    windows: list[tuple[list[int], int, float]] = []
    for sample in dataset:
        text = sample["txt"][:400]
        windows += [
            (list(text[at : at + CONTEXT_BYTES]), text[at + CONTEXT_BYTES], sample["__weight__"])
            for at in range(0, len(text) - CONTEXT_BYTES, 7)
        ]
        if len(windows) >= BATCH_WINDOWS:
            contexts, following, weights = zip(*windows, strict=True)
            yield torch.tensor(contexts), torch.tensor(following), torch.tensor(weights)
            windows = []


def train(model: Predictor, dataset: ShardDataset, *, steps: int) -> list[float]:
    """The loss of each step, nats per byte."""
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=3e-3), []
    for (contexts, following, weights), _ in zip(batches(dataset), range(steps), strict=False):
        loss = (nn.functional.cross_entropy(model(contexts), following, reduction="none") * weights).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def main() -> None:
    """Two epochs, then the loader's state saved and taken up by another loader."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lake", type=Path)
    parser.add_argument("version", help="version, branch, tag or id")
    arguments = parser.parse_args()
    lake = Lake(arguments.lake)
    shards = lake.shards_dir / lake.versions.resolve(arguments.version)
    torch.manual_seed(7)
    model = Predictor()
    for epoch in range(2):
        losses = train(model, ShardDataset(shards, seed=7, epoch=epoch, modality="text"), steps=10_000)
        print(f"epoch {epoch}: {len(losses)} steps, loss {losses[0]:.3f} -> {losses[-1]:.3f} nats per byte")
    first = ShardDataset(shards, seed=7, epoch=2, modality="text")
    walked = iter(first)
    seen = [next(walked)["__key__"] for _ in range(5)]
    second = ShardDataset(shards, seed=7, epoch=2, modality="text")
    second.load_state_dict(first.state_dict())
    print(f"stopped after {len(seen)} samples; another loader goes on with {next(iter(second))['__key__'][:12]}")


if __name__ == "__main__":
    main()
