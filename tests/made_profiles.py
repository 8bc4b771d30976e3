"""ICC profiles as tests need them, in version 2, and what the standards say that their colours are in sRGB."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

D50 = (0.9642, 1.0, 0.8249)
# colorants adapted to D50, as the published profiles have them
DISPLAY_P3 = ((0.51512, 0.2412, -0.00105), (0.29198, 0.69225, 0.04189), (0.1571, 0.06657, 0.78407))
ADOBE_RGB = ((0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457))
SRGB = ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.7141))
PROPHOTO = ((0.79767, 0.28804, 0.0), (0.13519, 0.71188, 0.0), (0.03134, 0.00009, 0.82491))
# linear light of the space -> linear light of sRGB (CSS Color 4, section 18; Adobe RGB (1998), section 4.3)
TO_SRGB = {
    "Display P3": ((1.2249402, -0.2249402, 0.0), (-0.0420570, 1.0420570, 0.0), (-0.0196376, -0.0786361, 1.0982736)),
    "Adobe RGB": ((1.3983557, -0.3983557, 0.0), (0.0, 1.0, 0.0), (0.0, -0.0429290, 1.0429290)),
    "ProPhoto": ((2.0343, -0.7275, -0.3067), (-0.2288, 1.2317, -0.0029), (-0.0085, -0.1533, 1.1618)),
    "swapped": ((0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
}


def srgb_curve(levels: np.ndarray) -> np.ndarray:
    """Linear light 0..1 of levels 0..255 (IEC 61966-2-1)."""
    values = np.asarray(levels, np.float64) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def srgb_levels(light: np.ndarray) -> np.ndarray:
    """Levels 0..255 of linear light."""
    light = np.clip(light, 0, 1)
    return 255 * np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)


def power_curve(gamma: float) -> np.ndarray:
    """1,024 values of a curve."""
    return np.linspace(0, 1, 1024) ** gamma


def rgb_profile(colorants: Sequence[Sequence[float]], curve: np.ndarray) -> bytes:
    """Of three primaries."""
    tags = {b"wtpt": _xyz(D50)}
    for name, colorant in zip((b"r", b"g", b"b"), colorants, strict=True):
        tags |= {name + b"XYZ": _xyz(colorant), name + b"TRC": _curve(curve)}
    return _profile(b"mntr", b"RGB ", b"XYZ ", tags)


def grey_profile(curve: np.ndarray) -> bytes:
    """Of grey: curve is linear light by level."""
    return _profile(b"mntr", b"GRAY", b"XYZ ", {b"wtpt": _xyz(D50), b"kTRC": _curve(curve)})


def cmyk_profile() -> bytes:
    """Of four inks whose overprints are mixed in CIELAB, in a table of two steps each."""
    head = b"mft1" + bytes(4) + bytes((4, 3, 2, 0)) + struct.pack(">9i", *(np.eye(3).ravel() * 65_536).astype(int))
    ramp = bytes(range(256))
    coded = [(round(lab[0] * 2.55), round(lab[1]) + 128, round(lab[2]) + 128) for lab in inks()]
    table = bytes(value for one in coded for value in one)
    return _profile(b"prtr", b"CMYK", b"Lab ", {b"wtpt": _xyz(D50), b"A2B0": head + 4 * ramp + table + 3 * ramp})


def inks() -> list[tuple[float, float, float]]:
    """CIELAB of the sixteen overprints, black changing fastest: white is paper, black and all inks are black."""
    solid = {(0, 0, 0): (100, 0, 0), (1, 0, 0): (56, -36, -44), (0, 1, 0): (50, 70, -4), (0, 0, 1): (88, -6, 85)}
    solid |= {(1, 1, 0): (26, 20, -44), (1, 0, 1): (52, -62, 28), (0, 1, 1): (49, 64, 46), (1, 1, 1): (0, 0, 0)}
    overprints = [(c, m, y) for c in (0, 1) for m in (0, 1) for y in (0, 1)]
    return [one for key in overprints for one in (solid[key], (0, 0, 0))]


def lab_in_srgb(lab: Sequence[float]) -> np.ndarray:
    """Levels of a colour of CIELAB under D50 (CIE 15; XYZ to sRGB with Bradford's adaptation, IEC 61966-2-1)."""
    middle = (lab[0] + 16) / 116
    parts = np.array([middle + lab[1] / 500, middle, middle - lab[2] / 200])
    xyz = np.where(parts > 6 / 29, parts**3, 3 * (6 / 29) ** 2 * (parts - 4 / 29)) * D50
    to_srgb = [(3.1338561, -1.6168667, -0.4906146), (-0.9787684, 1.9161415, 0.0334540)]
    return srgb_levels(np.array([*to_srgb, (0.0719453, -0.2289914, 1.4052427)]) @ xyz)


def _xyz(values: Sequence[float]) -> bytes:
    return b"XYZ " + bytes(4) + struct.pack(">3i", *(round(value * 65_536) for value in values))


def _curve(values: np.ndarray) -> bytes:
    numbers = np.round(np.asarray(values) * 65_535).astype(">u2")
    return b"curv" + bytes(4) + struct.pack(">I", len(numbers)) + numbers.tobytes()


def _profile(kind: bytes, space: bytes, connection: bytes, tags: dict[bytes, bytes]) -> bytes:
    text = b"made for a test\0"
    tags = {b"desc": b"desc" + bytes(4) + struct.pack(">I", len(text)) + text + bytes(78)} | tags
    at = 132 + 12 * len(tags)
    directory, body = struct.pack(">I", len(tags)), b""
    for name, data in tags.items():
        directory += struct.pack(">4sII", name, at + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    head = struct.pack(">I4sI4s4s4s", at + len(body), b"", 0x02400000, kind, space, connection)
    head += struct.pack(">6H", 2000, 1, 1, 0, 0, 0) + b"acsp" + bytes(28) + _xyz(D50)[8:]
    return head.ljust(128, b"\0") + directory + body
