"""Pictures of high dynamic range as those of a standard screen, which every measure, keyframe and encoder expects.

Enters: decoded frames. Leaves: the same frame where it is not said to be PQ or HLG; else 8-bit BT.709. That is the
display light of ITU-R BT.2100, the roll-off of ITU-R BT.2390 (5.4.1) from a display of 1,000 cd/m2 to reference white
of 203 cd/m2 (ITU-R BT.2408), on the largest of red, green and blue, so that hues stay; primaries by ITU-R BT.2407's
matrix; the curve of sRGB, as JPEGs are read. Light that another display was mastered for, above 1,000 cd/m2, is white.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmlake.numba_compiler import made

if TYPE_CHECKING:
    from av import VideoFrame

# H height, W width; of the table: Y luma, C chroma nodes
PQ, HLG = 16, 18  # transfer characteristics of ITU-T H.273, as are the numbers below
_BT709, _RGB, _FULL_RANGE = 1, 0, 2
# Kr and Kb by matrix coefficients; of ICtCp and constant luminance, which no decoder here gives as Y'CbCr, none
_COEFFICIENTS = {1: (0.2126, 0.0722), 2: (0.2627, 0.0593), 9: (0.2627, 0.0593)}
# linear light to BT.709 by primaries: BT.2020 (2: not said), P3 with the white of D65
_TO_BT709 = {
    2: ((1.6605, -0.5876, -0.0728), (-0.1246, 1.1329, -0.0083), (-0.0182, -0.1006, 1.1187)),
    12: ((1.2249, -0.2247, 0.0), (-0.0420, 1.0419, 0.0), (-0.0196, -0.0786, 1.0979)),
}
_PEAK, _WHITE = 1_000.0, 203.0  # cd/m2
_PQ = (2610 / 16384, 2523 / 32, 3424 / 4096, 2413 / 128, 2392 / 128)  # m1, m2, c1, c2, c3
_LUMA_STEP, _CHROMA_STEP = 16, 32  # of 1,024 levels, from node to node


def as_sdr(frame: VideoFrame) -> VideoFrame:
    """The frame for a standard screen, yuv420p, with its time and what comes with it; the frame itself where it is of
    one, or in colours that are not known."""
    if (transfer := frame.color_trc) not in (PQ, HLG):
        return frame
    is_rgb = frame.colorspace == _RGB
    matrix = _BT709 if is_rgb else frame.colorspace
    if matrix not in _COEFFICIENTS:
        return frame
    is_full = not is_rgb and frame.color_range == _FULL_RANGE
    deep = frame
    if frame.format.name != "yuv420p10le":
        deep = frame.reformat(format="yuv420p10le", dst_colorspace="ITU709" if is_rgb else None)
    shown = frame.reformat(format="yuv420p")  # what it says besides its pixels is copied
    table = _table(int(transfer), int(matrix), int(frame.color_primaries), is_full)
    planes = [np.frombuffer(memoryview(plane), np.uint16).reshape(-1, plane.line_size // 2) for plane in deep.planes]
    out = [np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size) for plane in shown.planes]
    kernel()(*planes, frame.width, frame.height, table, *out)
    shown.color_trc = shown.color_primaries = shown.colorspace = shown.color_range = _BT709  # 1 is their limited range
    return shown


def curve(transfer: int, rgb: NDArray[np.float64], *, primaries: int = 9) -> NDArray[np.float64]:
    """R'G'B' of PQ or HLG as those of sRGB, both 0 to 1; float64, last axis red, green, blue."""
    light = _pq_light(rgb) if transfer == PQ else _hlg_light(rgb)
    largest = light.max(axis=-1, keepdims=True)
    light = light * (_rolled_off(largest) / np.maximum(largest, 1e-9))
    if primaries != _BT709:
        light = light @ np.array(_TO_BT709.get(primaries, _TO_BT709[2])).T
    light = np.clip(light / _WHITE, 0.0, 1.0)
    return np.asarray(np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055))


def _pq_light(signal: NDArray[np.float64]) -> NDArray[np.float64]:
    """cd/m2 (BT.2100, table 4)."""
    m1, m2, c1, c2, c3 = _PQ
    root = signal ** (1 / m2)
    return np.asarray(10_000 * (np.maximum(root - c1, 0) / (c2 - c3 * root)) ** (1 / m1))


def _pq_signal(light: NDArray[np.float64]) -> NDArray[np.float64]:
    m1, m2, c1, c2, c3 = _PQ
    power = (np.maximum(light, 0) / 10_000) ** m1
    return np.asarray(((c1 + c2 * power) / (1 + c3 * power)) ** m2)


def _hlg_light(signal: NDArray[np.float64]) -> NDArray[np.float64]:
    """cd/m2 on a display of 1,000, whose system gamma is 1.2 (BT.2100, table 5)."""
    a = 0.17883277
    b, c = 1 - 4 * a, 0.5 - a * np.log(4 * a)
    scene = np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - c) / a) + b) / 12)
    luminance = scene @ np.array([0.2627, 0.6780, 0.0593])
    return np.asarray(_PEAK * scene * np.maximum(luminance, 0)[..., None] ** 0.2)


def _rolled_off(light: NDArray[np.float64]) -> NDArray[np.float64]:
    """cd/m2 for a display of `_WHITE`: as they are below the knee (BT.2390, 5.4.1, without a change of black)."""
    peak, white = _pq_signal(np.array([_PEAK, _WHITE]))
    top = white / peak
    knee = 1.5 * top - 0.5
    signal = np.minimum(_pq_signal(light) / peak, 1.0)
    t = np.maximum((signal - knee) / (1 - knee), 0)
    bent = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (3 * t**2 - 2 * t**3) * top
    return _pq_light(np.where(signal > knee, bent, signal) * peak)


@functools.lru_cache(maxsize=8)
def _table(transfer: int, matrix: int, primaries: int, is_full: bool) -> NDArray[np.float32]:
    """8-bit Y'CbCr of BT.709 at nodes of 10-bit Y'CbCr, shape (Y, C, C, 3)."""
    luma = np.arange(0, 1024 + _LUMA_STEP, _LUMA_STEP, dtype=np.float64)
    chroma = np.arange(0, 1024 + _CHROMA_STEP, _CHROMA_STEP, dtype=np.float64)
    y, cb, cr = np.meshgrid(luma, chroma, chroma, indexing="ij")
    y = y / 1023 if is_full else (y - 64) / 876
    cb, cr = ((one - 512) / (1023 if is_full else 896) for one in (cb, cr))
    kr, kb = _COEFFICIENTS[matrix]
    red, blue = y + 2 * (1 - kr) * cr, y + 2 * (1 - kb) * cb
    green = (y - kr * red - kb * blue) / (1 - kr - kb)
    rgb = curve(transfer, np.clip(np.stack([red, green, blue], axis=-1), 0.0, 1.0), primaries=primaries)
    kr, kb = _COEFFICIENTS[_BT709]
    y = rgb @ np.array([kr, 1 - kr - kb, kb])
    cb, cr = (rgb[..., 2] - y) / (2 * (1 - kb)), (rgb[..., 0] - y) / (2 * (1 - kr))
    return np.stack([16 + 219 * y, 128 + 224 * cb, 128 + 224 * cr], axis=-1).astype(np.float32)


@functools.lru_cache(maxsize=1)
def kernel() -> Callable[..., None]:
    """The loop over the pixels; compiling it takes some seconds, once."""
    import numba

    table, out = numba.types.Array(numba.float32, 4, "C"), 3 * (numba.uint8[:, ::1],)
    planes = 3 * (numba.types.Array(numba.uint16, 2, "A", readonly=True),)
    compiled: Callable[..., None] = made(numba, numba.void(*planes, numba.int64, numba.int64, table, *out), _mapped)
    return compiled


def _mapped(
    luma: Any, cb: Any, cr: Any, width: Any, height: Any, table: Any, out_luma: Any, out_cb: Any, out_cr: Any
) -> None:
    """Fill the planes: linear between the nodes of the table, with one chroma for four lumas. Lines are longer than
    the picture."""
    column = np.empty(2, np.float32)
    for row in range((height + 1) // 2):
        for at in range((width + 1) // 2):
            blue: Any = min(np.int64(cb[row, at]), 1023)
            red: Any = min(np.int64(cr[row, at]), 1023)
            b, r = blue // 32, red // 32
            of_b, of_r = np.float32((blue % 32) / 32), np.float32((red % 32) / 32)
            w11, w10, w01 = of_b * of_r, of_b * (1 - of_r), (1 - of_b) * of_r
            w00 = (1 - of_b) * (1 - of_r)
            sums: Any = np.int64(0)
            num: Any = np.int64(0)
            for y in range(2 * row, min(2 * row + 2, height)):
                for x in range(2 * at, min(2 * at + 2, width)):
                    level: Any = min(np.int64(luma[y, x]), 1023)
                    sums, num = sums + level, num + 1
                    low = level // 16
                    for side in range(2):
                        corner = table[low + side]
                        column[side] = (
                            w00 * corner[b, r, 0] + w01 * corner[b, r + 1, 0]
                            + w10 * corner[b + 1, r, 0] + w11 * corner[b + 1, r + 1, 0]
                        )  # fmt: skip
                    share = np.float32((level % 16) / 16)
                    out_luma[y, x] = np.uint8(column[0] + share * (column[1] - column[0]) + np.float32(0.5))
            level = sums // num
            low, share = level // 16, np.float32((level % 16) / 16)
            for plane in range(1, 3):
                for side in range(2):
                    corner = table[low + side]
                    column[side] = (
                        w00 * corner[b, r, plane] + w01 * corner[b, r + 1, plane]
                        + w10 * corner[b + 1, r, plane] + w11 * corner[b + 1, r + 1, plane]
                    )  # fmt: skip
                value = np.uint8(column[0] + share * (column[1] - column[0]) + np.float32(0.5))
                if plane == 1:
                    out_cb[row, at] = value
                else:
                    out_cr[row, at] = value
