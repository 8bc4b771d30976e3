"""The whole story of one digest as plain values, and how it reads on a terminal."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Occurrence:
    """One place in the landing zone that holds these very bytes."""

    item_id: str
    shard: str
    sample_id: str
    modality: str
    role: str
    source: str
    licence: str
    source_ref: dict[str, Any]
    status: str
    error: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One stage table that knows the digest, and what made that table."""

    table: str
    modality: str
    shard: str
    said: str  # what the table says of the digest, in one line
    details: dict[str, Any]  # its columns, without the bulky ones
    data_version: str
    code_version: str
    settings_digest: str
    inputs: dict[str, str]
    run_id: str
    written_at: str
    run: dict[str, Any] | None = None  # what the event log says of that run, where it was given


@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """Whether one version holds the digest, and why not where it does not."""

    version: str
    names: tuple[str, ...]  # branches and tags that point at it
    held: bool
    cause: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """Everything that the lake knows of one digest."""

    digest: str
    modality: str
    kind: str  # item; clip, segment or gap, which lie in one; or what was derived: keyframe, audio track
    # {"digest"} and time_s, or position, start_s and end_s, where kind is not item
    derived_from: dict[str, Any] | None
    status: str
    conclusion: str  # one sentence
    occurrences: tuple[Occurrence, ...]
    steps: tuple[Step, ...]
    findings: tuple[dict[str, Any], ...]  # every broken rule, gravest first, with its error code and reason
    measures: dict[str, float | None]
    survivor: str | None
    duplicates: tuple[dict[str, Any], ...]  # pairs that tie it to others: other, tier, method, score, bound
    versions: tuple[Membership, ...]
    # the spans and gaps that the item is cut to, in order: digest, kind, gap, start_s, end_s, status, rule, reason
    units: tuple[dict[str, Any], ...] = ()
    # the landing zone that the lake reads now: location, and the revision that it is pinned to
    landing: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The story as plain values, for --json and reports."""
        return asdict(self)

    def to_text(self) -> str:
        """The story as plain lines for a terminal."""
        lines = [f"{self.kind} {self.digest}", f"  {self.conclusion}", ""]
        if self.derived_from:
            word = "lies in" if "start_s" in self.derived_from else "derived from"
            lines += [word, *(f"  {key}: {value}" for key, value in self.derived_from.items()), ""]
        if self.units:
            lines += [f"units ({len(self.units)}), which add up to it", *map(_unit, self.units), ""]
        if self.landing:
            lines += ["landing zone", *_landing(self.landing), ""]
        lines += [
            f"occurrences ({len(self.occurrences)})",
            *(line for each in self.occurrences for line in _occurrence(each)),
            "",
        ]
        lines += ["stages", *(line for step in self.steps for line in _step(step)), ""]
        if self.findings:
            lines += [
                "findings",
                *(f"  {row['severity']} {row['error_code']} {row['rule']}: {row['reason']}" for row in self.findings),
                "",
            ]
        if self.measures:
            lines += [
                "measures",
                *(f"  {name} = {'none' if value is None else f'{value:g}'}" for name, value in self.measures.items()),
                "",
            ]
        if self.duplicates:
            lines += [
                "duplicates",
                *(
                    f"  {row['tier']} ({row['method']}) score {row['score']:.4f}, bound {row['bound']:g}: "
                    f"{row['other']}"
                    for row in self.duplicates
                ),
                "",
            ]
        lines += [
            "versions",
            *(
                [f"  {_named(each)}: {'holds it' if each.held else each.cause}" for each in self.versions]
                or ["  none yet"]
            ),
        ]
        return "\n".join(_printable(line) for line in lines)


def _unit(row: dict[str, Any]) -> str:
    said = row["gap"] if row["kind"] == "gap" else row["status"] or "not judged yet"
    why = f": {row['rule']} ({row['reason']})" if row["rule"] else ""
    return f"  {row['start_s']:>10.3f} - {row['end_s']:>10.3f} s  {row['kind']:<8} {row['digest'][:16]}  {said}{why}"


def _landing(stated: dict[str, Any]) -> list[str]:
    """The lines of a landing zone; each by its name where there are several."""
    zones = stated.get("zones", {})
    lines = [
        f"  {name}: {zone['location']}" + (f", revision {zone['revision']}" if "revision" in zone else "")
        for name, zone in zones.items()
    ]
    return lines + [
        f"  {key}: {value}" for key, value in stated.items() if not zones or key not in ("location", "zones")
    ]


def _occurrence(each: Occurrence) -> list[str]:
    ref = each.source_ref
    place = ref.get("path", "?") + (f" :: {ref['member']}" if ref.get("member") else "")
    if ref.get("byte_offset") is not None:
        place += f" [bytes {ref['byte_offset']} + {ref.get('byte_size')}]"
    error = f"    unreadable: {each.error}" if each.error else ""
    return [
        line
        for line in (
            f"  {each.item_id} ({each.role}, source {each.source}, licence {each.licence})",
            f"    {place}",
            error,
        )
        if line
    ]


def _step(step: Step) -> list[str]:
    place = "corpus" if step.shard == "ALL" else step.shard
    made = (
        f"data {step.data_version[:12]} code {step.code_version} settings {step.settings_digest[:12] or '-'} run "
        f"{step.run_id or '-'}"
    )
    return [f"  {step.table:<20} {step.said}", f"  {'':<20} {place}; {made}"]


def _named(each: Membership) -> str:
    return each.version[:16] + (f" ({', '.join(each.names)})" if each.names else "")


def _printable(line: str) -> str:
    """The line without control characters: a member's name must not steer the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)
