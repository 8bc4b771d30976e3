"""What a user may set about duplicates. Bounds are similarities in 0..1 unless the name carries a unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

INDEXES = ("auto", "flat", "cells", "ivf-flat", "ivf-pq", "hnsw", "scann")
# what fingerprints depend on; all other settings steer which of them make a pair
FINGERPRINT_SETTINGS = ("dedup.text_shingle_words", "dedup.video_step_s")


@dataclass(frozen=True, kw_only=True, slots=True)
class DedupSettings:
    """How alike two items must be to count as one. JSON-able."""

    seed: int = 20_261_101
    # of k-means and of recall samples; any value serves
    text_jaccard: float = 0.7
    # exact Jaccard of word 5-gram shingles; ten planted plagiarisms among 1,000 articles score .96 or more, every other
    # pair is estimated below .2 (docs/dedup.md)
    text_revision_match: float = 0.77
    # words of the shorter text with a counterpart in the other; every seventh word replaced leaves .83 or more
    text_shingle_words: int = 5
    # words per shingle; shorter texts are one shingle
    image_radius_bits: int = 8
    # of 64 pHash bits, of a picture and of the part of another that it may show: what the radius finds is compared in
    # detail, so it decides on recall and cost alone
    image_correlation: float = 0.93
    # of the detail of two aligned thumbnails; copies reach .95 and more, pages of one template .88, other photographs
    # .70 (docs/dedup.md)
    image_luma_correlation: float = 0.85
    # of 8x8 luma of video frames
    video_step_s: float = 0.125
    # seconds between sampled frames; two cuts of one clip are then at most a sixteenth of a second out of step
    video_frame_bits: int = 10
    # of 64 pHash bits per aligned frame
    video_match: float = 0.75
    # both the share of aligned frames that match and the correlation of what moves; clips of one signer before one wall
    # reach .59, re-encodes stay above .85
    audio_evidence: float = 6.5
    # that two recordings share a part, in standard deviations of a correlation (mmlake.dedup.audio.align). Unrelated
    # recordings of mixed kinds reach 2.7 among 2,000 pairs, sentences by one synthetic voice 5.1 among 8,000; larger
    # corpora were not measured
    audio_brief_evidence: float = 8.0
    # the same by band signs alone, whose words lie closer together; sentences by one synthetic voice reach 7.4
    min_coverage_fraction: float = 0.7
    # of the shorter of two recordings that the aligned part must cover
    semantic_bounds: Mapping[str, float] = field(default_factory=dict)
    # encoder -> smallest cosine that counts, in place of the one in its row (`Encoder.duplicate_cosine`)
    semantic_shared_fraction: float = 0.125
    # of the shorter text's 5-grams; 22 planted paraphrases share at most .19 (all but one under .12), pages of one
    # template mostly more than .2
    index: str = "auto"
    # auto: what `index_choice.choose_index` says of number, dimension, memory and recall. scann needs its extra
    index_memory_bytes: int = 64_000_000_000
    # that the vectors of one modality may take: 41 million of 384 numbers
    index_recall: float = 0.99
    # share of the units with a duplicate that must be found; above .999 every search is exact
    flat_max_items: int = 5_000
    # where blocked brute force and cells cost the same
    num_neighbours: int = 32
    # candidates per vector that the ivf, hnsw and scann indexes give to the exact check
