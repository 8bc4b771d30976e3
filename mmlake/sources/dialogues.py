"""Records of dialogues and instructions as one text: what is deduplicated, filtered by language and searched for is the whole of a conversation.

A list of turns (`messages`, `conversations`) becomes a paragraph per turn, "role: words"; fields of a prompt and its answer become one each,
"field: words". The fields themselves stay in the metadata, so that nothing of their structure is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from mmlake.sources.rows import spellings
from mmlake.sources.settings import SourceSettings

_ROLES, _WORDS = ("role", "from"), ("content", "value")  # of a turn, as chat interfaces and ShareGPT call them


def dialogue_of(fields: Mapping[str, Any], *, settings: SourceSettings) -> tuple[str, str] | None:
    """(the field that the dialogue begins in, its text), or None where the record holds none. A prompt without an answer is none."""
    lists, prompts, answers = spellings(tuple(fields), settings.conversation_fields, settings.prompt_fields, settings.answer_fields)
    for name in lists:
        if isinstance(fields[name], list) and (turns := [turn for value in fields[name] for turn in _turn(value)]):
            return name, "\n\n".join(turns)
    asked, answered = (([name for name in names if isinstance(fields[name], str) and fields[name].strip()]) for names in (prompts, answers))
    if not asked or not answered:
        return None
    return asked[0], "\n\n".join(f"{name}: {fields[name].strip()}" for name in (*asked, *answered))


def may_be_dialogue(names: Collection[str], *, settings: SourceSettings) -> bool:
    """Whether a record with fields of these names may hold a dialogue."""
    lists, prompts, answers = spellings(tuple(names), settings.conversation_fields, settings.prompt_fields, settings.answer_fields)
    return bool(lists or (prompts and answers))


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
