"""Eval sets: what of them is found in a lake, and that no published version holds it."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from PIL import Image

from mmlake import item_provenance, pipeline, publish
from mmlake.errors import ContractBroken, SettingsError
from mmlake.evaluate import Probe, ProbeSet
from mmlake.lake import Lake
from mmlake.publish.dry_run import dry_run
from mmlake.publish.version import publish_version
from mmlake.records import digest_of
from mmlake.settings import Settings
from mmlake.steps import CORPUS_STEPS, run_step
from mmlake.tables import Slot
from tests import make
from tests.damages import wrong

CLEAN = 'name = "clean"\nwhere = "NOT contaminated"\n'
# texts of random words are all alike to a sentence encoder; the other tiers are what is asked here
APART = {"semantic_bounds": {"minilm-l6": 0.99}}


def contamination(lake: Lake, modality: str = "text") -> list[dict]:
    return lake.tables.read(Slot("contamination", modality)).to_pylist()


def found(lake: Lake, modality: str = "text") -> set[tuple[str, str, str]]:
    """(sample of the corpus, sample of the eval set, relation)."""
    items = lake.tables.concat("items", modality, columns=["digest", "sample_id"]).to_pylist()
    names = {row["digest"]: row["sample_id"] for row in items}
    return {(names[row["digest"]], row["eval_key"], row["relation"]) for row in contamination(lake, modality)}


def bench(site, files: dict[str, bytes], **more) -> dict:
    """The sections of settings that name an eval set of these files."""
    folder = make.land(site.zone.parent / "bench", files)
    return {"decontaminate": {"sets": [f"bench={folder}"], **more}, "dedup": APART}


def encoded(data: bytes, **options) -> bytes:
    sink = io.BytesIO()
    Image.open(io.BytesIO(data)).convert("RGB").save(sink, **options)
    return sink.getvalue()


def cropped(data: bytes) -> bytes:
    sink, picture = io.BytesIO(), Image.open(io.BytesIO(data))
    picture.crop((10, 8, picture.width - 10, picture.height - 8)).save(sink, "PNG")
    return sink.getvalue()


def filmed(*films: bytes, crf: int = 30) -> bytes:
    """The films, one after the other, encoded again."""
    sink = io.BytesIO()
    with av.open(sink, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=12, options={"crf": str(crf), "threads": "1"})
        stream.width, stream.height, stream.pix_fmt = 96, 72, "yuv420p"
        for film in films:
            with av.open(io.BytesIO(film)) as source:
                for frame in source.decode(video=0):
                    again = av.VideoFrame.from_ndarray(frame.to_ndarray(format="rgb24"), format="rgb24")
                    container.mux(stream.encode(again))
        container.mux(stream.encode(None))
    return sink.getvalue()


def recorded(*sounds: bytes, gain: float = 0.7, kind: str = "FLAC") -> bytes:
    """The sounds, one after the other, in another format."""
    parts = [soundfile.read(io.BytesIO(sound), dtype="float32") for sound in sounds]
    sink = io.BytesIO()
    soundfile.write(sink, gain * np.concatenate([samples for samples, _ in parts]), parts[0][1], format=kind)
    return sink.getvalue()


def test_copies_edits_and_containers_are_found_in_all_four_modalities(tmp_path: Path):
    """And nothing else is, by the tiers that need no model."""
    question, picture = make.prose(50, words=30), make.picture(1, width=192, height=144)
    film, sound = make.film(1, seconds=4.0), make.sound(1, seconds=8.0)
    other_film, other_sound = make.film(2, seconds=4.0), make.sound(2, seconds=8.0)
    holder = f"{make.prose(3, words=60)} {question} {make.prose(4, words=60)}"
    zone = {
        "text/a.jsonl": make.jsonl([question, f"{question} Indeed.", holder, make.prose(5, words=80)]),
        "image/same.png": picture,
        "image/edited.jpg": encoded(picture, format="JPEG", quality=40),
        "image/cropped.png": cropped(picture),
        "image/other.png": make.picture(2, width=192, height=144),
        "video/same.mp4": film,
        "video/edited.mp4": filmed(film, crf=34),
        "video/holder.mp4": filmed(other_film, film),
        "video/other.mp4": other_film,
        "audio/same.wav": sound,
        "audio/edited.flac": recorded(sound),
        "audio/holder.flac": recorded(other_sound, sound),
        "audio/other.wav": other_sound,
    }
    evals = {"q.jsonl": make.jsonl([question]), "p.png": picture, "f.mp4": film, "s.wav": sound}
    landing, folder = make.land(tmp_path / "landing", zone), make.land(tmp_path / "bench", evals)
    settings = Settings.of({"decontaminate": {"sets": [f"bench={folder}"]}})
    lake = Lake(tmp_path / "lake", landing=landing, settings=settings)
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    rows = {
        modality: {
            (Path(name).stem, row["tier"], row["relation"])
            for row in contamination(lake, modality)
            if row["tier"] != "semantic"
            for name in [_sample(lake, modality, row["digest"])]
        }
        for modality in lake.parts.modalities
    }
    assert rows["text"] == {("d0", "exact", "same"), ("d1", "near", "same"), ("d2", "near", "holds")}
    for modality in ("image", "video", "audio"):
        assert {("same", "exact", "same"), ("edited", "near", "same")} <= rows[modality], modality
        assert "other" not in {name for name, _, _ in rows[modality]}
    assert ("cropped", "near", "same") in rows["image"]
    spans = {
        modality: [row for row in contamination(lake, modality) if row["relation"] == "holds"]
        for modality in ("video", "audio")
    }
    for modality, holders in spans.items():
        assert [_sample(lake, modality, row["digest"]).rpartition("/")[2].partition(".")[0] for row in holders] == [
            "holder"
        ]
        assert holders[0]["start_s"] == pytest.approx(4.0 if modality == "video" else 8.0, abs=0.6)


def _sample(lake: Lake, modality: str, digest: str) -> str:
    items = lake.tables.concat("items", modality, columns=["digest", "sample_id"]).to_pylist()
    return next(row["sample_id"] for row in items if row["digest"] == digest)


def test_without_eval_sets_the_table_is_empty_and_nothing_is_made(site):
    site.tables()
    assert contamination(site.lake()) == []
    assert not (site.root / "decontaminate").exists()
    assert site.lake().tables.stamp(Slot("contamination", "text")).num_rows == 0


def test_a_version_that_holds_an_eval_unit_stays_a_draft_and_the_units_are_named(site):
    sections = bench(site, {"q.jsonl": make.jsonl([make.prose(1)])})
    with pytest.raises(
        ContractBroken,
        match=r"curated-v001 stays a draft .*the check decontamination: 1 unit of the version is in an eval set: "
        r"[0-9a-f]{16} is the same as q\.jsonl/d0 of bench \(exact.*`where = \"NOT contaminated\"`",
    ):
        site.publish(**sections)
    assert site.lake(**sections).versions.is_draft("curated-v001")
    assert "curated" not in site.lake().versions.branches()


def test_a_recipe_leaves_contaminated_units_out_and_says_of_which_set_they_are(site):
    sections = bench(site, {"q.jsonl": make.jsonl([make.prose(1)])})
    path = site.root / "recipes" / "clean.toml"
    path.parent.mkdir(parents=True)
    path.write_text(CLEAN)
    lake = site.catalogued(**sections)
    request = publish.wanted(lake, str(path))
    name, _ = publish.needs_version(lake, "clean", request.recipe)
    publish.ask_for(lake, name, request)
    publish_version(lake, name)
    assert lake.versions.branches()["clean"] == lake.versions.resolve(name)
    (row,) = contamination(lake)
    excluded = {one["digest"]: one["cause"] for one in lake.versions.excluded(name).to_pylist()}
    assert excluded[row["digest"]] == "contaminated:bench"
    assert dry_run(lake, request.recipe).causes["contaminated:bench"] == 1
    story = item_provenance.story_of(lake, row["digest"])
    assert [one.cause for one in story.versions] == ["contaminated:bench"]
    assert "the same as q.jsonl/d0 of bench (exact, sha256 1.00)" in {step.said for step in story.steps}


@pytest.mark.parametrize(
    "where", ["NOT contaminated", "(modality = 'image' AND NOT contaminated) AND num_words IS NULL"]
)
def test_a_caption_that_an_eval_set_holds_leaves_its_picture(site, where: str):
    """Words next to a picture are in the set by themselves, an edited copy of them, too; another picture keeps its own.
    What else a condition asks is asked of what leads."""
    question = make.prose(6, words=60)
    for at, said in enumerate((question, f"{question} Indeed.", make.prose(8, words=40))):
        files = {f"image/{at}.png": make.picture(at, width=96, height=96), f"image/{at}.txt": said.encode()}
        make.land(site.zone, files)
    sections = bench(site, {"q.jsonl": make.jsonl([question])})
    path = site.root / "recipes" / "clean.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f'name = "clean"\nwhere = "{where}"\n')
    lake = site.catalogued(**sections)
    assert found(lake) == {("image/0", "q.jsonl/d0", "same"), ("image/1", "q.jsonl/d0", "same")}
    assert found(lake, "image") == set()
    with pytest.raises(ContractBroken, match="2 units of the version are in an eval set"):
        site.publish(**sections)
    name = site.publish("clean", **sections)
    parts = {row["lead"]: [part["role"] for part in row["parts"]] for row in lake.versions.samples(name).to_pylist()}
    kept = [parts[digest_of(make.picture(at, width=96, height=96))] for at in range(3)]
    assert kept == [["media"], ["media"], ["media", "caption"]]
    excluded = {one["digest"]: one["cause"] for one in lake.versions.excluded(name).to_pylist()}
    assert {excluded[row["digest"]] for row in contamination(lake)} == {"contaminated:bench"}


def test_captions_have_fingerprints_where_there_is_an_eval_set_of_texts(site):
    """And none else: of pictures nothing is made again for it."""
    make.land(site.zone, {"image/0.png": make.picture(0), "image/0.txt": make.prose(6, words=60).encode()})
    said = digest_of(make.prose(6, words=60).encode())
    site.tables()
    stamps = {name: site.lake().tables.stamp(Slot("fingerprints", name, "image")) for name in ("text", "image")}
    assert said not in site.lake().tables.concat("fingerprints", "text")["digest"].to_pylist()
    site.tables(**bench(site, {"q.jsonl": make.jsonl([make.prose(1)])}))
    lake = site.lake()
    assert said in lake.tables.concat("fingerprints", "text")["digest"].to_pylist()
    assert lake.tables.stamp(Slot("fingerprints", "image", "image")) == stamps["image"]


def test_an_eval_set_is_made_once_and_again_when_its_files_change(site):
    sections = bench(site, {"q.jsonl": make.jsonl([make.prose(1)])})
    site.tables(**sections)
    side = site.root / "decontaminate" / "bench" / "text" / "tables" / "items" / "text"
    made = {path: path.stat().st_mtime_ns for path in side.rglob("*")}
    assert made
    site.land("text/b.jsonl", [make.prose(9, words=60)])
    site.tables(**sections)
    assert {path: path.stat().st_mtime_ns for path in side.rglob("*")} == made
    assert found(site.lake()) == {("text/a.jsonl/d0", "q.jsonl/d0", "same")}
    bench(site, {"q.jsonl": make.jsonl(["Something else.", make.prose(2)]), "r.jsonl": make.jsonl([make.prose(1)])})
    assert site.tables(**sections) == 3  # films and recordings too, whose transcripts are compared with the set
    assert found(site.lake()) == {
        ("text/a.jsonl/d0", "r.jsonl/d0", "same"),
        ("text/a.jsonl/d1", "q.jsonl/d1", "same"),
    }
    (site.zone.parent / "bench" / "r.jsonl").unlink()
    site.tables(**sections)
    assert found(site.lake()) == {("text/a.jsonl/d1", "q.jsonl/d1", "same")}
    assert site.tables(**sections) == 0


def test_a_version_is_not_published_by_a_comparison_with_other_files(site):
    sections = bench(site, {"q.jsonl": make.jsonl([make.prose(7)])})
    assert site.publish(**sections) == "curated-v001"
    bench(site, {"q.jsonl": make.jsonl([make.prose(8)])})
    with pytest.raises(ContractBroken, match="text/contamination was not made of the eval sets as they are now"):
        publish_version(site.lake(**sections), "curated-v001")


def test_a_damaged_file_of_an_eval_set_is_a_row_of_its_small_lake(site):
    """What else the set has is compared all the same."""
    broken = {"cut.tar": make.tar({"0.txt": b"x" * 900})[:700], "bad.jsonl": b"{not json\n", "pic.png": b"\x89PNG\r\n"}
    sections = bench(site, {"q.jsonl": make.jsonl([make.prose(1)]), **broken})
    site.tables(**sections)
    assert found(site.lake()) == {("text/a.jsonl/d0", "q.jsonl/d0", "same")}
    side = Lake(site.root / "decontaminate" / "bench" / "text", landing=site.zone.parent / "bench")
    assert "unreadable" in side.tables.concat("items", "text", columns=["status"])["status"].to_pylist()


def test_a_version_of_the_lake_may_be_the_eval_set(site):
    """Its own units are in it, and so is what holds them."""
    site.publish()
    site.land("text/b.jsonl", [f"{make.prose(7, words=60)} {make.prose(1)} {make.prose(8, words=60)}"])
    sections = {"decontaminate": {"sets": ["held=version:curated-v001"]}, "dedup": APART}
    site.tables(**sections)
    lake = site.lake(**sections)
    samples = {row["lead"]: row["sample"] for row in lake.versions.samples("curated-v001").to_pylist()}
    first = next(row["eval_key"] for row in contamination(lake) if row["relation"] == "holds")
    assert first in samples.values()
    assert {row["relation"] for row in contamination(lake)} == {"same", "holds"}
    assert {row["digest"] for row in contamination(lake) if row["tier"] == "exact"} == set(samples)


def test_frozen_probes_may_be_the_eval_set_but_for_what_they_ask_for(site):
    """A page that quotes the words of a probe is in it, its right answer and the answer's copy are not. A rendition is
    asked for by its item."""
    question, copied = make.prose(6, words=40), f"{make.prose(1)} Indeed."
    pictures = {f"image/{at}.png": make.picture(at, width=96, height=96) for at in (1, 2)}
    make.land(site.zone, pictures)
    site.land("text/b.jsonl", [copied, f"{make.prose(7, words=60)} {question} {make.prose(8, words=60)}"])
    site.tables()
    lake = site.lake()
    first, second = (digest_of(data) for data in pictures.values())
    asked = (
        Probe(id="a", kind="text", modality="text", relevant=(digest_of(make.prose(1).encode()),), query=make.prose(1)),
        Probe(id="b", kind="text", modality="text", relevant=(digest_of(make.prose(2).encode()),), query=question),
        Probe(id="c", kind="image", modality="image", relevant=(first,), query_digest=first, distortion="crop"),
        Probe(id="d", kind="image", modality="image", relevant=(first,), query_digest=second, distortion="crop"),
    )
    publish.pin_probes(lake, ProbeSet(asked))
    for place in ("pinned", ProbeSet(asked).digest):
        sections = {"decontaminate": {"sets": [f"asked=probes:{place}"]}, "dedup": APART}
        site.tables(**sections)
        lake = site.lake(**sections)
        assert found(lake) == {("text/b.jsonl/d1", "b", "holds")}
        assert found(lake, "image") == {("image/2", "d", "same")}
    made = site.root / "decontaminate" / "asked" / "text" / "tables"
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*.parquet")}
    run_step(CORPUS_STEPS["contamination"], site.lake(**sections), "text", force=True)
    assert before and {path: path.stat().st_mtime_ns for path in made.rglob("*.parquet")} == before, "made once"
    publish.pin_probes(lake, ProbeSet(asked[:1]))
    sections["decontaminate"] = {"sets": ["asked=probes:pinned"]}
    assert site.tables(**sections), "other probes are another eval set"
    assert found(site.lake(**sections)) == set()
    assert wrong(site.lake(**sections), "eval-sets") == []


def test_probes_are_an_eval_set_once_there_are_some(site):
    with pytest.raises(SettingsError, match=r"of the frozen probes, and lake .* has none yet; .*mmlake probes --pin"):
        site.tables(decontaminate={"sets": ["asked=probes:pinned"]})
    with pytest.raises(SettingsError, match="to be of the probes 'newest'; expected `pinned`, or the digest"):
        site.lake(decontaminate={"sets": ["asked=probes:newest"]})


def test_modalities_that_are_not_chosen_are_not_compared(site):
    sections = bench(site, {"q.jsonl": make.jsonl([make.prose(1)])}, modalities=["image"])
    site.tables(**sections)
    assert contamination(site.lake()) == []
    assert not (site.root / "decontaminate" / "bench" / "text").exists()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("/nowhere/at/all", "eval set 'bench' is to be read from /nowhere/at/all, where there is no folder"),
        ("version:curated-v009", "eval set 'bench' is version 'curated-v009', which lake .* does not have"),
    ],
)
def test_an_eval_set_that_is_not_there_is_refused(site, place, message):
    with pytest.raises(SettingsError, match=message):
        site.tables(decontaminate={"sets": [f"bench={place}"]})


def test_an_empty_eval_set_is_refused(site, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SettingsError, match="holds nothing that can be read"):
        site.tables(decontaminate={"sets": [f"bench={tmp_path / 'empty'}"]})


def test_an_unknown_modality_is_refused(site):
    with pytest.raises(SettingsError, match=r"decontaminate.modalities names \['smell'\]"):
        site.lake(decontaminate={"modalities": ["smell"]})


def test_an_interrupted_small_lake_is_finished_by_the_next_run(site):
    sections = bench(site, {"q.jsonl": make.jsonl([make.prose(1)])})
    site.tables(**sections)
    side = site.root / "decontaminate" / "bench" / "text"
    shutil.rmtree(side / "tables" / "fingerprints")
    run_step(CORPUS_STEPS["contamination"], site.lake(**sections), "text", force=True)
    assert (side / "tables" / "fingerprints").exists()
    assert found(site.lake()) == {("text/a.jsonl/d0", "q.jsonl/d0", "same")}
