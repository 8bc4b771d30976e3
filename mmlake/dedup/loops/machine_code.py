"""Loops that numba compiles once per machine, kept as machine code and loaded without numba: its import and its tables
of types cost a process .75 s, loading what it made .06.

Enters: Python functions over arrays, and what each argument is. Leaves: functions that are called with numpy arrays.
The loops allocate nothing and raise nothing, so that their code needs nothing of numba when it runs: it is compiled
without numba's runtime, which refuses whatever does.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import itertools
import json
import os
import platform
import tempfile
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mmlake.numba_compiler import alone

_FORMAT = 1
_TESTED = ("0.68",)  # versions of numba whose object code is known to be called like this; others call it themselves
_FROM_LIBC = {"memset", "memcpy", "memmove"}
# how numba calls what stands in a specification; a star for each dimension of an array
_KINDS = {
    "b1": "boolean", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "u4": "uint32",
    "u8": "uint64", "f8": "float64",
}  # fmt: skip
_DTYPES = {kind: np.dtype(name if kind != "b1" else "bool") for kind, name in _KINDS.items()}
# "u8": a number, "u8*": an array of one dimension; of a NamedTuple its class and what its fields are, in one string
Specification = str | tuple[type, str]


class Loop(NamedTuple):
    """A function, what its arguments are, and which functions it calls, each of which may call those before it. What
    several loops of a file name calls the same ones in each."""

    function: Callable[..., Any]
    arguments: tuple[Specification, ...]
    inner: tuple[Callable[..., Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """A NamedTuple of arrays that is handed to loops many times: where they lie is found out once."""

    value: Any
    numbers: list[int]

    @classmethod
    def of(cls, specification: Specification, value: Any) -> Given:
        """Ready to be handed over. The arrays must not be replaced, only overwritten."""
        return cls(value, _numbers_of(specification, value))


def loops(name: str, made: Mapping[str, Loop], sources: Sequence[str]) -> dict[str, Callable[..., int]] | None:
    """The compiled functions by name, which return what a loop returns as a number; None where numba is absent.

    name: of the file that they are kept in. sources: files whose change makes other loops.
    """
    if importlib.util.find_spec("numba") is None:
        return None
    if importlib.metadata.version("numba").rpartition(".")[0] not in _TESTED:
        return _by_numba(made)
    import llvmlite.binding as llvm

    stamp = _stamp(llvm, sources)
    if (found := _kept(llvm, name, made, stamp)) is not None:
        return found
    with alone(__name__, name):  # whoever waited for it finds what the other made
        return _kept(llvm, name, made, stamp) or _loaded(llvm, made, _written(name, _compiled(made, stamp)), stamp)


def _kept(llvm: Any, name: str, made: Mapping[str, Loop], stamp: str) -> dict[str, Callable[..., int]] | None:
    """The functions of the file; None where there is none of this stamp."""
    for folder in _folders():
        try:
            return _loaded(llvm, made, (folder / f"{name}.loops").read_bytes(), stamp)
        except (OSError, ValueError, KeyError):
            continue
    return None


def _written(name: str, code: bytes) -> bytes:
    """The code, once it is in the first folder that can be written."""
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
                file.write(code)
            os.replace(file.name, folder / f"{name}.loops")
        except OSError:  # the package and HOME may be read-only: then each process compiles anew
            continue
        break
    return code


def _by_numba(made: Mapping[str, Loop]) -> dict[str, Callable[..., int]]:
    """The loops as numba compiles and calls them in each process; slower to start, the same results."""
    numba: Any = importlib.import_module("numba")
    found: dict[str, Callable[..., int]] = {}
    for key, loop in made.items():
        parts: dict[str, Any] = {}
        for one in (*loop.inner, loop.function):
            parts[one.__name__] = numba.njit(_linked(one, parts), error_model="numpy", nogil=True)
        found[key] = partial(_called_by_numba, parts[loop.function.__name__])
    return found


def _called_by_numba(function: Any, *given: Any) -> int:
    made = function(*(one.value if type(one) is Given else one for one in given))
    return 0 if made is None else int(made)


@functools.lru_cache(maxsize=4)
def are_kept(names: tuple[str, ...]) -> bool:
    """Whether there are files of loops with all of these names; they may be of other sources."""
    return all(any((folder / f"{name}.loops").is_file() for folder in _folders()) for name in names)


def _folders() -> list[Path]:
    return [Path(__file__).parent / "__pycache__", Path.home() / ".cache" / "mmlake"]


def _linked(function: Callable[..., Any], inner: Mapping[str, Any]) -> Callable[..., Any]:
    """The function with others in place of those that it calls by these names."""
    one = types.FunctionType(function.__code__, {**function.__globals__, **inner}, function.__name__)
    one.__module__, one.__qualname__ = function.__module__, function.__qualname__
    return one


def _options() -> dict[str, Any]:
    return {"_nrt": False, "error_model": "numpy", "no_cfunc_wrapper": True, "no_cpython_wrapper": True}


def _stamp(llvm: Any, sources: Sequence[str]) -> str:
    """What the code was made of, and for which machine."""
    spec = importlib.util.find_spec("numba")
    version = str(Path(str(spec and spec.origin)).with_name("_version.py"))  # read, as an import takes .3 s
    made = hashlib.sha256()
    for source in (__file__, version, *sources):
        made.update(Path(source).read_bytes())
    features = llvm.get_host_cpu_features().flatten()
    for one in (_FORMAT, platform.python_version(), np.__version__, llvm.llvm_version_info, features):
        made.update(f"{one}\n".encode())
    return made.hexdigest()


def _loaded(llvm: Any, made: Mapping[str, Loop], kept: bytes, stamp: str) -> dict[str, Callable[..., int]]:
    """The functions of a file. Raises ValueError or KeyError where it is of something else or is not what was
    written."""
    line, _, rest = kept.partition(b"\n")
    header = json.loads(line)
    if header["stamp"] != stamp or hashlib.sha256(rest).hexdigest() != header["sha256"]:
        raise ValueError("kept loops are of other sources, of another machine, or damaged")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for symbol in _FROM_LIBC:
        llvm.add_symbol(symbol, ctypes.cast(getattr(ctypes.CDLL(None), symbol), ctypes.c_void_p).value)
    target = llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault", jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    _ENGINES.append(engine)  # the code is gone with it
    begin = 0
    for size in header["sizes"]:
        engine.add_object_file(llvm.ObjectFileRef.from_data(rest[begin : begin + size]))
        begin += size
    engine.finalize_object()
    found: dict[str, Callable[..., int]] = {}
    for key, symbol in header["symbols"].items():
        function = _FUNCTION(engine.get_function_address(symbol))
        found[key] = partial(_called, made[key].arguments, function)
    return found


_ENGINES: list[Any] = []
# as numba calls its functions: where a result goes, where an error goes, the arguments; 0 where nothing was raised
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def _called(arguments: tuple[Specification, ...], function: Any, *given: Any) -> int:
    block = [0]
    for specification, one in zip(arguments, given, strict=True):
        block += one.numbers if type(one) is Given else _numbers_of(specification, one)
    numbers = np.array(block, np.int64)
    nowhere = ctypes.c_void_p()
    if function(ctypes.byref(nowhere), ctypes.byref(nowhere), numbers.__array_interface__["data"][0]):
        raise RuntimeError("a compiled loop raised, which none of them is written to do")
    return int(numbers[0])


def _numbers_of(specification: Specification, given: Any) -> list[int]:
    """An array as its address and shape, a number as its bits, a tuple as those of its fields."""
    if isinstance(specification, tuple):
        fields = zip(specification[1].split(), given, strict=True)
        return [number for kind, one in fields for number in _numbers_of(kind, one)]
    if specification[-1] == "*":
        array: np.ndarray = given
        kind, num_dimensions = specification[:2], len(specification) - 2
        if array.dtype != _DTYPES[kind] or array.ndim != num_dimensions or not array.flags.c_contiguous:
            raise TypeError(f"a loop was given an array of {array.dtype}, {array.ndim} dimensions, for {specification}")
        return [array.__array_interface__["data"][0], *array.shape]
    if specification == "f8":
        return [int(np.float64(given).view(np.int64))]
    number = int(given)
    return [number - (1 << 64) if number >= 1 << 63 else number]


def _compiled(made: Mapping[str, Loop], stamp: str) -> bytes:
    """The file of these loops."""
    symbols, objects, shared = {}, [], dict[Callable[..., Any], Any]()
    for key, loop in made.items():
        symbols[key], code = _object_of(loop, shared)
        objects.append(code)
    rest = b"".join(objects)
    header = {
        "stamp": stamp,
        "sha256": hashlib.sha256(rest).hexdigest(),
        "sizes": [len(code) for code in objects],
        "symbols": symbols,
    }
    return json.dumps(header).encode() + b"\n" + rest


def _object_of(loop: Loop, shared: dict[Callable[..., Any], Any]) -> tuple[str, bytes]:
    """(the symbol of a function that takes the address of the numbers, its machine code). shared: what loops of one
    file have in common, which is compiled once; filled."""
    numba: Any = importlib.import_module("numba")
    kinds: Any = importlib.import_module("numba.core.types")
    parts: dict[str, Any] = {}
    for one in (*loop.inner, loop.function):
        if one not in shared:
            shared[one] = numba.njit(_linked(one, parts), pipeline_class=_unlinked_compiler(), **_options())
        parts[one.__name__] = shared[one]
    inner = parts[loop.function.__name__]
    unpacked = _unpacking(loop.arguments)

    def entry(block):  # type: ignore[no-untyped-def]  # pragma: no cover: compiled
        block[0] = inner(*unpacked(block))

    def silent_entry(block):  # type: ignore[no-untyped-def]  # pragma: no cover: compiled
        inner(*unpacked(block))

    says = loop.function.__annotations__["return"] != "None"
    arguments = (kinds.CPointer(kinds.int64),)
    whole = numba.njit(kinds.void(*arguments), **_options())(entry if says else silent_entry)
    made = whole.overloads[arguments]
    called = {one.name for one in made.library._final_module.functions if one.is_declaration}
    unknown = {name for name in called if not name.startswith("llvm.")} - _FROM_LIBC
    if unknown:
        raise TypeError(f"loop {loop.function.__name__} calls {sorted(unknown)}; it may call nothing but {_FROM_LIBC}")
    return made.fndesc.mangled_name, made.library._get_compiled_object()


@functools.lru_cache(maxsize=1)
def _unlinked_compiler() -> Any:
    """numba's compiler for functions that nothing but compiled functions calls: it leaves them unoptimized and makes no
    machine code, as both are done once where all is linked. Done for each, that took half of the time."""
    codegen: Any = importlib.import_module("numba.core.codegen")
    compiler: Any = importlib.import_module("numba.core.compiler")
    new_function = importlib.import_module("numba._dynfunc").make_function

    class Unlinked(codegen.JITCodeLibrary):  # type: ignore[misc]
        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

    def not_called(library: Any, described: Any, environment: Any) -> Any:
        return new_function(described.lookup_module(), described.qualname, "", 1, environment, (library,))

    class Compiler(compiler.Compiler):  # type: ignore[misc]
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.state.library = Unlinked(self.state.targetctx.codegen(), "unlinked")
            self.state.targetctx.get_executable = not_called

    return Compiler


def _unpacking(arguments: tuple[Specification, ...]) -> Any:
    """A function for compiled code: the address of numbers -> the arguments that they stand for."""
    kinds: Any = importlib.import_module("numba.core.types")
    arrays: Any = importlib.import_module("numba.np.arrayobj")
    intrinsic: Any = importlib.import_module("numba.extending").intrinsic

    def type_of(specification: Specification) -> Any:
        if isinstance(specification, tuple):
            fields = [type_of(one) for one in specification[1].split()]
            if len(set(fields)) == 1:
                return kinds.NamedUniTuple(fields[0], len(fields), specification[0])
            return kinds.NamedTuple(tuple(fields), specification[0])
        element = getattr(kinds, _KINDS[specification.rstrip("*")])
        return kinds.Array(element, specification.count("*"), "C") if "*" in specification else element

    whole = kinds.Tuple([type_of(one) for one in arguments])

    def emitted(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        places = itertools.count(1)

        def number() -> Any:
            at = context.get_constant(kinds.intp, next(places))
            return builder.load(builder.gep(given[0], [at]))

        def value(kind: Any) -> Any:
            if isinstance(kind, kinds.BaseTuple):
                return context.make_tuple(builder, kind, [value(one) for one in kind])
            if not isinstance(kind, kinds.Array):
                return _scalar(context, builder, kind, number())
            data = context.get_data_type(kind.dtype).as_pointer()
            address, shape = number(), [number() for _ in range(kind.ndim)]
            width = context.get_abi_sizeof(context.get_data_type(kind.dtype))
            strides = [context.get_constant(kinds.intp, width)]
            for length in reversed(shape[1:]):
                strides.insert(0, builder.mul(strides[0], length))
            array = arrays.make_array(kind)(context, builder)
            arrays.populate_array(
                array, builder.inttoptr(address, data), shape, strides, context.get_constant(kinds.intp, width), None
            )
            return array._getvalue()

        return context.make_tuple(builder, whole, [value(kind) for kind in whole])

    @intrinsic
    def unpacked(typing_context, block):  # type: ignore[no-untyped-def]
        return whole(block), emitted

    return unpacked


def _scalar(context: Any, builder: Any, kind: Any, number: Any) -> Any:
    kinds: Any = importlib.import_module("numba.core.types")
    if kind == kinds.float64:
        return builder.bitcast(number, context.get_value_type(kind))
    if kind == kinds.boolean:
        return builder.trunc(number, context.get_value_type(kind))
    return number if kind.bitwidth == 64 else builder.trunc(number, context.get_value_type(kind))
