"""Texts as they are typed or passed on: without accents, with character references or tags of HTML, with lines counted,
read in a wrong encoding, or with the escapes of a format that carried them.

    python -m benchmarks.dedup_edits.typed_texts DIRECTORY --language fr vi --seed 7

DIRECTORY: what is unpacked of the Debian packages gnome-user-docs and mate-user-guide (`apt-get download`, `dpkg-deb
-x`): pages of Mallard below `help/LANGUAGE`. Forty pages of 110 words and more of each language, and each of them
changed, all in one join. Texts pass preprocessing as they do in a lake.
"""

from __future__ import annotations

import argparse
import html
import json
import quopri
import random
import re
import string
import textwrap
import unicodedata
import urllib.parse
from collections.abc import Callable
from pathlib import Path

from benchmarks.dedup_edits.text import survivors
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.text import text_track
from mmlake.store import BlobStore

_NUM, _LEAST_WORDS, _MOST_CHARS = 40, 110, 6_000
_PLAIN = str.maketrans("łŁđĐøØıßæÆœŒ„”“«»–—…‘’", 'lLdDoOisaAoO"""""--.\'\'')
_INLINE = ("<b>{0}</b>", "<em>{0}</em>", '<a href="https://example.org/{0}.html">{0}</a>')


def pages(root: Path, language: str) -> list[str]:
    """The texts of the pages, each once; a paragraph is a line."""
    found = []
    for path in sorted(root.glob(f"**/help/{language}/**/*.page")):
        text = re.sub(r"<info>.*?</info>|<!--.*?-->", "", path.read_text("utf-8"), flags=re.DOTALL)
        text = html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"</(?:p|title|item|list|note|section)>", "\n\n", text)))
        lines = (" ".join(part.split()) for part in text.split("\n\n"))
        found.append("\n".join(line for line in lines if line)[:_MOST_CHARS])
    return [text for text in dict.fromkeys(found) if len(text.split()) >= _LEAST_WORDS]


def without_accents(text: str, rng: random.Random) -> str:
    """As a keyboard of ASCII types it; an umlaut is its letter."""
    return "".join(
        sign for sign in unicodedata.normalize("NFD", text.translate(_PLAIN)) if not unicodedata.combining(sign)
    )


def with_references(text: str, rng: random.Random) -> str:
    """Each character beyond ASCII as its number."""
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def with_tags(text: str, rng: random.Random) -> str:
    """One word in fifteen in a tag."""
    return " ".join(rng.choice(_INLINE).format(word) if rng.random() < 1 / 15 else word for word in text.split(" "))


def numbered(text: str, rng: random.Random) -> str:
    """Lines of up to 40 characters with their numbers."""
    lines = [line for part in text.split("\n") for line in textwrap.wrap(part, 40)]
    return "\n".join(f"{at:4d}  {line}" for at, line in enumerate(lines, 1))


def timed(text: str, rng: random.Random) -> str:
    """Eight words a line, with the time when each is said."""
    words = text.split()
    starts = range(0, len(words), 8)
    return "\n".join(f"[{at // 150:02d}:{at * 2 // 5 % 60:02d}] {' '.join(words[at : at + 8])}" for at in starts)


def misread(encoding: str, *, times: int = 1) -> Callable[[str, random.Random], str]:
    """UTF-8 that was taken for that encoding; a byte that it has no sign for is passed on as a control."""

    def change(text: str, rng: random.Random) -> str:
        for _ in range(times):
            text = "".join(bytes([one]).decode(encoding, "ignore") or chr(one) for one in text.encode())
        return text

    return change


def in_json(text: str, rng: random.Random) -> str:
    """The string of JSON in ASCII, without its quotes."""
    return json.dumps(text)[1:-1]


EDITS = {
    "without accents": without_accents,
    "references": with_references,
    "tags": with_tags,
    "numbered lines": numbered,
    "times of lines": timed,
    "read as cp1252": misread("cp1252"),
    "as cp1252 twice": misread("cp1252", times=2),
    "as latin-1": misread("latin-1"),
    "as cp1250": misread("cp1250"),
    "as mac_roman": misread("mac_roman"),
    "as cp437": misread("cp437"),
    "JSON": in_json,
    "quoted-printable": lambda text, rng: quopri.encodestring(text.encode()).decode(),
    "percent-encoded": lambda text, rng: urllib.parse.quote(text),
    "percent-encoded letters": lambda text, rng: urllib.parse.quote(text, safe=string.printable),
}


def prepared(text: str) -> str:
    """The text of its track."""
    return str(text_track(text.encode(), "text/plain", settings=PreprocessSettings())["text"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--language", nargs="+", default=["fr", "vi"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--edit", nargs="+", choices=EDITS, default=list(EDITS))
    arguments = parser.parse_args()
    for language in arguments.language:
        rng = random.Random(arguments.seed)
        every = pages(arguments.directory, language)
        texts = [prepared(text) for text in rng.sample(every, min(_NUM, len(every)))]
        shown = []
        for name in arguments.edit:
            copies = [prepared(EDITS[name](text, rng)) for text in texts]
            stays = survivors(texts + copies, BlobStore(Path("/nonexistent")))
            changed = [at for at, copy in enumerate(copies) if copy != texts[at]]
            found = [at for at in changed if stays[at] == stays[len(texts) + at]]
            kept = sum(stays[at] == at for at in found)
            false = sum(keeper % len(texts) != place % len(texts) for place, keeper in enumerate(stays))
            shown.append(f"{name} {len(found)} of {len(changed)} (the original stays in {kept}, false pairs {false})")
        print(f"{language}: {', '.join(shown)}")


if __name__ == "__main__":
    main()
