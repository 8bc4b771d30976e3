"""Two drawings of one style are near each other in every vector, and no duplicates: playing cards, signs, clocks."""

from __future__ import annotations

import io
from collections import Counter

from PIL import Image, ImageDraw

from mmlake import pipeline
from mmlake.border import InProcess
from mmlake.compute import Executor
from mmlake.lake import Lake
from mmlake.tables import Slot
from tests import make


def clock(hour: int) -> bytes:
    picture = Image.new("RGB", (240, 240), "white")
    draw = ImageDraw.Draw(picture)
    draw.ellipse((15, 15, 225, 225), "#f0f4ff", "#1030a0", 12)
    draw.line((120, 120, 120, 50), "#1030a0", 8)
    hand = Image.new("L", (240, 240), 0)
    ImageDraw.Draw(hand).line((120, 120, 120, 75), 255, 10)
    picture.paste("#1030a0", mask=hand.rotate(-30 * hour, center=(120, 120)))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def smaller(data: bytes) -> bytes:
    buffer = io.BytesIO()
    Image.open(io.BytesIO(data)).resize((160, 160), Image.Resampling.LANCZOS).save(buffer, "PNG")
    return buffer.getvalue()


def test_clocks_of_other_hours_all_stay_and_a_copy_goes(tmp_path):
    files = {f"image/{hour:02d}.png": clock(hour) for hour in (1, 2, 4, 5)}
    files["image/copy.png"] = smaller(clock(4))
    lake = Lake(
        tmp_path / "lake", landing=make.land(tmp_path / "landing", files), executor=Executor("cpu"), runner=InProcess()
    )
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    vectors = lake.tables.concat("embeddings", "image", columns=["vector"])["vector"].to_pylist()
    assert min(sum(x * y for x, y in zip(one, two, strict=True)) for one in vectors for two in vectors) > 0.9
    clusters = lake.tables.read(Slot("duplicate_clusters", "image"))
    assert Counter(clusters["tier"].to_pylist()) == {None: 4, "near": 1}
