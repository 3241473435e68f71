"""The few functions of libclang's C interface that portbar calls, from PyPI's `libclang` or the system's library.

PyPI's Python module is not used: it has no wheel for every platform, and importing it takes longer than reading a kernel.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

#: Releases of LLVM whose library the system may have; older ones do not tell one operator from another.
_RELEASES: Final = range(24, 16, -1)


class Cursor(ctypes.Structure):
    """A node of libclang's tree."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("xdata", ctypes.c_int),
        ("first", ctypes.c_void_p),
        ("second", ctypes.c_void_p),
        ("third", ctypes.c_void_p),
    )


class String(ctypes.Structure):
    """A string that libclang owns until it is given back."""

    _fields_ = (("data", ctypes.c_void_p), ("flags", ctypes.c_uint))


class Location(ctypes.Structure):
    """A place in a file."""

    _fields_ = (("pointers", ctypes.c_void_p * 2), ("number", ctypes.c_uint))


class Range(ctypes.Structure):
    """Two places."""

    _fields_ = (("pointers", ctypes.c_void_p * 2), ("begin", ctypes.c_uint), ("end", ctypes.c_uint))


class Type(ctypes.Structure):
    """A type."""

    _fields_ = (("kind", ctypes.c_int), ("pointers", ctypes.c_void_p * 2))


class UnsavedFile(ctypes.Structure):
    """A file in memory."""

    _fields_ = (("name", ctypes.c_char_p), ("contents", ctypes.c_char_p), ("length", ctypes.c_ulong))


class Ranges(ctypes.Structure):
    """Some parts of a file."""

    _fields_ = (("count", ctypes.c_uint), ("ranges", ctypes.POINTER(Range)))


class ClangToken(ctypes.Structure):
    """A token of a file."""

    _fields_ = (("numbers", ctypes.c_uint * 4), ("pointer", ctypes.c_void_p))


VISITOR: Final = ctypes.CFUNCTYPE(ctypes.c_int, Cursor, Cursor, ctypes.c_void_p)

#: A function that returns the file, the line, the column and the offset of a location.
_PLACE: Final = (None, Location, ctypes.POINTER(ctypes.c_void_p), *[ctypes.POINTER(ctypes.c_uint)] * 3)
_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "clang_createIndex": (ctypes.c_void_p, ctypes.c_int, ctypes.c_int),
    "clang_toggleCrashRecovery": (None, ctypes.c_uint),
    "clang_parseTranslationUnit2": (
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.c_char_p),
        ctypes.c_int,
        ctypes.POINTER(UnsavedFile),
        ctypes.c_uint,
        ctypes.c_uint,
        ctypes.POINTER(ctypes.c_void_p),
    ),
    "clang_disposeTranslationUnit": (None, ctypes.c_void_p),
    "clang_getTranslationUnitCursor": (Cursor, ctypes.c_void_p),
    "clang_visitChildren": (ctypes.c_uint, Cursor, VISITOR, ctypes.c_void_p),
    "clang_getCString": (ctypes.c_char_p, String),
    "clang_disposeString": (None, String),
    "clang_getCursorSpelling": (String, Cursor),
    "clang_getCursorReferenced": (Cursor, Cursor),
    "clang_isCursorDefinition": (ctypes.c_uint, Cursor),
    "clang_getCursorLocation": (Location, Cursor),
    "clang_getCursorExtent": (Range, Cursor),
    "clang_getRangeStart": (Location, Range),
    "clang_getRangeEnd": (Location, Range),
    "clang_getPresumedLocation": (
        None,
        Location,
        ctypes.POINTER(String),
        ctypes.POINTER(ctypes.c_uint),
        ctypes.POINTER(ctypes.c_uint),
    ),
    "clang_getExpansionLocation": _PLACE,
    "clang_getFileLocation": _PLACE,
    "clang_getFile": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p),
    "clang_getSkippedRanges": (ctypes.POINTER(Ranges), ctypes.c_void_p, ctypes.c_void_p),
    "clang_disposeSourceRangeList": (None, ctypes.POINTER(Ranges)),
    "clang_tokenize": (
        None,
        ctypes.c_void_p,
        Range,
        ctypes.POINTER(ctypes.POINTER(ClangToken)),
        ctypes.POINTER(ctypes.c_uint),
    ),
    "clang_disposeTokens": (None, ctypes.c_void_p, ctypes.POINTER(ClangToken), ctypes.c_uint),
    "clang_getTokenKind": (ctypes.c_int, ClangToken),
    "clang_getTokenSpelling": (String, ctypes.c_void_p, ClangToken),
    "clang_getTokenLocation": (Location, ctypes.c_void_p, ClangToken),
    "clang_getResultType": (Type, Type),
    "clang_getCursorBinaryOperatorKind": (ctypes.c_int, Cursor),
    "clang_getCursorUnaryOperatorKind": (ctypes.c_int, Cursor),
    "clang_Cursor_getVarDeclInitializer": (Cursor, Cursor),
    "clang_getCursorType": (Type, Cursor),
    "clang_getAddressSpace": (ctypes.c_uint, Type),
    "clang_getCanonicalType": (Type, Type),
    "clang_getPointeeType": (Type, Type),
    "clang_getArrayElementType": (Type, Type),
    "clang_getTypeDeclaration": (Cursor, Type),
    "clang_getTypedefDeclUnderlyingType": (Type, Cursor),
    "clang_getTypeSpelling": (String, Type),
    "clang_Type_getSizeOf": (ctypes.c_longlong, Type),
    "clang_getCursorPrintingPolicy": (ctypes.c_void_p, Cursor),
    "clang_PrintingPolicy_setProperty": (None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint),
    "clang_PrintingPolicy_dispose": (None, ctypes.c_void_p),
    "clang_getCursorPrettyPrinted": (String, Cursor, ctypes.c_void_p),
    "clang_isConstQualifiedType": (ctypes.c_uint, Type),
    "clang_isRestrictQualifiedType": (ctypes.c_uint, Type),
    "clang_Cursor_Evaluate": (ctypes.c_void_p, Cursor),
    "clang_EvalResult_getKind": (ctypes.c_int, ctypes.c_void_p),
    "clang_EvalResult_getAsLongLong": (ctypes.c_longlong, ctypes.c_void_p),
    "clang_EvalResult_dispose": (None, ctypes.c_void_p),
    "clang_getNumDiagnostics": (ctypes.c_uint, ctypes.c_void_p),
    "clang_getDiagnostic": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint),
    "clang_disposeDiagnostic": (None, ctypes.c_void_p),
    "clang_getDiagnosticSeverity": (ctypes.c_int, ctypes.c_void_p),
    "clang_getDiagnosticSpelling": (String, ctypes.c_void_p),
    "clang_getDiagnosticLocation": (Location, ctypes.c_void_p),
}


@dataclass(frozen=True)
class Library:
    """libclang, loaded."""

    path: str
    functions: Any
    index: int

    def text(self, string: String) -> str:
        """The text of a string, which is given back."""
        found: bytes | None = self.functions.clang_getCString(string)
        made = "" if found is None else found.decode(errors="replace")
        self.functions.clang_disposeString(string)
        return made

    def spelling(self, cursor: Cursor) -> str:
        """The name of what a cursor declares or refers to."""
        return self.text(self.functions.clang_getCursorSpelling(cursor))


@cache
def library() -> Library | None:
    """libclang, None where there is none that can be used; loaded at the first call."""
    for path in _candidates():
        try:
            functions = ctypes.CDLL(path)
            for name, (result, *arguments) in _FUNCTIONS.items():
                function = getattr(functions, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError):
            continue
        index = functions.clang_createIndex(0, 0)
        # A crash while it parses ends the parse, not the process. Its handlers of signals stay only meanwhile.
        functions.clang_toggleCrashRecovery(0)
        if index:
            return Library(path, functions, index)
    return None


def _candidates() -> Iterator[str]:
    """Where libclang may be: PyPI's first, then the system's."""
    try:
        spec = importlib.util.find_spec("clang")
    except (ImportError, ValueError):
        spec = None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield from (str(path) for path in sorted(Path(folder, "native").glob("*libclang*")) if path.suffix != ".py")
    if sys.platform == "linux":
        for release in _RELEASES:
            yield f"libclang-{release}.so.1"
            yield f"/usr/lib/llvm-{release}/lib/libclang.so.1"
    found = ctypes.util.find_library("clang")
    if found:
        yield found
