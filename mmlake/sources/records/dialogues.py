"""Records of dialogues and instructions as one text: what is deduplicated, filtered by language and searched for is the
whole of a conversation.

A list of turns (`messages`, `conversations`) becomes a paragraph per turn, "role: words"; fields of a prompt and its
answer become one each, "field: words". A pair of preferences (`chosen`, `rejected`) is two texts, each the whole
conversation as it went in one way. The fields themselves stay in the metadata, so that nothing of their structure is
lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from mmlake.sources.raw_items import spellings
from mmlake.sources.settings import SourceSettings

_ROLES, _WORDS = ("role", "from"), ("content", "value")  # of a turn, as chat interfaces and ShareGPT call them


def dialogue_of(fields: Mapping[str, Any], *, settings: SourceSettings) -> tuple[str, str] | None:
    """(the field that the dialogue begins in, its text), or None where the record holds none. A prompt without an
    answer is none."""
    lists, prompts, answers = spellings(
        tuple(fields), settings.conversation_fields, settings.prompt_fields, settings.answer_fields
    )
    for name in lists:
        if isinstance(fields[name], list) and (turns := [turn for value in fields[name] for turn in _turn(value)]):
            return name, "\n\n".join(turns)
    asked, answered = (
        ([name for name in names if isinstance(fields[name], str) and fields[name].strip()])
        for names in (prompts, answers)
    )
    if not asked or not answered:
        return None
    return asked[0], "\n\n".join(f"{name}: {fields[name].strip()}" for name in (*asked, *answered))


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
    sides = {
        "chosen": (chosen[0], _paragraphs(fields[chosen[0]], "")),
        "rejected": (rejected[0], _paragraphs(fields[rejected[0]], "")),
    }
    found = []
    for preference, (name, paragraphs) in sides.items():
        if paragraphs:
            every = [other for _, other in sides.values() if other]
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


def may_be_dialogue(names: Collection[str], *, settings: SourceSettings) -> bool:
    """Whether a record with fields of these names may hold a dialogue."""
    lists, prompts, answers, *sides = spellings(
        tuple(names),
        settings.conversation_fields,
        settings.prompt_fields,
        settings.answer_fields,
        settings.chosen_fields,
        settings.rejected_fields,
    )
    return bool(lists or (prompts and answers) or all(sides))


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
