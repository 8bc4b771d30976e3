"""The HTML report: self-contained, safe against hostile data, within its size, and true to its data."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from mmlake.drawing import end_of, shown
from mmlake.report import (
    Example,
    ModalityRows,
    ReportData,
    ReportSettings,
    RuleCount,
    TrackExample,
    project,
    thumbnail,
    waveform_peaks,
    write_report,
)
from mmlake.report import svg as svg_module
from mmlake.report.media import Budget, media_type
from mmlake.report.pairs import marked
from mmlake.report.render import render_report

sys.path.insert(0, str(Path(__file__).parent))
from demo_report import (
    HIDDEN,
    HOSTILE,
    clip,
    demo,
    image,
    pairs,
    picture,
    tone,
)  # next to this file; the test folders are no packages


class Page(HTMLParser):
    """What a browser would make of the file: its tags with attributes, and the text in each script and style."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.code: dict[str, list[str]] = {"script": [], "style": []}
        self.words: list[str] = []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag if tag in self.code else ""

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        (self.code[self._inside] if self._inside else self.words).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(demo(), path)
    return path.read_text(encoding="utf-8")


def test_hostile_text_is_shown_and_never_run(html):
    page = Page(html)
    assert len(page.code["script"]) == 1
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert not [attributes for attributes in page.all("img") if attributes["src"] == "x"]
    assert "alert('x')" in "".join(page.words)
    assert shown(HOSTILE) in {attributes.get("data-tip", "").partition(" · ")[0] for attributes in page.all("circle")}


def test_control_and_bidirectional_characters_are_spelled_out(html):
    """Titles, names and texts of the demo end with each of them."""
    assert not [each for each in HIDDEN if each in html]
    words = "".join(Page(html).words)
    assert all(each.encode("unicode_escape").decode() in words for each in HIDDEN)


def test_data_is_never_read_as_a_template(html):
    assert "{{7*7}}" in html
    assert "onerror=alert(1)&gt;49" not in html


def test_nothing_is_fetched(html):
    page = Page(html)
    sources = [
        value
        for _, attributes in page.tags
        for name, value in attributes.items()
        if name in ("src", "href", "poster", "srcset", "data", "action", "xlink:href")
    ]
    assert all(value.startswith(("data:", "#")) for value in sources)
    assert "url(" not in html
    assert "@import" not in html


def test_the_policy_allows_just_our_style_and_script(html):
    page = Page(html)
    policy = next(
        attributes["content"]
        for attributes in page.all("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    for name in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256("".join(page.code[name]).encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert not [attributes for _, attributes in page.tags if "style" in attributes]  # the policy would drop them


def test_every_link_of_the_contents_has_its_place(html):
    page = Page(html)
    targets = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    links = [attributes["href"].removeprefix("#") for attributes in page.all("a")]
    assert len(links) == 10
    assert set(links) <= targets


def test_media_are_embedded_and_described(html):
    page = Page(html)
    assert all(
        attributes["src"].startswith("data:image/jpeg;base64,") and "alt" in attributes
        for attributes in page.all("img")
    )
    assert {attributes["src"].partition(";")[0] for attributes in page.all("audio")} == {"data:audio/wav"}
    assert all(attributes.get("aria-label") or attributes.get("aria-hidden") for attributes in page.all("svg"))


def test_the_same_data_gives_the_same_file(tmp_path):
    first, second = (write_report(demo(), tmp_path / name) for name in ("a.html", "b.html"))
    assert first.path.read_bytes() == second.path.read_bytes()


def test_an_empty_report_is_a_report(tmp_path):
    written = write_report(ReportData(title="nothing yet"), tmp_path / "report.html")
    assert "nothing yet" in written.path.read_text()
    assert written.left_out == {}


def test_a_lone_surrogate_in_a_file_name_does_not_lose_the_report(tmp_path):
    data = ReportData(samples=[Example(digest="a" * 64, modality="text", title="bad\udcff.txt", text="words")])
    assert "words" in write_report(data, tmp_path / "report.html").path.read_text()


@pytest.mark.parametrize("max_bytes", [150_000, 600_000])
def test_the_file_keeps_to_its_size_and_counts_what_it_left_out(tmp_path, max_bytes):
    rng = np.random.default_rng(0)
    data = demo(400)
    data.samples += [
        Example(digest=f"{i:064x}", modality="video", keyframes=[b"\xff\xd8\xff" + rng.bytes(20_000) for _ in range(4)])
        for i in range(12)
    ]
    written = write_report(data, tmp_path / "report.html", settings=ReportSettings(max_bytes=max_bytes))
    assert written.size_bytes <= max_bytes
    assert written.left_out["image too large for the report"] > 0
    assert "Left out to keep this file small" in written.path.read_text()


def test_a_long_sound_is_left_out_and_counted(tmp_path):
    data, _ = tone(20)
    given = ReportData(samples=[Example(digest="a" * 64, modality="audio", audio=data, peaks=[0.5])])
    written = write_report(given, tmp_path / "report.html", settings=ReportSettings(max_audio_bytes=len(data) - 1))
    assert written.left_out == {"audio too large for the report": 1}
    assert (
        write_report(given, tmp_path / "report.html", settings=ReportSettings(max_audio_bytes=len(data))).left_out == {}
    )


@pytest.mark.parametrize(
    "data", [b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", b"<html>", b"", b"GIF", b"\x00" * 40]
)
def test_bytes_that_are_no_known_medium_are_never_embedded(data):
    budget = Budget(10_000)
    assert media_type(data) is None
    assert budget.uri(data, kinds=("image",)) is None


def test_a_sound_given_as_a_picture_is_not_embedded():
    assert Budget(10**6).uri(tone(0.1)[0], kinds=("image",)) is None


def test_the_headline_adds_up(tmp_path):
    rows = [
        ModalityRows(modality="text", num_rows=10, ok=6, flagged=1, quarantined=2, unreadable=1),
        ModalityRows(modality="image", num_rows=1200, ok=1200),
    ]
    words = " ".join(Page(write_report(ReportData(rows=rows), tmp_path / "report.html").path.read_text()).words)
    assert re.search(r"units in\s+1,210", words)
    assert re.search(r"admitted\s+1,207\s+99.8 % of units", words)


def test_rules_are_ranked_and_say_how_many_examples_are_missing(tmp_path):
    rules = [
        RuleCount(rule="seldom", modality="image", severity="P2", count=1),
        RuleCount(rule="often", modality="image", severity="P1", count=9, examples=[image(i) for i in range(4)]),
    ]
    text = write_report(
        ReportData(rules=rules), tmp_path / "report.html", settings=ReportSettings(max_examples_per_rule=3)
    ).path.read_text()
    assert text.index("often") < text.index("seldom")
    assert "3 of 9 shown" in text


def test_the_survivor_is_shown_even_where_a_cluster_is_cut(tmp_path):
    from mmlake.report import DuplicateCluster

    members = [image(i, tier="near", score=0.9) for i in range(5)] + [image(9, survivor=True)]
    data = ReportData(clusters=[DuplicateCluster(tier="near", modality="image", members=members)])
    text = write_report(data, tmp_path / "report.html", settings=ReportSettings(max_members=2)).path.read_text()
    assert text.count("<figure") == 2
    assert "photo-0009.jpg" in text


def test_pairs_next_to_a_bound_are_side_by_side_with_their_score_and_common_part(tmp_path):
    text = write_report(ReportData(pairs=pairs()), tmp_path / "report.html").path.read_text()
    assert text.count('class="pair"') == 8 and text.count("<figure") == 16
    assert text.index("0.7312") < text.index("0.6954") and "bound 0.7" in text
    assert "0.5–4.0 s of the left" in text and "1.0–4.5 s of the right" in text
    assert text.count("<audio") == 4


def test_words_that_the_other_text_lacks_are_marked_and_everything_is_escaped():
    left, right = marked("the boat lay <b>low</b> at dawn", "the boat lay high at dawn & sank")
    assert str(left) == "the boat lay <mark>&lt;b&gt;low&lt;/b&gt;</mark> at dawn"
    assert str(right) == "the boat lay <mark>high</mark> at dawn <mark>&amp; sank</mark>"


def test_an_excerpt_begins_shortly_before_the_first_difference():
    words = [f"w{place}" for place in range(900)]
    left, right = marked(" ".join(words), " ".join([*words[:600], "new", *words[601:]]))
    assert left.startswith("… w588 w589") and "<mark>w600</mark>" in left and left.endswith("…")
    assert "<mark>new</mark>" in right and len(right.split()) < 120
    assert [str(one) for one in marked("same words", "same words")] == ["same words"] * 2


def test_films_of_pairs_never_cost_the_pictures_of_later_pairs():
    """All thumbnails come first, players take what is left."""
    film = b"\0\0\0\x18ftypisom" + bytes(300_000)
    first, second = pairs()[-2:]
    for pair in (first, second):
        pair.left = clip(1)
        pair.left.video = film
    html, left_out = render_report(
        ReportData(pairs=[first, second]), settings=ReportSettings(max_bytes=400_000 + 700_000)
    )
    assert html.count("keyframe 6") == 4
    assert html.count("<video") + left_out.get("video too large for the report", 0) == 2
    assert left_out["video too large for the report"]


def test_a_large_cluster_says_why_its_survivor_stays_and_lists_who_is_furthest(tmp_path):
    from mmlake.report import ClusterMember, DuplicateCluster

    furthest = [ClusterMember(digest="d" * 64, title="copy.jpg", score=0.91, reason="lossless over lossy: yes over no")]
    cluster = DuplicateCluster(
        tier="near", modality="image", members=[image(1, survivor=True)], size=41, radius=0.09, furthest=furthest,
        reasons=[("lossless over lossy", 40)],
    )  # fmt: skip
    text = write_report(ReportData(clusters=[cluster]), tmp_path / "report.html").path.read_text()
    assert "radius 0.0900" in text and "lossless over lossy (40 of 40)" in text
    assert "Members furthest from the survivor" in text and "0.9100" in text and "yes over no" in text


def test_bar_lengths_are_in_proportion_to_their_values():
    drawn = str(svg_module.bars([svg_module.Bar("a", 10, "10"), svg_module.Bar("b", 5, "5")], title="t", unit="items"))
    assert re.findall(r'width="([\d.]+)%" height="9"', drawn) == ["100.00", "50.00"]


@pytest.mark.parametrize(
    ("largest", "expected"), [(10, [0, 2.5, 5, 7.5, 10]), (7, [0, 2, 4, 6, 8]), (0, [0, 1]), (0.3, [0, 0.1, 0.2, 0.3])]
)
def test_axis_marks_are_round_and_cover_the_data(largest, expected):
    assert svg_module.ticks(largest) == pytest.approx(expected)


def test_svg_attributes_and_text_are_escaped():
    assert (
        str(svg_module.tag("text", {"data_tip": '"<&'}, "</text><script>"))
        == '<text data-tip="&#34;&lt;&amp;">&lt;/text&gt;&lt;script&gt;</text>'
    )


def test_projection_keeps_the_widest_two_directions():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((200, 3)) * [1.0, 10.0, 4.0]
    points, shown = project(vectors)
    assert shown == pytest.approx((100 + 16) / 117, abs=0.02)
    assert abs(np.corrcoef(np.array(points)[:, 0], vectors[:, 1])[0, 1]) > 0.99
    assert np.abs(points).max() == pytest.approx(1.0)


@pytest.mark.parametrize("vectors", [np.empty((0, 4)), np.ones((1, 4)), np.ones((5, 4)), np.arange(4.0).reshape(4, 1)])
def test_projection_of_few_or_equal_vectors_has_no_nan(vectors):
    points, shown = project(vectors)
    assert len(points) == len(vectors)
    assert np.isfinite(points).all()
    assert np.isfinite(shown)


def test_peaks_are_the_largest_magnitude_of_each_stretch():
    assert waveform_peaks(np.array([0.1, -0.5, 0.2, 0.0]), num_bins=2) == [0.5, 0.2]
    assert waveform_peaks(np.array([])) == []


def test_thumbnails_are_small_and_upright_and_refuse_what_is_no_picture():
    import io

    from PIL import Image

    sink = io.BytesIO()
    turned = Image.open(io.BytesIO(picture(1)))
    exif = turned.getexif()
    exif[0x0112] = 6  # the camera was turned: shown, the picture is higher than wide
    turned.save(sink, format="JPEG", exif=exif)
    small = Image.open(io.BytesIO(thumbnail(sink.getvalue(), max_side_px=100) or b""))
    assert (small.height, small.width) == (100, 75)
    assert thumbnail(b"no picture") is None


@pytest.mark.browser
def test_a_browser_opens_it_from_disk_without_a_complaint(tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    write_report(demo(), tmp_path / "report.html")
    command = [
        browser,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}/profile",
        "--enable-logging=stderr",
        "--v=0",
        "--dump-dom",
        f"file://{tmp_path}/report.html",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 'id="tip"' in done.stdout  # our script ran
    assert "CONSOLE" not in done.stderr


def test_a_clip_lies_on_one_axis_with_everything_that_has_a_time() -> None:
    hostile = "<script>alert(1)</script>"
    clip_on_tracks = TrackExample(
        key="k" * 64,
        shard="video-000001",
        place="whole film",
        duration_s=8.0,
        video=b"\0\0\0\x18ftypmp42",
        keyframes=[(time_s, thumbnail(picture(1)) or b"") for time_s in (0.0, 0.1, 4.0)],
        shots=[
            {"start_s": 0.0, "end_s": 4.0, "transition": "start"},
            {"start_s": 4.0, "end_s": 8.0, "transition": "dissolve"},
        ],
        peaks=[0.1, 0.9, 0.4],
        words=[{"start_s": 2.0, "end_s": 2.5, "text": hostile}],
        spans={"speech": [{"start_s": 1.0, "end_s": 3.0, "text": ""}], "subtitles": []},
    )
    html, _ = render_report(ReportData(tracks=[clip_on_tracks]), settings=ReportSettings())
    page = Page(html)
    assert hostile not in html and any(hostile in words for words in page.words)
    bars = [attributes for name, attributes in page.tags if name == "rect"]
    shots = [(bar["x"], bar["width"]) for bar in bars if "shot" in str(bar["class"])]
    assert shots == [("0.000%", "50.000%"), ("50.000%", "50.000%")]
    assert [(bar["x"], bar["width"]) for bar in bars if bar["class"] == "band-ok"] == [("12.500%", "25.000%")]
    assert [bar["x"] for bar in bars if hostile in str(bar.get("data-tip"))] == ["25.000%"]
    pictures = [attributes["x"] for name, attributes in page.tags if name == "image"]
    assert pictures == ["0.000%", "50.000%"]  # the second has no room next to the first, and a tick alone
    (axis,) = [attributes for name, attributes in page.tags if name == "svg" and attributes.get("class") == "tracks"]
    assert (axis["data-length"], axis["data-start"]) == ("8.000", "0.000")
    assert [name for name, attributes in page.tags if name == "video" and attributes.get("src")] == ["video"]


def test_units_least_like_the_others_are_shown_next_to_their_map(html):
    """Three of each map: how far they are, and what they are."""
    assert html.count("Least like the others") == 3
    assert html.count("median cosine distance to the nearest unit") == 3
    for distance in ("0.500, ", "0.600, ", "0.700, "):
        assert html.count(distance) >= 3
    assert "mmlake outliers --modality image" in html


@pytest.mark.parametrize(
    ("title", "end"), [("a/b/c/d", "c/d"), ("d", "d"), ("a/b/c once upon/a time", "b/c once upon/a time"), ("", "")]
)
def test_of_a_title_the_end_of_its_path_is_shown(title, end):
    assert end_of(title) == end
