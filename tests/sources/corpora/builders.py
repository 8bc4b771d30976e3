"""The four named corpora as their publishers lay them out, a handful of samples each."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests import make
from tests.sources.source_builders import png


def fineweb_record(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "text": make.prose(number),
        "id": f"<urn:uuid:37c61ea6-22b4-4ad1-9b93-1fb1d3f5e1{number:02d}>",
        "dump": "CC-MAIN-2013-20",
        "url": f"http://example.org/{number}",
        "file_path": "s3://commoncrawl/crawl-data/CC-MAIN-2013-20/segments/1368696381249/warc/CC-MAIN-20130516092621-00000-ip-10-60-113-184.ec2.internal.warc.gz",
        "language": "en",
        "language_score": 0.9185474514961243,
        "token_count": 594 + number,
        "score": 3.0625,
        "int_score": 3,
    } | changes


def fineweb(records: list[dict[str, Any]]) -> bytes:
    """One Parquet file of the data set, columns and types as published."""
    types = {"token_count": pa.int64(), "int_score": pa.int64(), "score": pa.float64(), "language_score": pa.float64()}
    return _parquet(records, pa.schema([(name, types.get(name, pa.string())) for name in records[0]]))


def _parquet(records: list[dict[str, Any]], schema: pa.Schema, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records, schema=schema), sink, compression="snappy", **options)
    return sink.getvalue()


LICENCES = [
    {
        "url": "http://creativecommons.org/licenses/by-nc-sa/2.0/",
        "id": 1,
        "name": "Attribution-NonCommercial-ShareAlike License",
    },
    {"url": "http://creativecommons.org/licenses/by/2.0/", "id": 4, "name": "Attribution License"},
    {"url": "http://flickr.com/commons/usage/", "id": 7, "name": "No known copyright restrictions"},
]
CATEGORIES = [
    {"supercategory": "person", "id": 1, "name": "person"},
    {"supercategory": "food", "id": 51, "name": "bowl"},
]
INFO = {
    "description": "COCO 2017 Dataset",
    "url": "http://cocodataset.org",
    "version": "1.0",
    "year": 2017,
    "contributor": "COCO Consortium",
    "date_created": "2017/09/01",
}


def coco_image(number: int, *, split: str = "train2017", licence: int = 4, **changes: Any) -> dict[str, Any]:
    name = f"COCO_{split}_{number:012d}.jpg" if split.endswith("2014") else f"{number:012d}.jpg"
    return {
        "license": licence,
        "file_name": name,
        "coco_url": f"http://images.cocodataset.org/{split}/{name}",
        "height": 480,
        "width": 640,
        "date_captured": "2013-11-14 17:02:52",
        "flickr_url": f"http://farm7.staticflickr.com/6116/{number}_z.jpg",
        "id": number,
    } | changes


def coco_captions(number: int, *, count: int = 5) -> list[dict[str, Any]]:
    return [
        {"image_id": number, "id": 1000 * number + at, "caption": f"Picture {number} told for the {at}. time."}
        for at in range(count)
    ]


def coco_object(number: int, at: int, *, category: int = 51, iscrowd: int = 0) -> dict[str, Any]:
    counts = {"counts": [272, 2, 4, 4], "size": [480, 640]}
    return {
        "segmentation": counts if iscrowd else [[1.08, 187.69, 612.67, 473.53, 1.08, 187.69]],
        "area": 120057.13925,
        "iscrowd": iscrowd,
        "image_id": number,
        "bbox": [1.08, 187.69, 611.59, 285.84],
        "category_id": category,
        "id": 7_000_000 + 100 * number + at,
    }


def coco_json(
    images: list[Any],
    annotations: list[Any] | None,
    *,
    order: str = "info licenses images annotations categories",
    categories: bool = False,
) -> bytes:
    """An annotation file with its keys in that order; key order and spaces as Python writes them, which is how COCO
    was written."""
    parts = {
        "info": INFO,
        "licenses": LICENCES,
        "images": images,
        "annotations": annotations,
        "categories": CATEGORIES if categories else None,
    }
    return json.dumps({name: parts[name] for name in order.split() if parts[name] is not None}).encode()


def coco(
    *,
    split: str = "train2017",
    numbers: tuple[int, ...] = (9, 25, 30),
    order: str = "info licenses images annotations categories",
) -> dict[str, bytes]:
    """The files of a COCO directory: images, captions, instances."""
    images = [coco_image(number, split=split) for number in numbers]
    captions = [caption for number in numbers for caption in coco_captions(number)]
    objects = [coco_object(number, at, category=(51, 1)[at], iscrowd=at) for number in numbers for at in range(2)]
    return {
        f"coco/annotations/captions_{split}.json": coco_json(images, captions, order=order),
        f"coco/annotations/instances_{split}.json": coco_json(images, objects, order=order, categories=True),
        **{f"coco/{split}/{image['file_name']}": png(image["id"] % 256) for image in images},
    }


_SPAN = pa.struct([("end_timestamp", pa.string()), ("start_timestamp", pa.string())])
_TEXTS = pa.list_(pa.string())
FINEVIDEO_JSON = pa.struct(
    [
        ("content_fine_category", pa.string()),
        (
            "content_metadata",
            pa.struct(
                [
                    (
                        "characterList",
                        pa.list_(
                            pa.struct(
                                [("characterId", pa.string()), ("description", pa.string()), ("name", pa.string())]
                            )
                        ),
                    ),
                    ("description", pa.string()),
                    ("fps", pa.float64()),
                    ("qAndA", pa.list_(pa.struct([("answer", pa.string()), ("question", pa.string())]))),
                    (
                        "scenes",
                        pa.list_(
                            pa.struct(
                                [
                                    (
                                        "activities",
                                        pa.list_(pa.struct([("description", pa.string()), ("timestamp", _SPAN)])),
                                    ),
                                    ("cast", _TEXTS),
                                    (
                                        "mood",
                                        pa.struct(
                                            [
                                                ("description", pa.string()),
                                                (
                                                    "keyMoments",
                                                    pa.list_(
                                                        pa.struct(
                                                            [
                                                                ("changeDescription", pa.string()),
                                                                ("timestamp", pa.string()),
                                                            ]
                                                        )
                                                    ),
                                                ),
                                            ]
                                        ),
                                    ),
                                    (
                                        "narrativeProgression",
                                        pa.list_(pa.struct([("description", pa.string()), ("timestamp", pa.string())])),
                                    ),
                                    ("props", pa.list_(pa.struct([("name", pa.string()), ("timestamp", _SPAN)]))),
                                    ("sceneId", pa.int64()),
                                    ("timestamps", _SPAN),
                                    ("title", pa.string()),
                                ]
                            )
                        ),
                    ),
                    (
                        "storylines",
                        pa.struct(
                            [
                                ("climax", pa.struct([("description", pa.string()), ("timestamp", pa.string())])),
                                ("description", pa.string()),
                                ("scenes", pa.list_(pa.int64())),
                            ]
                        ),
                    ),
                    ("title", pa.string()),
                ]
            ),
        ),
        ("content_parent_category", pa.string()),
        ("duration_seconds", pa.int64()),
        ("original_json_filename", pa.string()),
        ("original_video_filename", pa.string()),
        ("resolution", pa.string()),
        ("text_to_speech", pa.string()),
        ("text_to_speech_word_count", pa.int64()),
        (
            "timecoded_text_to_speech",
            pa.list_(pa.struct([("end", pa.string()), ("start", pa.string()), ("text", pa.string())])),
        ),
        ("youtube_categories", _TEXTS),
        ("youtube_channel", pa.string()),
        ("youtube_tags", _TEXTS),
        ("youtube_title", pa.string()),
        ("youtube_view_count", pa.int64()),
    ]
)


def finevideo_record(number: int, lines: list[tuple[str, str, str]] | None, **changes: Any) -> dict[str, Any]:
    """What stands in the column `json`; lines: (start, end, text)."""
    span = {"start_timestamp": "00:00:00.000", "end_timestamp": "00:00:02.240"}
    scene = {
        "activities": [{"description": "walks", "timestamp": span}],
        "cast": ["Ann"],
        "mood": {"description": "calm", "keyMoments": []},
        "narrativeProgression": [{"description": "begins", "timestamp": "00:00:00.000"}],
        "props": [{"name": "lamp", "timestamp": {"start_timestamp": "start", "end_timestamp": "00:01:00.5"}}],
        "sceneId": 1,
        "timestamps": span,
        "title": "Opening",
    }
    about = {
        "characterList": [{"characterId": "1", "description": "a walker", "name": "Ann"}],
        "description": "A walk.",
        "fps": 23.976,
        "qAndA": [{"answer": "Ann", "question": "Who?"}],
        "scenes": [scene],
        "storylines": {
            "climax": {"description": "arrives", "timestamp": "00:00:02.000"},
            "description": "a walk",
            "scenes": [1],
        },
        "title": "Walk",
    }
    return {
        "content_fine_category": "Walks",
        "content_metadata": about,
        "content_parent_category": "Travel",
        "duration_seconds": 3,
        "original_json_filename": f"sample_{number}.json",
        "original_video_filename": f"sample_{number}.mp4",
        "resolution": "640x360",
        "text_to_speech": None if lines is None else " ".join(text for _, _, text in lines),
        "text_to_speech_word_count": 5,
        "timecoded_text_to_speech": None
        if lines is None
        else [{"start": start, "end": end, "text": text} for start, end, text in lines],
        "youtube_categories": ["Travel & Events"],
        "youtube_channel": "Walks",
        "youtube_tags": ["walk"],
        "youtube_title": f"Walk {number}",
        "youtube_view_count": 12_345,
    } | changes


def finevideo(rows: list[tuple[bytes | None, Any]], *, kind: pa.DataType = FINEVIDEO_JSON) -> bytes:
    """One Parquet file of (mp4, json); kind: of the column json."""
    return _parquet(
        [{"mp4": mp4, "json": record} for mp4, record in rows],
        pa.schema([("mp4", pa.binary()), ("json", kind)]),
        row_group_size=2,
    )


SPEAKERS = b"""; Some pipe(|) separated metadata about all LibriSpeech speakers, taken from
; LibriVox's website, and about how they are used in the dataset.
;
;ID  |SEX| SUBSET           |MINUTES| NAME
14   | F | train-clean-360  | 25.03 | Kristin LeMoine
84   | F | dev-clean        |  8.02 | Christie Nowak
174  | M | dev-clean        |  8.04 | Peter |Pipe| Eckley
"""


def flac(number: int = 0) -> bytes:
    """The first bytes of a FLAC file, enough to be recognized as one."""
    return b"fLaC\0\0\0\x22" + number.to_bytes(4, "big") + bytes(60)


def librispeech(utterances: dict[str, list[str]], *, subset: str = "dev-clean", sound: Any = flac) -> dict[str, bytes]:
    """The tree: by "reader-chapter", the words of its utterances."""
    files = {
        "LibriSpeech/README.TXT": b"1. INTRODUCTION\n",
        "LibriSpeech/LICENSE.TXT": b"CC BY 4.0\n",
        "LibriSpeech/SPEAKERS.TXT": SPEAKERS,
        "LibriSpeech/CHAPTERS.TXT": b";ID |READER\n",
    }
    number = 0
    for chapter, texts in utterances.items():
        folder = f"LibriSpeech/{subset}/{chapter.replace('-', '/')}"
        for at in range(len(texts)):
            number += 1
            files[f"{folder}/{chapter}-{at:04d}.flac"] = sound(number)
        files[f"{folder}/{chapter}.trans.txt"] = "".join(
            f"{chapter}-{at:04d} {text}\n" for at, text in enumerate(texts)
        ).encode()
    return files


def packed(files: dict[str, bytes], *, compress: bool = False) -> bytes:
    """The tree as a tar, or as the .tar.gz that the publisher offers."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return gzip.compress(sink.getvalue(), mtime=0) if compress else sink.getvalue()


def metadata(row: dict[str, Any]) -> dict[str, Any]:
    return json.loads(row["metadata_json"] or "{}")


def landed(root: Path, files: dict[str, bytes]) -> Path:
    return make.land(root, files)
