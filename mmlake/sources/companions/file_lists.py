"""Lists of media and words without a line of names: `wavs/a.wav|Good morning.`, as recipes for speech keep them, and
`a.jpg#0<tab>Two dogs play.`, as Flickr8k and Flickr30k do.

Enters: first lines. Leaves: names for their cells. Each line names a medium in one cell, by its extension, and says
something of it in a cell behind that; what is in the other cells nobody says. Lists of media and numbers are none.
Lines may also begin with the id of a medium, as most corpora of speech have it: `BAC009S0002W0122 Good morning.`
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from mmlake.formats import sniff
from mmlake.formats.json_elements import BOM
from mmlake.media_names import MEDIA_NAMES
from mmlake.sources.companions.places import join, parent, upwards
from mmlake.sources.names import file_stem_of
from mmlake.sources.records.separated_values import first_cells

FILE, ID, _WORDS = "file", "id", "text"  # what the cells are called; the others by their places: column_3
# extension -> what may separate the cells of such a list: Flickr's are called `.token`, GPT-SoVITS's `.list`
# cells are cut at bars and tabs; an id from its words also at a blank, a colon (JSUT), as Festival's lists have them
_FESTIVAL = "("
_ID_ALONE = (" ", ":", _FESTIVAL)
EXTENSIONS = {**dict.fromkeys(("txt", "list", "lst", "data"), ("|", "\t", *_ID_ALONE)), "token": ("\t",)}
ENDINGS = tuple(f".{extension}" for extension in EXTENSIONS)
# where the files lie, as seen from the list or from a manifest; Flickr's as they are published
BASES = (
    *(".", "images", "Images", "videos", "audio", "wavs", "wav", "clips"),
    *("Flicker8k_Dataset", "Flickr8k_Dataset", "flickr30k-images", "flickr30k_images"),
)
# of who made each file, and under which licence: nobody says that of what is in it
# LibriSpeech's tables are joined by their names
_OTHERS = re.compile(
    r"licen[cs]e|credits?\b|copying|copyright|attribution|authors?\b|readme|changelog|\.trans\.txt\Z", re.IGNORECASE
)
# of lists alone, next to directories of media: what these list is named as seen from above
DIRECTORIES = ("etc", "filelists", "list", "lists", "transcript", "transcripts")
_MAX_LISTS = 64  # in one directory
_MAX_CELLS = 64
LEAST_CHARS = 4  # of an id that is the name of a medium wherever it lies
_LINE_BYTES = 4096  # of a first line that are searched
_NUMBER = re.compile(r"#\d{1,3}\Z")  # behind a name: the caption's, in Flickr's lists
_NAMED = re.compile(rb"\.([A-Za-z0-9]{1,5})(?:#\d{1,3})?[ ]?[|\t]")
# An id has a digit, and a letter or six digits: `1 Mix the flour` and `1998 was warm` are no lines of lists.
_ID = re.compile(r"(?=\D*\d)(?=\d*[^\W\d]|\d*[-_]|\d{6})[^\W_][\w.-]{3,99}")
_BEGINS_WITH_ID = re.compile(rb"(?:\(\s*)?(?=[^\s|:]*\d)[\w.\x80-\xff-]{4,}\s*[\s|:]")
_FESTIVAL_LINE = re.compile(r'\(\s*(\S+)\s+"(.*)"\s*\)')
_DIGITS, _LETTERS = re.compile(r"\d+"), re.compile(r"[^\W\d_]+")
# two words, or letters of a script that has no blanks
_SAYS = re.compile(r"[^\W\d_]\W*\s\W*[^\W\d_]|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]{2}")


def is_list(name: str) -> bool:
    """Whether the name is one that such a list may have, and no table with a line of names."""
    return sniff.extension_of(name) in EXTENSIONS and _OTHERS.search(name) is None


def among(names: Sequence[str]) -> list[str]:
    """Those of a directory's names that may be of lists; none where there are so many that each is a document, or of
    one medium elsewhere. A text next to a medium of its name is the medium's."""
    lists = [name for name in names if is_list(name)]
    if not lists:
        return []
    stems = {file_stem_of(name) for name in names if name.rpartition(".")[2].lower() in MEDIA_NAMES}
    lists = [name for name in lists if file_stem_of(name) not in stems]
    return lists if len(lists) <= _MAX_LISTS else []


def begins_as_list(head: bytes) -> bool:
    """Whether a cell of the first line may name a medium, or the line begins with what may be an id: asked of every
    text, so that little of it is searched."""
    first = head.removeprefix(BOM).partition(b"\n")[0][:_LINE_BYTES]
    found = _NAMED.search(first)
    return (found is not None and found[1].decode().lower() in MEDIA_NAMES) or _BEGINS_WITH_ID.match(first) is not None


def is_medium(path: str) -> bool:
    """Whether a name is that of a medium, by its extension. Addresses are none."""
    if "://" in path:
        return False
    kind = sniff.kind_of(b"", path.strip())
    return kind is not None and kind.modality != "text"


def bases_of(path: str) -> tuple[str, ...]:
    """Where the files may lie that a manifest at the path names, as seen from it: also in a directory that is called
    like its split, the last word of its name, as in `clotho_captions_development.csv`."""
    split = path.rpartition("/")[2].partition(".")[0].rpartition("_")[2]
    splits = (split, f"audio/{split}", f"images/{split}") if split else ()  # FLEURS: audio/train
    return tuple(dict.fromkeys((*BASES, *splits)))


def path_in(cell: str) -> str:
    """The name of a medium in a cell, without the number of a caption."""
    return _NUMBER.sub("", cell.strip())


def _have_ids(cells: Iterable[str]) -> bool:
    """Whether all of the cells may be ids of media, with or without an extension: they are made alike, of letters,
    digits and what stands between these in one order."""
    shapes = {_shape_of(stem) if _ID.fullmatch(stem := _id_in(cell)) else None for cell in cells}
    return len(shapes) == 1 and None not in shapes


def _id_in(cell: str) -> str:
    path = path_in(cell)
    return file_stem_of(path) if is_medium(path) else path


def _shape_of(stem: str) -> str:
    return _LETTERS.sub("a", _DIGITS.sub("0", stem))


def list_directories(directory: str) -> Sequence[str]:
    """The directories of lists that media in the directory may stand in."""
    return _list_directories(parent(directory) or ".")


@lru_cache(64)  # of many directories next to each other
def _list_directories(home: str) -> tuple[str, ...]:
    return tuple(join(above, name) for above in upwards(home) for name in DIRECTORIES)


def home_of(path: str) -> str:
    """The directory that a list at the path names its media from."""
    here = path.rpartition("/")[0] or "."
    is_there = here.rpartition("/")[2] in DIRECTORIES and is_list(path.rpartition("/")[2])
    return (parent(here) or ".") if is_there else here


def is_id_alone(delimiter: str) -> bool:
    """Whether lines that are cut so are an id, and words behind it."""
    return delimiter in _ID_ALONE


def cells_of(line: str, delimiter: str) -> list[str]:
    """The cells of a line of a list; none where it is not cut by that delimiter."""
    if delimiter == _FESTIVAL:
        found = _FESTIVAL_LINE.fullmatch(line.strip())
        return [found[1], found[2].replace('\\"', '"')] if found is not None else []
    if delimiter in _ID_ALONE:
        return [cell.strip() for cell in line.strip().split(delimiter if delimiter != " " else None, 1)]
    return first_cells(line.rstrip("\r\n"), delimiter, has_quotes=delimiter == ",")


def header_of(lines: Sequence[str], delimiter: str) -> tuple[str, ...]:
    """Names for the cells of a list that begins with these lines; none where they are not such a list: each names a
    medium in the same cell, and the first cell behind that in which some of them say something is the words."""
    rows = [cells_of(line, delimiter) for line in lines if line.strip()]
    width = max(map(len, rows), default=0)
    if not rows or not 2 <= width <= _MAX_CELLS or min(map(len, rows)) < 2:
        return ()
    at = next((at for at, cell in enumerate(rows[0]) if is_medium(path_in(cell))), width)
    if has_ids := _have_ids(row[0] for row in rows):
        at = 0
    elif delimiter in _ID_ALONE or not all(at < len(row) and is_medium(path_in(row[at])) for row in rows):
        return ()
    behind = range(at + 1, min(map(len, rows)))
    words = next((one for one in behind if any(_SAYS.search(row[one]) for row in rows)), None)
    if words is None:
        return ()
    names = {at: ID if has_ids else FILE, words: _WORDS}
    return tuple(names.get(one, f"column_{one + 1}") for one in range(width))
