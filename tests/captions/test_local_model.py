"""Weights on this machine answer as a server does, without one."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image

from mmlake.captions import CaptionSettings, captions
from mmlake.captions.description import instructions
from mmlake.captions.local_model import LocalModel
from mmlake.endpoint import Picture
from mmlake.errors import ModelMissing, SettingsError
from mmlake.schemas import TRACKS, from_rows
from mmlake.store import BlobStore
from tests.captions.tiny_vlm import write_vlm

ANSWER = {"caption": "red", "tags": ["a"], "events": [{"start_s": 0, "end_s": 2, "text": "b"}]}
PARTS = ["The clip lasts 2.00 s.", "At 0.50 s:"]
SETTINGS: dict[str, Any] = {"describer": "local", "vocabulary": ("a",), "local_tokens": 120}


def _jpeg() -> bytes:
    sink = io.BytesIO()
    Image.new("RGB", (64, 48), (200, 10, 10)).save(sink, "JPEG")
    return sink.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_vlm(
        tmp_path_factory.mktemp("weights") / "tiny-llava",
        parts=[*PARTS, Picture(_jpeg())],
        instructions=instructions(CaptionSettings(**SETTINGS)),
        answer=json.dumps(ANSWER),
    )


def _described(folder: Path, tmp_path: Path, **settings: Any) -> dict[str, Any]:
    store = BlobStore(tmp_path / "blobs")
    frame = {"time_s": 0.5, "digest": store.put(_jpeg(), extension="jpg"), "shot": 0}
    row = {
        "digest": "d" * 64,
        "modality": "video",
        "role": "media",
        "status": "ok",
        "size_bytes": 1,
        "duration_s": 2.0,
        "keyframes": [frame],
        "transcript_source": "none",
    }
    tracks: pa.Table = from_rows(TRACKS, [row])
    given = CaptionSettings(**{**SETTINGS, "local_model": str(folder), **settings})
    (found,) = captions(tracks, store=store, describes=True, settings=given).to_pylist()
    return found


def test_a_model_on_this_machine_describes_a_clip(folder, tmp_path) -> None:
    found = _described(folder, tmp_path)
    assert (found["status"], found["producer"], found["model"]) == ("ok", "local", "tiny-llava")
    assert (found["caption"], found["event_tags"]) == ("red", ["a"])
    assert found["events"] == [{"start_s": 0.0, "end_s": 2.0, "text": "b"}]
    assert found["revision"].startswith("sha256:")


def test_a_model_that_writes_nonsense_costs_a_row(tmp_path) -> None:
    found = _described(write_vlm(tmp_path / "untrained"), tmp_path, local_tokens=12)
    assert (found["status"], found["error_code"]) == ("unreadable", 3802)
    assert found["error"] == "the model did not come to an end within captions.local_tokens"


def test_a_model_that_fails_costs_the_row_of_its_clip(folder, tmp_path, monkeypatch) -> None:
    def _fails(self: LocalModel, parts: object, instructions: str) -> str:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(LocalModel, "ask", _fails)
    found = _described(folder, tmp_path)
    assert (found["status"], found["error_code"], found["answers"]) == ("unreadable", 3806, [])


def test_other_weights_have_another_revision(folder, tmp_path) -> None:
    other = write_vlm(tmp_path / "tiny-llava")
    of_other = LocalModel(str(other), device="cpu", max_tokens=8).revision
    assert of_other != LocalModel(str(folder), device="cpu", max_tokens=8).revision


@pytest.mark.parametrize("path", ["", "nowhere"])
def test_a_folder_without_weights_is_refused_with_what_to_do(path: str) -> None:
    with pytest.raises(ModelMissing, match=r"captions\.local_model"):
        LocalModel(path, device="cpu", max_tokens=8)


def test_pickled_weights_are_never_read(tmp_path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(ModelMissing, match="safetensors"):
        LocalModel(str(tmp_path), device="cpu", max_tokens=8)


def test_a_row_that_the_table_lacks_is_refused(tmp_path) -> None:
    with pytest.raises(SettingsError, match=r"captions\.describer='gpt' is not one of \['endpoint', 'local', 'none'\]"):
        _described(tmp_path, tmp_path, describer="gpt")
