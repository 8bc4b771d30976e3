"""Edited copies, made from real and generated media: which of them the lake finds, and which the best tool at hand."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Edit:
    """One way to change a copy."""

    name: str
    num: int  # copies that were changed so
    ours: float  # share of them that ends in one cluster with its original
    tool: str = "-"  # the best of the peers that are installed
    tool_recall: float | None = None  # the same share for it, at bounds that give as few false pairs


@dataclass(frozen=True, slots=True)
class Report:
    """The edits of one modality."""

    modality: str
    edits: list[Edit]
    num_unrelated: int  # pairs of different originals that were compared
    num_false: int  # of them, called duplicates
    survivors: float  # share of families (an original and all of its edits) of which the original stays
    num_families: int
    missed: list[str] = field(default_factory=list)  # what is still not found, in a sentence each
    beaten: list[str] = field(default_factory=list)  # the edits that stay in place of an original

    def table(self) -> str:
        """The report in Markdown."""
        rows = ["| edit | copies | ours | best tool | its recall |", "| --- | --- | --- | --- | --- |"]
        for edit in self.edits:
            peer = "-" if edit.tool_recall is None else f"{edit.tool_recall:.2f}"
            rows.append(f"| {edit.name} | {edit.num} | {edit.ours:.2f} | {edit.tool} | {peer} |")
        last = (
            f"False pairs: {self.num_false} of {self.num_unrelated:,}. The original stays in {self.survivors:.0%} of "
            f"{self.num_families} families."
        )
        if self.beaten:
            last += f" In its place stay: {', '.join(sorted(self.beaten))}."
        return "\n".join([*rows, "", last, *(f"Missed: {one}" for one in self.missed)])
