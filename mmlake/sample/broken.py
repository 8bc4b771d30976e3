"""The broken part of the landing zone: files and shards as they arrive after a bad night."""

from __future__ import annotations

import json

from mmlake.sample import pictures, prose
from mmlake.sample.chance import stream
from mmlake.sample.ledger import Ledger, Piece, gzipped, tar
from mmlake.sample.pictures import Gallery
from mmlake.sample.settings import SampleSettings

_NOTHING = b""


def lay_broken(ledger: Ledger, settings: SampleSettings, gallery: Gallery) -> None:
    """Writes landing/broken and enters its truth. The folder says nothing about source or licence."""
    _truncated_tar(ledger, gallery)
    _damaged_gzip(ledger, settings)
    _bad_lines(ledger, settings)
    rng = stream(settings.seed, "broken")
    ledger.loose("broken", "empty.jpg", "image", Piece(data=b"", defect="empty_file", rule="empty_file"))
    ledger.loose(
        "broken",
        "really-a-jpeg.png",
        "image",
        Piece(data=pictures.jpeg(gallery.new((320, 240))[0]), defect="wrong_extension"),
    )
    letter = prose.document(2000, stream(settings.seed, "letter"))
    ledger.loose(
        "broken",
        "really-a-letter.jpg",
        "image",
        Piece(data=letter.text.encode(), defect="text_named_jpg", rule="undecodable"),
    )
    # Neither bytes nor name have a known type, so the row belongs where most of its directory does: to the pictures.
    ledger.loose(
        "broken",
        "device.bin",
        "image",
        Piece(data=b"\x07\xfe\x00\x9c" + rng.bytes(2600), defect="unknown_blob", rule="unknown_content"),
    )


def _truncated_tar(ledger: Ledger, gallery: Gallery) -> None:
    members = [(f"{number:06d}.jpg", pictures.jpeg(gallery.new((320, 240))[0])) for number in range(5)]
    whole = tar(members)
    # In the middle of the last member: 512 bytes of header and whole blocks of data before it.
    before = sum(512 + (len(data) + 511) // 512 * 512 for _, data in members[:4])
    ledger.put("broken/half.tar", whole[: before + 512 + len(members[4][1]) // 2])
    for name, data in members[:4]:
        ledger.note("broken/half.tar", name, "image", Piece(data=data))
    ledger.note(
        "broken/half.tar",
        members[4][0],
        "image",
        Piece(data=_NOTHING, defect="truncated_tar", rule="shard_truncated"),
        has_bytes=False,
    )


def _damaged_gzip(ledger: Ledger, settings: SampleSettings) -> None:
    lines = [
        json.dumps({"text": prose.document(2100 + number, stream(settings.seed, "lost", number)).text})
        for number in range(6)
    ]
    data = bytearray(gzipped(("\n".join(lines) + "\n").encode()))
    # Behind the ten bytes of header: a deflate block of the reserved type 3, which no reader can go past (RFC 1951,
    # 3.2.3).
    data[10:14] = b"\xff\xff\xff\xff"
    ledger.put("broken/damaged.jsonl.gz", bytes(data))
    ledger.note(
        "broken/damaged.jsonl.gz",
        "",
        "text",
        Piece(data=_NOTHING, defect="damaged_gzip", rule="shard_unreadable"),
        role="document",
        has_bytes=False,
    )


def _bad_lines(ledger: Ledger, settings: SampleSettings) -> None:
    shard = "broken/lines.jsonl"
    good = [prose.document(2200 + number, stream(settings.seed, "line", number)).text for number in range(3)]
    lines = [json.dumps({"text": text}).encode() for text in good]
    cut = b'{"text": "The record was cut in the middle of a sen'
    latin = '{"text": "Das Gemälde hängt über der Tür im größten Saal."}'.encode("latin-1")
    lines[1:1] = [cut]
    lines.append(latin)
    ledger.put(shard, b"\n".join(lines) + b"\n")
    for number, line in enumerate(lines, 1):
        if line is cut:
            ledger.note(
                shard,
                f"line:{number}",
                "text",
                Piece(data=line, defect="malformed_line", rule="record_malformed"),
                role="document",
            )
        elif line is latin:
            ledger.note(
                shard,
                f"line:{number}",
                "text",
                Piece(data=line, defect="latin1_line", rule="not_text"),
                role="document",
            )
        else:
            ledger.note(shard, f"line:{number}", "text", Piece(data=json.loads(line)["text"].encode()), role="document")
