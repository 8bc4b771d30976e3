"""THE table: one row per modality, one column per stage. Read this first.

Each stage keeps its own table of methods (SOURCES, RULES, TIERS, ENCODERS); this one says which of them a modality uses
and what its tables are called, and every asset, partition set and command is made from it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Modality:
    """What the lake does with one kind of data."""

    name: str
    description: str
    encoder: str  # default row of mmlake.embed.ENCODERS; settings.embed may choose another
    size: str  # column of `tracks` that says how much of it there is; the bigger of two equal duplicates survives


MODALITIES: dict[str, Modality] = {
    row.name: row
    for row in (
        Modality(name="text", description="documents, captions and transcripts", encoder="minilm-l6", size="num_words"),
        Modality(name="image", description="still pictures", encoder="colour-gradient", size="width_px"),
        Modality(
            name="video",
            description="moving pictures, with or without sound",
            encoder="frame-motion",
            size="duration_s",
        ),
        Modality(name="audio", description="sound files", encoder="mel-statistics", size="duration_s"),
    )
}
