"""Small valid shards of every format that a connector reads: what the fuzzer starts from."""

from __future__ import annotations

import bz2
import datetime
import decimal
import gzip
import io
import json
import lzma
import tarfile
import warnings
import zipfile
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from tests import make
from tests.hostile.addresses import lists

Members = tuple[tuple[str, bytes], ...]
PACKINGS = ("", "gz", "zst", "bz2", "xz")


@dataclass(frozen=True, kw_only=True)
class Seed:
    """One valid file. Its parts are kept, so that a mutation can be made inside and the layers around it be made
    good again."""

    name: str  # of the file in the landing zone
    data: bytes  # the file, or what stands inside its compression
    compression: str = ""  # "", "gz", "zst", "bz2" or "xz"
    members: Members = ()  # of an archive, in order
    method: int | None = None  # of the members of a zip; None: the archive is a tar
    companions: Members = ()  # files that lie in the landing zone with it and stay as they are
    dialect: int = tarfile.USTAR_FORMAT


def compress(data: bytes, compression: str) -> bytes:
    """The bytes in that compression; "" leaves them alone."""
    if compression == "gz":
        return gzip.compress(data, compresslevel=1, mtime=0)
    if compression == "bz2":
        return bz2.compress(data, 1)
    if compression == "xz":
        return lzma.compress(data, preset=0)
    return zstandard.ZstdCompressor(level=1, write_checksum=True).compress(data) if compression == "zst" else data


def tar(members: Members, dialect: int = tarfile.USTAR_FORMAT) -> bytes:
    """A tar of these members that ends with its two zero blocks and nothing behind them. Names may repeat."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=dialect, errors="surrogateescape") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        end = archive.offset
    return sink.getvalue()[:end] + bytes(1024)


def zipped(
    members: Members | dict[str, bytes],
    method: int = zipfile.ZIP_DEFLATED,
    *,
    before: bytes = b"",
    comment: bytes = b"",
) -> bytes:
    """A zip as the standard library writes it. Names may repeat."""
    sink = io.BytesIO(before)
    sink.seek(len(before))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # repeated names
        with zipfile.ZipFile(sink, "w", method) as archive:
            for name, data in members.items() if isinstance(members, dict) else members:
                info = zipfile.ZipInfo(name)
                archive.writestr(info, data, compress_type=method)
            archive.comment = comment
    return sink.getvalue()


def streamed(members: Members | dict[str, bytes]) -> bytes:
    """A zip written into a pipe: sizes stand behind the members."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise OSError

        def seek(self, *_: int) -> int:
            raise OSError

    sink = Pipe()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items() if isinstance(members, dict) else members:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=zipfile.ZIP_DEFLATED)
    return sink.getvalue()


def parquet(columns: dict[str, object], **options: object) -> bytes:
    """A Parquet file of these columns."""
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, **options)
    return sink.getvalue()


@cache
def media() -> dict[str, bytes]:
    """One small file of every kind of content, by file name."""
    import numpy as np
    import soundfile

    found = {
        f"p.{extension}": make.picture(at, width=24, height=18, kind=kind)
        for at, (extension, kind) in enumerate(
            (("png", "PNG"), ("jpg", "JPEG"), ("gif", "GIF"), ("webp", "WEBP"), ("tif", "TIFF"), ("bmp", "BMP"))
        )
    }
    found["s.wav"] = make.sound(1, seconds=0.6, rate_hz=8000)
    for extension, kind in (("flac", "FLAC"), ("ogg", "OGG")):
        sink = io.BytesIO()
        soundfile.write(sink, np.sin(np.arange(4000) / 9).astype(np.float32), 8000, format=kind)
        found[f"s.{extension}"] = sink.getvalue()
    found["v.mp4"] = make.film(1, seconds=0.5, width=48, height=36)
    found["t.txt"] = make.prose(1, words=30).encode()
    found["t.html"] = (
        b"<!doctype html><html><head><title>x</title></head><body><p>"
        + make.prose(2, words=30).encode()
        + b"</p></body></html>"
    )
    found["t.srt"] = (
        b"1\n00:00:00,000 --> 00:00:01,000\nA quiet river.\n\n2\n00:00:01,000 --> 00:00:02,500\nA stone bridge.\n"
    )
    found["t.vtt"] = b"WEBVTT\n\n00:00.000 --> 00:01.000\nA quiet river.\n"
    found["t.json"] = json.dumps(
        {"caption": "a bridge", "license": "CC BY 4.0", "score": 0.25, "nested": {"a": [1, None, "x"]}}
    ).encode()
    return found


def _sample_members() -> Members:
    files = media()
    record = json.dumps({"texts": ["first", None, "third"], "images": [None, "a", None]}).encode()
    return (
        ("000.png", files["p.png"]), ("000.txt", b"a cat on a mat"), ("000.cls", b"7"), ("001.jpg", files["p.jpg"]),
        ("001.json", files["t.json"]),
        ("002.json", record), ("002.a.tif", files["p.tif"]), ("talk/003.wav", files["s.wav"]),
        ("talk/003.srt", files["t.srt"]), ("004.mp4", files["v.mp4"]),
        ("005.txt.gz", gzip.compress(b"packed text " * 9, mtime=0)), ("006.bin", bytes(range(256))),
        ("007.html", files["t.html"]),
    )  # fmt: skip


def _long_members() -> Members:
    files = media()
    return (
        ("d" * 90 + "/" + "e" * 60 + ".png", files["p.png"]),
        ("dir/\u00fcn\u00ef \U0001f600.txt", "gr\u00fcn".encode()), ("n" * 180 + ".flac", files["s.flac"]),
        ("dup.txt", b"one"), ("dup.txt", b"two"), ("plain.gif", files["p.gif"]), ("empty.txt", b""),
    )  # fmt: skip


def _parquet_seeds() -> list[Seed]:
    files = media()
    images = pa.array([{"bytes": files["p.png"], "path": "a.png"}, {"bytes": files["p.jpg"], "path": None}, None])
    nested = {
        "id": ["a", "b", "c"],
        "image": images,
        "caption": [["one", "two"], ["three"], []],
        "score": pa.array([1, None, 3], pa.int32()),
    }
    typed = {
        "text": pa.array([make.prose(at, words=12) for at in range(6)]).dictionary_encode(),
        "when": pa.array([datetime.datetime(2026, 1, at + 1, tzinfo=datetime.UTC) for at in range(6)]),
        "price": pa.array([decimal.Decimal(f"{at}.25") for at in range(6)]),
        "flags": pa.array([[True], [], None, [False, True], [None], [True]]),
    }
    sound = {
        "audio": [files["s.wav"], files["s.flac"]],
        "transcript": ["a quiet river", "a stone bridge"],
        "language": ["en", "en"],
    }
    texts = {
        "id": [f"i{at}" for at in range(40)],
        "text": [make.prose(at, words=8) for at in range(40)],
        "url": ["http://x"] * 40,
        "int_score": list(range(40)),
    }
    seeds = [
        Seed(name="images.parquet", data=parquet(nested, write_page_checksum=True, compression="snappy")),
        Seed(name="typed.parquet", data=parquet(typed, compression="zstd", data_page_version="2.0")),
        Seed(name="sound.parquet", data=parquet(sound, compression="none", write_page_checksum=True)),
    ]
    seeds += [
        Seed(
            name=f"t-{codec}.parquet",
            data=parquet(texts, compression=codec, row_group_size=16, write_page_checksum=codec != "lz4"),
        )
        for codec in ("gzip", "lz4", "brotli")
    ]
    return seeds


def arrow(columns: dict[str, object], *, rows: int = 2, is_stream: bool = False, codec: str | None = None) -> bytes:
    """An Arrow IPC file of these columns, or a stream, with so many rows in a record batch."""
    sink, table = io.BytesIO(), pa.table(columns)
    opened = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with opened(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def _arrow_seeds() -> list[Seed]:
    files = media()
    images = pa.array([{"bytes": files["p.png"], "path": "a.png"}, {"bytes": files["p.jpg"], "path": None}, None])
    nested = {
        "id": ["a", "b", "c"],
        "image": images,
        "caption": [["one", "two"], ["three"], []],
        "score": pa.array([1, None, 3], pa.int32()),
    }
    words = [make.prose(at, words=9) for at in range(6)]
    shared = {
        "text": pa.array(words).dictionary_encode(),
        "view": pa.array(words, pa.string_view()),
        "lists": pa.array([[1], [], None, [2, 3], [4], []], pa.list_view(pa.int16())),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 6], pa.int32()), pa.array(["x", "y"])),
        "union": pa.UnionArray.from_dense(
            pa.array([0, 1, 0, 1, 0, 1], pa.int8()),
            pa.array([0, 0, 1, 1, 2, 2], pa.int32()),
            [pa.array(["a", "b", "c"]), pa.array([1, 2, 3])],
        ),
        "map": pa.array([[("k", b"v")]] * 6, pa.map_(pa.string(), pa.binary())),
        "id": pa.array([bytes([at]) * 16 for at in range(6)], pa.uuid()),
    }
    sound = {
        "audio": [files["s.wav"], files["s.flac"]],
        "transcript": pa.array(["a quiet river", "a stone bridge"], pa.large_string()),
    }
    tables = (
        ("d/a.jsonl", b'{"id": "x", "text": "one"}\n{"text": "two"}\n'), ("d/b.csv", b"id,text\nx,one\n,two\n"),
        ("c.parquet", parquet(nested)), ("d.arrow", arrow(nested)),
        ("e.arrow", arrow(sound, is_stream=True)), ("f.json", b'[{"text": "one"}, {"text": "two"}]'),
        ("g.jsonl.gz", gzip.compress(b'{"text": "packed"}\n' * 9, mtime=0)),
    )  # fmt: skip
    return [
        Seed(name="t.tar", data=tar(tables), members=tables),
        Seed(name="t.zip", data=zipped(tables, 0), members=tables, method=0),
        Seed(name="t-d.zip", data=zipped(tables), members=tables, method=8),
        Seed(name="n.arrow", data=arrow(nested)),
        Seed(name="n.feather", data=arrow(nested, codec="lz4")),
        Seed(name="s.arrow", data=arrow(shared, is_stream=True)),
        Seed(name="s.ipc", data=arrow(shared, codec="zstd", rows=4)),
        Seed(name="a", data=arrow(sound, is_stream=True, codec="zstd", rows=1)),
        Seed(name="a.arrow", data=arrow(sound, is_stream=True), compression="gz"),
    ]


def _warc() -> bytes:
    """Two answers and a text record, as crawlers write them."""
    pages = [
        (b"response", b"text/html", media()["t.html"]),
        (b"response", b"image/png", media()["p.png"]),
        (b"conversion", b"text/plain", media()["t.txt"]),
    ]
    records = []
    for number, (kind, content_type, body) in enumerate(pages):
        block = (
            body
            if kind == b"conversion"
            else b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (content_type, len(body)) + body
        )
        names = (
            b"WARC-Type: %s\r\nWARC-Target-URI: http://example.org/%d\r\nWARC-Date: "
            b"2026-01-01T00:00:00Z\r\nWARC-Record-ID: <urn:uuid:%032x>\r\n" % (kind, number, number)
        )
        shape = content_type if kind == b"conversion" else b"application/http; msgtype=response"
        records.append(
            b"WARC/1.0\r\n"
            + names
            + b"Content-Type: %s\r\nContent-Length: %d\r\n\r\n" % (shape, len(block))
            + block
            + b"\r\n\r\n"
        )
    return b"".join(records)


def _corpus_seeds() -> list[Seed]:
    """The layouts of named corpora: a file and its companions."""
    files = media()
    coco = {
        "images": [{"id": at, "file_name": f"{at}.jpg", "width": 24, "height": 18, "license": 1} for at in (1, 2)],
        "licenses": [{"id": 1, "url": "http://creativecommons.org/licenses/by/2.0/"}],
        "annotations": [{"id": at, "image_id": at % 2 + 1, "caption": f"caption number {at}"} for at in range(5)],
    }
    lines = b"1-2-0000 A QUIET RIVER\n1-2-0001 A STONE BRIDGE\n"
    packed = (("annotations/captions_val2017.json", json.dumps(coco).encode()), ("annotations/README.txt", b"words"))
    images = (("val2017/1.jpg", files["p.jpg"]), ("val2017/2.jpg", files["p.jpg"]))
    described = (
        ("captions.csv", b"image,caption\n1.jpg,a bridge\nval/2.jpg,a river\n3.jpg,a street\n"),
        ("spoken.jsonl", b'{"image": "1.jpg", "caption": "stone"}\n{"image": "val/2.jpg", "caption": "water"}\n'),
        ("1.jpg", files["p.jpg"]),
        ("val/2.jpg", files["p.jpg"]),
    )
    speech = (
        ("LS/1/2/1-2.trans.txt", lines),
        ("LS/1/2/1-2-0000.flac", files["s.flac"]),
        ("LS/1/2/1-2-0001.flac", files["s.flac"]),
    )
    return [
        Seed(
            name="annotations/captions_val2017.json",
            data=json.dumps(coco).encode(),
            companions=(("val2017/1.jpg", files["p.jpg"]), ("val2017/2.jpg", files["p.jpg"])),
        ),
        Seed(
            name="annotations_val2017.zip",
            data=zipped(packed),
            members=packed,
            method=8,
            companions=(("val2017.zip", zipped(images, 0)),),
        ),
        Seed(
            name="val2017.zip",
            data=zipped(images, 0),
            members=images,
            method=0,
            companions=(("annotations_val2017.zip", zipped(packed)),),
        ),
        Seed(name="all.zip", data=zipped(packed + images), members=packed + images, method=8),
        Seed(name="described.zip", data=zipped(described), members=described, method=8),
        Seed(name="described.tar", data=tar(described), members=described),
        Seed(name="speech.tar", data=tar(speech), members=speech),
        Seed(name="speech.zip", data=zipped(speech), members=speech, method=8),
        Seed(
            name="1/2/1-2.trans.txt",
            data=lines,
            companions=(("1/2/1-2-0000.flac", files["s.flac"]), ("1/2/1-2-0001.wav", files["s.wav"])),
        ),
        Seed(
            name="talk/a.json",
            data=files["t.json"],
            companions=(("talk/a.mp4", files["v.mp4"]), ("talk/a.en.srt", files["t.srt"]), ("talk/a.txt", b"words")),
        ),
        *(
            Seed(name=f"crawl.warc{packing and '.'}{packing}", data=_warc(), compression=packing)
            for packing in PACKINGS
        ),
        # a stream per record, as crawlers write
        Seed(
            name="apart.warc.gz",
            data=b"".join(gzip.compress(b"WARC/" + record, mtime=0) for record in _warc().split(b"WARC/")[1:]),
        ),
    ]


def _record_seeds() -> list[Seed]:
    """Records in one JSON list, in tables of separated values, and in tables that describe their companion files."""
    files = media()
    turns = [{"from": "human", "value": 'What "is" it?\n[x], {y}'}, {"from": "gpt", "value": "A bridge \U0001f600"}]
    records = [{"id": f"r{at}", "text": make.prose(at, words=9)} for at in range(6)] + [
        {"conversations": turns},
        {"instruction": "Add.", "input": "1 2", "output": "3"},
    ]
    rows = b'id,text,n\r\nx,"one, ""two""\nthree",1\r\ny,' + "gr\u00fcn".encode() + b",\r\n"
    voices = b"client_id\tpath\tsentence\nc\ta.wav\tgood morning\nd\tb.wav\tbye\n"
    named = b"".join(json.dumps({"file_name": f"{at}.jpg", "text": f"caption {at}"}).encode() + b"\n" for at in "ab")
    return [
        Seed(name="r.json", data=json.dumps(records, indent=2).encode(), compression="gz"),
        Seed(name="s.csv", data=rows.replace(b",", b";")),
        Seed(name="u.csv", data=rows.decode().replace(",", "|").encode("utf-16")),
        Seed(name="r.tsv", data=b"text\tn\n" + b'"words\t1\n' * 5, compression="zst"),
        *(
            Seed(
                name=f"r.json{packing and '.'}{packing}",
                data=json.dumps(records, ensure_ascii=False).encode(),
                compression=packing,
            )
            for packing in PACKINGS
        ),
        *(
            Seed(name=f"r.csv{packing and '.'}{packing}", data=rows + b"z,four,2\n" * 5, compression=packing)
            for packing in PACKINGS
        ),
        Seed(
            name="im/metadata.jsonl",
            data=named,
            companions=(("im/a.jpg", files["p.jpg"]), ("im/b.jpg", files["p.jpg"])),
        ),
        Seed(
            name="im/metadata.csv",
            data=b"file_name,text\na.jpg,one\nb.jpg,two\n",
            companions=(("im/a.jpg", files["p.jpg"]), ("im/b.jpg", files["p.jpg"])),
        ),
        Seed(
            name="cv/train.tsv",
            data=voices,
            companions=(("cv/clips/a.wav", files["s.wav"]), ("cv/clips/b.wav", files["s.wav"])),
        ),
        Seed(
            name="lj/metadata.csv",
            data=b"L-1|one|one\nL-2|two|two\n",
            companions=(("lj/wavs/L-1.wav", files["s.wav"]), ("lj/wavs/L-2.wav", files["s.wav"])),
        ),
        Seed(
            name="f/captions.txt",
            data=b'image,caption\na.jpg,"a, b"\na.jpg,c\n',
            companions=(("f/Images/a.jpg", files["p.jpg"]),),
        ),
    ]


@cache
def seeds() -> tuple[Seed, ...]:
    """Every seed, always in one order."""
    samples, long = _sample_members(), _long_members()
    found = []
    for name, members, dialect in (
        ("u.tar", samples, tarfile.USTAR_FORMAT),
        ("p.tar", samples + long, tarfile.PAX_FORMAT),
        ("g.tar", long, tarfile.GNU_FORMAT),
    ):
        found.append(Seed(name=name, data=tar(members, dialect), members=members, dialect=dialect))
    found += [
        Seed(name=f"s.tar.{packing}", data=tar(samples), compression=packing, members=samples)
        for packing in PACKINGS[1:]
    ]
    for name, members, method in (
        ("u.zip", samples, 0),
        ("d.zip", samples, 8),
        ("l.zip", long, 8),
        ("b.zip", samples, 12),
        ("x.zip", samples, 14),
    ):
        found.append(Seed(name=name, data=zipped(members, method), members=members, method=method))
    found.append(Seed(name="p.zip", data=streamed(samples), members=samples, method=8))
    lines = b"".join(
        json.dumps({"id": f"d{at}", "text": make.prose(at, words=9), "meta": {"n": at}}).encode() + b"\n"
        for at in range(12)
    )
    lines += '{"text": "Gr\u00fc\u00dfe \U0001f600", "captions": ["a", "b"]}\r\n\n{"text": "\\u00fc"}\n'.encode()
    found += [
        Seed(name=f"l.jsonl{'.' + packing if packing else ''}", data=lines, compression=packing) for packing in PACKINGS
    ]
    found += _parquet_seeds()
    found += [Seed(name=name, data=data) for name, data in media().items()]
    found += [
        Seed(name=f"t.txt.{packing}", data=make.prose(3).encode(), compression=packing) for packing in PACKINGS[1:]
    ]
    found += [Seed(name=name, data=data) for name, data in lists()]
    found += [
        Seed(name=f"{name}.{packing}", data=data, compression=packing)
        for name, data in lists()
        if name.endswith((".urls", ".jsonl", ".csv"))
        for packing in PACKINGS[2:]
    ]
    return tuple(found + _corpus_seeds() + _record_seeds() + _arrow_seeds())
