"""Settings of the preprocess stage: of decoding, of laying transcripts on their sound, of cutting to units."""

from __future__ import annotations

from dataclasses import dataclass

from mmlake.errors import SettingsError
from mmlake.formats.text_encodings import MIN_DAMAGED_FRACTION
from mmlake.media.decoders import MAX_SAMPLE_RATE_HZ, MIN_SAMPLE_RATE_HZ
from mmlake.speech import SILERO, VOICE_DETECTORS

_MAX_UNIT_S = 86_400.0  # a day
ALL, KEYFRAMES = "all", "keyframes"  # `PreprocessSettings.decode`
SOUND_RATE_HZ = 16_000  # of every extracted sound track: what recognizers, aligners and fingerprints expect
WITHOUT_PICTURE_S = 2.0  # of a film, at either end: more is a gap; encoders fill less, and a sentence is longer


@dataclass(frozen=True, kw_only=True, slots=True)
class PreprocessSettings:
    """How items are decoded; every field is plain JSON."""

    max_pixels: int = 64_000_000
    # pixels of one frame; larger than any 61 Mpx camera, and 4 bytes of each fit in 256 MB. A 236 kB PNG of 81 Mpx
    # passes Pillow's own limit and takes 633 MB
    min_sample_rate_hz: int = MIN_SAMPLE_RATE_HZ
    # of the sound; below it a frame of a few bytes grows without bound when it is brought to 16 kHz
    max_sample_rate_hz: int = MAX_SAMPLE_RATE_HZ
    # of the sound; the highest rate that a converter is sold with
    max_decoded_s: float = 28_800.0
    # seconds of sound in one item, gaps included: a working day of recording. Its mono track is 1.8 GB as float32,
    # held whole by measures, fingerprints and encoders where it is not cut to spans; cut, eight hours took 840 MB
    max_frame_samples: int = 16_000_000
    # samples at 16 kHz that one decoded frame of sound may become: 64 MB as float32. The largest block of FLAC, 65,535
    # samples, becomes a million at the lowest rate
    max_frames: int = 1_800_000
    # decoded frames of one film: a working day at 60 frames per second
    max_image_frames: int = 64
    # frames of an animation that are decoded to see that they can be; the rest is only counted
    min_damaged_text_fraction: float = MIN_DAMAGED_FRACTION
    # of the multi-byte sequences in a text, the share that must be valid UTF-8 for it to count as damaged UTF-8 rather
    # than another encoding
    control_noise_fraction: float = 0.001
    # control characters below this share of a text are dropped; above it each becomes U+FFFD, so that the measures see
    # them
    analysis_rate_hz: float = 8.0
    # frames per second that get a signal; motion and black stretches of a quarter second still show
    analysis_side_px: int = 160
    # longer side of the luma plane that signals are measured on: sensor noise averages out, print of a third of the
    # height remains
    decode: str = ALL
    # frames of a film: "all", or "keyframes", and only the groups between keyframes that differ; several times faster,
    # and what only all frames show is null (docs/preprocess.md)
    shot_detector: str = "twin"
    # row of SHOT_DETECTORS (mmlake/preprocess/visual/shot_detectors.py): twin, scenedetect-adaptive,
    # scenedetect-content, transnetv2; all but the first need the extra `shots`
    cut_min_change: float = 6.0
    # grey levels; mean change between two neighbouring frames below which there is no cut (synthetic clips and real
    # clips, docs/preprocess.md)
    cut_change_ratio: float = 3.0
    # change against the upper quartile of the changes within half a second; 3 is also what adaptive detectors use
    cut_max_similarity: float = 0.85
    # correlation, after the best shift, of frames on both sides; shake and light changes stay above it
    flash_s: float = 0.25
    # a picture that comes back within this time was hidden by a flash, not cut
    dissolve_max_s: float = 2.5
    # longest dissolve that is searched for; longer ones are rare and resemble slow pans
    fade_max_contrast: float = 3.0
    # grey levels; standard deviation of a frame that counts as empty (faded out)
    max_keyframes: int = 64
    # per item, so that an hour of fast cutting cannot flood the store; long films have as many more as
    # `keyframe_every_s` asks for
    keyframe_every_s: float = 10.0
    # longest time without a keyframe: the shortest clip that a long film is cut to has one
    keyframe_side_px: int = 512
    # longer side; what image encoders and the blur measure take
    keyframe_displacement: float = 24.0
    # grey levels; mean difference to the last kept frame of the shot that makes one more keyframe
    keyframe_feature: str = "classical"
    # row of KEYFRAME_FEATURES (mmlake/preprocess/visual/keyframe_features.py) that displacement is measured by:
    # classical, or dinov2 with weights from `keyframe_model`
    keyframe_model: str = ""
    # directory of the weights of `keyframe_feature`
    keyframe_distance: float = 0.5
    # displacement by a learned feature that makes one more keyframe; unit vectors are 0 to 2 apart
    keyframe_quality: int = 85
    # JPEG quality
    min_decoded_fraction: float = 0.9
    # of the header's duration; headers round and edit lists trim, so a little less is normal
    max_decode_error_fraction: float = 0.1
    # of packets; a broadcast recording has some, a damaged file many
    max_gap_s: float = 600.0
    # a jump of the sound's time stamps above this is a broken clock, not a gap to be filled with silence
    recognizer: str = "none"
    # row of RECOGNIZERS for items without a transcript; no honest recognizer ships weights, so the default is to have
    # no transcript and say so
    recognizer_model: str = ""
    # directory of the recognizer's weights
    recognizer_device: str = "cpu"
    # "cpu" or "cuda"
    recognizer_language: str = "en"
    # of `whisperx`; the others find it by themselves
    environments: str = ""
    # where `mmlake environments` made them; default: the user's cache
    denoiser: str = "none"
    # row of DENOISERS (mmlake/speech/denoise.py) for what a recognizer is given; the stored sound stays as it is
    denoiser_model: str = ""
    # demucs: folder with the model's .safetensors
    denoise_below_db: float = 10.0
    # signal to noise; cleaner sound is left as it is: a recognizer needs no help with it
    voice_detector: str = SILERO
    # row of VOICE_DETECTORS (mmlake/speech) that finds where somebody speaks; "none" leaves it to levels

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        if self.voice_detector not in VOICE_DETECTORS:
            raise SettingsError(
                f"preprocess.voice_detector={self.voice_detector!r} is not one of {sorted(VOICE_DETECTORS)}; choose "
                "one of them"
            )
        if self.decode not in (ALL, KEYFRAMES):
            raise SettingsError(
                f"preprocess.decode={self.decode!r} is neither {ALL!r} nor {KEYFRAMES!r}; choose one of them"
            )
        for name in (
            "max_pixels",
            "min_sample_rate_hz",
            "max_decoded_s",
            "max_frame_samples",
            "max_frames",
            "max_image_frames",
            "analysis_rate_hz",
            "max_keyframes",
            "keyframe_every_s",
            "keyframe_side_px",
        ):
            if getattr(self, name) <= 0:
                raise SettingsError(f"preprocess.{name}={getattr(self, name)} must be above 0; correct the setting")
        if self.max_sample_rate_hz < self.min_sample_rate_hz:
            raise SettingsError(
                f"preprocess.max_sample_rate_hz={self.max_sample_rate_hz} is below "
                f"min_sample_rate_hz={self.min_sample_rate_hz}, so that no sound is left; correct one of them"
            )
        if self.analysis_side_px < 48:
            raise SettingsError(
                f"preprocess.analysis_side_px={self.analysis_side_px} is below the 48 px that shot boundaries are "
                "found on; set 48 or more"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class AlignSettings:
    """How transcripts are laid on their sound: a section of its own, so that a change decodes nothing again."""

    enabled: bool = True
    # whether transcripts get a confidence and word times
    max_stretch_s: float = 60.0
    # longest stretch aligned at once; longer recordings need cue times (SRT, VTT), which split them
    min_transcript_match: float = 0.5
    # confidence below which a transcript gets no word times (benchmarks/README.md has what passes)
    min_known_fraction: float = 0.7
    # letters in words that the dictionary has; below it a disagreement may be another language (French prose has .6),
    # and is not held against the transcript
    min_judged_phones: int = 8
    # two or three short words; below it agreement and disagreement are chance
    noise_floor: float = 5.0
    # 16-bit steps, standard deviation; on digital silence the aligner's start error grows from 10 ms to half a second
    denoise_below_db: float = 15.0
    # signal to noise below which phones and words are sought in the denoised sound; above it words begin later in it
    seed: int = 0
    # of the noise floor, and of the random orders that agreement is compared with

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        if self.max_stretch_s <= 0:
            raise SettingsError(f"align.max_stretch_s={self.max_stretch_s} must be above 0; correct the setting")
        for name in ("min_transcript_match", "min_known_fraction"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingsError(f"align.{name}={getattr(self, name)} must lie in 0..1; correct the setting")


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitSettings:
    """How long recordings and films are cut to units."""

    whole_up_to_s: float = 30.0
    # items of at most this length are one unit, but for films that stand still for a while; a tenth of a second more is
    # the padding of encoders
    min_span_s: float = 10.0
    # shortest span, where the material allows: a stretch between two gaps may be shorter
    target_span_s: float = 20.0
    # what spans come near to where all borders are equally good
    max_span_s: float = 30.0
    # longest span: what recognizers and video encoders take at once
    max_pause_s: float = 3.0
    # a longer silence of a recording is a gap; speakers think, and turn pages, for less
    gap_margin_s: float = 0.2
    # of a gap that stays with the spans on both sides: breath, and the onset of soft sounds
    max_static_s: float = 5.0
    # a longer stretch of a film that is black or frozen, and silent, is a gap; titles stand for less
    static_change: float = 0.2
    # grey levels between analysed frames; below it the picture is frozen. Sensor noise has .3 and more, as each cell of
    # the analysis averages it
    black_luma: float = 20.0
    # mean grey level of a black picture, as the rule `black` has it
    black_luma_std: float = 10.0
    # standard deviation over a black picture, as the rule `black` has it
    min_kept_s: float = 1.0
    # what is left between two gaps and is shorter is a gap as well
    silence_above_noise_db: float = 6.0
    # of the recording's own noise floor; below it there is nothing but noise
    silence_below_loud_db: float = 35.0
    # below the recording's own loud parts; the softest sounds of speech are 30 dB below its vowels

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        for name in ("whole_up_to_s", "min_span_s", "max_span_s", "max_pause_s", "max_static_s"):
            if not 0 < getattr(self, name) <= _MAX_UNIT_S:
                raise SettingsError(
                    f"units.{name}={getattr(self, name)} s must lie above 0 and up to {_MAX_UNIT_S:g}; correct the "
                    "setting"
                )
        if not self.min_span_s <= self.target_span_s <= self.max_span_s or self.max_span_s < 2 * self.min_span_s:
            raise SettingsError(
                f"units.min_span_s={self.min_span_s}, target_span_s={self.target_span_s} and "
                f"max_span_s={self.max_span_s} must grow in this order, the last at least twice the first, so that "
                "every stretch can be cut; correct them"
            )
        if not 0 <= 2 * self.gap_margin_s < min(self.max_pause_s, self.max_static_s):
            raise SettingsError(
                f"units.gap_margin_s={self.gap_margin_s} must be at least 0 and below half of max_pause_s and "
                "max_static_s, so that gaps are left; correct the setting"
            )
        for name in ("min_kept_s", "static_change", "silence_above_noise_db", "silence_below_loud_db"):
            if getattr(self, name) < 0:
                raise SettingsError(f"units.{name}={getattr(self, name)} must be at least 0; correct the setting")
