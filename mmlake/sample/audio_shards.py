"""The audio part of the landing zone: a tar of read sentences and a folder of clips."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmlake.sample import sounds, voices
from mmlake.sample.chance import scaled, stream
from mmlake.sample.ledger import Ledger, Piece
from mmlake.sample.sentences import spoken
from mmlake.sample.settings import SampleSettings
from mmlake.sample.truth import Sentence
from mmlake.sample.voices import RATE_HZ, Speech, Utterance


@dataclass(frozen=True, slots=True)
class _Recording:
    samples: np.ndarray
    piece: Piece


def sentences_of(said: Utterance, speech: Speech) -> tuple[Sentence, ...]:
    """The sentences with their times."""
    return tuple(
        Sentence(text=text, start_s=start, end_s=end)
        for text, (start, end) in zip(said.sentences, speech.spans_s, strict=True)
    )


def lay_audio(ledger: Ledger, settings: SampleSettings, *, said: list[Utterance], speeches: list[Speech]) -> None:
    """Writes landing/audio and enters its truth. said, speeches: what is spoken; the first ones go into the tar."""
    ledger.directory("audio", "read-aloud", "CC-BY-4.0", 40)
    ledger.directory("audio/clips", "sound-clips", "CC0-1.0", 80)
    num_tarred = (2 * len(said) + 2) // 3
    recordings = []
    for number, (words, speech) in enumerate(zip(said, speeches, strict=True)):
        extension = "flac" if number < num_tarred else ("wav", "mp3", "flac")[number % 3]
        piece = Piece(
            data=sounds.encoded(speech.samples, extension),
            extension=extension,
            caption=words.text,
            licence="CC-BY-NC-4.0" if number % 9 == 4 else None,
        )
        ledger.sentences[piece.digest] = sentences_of(words, speech)
        recordings.append(_Recording(speech.samples, piece))
    tunes = []
    for number in range(scaled(13, settings.scale)):
        rng = stream(settings.seed, "melody", number)
        samples = sounds.melody(float(rng.uniform(5.5, 8)), rng)
        extension = ("flac", "mp3", "wav")[number % 3]
        tunes.append(_Recording(samples, Piece(data=sounds.encoded(samples, extension), extension=extension)))
    tarred = [(entry.piece, "txt") for entry in recordings[:num_tarred]]
    loose: list[tuple[Piece, str | None]] = [
        (entry.piece, "txt" if number % 2 == 0 else None) for number, entry in enumerate(recordings[num_tarred:])
    ]
    loose += [(entry.piece, None) for entry in tunes]
    for number in range(scaled(4, settings.scale)):  # exact copies within the folder and from the tar
        source = (tunes, recordings[:num_tarred])[number % 2]
        loose.append((source[number % len(source)].piece, None))
    for number, piece in enumerate(
        [*_near(ledger, settings, [*recordings[:num_tarred], *tunes]), *_defects(settings, recordings)]
    ):
        if number % 4 == 0:
            tarred.append((piece, "none"))
        else:
            loose.append((piece, None))
    order = stream(settings.seed, "speech tar").permutation(len(tarred))
    ledger.webdataset("audio/speech-000.tar", "audio", [tarred[at] for at in order])
    for number, at in enumerate(stream(settings.seed, "clips folder").permutation(len(loose))):
        piece, sidecar = loose[at]
        ledger.loose("audio/clips", f"clip-{number:03d}.{piece.extension}", "audio", _bare(piece), sidecar=sidecar)


def _bare(piece: Piece) -> Piece:
    """The piece under its directory's licence: a loose file cannot say its own."""
    return Piece(
        data=piece.data, extension=piece.extension, caption=piece.caption, defect=piece.defect, rule=piece.rule
    )


def _near(ledger: Ledger, settings: SampleSettings, recordings: list[_Recording]) -> list[Piece]:
    found = []
    for number in range(max(len(sounds.DISGUISES), scaled(14, settings.scale))):
        kind = sounds.DISGUISES[number % len(sounds.DISGUISES)]
        original = recordings[number * 5 % len(recordings)]
        data, extension = sounds.disguised(original.samples, kind, stream(settings.seed, "audio disguise", number))
        found.append(Piece(data=data, extension=extension))
        ledger.same("near", "audio", kind, (original.piece.digest, found[-1].digest))
    return found


def _defects(settings: SampleSettings, recordings: list[_Recording]) -> list[Piece]:
    found = []
    for number in range(scaled(2, settings.scale)):
        rng = stream(settings.seed, "audio defect", number)
        # Words of their own: a defect must not be a near duplicate of a clean recording as well.
        speech = voices.speak(
            [voices.utterance(spoken(5000 + 10 * number + at, settings.seed), 3 * number + at) for at in range(4)],
            settings.seed,
        )
        # From the loudest sample on: a cutting out of a pause would be silent as well.
        loud = speech[0].samples[int(np.abs(speech[0].samples[:-RATE_HZ]).argmax()) :]
        flac, mp3 = sounds.encoded(speech[2].samples, "flac"), sounds.encoded(speech[3].samples, "mp3")
        found += [
            _defect(sounds.encoded(sounds.silence(4.0 + number, rng), "wav"), "wav", "silent"),
            _defect(sounds.encoded(sounds.overdriven(speech[0].samples), "flac"), "flac", "clipped"),
            _defect(sounds.encoded(sounds.drowned(speech[1].samples, rng), "mp3"), "mp3", "noisy"),
            _defect(sounds.encoded(loud[: RATE_HZ * (5 + number % 4) // 100], "wav"), "wav", "too_short_audio"),
            _defect(flac[: len(flac) * (45 + 10 * number) // 100], "flac", "truncated_flac", "media_truncated"),
            _defect(mp3[: len(mp3) // 2], "mp3", "truncated_mp3", "media_truncated"),
            _defect(rng.bytes(9000 + 700 * number), "wav", "random_bytes", "undecodable"),
        ]
    return found


def _defect(data: bytes, extension: str, name: str, rule: str | None = None) -> Piece:
    return Piece(data=data, extension=extension, defect=name, rule=rule or name)
