"""Interleaved records as corpora publish them: texts and images in one order, where the images are addresses of the web
or names of files.

Two forms are known: the lists `texts` and `images`, in each of which null stands where the other has something
(OBELICS, MINT-1T); sentences in `text_list` and images in `image_info`, each of which names the sentence that it goes
with (MMC4). Other lists of a record hold one value per image or per text, which become those of each row. Nothing is
fetched here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mmlake.errors import Fault
from mmlake.formats.urls import redacted
from mmlake.records import SourceRef, canonical_json
from mmlake.sources.raw_items import RawItem, become_text, role_of
from mmlake.sources.settings import SourceSettings

SENTENCES: Final = "text_list"
MATCHED: Final = "image_info"  # MMC4: objects with `raw_url`, `matched_text_index` and more
_MATCH: Final = "matched_text_index"
# of an image that is an object, the first that it has
_ADDRESSES: Final = ("raw_url", "url", "src", "image_url", "path")
_WEB: Final = ("http://", "https://")


class Part(NamedTuple):
    """One text or image of a record."""

    position: int
    pointer: str  # where it stands in the record: a list and a place in it
    text: str | None  # None: an image
    address: str  # of an image
    own: Mapping[str, Any]  # what the record says of this one alone


def is_listed(fields: Mapping[str, Any], *, settings: SourceSettings) -> bool:
    """Whether the record lists texts and images both."""
    if settings.texts_field not in fields and SENTENCES not in fields:  # asked of every record
        return False
    return any(
        isinstance(fields.get(texts), list) and isinstance(fields.get(images), list)
        for texts, images in forms(settings)
    )


def used_lists(fields: Mapping[str, Any], *, settings: SourceSettings) -> set[str]:
    """The fields that the parts are the whole of: metadata do not repeat them."""
    texts, images = _form_of(fields, settings)
    if not texts:
        return set()
    given = fields.get(images)
    tokens = given if isinstance(given, list) else []
    found = {texts, images} if given is None or isinstance(given, list) else {texts}
    lists = (settings.per_image_fields, tokens), (settings.per_text_fields, fields[texts])
    per_row = {name for names, _ in lists for name in names}
    return found | {one for one in per_row if is_spread(fields, one, [each for names, each in lists if one in names])}


def parts_of(fields: Mapping[str, Any], *, settings: SourceSettings) -> list[Part]:
    """The texts and images of a record in their order; none where it lists no texts."""
    texts, images = _form_of(fields, settings)
    if not texts:
        return []
    said, given = fields[texts], fields.get(images)
    tokens = given if isinstance(given, list) else []
    text_places, image_places = _matched(said, tokens) if texts == SENTENCES else (range(len(said)), range(len(tokens)))
    lists = (
        (texts, _text, said, text_places, settings.per_text_fields),
        (images, _image, tokens, image_places, settings.per_image_fields),
    )
    found = [
        make(place, f"{name}/{at}", value, own)
        for name, make, values, places, per_row in lists
        for at, (value, place, own) in enumerate(zip(values, places, spread(fields, per_row, values), strict=True))
        if value is not None
    ]
    return sorted(found, key=lambda part: part.position)


def _form_of(fields: Mapping[str, Any], settings: SourceSettings) -> tuple[str, str]:
    """The names of the record's list of texts and of the images that go with it; empty where it lists no texts."""
    return next((form for form in forms(settings) if isinstance(fields.get(form[0]), list)), ("", ""))


def items_of_parts(
    parts: Sequence[Part], blank: RawItem, *, locate: Callable[[str], SourceRef], image_home: str = "image"
) -> Iterator[tuple[Part, RawItem]]:
    """The parts with their rows. Images have no bytes, and a reason that says where they lie. blank: a row of the
    record. locate: pointer -> locator. image_home: whose table gets the images' rows."""
    for part in parts:
        item = blank.replace(ref=locate(part.pointer), position=part.position, own=part.own)
        if part.text is not None:
            yield part, become_text(item, part.text, "document")
        else:
            yield part, item.replace(modality=image_home, role=role_of(image_home), fault=_fault(part.address))


def forms(settings: SourceSettings) -> tuple[tuple[str, str], ...]:
    """The names of a list of texts and of the list of images that goes with it."""
    return ((settings.texts_field, settings.images_field), (SENTENCES, MATCHED))


def _text(position: int, pointer: str, value: Any, own: Mapping[str, Any]) -> Part:
    return Part(position, pointer, value if isinstance(value, str) else canonical_json(value), "", own)


def _image(position: int, pointer: str, token: Any, own: Mapping[str, Any]) -> Part:
    """An image that is an address or a file name, or an object with one of them and whatever else it says."""
    said: dict[str, Any] = {}
    if isinstance(token, Mapping):
        name = next((name for name in _ADDRESSES if isinstance(token.get(name), str) and token[name].strip()), None)
        address = token[name].strip() if name is not None else ""
        rest = {key: value for key, value in token.items() if key not in (name, "bytes") and value is not None}
        said = {key: redacted(value) if isinstance(value, str) else value for key, value in rest.items()}
    else:
        address = token.strip() if isinstance(token, str) else canonical_json(token)
    if address.startswith(_WEB):
        said["image_url"] = redacted(address)
    elif address:
        said["image_name"] = address
    return Part(position, pointer, None, address, {**said, **own})


def _matched(sentences: Sequence[Any], images: Sequence[Any]) -> tuple[list[int], list[int]]:
    """The positions of sentences and of images: images before the sentence that they name, as OpenFlamingo reads
    them; those that name none at the end."""
    named = [image.get(_MATCH) if isinstance(image, Mapping) else None for image in images]
    before = [
        at if isinstance(at, int) and not isinstance(at, bool) and 0 <= at < len(sentences) else len(sentences)
        for at in named
    ]
    order = sorted([(at, 1, at) for at in range(len(sentences))] + [(place, 0, at) for at, place in enumerate(before)])
    places: tuple[list[int], list[int]] = ([0] * len(sentences), [0] * len(images))
    for position, (_, is_text, at) in enumerate(order):
        places[0 if is_text else 1][at] = position
    return places


def _fault(address: str) -> Fault:
    if address.startswith(_WEB):
        reason = "was not fetched, since the name of the file does not say that it is a list of URLs"
        return Fault(1111, f"the image lies at {redacted(address)[:200]} and {reason}")
    if address:
        return Fault(1011, f"the image {address[:200]} is named, and the file holds no bytes of it")
    return Fault(1011, "an image is listed, and neither its bytes nor its address are there")


def as_list(value: object) -> list[Any] | None:
    """The list that the value is, or that a text holds as JSON, as OBELICS has it; None where it is none."""
    if isinstance(value, str) and value[:1] == "[":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, list) else None


def spread(fields: Mapping[str, Any], names: Iterable[str], tokens: Sequence[Any]) -> list[dict[str, Any]]:
    """Per entry of the list, the values that belong to it; none for an entry that is null, and no value that is
    null."""
    values: list[dict[str, Any]] = [{} for _ in tokens]
    places = [at for at, token in enumerate(tokens) if token is not None]
    for name in names:
        given = as_list(fields.get(name))
        if given is not None:
            # One value per row is the rule; a list as long as the list of entries has its nulls where theirs are.
            aligned = places if len(given) != len(tokens) else range(len(tokens))
            for at, value in zip(aligned, given, strict=False):
                if value is not None and tokens[at] is not None:
                    values[at][name] = value
    return values


def is_spread(fields: Mapping[str, Any], name: str, lists: Sequence[Sequence[Any]]) -> bool:
    """Whether every value of the list field has a row, so that the field says no more of the whole sample. lists:
    those of whose entries it has values."""
    given = as_list(fields.get(name))
    if given is None:
        return False
    if all(len(given) == len(tokens) for tokens in lists):
        return all(value is None or any(tokens[at] is not None for tokens in lists) for at, value in enumerate(given))
    return all(len(given) <= sum(token is not None for token in tokens) for tokens in lists)


def not_lists(fields: Mapping[str, Any], *, per_image: Iterable[str], per_text: Iterable[str]) -> list[Fault]:
    """What is wrong with list fields that are no lists; those that are absent or null are not wrong."""
    found = []
    for names, kind in ((per_image, "image"), (per_text, "text")):
        for name in names:
            value = fields.get(name)
            if value is not None and as_list(value) is None:
                reason = f"is a JSON {type(value).__name__}, expected a list with one value per {kind}"
                found.append(Fault(1003, f"the field {name!r} {reason}"))
    return found
