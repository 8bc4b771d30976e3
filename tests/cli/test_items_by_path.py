"""A person who asks about a file names the file, and words that cannot be compared say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mmlake.catalog.catalog import Catalog
from mmlake.cli.app import app
from mmlake.errors import SettingsError


@pytest.fixture
def lake(done) -> Path:
    return Path(done.resource.root)


def why(name: object, lake: Path) -> str:
    result = CliRunner().invoke(app, ["why", str(name), "--lake", str(lake)])
    if isinstance(result.exception, SettingsError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_why_answers_for_a_file_that_landed(own) -> None:
    """It asked for a digest, which nothing but SQL over the catalog could find by a path."""
    lake, landing = Path(own.resource.root), Path(own.lake.landing.location)
    digest = next(iter(own.lake.store.digests()))
    (landing / "photos").mkdir()
    (landing / "photos" / "a.jpg").write_bytes(own.lake.store.read(digest))
    for name in (landing / "photos" / "a.jpg", "photos/a.jpg"):
        assert digest in why(name, lake)


def test_why_says_what_a_file_is_that_is_no_item(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("nothing that landed")
    with pytest.raises(SettingsError, match="are no item of lake .* packed in it"):
        why(tmp_path / "other.txt", lake)
    with pytest.raises(SettingsError, match="is no digest and no file"):
        why(tmp_path / "absent.txt", lake)


def test_a_search_without_vectors_of_words_says_so(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It said nothing but `nothing found`, as on a lake of pictures alone."""
    monkeypatch.setattr(Catalog, "encoders", lambda self: [])
    result = CliRunner().invoke(app, ["search", "xylophone", "--lake", str(lake)])
    assert "nothing found" in result.stdout
    assert "'minilm-l6' of text has no vectors in this lake" in " ".join(result.output.split())
