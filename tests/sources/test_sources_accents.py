"""Names with accents: macOS spells them with marks of their own (NFD), and what says something of those files composed
(NFC), or the other way round. They are one name; locators keep the spelling of the disk."""

from __future__ import annotations

import json
import unicodedata

import pytest

from mmlake.records import SourceRef
from tests import make
from tests.sources.source_builders import jsonl, land, png, rows_of

FORMS = [("NFD", "NFC"), ("NFC", "NFD")]
COCO = {
    "images": [{"id": 1, "file_name": "caf\u00e9.png"}],
    "annotations": [{"id": 1, "image_id": 1, "caption": "a caf\u00e9 at night"}],
    "categories": [],
}


def spelled(form: str, text: str) -> str:
    return unicodedata.normalize(form, text)


@pytest.mark.parametrize(("disk", "said"), FORMS)
@pytest.mark.parametrize("kind", ["sibling", "table", "manifest", "coco", "tar", "directory"])
def test_an_image_has_the_caption_of_its_name(tmp_path, kind, disk, said):
    name, table = spelled(disk, "caf\u00e9.png"), spelled(said, "caf\u00e9.png")
    stem, caption = table.removesuffix(".png"), "a caf\u00e9 at night"
    there, here = spelled(disk, "\u00e9t\u00e9"), spelled(said, "\u00e9t\u00e9")
    files: dict[str, bytes] = {
        "sibling": {f"d/{name}": png(1), f"d/{stem}.txt": caption.encode()},
        "table": {f"d/{name}": png(1), "d/metadata.csv": f"file_name,caption\n{table},{caption}\n".encode()},
        "manifest": {f"d/img/{name}": png(1), "d/train.jsonl": jsonl({"image": f"img/{table}", "caption": caption})},
        "directory": {
            f"d/{there}/a.png": png(1),
            "d/metadata.jsonl": jsonl({"file_name": f"{here}/a.png", "caption": caption}),
        },
        "coco": {
            f"d/val2017/{name}": png(1),
            "d/annotations/captions_val2017.json": spelled(said, json.dumps(COCO, ensure_ascii=False)).encode(),
        },
        "tar": {"d/a.tar": make.tar({name: png(1), f"{stem}.txt": caption.encode()})},
    }[kind]
    rows = rows_of(land(tmp_path / "in", files))
    assert all(row["status"] == "ok" for row in rows), rows
    found = {row["modality"]: spelled("NFC", row["sample_text"] or row["text_content"] or "") for row in rows}
    assert (len(rows), found) == (2, {"image": caption, "text": caption})
    assert len({row["sample_id"] for row in rows}) == 1
    place = next(SourceRef.from_json(row["source_ref"]) for row in rows if row["modality"] == "image")
    assert (place.member or place.path).endswith("a.png" if kind == "directory" else name)  # as it is spelled there
