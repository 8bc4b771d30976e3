"""Film decoders: the rows that turn films into pictures, on the CPU or on a GPU whose streams are counted.

Enters: a local film. Leaves: pictures with the time stamps of their container. What is made of them is the stages'
business; sound is not decoded here.
"""

from __future__ import annotations

from mmlake.film_decoders.clip import Clip, decode_clip
from mmlake.film_decoders.film import Film, Picture, Refused
from mmlake.film_decoders.rows import FILM_DECODERS, FilmDecoderRow, film_decoder, pictures
from mmlake.film_decoders.settings import OF_PICTURES, PYAV, DecodeSettings
from mmlake.film_decoders.turns import EXIF, turn_of, upright

__all__ = [
    "EXIF",
    "FILM_DECODERS",
    "OF_PICTURES",
    "PYAV",
    "Clip",
    "DecodeSettings",
    "Film",
    "FilmDecoderRow",
    "Picture",
    "Refused",
    "decode_clip",
    "film_decoder",
    "pictures",
    "turn_of",
    "upright",
]
