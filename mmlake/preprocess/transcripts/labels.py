"""What recognizers, aligners and annotators write in the place of a word where none was said."""

from __future__ import annotations

# labels of what is no word: silence, noise, breath, what nobody understood; the second ones within brackets alone
_NO_WORDS = frozenset("sp sil spn nsn pau".split())
_MARKED = frozenset("h eps unk p: usb noise silence laughter lau sl ns".split())
_AROUND = " \t\r\n#_.<>[]{}()*-"


def is_word(label: str) -> bool:
    """Whether the label is something that was said."""
    bare = label.strip(_AROUND).lower()
    return bool(bare) and bare not in _NO_WORDS and (bare not in _MARKED or bare == label.strip().lower())
