"""A report filled with made-up but plausible data, and with hostile text everywhere that data can put text."""

from __future__ import annotations

import io
import wave
from dataclasses import asdict

import numpy as np

from mmlake.costs import Prices, precompute_plan, stage_costs
from mmlake.evaluate import cluster, compare, describe_clusters, isolation, summarize
from mmlake.evaluate.scores import score_schema
from mmlake.evaluate.shape import shape
from mmlake.records import digest_of
from mmlake.report import (
    ClusterCard,
    ClusterMember,
    DuplicateCluster,
    EmbeddingMap,
    Example,
    FlowStep,
    Loner,
    ModalityRows,
    PairExample,
    ReportData,
    RuleCount,
    TierCount,
    project,
    thumbnail,
    waveform_peaks,
)
from mmlake.tables import Stamp

HIDDEN = "\x07\x1b\x7f\x85\x9b\u061c\u200f\u2028\u202e\u2066\u2069"  # C0, C1, what turns writing around
HOSTILE = f"\"><script>alert('x')</script><img src=x onerror=alert(1)>{{{{7*7}}}}{HIDDEN}"


def picture(seed: int, *, shift: int = 0, size: tuple[int, int] = (480, 360)) -> bytes:
    """A JPEG of soft shapes."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0 : size[1], 0 : size[0]]
    canvas = np.zeros((size[1], size[0], 3)) + rng.uniform(60, 200, 3)
    for _ in range(6):
        radius, cx, cy = rng.uniform(30, 120), rng.uniform(0, size[0]) + shift, rng.uniform(0, size[1])
        canvas[(x - cx) ** 2 + (y - cy) ** 2 < radius**2] = rng.uniform(0, 255, 3)
    sink = io.BytesIO()
    Image.fromarray(canvas.clip(0, 255).astype(np.uint8)).save(sink, format="JPEG", quality=85)
    return sink.getvalue()


def tone(seconds: float, *, seed: int = 0) -> tuple[bytes, np.ndarray]:
    """(WAV bytes, samples) of a swelling tone, 8 kHz."""
    time_s = np.arange(int(8000 * seconds)) / 8000
    samples = 0.6 * np.sin(2 * np.pi * (220 + 40 * seed) * time_s) * (0.55 + 0.45 * np.sin(2 * np.pi * 1.3 * time_s))
    sink = io.BytesIO()
    with wave.open(sink, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return sink.getvalue(), samples


def image(seed: int, **given: object) -> Example:
    """A picture example."""
    return Example(
        digest=digest_of(b"image%d" % seed),
        modality="image",
        title=f"photo-{seed:04d}.jpg",
        image=thumbnail(picture(seed)),
        **given,
    )


def sound(seed: int, seconds: float = 1.5, **given: object) -> Example:
    """A sound example."""
    data, samples = tone(seconds, seed=seed)
    return Example(
        digest=digest_of(b"sound%d" % seed),
        modality="audio",
        title=f"spoken-{seed}.wav",
        audio=data,
        peaks=waveform_peaks(samples),
        duration_s=seconds,
        **given,
    )


def clip(seed: int, **given: object) -> Example:
    """A video example shown by its keyframes."""
    frames = [frame for place in range(6) if (frame := thumbnail(picture(seed, shift=25 * place), max_side_px=120))]
    return Example(
        digest=digest_of(b"video%d" % seed),
        modality="video",
        title=f"clip-{seed}.mp4",
        keyframes=frames,
        duration_s=12.5,
        **given,
    )


def document(seed: int, text: str, **given: object) -> Example:
    """A text example."""
    return Example(
        digest=digest_of(b"text%d" % seed), modality="text", title=f"articles.jsonl line {seed}", text=text, **given
    )


def _maps(num_items: int) -> list[EmbeddingMap]:
    maps = []
    for modality, sizes in (("text", [90, 60, 40, 25, 15]), ("image", [120, 30, 20, 10]), ("audio", [40, 38, 35])):
        rng = np.random.default_rng(len(sizes))
        centres = rng.standard_normal((len(sizes), 24))
        vectors = np.concatenate(
            [
                centre + 0.45 * rng.standard_normal((size * num_items // 100, 24))
                for centre, size in zip(centres, sizes, strict=True)
            ]
        )
        digests = [digest_of(b"%s%d" % (modality.encode(), place)) for place in range(len(vectors))]
        clustering = cluster(vectors, seed=1)
        points, explained = project(vectors)
        shown = image if modality == "image" else None
        cards = [
            ClusterCard(
                cluster=row["cluster"],
                size=row["size"],
                label=HOSTILE if row["cluster"] == 1 else f"topic {row['cluster']}",
                representative=shown(row["cluster"]) if shown else None,
            )
            for row in describe_clusters(clustering, digests, vectors_ND=vectors)
        ]
        labels = [f"item {digest[:8]}" for digest in digests[:-1]] + [HOSTILE]
        given = {
            "clusters": clustering.assignment_N.tolist(),
            "labels": labels,
            "explained_fraction": explained,
            "diversity": shape(clustering).to_dict(),
            "cards": cards,
            "uniqueness": float(np.median(isolation(vectors, seed=1).nearest_U)),
            "loners": [Loner(distance=0.5 + place / 10, example=(shown or image)(place)) for place in range(3)],
        }
        maps.append(
            EmbeddingMap(
                modality=modality, encoder="minilm@r1" if modality == "text" else "dct@1", points=points, **given
            )
        )
    return maps


def _evaluation() -> tuple[list[dict], dict]:
    import pyarrow as pa

    rng, tables = np.random.default_rng(3), []
    difficulty = rng.random(90)
    for gain in (0.0, 0.12):
        rows = []
        for place in range(90):
            found = float(rng.random() < difficulty[place] + gain)
            score = found / int(rng.integers(1, 4))
            kind = ("text", "image", "audio")[place % 3]
            base = {
                "probe_id": f"{place:03d}",
                "kind": kind,
                "modality": kind,
                "num_relevant": 1,
                "rank": 1,
                "reciprocal_rank": score,
                "num_hard_negatives_above": int(place % 9 == 0),
                "top": [],
            }
            rows.append({**base, **{f"{name}_at_{k}": score for name in ("recall", "ndcg") for k in (1, 5, 10)}})
        tables.append(pa.Table.from_pylist(rows, schema=score_schema((1, 5, 10))))
    return summarize(tables[1]).to_pylist(), compare(
        *tables, metric="ndcg_at_10", alpha=0.05, margin=0.01, seed=1, num_resamples=2000
    ).to_dict()


def _money() -> tuple[list[dict], list[dict]]:
    stamps = {}
    for modality, factor in (("text", 0.2), ("image", 1.0), ("video", 4.0), ("audio", 1.5)):
        for place, (stage, seconds) in enumerate(
            (
                ("items", 0.4),
                ("tracks", 3.0),
                ("measures", 1.6),
                ("verdicts", 0.1),
                ("fingerprints", 1.2),
                ("embeddings", 5.5),
            )
        ):
            made = {
                "data_version": "0" * 64,
                "schema_version": 1,
                "code_version": "1",
                "settings_digest": "s",
                "inputs": {},
            }
            stamps[f"{modality}/{stage}[s1]"] = Stamp(
                **made,
                num_rows=160,
                size_bytes=90_000 * (place + 1),
                seconds=seconds * factor,
                cpu_seconds=1.4 * seconds * factor,
                media_bytes=int(9e6 * factor),
            )
    costs = stage_costs(stamps)
    return costs.to_pylist(), precompute_plan(costs, {}, reads_per_month=4).to_pylist()


def _quality() -> list[RuleCount]:
    words = "We use cookies to give you the best experience. Accept all cookies. Terms of service apply. "
    return [
        RuleCount(
            rule="blurred",
            modality="image",
            severity="P1",
            count=14,
            error_code=4203,
            examples=[image(i, reason=f"sharpness={3 + i} not in [20, inf)", status="quarantined") for i in range(8)],
        ),
        RuleCount(
            rule="boilerplate",
            modality="text",
            severity="P1",
            count=9,
            error_code=4103,
            examples=[
                document(1, words * 12, reason="boilerplate_fraction=0.91 not in [0, 0.5]", status="quarantined")
            ],
        ),
        RuleCount(
            rule="repeated_lines",
            modality="text",
            severity="P1",
            count=1,
            error_code=4104,
            examples=[document(2, HOSTILE + "\nline\nline", reason=HOSTILE, status="quarantined")],
        ),
        RuleCount(
            rule="noisy",
            modality="audio",
            severity="P2",
            count=6,
            error_code=4403,
            examples=[sound(1, reason="snr_db=4.1 not in [10, inf)", status="flagged")],
        ),
        RuleCount(
            rule="black",
            modality="video",
            severity="P1",
            count=2,
            error_code=4301,
            examples=[clip(40, reason="black_fraction=0.95 not in [0, 0.5]", status="quarantined")],
        ),
        RuleCount(rule="media_truncated", modality="image", severity="P0", count=3, error_code=3002),
    ]


def pairs() -> list[PairExample]:
    """A pair above and one below the bound of each modality; texts and names are hostile."""
    words = (
        "The harbour was closed for three days because of the storm that came from the north and took two roofs away"
    )
    texts = [document(80, words + HOSTILE), document(81, words.replace("three", "four").replace("two", "nine"))]
    made = []
    for modality, method, sides in (
        ("text", "jaccard-5gram", texts),
        ("image", "correlation", [image(60), image(61)]),
        ("audio", "chromaprint", [sound(7), sound(8)]),
        ("video", "frames", [clip(70), clip(71)]),
    ):
        for score, relation in ((0.7312, "same"), (0.6954, "apart")):
            is_cut = modality in ("audio", "video")
            made.append(
                PairExample(
                    tier="near",
                    method=method,
                    modality=modality,
                    is_above=relation == "same",
                    relation=relation,
                    score=score,
                    bound=0.7,
                    left=sides[0],
                    right=sides[1],
                    left_span_s=(0.5, 4.0) if is_cut else None,
                    right_span_s=(1.0, 4.5) if is_cut else None,
                )
            )
    return made


def _clusters() -> list[DuplicateCluster]:
    near = [
        DuplicateCluster(
            tier="near",
            modality="image",
            members=[
                image(50 + i, survivor=True),
                image(50 + i, tier="near", score=0.969),
                image(50 + i, tier="near", score=0.922),
            ],
        )
        for i in range(3)
    ]
    story = (
        "The harbour was quiet before dawn, and the boats lay low in the water while gulls walked on the wet stones."
    )
    texts = [
        document(60, story, survivor=True),
        document(61, story.replace("quiet", "silent"), tier="near", score=0.871),
    ]
    sounds = [sound(3, survivor=True), sound(3, tier="near", score=0.94)]
    exact = DuplicateCluster(
        tier="exact", modality="image", members=[image(70, survivor=True), image(70, tier="exact", score=1.0)], size=4
    )
    large = DuplicateCluster(
        tier="near",
        modality="image",
        members=[image(75, survivor=True), image(75, tier="near", score=0.931, why="real resolution: 480 over 120 px")],
        size=30,
        radius=0.069,
        reasons=[("real resolution", 21), (HOSTILE, 8)],
        furthest=[
            ClusterMember(
                digest=digest_of(b"member%d" % place),
                title=HOSTILE if place == 3 else f"copy-{place:02d}.jpg",
                score=0.931 + place / 1000,
                method="correlation",
                relation="same",
                reason="real resolution: 480 over 120 px",
            )
            for place in range(24)
        ],
    )
    return [
        large,
        *near,
        exact,
        DuplicateCluster(tier="near", modality="text", members=texts),
        DuplicateCluster(tier="near", modality="audio", members=sounds),
    ]


def demo(num_items: int = 100) -> ReportData:
    """A whole report; num_items scales the maps."""
    scores, decision = _evaluation()
    costs, plan = _money()
    flows = {}
    for modality, rows in (("text", 240), ("image", 190), ("video", 40), ("audio", 130)):
        lost = [
            {"unreadable": rows // 30, "quarantined": rows // 8},
            {"exact duplicates": rows // 12},
            {"near duplicates": rows // 9},
            {"semantic duplicates": rows // 25},
        ]
        steps, left = [], rows
        for name, here in zip(("landed", "admitted", "distinct", "after near tier"), lost, strict=True):
            steps.append(FlowStep(name=name, num_rows=left, lost=here))
            left -= sum(here.values())
        flows[modality] = [*steps, FlowStep(name="in version", num_rows=left)]
    said = {
        "items": "1 occurrence, ok",
        "tracks": "ok, 640 x 480 px",
        "verdicts": "quarantined, weight 0: blurred (sharpness=3 not in [20, inf))",
    }
    steps = [
        {
            "table": name,
            "said": text,
            "shard": "coco-0001",
            "data_version": digest_of(name.encode()),
            "code_version": "1",
            "settings_digest": "ab12cd34ef",
            "run_id": "run-2026-01",
        }
        for name, text in said.items()
    ]
    return ReportData(
        title="Sample corpus, second pass",
        subtitle="COCO captions, news articles, spoken digits, sign-language clips",
        version=digest_of(b"version"),
        refs=["main", "demo-v002"],
        generated_at="2026-01-02T03:04:05+00:00",
        facts={"release": "0.1.0", "settings": "5e77ab", "file name": HOSTILE},
        rows=[
            ModalityRows(
                modality="text",
                num_rows=240,
                ok=198,
                flagged=4,
                quarantined=30,
                unreadable=8,
                num_distinct=220,
                num_duplicates=35,
                num_in_version=147,
                num_bytes=1_200_000,
            ),
            ModalityRows(
                modality="image",
                num_rows=190,
                ok=160,
                flagged=1,
                quarantined=23,
                unreadable=6,
                num_distinct=175,
                num_duplicates=27,
                num_in_version=124,
                num_bytes=18_400_000,
            ),
            ModalityRows(
                modality="video",
                num_rows=40,
                ok=34,
                flagged=0,
                quarantined=5,
                unreadable=1,
                num_distinct=37,
                num_duplicates=5,
                num_in_version=26,
                num_bytes=61_000_000,
            ),
            ModalityRows(
                modality="audio",
                num_rows=130,
                ok=104,
                flagged=6,
                quarantined=16,
                unreadable=4,
                num_distinct=120,
                num_duplicates=19,
                num_in_version=81,
                num_bytes=9_100_000,
            ),
        ],
        flows=flows,
        rules=_quality(),
        tiers=[
            TierCount(tier="exact", modality="image", found=15, planted=15, recovered=15, unplanned=0),
            TierCount(tier="near", modality="image", found=21, planted=22, recovered=20, unplanned=1),
            TierCount(tier="near", modality="text", found=26, planted=26, recovered=26, unplanned=0),
            TierCount(tier="semantic", modality="text", found=9),
        ],
        clusters=_clusters(),
        pairs=pairs(),
        samples=[
            *(image(i) for i in range(90, 97)),
            *(sound(i) for i in range(4, 7)),
            clip(30),
            clip(31),
            document(80, "A heron stands still in the shallow water. " * 9),
            document(81, HOSTILE),
        ],
        maps=_maps(num_items),
        probe_scores=scores,
        probe_set=digest_of(b"probes"),
        decision=decision,
        compared_with=digest_of(b"version one"),
        costs=costs,
        prices=asdict(Prices()),
        plan=plan,
        story={
            "digest": digest_of(b"image3"),
            "conclusion": "Left out: quarantined by blurred (sharpness=3 not in [20, inf)); landed once.",
            "steps": steps,
        },
        story_text="item ...\n  " + HOSTILE,
        notes=["Audio has no speech recognizer on this machine: transcripts are those that came with the source."],
    )
