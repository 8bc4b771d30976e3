"""Edited copies of sections of a manual, in languages with and without spaces and case.

    python -m benchmarks.dedup_edits.manuals DIRECTORY --language de ja zh-cn

DIRECTORY: what is unpacked of the Debian packages debian-reference-de, -ja, -zh-cn and so on (`apt-get download`,
`dpkg-deb -x`): chapters as `ch*.LANGUAGE.html`; or of libreoffice-help-ko and so on: pages below `LANGUAGE/text`. Forty
sections of each language, eight copies of each; words that are replaced become words of other sections in the same
script, two characters at a time where no spaces are.
"""

from __future__ import annotations

import argparse
import html
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.dedup_edits.text import survivors
from mmlake.store import BlobStore

_NUM, _LEAST_WORDS, _MOST_CHARS = 40, 110, 3_000
_PIECE = re.compile(r"[A-Za-z0-9_./-]+|[\u3040-\u30ff\u4e00-\u9fff]{1,2}|.", re.DOTALL)
_HAN_OR_KANA = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")


def sections(root: Path, language: str) -> list[str]:
    """The texts of sections of 110 words (220 characters without spaces) and more; of the others too few are prose."""
    found = []
    chapters = [
        re.split(r'<h[23] class="title"', path.read_text("utf-8"))[1:]
        for path in sorted(root.glob(f"**/ch*.{language}.html"))
    ]
    pages = [[path.read_text("utf-8")] for path in sorted(root.glob(f"**/{language}/text/**/*.html"))]
    for parts in chapters + pages:
        for part in parts:
            paragraphs = re.findall(r'<p(?: id="par[^>]*)?>(.*?)</p>', part, re.DOTALL)
            text = " ".join(" ".join(html.unescape(re.sub(r"<[^>]+>", "", one)).split()) for one in paragraphs)
            unspaced = len(_HAN_OR_KANA.findall(text))
            if (unspaced / 2 if unspaced > 0.45 * len(text) else len(text.split())) >= _LEAST_WORDS:
                found.append(text[:_MOST_CHARS])
    return list(dict.fromkeys(found))


def pieces(text: str) -> list[str]:
    """Words and what is between them; in scripts without spaces two characters each."""
    return _PIECE.findall(text) if _HAN_OR_KANA.search(text) else re.findall(r"\S+|\s+", text)


def is_unspaced(piece: str) -> bool:
    """Whether it is of a script without spaces."""
    return _HAN_OR_KANA.match(piece) is not None


def edits(texts: list[str], rng: np.random.Generator) -> dict[str, Callable[[str], str]]:
    """The edits, by name."""
    # of one script each: in a manual that is translated in part two characters in place of an English word make a copy
    # longer by a word each time
    every = [one for text in texts for one in pieces(text) if re.match(r"\w", one)]
    vocabulary = {kind: [one for one in every if is_unspaced(one) == kind] for kind in (False, True)}

    def replaced(fraction: float) -> Callable[[str], str]:
        def edit(text: str) -> str:
            parts = pieces(text)
            for at in np.flatnonzero(rng.random(len(parts)) < fraction).tolist():
                if re.match(r"\w", parts[at]):
                    others = vocabulary[is_unspaced(parts[at])]
                    parts[at] = others[int(rng.integers(len(others)))]
            return "".join(parts)

        return edit

    def cut(text: str) -> str:
        parts = pieces(text)
        return "".join(parts[: int(0.6 * len(parts))])

    def inserted(text: str) -> str:
        parts, other = pieces(text), pieces(texts[int(rng.integers(len(texts)))])[:60]
        at = int(rng.integers(1, len(parts)))
        return "".join([*parts[:at], *other, *parts[at:]])

    def reordered(text: str) -> str:
        parts = [one for one in re.split(r"(?<=[。！？.])", text) if one]
        passages = [parts[at : at + 2] for at in range(0, len(parts), 2)]
        return "".join(one for at in rng.permutation(len(passages)) for one in passages[at])

    shares = {f"{share:.0%} replaced": replaced(share) for share in (0.05, 0.08, 0.12, 0.15, 0.2)}
    return shares | {"cut to 60 %": cut, "inserted": inserted, "reordered": reordered}


def families(texts: list[str], changes: dict[str, Callable[[str], str]], num_copies: int) -> list[tuple[int, str, str]]:
    """(text, edit, copy), the originals first: so many copies each, of which words were replaced."""
    replaced = [changes[f"{share}% replaced"] for share in (12, 8, 15)]
    rows = [(at, "", text) for at, text in enumerate(texts)]
    return rows + [
        (at, "replaced", replaced[copy % 3](text)) for at, text in enumerate(texts) for copy in range(num_copies)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--language", nargs="+", default=["de", "ja", "zh-cn"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--copies", nargs="+", type=int, default=[], help="so many of each, instead")
    arguments = parser.parse_args()
    store = BlobStore(Path("/nonexistent"))  # texts stand in the rows
    for language in arguments.language:
        rng = np.random.default_rng(arguments.seed)
        every = sections(arguments.directory, language)
        texts = [every[at] for at in rng.permutation(len(every))[:_NUM].tolist()]
        changes = edits(texts, rng)
        for num_copies in arguments.copies:
            rows = families(texts, changes, num_copies)
            stays = survivors([text for _, _, text in rows], store)
            found = sum(stays[place] == stays[at] for place, (at, name, _) in enumerate(rows) if name)
            false = sum(rows[place][0] != rows[keeper][0] for place, keeper in enumerate(stays))
            print(f"{language}, {num_copies} copies: found {found / num_copies / len(texts):.3f}, false pairs {false}")
        if arguments.copies:
            continue
        rows = [(at, "", text) for at, text in enumerate(texts)]
        rows += [(at, name, change(text)) for at, text in enumerate(texts) for name, change in changes.items()]
        stays = survivors([text for _, _, text in rows], store)
        found = Counter(name for place, (at, name, _) in enumerate(rows) if stays[place] == stays[at])
        false = sum(rows[place][0] != rows[keeper][0] for place, keeper in enumerate(stays))
        kept = sum(stays[at] == at for at in range(len(texts)))
        shown = ", ".join(f"{name} {found[name] / len(texts):.2f}" for name in changes)
        print(f"{language}: the original stays in {kept} of {len(texts)}, false pairs {false}; found: {shown}")


if __name__ == "__main__":
    main()
