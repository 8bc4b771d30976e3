"""One lake on the four demo corpora, each where its publisher or a mirror has it: the hub, a bucket, a directory of
files and one of archives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_server import NAME, TOKEN, Hub
from typer.testing import CliRunner

from mmlake.cli.app import app
from mmlake.item_provenance import story_of
from mmlake.lake import Lake
from mmlake.pipeline import refresh
from mmlake.remote import s3
from mmlake.steps import ROW_STEPS, run_step
from tests import make
from tests.remote.servers import s3_server
from tests.sources.corpora.builders import (
    coco,
    finevideo,
    finevideo_record,
    fineweb,
    fineweb_record,
    librispeech,
    packed,
)

CARD = b"---\nlicense: %s\n---\n"
BUCKET = "corpora"


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The name of a bucket that the environment leads to."""
    pytest.importorskip("moto")
    names = {
        "AWS_ACCESS_KEY_ID": "AKIARECOGNIZABLE0002",
        "AWS_SECRET_ACCESS_KEY": "recognizable",
        "AWS_DEFAULT_REGION": "us-east-1",
        "NO_PROXY": "127.0.0.1",
    }
    with pytest.MonkeyPatch.context() as patch, s3_server(*list(names.values())[:2]) as endpoint:
        for name, value in (
            *names.items(),
            ("AWS_CONFIG_FILE", "/dev/null"),
            ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
            ("MMLAKE_S3_ENDPOINT", endpoint),
        ):
            patch.setenv(name, value)
        client = s3.new_client()
        client.create_bucket(Bucket=BUCKET)
        for key, data in librispeech({"84-121123": ["GO DO YOU HEAR", "BUT IN LESS"]}).items():
            client.put_object(Bucket=BUCKET, Key=f"mirror/{key}", Body=data)
        client.put_object(
            Bucket=BUCKET, Key="mirror/_source.json", Body=b'{"source": "LibriSpeech", "licence": "CC-BY-4.0"}'
        )
        yield BUCKET
        client.close()


@pytest.fixture
def places(hub: Hub, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Where the corpora are, by the names that the lake shall have them under."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.commit(
        {
            "README.md": CARD % b"odc-by",
            "sample/10BT/000_00000.parquet": fineweb([fineweb_record(number) for number in range(5)]),
        }
    )
    gated = hub.sibling("acme/finevideo")
    gated.gated = True
    talk = finevideo(
        [
            (make.film(number), finevideo_record(number, [("00:00:00.100", "00:00:00.500", "Hello.")]))
            for number in range(2)
        ]
    )
    gated.commit({"README.md": CARD % b"cc-by-4.0", "data/train-00000-of-01357.parquet": talk})
    make.land(tmp_path, coco())
    other = librispeech({"174-50561": ["FORGOTTEN TOO"]}, subset="dev-other")
    make.land(tmp_path / "archives", {"dev-other.tar.gz": packed(other, compress=True)})
    return {
        "fineweb": f"hf://datasets/{NAME}", "finevideo": "hf://datasets/acme/finevideo", "coco": str(tmp_path / "coco"),
        "librispeech": f"s3://{bucket}/mirror", "more-speech": str(tmp_path / "archives"),
    }  # fmt: skip


def test_one_lake_holds_four_modalities_with_the_licence_and_the_pin_of_each(
    hub: Hub, places: dict[str, str], tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "lake", landing=places)
    lake.pin_landing()
    refresh(lake)
    found: dict[str, set[tuple[str, str, str]]] = {}
    for modality in ("text", "image", "video", "audio"):
        for key in lake.registry.keys(modality):
            run_step(ROW_STEPS["items"], lake, modality, key)
        rows = lake.tables.concat("items", modality).to_pylist()
        assert {row["status"] for row in rows} <= {"ok"}
        found[modality] = {
            (json.loads(row["source_ref"])["path"].split("/")[0], row["source"], row["licence"]) for row in rows
        }
    assert {("fineweb", NAME, "ODC-By-1.0")} <= found["text"]
    assert found["image"] == {("coco", "coco", "CC-BY-2.0")}
    assert found["video"] == {("finevideo", "acme/finevideo", "CC-BY-4.0")}
    assert found["audio"] == {
        ("librispeech", "LibriSpeech", "CC-BY-4.0"),
        ("more-speech", "more-speech", "NOASSERTION"),
    }
    commits = {"fineweb": hub.refs["main"], "finevideo": hub.others[0].refs["main"]}
    zones = Lake(lake.root).origin()["zones"]
    assert {name: zone["revision"] for name, zone in zones.items() if "revision" in zone} == commits
    digest = lake.tables.concat("items", "video").column("digest").to_pylist()[0]
    assert (
        f"finevideo: hf://datasets/acme/finevideo@{commits['finevideo']}" in story_of(Lake(lake.root), digest).to_text()
    )
    written = b"".join(path.read_bytes() for path in lake.root.rglob("*") if path.is_file())
    assert TOKEN.encode() not in written and b"recognizable" not in written


def test_the_command_line_scans_them_and_a_limit_counts_in_each(places: dict[str, str]) -> None:
    given = [word for name, place in places.items() for word in ("--landing", f"{name}={place}")]
    result = CliRunner().invoke(app, ["scan", *given, "--limit", "2", "--json"])
    assert result.exit_code == 0, result.output
    assert {shard["key"].split("/")[0] for shard in json.loads(result.stdout)} == set(places)


def test_rows_of_all_are_written_without_a_lake(places: dict[str, str], tmp_path: Path) -> None:
    given = [word for name in ("coco", "fineweb") for word in ("--landing", f"{name}={places[name]}")]
    result = CliRunner().invoke(app, ["rows", *given, "--out", str(tmp_path / "rows"), "--json"])
    assert result.exit_code == 0, result.output
    about = json.loads((tmp_path / "rows" / "_provenance.json").read_text())
    assert set(about["writes"][0]["from"]["landing"]["zones"]) == {"coco", "fineweb"}
