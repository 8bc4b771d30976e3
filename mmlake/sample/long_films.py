"""Films of minutes: one with known shots, pauses and rests, and one in which short clips lie that also land alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from mmlake.sample import clips, sounds
from mmlake.sample.chance import stream
from mmlake.sample.clips import FRAME_RATE
from mmlake.sample.ledger import Ledger, Piece
from mmlake.sample.pictures import Gallery
from mmlake.sample.scripts import Script
from mmlake.sample.settings import SampleSettings
from mmlake.sample.truth import Excerpt, LongItem
from mmlake.sample.voices import RATE_HZ, in_room

FILMS, EXCERPTS = "video/films", "video/excerpts"
_SIZE_PX, _SMALL_PX, _BACKDROP_PX = (320, 180), (256, 144), (400, 225)
_GRAIN = 2
_CRF, _PRESET = 29, "superfast"
_FADE_S = 1.0
_PAUSES_S = (0.5, 0.9, 0.6, 1.2)
_LEAD_S = 0.6  # from a cut to the first word, and from the last word to the next cut at least
_OVER_CUT_S = 1.3  # of the sentence that runs over a cut, before it
_FIRST_LINES = 7000  # numbers of `spoken` that no short item takes


@dataclass(frozen=True, slots=True)
class _Scene:
    """A shot: uninterrupted, or `faded` at its end, or a rest (`black`, or a picture that stands `still`)."""

    duration_s: float
    kind: str = "take"  # take, faded, black, still
    sound: str = "speech"  # speech, melody, none
    runs_over: bool = False  # whether its last sentence ends in the next scene

    @property
    def num_frames(self) -> int:
        """Of the film."""
        return round(self.duration_s * FRAME_RATE)


_CORE = (
    _Scene(10),
    _Scene(8, runs_over=True),
    _Scene(7.5),
    _Scene(6, "faded"),
    _Scene(6, "black", "none"),
    _Scene(34),
    _Scene(6, "still", "none"),
    _Scene(10),
)
_REST = tuple(_Scene(seconds) for seconds in (11, 17, 6.5, 22, 5, 4.5, 13, 26, 10, 8, 16, 14))  # from half the size on
# No two neighbours fit into 30 s, so that a splitter that joins short shots still gives each its own unit.
_MEDLEY = tuple(
    _Scene(seconds, sound=sound)
    for seconds, sound in ((14, "melody"), (19, "speech"), (15, "melody"), (16, "melody"), (17, "none"), (24, "speech"))
)
_SMALL_MEDLEY = 4  # scenes below half the size
_TRIMMED = (10, 14)  # frames at the beginning and the end
_COPIES = {1: "smaller", 3: "container", 5: "trimmed"}  # scene of the medley -> how its copy differs


def lay_films(ledger: Ledger, settings: SampleSettings, gallery: Gallery) -> None:
    """Writes landing/video/films and landing/video/excerpts, and enters their truth."""
    ledger.directory(FILMS, "town-cinema", "CC-BY-4.0", 15)  # originals before copies
    ledger.directory(EXCERPTS, "clip-board", "CC-BY-4.0", 85)
    is_small = settings.scale < 0.5
    walk = _Film.of(_CORE if is_small else (*_CORE, *_REST), "walk", 0, settings, gallery)
    medley = _Film.of(_MEDLEY[:_SMALL_MEDLEY] if is_small else _MEDLEY, "medley", 1, settings, gallery)
    copied = [(scene, kind) for scene, kind in _COPIES.items() if scene < len(medley.scenes)]
    decoy = gallery.new(_BACKDROP_PX, grain=_GRAIN)[0]
    copies = [partial(medley.copy, scene, kind) for scene, kind in copied]
    makes = (walk.encoded, medley.encoded, *copies, partial(medley.decoy, min(_COPIES), decoy))
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # encoders let other threads work
        walk_data, medley_data, *copies_data, decoy_data = pool.map(lambda make: make(), makes)
    walk.land(ledger, walk_data, "walk", "srt")
    parent = medley.land(ledger, medley_data, "medley", "vtt")
    for number, ((scene, kind), data) in enumerate(zip(copied, copies_data, strict=True)):
        start_s, end_s = medley.copied_s(scene, kind)
        piece = _lay_excerpt(ledger, data, f"excerpt-{number:03d}", _extension(kind))
        ledger.excerpts.append(
            Excerpt(modality="video", kind=kind, digest=piece.digest, parent=parent, start_s=start_s, end_s=end_s)
        )
    piece = _lay_excerpt(ledger, decoy_data, f"excerpt-{len(copied):03d}", "mp4")
    ledger.same("none", "video", "same_movement", (ledger.excerpts[0].digest, piece.digest))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Film:
    scenes: Sequence[_Scene]
    name: str
    seed: int
    backdrops: Sequence[np.ndarray]
    script: Script
    sound: np.ndarray

    @classmethod
    def of(cls, scenes: Sequence[_Scene], name: str, voice: int, settings: SampleSettings, gallery: Gallery) -> _Film:
        script = Script.of_voice(voice, first=_FIRST_LINES + 100 * voice, num_lines=60, seed=settings.seed)
        starts_s = _starts_s(scenes)
        _write(script, scenes, starts_s)
        sound = script.sound(starts_s[-1])
        for at, scene in enumerate(scenes):
            if scene.sound == "melody":
                tune = sounds.melody(scene.duration_s, stream(settings.seed, name, "tune", at))
                begin = round(starts_s[at] * RATE_HZ)
                sound[begin : begin + len(tune)] = tune
        return cls(
            scenes=scenes,
            name=name,
            seed=settings.seed,
            backdrops=[gallery.new(_BACKDROP_PX, grain=_GRAIN)[0] for _ in scenes],
            script=script,
            sound=in_room(sound, stream(settings.seed, name, "room")),
        )

    @property
    def starts_s(self) -> list[float]:
        return _starts_s(self.scenes)

    def shown(self, at: int, backdrop: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """The frames of one scene, the same each time; before another backdrop where one is given."""
        scene, rng = self.scenes[at], stream(self.seed, self.name, "scene", at)
        width, height = _SIZE_PX
        behind = self.backdrops[at] if backdrop is None else backdrop
        if scene.kind == "black":
            return iter([np.zeros((height, width, 3), np.uint8)] * scene.num_frames)
        if scene.kind == "still":
            return iter([np.ascontiguousarray(behind[:height, :width])] * scene.num_frames)
        # On twos, as in drawn films: a picture of its own for every second frame costs half to draw and to encode.
        drawn = clips.take(behind, (scene.num_frames + 1) // 2, rng, size_px=_SIZE_PX)
        frames = islice((frame for frame in drawn for _ in range(2)), scene.num_frames)
        return _faded(frames, scene.num_frames) if scene.kind == "faded" else frames

    def encoded(self) -> bytes:
        """The film."""
        frames = (frame for at in range(len(self.scenes)) for frame in self.shown(at))
        return clips.encoded(frames, sound=self.sound, crf=_CRF, preset=_PRESET)

    def copy(self, scene: int, kind: str) -> bytes:
        """One scene as a clip of its own, changed the way that copies are."""
        start_s, end_s = self.copied_s(scene, kind)
        frames: Sequence[np.ndarray] = list(self.shown(scene))
        if kind == "smaller":
            frames = clips.smaller(frames, _SMALL_PX)
        elif kind == "trimmed":
            frames = frames[_TRIMMED[0] : -_TRIMMED[1]]
        sound = self.sound[round(start_s * RATE_HZ) : round(end_s * RATE_HZ)]
        return clips.encoded(frames, sound=sound, extension=_extension(kind), crf=_CRF + 4, preset=_PRESET)

    def copied_s(self, scene: int, kind: str) -> tuple[float, float]:
        """What of the film the copy of a scene shows."""
        start_s, end_s = self.starts_s[scene], self.starts_s[scene + 1]
        first, last = _TRIMMED if kind == "trimmed" else (0, 0)
        return start_s + first / FRAME_RATE, end_s - last / FRAME_RATE

    def decoy(self, scene: int, backdrop: np.ndarray) -> bytes:
        """The shapes of a scene on the same paths, before another picture."""
        return clips.encoded(self.shown(scene, backdrop), crf=_CRF + 4, preset=_PRESET)

    def land(self, ledger: Ledger, data: bytes, name: str, sidecar: str) -> str:
        """The digest of the film, which now lies in FILMS with its subtitles."""
        duration_s = self.starts_s[-1]
        sentences = self.script.sentences
        text = clips.subtitles(
            [one.text for one in sentences], [(one.start_s, one.end_s) for one in sentences], sidecar
        )
        piece = Piece(data=data, extension="mp4", caption=text)
        ledger.loose(FILMS, f"{name}.mp4", "video", piece, sidecar=sidecar)
        # A fade gives way to the next shot where that shot is first seen, so black is no shot of its own.
        ledger.shots[piece.digest] = tuple(
            round(start_s, 3) for at, start_s in enumerate(self.starts_s[:-1]) if at and self.scenes[at].kind != "black"
        )
        ledger.sentences[piece.digest] = sentences
        spans_s = list(zip(self.starts_s, self.starts_s[1:], strict=False))
        sung = [span for span, scene in zip(spans_s, self.scenes, strict=True) if scene.sound == "melody"]
        ledger.long_items[piece.digest] = LongItem(
            modality="video",
            duration_s=round(duration_s, 3),
            pauses_s=tuple(pause for whole in self.script.pauses_s(duration_s) for pause in _without(whole, sung)),
            rests_s=tuple(
                span for span, scene in zip(spans_s, self.scenes, strict=True) if scene.kind in ("black", "still")
            ),
        )
        return piece.digest


def _starts_s(scenes: Sequence[_Scene]) -> list[float]:
    """Where each scene begins, and the end of the last."""
    borders = np.cumsum([0, *(scene.num_frames for scene in scenes)]) / FRAME_RATE
    return [float(border) for border in borders]


def _write(script: Script, scenes: Sequence[_Scene], starts_s: Sequence[float]) -> None:
    spoken_s = 0.0  # until when the sentence before speaks
    for scene, start_s, end_s in zip(scenes, starts_s, starts_s[1:], strict=False):
        if scene.sound != "speech":
            continue
        begin_s = max(start_s + _LEAD_S, spoken_s + _LEAD_S)
        until_s = end_s - (_OVER_CUT_S + _LEAD_S if scene.runs_over else _LEAD_S)
        spoken_s = script.fill(begin_s, until_s, pauses_s=_PAUSES_S)
        if scene.runs_over:
            spoken_s = script.say(end_s - _OVER_CUT_S)


def _faded(frames: Iterable[np.ndarray], num_frames: int) -> Iterator[np.ndarray]:
    """The frames, of which the last second goes to black."""
    fade = round(_FADE_S * FRAME_RATE)
    for number, frame in enumerate(frames):
        light = min(1.0, (num_frames - 1 - number) / fade)
        yield frame if light == 1 else (frame * light).astype(np.uint8)


def _without(whole: tuple[float, float], taken: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """What is left of the stretch outside the others, which are in order."""
    at, end = whole
    for start, stop in taken:
        if start < end and stop > at:
            if start > at:
                yield (at, round(start, 3))
            at = round(stop, 3)
    if at < end:
        yield (at, end)


def _extension(kind: str) -> str:
    return "mkv" if kind == "container" else "mp4"


def _lay_excerpt(ledger: Ledger, data: bytes, name: str, extension: str) -> Piece:
    """The clip, which now lies in EXCERPTS."""
    piece = Piece(data=data, extension=extension)
    ledger.loose(EXCERPTS, f"{name}.{extension}", "video", piece)
    ledger.shots[piece.digest] = ()
    return piece
