"""Frozen probe sets and the probes made from catalog rows."""

from __future__ import annotations

import io

import numpy as np
import pytest

from mmlake.errors import BlobCorrupt, BlobMissing, SettingsError, UnreadableItem
from mmlake.evaluate import Probe, ProbeSet, build_probes, distort_image, distort_samples
from mmlake.evaluate.probes import middle_words
from mmlake.modalities import MODALITIES
from mmlake.records import digest_of

A, B, C = (digest_of(name) for name in (b"a", b"b", b"c"))
STORY = (
    "First comes the opening line. Then a heron stands quite still in the shallow water. Last comes the closing line."
)

ALL = tuple(MODALITIES)


def document(number: int, **fields: object) -> dict[str, object]:
    text = f"Opening words number {number} here. Middle sentence about topic {number} of them. The end."
    return {
        "digest": digest_of(b"doc%d" % number),
        "modality": "text",
        "role": "document",
        "survivor": None,
        "text": text,
        **fields,
    }


def test_a_set_is_named_by_its_content_whatever_the_order_of_its_probes(tmp_path):
    one, two = (
        Probe(id="1", kind="text", modality="text", relevant=(A,), query="q"),
        Probe(id="2", kind="image", modality="image", relevant=(B,), query_digest=B),
    )
    assert ProbeSet((one, two)).digest == ProbeSet((two, one)).digest
    digest = ProbeSet((one, two)).write(tmp_path)
    assert ProbeSet.read(tmp_path, digest) == ProbeSet((two, one))


def test_a_frozen_set_that_was_edited_is_neither_read_nor_overwritten(tmp_path):
    probes = ProbeSet((Probe(id="1", kind="text", modality="text", relevant=(A,), query="q"),))
    path = tmp_path / f"{probes.write(tmp_path)}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"q"', b'"r"'))
    with pytest.raises(BlobCorrupt, match="edited"):
        probes.write(tmp_path)
    assert b'"r"' in path.read_bytes()


def test_an_absent_set_says_what_to_do(tmp_path):
    with pytest.raises(BlobMissing, match="copy its file"):
        ProbeSet.read(tmp_path, A)


@pytest.mark.parametrize(
    "fields",
    [
        {"relevant": ()},
        {"relevant": ("nonsense",)},
        {"kind": "smell"},
        {"query": ""},
        {"query_digest": B},
        {"hard_negatives": ("x",)},
    ],
)
def test_probes_that_cannot_be_scored_are_refused(fields):
    with pytest.raises(SettingsError, match="probe 'p'"):
        ProbeSet((Probe(**{"id": "p", "kind": "text", "modality": "text", "relevant": (A,), "query": "q", **fields}),))


def test_two_probes_may_not_share_an_id():
    probe = Probe(id="p", kind="text", modality="text", relevant=(A,), query="q")
    with pytest.raises(SettingsError, match="twice"):
        ProbeSet((probe, probe))


def test_the_text_query_is_the_shortened_middle_sentence():
    assert middle_words(STORY, num_words=6) == "Then a heron stands quite still"
    assert middle_words("Too short here.", num_words=6) == ""


def test_relevant_is_the_whole_duplicate_cluster():
    rows = [document(1), document(2, survivor=digest_of(b"doc1")), document(3)]
    probes = {probe.relevant for probe in build_probes(rows, modalities=ALL, seed=1, per_modality=10).probes}
    assert probes == {tuple(sorted([digest_of(b"doc1"), digest_of(b"doc2")])), (digest_of(b"doc3"),)}


def test_probes_do_not_depend_on_the_order_of_rows():
    rows = [document(number) for number in range(30)]
    assert (
        build_probes(rows, modalities=ALL, seed=1, per_modality=5).digest
        == build_probes(rows[::-1], modalities=ALL, seed=1, per_modality=5).digest
    )


def test_another_seed_picks_other_probes_and_growth_keeps_most():
    rows = [document(number) for number in range(60)]
    few, other, grown = (
        build_probes(part, modalities=ALL, seed=seed, per_modality=10)
        for part, seed in ((rows[:50], 1), (rows[:50], 2), (rows, 1))
    )
    assert few.digest != other.digest
    assert len(set(few.probes) & set(grown.probes)) >= 6


def test_rows_that_are_not_admitted_and_captions_make_no_probe():
    rows = [document(1, status="quarantined"), document(2, role="caption"), document(3, status="flagged")]
    assert [probe.relevant for probe in build_probes(rows, modalities=ALL, seed=1, per_modality=10).probes] == [
        (digest_of(b"doc3"),)
    ]


def test_documents_with_the_same_middle_make_no_probe():
    rows = [document(1, text=STORY), document(2, text="Other opening. " + STORY[30:]), document(3)]
    assert len(build_probes(rows, modalities=ALL, seed=1, per_modality=10).probes) == 1


def test_media_probes_name_the_item_and_its_distortion():
    rows = [{"digest": A, "modality": "image", "survivor": A}, {"digest": B, "modality": "audio", "survivor": B}]
    image, audio = sorted(
        build_probes(rows, modalities=ALL, seed=1, per_modality=3).probes, key=lambda probe: probe.kind, reverse=True
    )
    assert (image.kind, image.query_digest, image.distortion) == ("image", A, "crop-resize-jpeg")
    assert (audio.kind, audio.query_digest, audio.distortion) == ("audio", B, "trim-gain-noise")


def test_captions_become_queries_only_where_words_can_be_searched():
    rows = [{"digest": A, "modality": "image", "survivor": A, "sample_text": "a heron in shallow water"}]
    assert [probe.kind for probe in build_probes(rows, modalities=ALL, seed=1, per_modality=3).probes] == ["image"]
    words = [
        probe.query
        for probe in build_probes(rows, modalities=ALL, seed=1, per_modality=3, cross_modal=["image"]).probes
        if probe.kind == "text"
    ]
    assert words == ["a heron in shallow water"]


def test_a_distorted_picture_is_smaller_differs_and_repeats_with_its_seed():
    from PIL import Image

    sink = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (80, 120, 3), dtype=np.uint8)).save(sink, format="PNG")
    once, again = (distort_image(sink.getvalue(), np.random.default_rng(4)) for _ in range(2))
    assert once == again
    assert Image.open(io.BytesIO(once)).width < 120


def test_bytes_that_are_no_picture_are_unreadable():
    with pytest.raises(UnreadableItem, match="undecodable"):
        distort_image(b"\x89PNG\r\n\x1a\n rest", np.random.default_rng(0))


def test_distorted_sound_is_trimmed_and_noisy_by_the_stated_ratio():
    tone = 0.1 * np.sin(np.arange(16_000) * 0.05).astype(np.float32)
    degraded = distort_samples(tone, np.random.default_rng(1))
    spectrum = np.abs(np.fft.rfft(degraded * np.hanning(len(degraded)))) ** 2
    peak = int(np.argmax(spectrum))
    signal, total = spectrum[peak - 5 : peak + 6].sum(), spectrum.sum()
    assert 0.7 * len(tone) <= len(degraded) <= 0.9 * len(tone)
    assert 10 * np.log10(signal / (total - signal)) == pytest.approx(20, abs=1)


def test_queries_of_scripts_without_spaces_are_parts_of_a_sentence():
    """They had none: a Chinese text was one word."""
    text = "市议会周二开会讨论旧桥的维修问题。几位居民询问道路将关闭多久。工程将于五月开始，大约需要十一周。"
    assert middle_words(text, num_words=6) == "几位居民询问道路将关闭多"
    assert middle_words(text, num_words=40) == "几位居民询问道路将关闭多久。"
    assert middle_words("旧桥。", num_words=6) == ""
