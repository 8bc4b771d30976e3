"""Aesthetic scores by a head of the settings on vectors of CLIP: the numbers of the layers as torch runs them, of films
the mean over keyframes; a reason where there is none, and no pickle opened."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

from mmlake import compute, schemas
from mmlake.compute import Executor
from mmlake.embed import embed, model_measures
from mmlake.embed.aesthetics import _CONVERSION, AESTHETIC, AestheticHead
from mmlake.embed.settings import EmbedSettings
from mmlake.errors import ModelMissing, SettingsError
from mmlake.modalities import MODALITIES
from mmlake.quality import judge, measure, with_measures
from mmlake.store import BlobStore
from tests import make
from tests.embed.tiny_models import picture, saved

torch = pytest.importorskip("torch")
nn = torch.nn
DIMENSION = 12  # of the tiny CLIP


@pytest.fixture(autouse=True)
def _no_models_left():
    yield
    compute.forget_models()


def network(form: str, dimension: int = DIMENSION):
    """The published forms of the predictor, with fewer numbers."""
    torch.manual_seed(3)
    linear = [nn.Linear(dimension, 10), nn.Linear(10, 8), nn.Linear(8, 6), nn.Linear(6, 4), nn.Linear(4, 1)]
    if form == "one":
        return nn.Linear(dimension, 1)
    if form == "linear":
        parts = [linear[0], nn.Dropout(0.2), linear[1], nn.Dropout(0.2), linear[2], nn.Dropout(0.1), *linear[3:]]
    else:
        for one in linear:
            nn.init.normal_(one.weight)  # far enough apart that some bend
        parts = [linear[0], nn.ReLU(), nn.Dropout(0.2), linear[1], nn.ReLU(), nn.Dropout(0.2), linear[2], nn.ReLU(),
                 nn.Dropout(0.1), linear[3], nn.ReLU(), linear[4]]  # fmt: skip
    return nn.ModuleDict({"layers": nn.Sequential(*parts)})


def written(path, model) -> str:
    from safetensors.torch import save_file

    save_file(model.state_dict(), path)
    return str(path)


@pytest.mark.parametrize("form", ["one", "linear", "relu"])
def test_a_head_scores_as_its_network_does(form, tmp_path) -> None:
    model = network(form).eval()
    vectors = np.random.default_rng(1).normal(size=(50, DIMENSION))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    head = AestheticHead.of(written(tmp_path / "head.safetensors", model))
    run = model["layers"] if form != "one" else model
    with torch.inference_mode():
        expected = run(torch.tensor(vectors, dtype=torch.float32)).numpy()[:, 0]
    assert head.scores(vectors) == pytest.approx(expected, abs=1e-4) and np.ptp(expected) > 0.01
    assert head.revision.startswith("sha256:")


@pytest.fixture
def clip(tmp_path) -> EmbedSettings:
    (tmp_path / "clip").mkdir()
    return EmbedSettings(models=saved("clip", tmp_path / "clip").models)


def units(tmp_path, modality: str):
    """(store, tracks): three pictures; or a film with all of them as keyframes and one without any."""
    store = BlobStore(tmp_path / "blobs")
    blobs = [store.put(picture(seed)) for seed in range(3)]
    base = {"modality": modality, "role": "media", "status": "ok", "size_bytes": 1, "transcript_source": "none"}
    if modality == "image":
        rows = [base | {"digest": blob} for blob in sorted(blobs)]
    else:
        frames = [{"time_s": 0.0, "digest": blob, "shot": 0} for blob in blobs]
        rows = [base | {"digest": "a" * 64, "keyframes": frames}, base | {"digest": "b" * 64}]
    return store, make.as_units(schemas.from_rows(schemas.TRACKS, rows))


def taken(store, tracks, modality: str, settings: EmbedSettings, head: str):
    found = model_measures(
        tracks, modality, (AESTHETIC,), store=store, executor=Executor("cpu"), settings=settings, head=head
    )
    return dict(found)


def test_a_picture_has_the_score_of_its_vector_and_a_film_the_mean_of_its_keyframes(tmp_path, clip) -> None:
    head = written(tmp_path / "head.safetensors", network("linear"))
    store, tracks = units(tmp_path, "image")
    found = taken(store, tracks, "image", clip, head)
    table = embed(tracks, "image", encoder="clip", store=store, executor=Executor("cpu"), settings=clip)
    expected = AestheticHead.of(head).scores(np.array(table.column("vector").to_pylist()))
    assert [found[digest].value for digest in table["digest"].to_pylist()] == pytest.approx(expected, abs=1e-3)
    assert {one.producer for one in found.values()} == {"clip+aesthetic"}
    assert all("+sha256:" in one.revision for one in found.values())

    store, tracks = units(tmp_path, "video")
    film = taken(store, tracks, "video", clip, head)
    assert film["a" * 64].value == pytest.approx(expected.mean(), abs=1e-3)
    assert (film["b" * 64].value, film["b" * 64].note) == (None, "num_keyframes=0 not in [1, inf)")


def test_what_scores_below_the_bound_is_flagged_and_without_a_head_nothing_is(tmp_path, clip) -> None:
    model = network("one")
    store, tracks = units(tmp_path, "image")
    plain = taken(store, tracks, "image", clip, written(tmp_path / "plain.safetensors", model))
    with torch.no_grad():  # of the three, one below the bound, one on it
        model.bias += 4.5 - sorted(one.value for one in plain.values())[1]
    rules = [rule for rule in MODALITIES["image"].rules if rule.measure == AESTHETIC]
    statuses = {}
    for head in (written(tmp_path / "head.safetensors", model), ""):
        found = taken(store, tracks, "image", clip, head)
        rows = [
            {"digest": digest, "measure": one.measure, "value": one.value, "note": one.note, "producer": one.producer,
             "revision": one.revision} for digest, one in found.items()
        ]  # fmt: skip
        verdicts = judge(tracks, with_measures(measure(tracks, [], store=store), rows), rules)
        statuses[bool(head)] = dict(zip(verdicts["digest"].to_pylist(), verdicts["status"].to_pylist(), strict=True))
        if head:
            below = {digest for digest, one in found.items() if one.value < 4.5}
            assert {digest for digest, status in statuses[True].items() if status == "flagged"} == below
            assert len(below) in (1, 2)
        else:
            assert all("quality.aesthetic_head" in one.note for one in found.values())
    assert set(statuses[False].values()) == {"ok"}


def test_a_head_is_of_the_vectors_of_its_encoder(tmp_path, clip) -> None:
    store, tracks = units(tmp_path, "image")
    with pytest.raises(SettingsError, match="vectors of 768 numbers, embed.models.clip gives 12"):
        taken(store, tracks, "image", clip, written(tmp_path / "head.safetensors", network("one", 768)))


class _Harm:
    def __reduce__(self):
        return (open, ("harmed", "w"))


def test_a_pickle_is_refused_unopened_and_the_command_of_the_message_converts_a_good_one(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "harm.pth").write_bytes(pickle.dumps(_Harm()))
    with pytest.raises(SettingsError, match="no file of safetensors"):
        AestheticHead.of("harm.pth")
    torch.save(network("linear").state_dict(), "head.pth")
    code = _CONVERSION.split('"')[1]
    subprocess.run([sys.executable, "-c", code, "head.pth", "head.safetensors"], check=True)
    assert AestheticHead.of("head.safetensors").dimension == DIMENSION
    assert subprocess.run([sys.executable, "-c", code, "harm.pth", "harm.safetensors"], capture_output=True).returncode
    assert not (tmp_path / "harmed").exists()


def test_other_files_are_refused_with_what_they_hold(tmp_path) -> None:
    from safetensors.torch import save_file

    with pytest.raises(ModelMissing, match="quality.aesthetic_head is 'absent', which is no file"):
        AestheticHead.of("absent")
    for number, tensors in enumerate((
        {"classifier.weight": torch.ones(1, 4)},
        {"weight": torch.ones(2, 4), "bias": torch.ones(2)},
        {"layers.0.weight": torch.ones(3, 4), "layers.0.bias": torch.ones(3)},
        {"weight": torch.ones(1, 4), "bias": torch.ones(2)},
        {"weight": torch.ones(1, 4)},
    )):  # fmt: skip
        save_file(tensors, tmp_path / f"{number}.safetensors")
        with pytest.raises(SettingsError, match="expected `weight` and `bias`"):
            AestheticHead.of(str(tmp_path / f"{number}.safetensors"))
