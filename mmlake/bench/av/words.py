"""Part `words` of `mmlake bench av`: transcripts against gold, before and after correction; what answers of models can
do to lines and times; when words of a known text begin."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmlake.bench.av.rows import AvRow, Part, Run
from mmlake.captions import CaptionSettings
from mmlake.captions.correction import Line, by_glossary, corrected, questions
from mmlake.captions.error_rates import error_rates
from mmlake.errors import SettingsError, UnreadableItem
from mmlake.preprocess import AlignSettings
from mmlake.preprocess.transcripts.align import Aligner
from mmlake.preprocess.transcripts.subtitles import Cue, parse_cues
from mmlake.sample import voices
from mmlake.speech.vad import silero

_NAME = "words"
# what a recognizer writes for a term that it does not know -> the term
_TERMS = {
    "cooper netties": "Kubernetes",
    "pie torch": "PyTorch",
    "dagger stir": "Dagster",
    "ark hive": "archive",
    "sequel light": "SQLite",
    "lance dee bee": "LanceDB",
}
_WORDS = (
    "window river garden yellow market seven doctor paper silver mountain kitchen winter follow dinner summer letter "
    "orange bridge picture teacher morning shoulder village carpet butter engine"
).split()
_RATE_HZ = voices.RATE_HZ  # 16 kHz, as tracks have it
_HYPOTHESES = (".hyp.txt", ".srt", ".vtt")


def generated(run: Run) -> Iterator[AvRow]:
    """Misheard terms and a glossary; answers of a hostile server; words at known places."""
    rng = np.random.default_rng(run.seed)
    yield from _glossary(run, rng)
    yield from _hostile(run, rng)
    yield from _starts(run, rng)


def labelled(folder: Path, run: Run) -> Iterator[AvRow]:
    """The transcripts of a folder against its gold."""
    pairs: list[tuple[str, str]] = []
    for path in sorted(folder.glob("*.txt")):
        name = path.name.removesuffix(".txt")
        found = next((one for ending in _HYPOTHESES if (one := folder / f"{name}{ending}").is_file()), None)
        if found is not None and not path.name.endswith(".hyp.txt") and len(pairs) < run.limit:
            pairs.append((_text(path), _text(found)))
            run.advance(1)
    if not pairs:
        raise SettingsError(f"{folder} has no NAME.txt with a NAME.hyp.txt, NAME.srt or NAME.vtt next to it; add them")
    yield from _rates("labelled", pairs, floor="")


def _text(path: Path) -> str:
    return " ".join(cue.text for cue in parse_cues(path.read_text(encoding="utf-8", errors="replace")))


def _rates(case: str, pairs: Sequence[tuple[str, str]], *, floor: str) -> Iterator[AvRow]:
    rates = error_rates([right for right, _ in pairs], [text for _, text in pairs])
    yield AvRow(_NAME, case, "word error rate", rates.wer, floor, rates.num_words)
    yield AvRow(_NAME, case, "character error rate", rates.cer, floor, rates.num_words)


def _lines(rng: np.random.Generator) -> tuple[list[Line], str]:
    """(lines of subtitles with misheard terms, what was said)."""
    lines, said, at_s = [], [], 0.0
    for _ in range(8):
        words = list(rng.choice(_WORDS, 6))
        misheard = str(rng.choice(list(_TERMS)))
        where = int(rng.integers(7))
        lasts_s = float(rng.uniform(1, 4))
        lines.append(Line(" ".join([*words[:where], misheard, *words[where:]]), at_s, at_s + lasts_s))
        said.append(" ".join([*words[:where], _TERMS[misheard], *words[where:]]))
        at_s += lasts_s
    return lines, " ".join(said)


def _glossary(run: Run, rng: np.random.Generator) -> Iterator[AvRow]:
    before, after, moved = [], [], 0
    for _ in range(run.limit):
        lines, said = _lines(rng)
        found = by_glossary(lines, _TERMS)
        moved += _timing(found) != _timing(lines)
        before.append((said, " ".join(line.text for line in found)))
        after.append((said, " ".join(line.final for line in found)))
        run.advance(1)
    yield from _rates("misheard terms, as they came", before, floor="")
    yield from _rates("misheard terms, by a glossary", after, floor="<= 0")
    yield AvRow(
        _NAME, "misheard terms, by a glossary", "transcripts with another time", float(moved), "<= 0", run.limit
    )


def _hostile(run: Run, rng: np.random.Generator) -> Iterator[AvRow]:
    """What becomes of lines and times under answers that try to change them."""
    settings, num, changed, refused = CaptionSettings(), 50 * run.limit, 0, 0
    for _ in range(num):
        lines, _ = _lines(rng)
        answers = [_attack(lines, rng) for _ in questions(lines, settings)]
        try:
            found, refusals = corrected(lines, answers, settings)
        except UnreadableItem:
            found, refusals = lines, ["the whole answer"]
        refused += bool(refusals)
        changed += _timing(found) != _timing(lines) or [line.text for line in found] != [line.text for line in lines]
    run.advance(run.limit)
    yield AvRow(_NAME, "hostile answers", "transcripts with another line or time", float(changed), "<= 0", num)
    yield AvRow(_NAME, "hostile answers", "fraction refused, in part or whole", refused / num, "", num)


def _attack(lines: Sequence[Line], rng: np.random.Generator) -> str:
    """An answer that moves, drops, adds or rewrites lines, or is none."""
    number = int(rng.integers(-1, len(lines) + 3))
    change: dict[str, Any] = {"number": number, "text": lines[(number - 1) % len(lines)].text + "."}
    kind = int(rng.integers(7))
    if kind == 0:
        change |= {"start_s": 0.0, "end_s": 99.0, "time": "00:00:00,000 --> 00:01:39,000"}
    elif kind == 1:
        change["text"] = f"00:00:09,000 --> 00:00:10,000\n{change['text']}"
    elif kind == 2:
        change["text"] = ""
    elif kind == 3:
        change["text"] = " ".join(rng.choice(_WORDS, 40))
    elif kind == 4:
        return json.dumps({"lines": [change, change]})
    elif kind == 5:
        return json.dumps({"lines": [change]})[: int(rng.integers(1, 30))]
    return json.dumps({"lines": [change], "cues": [], "times": [0, 1]})


def _timing(lines: Sequence[Line]) -> list[tuple[float | None, float | None]]:
    return [(line.start_s, line.end_s) for line in lines]


def _starts(run: Run, rng: np.random.Generator) -> Iterator[AvRow]:
    """How far from where they were put words are found."""
    is_spoken = voices.engine() == "espeak-ng"
    note = "words spoken one by one, 50-150 ms apart" if is_spoken else "espeakng-loader is not installed"
    spoken = [_said(number, rng) for number in range(run.limit)] if is_spoken else []
    aligner = Aligner(AlignSettings())
    for case, snr_db, floors in (("clean", None, ("<= 30", "<= 150")), ("10 dB", 10.0, ("", "<= 250"))):
        errors_ms: list[float] = []
        num_unplaced = 0
        for samples, words, starts_s in spoken:
            flac = _flac(samples, snr_db, rng)
            found = aligner.align(flac, [Cue(" ".join(words))], silero(io.BytesIO(flac))).words
            if len(found) != len(words):
                num_unplaced += 1
                continue
            found_s = np.array([word["start_s"] for word in found], np.float64)
            errors_ms += (1000 * np.abs(found_s - np.array(starts_s))).tolist()
        run.advance(run.limit)
        where = f"word starts, {case}"
        median, late = np.percentile(errors_ms, [50, 95]).tolist() if errors_ms else (None, None)
        yield AvRow(_NAME, where, "median error in ms", median, floors[0], len(errors_ms), note)
        yield AvRow(_NAME, where, "95th percentile in ms", late, floors[1], len(errors_ms), note)
        yield AvRow(_NAME, where, "texts without word times", float(num_unplaced), "", len(spoken), note)


def _said(number: int, rng: np.random.Generator) -> tuple[np.ndarray, list[str], list[float]]:
    """(sound, its words, where each begins in seconds)."""
    words = [str(word) for word in rng.choice(_WORDS, 10, replace=False)]
    (parts,) = voices.speak_parts([voices.utterance(tuple(words), number)], seed=number)
    placed, starts_s, length = [np.zeros(_RATE_HZ // 2, np.float32)], [], _RATE_HZ // 2
    for part in parts:
        pause = np.zeros(int(rng.uniform(0.05, 0.15) * _RATE_HZ), np.float32)
        starts_s.append(length / _RATE_HZ)
        placed += [part.astype(np.float32), pause]
        length += len(part) + len(pause)
    return voices.in_room(np.concatenate([*placed, placed[0]]), rng), words, starts_s


def _flac(samples: np.ndarray, snr_db: float | None, rng: np.random.Generator) -> bytes:
    import soundfile

    if snr_db is not None:
        loudness = float(np.sqrt(np.mean(samples[np.abs(samples) > 0.01] ** 2)))
        samples = samples + rng.normal(0, loudness / 10 ** (snr_db / 20), len(samples)).astype(np.float32)
        samples = samples * (0.9 / max(1.0, float(np.abs(samples).max())))
    soundfile.write(sink := io.BytesIO(), samples, _RATE_HZ, format="FLAC", subtype="PCM_16")
    return sink.getvalue()


PART = Part(
    name=_NAME,
    what="words and characters of transcripts, and when words begin",
    generated=generated,
    labelled=labelled,
    truth="NAME.txt with what is said, and NAME.hyp.txt, .srt or .vtt with what a recognizer wrote",
)
