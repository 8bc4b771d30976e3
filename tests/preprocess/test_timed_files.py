"""Texts with times that recognizers, aligners and people who annotate write: their words, each at its time."""

from __future__ import annotations

import random

import pytest

from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.text import text_track
from mmlake.preprocess.transcripts.subtitles import parse_cues

SAID = [("he began", 0.1, 1.6), ("against the wizard", 1.6, 3.1), ('who "vanished" left', 3.2, 64.8)]


def cues(text: str) -> list[tuple[str, float | None, float | None]]:
    return [
        (cue.text, *(None if one is None else round(one, 3) for one in (cue.start_s, cue.end_s)))
        for cue in parse_cues(text)
    ]


def grid(*tiers: tuple[str, str, list[tuple]], is_short: bool = False) -> str:
    """A TextGrid as Praat writes it."""
    head = 'File type = "ooTextFile"\nObject class = "TextGrid"\n\n'
    out = [head, "0\n70\n<exists>\n" if is_short else "xmin = 0 \nxmax = 70 \ntiers? <exists> \n"]
    out.append(f"{len(tiers)}\n" if is_short else f"size = {len(tiers)} \nitem []: \n")
    for at, (kind, name, rows) in enumerate(tiers, 1):
        of = "intervals" if kind == "IntervalTier" else "points"
        if is_short:
            out.append(f'"{kind}"\n"{name}"\n0\n70\n{len(rows)}\n')
        else:
            out.append(f'    item [{at}]:\n        class = "{kind}" \n        name = "{name}" \n')
            out.append(f"        xmin = 0 \n        xmax = 70 \n        {of}: size = {len(rows)} \n")
        for number, (words, *times) in enumerate(rows, 1):
            label = words.replace('"', '""')
            if is_short:
                out.append("".join(f"{time}\n" for time in times) + f'"{label}"\n')
            else:
                names = ("xmin", "xmax") if kind == "IntervalTier" else ("number",)
                out.append(f"        {of} [{number}]:\n")
                out += [f"            {key} = {time} \n" for key, time in zip(names, times, strict=True)]
                out.append(f'            text = "{label}" \n')
    return "".join(out)


def clock(time_s: float, mark: str = ".", digits: int = 3) -> str:
    return f"{int(time_s // 3600):02d}:{int(time_s // 60) % 60:02d}:{time_s % 60:0{3 + digits}.{digits}f}".replace(
        ".", mark
    )


def ttml(lines: str, attributes: str = "") -> str:
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<tt xmlns="http://www.w3.org/ns/ttml" '
        f'xmlns:ttp="http://www.w3.org/ns/ttml#parameter" {attributes}><head/><body><div>{lines}</div></body></tt>'
    )


def elan(*tiers: tuple[str, str, list[tuple[str, float, float]]]) -> str:
    slots, made, number = [], [], 0
    for name, given, rows in tiers:
        inner = []
        for words, start_s, end_s in rows:
            for time_s in (start_s, end_s):
                number += 1
                slots.append(f'<TIME_SLOT TIME_SLOT_ID="ts{number}" TIME_VALUE="{round(time_s * 1000)}"/>')
            inner.append(
                f'<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a{number}" TIME_SLOT_REF1="ts{number - 1}" '
                f'TIME_SLOT_REF2="ts{number}"><ANNOTATION_VALUE>{words}</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION>'
                "</ANNOTATION>"
            )
        made.append(f'<TIER TIER_ID="{name}" {given}>{"".join(inner)}</TIER>')
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<ANNOTATION_DOCUMENT VERSION="3.0"><TIME_ORDER>{"".join(slots)}'
        f"</TIME_ORDER>{''.join(made)}</ANNOTATION_DOCUMENT>"
    )


FORMS = {
    "TextGrid": grid(("IntervalTier", "Anna", [("", 0, 0.1), *SAID, ("sil", 64.8, 70)])),
    "TextGrid, short": grid(("IntervalTier", "Anna", SAID), is_short=True),
    "Whisper's table": "start\tend\ttext\n" + "".join(f"{a * 1000:.0f}\t{b * 1000:.0f}\t{w}\n" for w, a, b in SAID),
    "Audacity's labels": "".join(f"{a:.6f}\t{b:.6f}\t{w}\n\\\t100.0\t2000.0\n" for w, a, b in SAID),
    "STM": ";; words\n" + "".join(f"talk 1 Anna_A {a:.2f} {b:.2f} <o,f0,female> {w}\n" for w, a, b in SAID),
    "SubStation": "[Script Info]\nTitle: x\n\n[Events]\nFormat: Layer, Start, End, Style, Text\n"
    + "".join(
        f"Dialogue: 0,{clock(a, digits=2)[1:]},{clock(b, digits=2)[1:]},Default,{{\\i1}}{w}\n" for w, a, b in SAID
    )
    + "Dialogue: 0,0:00:01.00,0:00:02.00,Default,{\\p1}m 0 0 l 9 9{\\p0}\n"
    + "Comment: 0,0:00:01.00,0:00:02.00,Default,no\n",
    "TTML": ttml("".join(f'<p begin="{clock(a)}" end="{clock(b)}"><span>{w}</span></p>' for w, a, b in SAID)),
    "TTML, ticks": ttml(
        "".join(f'<p begin="{a * 1e7:.0f}t" dur="{(b - a) * 1e7:.0f}t">{w}</p>' for w, a, b in SAID),
        'ttp:tickRate="10000000"',
    ),
    "TTML, frames": ttml(
        "".join(f'<p begin="{clock(a)[:8]}:{a % 1 * 10:02.0f}" end="{b:.1f}s">{w}</p>' for w, a, b in SAID),
        'ttp:frameRate="10"',
    ),
    "SBV": "".join(f"{clock(a)[1:]},{clock(b)[1:]}\n{w}\n\n" for w, a, b in SAID),
    "ELAN": elan(("Anna", "", SAID), ("gloss", 'PARENT_REF="Anna"', [("PRON begin", 0.1, 1.6)])),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_words_have_the_times_that_the_file_gives_them(form: str, newline: str) -> None:
    text = FORMS[form].replace("\n", newline)
    assert cues(text) == SAID
    assert cues("\ufeff" + text) == SAID


@pytest.mark.parametrize("form", FORMS)
def test_what_breaks_off_is_read_as_far_as_it_goes(form: str) -> None:
    text = FORMS[form]
    for share in (0.3, 0.6, 0.8, 0.95):
        found = cues(text[: int(share * len(text))])
        assert found[:-1] == SAID[: max(0, len(found) - 1)] or found[0][1] is None


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        (["words", "phones"], "he began"),
        (["phones", "Anna - phones", "Anna - words"], "he began"),
        (["MAU", "ORT-MAU", "KAN-MAU"], "he began"),
        (["utterance", "words"], "he BEGAN,"),
        (["phones"], ""),
        (["Anna", "gloss"], "he BEGAN,"),
    ],
)
def test_of_several_tiers_the_spoken_words_count(tiers: list[str], expected: str) -> None:
    """Utterances before words, words before phones, and of two layers that lie over each other the longer one."""
    words = [("he", 0.1, 0.5), ("<p:>", 0.5, 0.6), ("began", 0.6, 1.6)]
    phones = [("h", 0.1, 0.2), ("i:", 0.2, 0.5), ("b", 0.6, 0.8), ("n", 0.8, 1.6)]
    said = {"utterance": [("he BEGAN,", 0.1, 1.6)], "Anna": [("he BEGAN,", 0.1, 1.6)], "gloss": [("er", 0.1, 1.5)]}
    rows = [said.get(name, words if "ord" in name or "ORT" in name else phones) for name in tiers]
    found = cues(grid(*(("IntervalTier", name, row) for name, row in zip(tiers, rows, strict=True))))
    assert " ".join(words for words, _, _ in found) == expected


def test_words_that_are_labels_elsewhere_are_words() -> None:
    said = ["the", "silence", "<usb>", "of", "USB", "[noise]", "h#", "H", "sil"]
    text = grid(("IntervalTier", "words", [(word, at, at + 1) for at, word in enumerate(said)]))
    assert [word for word, _, _ in cues(text)] == ["the", "silence", "of", "USB", "H"]


def test_two_speakers_take_turns_and_points_are_no_words() -> None:
    text = grid(
        ("IntervalTier", "Anna", [("good morning", 0, 2), ("yes", 4, 5)]),
        ("TextTier", "clicks", [("click", 1)]),
        ("IntervalTier", "Ben", [("hello", 2, 3.9)]),
    )
    assert [words for words, _, _ in cues(text)] == ["good morning", "hello", "yes"]


def test_words_of_a_recognizer_and_lyrics_and_timit() -> None:
    assert cues("talk A 0.10 0.20 he 0.98\ntalk A 0.50 0.25 began\n") == [("he", 0.1, 0.3), ("began", 0.5, 0.75)]
    lyrics = "[ti:Song]\n[ar:Band]\n\n[00:01.50][00:09.00]la <00:01.80>la\n[00:04.00]\n[00:05.25]lo\n"
    assert cues(lyrics) == [("la la", 1.5, 4.0), ("lo", 5.25, 9.0), ("la la", 9.0, 14.0)]
    assert cues("0 46797 She had your dark suit.\n") == [("She had your dark suit.", 0.0, 2.925)]


@pytest.mark.parametrize(
    "behind", ["", " 0.98", " 1", " -12.384530", " 9.8e-01", " NA lex NA", " <NA> lex Anna", " .9 lex"]
)
def test_words_of_scored_files_may_have_logarithms_and_types_behind_them(behind: str) -> None:
    """The example of NIST's own manual has scores below zero; it was a plain text of names and numbers."""
    text = f";; words\ntalk A 0 0.20 he{behind}\n\ntalk A 0.50 0.25 began{behind}\ntalk B 0.25 .25 yes{behind}\n"
    assert cues(text) == [("he", 0.0, 0.2), ("yes", 0.25, 0.5), ("began", 0.5, 0.75)]


def test_pauses_and_noises_of_scored_files_are_no_words_and_segments_have_spaces() -> None:
    lines = [
        "<eps> 1",
        "good<space>morning NA lex NA",
        "<unk> 0.4",
        "[noise] 0.2",
        "uh 0.9 fp Anna",
        "x 0.9 non-lex Anna",
    ]
    found = cues("".join(f"talk 1 {at}.0 0.5 {line}\n" for at, line in enumerate(lines)))
    assert found == [("good morning", 1.0, 1.5), ("uh", 4.0, 4.5)]


def test_the_first_utterance_of_a_scored_file_may_begin_at_0() -> None:
    assert cues("talk 1 Anna 0 1.50 he began\ntalk 1 Ben 1.50 2.25 yes\n") == [
        ("he began", 0.0, 1.5),
        ("yes", 1.5, 2.25),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "He scored 10 20 30 points.",
        "It went from 0 to 2.5 and up",
        "talk A 0.10 0.20 he said it was lex",
        "The price rose from 1 to 2.5 percent",
        "2 3 4 words in a row",
        "[Laughter] Good morning.",
        "Start\tend of the line",
        "12:30 we left.\n12:45 we came back.",
        '{"events": [1]}',
        "<p>Hello</p>",
    ],
)
def test_plain_words_stay_as_they_are(text: str) -> None:
    assert cues(text) == [(text.replace("\t", " ").replace("\n", " "), None, None)]


def test_a_document_type_defines_no_entities() -> None:
    bomb = '<?xml version="1.0"?><!DOCTYPE tt [<!ENTITY a "x"><!ENTITY b "&a;&a;">]>'
    assert cues(bomb + ttml('<p begin="1s" end="2s">&b;</p>').partition("?>")[2]) == []


def test_a_line_without_times_costs_no_other_one() -> None:
    lines = ['<p begin="1s" end="2s">one</p>', '<p begin="soon" end="3s">two</p>', '<p begin="3s" end="4s">three</p>']
    assert cues(ttml("".join(lines))) == [("one", 1.0, 2.0), ("three", 3.0, 4.0)]


@pytest.mark.parametrize("form", ["TextGrid", "ELAN", "TTML", "SubStation"])
def test_a_transcript_reads_as_its_words_and_a_document_by_its_type(form: str) -> None:
    """A text that is no transcript and of no such type stays a document."""
    data, settings = FORMS[form].encode(), PreprocessSettings()
    words = "\n".join(words for words, _, _ in SAID)
    assert text_track(data, "text/plain", settings=settings, is_transcript=True)["text"] == words
    assert text_track(data, "text/x-ssa", settings=settings)["text"] == words
    assert text_track(data, "text/plain", settings=settings)["text"] != words
    utf16 = FORMS[form].replace('encoding="utf-8"', "").replace('encoding="UTF-8"', "").encode("utf-16")
    assert text_track(utf16, "text/x-ssa", settings=settings)["text"] == words  # as Praat writes what is not ASCII


@pytest.mark.parametrize(
    "line",
    [
        '<font size="28">FrameCnt: 1, DiffTime: 33ms\n2023-05-01 10:00:00.123\n[iso: 100] [shutter: 1/500.0]</font>',
        "HOME(8.5,47.3) 2017.03.01 10:00:00\nGPS(8.5,47.3,17) BAROMETER:1.9\nISO:100 Shutter:60",
    ],
)
def test_what_a_drone_writes_of_its_flight_is_no_words(line: str) -> None:
    text = "".join(f"{at + 1}\n{clock(at, ',')} --> {clock(at + 1, ',')}\n{line}\n\n" for at in range(3))
    assert cues(text) == []
    assert text_track(text.encode(), "application/x-subrip", settings=PreprocessSettings())["text"] == ""


@pytest.mark.parametrize("form", FORMS)
def test_no_damage_to_a_form_raises(form: str) -> None:
    """Texts that are cut, repeated, shuffled, and have odd characters put into them."""
    rng, odd = (
        random.Random(form),
        ('"', "<", ">", "\0", "\ud800", "9" * 400, "1e999", "-", "NaN", "{\\", "\n", "\t", "["),
    )
    for _ in range(300):
        text = FORMS[form]
        for _ in range(rng.randint(1, 4)):
            low = rng.randrange(len(text) + 1)
            high = min(len(text), low + rng.randint(0, 200))
            text = rng.choice(
                (
                    text[:low],
                    text[:low] + text[high:],
                    text[:low] + text[low:high] * rng.randint(1, 20) + text[high:],
                    text[:low] + rng.choice(odd) + text[low:],
                    text[:low] + text[high:] + text[low:high],
                )
            )
        parse_cues(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "WEBVTT\n\n6e2b1f0c/12-0\n0:0:0.0 --> 0:0:3.540\n<v Jane Doe>Good morning.</v>\n\n"
            "6e2b1f0c/17-0\n0:1:5.2 --> 1:2:7.9500000\nMorning.\n",
            [("Good morning.", 0.0, 3.54), ("Morning.", 65.2, 3727.95)],
        ),
        ("0:00:00.599,0:00:04.160\n>> ALICE: Hi,[br]and welcome\n", [(">> ALICE: Hi, and welcome", 0.599, 4.16)]),
        (
            '<tt xmlns="http://www.w3.org/ns/ttml" xmlns:itunes="http://music.apple.com/lyric-ttml-internal" '
            'itunes:timing="Word"><head/><body dur="3:58.640"><div begin="19.764" end="1:59.300">'
            '<p begin="19.764" end="1:21.9"><span begin="19.764" end="20.105">When</span> <span>you</span></p>'
            "</div></body></tt>",
            [("When you", 19.764, 81.9)],
        ),
        (ttml('<p begin="0:00:01.5" end="2.75">Hello</p>'), [("Hello", 1.5, 2.75)]),
    ],
    ids=["Teams", "YouTube", "Apple", "TTML, one digit of hours, no metric"],
)
def test_times_as_programs_write_them(text: str, said: list[tuple[str, float, float]]) -> None:
    """Clocks without leading zeros, seconds without a metric, the break of SBV, lyrics whose times are of the song."""
    assert cues(text) == said


@pytest.mark.parametrize("head", ["WEBVTT", "WEBVTT\n\n", "WEBVTT\r\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:90\r\n"])
def test_webvtt_without_cues_has_no_words(head: str) -> None:
    """As the segments of a stream in which nobody speaks; a text about WebVTT stays a text."""
    assert cues(head) == []
    assert text_track(head.encode(), "text/vtt", settings=PreprocessSettings())["text"] == ""
    assert cues("WEBVTT is a format.") == [("WEBVTT is a format.", None, None)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\r\n"])
def test_a_cue_without_words_does_not_say_the_number_of_the_next_one(end: str) -> None:
    blocks = [["1", "00:00:00,500 --> 00:00:07,000", "one", "more"], ["2", "00:00:07,000 --> 00:00:11,000", ""]]
    blocks += [["3", "00:00:11,000 --> 00:00:12,000", "three"]]
    text = (end + end).join(end.join(block) for block in blocks)
    assert [words for words, _, _ in cues(text)] == ["one more", "three"]
