"""Colour profiles of spaces that a file names by numbers alone: chromaticities, a gamma, or a code of ITU-T H.273.

Enters: chromaticities and a curve. Leaves: the bytes of an ICC profile of version 4, of three primaries.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

Point = tuple[float, float]  # x, y of CIE 1931

D65: Final[Point] = (0.3127, 0.3290)
BT709: Final[tuple[Point, Point, Point]] = ((0.64, 0.33), (0.30, 0.60), (0.15, 0.06))
BT2020: Final[tuple[Point, Point, Point]] = ((0.708, 0.292), (0.170, 0.797), (0.131, 0.046))
P3: Final[tuple[Point, Point, Point]] = ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060))
_D50_XYZ: Final = np.array([0.9642, 1.0, 0.8249])  # of the connection space, ICC.1 section 7.2.16
# cone responses of Bradford (Lam 1985), by which ICC profiles adapt white
_BRADFORD: Final = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
_SRGB_CURVE: Final = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)  # IEC 61966-2-1
_GAMMA, _LINEAR_BEFORE = 0, 3  # functions of a parametric curve, ICC.1 section 10.18


def matrix_profile(
    primaries: tuple[Point, Point, Point] = BT709, *, white: Point = D65, gamma: float | None = None
) -> bytes:
    """The profile of the space; gamma: None for sRGB's curve. Raises ValueError where the chromaticities make no
    space."""
    points = np.array([*primaries, white], np.float64)
    if not np.isfinite(points).all() or (points[:, 1] <= 0).any():
        raise ValueError("a chromaticity has no luminance")
    xyz_P3 = np.column_stack([points[:, 0], points[:, 1], 1 - points.sum(axis=1)]) / points[:, 1:]
    try:
        colorants = xyz_P3[:3].T * np.linalg.solve(xyz_P3[:3].T, xyz_P3[3])
        cones = (_BRADFORD @ _D50_XYZ) / (_BRADFORD @ xyz_P3[3])
    except np.linalg.LinAlgError as error:
        raise ValueError("the primaries lie on a line") from error
    adapted = np.linalg.inv(_BRADFORD) @ np.diag(cones) @ _BRADFORD @ colorants
    if not np.isfinite(adapted).all() or np.abs(adapted).max() > 4:
        raise ValueError("the chromaticities make no space of colours")
    curve = _curve(_GAMMA, gamma) if gamma is not None else _curve(_LINEAR_BEFORE, *_SRGB_CURVE)
    tags = {b"desc": _text("matrix"), b"cprt": _text("none"), b"wtpt": _xyz(_D50_XYZ)}
    for name, column in zip((b"r", b"g", b"b"), adapted.T, strict=True):
        tags |= {name + b"XYZ": _xyz(column), name + b"TRC": curve}
    return _profile(tags)


def _fixed(*values: float) -> bytes:
    return struct.pack(f">{len(values)}i", *(round(value * 65_536) for value in values))


def _xyz(values: np.ndarray) -> bytes:
    return b"XYZ " + bytes(4) + _fixed(*values)


def _curve(function: int, *parameters: float) -> bytes:
    return b"para" + bytes(4) + struct.pack(">HH", function, 0) + _fixed(*parameters)


def _text(words: str) -> bytes:
    coded = words.encode("utf-16-be")
    return b"mluc" + bytes(4) + struct.pack(">II2s2sII", 1, 12, b"en", b"US", len(coded), 28) + coded


def _profile(tags: dict[bytes, bytes]) -> bytes:
    at = 132 + 12 * len(tags)
    directory, body = struct.pack(">I", len(tags)), b""
    for name, data in tags.items():
        directory += struct.pack(">4sII", name, at + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    head = struct.pack(">I4sI4s4s4s", at + len(body), b"", 0x04300000, b"mntr", b"RGB ", b"XYZ ")
    made = struct.pack(">6H", 2000, 1, 1, 0, 0, 0)
    head += made + b"acsp" + bytes(28) + _fixed(*_D50_XYZ)
    return head.ljust(128, b"\0") + directory + body
