"""Where corpora keep what annotates their media: by names and directories alone, nothing is listed or opened here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from mmlake.formats.compression import SUFFIXES
from mmlake.landing import native
from mmlake.sources.names import composed

IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
ARCHIVE = ".zip"
TARS = (".tar", ".tgz", ".tbz2", ".txz", *(f".tar{suffix}" for suffix in SUFFIXES))
PACKED = (ARCHIVE, *TARS)  # what archives of media are called
# names of tables that describe the files of their directory and of those below
PARQUET = "metadata.parquet"
DESCRIPTIONS = ("metadata.csv", "metadata.jsonl", "metadata.tsv", PARQUET)
COMMON_VOICE = ("dev.tsv", "invalidated.tsv", "other.tsv", "test.tsv", "train.tsv", "validated.tsv")
FLICKR = ("captions.txt",)
TABLES = frozenset((*DESCRIPTIONS, *COMMON_VOICE, *FLICKR))
JSON = (".json", *(f".json{suffix}" for suffix in SUFFIXES))
HOME = "annotations"  # directory whose JSON files all may annotate images elsewhere
# what names of such files elsewhere hold; what they are called by FiftyOne, by Label Studio, in iNaturalist
_TOPICS = re.compile(
    r"coco|annotation|captions|instances|keypoints|image_info|panoptic|stuff"
    r"|^(labels|result|(train|val|test)(20\d\d)?)\.json"
)
_LEVELS = 4  # directories from one of images upwards in which annotations are sought: iNaturalist has one per species
_MAX_NAME_BYTES, _MAX_PATH_CHARS = 255, 1000  # of what file systems have
# COCO's directories of images
_SPLITS = ("train", "val", "test", *(f"{split}{year}" for year in (2014, 2017) for split in ("train", "val", "test")))
_SUBSET = re.compile(r"-[a-z]+")  # `image_info_test-dev2017.json` annotates a part of `test2017`


def is_annotation_name(name: str, *, is_home: bool) -> bool:
    """Whether a name in lower case is that of annotations. is_home: in a directory whose JSON files all are."""
    return name.endswith(JSON) and (is_home or _TOPICS.search(name) is not None)


def may_be_annotations(path: str) -> bool:
    """Whether the place and the name are those of annotations."""
    directory, _, name = path.lower().rpartition("/")
    return is_annotation_name(name, is_home=directory.rpartition("/")[2] == HOME)


def is_annotation_archive(path: str) -> bool:
    """Whether the name of a zip, or its place, says that it holds annotations."""
    directory, _, name = path.lower().rpartition("/")
    return name.endswith(ARCHIVE) and (directory.rpartition("/")[2] == HOME or _TOPICS.search(name) is not None)


def holds_images(names: Sequence[str]) -> bool:
    """Whether a file with one of these names is an image, by the name."""
    return any(name.lower().endswith(IMAGES) for name in names)


def may_exist(directory: str) -> bool:
    """Whether a landing zone may be asked for the directory: members of zips and lists of images have names that
    none can have."""
    plain = native(directory)
    parts = plain.split("/")
    if "\0" in plain or ".." in parts or not parts[0] or len(plain) > _MAX_PATH_CHARS:
        return False
    return all(len(part.encode("utf-8", "surrogateescape")) <= _MAX_NAME_BYTES for part in parts)


def annotation_places(directory: str) -> list[str]:
    """Where the annotations of a directory of images may lie."""
    bases = islice(upwards(directory), _LEVELS)
    return list(dict.fromkeys(place for base in bases for place in (base, join(base, HOME))))


def archive_places(path: str) -> list[str]:
    """Where the zips may lie that hold the images which a file at the path annotates."""
    here, base = home_of(path)
    return list(dict.fromkeys((base, join(base, "images"), here, join(here, "images"))))


def home_of(path: str) -> tuple[str, str]:
    """(directory of the path, directory of the corpus)."""
    here = path.rpartition("/")[0] or "."
    return here, (parent(here) or ".") if here.rpartition("/")[2] == HOME else here


def archived_image_places(archive: str) -> list[str]:
    """Where the images of the annotations in a zip may lie, as far as its name says."""
    base, stem = home_of(archive)[1], archive.rpartition("/")[2].lower().removesuffix(ARCHIVE)
    split = stem.rpartition("_")[2]
    both = split.startswith("trainval")
    named = [f"{one}{split.removeprefix('trainval')}" for one in ("train", "val")] if both else [split]
    words = [word for word in dict.fromkeys((*named, *_SPLITS)) if word]
    images = join(base, "images")
    return [join(root, word) for word in words for root in (base, images)] + [base, images]


def image_places(path: str) -> list[str]:
    """Where the images of an annotation file may lie, likeliest first."""
    name = path.rpartition("/")[2]
    here, base = home_of(path)
    split = name.partition(".json")[0].rpartition("_")[2]
    splits = [word for word in dict.fromkeys((split, _SUBSET.sub("", split))) if word not in ("", ".", "..")]
    roots = (base, join(base, "images"), here, join(here, "images"))
    named = [join(root, word) for word in splits for root in roots]
    return list(dict.fromkeys([*named, here, join(base, "images"), join(here, "images"), base, join(here, "data")]))


def image_roots(path: str) -> list[str]:
    """The directories that names of images in an annotation file at the path may lead from."""
    homes = dict.fromkeys(home_of(path))
    return [*homes, *(join(home, name) for home in homes for name in ("images", "data"))]


def folders_in(path: str, directory: str) -> set[str]:
    """How the directory may be named in an annotation file at the path; empty where it lies elsewhere."""
    inside = f"{directory}/" if directory != "." else ""
    roots = (f"{root}/" if root != "." else "" for root in image_roots(path))
    found = (inside.removeprefix(root).rstrip("/") for root in roots if inside.startswith(root))
    return {composed(native(folder)) for folder in found}


def parent(directory: str) -> str | None:
    """The directory above; None above the landing zone."""
    return None if directory == "." else directory.rpartition("/")[0] or "."


def upwards(directory: str) -> Iterator[str]:
    """The directory and those above it, up to the landing zone."""
    above: str | None = directory
    while above is not None:
        yield above
        above = parent(above)


def renamed(directory: str, old: str, new: str) -> str | None:
    """The directory with the last part of its path that has one name under the other; None where none has it."""
    before, mark, behind = f"/{directory}/".rpartition(f"/{old}/")
    return f"{before}/{new}/{behind}".strip("/") if mark else None


def join(directory: str, name: str) -> str:
    """The path of a name in a directory."""
    return name if directory == "." else f"{directory}/{name}"
