"""A large annotation file is joined in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources.corpora.builders import CATEGORIES, coco_image, coco_object, landed
from tests.sources.source_builders import png

NUM_ANNOTATIONS = 100_000
_PROGRAM = """
import sys
from mmlake import sources
from mmlake.store import BlobStore
settings = sources.SourceSettings()
import ijson, pyarrow.compute
from mmlake.landing import LocalLanding
def peak():  # not ru_maxrss: that begins with what the parent had
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
shards = {shard.key: shard for shard in sources.scan(sys.argv[1], settings=settings)}
before = peak()
items = list(sources.read(shards["train2017"], landing=sys.argv[1], settings=settings))
listed = shards["annotations/instances_train2017.json"]
rest = sum(1 for item in sources.read(listed, landing=sys.argv[1], settings=settings))
after = peak()
print(len(items), len(items[0].own["objects"]), rest, (after - before) // 1024)
"""


def instances(path: Path, num_images: int) -> None:
    """Written as a stream: the file is larger than what reading it may take."""
    path.parent.mkdir(parents=True, exist_ok=True)
    polygon = [[float(number) + 0.25 for number in range(60)]]
    element = (
        json.dumps(coco_object(1, 0) | {"segmentation": polygon, "id": "ID", "image_id": "IMAGE"})
        .replace('"ID"', "%d")
        .replace('"IMAGE"', "%d")
    )
    with path.open("w") as file:
        file.write('{"annotations": [')
        for number in range(NUM_ANNOTATIONS):
            file.write(", " * (number > 0) + element % (number % num_images, number))
        file.write(
            '], "images": '
            + json.dumps([coco_image(number) for number in range(num_images)])
            + ', "categories": '
            + json.dumps(CATEGORIES)
            + "}"
        )


@pytest.mark.slow
def test_a_hundred_thousand_annotations_are_joined_within_half_of_their_file(tmp_path):
    root = landed(tmp_path / "in", {f"train2017/{number:012d}.jpg": png(number) for number in range(20)})
    path = root / "annotations/instances_train2017.json"
    instances(path, 10_000)
    assert path.stat().st_size > 40 << 20
    done = subprocess.run([sys.executable, "-c", _PROGRAM, str(root)], capture_output=True, text=True, check=True)
    num_items, num_objects, num_rest, grown_mib = map(int, done.stdout.split())
    assert (num_items, num_objects, num_rest) == (20, NUM_ANNOTATIONS // 10_000, 1)
    assert grown_mib < 20
