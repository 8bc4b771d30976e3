"""What rows of Arrow arrays take as Python values, estimated before they are made: a few bytes of a run or a dictionary
may be gigabytes of objects."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NUMBER_BYTES = 40  # a number and its place in a list
_TEXT_BYTES = 64  # an empty string or bytes, and its place
_DICT_BYTES = 240  # a dict of a few names
_BEYOND = 1 << 50  # of rows that share their values: only one alone is estimated


def weight_of(array: pa.Array) -> int:
    """About how many bytes the array takes as a list of Python values."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return weight_of(array.storage)
    if pa.types.is_dictionary(kind):
        return _of_references(array)
    if pa.types.is_run_end_encoded(kind):
        return _of_runs(array)
    if pa.types.is_struct(kind):
        return _DICT_BYTES * len(array) + sum(weight_of(child) for child in array.flatten())
    if pa.types.is_map(kind):
        start, stop = int(array.offsets[0].as_py()), int(array.offsets[-1].as_py())
        parts = (part.slice(start, stop - start) for part in (array.keys, array.items))
        return _TEXT_BYTES * (len(array) + stop - start) + sum(map(weight_of, parts))
    if pa.types.is_union(kind):
        return _of_union(array)
    if (pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)) and _is_overlapping(array):
        return _BEYOND
    if pa.types.is_nested(kind):
        return _TEXT_BYTES * len(array) + weight_of(array.flatten())
    if _is_view(kind):
        return _TEXT_BYTES * len(array) + _viewed_bytes(array)
    if _has_lengths(kind):
        return _TEXT_BYTES * len(array) + int(pc.sum(pc.binary_length(array)).as_py() or 0)
    return _NUMBER_BYTES * len(array) + int(array.nbytes)


def _of_references(array: pa.DictionaryArray) -> int:
    kind = array.dictionary.type
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType) or _is_view(kind):
        used = pc.take(array.dictionary, array.indices) if len(array) == 1 else None
        return _BEYOND if used is None else weight_of(used)
    if not _has_lengths(kind):
        return _NUMBER_BYTES * len(array)
    lengths = pc.binary_length(array.dictionary).cast(pa.int64())
    return _TEXT_BYTES * len(array) + int(pc.sum(pc.take(lengths, array.indices)).as_py() or 0)


def _of_runs(array: pa.RunEndEncodedArray) -> int:
    start, num_runs = array.find_physical_offset(), array.find_physical_length()
    values = array.values.slice(start, num_runs)
    if len(array) == 1 or num_runs == len(array):
        return weight_of(values)
    if not _has_lengths(values.type):
        return _BEYOND if pa.types.is_nested(values.type) else (_NUMBER_BYTES * len(array) + int(values.nbytes))
    ends = np.minimum(array.run_ends.slice(start, num_runs).to_numpy().astype(np.int64) - array.offset, len(array))
    lengths = pc.fill_null(pc.binary_length(values).cast(pa.int64()), 0).to_numpy()
    return _TEXT_BYTES * len(array) + int(np.dot(np.diff(ends, prepend=0), lengths))


def _of_union(array: pa.UnionArray) -> int:
    codes = array.type_codes.to_numpy()
    if array.type.mode == "dense" and len(array) > 1:
        offsets = array.offsets.to_numpy()
        for code in np.unique(codes):
            chosen = offsets[codes == code]
            if len(np.unique(chosen)) != len(chosen):
                return _BEYOND
    if array.type.mode == "dense" and len(array) == 1:
        child = array.type.type_codes.index(int(codes[0]))
        return _TEXT_BYTES + weight_of(array.field(child).slice(int(array.offsets[0].as_py()), 1))
    return _TEXT_BYTES * len(array) + sum(weight_of(array.field(at)) for at in range(array.type.num_fields))


def _is_overlapping(array: pa.ListViewArray) -> bool:
    """Whether several lists share elements."""
    if len(array) < 2:
        return False
    starts, sizes = array.offsets.to_numpy().astype(np.int64), array.sizes.to_numpy().astype(np.int64)
    order = np.argsort(starts, kind="stable")[sizes[np.argsort(starts, kind="stable")] > 0]
    stops = np.maximum.accumulate((starts + sizes)[order])
    return bool((starts[order][1:] < stops[:-1]).any())


def _viewed_bytes(array: pa.Array) -> int:
    """The bytes of all texts of an array of views: the length stands first in each view (Arrow columnar format, 16
    bytes each)."""
    lengths = np.frombuffer(array.buffers()[1], np.int32)[::4][array.offset : array.offset + len(array)]
    return int(np.maximum(lengths.astype(np.int64), 0)[array.is_valid().to_numpy(zero_copy_only=False)].sum())


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _has_lengths(kind: pa.DataType) -> bool:
    texts, binaries = (pa.types.is_string, pa.types.is_large_string), (pa.types.is_binary, pa.types.is_large_binary)
    return any(is_kind(kind) for is_kind in (*texts, *binaries, pa.types.is_fixed_size_binary))
