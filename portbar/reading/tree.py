"""A program as libclang parses it: its functions as trees, the places of their parts, and what could not be parsed."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from portbar.reading import kinds, libclang
from portbar.reading.apart import around, possible_macros
from portbar.reading.found import Place, Unread
from portbar.reading.libclang import VISITOR, Library, Location, String, Type, UnsavedFile, library
from portbar.rendering.source import without_comments

#: The folder, in memory, of the headers that a program may include.
_FOLDER: Final = "/portbar-reading"
#: Parse on after a missing file.
_KEEP_GOING: Final = 0x200
#: Note where macros are used.
_DETAILED: Final = 1
#: Go past what functions do.
_SKIMMED: Final = 0x40
_ERROR: Final = 3
#: Global, local and constant memory.
_SHARED: Final = frozenset({1, 2, 3})
#: Kinds of types: long and unsigned long, each in two spellings.
_WIDE: Final = frozenset({10, 11, 18, 19})
_POINTER: Final = 101
_ATOMIC: Final = 177
_ARRAYS: Final = frozenset(range(112, 117))
#: Types by a name of their own.
_NAMED: Final = frozenset({107, 119})
#: A kind of result.
_INTEGER: Final = 1

# Kinds of cursors that the interface of libclang numbers.
FUNCTION, VARIABLE, PARAMETER = 8, 9, 10
TYPEDEF: Final = 20
ANNOTATION: Final = 406
#: Kinds of what a text may declare outside of functions.
_DECLARED: Final = frozenset({2, 3, 5, FUNCTION, VARIABLE, TYPEDEF})
#: A property of printed declarations: without bodies.
_TERSE: Final = 17
_DEFINITION, _USE = 501, 502
#: Kinds of tokens.
_KEYWORD, _IDENTIFIER, _COMMENT = 1, 2, 4
#: Implicit conversions, and parentheses.
_WRAPPERS: Final = frozenset({100, 111})
#: References to types, namespaces and members; those to labels are needed.
_REFERENCES: Final = frozenset(range(40, 51)) - {48}
_ENDED: Final = 0
_SKIPPED: Final = 1
_ENTERED: Final = 2

#: Errors that leave the tree as it is: functions of a vendor's own, and assembly for another processor.
_HARMLESS: Final = re.compile(r"implicit declaration of function|call to undeclared function|\basm\b|inline assembly")

_UNDECLARED: Final = re.compile(r"undeclared identifier '(\w+)'")
_CALLED: Final = re.compile(rb"([A-Za-z_]\w*)\s*\(")
#: Address spaces and qualifiers of a type.
_QUALIFIERS: Final = re.compile(r"\b(?:__\w+|const|volatile|restrict) ")
_UNSIGNED: Final = re.compile(r"\bunsigned (char|short|int|long)\b")
#: Errors after which the front end misses the rest of a text, or a file.
_MISSING: Final = re.compile(r"file not found$|nesting level exceeded")

#: In a function's head.
_KERNEL: Final = re.compile(r"\b(?:__)?kernel\b")
_REQUIRED: Final = re.compile(r"\breqd_work_group_size\((\d+), (\d+), (\d+)\)")

_DIRECTIVE: Final = re.compile(r"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)

_lock: Final = threading.RLock()


class Node:
    """One expression, statement or declaration."""

    __slots__ = ("cursor", "key", "kids", "kind")

    def __init__(self, cursor: Any, kind: int, key: int) -> None:
        self.cursor, self.kind, self.key = cursor, kind, key
        self.kids: list[Node] = []


@dataclass(frozen=True)
class MacroUse:
    """A use of a macro: its place in the text, in bytes, and its definition there, None for one that is elsewhere."""

    name: str
    begin: int
    end: int
    definition: str | None


@dataclass(frozen=True)
class Token:
    """A token of the text, and its place, in bytes."""

    text: str
    begin: int
    is_word: bool


@dataclass(frozen=True)
class Top:
    """A declaration outside functions: its node, and its place in the text, in bytes, without a body that was skimmed."""

    node: Node
    begin: int
    end: int


@dataclass(frozen=True)
class Outline:
    """A program whose needless parts are empty."""

    #: As long as the program, with the same lines.
    text: str
    #: Where its declarations begin, in bytes.
    begins: tuple[int, ...]
    #: The names that reach a call which many must make.
    reached: frozenset[str]
    #: Where the functions begin that are empty.
    emptied: frozenset[int]

    def is_of(self, tree: Tree) -> bool:
        """Whether a tree of its text has the program's declarations."""
        return self.begins == tuple(top.begin for top in tree.tops)


class Tree:
    """A parsed program. Its nodes hold on to libclang's memory, which `close` frees.

    Parameters
    ----------
    name, text : str
    headers : mapping of str to str
        What it may include.
    options : sequence of str
        Options of the front end.
    uses : bool
        Whether to note the uses of macros.
    skims : bool
        Whether to go past what functions do, which then count as declared only.
    outline : Outline, optional
        Of the program, whose text is parsed in its place.
    """

    def __init__(
        self,
        name: str,
        text: str,
        headers: Mapping[str, str],
        options: Sequence[str] = (),
        *,
        uses: bool = False,
        skims: bool = False,
        outline: Outline | None = None,
    ) -> None:
        found = library()
        if found is None:
            raise RuntimeError("libclang is not loaded")
        self._library: Library = found
        self._clang = found.functions
        self.name, self.outline = name, outline
        #: Reads what is needed of a function's body: all of it if that is None.
        self.slice: Callable[[Node], list[Node]] | None = None
        self._bodies: dict[int, Node] = {}
        self._bytes = text.encode()
        self._flags = _KEEP_GOING | (_DETAILED if uses else 0) | (_SKIMMED if skims else 0)
        # Names of files that are not text would end the list.
        self._file = name.replace("\0", " ")
        self._unit = self._parse(self._bytes if outline is None else outline.text.encode(), headers, options)
        self._spelled: dict[int, str] = {}
        self._annotated: dict[int, tuple[str, ...]] = {}
        # Facts about nodes, from libclang.
        self._calls: dict[int, tuple[int, str, tuple[str, ...]]] = {}
        self._references: dict[int, tuple[int, int]] = {}
        self._operators: dict[int, int] = {}
        #: Names that the text uses and does not declare, and whether as functions: those of a vendor's, maybe.
        self.undeclared: dict[str, bool] = {}
        #: Whether the front end found anything wrong, so that it may have guessed types.
        self.has_errors = False
        #: Files that were not found.
        self.missing: list[Unread] = []
        self._unread = self._errors()
        #: Definitions by the address of their declaration, in order.
        self.functions: dict[int, Node] = {}
        self._extents: dict[int, tuple[int, int]] = {}
        self._by_name: dict[str, list[int]] = {}
        self._all = self._children(self._clang.clang_getTranslationUnitCursor(self._unit), deep=False)
        for node in self._all:
            if node.kind == FUNCTION and self._is_body(node):
                self.functions[node.key] = node
                self._by_name.setdefault(self.spelling(node), []).append(node.key)

    def close(self) -> None:
        """Free libclang's memory."""
        if self._unit:
            self._clang.clang_disposeTranslationUnit(self._unit)
            self._unit = None

    def _parse(self, text: bytes, headers: Mapping[str, str], options: Sequence[str]) -> Any:
        name = self._file
        macros = possible_macros(text.decode(), options)
        files = {f"{_FOLDER}/{header}": around(given, macros).encode() for header, given in headers.items()}
        files[name] = text
        unsaved = (UnsavedFile * len(files))(
            *(UnsavedFile(path.encode(), contents, len(contents)) for path, contents in files.items())
        )
        given = [
            *("-x", "cl", "-w", "-Dasm=__asm__", "-ferror-limit=0", "-fno-spell-checking", "-target", "spir64"),
            *("-Xclang", "-fdeclare-opencl-builtins", "-I", _FOLDER),
            *options,
        ]
        arguments = (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
        unit = ctypes.c_void_p()
        with _lock:
            self._clang.clang_toggleCrashRecovery(1)
            try:
                status = self._clang.clang_parseTranslationUnit2(
                    *(self._library.index, name.encode(), arguments, len(given)),
                    *(unsaved, len(files), self._flags, ctypes.byref(unit)),
                )
            finally:
                self._clang.clang_toggleCrashRecovery(0)
        if status or not unit:
            raise UnparsedError(f"libclang ended with status {status}")
        return unit

    def _errors(self) -> list[tuple[int, Unread]]:
        """The parts that could not be parsed, each with its place in the text, -1 for those of headers."""
        found: list[tuple[int, Unread]] = []
        for number in range(self._clang.clang_getNumDiagnostics(self._unit)):
            made = self._clang.clang_getDiagnostic(self._unit, number)
            if self._clang.clang_getDiagnosticSeverity(made) >= _ERROR:
                self.has_errors = True
                reason = self._library.text(self._clang.clang_getDiagnosticSpelling(made))
                location = self._clang.clang_getDiagnosticLocation(made)
                unread = Unread(self._presumed(location), reason)
                unknown = _UNDECLARED.search(reason)
                if _MISSING.search(reason):
                    self.missing.append(unread)
                elif not _HARMLESS.search(reason):
                    # A macro's definition may be elsewhere, as in the options.
                    is_own = self._expanded_in(location) == self._own_file
                    found.append((self._offset(location) if is_own else -1, unread))
                if unknown:
                    self.undeclared[unknown[1]] = unknown[1].encode() in self._called_names
            self._clang.clang_disposeDiagnostic(made)
        return found

    @cached_property
    def _called_names(self) -> frozenset[bytes]:
        """The names in the text that arguments follow."""
        return frozenset(_CALLED.findall(self._bytes))

    def _children(self, cursor: Any, *, deep: bool, reads: Callable[[Node, Node], bool] | None = None) -> list[Node]:
        """The children of a cursor, with all that is below them if `deep`, or below those that `reads` is true of.

        `reads` gets a child and its parent.
        """
        root = Node(cursor, cursor.kind, 0)
        keys, nodes = [0], [root]
        interrupts: list[BaseException] = []

        def visit(child: Any, parent: Any, _: Any) -> int:
            try:
                kind = child.kind
                if kind in _REFERENCES:
                    return _SKIPPED
                above = parent.first if parent.kind < 100 else parent.second
                while len(keys) > 1 and keys[-1] != above:
                    keys.pop()
                    nodes.pop()
                key = child.first if kind < 100 else child.second
                node = Node(child, kind, key)
                over = nodes[-1]
                over.kids.append(node)
                if not deep or (reads is not None and not reads(node, over)):
                    return _SKIPPED
                keys.append(key)
                nodes.append(node)
            except BaseException as error:  # noqa: BLE001 (Ctrl-C, which ctypes would only print)
                interrupts.append(error)
                return _ENDED
            return _ENTERED

        self._clang.clang_visitChildren(cursor, VISITOR(visit), None)
        if interrupts:
            raise interrupts[0]
        return root.kids

    @cached_property
    def tops(self) -> list[Top]:
        """The declarations outside functions in the text, in order."""
        found = []
        for node in self._all:
            extent = self._clang.clang_getCursorExtent(node.cursor)
            file, begin = ctypes.c_void_p(), ctypes.c_uint()
            start = self._clang.clang_getRangeStart(extent)
            self._clang.clang_getExpansionLocation(start, ctypes.byref(file), None, None, ctypes.byref(begin))
            if file.value == self._own_file:
                found.append(Top(node, begin.value, self._offset(self._clang.clang_getRangeEnd(extent))))
        return found

    @cached_property
    def whole(self) -> list[Node]:
        """The functions whose bodies are not emptied, in order."""
        if self.outline is None:
            return list(self.functions.values())
        empty = {top.node.key for top in self.tops if top.begin in self.outline.emptied}
        return [node for key, node in self.functions.items() if key not in empty]

    def parameters(self, function: Node) -> list[Node]:
        """The parameters of a function whose body need not be read."""
        return [kid for kid in function.kids or self._children(function.cursor, deep=False) if kid.kind == PARAMETER]

    def prototypes(self) -> list[Node]:
        """The functions that the text declares without a body."""
        return [
            node for node in self._all if node.kind == FUNCTION and not self._is_body(node) and self.is_in_text(node)
        ]

    def _is_body(self, function: Node) -> bool:
        return bool(self._clang.clang_isCursorDefinition(function.cursor))

    def macro_uses(self) -> list[MacroUse]:
        """The uses of macros in the text, of a tree that was made with `uses`."""
        found = []
        for node in self._all:
            if node.kind != _USE or not self.is_in_text(node):
                continue
            cursor = self._clang.clang_getCursorReferenced(node.cursor)
            defined = Node(cursor, cursor.kind, 0)
            definition = None
            if defined.kind == _DEFINITION and self.is_in_text(defined):
                begin, end = self.file_extent(defined)
                definition = self._bytes[begin:end].decode(errors="replace")
            begin, end = self.file_extent(node)
            found.append(MacroUse(self.spelling(node), begin, end, definition))
        return found

    def tokens(self) -> list[Token]:
        """The tokens of the text that compilers take, without comments, of a tree that was made with `uses`."""
        whole = self._clang.clang_getCursorExtent(self._clang.clang_getTranslationUnitCursor(self._unit))
        made, count = ctypes.POINTER(libclang.ClangToken)(), ctypes.c_uint()
        self._clang.clang_tokenize(self._unit, whole, ctypes.byref(made), ctypes.byref(count))
        skipped = self.skipped()
        found = []
        for token in made[: count.value]:
            kind = self._clang.clang_getTokenKind(token)
            begin = self._file_offset(self._clang.clang_getTokenLocation(self._unit, token))
            if kind != _COMMENT and not any(first <= begin < last for first, last in skipped):
                text = self._library.text(self._clang.clang_getTokenSpelling(self._unit, token))
                found.append(Token(text, begin, kind in {_KEYWORD, _IDENTIFIER}))
        self._clang.clang_disposeTokens(self._unit, made, count)
        return found

    def declared_functions(self, name: str) -> list[Node]:
        """The functions of a name that the text declares or defines."""
        return [node for node in self._all if node.kind == FUNCTION and self.spelling(node) == name]

    def defined_macros(self) -> set[str]:
        """The macros that the text defines where compilers take it, of a tree that was made with `uses`."""
        return {self.spelling(node) for node in self._all if node.kind == _DEFINITION and self.is_in_text(node)}

    def skipped(self) -> list[tuple[int, int]]:
        """The parts of the text that no compiler takes, in bytes, of a tree that was made with `uses`."""
        found = self._clang.clang_getSkippedRanges(self._unit, self._own_file)
        if not found:
            return []
        ranges = found.contents
        parts = [self._file_range(one) for one in ranges.ranges[: ranges.count]]
        self._clang.clang_disposeSourceRangeList(found)
        return parts

    def is_in_text(self, node: Node) -> bool:
        """Whether a declaration is in the text, not in a header."""
        return self._file_of(node) == self._own_file

    @property
    def declarations(self) -> list[Node]:
        """The declarations outside of functions in the text, but for the functions that it defines."""
        nodes, found = self._all, []
        parts = [(0, len(nodes) - 1)]
        while parts:
            first, last = parts.pop()
            if first > last:
                continue
            file = self._file_of(nodes[first])
            if file == self._own_file:
                found.append(nodes[first])
                parts.append((first + 1, last))
            elif first < last and file != self._file_of(nodes[last]):
                middle = (first + last) // 2
                parts += [(middle + 1, last), (first, middle)]
            # A header is included once, so that no text is between two of its declarations.
        return [node for node in found if node.kind in _DECLARED and node.key not in self.functions]

    @cached_property
    def _own_file(self) -> int | None:
        """The text, as libclang names it."""
        found: int | None = self._clang.clang_getFile(self._unit, self._file.encode())
        return found

    def _file_of(self, node: Node) -> int | None:
        return self._expanded_in(self._clang.clang_getCursorLocation(node.cursor))

    def _expanded_in(self, location: Location) -> int | None:
        """The file of a location, of a macro's its use."""
        file = ctypes.c_void_p()
        self._clang.clang_getExpansionLocation(location, ctypes.byref(file), None, None, None)
        return file.value

    def children(self, node: Node, reads: Callable[[Node, Node], bool] | None = None) -> list[Node]:
        """The parts of a node, read anew, with all that is below them, or below those that `reads` is true of.

        It gets a part and the one around it.
        """
        return self._children(node.cursor, deep=True, reads=reads)

    def body(self, function: Node) -> Node:
        """A function with its parameters and statements, as far as they are needed, which are read at the first call."""
        if not function.kids:
            function.kids = self.children(function) if self.slice is None else self.slice(function)
        return function

    def whole_body(self, function: Node) -> Node:
        """A function with its parameters and all its statements."""
        if self.slice is None:
            return self.body(function)
        if function.key not in self._bodies:
            made = Node(function.cursor, function.kind, function.key)
            made.kids = self.children(function)
            self._bodies[function.key] = made
        return self._bodies[function.key]

    def defined(self, key: int, name: str) -> Node | None:
        """The definition of a function that a declaration belongs to, None for what the text does not define."""
        if key in self.functions:
            return self.functions[key]
        found = self._by_name.get(name, ())
        return self.functions[found[0]] if len(found) == 1 else None

    def reached(self, parts: Iterable[Node]) -> Iterator[Node]:
        """The functions of the program that some parts of it call, and all that these call, each once."""
        waiting, seen = list(parts), set[int]()
        while waiting:
            for one in below(waiting.pop()):
                called = self.defined(*self.called(one)[:2]) if one.kind == kinds.CALL else None
                if called is not None and called.key not in seen:
                    seen.add(called.key)
                    waiting.append(self.body(called))
                    yield called

    def referenced(self, node: Node) -> tuple[int, int]:
        """The kind and the address of what a reference or a call refers to; (0, 0) where that is unknown."""
        if node.key not in self._references:
            found = self._clang.clang_getCursorReferenced(node.cursor)
            self._references[node.key] = found.kind, found.first or 0
        return self._references[node.key]

    def called(self, node: Node) -> tuple[int, str, tuple[str, ...]]:
        """The address of the declaration of what a call calls, its name, and what that declaration is annotated with."""
        if node.key not in self._calls:
            self._calls[node.key] = self._declared(node)
        return self._calls[node.key]

    def _declared(self, node: Node) -> tuple[int, str, tuple[str, ...]]:
        found = self._clang.clang_getCursorReferenced(node.cursor)
        key = found.first or 0
        if key not in self._spelled:
            self._spelled[key] = self._library.spelling(found if key else node.cursor)
            self._annotated[key] = tuple(
                self._library.spelling(kid.cursor)
                for kid in (self._children(found, deep=False) if key and key not in self.functions else ())
                if kid.kind == ANNOTATION
            )
        return key, self._spelled[key], self._annotated[key]

    def spelling(self, node: Node) -> str:
        """The name that a declaration, a reference or a member has."""
        return self._library.spelling(node.cursor)

    def operator(self, node: Node) -> int:
        """The number of a binary operator in libclang's interface."""
        if node.key not in self._operators:
            self._operators[node.key] = int(self._clang.clang_getCursorBinaryOperatorKind(node.cursor))
        return self._operators[node.key]

    def unary(self, node: Node) -> int:
        """The number of a unary operator in libclang's interface."""
        if node.key not in self._operators:
            self._operators[node.key] = int(self._clang.clang_getCursorUnaryOperatorKind(node.cursor))
        return self._operators[node.key]

    def is_shared(self, node: Node) -> bool:
        """Whether a variable is in memory that other work-items see."""
        return self._clang.clang_getAddressSpace(self._clang.clang_getCursorType(node.cursor)) in _SHARED

    def is_constant(self, node: Node) -> bool:
        """Whether a value is in constant memory."""
        return "__constant " in self._library.text(
            self._clang.clang_getTypeSpelling(self._clang.clang_getCursorType(node.cursor))
        )

    def _type(self, node: Node) -> Type:
        """The type of a value, whatever names it has."""
        found: Type = self._clang.clang_getCanonicalType(self._clang.clang_getCursorType(node.cursor))
        return found

    def is_wide(self, node: Node) -> bool:
        """Whether a value is an integer of 64 bits."""
        return int(self._type(node).kind) in _WIDE

    def is_pointer(self, node: Node) -> bool:
        """Whether a value is a pointer."""
        return int(self._type(node).kind) == _POINTER

    def is_address(self, node: Node) -> bool:
        """Whether a value is a pointer or an array."""
        return int(self._type(node).kind) in {_POINTER, *_ARRAYS}

    def _pointed(self, kind: Type) -> Type:
        """The type that a pointer or an array of that type leads to."""
        is_pointer = int(kind.kind) == _POINTER
        found: Type = (self._clang.clang_getPointeeType if is_pointer else self._clang.clang_getArrayElementType)(kind)
        return found

    def atomic_type(self, pointer: Node) -> tuple[str, Place | None]:
        """The name of the atomic type that a pointer points to, "" of others, and where an author's type stands for it."""
        canonical = self._pointed(self._type(pointer))
        if int(self._clang.clang_getCanonicalType(canonical).kind) != _ATOMIC:
            return "", None
        place: Place | None = None
        kind: Type = self._clang.clang_getCursorType(pointer.cursor)
        while True:
            if int(kind.kind) in _NAMED:
                cursor = self._clang.clang_getTypeDeclaration(kind)
                declared = Node(cursor, cursor.kind, 0)
                if not self.is_in_text(declared):
                    return self.spelling(declared), place
                place = self.start(declared)
                kind = self._clang.clang_getTypedefDeclUnderlyingType(cursor)
            elif int(kind.kind) in {_POINTER, *_ARRAYS}:
                kind = self._pointed(kind)
            else:
                return self._library.text(self._clang.clang_getTypeSpelling(kind)), place

    def type_name(self, node: Node) -> str:
        """The type of a value as it is declared, without qualifiers."""
        found = self._library.text(self._clang.clang_getTypeSpelling(self._clang.clang_getCursorType(node.cursor)))
        return _QUALIFIERS.sub("", found)

    def written_type(self, node: Node) -> str:
        """The type of a value as it is declared, with its qualifiers."""
        return self._library.text(self._clang.clang_getTypeSpelling(self._clang.clang_getCursorType(node.cursor)))

    def canonical_type(self, node: Node) -> str:
        """The type of a value or a declaration, whatever names it has, without qualifiers, and as OpenCL C spells it."""
        found = _QUALIFIERS.sub("", self._library.text(self._clang.clang_getTypeSpelling(self._type(node))))
        return _UNSIGNED.sub(r"u\1", found)

    def size_of(self, node: Node) -> int | None:
        """The bytes of a value of this type; None of one whose layout is not known, such as a type without its definition."""
        size = int(self._clang.clang_Type_getSizeOf(self._type(node)))
        return size if size > 0 else None

    def is_kernel(self, function: Node) -> bool:
        """Whether a function is a kernel."""
        return _KERNEL.search(self._head(function)) is not None

    def required_size(self, kernel: Node) -> tuple[int, int, int] | None:
        """The `reqd_work_group_size` of a kernel, None where it states none."""
        found = _REQUIRED.search(self._head(kernel))
        return (int(found[1]), int(found[2]), int(found[3])) if found else None

    def _head(self, function: Node) -> str:
        """A function without its body, as the front end prints it: with the values of its attributes."""
        policy = self._clang.clang_getCursorPrintingPolicy(function.cursor)
        self._clang.clang_PrintingPolicy_setProperty(policy, _TERSE, 1)
        found = self._library.text(self._clang.clang_getCursorPrettyPrinted(function.cursor, policy))
        self._clang.clang_PrintingPolicy_dispose(policy)
        return found

    def is_read_only(self, node: Node) -> bool:
        """Whether a variable is a `const` and `restrict` pointer, through which a device may read as from a constant."""
        kind = self._type(node)
        pointee = self._clang.clang_getPointeeType(kind)
        return bool(self._clang.clang_isRestrictQualifiedType(kind) and self._clang.clang_isConstQualifiedType(pointee))

    def points_to_constant(self, node: Node) -> bool:
        """Whether a variable is a pointer to what is `const`."""
        return bool(self._clang.clang_isConstQualifiedType(self._clang.clang_getPointeeType(self._type(node))))

    def number(self, node: Node) -> int | None:
        """The value of a constant expression of integers, None of others."""
        result = self._clang.clang_Cursor_Evaluate(node.cursor)
        if not result:
            return None
        is_integer = self._clang.clang_EvalResult_getKind(result) == _INTEGER
        value = int(self._clang.clang_EvalResult_getAsLongLong(result)) if is_integer else None
        self._clang.clang_EvalResult_dispose(result)
        return value

    def initial(self, node: Node) -> Node | None:
        """The initial value of a variable, if it has one."""
        if not node.kids:
            return None
        found = self._clang.clang_Cursor_getVarDeclInitializer(node.cursor)
        key = found.second
        return next((kid for kid in node.kids if kid.key == key), None) if found.kind else None

    def unread_in(self, function: Node) -> list[Unread]:
        """The parts of a function that could not be parsed."""
        if not self._unread:
            return []
        begin, end = self.extent(function)
        return [unread for offset, unread in self._unread if begin <= offset < end]

    def unread_outside(self) -> list[tuple[int, Unread]]:
        """The parts outside of functions that could not be parsed, each with the 1-based line of the text."""
        if not self._unread:
            return []
        extents = [self.extent(node) for node in self.functions.values()]
        return [
            (self._bytes.count(b"\n", 0, offset) + 1, unread)
            for offset, unread in self._unread
            if not any(begin <= offset < end for begin, end in extents)
        ]

    def outside(self) -> str:
        """The text without functions, comments, strings and directives."""
        parts, done = [], 0
        for begin, end in sorted(self.extent(node) for node in self.functions.values()):
            parts.append(self._bytes[done:begin])
            done = max(done, end)
        parts.append(self._bytes[done:])
        code = without_comments(b" ".join(parts).decode(errors="replace"), keep_strings=False)
        return _DIRECTIVE.sub(" ", code)

    def line(self, node: Node) -> int:
        """The 1-based line of the text in which a node begins."""
        return self._bytes.count(b"\n", 0, self.extent(node)[0]) + 1

    def extent(self, node: Node) -> tuple[int, int]:
        """Where a node begins and ends in the text, in bytes; a macro's expansion counts as its use."""
        extent = self._clang.clang_getCursorExtent(node.cursor)
        begin = self._offset(self._clang.clang_getRangeStart(extent))
        return begin, self._offset(self._clang.clang_getRangeEnd(extent))

    @property
    def contents(self) -> bytes:
        """The text as it was parsed."""
        return self._bytes

    def file_extent(self, node: Node) -> tuple[int, int]:
        """Where a node is written, in bytes: an argument of a macro where it is given, other parts of a macro at its use."""
        return self._file_range(self._clang.clang_getCursorExtent(node.cursor))

    def _file_range(self, places: Any) -> tuple[int, int]:
        begin = self._file_offset(self._clang.clang_getRangeStart(places))
        return begin, self._file_offset(self._clang.clang_getRangeEnd(places))

    def file_place(self, node: Node) -> int:
        """Where the name of a declaration is written in the text, in bytes."""
        return self._file_offset(self._clang.clang_getCursorLocation(node.cursor))

    def _file_offset(self, location: Location) -> int:
        offset = ctypes.c_uint()
        self._clang.clang_getFileLocation(location, None, None, None, ctypes.byref(offset))
        return offset.value

    def result_type(self, function: Node) -> str:
        """The type of what a function returns, as it is written."""
        kind = self._clang.clang_getResultType(self._clang.clang_getCursorType(function.cursor))
        return self._library.text(self._clang.clang_getTypeSpelling(kind))

    def is_void(self, node: Node) -> bool:
        """Whether an expression has no value."""
        return (
            self._library.text(self._clang.clang_getTypeSpelling(self._clang.clang_getCursorType(node.cursor)))
            == "void"
        )

    def source(self, node: Node) -> str:
        """The text of a node in one line."""
        begin, end = self.extent(node)
        return self.between(begin, end)

    def between(self, begin: int, end: int) -> str:
        """The text between two places in one line, without comments."""
        found = self._bytes[begin:end].decode(errors="replace")
        return " ".join(re.sub(r"/\*.*?\*/|//[^\n]*", " ", found, flags=re.DOTALL).split())

    def semicolons(self, node: Node, parts: Sequence[Node], body: Node) -> list[int] | None:
        """How many semicolons precede each part of the head of a `for`; None where a macro has it."""
        at, _ = self.extent(node)
        end, _ = self.extent(body)
        found: list[int] = []
        count = 0
        for part in parts:
            begin, stop = self.extent(part)
            if not at <= begin < stop <= end or (self._bytes[at : at + 3] != b"for" and not found):
                return None
            count += self.between(at, begin).count(";")
            found.append(count)
            count += self._bytes[begin:stop].endswith(b";")
            at = stop
        return found

    def word_at(self, offset: int) -> str:
        """The identifier that begins at a place of the text, "" if there is none."""
        found = re.match(rb"[A-Za-z_]\w*", self._bytes[offset : offset + 200])
        return found[0].decode() if found else ""

    def place(self, node: Node) -> Place:
        """Where a node is in the author's files."""
        return self._presumed(self._clang.clang_getCursorLocation(node.cursor))

    def start(self, node: Node) -> Place:
        """Where a node begins in the author's files."""
        return self._presumed(self._clang.clang_getRangeStart(self._clang.clang_getCursorExtent(node.cursor)))

    def start_of_referenced(self, node: Node) -> Place | None:
        """Where the declaration begins that a reference, a member or a call refers to; None if it is not in the text."""
        cursor = self._clang.clang_getCursorReferenced(node.cursor)
        declared = Node(cursor, cursor.kind, 0)
        return self.start(declared) if self.is_in_text(declared) else None

    def _offset(self, location: Location) -> int:
        offset = ctypes.c_uint()
        self._clang.clang_getExpansionLocation(location, None, None, None, ctypes.byref(offset))
        return offset.value

    def _presumed(self, location: Location) -> Place:
        file, line, column = String(), ctypes.c_uint(), ctypes.c_uint()
        self._clang.clang_getPresumedLocation(location, ctypes.byref(file), ctypes.byref(line), ctypes.byref(column))
        return Place(self._library.text(file), line.value, column.value)


def below(node: Node) -> Iterator[Node]:
    """All parts of a node, from the outside to the inside, in the order of the text."""
    stack = node.kids[::-1]
    while stack:
        one = stack.pop()
        yield one
        stack += one.kids[::-1]


def bare(node: Node) -> Node:
    """An expression without parentheses and implicit conversions."""
    while node.kind in _WRAPPERS and len(node.kids) == 1:
        node = node.kids[0]
    return node


class UnparsedError(Exception):
    """libclang gave no tree."""
