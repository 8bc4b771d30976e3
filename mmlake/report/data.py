"""What a report is made of: plain lists, dicts and bytes, filled by a caller that knows the lake. Every part may be
left empty."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportSettings:
    """How large a report may be."""

    max_bytes: int = 8_000_000
    # bytes of the HTML file; mail and chat take 8 MB, and a phone opens it at once
    max_examples_per_rule: int = 6
    # items; a seventh example of one rule teaches little
    max_clusters_per_tier: int = 8
    # duplicate clusters shown per tier and modality
    max_members: int = 6
    # members shown per cluster; the survivor is always among them
    max_samples: int = 6
    # admitted items shown per modality
    max_points: int = 1500
    # points per map; more overlap on a map of 440 px
    max_audio_bytes: int = 200_000
    # bytes of one embedded sound: about 10 s of Opus or 6 s of 16 kHz PCM
    max_video_bytes: int = 800_000
    # bytes of one embedded clip
    max_text_chars: int = 600
    # characters of a text example


@dataclass(kw_only=True, slots=True)
class Example:
    """One item as a reader sees it."""

    digest: str
    modality: str
    title: str = ""  # file or member name
    reason: str = ""  # why it is shown: the finding's reason, or what it is
    status: str = ""
    tier: str = ""  # of a duplicate: exact, near or semantic
    score: float | None = None  # similarity to the survivor, 0..1
    survivor: bool = False
    why: str = ""  # of a duplicate: why the survivor stays, or why it goes; a sentence
    text: str = ""  # its text, caption or transcript
    image: bytes | None = None  # JPEG, PNG, WebP or GIF; `thumbnail` makes a small one
    keyframes: list[bytes] = field(default_factory=list)  # thumbnails in time order
    audio: bytes | None = None  # WAV, FLAC, Ogg, MP3 or MP4
    peaks: list[float] = field(default_factory=list)  # waveform, 0..1; `waveform_peaks` makes it
    video: bytes | None = None  # MP4 or WebM
    duration_s: float | None = None


@dataclass(kw_only=True, slots=True)
class TrackExample:
    """One clip of a film with its tracks. Times are seconds on its own clock; spans have start_s, end_s and text."""

    key: str  # of the sample in its shard
    shard: str
    place: str  # of the clip in its film
    duration_s: float
    media_start_s: float = 0.0  # where the clip begins in the bytes that are played
    video: bytes = b""  # MP4 or WebM
    keyframes: list[tuple[float, bytes]] = field(default_factory=list)  # (time_s, JPEG)
    shots: list[dict[str, Any]] = field(default_factory=list)  # start_s, end_s, transition
    peaks: list[float] = field(default_factory=list)  # of its sound, as `waveform_peaks` makes them
    words: list[dict[str, Any]] = field(default_factory=list)
    spans: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # rows of their own, by name


@dataclass(kw_only=True, slots=True)
class ModalityRows:
    """The headline of one modality. ok + flagged + quarantined + unreadable + num_waiting = num_rows."""

    modality: str
    num_rows: int
    ok: int = 0
    flagged: int = 0
    quarantined: int = 0
    unreadable: int = 0
    num_waiting: int = 0  # no verdict covers them
    num_distinct: int | None = None  # digests
    num_duplicates: int | None = None  # distinct digests that a survivor stands for
    num_in_version: int | None = None
    num_bytes: int | None = None


@dataclass(kw_only=True, slots=True)
class SourceRow:
    """How much of one source a version can use, and why not more."""

    source: str
    modality: str
    num_units: int
    usable_fraction: float  # ok or flagged
    weighted_fraction: float  # likewise, each with its weight
    causes: dict[str, int] = field(default_factory=dict)  # gravest rule -> units that no version takes
    lowered: dict[str, int] = field(default_factory=dict)  # gravest rule -> units with a smaller weight


@dataclass(kw_only=True, slots=True)
class FlowStep:
    """One stage that rows of a modality pass. num_rows is what enters; lost is what leaves there, by cause."""

    name: str
    num_rows: int
    lost: dict[str, int] = field(default_factory=dict)


@dataclass(kw_only=True, slots=True)
class TierCount:
    """What one dedup tier found in one modality. planted and recovered are None where the truth is not known."""

    tier: str
    modality: str
    found: int  # duplicates: items beyond the survivor of each cluster
    planted: int | None = None
    recovered: int | None = None  # planted ones that were found
    unplanned: int | None = None  # found ones that nobody planted; need not be wrong
    estimated: str = ""  # recall of the search, from a sample, with its interval


@dataclass(kw_only=True, slots=True)
class RuleCount:
    """How often one rule was broken."""

    rule: str
    modality: str
    severity: str
    count: int
    error_code: int | None = None
    has_review: bool = False  # whether `mmlake review` draws a set next to its bound
    examples: list[Example] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class ClusterMember:
    """A line about a duplicate of a large cluster."""

    digest: str
    title: str = ""
    score: float | None = None  # with the survivor
    method: str = ""
    relation: str = ""
    reason: str = ""  # why the survivor stays and it goes


@dataclass(kw_only=True, slots=True)
class DuplicateCluster:
    """Items that are held to be one; the survivor is the member with `survivor` set."""

    tier: str
    modality: str
    members: list[Example]
    size: int | None = None  # where not all members are given
    radius: float | None = None  # 1 - the smallest score with the survivor
    reasons: list[tuple[str, int]] = field(default_factory=list)  # why the survivor stays, with the number of members
    furthest: list[ClusterMember] = field(default_factory=list)  # of a large cluster, the least alike first


@dataclass(kw_only=True, slots=True)
class PairExample:
    """Two items and what a tier found between them, next to its bound."""

    tier: str
    method: str
    modality: str
    is_above: bool  # else the score is below the bound, and both stay
    relation: str
    score: float
    bound: float
    left: Example
    right: Example
    left_span_s: tuple[float, float] | None = None  # the common part; None where whole meets whole
    right_span_s: tuple[float, float] | None = None
    found: int | None = None  # pairs of this kind, where not all are given


@dataclass(kw_only=True, slots=True)
class ClusterCard:
    """One cluster of an embedding map."""

    cluster: int
    size: int
    label: str = ""  # terms, or the representative's name
    representative: Example | None = None


@dataclass(kw_only=True, slots=True)
class Loner:
    """A unit that is least like the others of its modality."""

    distance: float  # mean cosine distance to its nearest five
    example: Example


@dataclass(kw_only=True, slots=True)
class EmbeddingMap:
    """One modality's vectors in two dimensions, with its diversity. `project` makes the points."""

    modality: str
    encoder: str = ""
    num_units: int | None = None  # where not all are points
    points: list[tuple[float, float]] = field(default_factory=list)
    clusters: list[int] = field(default_factory=list)  # one per point
    labels: list[str] = field(default_factory=list)  # one per point, shown on hover; may be empty
    explained_fraction: float | None = None  # share of variance that the two axes show
    diversity: dict[str, Any] = field(default_factory=dict)  # Diversity.to_dict()
    cards: list[ClusterCard] = field(default_factory=list)
    uniqueness: float | None = None  # median cosine distance to the nearest neighbour
    loners: list[Loner] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class ReportData:
    """Everything that a report shows."""

    title: str = "mmlake report"
    subtitle: str = ""  # which corpora
    version: str = ""  # the manifest's digest
    refs: list[str] = field(default_factory=list)  # branches and tags that point at it
    generated_at: str = ""  # ISO 8601; given, so that the same data gives the same file
    facts: dict[str, str] = field(default_factory=dict)  # settings digest, release, machine: shown at the end
    rows: list[ModalityRows] = field(default_factory=list)
    sources: list[SourceRow] = field(default_factory=list)
    # modality -> steps; the last one is what the version holds
    flows: dict[str, list[FlowStep]] = field(default_factory=dict)
    rules: list[RuleCount] = field(default_factory=list)
    tiers: list[TierCount] = field(default_factory=list)
    clusters: list[DuplicateCluster] = field(default_factory=list)
    pairs: list[PairExample] = field(default_factory=list)  # next to the bounds
    # across modalities: tier is the component, method the modality of what carries it, modality that of what lies alone
    crossed: list[PairExample] = field(default_factory=list)
    samples_in_version: int | None = None
    samples: list[Example] = field(default_factory=list)  # admitted items, to inspect and listen to
    tracks: list[TrackExample] = field(default_factory=list)  # clips on one time axis, as the loader reads them
    review: list[Example] = field(default_factory=list)  # for people to judge; a page of its own
    maps: list[EmbeddingMap] = field(default_factory=list)
    probe_scores: list[dict[str, Any]] = field(default_factory=list)  # summarize(...).to_pylist()
    probe_set: str = ""  # digest of the frozen probes
    decision: dict[str, Any] = field(default_factory=dict)  # Decision.to_dict()
    compared_with: str = ""  # the version that the decision is against
    costs: list[dict[str, Any]] = field(default_factory=list)  # stage_costs(...).to_pylist()
    prices: dict[str, float] = field(default_factory=dict)  # asdict(Prices())
    plan: list[dict[str, Any]] = field(default_factory=list)  # precompute_plan(...).to_pylist()
    story: dict[str, Any] = field(default_factory=dict)  # Story.to_dict() of one item as an example
    story_text: str = ""  # Story.to_text()
    notes: list[str] = field(default_factory=list)  # what a reader must know: a missing model, a skipped stage
