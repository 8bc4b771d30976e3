"""ReportData -> one HTML file that needs nothing else.

Everything that comes from data is escaped, by Jinja2's autoescape and by the SVG elements; besides, a content security
policy with the hashes of our own style and script lets the browser run and load nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from mmlake.drawing import end_of, shown
from mmlake.report import svg
from mmlake.report.charts import cost_chart, decision_chart, decision_words, price_words, rule_chart, source_chart
from mmlake.report.checksum import with_checksum
from mmlake.report.data import (
    ClusterCard,
    DuplicateCluster,
    EmbeddingMap,
    Example,
    Loner,
    ModalityRows,
    ReportData,
    ReportSettings,
    RuleCount,
    TrackExample,
)
from mmlake.report.flow import flow
from mmlake.report.media import Budget, evenly
from mmlake.report.pairs import pair_groups
from mmlake.report.timeline import timeline
from mmlake.store import write_atomically

# of the media budget; what one part leaves over goes to the next
_SHARES = {
    "maps": 0.08,
    "rules": 0.24,
    "clusters": 0.24,
    "pairs": 0.15,
    "crossed": 0.08,
    "tracks": 0.12,
    "samples": 0.09,
    "review": 0.0,  # all that is left, since it stands alone
}
_MARKUP_BYTES_PER_POINT = 170  # measured: a circle with its label
_MARKUP_BYTES = 400_000  # tables, text examples, style
_MAX_LEGEND = 12  # clusters named next to a map; the histogram shows them all
_TIER_ORDER = ("exact", "near", "semantic")


@dataclass(frozen=True, slots=True)
class Written:
    """What was written."""

    path: Path
    size_bytes: int
    left_out: dict[str, int]  # what did not fit, by kind


def write_report(data: ReportData, path: Path | str, *, settings: ReportSettings | None = None) -> Written:
    """The report's path, size and what was left out of it. The same data gives the same bytes; the file is at most
    settings.max_bytes unless its tables alone are larger."""
    settings = settings or ReportSettings()
    share = 1.0
    while True:
        html, left_out = render_report(data, settings=settings, media_share=share)
        # a lone surrogate from a broken file name must not lose the report
        encoded = with_checksum(html.encode("utf-8", errors="replace"))
        if len(encoded) <= settings.max_bytes or share < 0.05:
            break
        share = share / 2 if share > 0.1 else 0.0
        settings = replace(
            settings, max_points=settings.max_points // 2, max_text_chars=max(settings.max_text_chars // 2, 80)
        )
    write_atomically(Path(path), encoded)
    return Written(Path(path), len(encoded), left_out)


def render_report(
    data: ReportData, *, settings: ReportSettings, media_share: float = 1.0
) -> tuple[str, dict[str, int]]:
    """(the HTML, what was left out by kind). media_share: share of the bytes left for media that may be used."""
    points = sum(min(len(each.points), settings.max_points) for each in data.maps)
    media = max(int((settings.max_bytes - _MARKUP_BYTES - points * _MARKUP_BYTES_PER_POINT) * media_share), 0)
    view = _View(settings, media)
    figures = _figures(data)
    parts = {
        "summary": bool(figures or data.rows or data.notes),
        "flows": [
            (modality, flow(steps, title=f"rows of {modality} through the stages"))
            for modality, steps in data.flows.items()
            if steps
        ],
        "maps": view.part("maps", lambda: [view.map(each) for each in data.maps]),
        "rules": view.part("rules", lambda: [view.rule(each) for each in _ranked(data.rules)]),
        "clusters": view.part("clusters", lambda: view.clusters(data.clusters)),
        "pairs": view.part("pairs", lambda: pair_groups(data.pairs, example=view.still, players=view.players)),
        "crossed": view.part("crossed", lambda: pair_groups(data.crossed, example=view.still, players=view.players)),
        "tracks": view.part("tracks", lambda: [view.track(each) for each in data.tracks]),
        "samples": view.part("samples", lambda: view.samples(data.samples)),
        "review": view.part("review", lambda: [view.example(each) for each in data.review]),
    }
    css, script = Markup(_template("report.css")), Markup(_template("report.js"))
    html = (
        _environment()
        .from_string(_template("report.html"))
        .render(
            data=data,
            css=css,
            script=script,
            policy=_policy(css, script),
            sections=_sections(data, parts),
            figures=figures,
            total=_total(data.rows),
            truth=any(row.planted is not None for row in data.tiers),
            estimates=any(row.estimated for row in data.tiers),
            rule_chart=rule_chart(_ranked(data.rules)),
            source_chart=source_chart(data.sources),
            decision_words=decision_words(data.decision),
            decision_chart=decision_chart(data.decision),
            cost_chart=cost_chart(data.costs),
            price_words=price_words(data.prices),
            left_out=sorted(view.left_out.items()),
            **parts,
        )
    )
    # whatever of the data reached the page: nothing on it may turn its writing around or be a control character
    return shown(html.replace("\r\n", "\n")), dict(sorted(view.left_out.items()))


class _View:
    """Examples as the template needs them, within one budget of bytes."""

    def __init__(self, settings: ReportSettings, media_bytes: int) -> None:
        self.settings = settings
        self.left_out: Counter[str] = Counter()
        self._media_bytes = media_bytes
        self._budget = Budget(0, self.left_out)

    def part(self, name: str, make: Any) -> Any:
        """What `make` gives, with the part's share of the budget and what the parts before left over."""
        self._budget.num_bytes += int(self._media_bytes * _SHARES[name])
        return make()

    def example(self, each: Example) -> dict[str, Any]:
        """The example with data URIs. An image is left out where keyframes or a video show the same."""
        return self.still(each) | self.players(each)

    def players(self, each: Example) -> dict[str, Any]:
        """Its sound and film."""
        limit = self.settings
        return {
            "audio": self._budget.uri(each.audio, kinds=("audio", "video"), largest=limit.max_audio_bytes),
            "video": self._budget.uri(each.video, kinds=("video",), largest=limit.max_video_bytes),
        }

    def still(self, each: Example) -> dict[str, Any]:
        """The example without these."""
        limit = self.settings
        frames = [uri for frame in each.keyframes if (uri := self._budget.uri(frame, kinds=("image",)))]
        text = each.text[: limit.max_text_chars] + ("…" if len(each.text) > limit.max_text_chars else "")
        return {
            **{field.name: getattr(each, field.name) for field in fields(each)},
            "image": None if frames else self._budget.uri(each.image, kinds=("image",)),
            "keyframes": frames,
            "audio": None,
            "video": None,
            "marked": "",
            "wave": svg.waveform(each.peaks, title=f"waveform of {each.title or each.digest[:12]}"),
            "text": text,
        }

    def rule(self, each: RuleCount) -> dict[str, Any]:
        """A rule with as many examples as are to be shown."""
        shown = self._few(each.examples, self.settings.max_examples_per_rule, "examples of rules")
        names = ("rule", "modality", "severity", "count", "error_code", "has_review")
        plain = {name: getattr(each, name) for name in names}
        return {**plain, "examples": [self.example(example) for example in shown]}

    def clusters(self, clusters: Sequence[DuplicateCluster]) -> list[tuple[tuple[str, str], dict[str, Any]]]:
        """Clusters by (tier, modality), in order of cost."""
        groups: dict[tuple[str, str], list[DuplicateCluster]] = {}
        for cluster in clusters:
            if cluster.members:
                groups.setdefault((cluster.tier, cluster.modality), []).append(cluster)
        groups_shown = []
        # within a tier in the order of arrival, which is that of the lake's modalities
        for key in sorted(groups, key=lambda key: _TIER_ORDER.index(key[0]) if key[0] in _TIER_ORDER else 9):
            shown = self._few(groups[key], self.settings.max_clusters_per_tier, "duplicate clusters")
            groups_shown.append(
                (key, {"total": len(groups[key]), "shown": [self._cluster(cluster) for cluster in shown]})
            )
        return groups_shown

    def samples(self, samples: Sequence[Example]) -> list[tuple[str, list[dict[str, Any]]]]:
        """Samples by modality."""
        groups: dict[str, list[Example]] = {}
        for each in samples:
            groups.setdefault(each.modality, []).append(each)
        return [
            (name, [self.example(each) for each in self._few(group, self.settings.max_samples, "samples")])
            for name, group in groups.items()
        ]

    def track(self, each: TrackExample) -> dict[str, Any]:
        """A clip with its player and the picture of its tracks."""
        frames = [(time_s, self._budget.uri(data, kinds=("image",))) for time_s, data in each.keyframes]
        return {
            **{name: getattr(each, name) for name in ("key", "shard", "place", "duration_s")},
            "video": self._budget.uri(each.video, kinds=("video",), largest=self.settings.max_video_bytes),
            "picture": timeline(
                each.duration_s,
                title=f"tracks of {each.key}",
                keyframes=[(time_s, uri) for time_s, uri in frames if uri is not None],
                shots=each.shots,
                peaks=each.peaks,
                words=each.words,
                spans=each.spans,
                media_start_s=each.media_start_s,
            ),
        }

    def map(self, each: EmbeddingMap) -> dict[str, Any]:
        """A map with at most max_points points, every n-th of them, and its clusters."""
        chosen, num_units = evenly(len(each.points), self.settings.max_points), each.num_units or len(each.points)
        if len(chosen) < num_units:
            self.left_out["points of maps"] += num_units - len(chosen)
        points = [each.points[place] for place in chosen]
        clusters = [each.clusters[place] for place in chosen] if each.clusters else []
        labels = [each.labels[place][:80] for place in chosen] if each.labels else []
        counts = each.diversity.get("histogram", [])
        title = f"{len(counts)} clusters of {each.modality}, largest first"
        return {
            **{name: getattr(each, name) for name in ("modality", "encoder", "explained_fraction", "diversity")},
            "num_points": num_units,
            "num_shown": len(points),
            "picture": svg.scatter(points, clusters, labels, title=f"map of {each.modality}") if points else "",
            "histogram": svg.histogram(
                counts, title=title, x_label="clusters, largest first; dashed: even share", y_label="items"
            )
            if counts
            else "",
            "num_cards": len(each.cards),
            "cards": [self._legend(card) for card in each.cards[:_MAX_LEGEND]],
            "uniqueness": each.uniqueness,
            "loners": [self._loner(one) for one in each.loners[:_MAX_LEGEND]],
        }

    def _loner(self, loner: Loner) -> dict[str, Any]:
        image = self._budget.uri(loner.example.image, kinds=("image",))
        label = end_of(loner.example.title) or loner.example.text
        return {"distance": loner.distance, "digest": loner.example.digest, "label": label[:80], "image": image}

    def _legend(self, card: ClusterCard) -> dict[str, Any]:
        image = self._budget.uri(card.representative.image, kinds=("image",)) if card.representative else None
        label = card.label or (end_of(card.representative.title) if card.representative else "")
        return {"cluster": card.cluster, "size": card.size, "label": label[:80], "image": image}

    def _cluster(self, cluster: DuplicateCluster) -> dict[str, Any]:
        ordered = sorted(cluster.members, key=lambda member: not member.survivor)
        shown = self._few(ordered, self.settings.max_members, "members of duplicate clusters")
        plain = {name: getattr(cluster, name) for name in ("radius", "reasons", "furthest")}
        size = cluster.size or len(cluster.members)
        return {**plain, "size": size, "members": [self.example(member) for member in shown]}

    def _few(self, things: Sequence[Any], count: int, what: str) -> Sequence[Any]:
        if len(things) > count:
            self.left_out[what] += len(things) - count
        return things[:count]


def _sections(data: ReportData, parts: dict[str, Any]) -> list[tuple[str, str]]:
    given = [
        ("summary", "Summary", parts["summary"]),
        ("review", "Review", data.review),
        ("flow", "Flow of rows", parts["flows"]),
        ("sources", "Usable by source", data.sources),
        ("quality", "Quality", parts["rules"]),
        ("duplicates", "Duplicates", data.tiers or parts["clusters"]),
        ("bounds", "Pairs at the bounds", parts["pairs"]),
        ("crossed", "Across modalities", parts["crossed"]),
        ("tracks", "Clips on their tracks", parts["tracks"]),
        ("samples", "Examples of the data", parts["samples"]),
        ("diversity", "Diversity", parts["maps"]),
        ("evaluation", "Evaluation", data.probe_scores or data.decision),
        ("costs", "Time and cost", data.costs),
        ("provenance", "Provenance", data.story),
    ]
    return [(key, name) for key, name, there in given if there]


def _figures(data: ReportData) -> list[tuple[str, str, str]]:
    """The few numbers that a reader takes away: (label, value, note)."""
    total = _total(data.rows)
    figures: list[tuple[str, str, str]] = []
    if data.rows:
        admitted = total["ok"] + total["flagged"]
        figures.append(
            ("units in", f"{total['num_rows']:,}", svg.size(total["num_bytes"]) if total["num_bytes"] else "")
        )
        figures.append(
            (
                "admitted",
                f"{admitted:,}",
                f"{svg.share(admitted / total['num_rows'])} of units" if total["num_rows"] else "",
            )
        )
    if data.tiers:
        figures.append(
            (
                "duplicates",
                f"{sum(row.found for row in data.tiers):,}",
                ", ".join(
                    f"{sum(row.found for row in data.tiers if row.tier == tier):,} {tier}" for tier in _tiers(data)
                ),
            )
        )
    if total["num_in_version"] is not None:
        if data.samples_in_version is not None:
            figures.append(("samples in version", f"{data.samples_in_version:,}", ", ".join(data.refs)))
        figures.append(("items in version", f"{total['num_in_version']:,}", "distinct parts of its samples"))
    if data.decision:
        figures.append(
            (
                "decision",
                str(data.decision["outcome"]),
                f"{data.decision['metric']} {data.decision['mean_difference']:+.4f}",
            )
        )
    overall = next((row for row in data.costs if row["stage"] == "total"), None)
    if overall:
        figures.append(("CPU time", f"{overall['cpu_seconds']:,.1f} s", f"estimated {svg.usd(overall['cost_usd'])}"))
    return figures


def _total(rows: Iterable[ModalityRows]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for field in fields(ModalityRows):
        values = [getattr(row, field.name) for row in rows if field.name != "modality"]
        known = [value for value in values if value is not None]
        total[field.name] = (
            sum(known) if known else None if field.name.startswith("num_") and field.name != "num_rows" else 0
        )
    return total


def _tiers(data: ReportData) -> list[str]:
    return sorted(
        {row.tier for row in data.tiers}, key=lambda tier: (_TIER_ORDER.index(tier) if tier in _TIER_ORDER else 9, tier)
    )


def _ranked(rules: Sequence[RuleCount]) -> list[RuleCount]:
    return sorted((rule for rule in rules if rule.count), key=lambda rule: (-rule.count, rule.rule, rule.modality))


def _template(name: str) -> str:
    return resources.files("mmlake.report").joinpath("templates", name).read_text(encoding="utf-8")


def _environment() -> Environment:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(num=svg.number, size=svg.size, usd=svg.usd, share=svg.share)
    return environment


def _policy(css: str, script: str) -> str:
    hashes = [base64.b64encode(hashlib.sha256(str(part).encode()).digest()).decode() for part in (css, script)]
    return (
        f"default-src 'none'; img-src data:; media-src data:; style-src 'sha256-{hashes[0]}'; script-src "
        f"'sha256-{hashes[1]}'; base-uri 'none'; form-action 'none'"
    )
