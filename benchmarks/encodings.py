"""Texts whose encoding no one says, read: ours, and the detectors that are installed.

    python -m benchmarks.encodings DIRECTORY [--size 60 200 1000 5000]

DIRECTORY: the translations of a program, `**/locale/LANGUAGE/**/*.po`, such as the source archive of Django. Pieces of
so many characters are drawn of each language, encoded as its texts were before UTF-8, and read; right is what gives the
characters back. Peers: charset-normalizer, chardet (whose guess ours begins with) and cchardet, where they are
installed. CPU seconds of all pieces, one thread.
"""

from __future__ import annotations

import argparse
import importlib
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mmlake.errors import UnreadableItem
from mmlake.formats.texts import decode_text

ENCODINGS = {
    "cs": "cp1250 iso8859-2", "pl": "cp1250 iso8859-2", "hu": "cp1250 iso8859-2", "sk": "cp1250 iso8859-2",
    "sl": "cp1250 iso8859-2", "hr": "cp1250 iso8859-2", "ro": "cp1250", "ru": "cp1251 koi8-r iso8859-5 cp866",
    "uk": "cp1251 koi8-u", "bg": "cp1251 iso8859-5", "sr": "cp1251", "el": "cp1253 iso8859-7", "tr": "cp1254",
    "he": "cp1255", "ar": "cp1256", "fa": "cp1256", "th": "cp874", "lt": "cp1257", "lv": "cp1257", "et": "cp1257",
    "vi": "cp1258", "de": "cp1252 cp850 mac_roman", "fr": "cp1252 cp850 mac_roman", "es": "cp1252 cp850",
    "it": "cp1252", "pt_BR": "cp1252", "sv": "cp1252", "da": "cp1252", "fi": "cp1252", "nl": "cp1252", "nb": "cp1252",
    "ja": "cp932 euc_jp", "ko": "cp949", "zh_Hans": "gb18030", "zh_Hant": "big5",
}  # fmt: skip
# of two names for texts of the web the larger encoding: no peer is wrong for the smaller name
LARGER = {"shift_jis": "cp932", "iso-8859-1": "cp1252", "latin_1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030",
          "euc_kr": "cp949", "euc-kr": "cp949", "tis_620": "cp874", "tis-620": "cp874"}  # fmt: skip
_STRING = re.compile(r'msgstr(?:\[\d\])? ((?:"(?:[^"\\]|\\.)*"\s*)+)')
_PIECES = 12  # of each language, encoding and size


def sentences(root: Path, language: str) -> list[str]:
    """What the translations say in the language, 25 characters and more."""
    found = []
    for path in sorted(root.glob(f"**/locale/{language}/**/*.po")):
        for match in _STRING.finditer(path.read_text("utf-8")):
            said = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match[1])).replace("\\n", "\n").replace('\\"', '"')
            if len(said) >= 25 and "Content-Type" not in said:
                found.append(re.sub(r"%\(\w+\)[sd]|%[sd]|<[^>]+>", "", said))
    return list(dict.fromkeys(found))


def pieces(root: Path, size: int, draw: random.Random) -> list[tuple[str, bytes, str]]:
    """(language and encoding, bytes, characters) of pieces that are not UTF-8."""
    found = []
    for language, encodings in ENCODINGS.items():
        said = sentences(root, language)
        for encoding in encodings.split():
            for _ in range(_PIECES):
                draw.shuffle(said)
                data = " ".join(said)[:size].encode(encoding, errors="ignore")
                try:
                    data.decode()
                except UnicodeDecodeError:
                    found.append((f"{language}/{encoding}", data, data.decode(encoding)))
    return found


def readers() -> dict[str, Callable[[bytes], str]]:
    """How each of those that are installed reads bytes."""

    def by_name(detect: Callable[[bytes], dict[str, Any]]) -> Callable[[bytes], str]:
        def read(data: bytes) -> str:
            name = str(detect(data)["encoding"]).lower()
            return data.decode(LARGER.get(name, name), errors="replace")

        return read

    found: dict[str, Callable[[bytes], str]] = {"mmlake": lambda data: decode_text(data)[0]}
    for name in ("charset_normalizer", "chardet", "cchardet"):
        try:
            found[name] = by_name(importlib.import_module(name).detect)
        except ImportError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--size", type=int, nargs="+", default=[60, 200, 1_000, 5_000], help="characters of a piece")
    arguments = parser.parse_args()
    for size in arguments.size:
        texts = pieces(arguments.directory, size, random.Random(size))
        for name, read in readers().items():
            wrong, started = Counter[str](), time.process_time()
            for label, data, said in texts:
                try:
                    is_right = read(data) == said
                except (UnreadableItem, LookupError):
                    is_right = False
                wrong.update([] if is_right else [label])
            seconds, worst = time.process_time() - started, ", ".join(f"{one} {n}" for one, n in wrong.most_common(4))
            share = 1 - wrong.total() / max(1, len(texts))
            print(f"{size:>6} characters, {len(texts)} texts  {name:<20}{share:7.3f}  {seconds:6.2f} CPU s  {worst}")


if __name__ == "__main__":
    main()
