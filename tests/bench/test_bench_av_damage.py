"""Part `damage` of `mmlake bench av`: films are made, damaged and judged, and labels of a folder are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mmlake.bench.av import PARTS, Run
from mmlake.bench.av.clean_films import CLEAN, clean_film
from mmlake.bench.av.damage import FOUND_BY, PART
from mmlake.bench.av.damaged_films import DAMAGES, film_of
from mmlake.errors import SettingsError
from mmlake.modalities import MODALITIES


def test_every_damage_has_rules_that_exist() -> None:
    rules = {rule.name for rule in MODALITIES["video"].rules} | {"media_truncated", "undecodable"}
    assert set(FOUND_BY) == set(DAMAGES)
    assert {name for names in FOUND_BY.values() for name in names} <= rules
    assert PARTS["damage"] is PART


def test_a_film_of_a_seed_is_the_same_and_of_another_seed_another(tmp_path: Path) -> None:
    for name, seed in (("one", 4), ("two", 4), ("three", 5)):
        clean_film("camera", seed, tmp_path / f"{name}.mp4", duration_s=0.5)
    one, two, three = ((tmp_path / f"{name}.mp4").read_bytes() for name in ("one", "two", "three"))
    assert one == two != three


@pytest.mark.slow
def test_every_kind_of_clean_film_is_drawn(tmp_path: Path) -> None:
    for kind in CLEAN:
        clean_film(kind, 3, tmp_path / "film.mp4", duration_s=0.3)
        assert film_of(tmp_path / "film.mp4").duration_s == pytest.approx(0.3, abs=0.05)


def test_labels_are_read_and_judged(tmp_path: Path) -> None:
    folder, scratch = tmp_path / "films", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    clean_film("camera", 1, folder / "clean.mp4", duration_s=2.0)
    DAMAGES["strobe"](film_of(folder / "clean.mp4"), folder / "strobe.mkv", np.random.default_rng(0))
    (folder / "clean.mp4").unlink()
    (folder / "damages.csv").write_text("file,damage\nstrobe.mkv,strobe\n")
    assert PART.labelled is not None
    rows = {(row.case, row.measure): row for row in PART.labelled(folder, Run(seed=0, limit=1, scratch=scratch))}
    assert rows["strobe", "recall"].value == 1.0
    assert rows["clean films", "quarantined"].value is None


def test_a_damage_that_nobody_knows_is_named(tmp_path: Path) -> None:
    (tmp_path / "damages.csv").write_text("file,damage\na.mp4,rust\n")
    assert PART.labelled is not None
    with pytest.raises(SettingsError, match="rust"):
        list(PART.labelled(tmp_path, Run(seed=0, limit=1, scratch=tmp_path / "scratch")))
