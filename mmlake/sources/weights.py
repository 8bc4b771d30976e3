"""What rows of Arrow arrays take as Python values, told before they are made: a few bytes of a run or a dictionary may be gigabytes of objects."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_NUMBER_BYTES = 40  # a number and its place in a list
_TEXT_BYTES = 64  # an empty string or bytes, and its place
_DICT_BYTES = 240  # a dict of a few names


def weight_of(array: pa.Array) -> int:
    """About how many bytes the array takes as a list of Python values."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return weight_of(array.storage)
    if pa.types.is_dictionary(kind):
        return _of_references(array)
    if pa.types.is_struct(kind):
        return _DICT_BYTES * len(array) + sum(weight_of(child) for child in array.flatten())
    if pa.types.is_map(kind):
        start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return _TEXT_BYTES * (len(array) + stop - start) + weight_of(array.keys.slice(start, stop - start)) + weight_of(array.items.slice(start, stop - start))
    if pa.types.is_nested(kind) and not pa.types.is_union(kind):
        return _TEXT_BYTES * len(array) + weight_of(array.flatten())
    if _has_lengths(kind):
        return _TEXT_BYTES * len(array) + int(pc.sum(pc.binary_length(array)).as_py() or 0)
    return _NUMBER_BYTES * len(array) + int(array.nbytes)


def _of_references(array: pa.DictionaryArray) -> int:
    if not _has_lengths(array.dictionary.type):
        return _NUMBER_BYTES * len(array)
    lengths = pc.binary_length(array.dictionary).cast(pa.int64())
    return _TEXT_BYTES * len(array) + int(pc.sum(pc.take(lengths, array.indices)).as_py() or 0)


def _has_lengths(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))
