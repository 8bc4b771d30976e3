"""A recording of minutes with known sentences and silences; one stretch of it also lands alone."""

from __future__ import annotations

from mmlake.sample import clips, sounds
from mmlake.sample.chance import stream
from mmlake.sample.ledger import Ledger, Piece
from mmlake.sample.scripts import Script
from mmlake.sample.settings import SampleSettings
from mmlake.sample.truth import Excerpt, LongItem
from mmlake.sample.voices import RATE_HZ, in_room

READINGS, EXCERPTS = "audio/readings", "audio/excerpts"
_PAUSES_S = (0.4, 0.8, 0.5, 0.9)
_BREATHS_S = (0.12, 0.15)  # pauses of the stretch that has none to cut at
_EDGE_S = 0.3  # of silence around the excerpt
_FIRST_LINES = 7400  # numbers of `spoken` that no other item takes
# (seconds that the speech may take, its pauses, seconds of silence behind it); the second is the excerpt
_CORE = ((24.0, _PAUSES_S, 5.0), (24.0, _PAUSES_S, 8.0), (40.0, _BREATHS_S, 4.0), (16.0, _PAUSES_S, 0.6))
_REST = ((52.0, _PAUSES_S, 6.0), (29.0, _PAUSES_S, 4.5), (61.0, _PAUSES_S, 5.5), (33.0, _PAUSES_S, 0.7))
_EXCERPT = 1  # of the stretches


def lay_readings(ledger: Ledger, settings: SampleSettings) -> None:
    """Writes landing/audio/readings and landing/audio/excerpts, and enters their truth."""
    ledger.directory(READINGS, "long-evenings", "CC-BY-4.0", 15)
    ledger.directory(EXCERPTS, "sound-board", "CC-BY-4.0", 85)
    script = Script.of_voice(2, first=_FIRST_LINES, num_lines=120, seed=settings.seed)
    end_s, spoken, rests = 0.4, [], []
    for room_s, pauses_s, silence_s in (*_CORE, *_REST) if settings.scale >= 0.5 else _CORE:
        start_s = end_s
        said_s = script.fill(start_s, start_s + room_s, pauses_s=pauses_s)
        end_s = round(said_s + silence_s, 3)
        spoken.append((start_s, said_s))
        if silence_s > 2:
            rests.append((round(said_s, 3), end_s))
    sentences = script.sentences
    samples = in_room(script.sound(end_s), stream(settings.seed, "reading", "room"))
    text = clips.subtitles([one.text for one in sentences], [(one.start_s, one.end_s) for one in sentences], "vtt")
    piece = Piece(data=sounds.encoded(samples, "flac"), extension="flac", caption=text)
    ledger.loose(READINGS, "reading-000.flac", "audio", piece, sidecar="vtt")
    ledger.sentences[piece.digest] = sentences
    ledger.long_items[piece.digest] = LongItem(
        modality="audio", duration_s=end_s, pauses_s=script.pauses_s(end_s), rests_s=tuple(rests)
    )
    start_s, end_s = round(spoken[_EXCERPT][0] - _EDGE_S, 3), round(spoken[_EXCERPT][1] + _EDGE_S, 3)
    part = samples[round(start_s * RATE_HZ) : round(end_s * RATE_HZ)] * 0.7
    copy = Piece(data=sounds.encoded(part, "mp3"), extension="mp3")
    ledger.loose(EXCERPTS, "excerpt-000.mp3", "audio", copy)
    ledger.excerpts.append(
        Excerpt(
            modality="audio", kind="transcode", digest=copy.digest, parent=piece.digest, start_s=start_s, end_s=end_s
        )
    )
