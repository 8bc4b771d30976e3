"""Films damaged as it happens in the field, by filters, encoders and flipped bits, with imageio-ffmpeg's program."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mmlake.cuts.runner import program
from mmlake.media.decoders import open_media

_X264 = ("-c:v", "libx264", "-preset", "veryfast", "-crf", "21", "-threads", "1", "-pix_fmt", "yuv420p")
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Film:
    """What is damaged."""

    path: Path
    width: int
    height: int
    rate: float
    duration_s: float


Damage = Callable[[Film, Path, np.random.Generator], None]


def film_of(path: Path) -> Film:
    """Size, rate and length as the container has them."""
    with open_media(path) as container:
        stream = container.streams.video[0]
        rate = float(stream.average_rate or 25)
        duration_s = container.duration / 1e6 if container.duration else (stream.frames or 50) / rate
        return Film(path, stream.codec_context.width, stream.codec_context.height, rate, duration_s)


def run_ffmpeg(*arguments: str) -> None:
    """Runs it to its end. Raises CalledProcessError, and TimeoutExpired after two minutes."""
    command = [program(), "-nostdin", "-y", "-loglevel", "error", *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT_S)


def _filtered(film: Film, out: Path, filters: str, *, options: tuple[str, ...] = _X264) -> None:
    run_ffmpeg("-i", str(film.path), "-an", "-vf", filters, *options, str(out))


def _even(value: float) -> int:
    return max(2, round(value / 2) * 2)


def _black(film: Film, out: Path, rng: np.random.Generator) -> None:
    """The signal is lost: nearly black, with a little noise, for nine tenths of the time or all of it."""
    start_s = rng.choice([0.0, 0.1]) * film.duration_s
    level, noise = int(rng.integers(14, 19)), int(rng.integers(0, 5))  # in either range
    _filtered(film, out, f"lutyuv=y={level}:u=128:v=128:enable='gte(t,{start_s:.3f})',noise=c0s={noise}:c0f=t")


def _frozen(film: Film, out: Path, rng: np.random.Generator) -> None:
    """The picture stands for half of the time and more, then jumps."""
    at, length = rng.uniform(0.15, 0.35), rng.uniform(0.5, 0.6)
    first = max(1, round(at * film.duration_s * film.rate))
    num = round(length * film.duration_s * film.rate)
    # repeats are put in, and as many frames behind them left out
    filters = f"loop=loop={num}:size=1:start={first},select='not(between(n,{first + num + 1},{first + 2 * num}))'"
    _filtered(film, out, f"{filters},setpts=N/({film.rate:.6f}*TB),trim=duration={film.duration_s:.3f}")


def _strobe(film: Film, out: Path, rng: np.random.Generator) -> None:
    """A shutter or a lamp out of step: two to six frames per turn at 25, 30 to 65 percent of the light gone."""
    period, left = int(rng.choice([2, 4, 6])), rng.uniform(0.35, 0.7)
    _filtered(film, out, f"lutyuv=y='16+(val-16)*{left:.3f}':enable='lt(mod(n,{period}),{period // 2})'")


def _flicker(film: Film, out: Path, rng: np.random.Generator) -> None:
    """Old film: every frame has a light of its own."""
    gains = rng.uniform(0.7, 1.25, 7)
    parts = [f"lutyuv=y='clip(val*{gain:.3f},16,235)':enable='eq(mod(n,7),{at})'" for at, gain in enumerate(gains)]
    _filtered(film, out, ",".join(parts))


def _mosaic(film: Film, out: Path, rng: np.random.Generator) -> None:
    """Squares of 8 to 32 px of one colour each."""
    side = int(rng.choice([8, 12, 16, 24, 32]))
    small = f"scale={max(4, film.width // side)}:{max(4, film.height // side)}:flags=area"
    _filtered(film, out, f"{small},scale={film.width // side * side}:{film.height // side * side}:flags=neighbor")


def _lost_packets(film: Film, out: Path, rng: np.random.Generator) -> None:
    """Packets with flipped bits, one in some thousand bytes."""
    coding = ("-c:v", "mpeg2video", "-q:v", "5", "-g", "25") if rng.random() < 0.5 else _X264
    flips = f"noise=amount={int(rng.integers(1500, 5000))}"
    run_ffmpeg("-i", str(film.path), "-an", *coding, "-bsf:v", flips, str(out))


def _recorded_loss(film: Film, out: Path, rng: np.random.Generator) -> None:
    """The same, decoded by a player that conceals them and recorded again: nothing but pictures is left of it."""
    sent = out.with_suffix(".sent.mkv")
    _lost_packets(film, sent, rng)
    run_ffmpeg("-err_detect", "ignore_err", "-i", str(sent), "-an", *_X264, str(out))
    sent.unlink()


def _coarse(film: Film, out: Path, rng: np.random.Generator) -> None:
    """A quantizer far too coarse, by encoders of two generations; half of the films are encoded well afterwards."""
    old = ("-c:v", "mpeg4", "-q:v", "31")
    coding = old if rng.random() < 0.5 else (*_X264[:4], "-crf", str(int(rng.integers(46, 51))), "-threads", "1")
    if rng.random() < 0.5:
        _filtered(film, out, "null", options=coding)
        return
    bad = out.with_suffix(".bad.mkv")
    run_ffmpeg("-i", str(film.path), "-an", *coding, str(bad))
    run_ffmpeg("-i", str(bad), "-an", *_X264, str(out))
    bad.unlink()


def _blur(film: Film, out: Path, rng: np.random.Generator) -> None:
    """Out of focus, by one percent of the width and more."""
    _filtered(film, out, f"gblur=sigma={film.width * rng.uniform(0.012, 0.03):.2f}:steps=2")


def _motion_blur(film: Film, out: Path, rng: np.random.Generator) -> None:
    """A camera that swings to and fro while its shutter is open: of each frame the mean over a path of two to five
    percent of the width."""
    moments, room = 16, 0.3
    width, height = _even(film.width * (1 - room)), _even(film.height * (1 - room))
    speed, slant = rng.uniform(0.02, 0.05) * width * film.rate, rng.uniform(0, 1.57)  # px per s
    way = room * min(film.width, film.height)
    # from one side to the other and back, at an even pace
    swing = f"{way:.2f}*abs(mod(t*{speed / way:.4f},2)-1)"
    filters = f"fps={film.rate * moments:.4f},crop={width}:{height}:x='{np.cos(slant):.4f}*{swing}'"
    filters += f":y='{np.sin(slant):.4f}*{swing}',tmix=frames={moments},fps={film.rate:.4f}"
    _filtered(film, out, filters)


def _shaken(film: Film, out: Path, rng: np.random.Generator) -> None:
    """A camera on a truck: jolts of two to four percent of the width, several in a second."""
    width, height = _even(film.width * 0.85), _even(film.height * 0.85)
    by, speed = rng.uniform(0.02, 0.04) * film.width, rng.uniform(4, 8)
    x = f"(iw-ow)/2+{by:.2f}*(sin(6.283*{speed:.2f}*t)+0.6*sin(6.283*{speed * 1.7:.2f}*t+1))"
    y = f"(ih-oh)/2+{by:.2f}*(sin(6.283*{speed * 1.2:.2f}*t+2)+0.6*sin(6.283*{speed * 1.9:.2f}*t))"
    _filtered(film, out, f"crop={width}:{height}:x='{x}':y='{y}'")


def _overload(film: Film, out: Path, rng: np.random.Generator) -> None:
    """A camera that is thrown about: every frame another view, a tenth of the width away and more."""
    width, height = _even(film.width * 0.6), _even(film.height * 0.6)
    seed = int(rng.integers(1, 9999))
    # a hash of the frame's number, since x may be asked for several times a frame
    x = f"(iw-ow)*mod(abs(sin((n+{seed})*12.9898)*43758.5453),1)"
    y = f"(ih-oh)*mod(abs(sin((n+{seed})*78.233)*12543.123),1)"
    _filtered(film, out, f"crop={width}:{height}:x='{x}':y='{y}'")


def _bars(film: Film, out: Path, rng: np.random.Generator) -> None:
    """Bars above and below, or at the sides, of an eighth of the picture each and more."""
    by = rng.uniform(1.25, 1.8)
    if rng.random() < 0.5:
        _filtered(film, out, f"pad=iw:{_even(film.height * by)}:0:-1:black")
    else:
        _filtered(film, out, f"pad={_even(film.width * by)}:ih:-1:0:black")


def _aspect(film: Film, out: Path, rng: np.random.Generator) -> None:
    """Pixels that are said to be oblong although the size is one of square pixels."""
    ratio = str(rng.choice(["16/11", "12/11", "64/45", "8/9", "4/3"]))
    _filtered(film, out, f"scale=640:360,setsar={ratio}")


def _repeated(film: Film, out: Path, rng: np.random.Generator) -> None:
    """A rate that was converted by repeating: six to seven tenths of the frames are those before."""
    kept = film.rate * rng.uniform(0.3, 0.4)
    _filtered(film, out, f"fps={kept:.4f},fps={film.rate:.4f}")


def _dropped(film: Film, out: Path, rng: np.random.Generator) -> None:
    """A recorder too slow: a quarter of the frames and more were never written."""
    share, seed = rng.uniform(0.25, 0.4), int(rng.integers(1, 999))
    keep = f"gt(mod(abs(sin((n+{seed})*12.9898)*43758.5453),1),{share:.3f})"
    run_ffmpeg("-i", str(film.path), "-an", "-vf", f"select='{keep}'", "-fps_mode", "passthrough", *_X264, str(out))


def _noise(film: Film, out: Path, rng: np.random.Generator) -> None:
    """A sensor or a receiver that shows more noise than picture."""
    _filtered(film, out, f"noise=alls={int(rng.integers(45, 90))}:allf=t")


def _part(film: Film, out: Path, rng: np.random.Generator, loss: str) -> None:
    """The lower third to half of the picture is lost."""
    top = _even(film.height * rng.uniform(0.5, 0.67))
    upper, lower = f"crop=iw:{top}:0:0", f"crop=iw:{film.height - top}:0:{top}"
    graph = f"[0:v]split[a][b];[a]{upper}[t];[b]{lower},{loss}[u];[t][u]vstack"
    run_ffmpeg("-i", str(film.path), "-an", "-filter_complex", graph, *_X264, str(out))


def _green(film: Film, out: Path, rng: np.random.Generator) -> None:
    """Planes of zeros where slices were lost: green."""
    _part(film, out, rng, "lutyuv=y=0:u=0:v=0")


def _half(film: Film, out: Path, rng: np.random.Generator) -> None:
    """The last line that arrived is drawn down to the bottom, or the rest is grey."""
    smear = "crop=iw:2:0:0,scale=iw:{}:flags=neighbor"
    if rng.random() < 0.5:
        _part(film, out, rng, "lutyuv=y=128:u=128:v=128")
        return
    top = _even(film.height * rng.uniform(0.5, 0.67))
    below = smear.format(film.height - top)
    graph = f"[0:v]split[a][b];[a]crop=iw:{top}:0:0[t];[b]crop=iw:{film.height - top}:0:{top},{below}[u];[t][u]vstack"
    run_ffmpeg("-i", str(film.path), "-an", "-filter_complex", graph, *_X264, str(out))


def _combed(film: Film, out: Path, rng: np.random.Generator) -> None:
    """Fields of two moments woven into one frame."""
    _filtered(film, out, "tinterlace=mode=interleave_top")


def _broken_frames(film: Film, out: Path, rng: np.random.Generator) -> None:
    """Three frames of their own are broken: a part that is black, grey or white, parts in each other's place, or all
    of it mirrored."""
    num, filters = max(24, round(film.duration_s * film.rate)), []
    for third in range(3):
        at = int(num * (third + rng.uniform(0.3, 0.7)) / 3)
        width, height = _even(film.width * rng.uniform(0.4, 1.0)), _even(film.height * rng.uniform(0.15, 0.45))
        x, y = int(rng.integers(0, film.width - width + 1)), int(rng.integers(0, film.height - height + 1))
        match rng.choice(["box", "swapped", "mirrored"], p=[0.6, 0.25, 0.15]):
            case "box":
                colour = rng.choice(["black", "gray", "white"])
                done = f"drawbox=x={x}:y={y}:w={width}:h={height}:color={colour}:t=fill"
            case "swapped":
                done = f"swaprect=w={width}:h={height}:x1=0:y1=0:x2={film.width - width}:y2={film.height - height}"
            case _:
                done = "hflip"
        filters.append(f"{done}:enable='eq(n,{at})'" if "=" in done else f"{done}=enable='eq(n,{at})'")
    _filtered(film, out, ",".join(filters))


DAMAGES: dict[str, Damage] = {
    "black": _black, "frozen": _frozen, "strobe": _strobe, "flicker": _flicker, "mosaic": _mosaic,
    "lost packets": _lost_packets, "recorded loss": _recorded_loss, "compression": _coarse, "blur": _blur,
    "motion blur": _motion_blur, "shake": _shaken, "motion overload": _overload, "bars": _bars, "pixel aspect": _aspect,
    "repeated frames": _repeated, "dropped frames": _dropped, "noise": _noise, "green": _green,
    "half frame": _half, "combing": _combed, "broken frames": _broken_frames,
}  # fmt: skip
