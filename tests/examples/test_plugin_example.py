"""The example plugin is installed as a package is, and used through the command, the code location and Python."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mmlake import pipeline
from mmlake.lake import Lake
from mmlake.plugins import PluginSettings, load
from mmlake.settings import Settings
from mmlake.tables import Slot
from tests import make

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
SETTINGS = '[plugins]\nentry_points = ["example"]\n[embed.encoders]\nimage = "example-thumbnail"\n'
STEPS_BY_PLUGIN = {  # (modality, table) that rows of the example steer
    ("image", "measures"),
    ("image", "verdicts"),
    ("image", "fingerprints"),
    ("image", "near_duplicates"),
    ("image", "cross_pairs"),
    ("image", "embeddings"),
    ("text", "measures"),
}


def picture(seed: int, *, red: bool = False, fmt: str = "PNG") -> bytes:
    from PIL import Image

    rng = np.random.default_rng(seed)
    rgb_HWC = np.repeat(np.repeat(rng.integers(0, 256, (8, 8, 3), np.uint8), 16, axis=0), 16, axis=1)
    if red:
        rgb_HWC[..., 0], rgb_HWC[..., 1:] = 200 + rgb_HWC[..., 0] // 8, rgb_HWC[..., 1:] // 4
    Image.fromarray(rgb_HWC).save(buffer := io.BytesIO(), fmt)
    return buffer.getvalue()


FILES = {
    "pictures/plain.png": picture(1),
    "pictures/red.png": picture(2, red=True),
    "books/two.ppm": picture(3, fmt="PPM") + picture(4, fmt="PPM"),
    "texts/a.jsonl": make.jsonl(
        ["The cat sat on the mat. The dog lay by the fire, and the bird sang in its old cage."]
    ),
}


def installed(folder: Path, *, version: str = "1.0") -> Path:
    """A folder of packages with the example in it, installed by pip as a release of that version."""
    source = folder.with_name(f"{folder.name}-source")
    shutil.copytree(EXAMPLE, source)
    for path in (source / "pyproject.toml", source / "mmlake_example" / "__init__.py"):
        path.write_text(path.read_text().replace('"1.0"', f'"{version}"'))
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "-q"]
    subprocess.run([sys.executable, "-m", "pip", "install", *offline, "--target", folder, source], check=True)
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    base = tmp_path_factory.mktemp("plugin")
    make.land(base / "landing", FILES)
    (base / "settings.toml").write_text(SETTINGS)
    installed(base / "one")
    return base


_COMMAND = "from mmlake_assets.console import entry; entry()"  # what the script `mmlake` is


def python(packages: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What a fresh process with these packages prints."""
    path = os.pathsep.join([str(packages), *(one for one in sys.path if one)])
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": path, "DAGSTER_DISABLE_TELEMETRY": "yes"},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def ran(base) -> Path:
    """The lake that `mmlake run` made."""
    where = ["--landing", base / "landing", "--lake", base / "lake", "--settings", base / "settings.toml"]
    done = python(base / "one", "-c", _COMMAND, "run", *where, "--recipe", "everything", "--json")
    assert done.returncode == 0, done.stderr
    return base / "lake"


def rows(lake: Path, table: str, modality: str) -> list[dict]:
    return Lake(lake).tables.concat(table, modality).to_pylist()


def test_every_kind_of_row_is_used_by_the_run_and_named_with_its_version(ran):
    measures = {row["measure"] for row in rows(ran, "measures", "image") + rows(ran, "measures", "text")}
    broken = [
        one for row in rows(ran, "verdicts", "image") for one in row["findings"] if one["rule"] == "example_reddish"
    ]
    assert {"example_red_fraction", "example_grade"} <= measures
    assert [one["reason"].rpartition(" (")[2] for one in broken] == ["example==1.0)"]
    assert "example-average-hash (example==1.0)" in {row["method"] for row in rows(ran, "fingerprints", "image")}
    assert {(row["encoder"], row["revision"]) for row in rows(ran, "embeddings", "image")} == {
        ("example-thumbnail", "1 (example==1.0)")
    }
    assert [row["source_ref"].count('"byte_size":') for row in rows(ran, "items", "image")] == [1, 1, 1, 1]


def test_the_pictures_of_one_file_are_rows_of_the_plugins_connector(ran):
    shards = Lake(ran).registry.known()
    assert shards["books/two.ppm"].format == "example-ppm"
    items = Lake(ran).tables.read(Slot("items", "image", "books/two.ppm")).to_pylist()
    assert sorted(row["size_bytes"] for row in items) == [len(picture(3, fmt="PPM")), len(picture(4, fmt="PPM"))]
    assert {row["status"] for row in items} == {"ok"}


def test_the_stamps_of_the_tables_that_it_steers_name_the_plugin_and_no_others(ran):
    lake = Lake(ran)
    named = {
        (slot.modality, slot.table)
        for table in lake.tables.root.iterdir()
        for modality in ("text", "image")
        for slot, stamp in lake.tables.stamps(table.name, modality).items()
        if "plugins/example" in stamp.inputs and not slot.shard.startswith("books/")
    }
    assert named == STEPS_BY_PLUGIN
    assert lake.tables.stamp(Slot("items", "image", "books/two.ppm")).inputs["plugins/example"] == "1.0"


_STALE = """
import json, sys
from pathlib import Path
from mmlake.lake import Lake
from mmlake.settings import Settings
from mmlake.steps import corpus_steps, is_current, row_steps
lake = Lake(sys.argv[1], settings=Settings.load(Path(sys.argv[2])))
stale = [
    (modality, step.name)
    for modality in ("text", "image")
    for step in row_steps(lake.parts.modality(modality))
    if not is_current(step, lake, modality, {"text": "texts/a.jsonl", "image": "pictures"}[modality])
]
stale += [
    (modality, step.name)
    for modality in ("text", "image")
    for step in corpus_steps(lake.parts.modality(modality))
    if not is_current(step, lake, modality)
]
print(json.dumps(sorted(stale)))
"""


def test_another_version_makes_the_tables_stale_that_it_steers_and_no_others(ran, base):
    installed(base / "two", version="1.1")
    for packages, expected in ((base / "one", set()), (base / "two", STEPS_BY_PLUGIN)):
        done = python(packages, "-c", _STALE, ran, base / "settings.toml")
        assert done.returncode == 0, done.stderr
        assert {tuple(one) for one in json.loads(done.stdout)} == expected


def test_the_code_location_has_a_check_for_the_rule(base):
    code = (
        "from mmlake_assets.definitions import defs\n"
        "print(sorted(str(key.name) for key in defs.resolve_asset_graph().asset_check_keys if 'example' in key.name))"
    )
    os.environ["MMLAKE_SETTINGS"] = str(base / "settings.toml")
    try:
        done = python(base / "one", "-c", code)
    finally:
        del os.environ["MMLAKE_SETTINGS"]
    assert done.stdout.strip() == "['example_reddish']", done.stderr


def test_python_takes_the_rows_of_a_module_that_the_settings_name(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    make.land(tmp_path / "landing", {"red.png": picture(2, red=True)})
    settings = Settings.of({"plugins": {"modules": ["mmlake_example"]}})
    lake = Lake(tmp_path / "lake", landing=tmp_path / "landing", settings=settings)
    pipeline.refresh(lake)
    pipeline.run_tables(lake, modalities=["image"])
    assert [row["rule"] for row in lake.tables.concat("verdicts", "image").to_pylist()] == ["example_reddish"]


def test_what_is_installed_and_not_named_is_not_used(base, monkeypatch):
    monkeypatch.syspath_prepend(str(base / "one"))
    assert load(PluginSettings()) == ()
    assert [plugin.name for plugin in load(PluginSettings(entry_points=("*",)))] == ["example"]
