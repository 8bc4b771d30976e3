"""What each version step does. Every function takes the lake and the version's name and leaves one result document."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import costs, evaluate, provenance
from mmlake.errors import ContractBroken, MmlakeError, RefMissing
from mmlake.film_decoders import OF_PICTURES
from mmlake.lake import Lake
from mmlake.progress import Advance
from mmlake.publish import ledger, probe_vectors
from mmlake.publish.catalog import catalog_inputs
from mmlake.publish.deliberate import cut_on_purpose
from mmlake.publish.made_with import made_with
from mmlake.publish.mixtures import mix_shards, mixture_counts
from mmlake.publish.pins import pin, pins_digest
from mmlake.publish.requests import Request, ask_for, request_of
from mmlake.publish.results import made_from, read_result, result_path, write_result
from mmlake.publish.samples import SLOT as SAMPLES_SLOT
from mmlake.publish.selected import held_digests, selected, selected_from
from mmlake.publish.version_names import branch_of, earlier_versions, version_names
from mmlake.publish.version_shards import write_version_shards
from mmlake.records import digest_of
from mmlake.store import write_atomically
from mmlake.versions import Manifest, utc_now

READS_PER_MONTH = 4.0  # of each artifact: a weekly rebuild of what lies after it; the plan is made for this habit
_SETTINGS = ("sources", "preprocess", *OF_PICTURES, "embed")  # what the content of every version depends on


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a step made."""

    data_version: str
    num_rows: int
    document: dict[str, Any]
    size_bytes: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)  # what it was made from, where that is not what lies there now


def manifest(lake: Lake, version: str, advance: Advance, *, run_id: str = "") -> Result:
    """The version built from samples and catalog, as a draft tagged with its name, upon what its branch is at. A taken
    name keeps what it names."""
    asked = request_of(lake, version)
    recipe = asked.recipe
    if lake.versions.is_tagged(version):
        begun, samples = _begun(lake, version), lake.versions.samples(version)
        inputs = made_from(lake, version) or selected_from(lake)
    else:
        inputs = selected_from(lake)
        begun = _begin(lake, version, branch=asked.branch, recipe_digest=recipe.digest)
        ask_for(lake, version, asked)  # the steps that follow have the same recipe, whatever becomes of its file
        samples, built = build_version(lake, version, asked, begun, run_id=run_id)
        advance(built.num_samples)
    made = lake.versions.read(version)
    pin(lake, made.id, samples)
    document = {
        "version": version,
        "id": made.id,
        "tree": made.tree,
        "pins": pins_digest(lake, made.id),
        "made_from": inputs,
        **begun,
        "recipe": recipe.name,
        "recipe_digest": recipe.digest,
        "branch": asked.branch,
        "parents": list(made.parents),
        **{
            name: dict(getattr(made, name)) for name in ("totals", "samples", "licences", "excluded", "masked", "pairs")
        },
    }
    write_result(lake, version, "manifest", document)
    size = sum(total["size_bytes"] for total in made.totals.values())
    return Result(
        data_version=made.id,
        num_rows=made.num_samples,
        size_bytes=size,
        counts={"selected": made.num_samples, "excluded": made.num_excluded, "masked parts": made.num_masked},
        document=document,
        inputs=inputs,
    )


def build_version(
    lake: Lake, version: str, asked: Request, begun: Mapping[str, Any], *, run_id: str, is_new: bool = True
) -> tuple[pa.Table, Manifest]:
    """(samples, manifest) of what the request selects from the tables as they are now. begun: base and created_at, of
    which the id depends. is_new: a draft that gets its name; else the files of a version alone, to put them back."""
    selection = selected(lake, asked.recipe, version)
    mixture_counts(selection.samples, asked.recipe)  # a group that is not there is said before anything is published
    built = lake.versions.build(
        selection.samples,
        excluded=selection.excluded,
        recipe=asked.recipe,
        settings_digest=lake.settings.digest(_SETTINGS + asked.recipe.sections),
        encoders=_encoders(lake),
        made_with=made_with(lake),
        diversity=_diversity(lake, held_digests(selection.samples)),
        parents=(begun["base"],) if begun["base"] else (),
        name=version if is_new else None,
        run=run_id,
        message=asked.message,
        created_at=begun["created_at"],
        draft=is_new,
    )
    return selection.samples, built


def _begin(lake: Lake, version: str, *, branch: str, recipe_digest: str) -> dict[str, Any]:
    """What a version was begun with: where its rows come from, its branch and what that is at, and when. Written before
    the version gets its name: else one that was interrupted between name and stamp would be taken to hold a catalog
    that came later. One that was interrupted goes on with what it was begun with, while that holds, so that it
    ends at the same id."""
    begun = {
        "landing": lake.origin(),
        "branch": branch,
        "recipe_digest": recipe_digest,
        "base": lake.versions.branches().get(branch),
    }
    inputs = selected_from(lake)
    try:
        before = read_result(lake, version, "manifest")
    except MmlakeError:
        before = {}
    same = before.get("made_from") == inputs and all(before.get(name) == value for name, value in begun.items())
    begun["created_at"] = before["created_at"] if same and "created_at" in before else utc_now()
    write_result(lake, version, "manifest", {"version": version, "made_from": inputs, **begun})
    return begun


def _begun(lake: Lake, version: str) -> dict[str, Any]:
    """What a version that has its name was begun with; where its record is gone, what holds now."""
    try:
        record = read_result(lake, version, "manifest")
    except (MmlakeError, ValueError):
        record = {}
    names = ("branch", "recipe_digest", "base", "created_at")
    landing = record.get("landing")
    return {"landing": landing if isinstance(landing, dict) else lake.origin()} | {
        name: record[name] for name in names if name in record
    }


def diversity(lake: Lake, version: str, advance: Advance) -> Result:
    """The diversity block of the manifest as a document of its own."""
    document = {"version": version, "spaces": dict(lake.versions.read(version).diversity or {})}
    return Result(
        data_version=write_result(lake, version, "diversity", document),
        num_rows=len(document["spaces"]),
        document=document,
    )


def training_shards(lake: Lake, version: str, advance: Advance) -> Result:
    """The version's samples as shards; those that are there already and sound are kept."""
    made = lake.versions.read(version)
    index = write_version_shards(lake, version, advance=advance)
    mix_shards(lake, version, index.directory)
    document = {
        "version": version,
        "directory": str(index.directory.relative_to(lake.root)),
        "shards": index.to_dict()["shards"],
    }
    for what in ("num_samples", "num_items"):
        if getattr(index, what) != getattr(made, what):
            raise ContractBroken(
                f"{version} -> training shards: {what}={getattr(made, what)} in the manifest, {getattr(index, what)} in"
                f" the shards; remove {index.directory} and write them again"
            )
    return Result(
        data_version=write_result(lake, version, "training_shards", document),
        num_rows=index.num_samples,
        size_bytes=index.size_bytes,
        counts={"shards": len(document["shards"])},
        document=document,
    )


def probe_scores(lake: Lake, version: str, advance: Advance) -> Result:
    """How well the version answers the frozen probes, per probe and in the mean."""
    import pyarrow.parquet as pq

    probes, owners = probe_vectors.ensure_probes(lake), probe_vectors.survivors_of(lake)
    held = lake.versions.items(version).column("digest").combine_chunks()
    parts, unanswered = [], 0
    for modality in lake.parts.modalities:
        vectors = probe_vectors.query_vectors(lake, probes, modality)
        asked = [probe for probe in probes.probes if probe.modality == modality]
        unanswered += len(asked) - len(vectors)
        digests, corpus_ND = probe_vectors.corpus_vectors(lake, modality, held)
        parts.append(
            evaluate.score_probes(
                [probe for probe in asked if probe.id in vectors],
                vectors,
                digests,
                corpus_ND,
                owners,
                ks=lake.settings.evaluate.ks,
            )
        )
        advance(len(asked))
    scores = pa.concat_tables(parts)
    cut = cut_on_purpose(lake, version, probes.probes, owners, baseline=baseline_of(lake, version))
    pq.write_table(scores, sink := io.BytesIO())
    write_atomically(result_path(lake, version, "probe_scores", "parquet"), sink.getvalue())
    document = {
        "version": version,
        "probe_set": probes.digest,
        "unanswerable": unanswered,
        "cut_on_purpose": cut,  # probe -> why all of its answers are out by choice; they are in no mean
        "summary": evaluate.summarize(_without(scores, cut)).to_pylist(),
        "scores_sha256": digest_of(sink.getvalue()),  # of the table next to it
    }
    return Result(
        data_version=write_result(lake, version, "probe_scores", document),
        num_rows=scores.num_rows,
        counts={"probes": len(probes.probes), "unanswerable": unanswered, "cut on purpose": len(cut)},
        document=document,
    )


def decision(lake: Lake, version: str, advance: Advance) -> Result:
    """This version against the one before it, or, for the first of its recipe, against everything."""
    baseline = baseline_of(lake, version)
    document: dict[str, Any] = {
        "version": version,
        "baseline": baseline,
        "outcome": None,
        "explanation": "There is no earlier version to compare with.",
    }
    if baseline is not None:
        settings = lake.settings.evaluate
        cut = {probe for name in (baseline, version) for probe in _cut(lake, name)}
        old, new = (_without(_scores(lake, name), cut) for name in (baseline, version))
        document["cut_on_purpose"] = len(cut)
        document["explanation"] = f"Every answer of all {len(cut)} probes is out by choice."
    if baseline is not None and new.num_rows:
        compared = evaluate.compare(
            old,
            new,
            metric=settings.metric,
            alpha=settings.alpha,
            margin=settings.margin,
            seed=settings.seed,
            num_resamples=settings.num_resamples,
        )
        document |= compared.to_dict()
    return Result(
        data_version=write_result(lake, version, "decision", document),
        num_rows=len(document.get("rows", ())),
        document=document,
    )


def stage_costs(lake: Lake, version: str, advance: Advance) -> Result:
    """The cost ledger of everything that the lake has made, at the assumed prices."""
    table = ledger.ledger(lake)
    document = {"version": version, "prices": asdict(costs.Prices()), "rows": table.to_pylist()}
    return Result(
        data_version=write_result(lake, version, "stage_costs", document), num_rows=table.num_rows, document=document
    )


def precompute_plan(lake: Lake, version: str, advance: Advance) -> Result:
    """Keep or recompute, for every artifact of the ledger."""
    plan = ledger.plan(lake, reads_per_month=READS_PER_MONTH)
    document = {"version": version, "reads_per_month": READS_PER_MONTH, "rows": plan.to_pylist()}
    counts = Counter(plan.column("decision").to_pylist())
    return Result(
        data_version=write_result(lake, version, "precompute_plan", document),
        num_rows=plan.num_rows,
        counts=dict(counts),
        document=document,
    )


def provenance_chain(lake: Lake, version: str, advance: Advance) -> Result:
    """The chain of tables behind the version, as JSON lines next to its manifest: it outlives the run history."""
    made = lake.versions.read(version)
    path = lake.root / "versions" / "chains" / f"{made.id}.jsonl"
    # what is there already was written from the tables as they were then, and they may have been made again since
    if not path.exists():
        samples = {name: version for name, version in selected_from(lake).items() if name == str(SAMPLES_SLOT)}
        inputs = samples.copy()
        for modality in lake.parts.modalities:
            inputs |= catalog_inputs(lake, modality)
        provenance.export_chain(path, version=made.id, inputs=inputs, tables=lake.tables)
    digest, (_, rows) = digest_of(path.read_bytes()), provenance.read_chain(path)
    document = {
        "version": version,
        "id": made.id,
        "chain": str(path.relative_to(lake.root)),
        "sha256": digest,
        "tables": len(rows),
    }
    write_result(lake, version, "provenance", document)
    return Result(data_version=digest, num_rows=len(rows), size_bytes=path.stat().st_size, document=document)


def baseline_of(lake: Lake, version: str) -> str | None:
    """The version that this one is compared with: the one that its branch was at when it was begun, else the last
    scored one before it, else the newest of everything, else none."""
    base = _begun(lake, version).get("base")
    parents = [name for name, id_ in lake.versions.tags().items() if id_ == base and name != version]
    candidates = (
        [name for name in version_names(lake) if name in parents]
        or earlier_versions(lake, version)
        or (version_names(lake, "everything") if branch_of(version) != "everything" else [])
    )
    # a version whose publishing was interrupted for good has no scores and must not keep later ones from a decision
    scored = [name for name in candidates if result_path(lake, name, "probe_scores").exists()]
    return scored[-1] if scored else None


def _encoders(lake: Lake) -> dict[str, str]:
    found: dict[str, str] = {}
    for modality in lake.parts.modalities:
        table = lake.tables.concat("embeddings", modality, columns=["encoder", "revision"])
        for row in table.group_by(["encoder", "revision"]).aggregate([]).to_pylist():
            found[row["encoder"]] = row["revision"]
    return dict(sorted(found.items()))


def _diversity(lake: Lake, held: list[str]) -> dict[str, Any]:
    settings, digests = lake.settings.evaluate, pa.array(held, pa.string())
    block = {}
    for modality in lake.parts.modalities:
        _, vectors_ND = probe_vectors.corpus_vectors(lake, modality, digests)
        if len(vectors_ND):
            block[modality] = {"encoder": lake.encoder_of(modality)} | evaluate.diversity(
                vectors_ND, seed=settings.seed, num_clusters=settings.num_clusters or None
            ).to_dict()
    return block


def _cut(lake: Lake, version: str) -> list[str]:
    """The probes whose answers the version leaves out by choice; none in versions of older releases."""
    return list(read_result(lake, version, "probe_scores").get("cut_on_purpose", ()))


def _without(scores: pa.Table, probes: Collection[str]) -> pa.Table:
    return scores.filter(pc.invert(pc.is_in(scores["probe_id"], value_set=pa.array(sorted(probes), pa.string()))))


def _scores(lake: Lake, version: str) -> pa.Table:
    import pyarrow.parquet as pq

    path = result_path(lake, version, "probe_scores", "parquet")
    if not path.exists():
        read_result(lake, version, "probe_scores")  # raises with the remedy
        raise RefMissing(f"version {version} has no score table at {path}; materialize its probe_scores again")
    return pq.read_table(path)
