"""The texts inside a JSON record or a Parquet row: which field is a text, in what role, and what is left over as
metadata.

A dialogue or an instruction is one text: what is deduplicated, filtered by language and searched for is the whole of a
conversation. A list of turns (`messages`, `conversations`) becomes a paragraph per turn, "role: words"; fields of a
prompt and its answer become one each, "field: words". A pair of preferences (`chosen`, `rejected`) is two texts, each
the whole conversation as it went in one way. The fields themselves stay in the metadata, so that nothing of their
structure is lost.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn

from mmlake.errors import UnreadableItem
from mmlake.formats.sniff import kind_by_magic
from mmlake.formats.timed_text import transcript_of
from mmlake.records import digest_of
from mmlake.sources.settings import SourceSettings

_INLINE_CHARS = 4096  # of a medium in base64 that metadata keep
_HEAD_CHARS = 512  # a multiple of four, by which it is recognised
# video.js has 38 such files, of 24 to 95 phrases of up to 169 characters; half of their names and more have a space.
# Of 3,419 other JSON objects of packages none is one (2026-11-30)
_MIN_PHRASES, _PHRASE_CHARS, _PHRASES_FRACTION = 16, 200, 1 / 3
_NAME_CHARS = 40  # of a field that a reason names
_NUMBERED = re.compile(r"(.{0,60}?[^0-9_])_?([0-9]{1,2})", re.ASCII)  # a name and its number: caption_1, Caption1
_ROLES, _WORDS = ("role", "from"), ("content", "value")  # of a turn, as chat interfaces and ShareGPT call them


@dataclass(slots=True)  # not frozen, which doubles what it costs to make one: every record has some
class TextField:
    """One text of a record."""

    name: str
    index: int | None  # in the field's list; None where the field is the text
    text: str
    role: str
    own: Mapping[str, Any] = field(default_factory=dict)  # what the record says of this text alone
    # whether the field stays in the metadata: the text is made from it, and it cannot be made again from the text
    is_kept: bool = False

    @property
    def pointer(self) -> str:
        """Where the text stands in the record, as a JSON pointer (RFC 6901)."""
        return pointer(self.name, self.index)


def pointer(name: str, index: int | None = None) -> str:
    """The JSON pointer of a field, or of an element of its list."""
    escaped = name.replace("~", "~0").replace("/", "~1")
    return f"/{escaped}" if index is None else f"/{escaped}/{index}"


def text_fields(fields: Mapping[str, Any], media: Collection[str], *, settings: SourceSettings) -> list[TextField]:
    """Every text of a record: its own, then captions, then transcripts. media: the modalities that stand in the same
    sample.

    A transcript with times is the only one: without them the same words stand in the metadata. A record of nothing else
    may be a dialogue, or have a body; one about media of its sample is no text of theirs. A record that lists texts and
    images both has said all its texts in their order.
    """
    if is_interleaved(fields, settings=settings):
        return []
    own_names, timed_names, captions, transcripts = spellings(
        tuple(fields),
        *(settings.text_fields, settings.timed_fields, settings.caption_fields, settings.transcript_fields),
        numbered=settings.caption_fields,
    )
    found: list[TextField] = []
    if not (own_names or timed_names or captions or transcripts):
        return _dialogue(fields, media, settings)
    timed_name = first_of(fields, timed_names)
    timed = transcript_of(fields[timed_name]) if timed_name is not None else None
    has_times = timed is not None and timed.num_cues > 0
    own, role = first_of(fields, own_names), text_role(media)
    if own is not None and isinstance(fields[own], str) and not (has_times and role == "transcript"):
        found.append(TextField(own, None, fields[own], role))
    for name in captions:  # each of them: the one caption of a record is often the first of its list
        found.extend(_parts_of(fields, name, "caption", known={one.text for one in found if one.name in captions}))
    if not has_times and (one := first_of(fields, transcripts)) is not None:
        found.extend(_parts_of(fields, one, "transcript"))
    if timed is not None and timed_name is not None and has_times:
        # who spoke, and how sure a recognizer was, is said of each line
        found.append(TextField(timed_name, None, timed.text, "transcript", is_kept=timed.says_more))
    return found or _dialogue(fields, media, settings)


def _parts_of(fields: Mapping[str, Any], name: str, role: str, *, known: Collection[str] = ()) -> Iterator[TextField]:
    """The texts of a field that holds one or a list of them, without those that are known."""
    value = fields.get(name)
    if isinstance(value, str):
        value = [value] if value not in known else []
        yield from (TextField(name, None, text, role) for text in value)
    elif isinstance(value, list) and all(isinstance(text, str) for text in value):
        yield from (TextField(name, at, text, role) for at, text in enumerate(value) if text not in known)


def is_interleaved(fields: Mapping[str, Any], *, settings: SourceSettings) -> bool:
    """Whether the record lists texts, of which there are some, and images."""
    listed, images = fields.get(settings.texts_field), fields.get(settings.images_field)
    return isinstance(listed, list) and isinstance(images, list) and any(text is not None for text in listed)


def _dialogue(fields: Mapping[str, Any], media: Collection[str], settings: SourceSettings) -> list[TextField]:
    if media or settings.texts_field in fields:
        return []
    if pair := preferences_of(fields, settings=settings):
        return [
            TextField(name, None, text, "document", own={"preference": preference}, is_kept=True)
            for name, text, preference in pair
        ]
    if found := dialogue_of(fields, settings=settings):
        return [TextField(found[0], None, found[1], "document", is_kept=True)]
    (bodies,) = spellings(tuple(fields), settings.body_fields)
    body = next((name for name in bodies if isinstance(fields[name], str) and fields[name].strip()), None)
    return [TextField(body, None, fields[body], "document")] if body is not None else []


def may_hold_texts(names: Collection[str], *, settings: SourceSettings) -> bool:
    """Whether a record with fields of these names may have texts."""
    *plain, lists, prompts, answers, chosen, rejected = spellings(
        tuple(names),
        *(settings.text_fields, settings.timed_fields, settings.caption_fields, settings.transcript_fields),
        settings.body_fields,
        *(settings.conversation_fields, settings.prompt_fields, settings.answer_fields),
        *(settings.chosen_fields, settings.rejected_fields),
        numbered=settings.caption_fields,
    )
    return any(plain) or bool(lists or (prompts and answers) or (chosen and rejected))


def taken(found: Iterable[TextField]) -> set[str]:
    """The fields that these texts are the whole of: metadata do not repeat them."""
    return {one.name for one in found if not one.is_kept}


def without(fields: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The other fields of the record: its metadata. A medium in base64, as labelme repeats the image that it describes,
    is named by its digest: it would lie in every table of the item."""
    return {
        name: _named(value) if isinstance(value, str) and len(value) > _INLINE_CHARS else value
        for name, value in fields.items()
        if name not in names
    }


def of_medium(value: object) -> dict[str, Any]:
    """The record that a list, a text or a number next to a medium is (annotations, a class): its field `json`, as the
    name's ending says."""
    return {"json": value}


def refuse_list(value: object) -> NoReturn:
    """Raises UnreadableItem 1003, that says what a JSON file without a medium may be, and what was in this one."""
    expected = "expected an object, or a list of records that have a text"
    if not isinstance(value, list):
        raise UnreadableItem(1003, f"the file is a JSON {type(value).__name__}, {expected}")
    found = f"the file is a JSON list of {len(value)} values"
    first = next((one for one in value if isinstance(one, Mapping)), None)
    if first is None:
        raise UnreadableItem(1003, f"{found}, of which num_objects=0; {expected}")
    names = [name[:_NAME_CHARS] for name in sorted(first)[:12]]
    remedy = "name the one that is in sources.text_fields"
    raise UnreadableItem(
        1003, f"{found}, {expected}: none of the fields {names} of the first is a text field; {remedy}"
    )


def _named(text: str) -> Any:
    """Digest and size of the medium that the text holds in base64; the text itself where it holds none."""
    coded = text.partition("base64,")[2] if text.startswith("data:") else text
    try:
        kind = kind_by_magic(base64.b64decode(coded[:_HEAD_CHARS], validate=True))
        if kind is None or kind.modality is None:
            return text
        data = base64.b64decode(coded, validate=True)
    except ValueError:
        return text
    return {"digest": digest_of(data), "size_bytes": len(data)}


def text_role(media: Collection[str]) -> str:
    """The role of a text in a sample of these modalities: a caption for an image, a transcript for sound or video,
    else a document."""
    if "image" in media:
        return "caption"
    return "transcript" if "audio" in media or "video" in media else "document"


def paired_role(is_image: bool, with_image: bool, roles: Iterable[str]) -> str:
    """What the texts of a sample are to a medium of it. with_image: whether an image is in the sample; roles: of the
    texts."""
    return "caption" if is_image or not (with_image or "transcript" in roles) else "transcript"


def dialogue_of(fields: Mapping[str, Any], *, settings: SourceSettings) -> tuple[str, str] | None:
    """(the field that the dialogue begins in, its text), or None where the record holds none. A prompt without an
    answer is none."""
    lists, prompts, answers = spellings(
        tuple(fields), settings.conversation_fields, settings.prompt_fields, settings.answer_fields
    )
    for name in lists:
        if isinstance(fields[name], list) and (turns := [turn for value in fields[name] for turn in _turn(value)]):
            return name, "\n\n".join(turns)
    said = {name: found for name in (*prompts, *answers) if (found := _paragraphs(fields[name], name))}
    asked, answered = ([name for name in names if name in said] for names in (prompts, answers))
    if not asked or not answered:
        return None
    return asked[0], "\n\n".join(paragraph for name in (*asked, *answered) for paragraph in said[name])


def preferences_of(fields: Mapping[str, Any], *, settings: SourceSettings) -> list[tuple[str, str, str]]:
    """(field, text, `chosen` or `rejected`) of each side of a pair; none where the record has no such pair, or no words
    in it.

    What is asked stands before an answer that does not repeat it, as those do that are whole conversations (hh-rlhf,
    UltraFeedback).
    """
    chosen, rejected, prompts = spellings(
        tuple(fields), settings.chosen_fields, settings.rejected_fields, settings.prompt_fields
    )
    if not chosen or not rejected:
        return []
    named = (chosen[0], "chosen"), (rejected[0], "rejected")
    sides = [(name, preference, _paragraphs(fields[name], "")) for name, preference in named]
    every, found = [paragraphs for *_, paragraphs in sides if paragraphs], []
    for name, preference, paragraphs in sides:
        if paragraphs:
            asked = [
                paragraph
                for one in prompts
                for paragraph in _paragraphs(fields[one], one)
                if not _is_repeated(fields[one], paragraph, paragraphs, every)
            ]
            said = [f"{name}: {paragraphs[0]}"] if asked and isinstance(fields[name], str) else paragraphs
            found.append((name, "\n\n".join([*asked, *said]), preference))
    return found


def _paragraphs(value: Any, name: str) -> list[str]:
    """The paragraphs of a text, which stands under that name, or of a list of turns."""
    if isinstance(value, list):
        return [turn for one in value for turn in _turn(one)]
    words = value.strip() if isinstance(value, str) else ""
    return [f"{name}: {words}" if name else words] if words else []


def _is_repeated(asked: Any, paragraph: str, paragraphs: list[str], sides: list[list[str]]) -> bool:
    """Whether a side has what was asked in it already: a text as the words of a turn or as what all sides begin
    with, a turn as it is."""
    if not isinstance(asked, str):
        return paragraph in paragraphs
    words = asked.strip()
    return all(one[0].startswith(words) for one in sides) or any(one.partition(": ")[2] == words for one in paragraphs)


def _turn(value: Any) -> Iterator[str]:
    """The turn as a paragraph; none where it has no words, as calls of tools."""
    if not isinstance(value, Mapping):
        return
    words = _words(next((value[name] for name in _WORDS if value.get(name) is not None), None))
    role = next((value[name] for name in _ROLES if isinstance(value.get(name), str) and value[name].strip()), "")
    if words:
        yield f"{role.strip()}: {words}" if role else words


def _words(content: Any) -> str:
    """The words of a turn, whose content may be a list of parts of which some are texts."""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        content = "\n".join(part for part in parts if isinstance(part, str))
    return content.strip() if isinstance(content, str) else ""


def is_phrasebook(fields: Mapping[str, Any]) -> bool:
    """Whether the object translates what a program shows: many short strings, named by the phrases that they stand for
    ("Exit Fullscreen"). A field of it that is called `Text` or `Captions` is a label of a button. Fields of records are
    named by identifiers, as nearly all columns are."""
    if len(fields) < _MIN_PHRASES:
        return False
    if not all(isinstance(value, str) and len(value) <= _PHRASE_CHARS for value in fields.values()):
        return False
    return sum(" " in name.strip() for name in fields) >= _PHRASES_FRACTION * len(fields)


def licence_field(fields: Mapping[str, Any], settings: SourceSettings) -> str | None:
    """The record's own licence as it spells it, or None where it has none."""
    found = first_field(fields, settings.licence_fields)
    return None if found is None else str(fields[found])


def why_alone(records: Iterable[Mapping[str, Any]]) -> str:
    """Why the records of a sample are no rows, where nothing else is in the sample."""
    records = list(records)
    reason = "metadata without any text or media next to it"
    if any(map(is_phrasebook, records)):
        return f"{reason}: num_fields={max(map(len, records))} phrases, by which a program finds the words it shows"
    for name, value in ((name, value) for fields in records for name, value in fields.items()):
        if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            remedy = "a file that is that list alone would be read as records"
            return f"{reason}; the field {name!r} lists {len(value)} records: {remedy}"
    return reason


def first_field(fields: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The record's own spelling of the first of these names that it has with a value, compared without regard to
    case."""
    return first_of(fields, spellings(tuple(fields), names)[0])


def first_of(fields: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The first of these fields that has a value."""
    for name in names:
        if fields[name] is not None:
            return name
    return None


def spellings(
    fields: tuple[str, ...], *groups: tuple[str, ...], numbered: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], ...]:
    """For each group of names, those that are among the fields, as the record spells them and in the order of the
    group. numbered: the group whose names may have a number behind them (`caption_1`, `caption_2`); such fields follow
    by their numbers."""
    # The records of a shard have few sets of fields; of keys that are data, which differ from record to record, none
    # are kept.
    is_kept = len(fields) <= 64 and sum(map(len, fields)) <= 4096
    return (_spelled if is_kept else _spelled.__wrapped__)(fields, *groups, numbered=numbered)


@lru_cache(maxsize=4096)
def _spelled(
    fields: tuple[str, ...], *groups: tuple[str, ...], numbered: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    by_lower: dict[str, str] = {}
    for name in fields:
        by_lower.setdefault(name.lower(), name)
    found = [tuple(by_lower[name.lower()] for name in names if name.lower() in by_lower) for names in groups]
    if numbered in groups:
        found[groups.index(numbered)] += with_numbers(fields, numbered)
    return tuple(found)


def with_numbers(fields: Iterable[str], names: Collection[str]) -> tuple[str, ...]:
    """The fields that have one of these names with a number behind it, by their numbers."""
    known = {name.lower() for name in names}
    matches = ((match, name) for name in fields if (match := _NUMBERED.fullmatch(name.lower())) is not None)
    return tuple(name for _, name in sorted((int(match[2]), name) for match, name in matches if match[1] in known))
