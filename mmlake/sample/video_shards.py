"""The video part of the landing zone: a tar of clips and a folder of talks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mmlake.sample import clips, pictures, sounds
from mmlake.sample.audio_shards import sentences_of
from mmlake.sample.chance import scaled, stream
from mmlake.sample.clips import BACKDROP_PX, FRAME_RATE
from mmlake.sample.ledger import Ledger, Piece
from mmlake.sample.pictures import Gallery
from mmlake.sample.settings import SampleSettings
from mmlake.sample.voices import RATE_HZ, Speech, Utterance

_GRAIN = 2  # less than in pictures: grain that differs per frame is what fills a film's bytes
_SIDECARS = ("srt", "txt", "vtt", None)
_DISGUISES = ("reencode", "resize", "trim", "container")


@dataclass(frozen=True, slots=True)
class _Film:
    frames: list[np.ndarray]
    piece: Piece


def lay_video(
    ledger: Ledger, settings: SampleSettings, gallery: Gallery, *, said: list[Utterance], speeches: list[Speech]
) -> None:
    """Writes landing/video and enters its truth. said, speeches: the narrations, one talk each."""
    ledger.directory("video", "moving-shapes", "CC-BY-4.0", 50)
    ledger.directory("video/talks", "evening-talks", "CC-BY-SA-4.0", 45)
    singles = [_single(ledger, settings, gallery, number) for number in range(scaled(8, settings.scale))]
    tarred = [
        *(film.piece for film in singles),
        *(_cut_together(ledger, settings, gallery, number) for number in range(scaled(4, settings.scale))),
    ]
    talks = [
        _talk(ledger, settings, gallery, number, words, speech)
        for number, (words, speech) in enumerate(zip(said, speeches, strict=True))
    ]
    loose: list[tuple[Piece, str | None]] = []
    for number, (film, sidecar) in enumerate(talks):
        loose.append((film.piece, sidecar))
        if number == 0:
            loose.append((replace(film.piece, caption=None), None))  # an exact copy in the same folder
    tarred.append(singles[0].piece)
    for number in range(max(len(_DISGUISES), scaled(5, settings.scale))):
        piece = _near(ledger, singles[(number + 1) % len(singles)], _DISGUISES[number % len(_DISGUISES)])
        if number % 2:
            loose.append((piece, None))
        else:
            tarred.append(piece)
    tarred.append(_lookalike(ledger, settings, gallery, singles[0]))
    defects = [piece for number in range(scaled(2, settings.scale)) for piece in _defects(settings, gallery, number)]
    for number, piece in enumerate(defects):
        if number % 3 == 0:
            loose.append((piece, None))
        else:
            tarred.append(piece)
    order = stream(settings.seed, "clips tar").permutation(len(tarred))
    samples = [
        replace(tarred[at], licence="CC-BY-NC-4.0" if at % 4 == 1 else "CC0-1.0" if at % 4 == 2 else None)
        for at in order
    ]
    ledger.webdataset("video/clips-000.tar", "video", [(piece, "none") for piece in samples])
    for number, at in enumerate(stream(settings.seed, "talks folder").permutation(len(loose))):
        piece, sidecar = loose[at]
        ledger.loose("video/talks", f"talk-{number:03d}.{piece.extension}", "video", piece, sidecar=sidecar)


def _backdrop(gallery: Gallery) -> np.ndarray:
    return gallery.new(BACKDROP_PX, grain=_GRAIN)[0]


def _single(ledger: Ledger, settings: SampleSettings, gallery: Gallery, number: int) -> _Film:
    rng = stream(settings.seed, "film", number)
    duration_s = float(rng.uniform(4, 6.5))
    frames = clips.shot(_backdrop(gallery), duration_s, rng)
    sound = sounds.melody(len(frames) / FRAME_RATE, rng) if number % 2 else None
    piece = Piece(data=clips.encoded(frames, sound=sound), extension="mp4")
    ledger.shots[piece.digest] = ()
    return _Film(frames, piece)


def _cut_together(ledger: Ledger, settings: SampleSettings, gallery: Gallery, number: int) -> Piece:
    rng = stream(settings.seed, "cuts", number)
    shots = [clips.shot(_backdrop(gallery), float(rng.uniform(1.2, 2.4)), rng) for _ in range(3 + number % 3)]
    frames = [frame for taken in shots for frame in taken]
    piece = Piece(
        data=clips.encoded(frames, sound=sounds.melody(len(frames) / FRAME_RATE, rng) if number % 2 == 0 else None),
        extension="mp4",
    )
    ledger.shots[piece.digest] = clips.cut_times(shots)
    return piece


def _talk(
    ledger: Ledger, settings: SampleSettings, gallery: Gallery, number: int, words: Utterance, speech: Speech
) -> tuple[_Film, str | None]:
    duration_s = np.ceil(len(speech.samples) / RATE_HZ * FRAME_RATE) / FRAME_RATE
    frames = clips.shot(_backdrop(gallery), float(duration_s), stream(settings.seed, "talk", number))
    sound = np.zeros(round(duration_s * RATE_HZ), np.float32)
    sound[: len(speech.samples)] = speech.samples
    extension, sidecar = ("mp4", "mkv")[number % 2], _SIDECARS[number % len(_SIDECARS)]
    text = clips.subtitles(words.sentences, speech.spans_s, sidecar) if sidecar in ("srt", "vtt") else words.text
    piece = Piece(data=clips.encoded(frames, extension=extension, sound=sound), extension=extension, caption=text)
    ledger.shots[piece.digest] = ()
    ledger.sentences[piece.digest] = sentences_of(words, speech)
    return _Film(frames, piece), sidecar


def _near(ledger: Ledger, film: _Film, kind: str) -> Piece:
    if kind == "reencode":
        piece = Piece(data=clips.encoded(film.frames, crf=34), extension="mp4")
    elif kind == "resize":
        piece = Piece(data=clips.encoded(clips.smaller(film.frames, (256, 192)), crf=28), extension="mp4")
    elif kind == "trim":
        piece = Piece(data=clips.encoded(film.frames[8:-4]), extension="mp4")
    else:
        piece = Piece(data=clips.encoded(film.frames, extension="mkv", crf=29), extension="mkv")
    ledger.shots[piece.digest] = ()
    ledger.same("near", "video", kind, (film.piece.digest, piece.digest))
    return piece


def _lookalike(ledger: Ledger, settings: SampleSettings, gallery: Gallery, film: _Film) -> Piece:
    """The same shapes on the same paths, before another picture."""
    rng = stream(settings.seed, "film", 0)
    piece = Piece(data=clips.encoded(clips.shot(_backdrop(gallery), float(rng.uniform(4, 6.5)), rng)), extension="mp4")
    ledger.shots[piece.digest] = ()
    ledger.same("none", "video", "same_movement", (film.piece.digest, piece.digest))
    return piece


def _defects(settings: SampleSettings, gallery: Gallery, number: int) -> list[Piece]:
    rng = stream(settings.seed, "video defect", number)
    frames = clips.shot(_backdrop(gallery), 2.5, rng)
    dark = [rng.integers(0, 3, frames[0].shape).astype(np.uint8) for _ in range(40 + 5 * number)]
    still = np.ascontiguousarray(_backdrop(gallery)[:240, :320])
    soft = [pictures.smoothed(frame, 8.0) for frame in clips.shot(_backdrop(gallery), 2.5, rng)]
    tiny = clips.smaller(clips.shot(_backdrop(gallery), 2.5, rng), (48, 36))
    whole = clips.shot(_backdrop(gallery), 4, rng)
    indexed, unindexed = clips.encoded(whole, crf=24), clips.encoded(frames, index_first=False)
    return [
        _defect(clips.encoded(dark), "black"),
        _defect(clips.encoded([still] * 50), "static"),
        _defect(clips.encoded(frames[: 6 + number]), "too_short"),
        _defect(clips.encoded(soft), "blurred_video"),
        _defect(clips.encoded(tiny, crf=20), "too_small_video"),
        _defect(indexed[: len(indexed) * (50 + 10 * number) // 100], "truncated_mp4", "media_truncated"),
        _defect(unindexed[: len(unindexed) * 2 // 3], "lost_index", "media_truncated"),
        _defect(rng.bytes(12000 + 900 * number), "random_bytes", "undecodable"),
    ]


def _defect(data: bytes, name: str, rule: str | None = None) -> Piece:
    return Piece(data=data, extension="mp4", defect=name, rule=rule or name)
