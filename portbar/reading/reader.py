"""A program's text in, its misuse out: what `Program` and `portbar check` ask."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from portbar.reading import atomic_types
from portbar.reading.arms import decided
from portbar.reading.checks import with_checks
from portbar.reading.divergence import Analysis
from portbar.reading.edits import UnformedError
from portbar.reading.endless import Loops
from portbar.reading.expansion import written_out
from portbar.reading.facts import facts_of
from portbar.reading.found import Checked, Facts, Mistakes, OpenclAtomic, Place, Unread
from portbar.reading.libclang import library
from portbar.reading.loop_bounds import cuts
from portbar.reading.mistakes import mistakes_in
from portbar.reading.names import closure, definitions, macros_of
from portbar.reading.normal import normal_form
from portbar.reading.opencl import BASE, KNOWN, PRINTF
from portbar.reading.options import given_macros, unquoted, words_of
from portbar.reading.outline import SHORT, outline_of
from portbar.reading.report import Misuse, bound, described, failure, store
from portbar.reading.slices import Slices
from portbar.reading.stores import Stores
from portbar.reading.tree import Outline, Tree, UnparsedError
from portbar.rendering.source import without_comments, words_in

#: Tokens of macros that are more than expressions.
_STATEMENT: Final = re.compile(r"[;{}]|\b(?:if|else|for|while|do|switch|case|default|return|break|continue|goto)\b")
#: Control flow in a function that cannot be read otherwise.
_BRANCH: Final = re.compile(r"[?]|&&|[|][|]|\b(?:if|else|for|while|do|switch|return|goto|PORTBAR_\w+)\b")
#: Names made of pieces, or spelled otherwise.
_HIDDEN: Final = re.compile(r"##|%:%:|\\u")
#: The remedy for code that libclang cannot parse.
_READABLE: Final = "Move what only this device's compiler knows into a function without barriers."
_FUNCTION: Final = re.compile(r"(\w+)\(")
#: Extensions of which the front end has the macros.
_KHRONOS: Final = ("cl_khr_", "__opencl_c_")
_EXTENSION: Final = re.compile(r"-Dcl_\w+=1")
#: Bits of addresses of devices with small ones.
_SHORT_ADDRESS: Final = 32
#: Characters of an expression, of which a longer one would overflow the front end's stack.
_LONGEST: Final = 6_000
_ENDS: Final = ",{}"
#: Operators after each other, each of which takes as much of it.
_CHAIN: Final = re.compile(r"[-+!~](?:\s?[-+!~]){999}")
#: Marks of the functions that a program can misuse, in the declarations of headers.
_MARKS: Final = re.compile("PORTBAR_(?:CALLED_BY|(?:FALSE|TRUE)_AFTER|FALSE_IS|CUTS)")
#: Version of OpenCL C -> options of the front end, which always reads 2.0: its pointers have any address space, as those
#: of portbar's functions on all devices.
_STANDARDS: Final = {
    **{
        f"CL1.{minor}": ("-U__OPENCL_C_VERSION__", f"-D__OPENCL_C_VERSION__={version}", "-UCL_VERSION_2_0")
        for minor, version in ((0, 100), (1, 110), (2, 120))
    },
    "CL2.0": (),
    "CL3.0": ("-U__OPENCL_C_VERSION__", "-D__OPENCL_C_VERSION__=300", "-DCL_VERSION_3_0=300"),
}


@dataclass(frozen=True)
class Reading:
    """The findings in a program."""

    misuses: tuple[Misuse, ...] = ()
    #: Parts that the front end could not parse, so that misuse in them is not found.
    unread: tuple[Unread, ...] = ()
    #: Its kernels and the names that it uses; None of a program that has no tree, or needs none.
    facts: Facts | None = None


def is_available() -> bool:
    """Whether there is a libclang, without which nothing is read."""
    return library() is not None


def read(
    name: str,
    text: str,
    headers: Mapping[str, str],
    options: Sequence[str] = (),
    *,
    extensions: Sequence[str] | None = None,
    defined: Sequence[str] = (),
    address_bits: int | None = None,
    asked: bool = False,
) -> Reading:
    """Find the calls of a program that not all reach who must make them.

    Parameters
    ----------
    name, text : str
        The file's name in messages, and its text, in which `#line` names others.
    headers : mapping of str to str
        What it may include, as ``"portbar/device_barrier.h"``, as declarations for this reader.
    options : sequence of str
        The author's build options.
    extensions : sequence of str, optional
        Those of the device; all that the front end knows by default.
    defined : sequence of str
        Macros that headers define for the device.
    address_bits : int, optional
        Those of the device's pointers and of `size_t`; 64 by default.
    asked : bool
        Whether facts are wanted even of a program that has no call which many must make.
    """
    if library() is None:
        return Reading()
    made = _front_end_options(options, defined, extensions)
    if address_bits == _SHORT_ADDRESS:
        made += ("-target", "spir")
    return _read(name, text, tuple(headers.items()), made, asked)


def tree_of(
    name: str,
    text: str,
    options: Sequence[str],
    extensions: Sequence[str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Tree:
    """The whole tree of a program; the parameters are those of `read`, without `headers` it includes none of portbar's.

    `UnparsedError` if there is none. The caller closes it.
    """
    if library() is None:
        raise UnparsedError("libclang was not found")
    known = {"opencl-c-base.h": BASE + PRINTF, **(headers or {})}
    return Tree(name, text, known, _front_end_options(options, (), extensions))


def atomic_type_given(
    name: str,
    text: str,
    headers: Mapping[str, str],
    options: Sequence[str] = (),
    *,
    extensions: Sequence[str] | None = None,
    defined: Sequence[str] = (),
) -> OpenclAtomic | None:
    """The first object of OpenCL's own atomic types that one of portbar's functions is given.

    None if there is none, or the program cannot be parsed. The parameters are those of `read`.
    """
    if not atomic_types.may_be_given(text, options) or library() is None:
        return None
    made = _front_end_options(options, defined, extensions)
    return _atomic_type_given(name, text, tuple(headers.items()), made)


@lru_cache(maxsize=64)
def _atomic_type_given(
    name: str, text: str, headers: tuple[tuple[str, str], ...], options: tuple[str, ...]
) -> OpenclAtomic | None:
    if _is_long(text) or _CHAIN.search(text):
        return None
    try:
        tree = _guessed(name, text, {"opencl-c-base.h": BASE, **atomic_types.with_objects(dict(headers))}, options)
    except UnparsedError:
        return None
    try:
        return atomic_types.given(tree)
    finally:
        tree.close()


def mistakes(text: str, options: Sequence[str], unknown: Collection[str], called: Collection[str]) -> Mistakes:
    """The mistakes in a text that a driver refused, with portbar's headers in it.

    None are found without libclang, or where it cannot parse the text. The names are those of `mistakes_in`.
    """
    if library() is None or _is_long(text) or _CHAIN.search(text):
        return Mistakes()
    try:
        tree = Tree("program.cl", text, {"opencl-c-base.h": BASE}, _front_end_options(options, (), None), uses=True)
    except UnparsedError:
        return Mistakes()
    try:
        return mistakes_in(tree, [one.word for one in given_macros(options) if one.body is not None], unknown, called)
    finally:
        tree.close()


def concerns(text: str, headers: Mapping[str, str], options: Sequence[str] = ()) -> bool:
    """Whether a program may have a call that many must make."""
    names = closure(macros_of(text, options), _declared(tuple(headers.items())))
    return _HIDDEN.search(text) is not None or not names.isdisjoint(words_in(text))


def in_normal_form(
    name: str,
    text: str,
    headers: Mapping[str, str],
    options: Sequence[str],
    *,
    barrier: str,
    work: str,
    wide: bool,
    extensions: Sequence[str] | None = None,
    defined: Sequence[str] = (),
) -> str | None:
    """A program in normal form; None of one that has no call that many must make.

    The parameters are those of `read` and of `normal_form`.

    Raises
    ------
    UnformedError
        The program cannot be brought into the form.
    """
    if not concerns(text, headers, options):
        return None
    if library() is None:
        remedy = (
            "pip install libclang, or the system's package where there is no wheel, such as libclang1-19 (17 or later)."
        )
        raise UnformedError("a program, since libclang was not found", remedy=remedy)
    made = _front_end_options(options, defined, extensions)
    return _formed(name, text, tuple(headers.items()), made, tuple(options), barrier, work, wide)


@lru_cache(maxsize=64)
def _formed(
    name: str,
    text: str,
    headers: tuple[tuple[str, str], ...],
    front_end: tuple[str, ...],
    options: tuple[str, ...],
    barrier: str,
    work: str,
    wide: bool,
) -> str:
    files = dict(headers)
    given = {one.word: f"{one.name} {one.body}" for one in given_macros(options) if one.body is not None}
    bodies = macros_of(text, options)
    owned = frozenset(bodies)
    # A macro that stands for itself is a function to the front end.
    endless = {macro for macro, words in bodies.items() if _reaches(bodies, words, macro)}
    to_write = _structural_macros(text, files, options) - endless
    while True:
        if to_write:
            text = written_out(name, text, files, front_end, to_write, given)
        try:
            return _in_form(name, text, files, front_end, owned, barrier, work, wide)
        except UnformedError as error:
            if error.span is not None:
                text = decided(name, text, files, front_end, error.span)
            elif error.macro and error.macro not in to_write | endless:
                to_write |= {error.macro}
            else:
                raise


def _in_form(
    name: str,
    text: str,
    headers: Mapping[str, str],
    options: tuple[str, ...],
    macros: frozenset[str],
    barrier: str,
    work: str,
    wide: bool,
) -> str:
    try:
        names = _declared(tuple(headers.items()))
        tree = _tree(name, text, {"opencl-c-base.h": BASE, **headers}, options, names)
    except UnparsedError as error:
        raise UnformedError(f"a program that cannot be read ({error})", remedy=_READABLE) from None
    try:
        reached = _reached(tree, macros_of(text, options), names)
        for function in tree.whole:
            broken = tree.unread_in(function)
            is_concerned = tree.spelling(function) in reached
            if broken and is_concerned and _BRANCH.search(without_comments(tree.source(function), keep_strings=False)):
                part = f"a function that cannot be read ({broken[0].reason})"
                raise UnformedError(part, tree.line(function), remedy=_remedy(broken[0].reason))
        outside = tree.unread_outside() if tree.outline is None else []
        if outside and names & words_in(tree.outside()):
            line, unread = outside[0]
            part = f"a function that cannot be read ({unread.reason})"
            raise UnformedError(part, line, remedy=_remedy(unread.reason))
        return normal_form(tree, barrier=barrier, work=work, wide=wide, macros=macros)
    except RecursionError:
        raise UnformedError("a function that is nested too deeply", remedy="Split it into several.") from None
    finally:
        tree.close()


def _remedy(reason: str) -> str:
    """A remedy for a function that cannot be read."""
    if "address space" in reason:
        # Compilers differ about pointers that name none.
        return (
            "Name the address spaces of pointers: PORTBAR_SCRATCH_PARAM scratch and private portbar_grid *grid as parameters "
            "of helper functions, global, local or private elsewhere."
        )
    return _READABLE


def checked(
    name: str,
    text: str,
    headers: Mapping[str, str],
    options: Sequence[str],
    *,
    defined: Sequence[str],
    header: str,
    wide: bool,
) -> Checked | Unread:
    """A program with checks of its conditions on the device, or why it has none.

    The parameters are those of `read` and of `with_checks`.
    """
    if not concerns(text, headers, options):
        return Checked(text, {})
    if library() is None:
        return Unread(Place(name, 1), "there is no libclang")
    # Those of build options stay, since the definitions are elsewhere.
    macros = _structural_macros(text, headers, options) & frozenset(macros_of(text, ()))
    made = _front_end_options(options, defined, None)
    return _checked(name, text, tuple(headers.items()), made, macros, header, wide)


@lru_cache(maxsize=64)
def _checked(
    name: str,
    text: str,
    headers: tuple[tuple[str, str], ...],
    options: tuple[str, ...],
    macros: frozenset[str],
    header: str,
    wide: bool,
) -> Checked | Unread:
    try:
        written = written_out(name, text, dict(headers), options, macros) if macros else text
        made = with_checks(name, written, dict(headers), options, header=header, wide=wide)
        return made if made.conditions else Checked(text, {})
    except (UnformedError, UnparsedError, RecursionError) as error:
        return Unread(Place(name, 1), str(error))


def _structural_macros(text: str, headers: Mapping[str, str], options: Sequence[str]) -> frozenset[str]:
    """The author's macros that may hold a statement, or a call that many must make."""
    macros = macros_of(text, options)
    names = closure(macros, _declared(tuple(headers.items())))
    names |= {name for name, body in definitions(text, tuple(options)) if _STATEMENT.search(body)}
    return frozenset(closure(macros, names) & macros.keys())


def _reaches(bodies: Mapping[str, frozenset[str]], words: AbstractSet[str], name: str) -> bool:
    """Whether macros' bodies lead from some words to a name."""
    found, left = set(words), set(words)
    while left:
        left = set().union(*(bodies.get(word, frozenset()) for word in left)) - found
        found |= left
    return name in found


def _front_end_options(
    options: Sequence[str], defined: Sequence[str], extensions: Sequence[str] | None
) -> tuple[str, ...]:
    """The author's options that a front end takes, macros, folders and the version of the language, and the device's."""
    words = [unquoted(word) for word in words_of(options)]
    made: list[str] = [f"-D{name}" for name in defined]
    standard: tuple[str, ...] = ()
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if word in {"-D", "-U", "-I", "-include"} and place < len(words):
            made += [word, words[place]]
            place += 1
        elif word.startswith(("-D", "-U", "-I")) or word == "-cl-single-precision-constant":
            made.append(word)
        elif word.startswith("-cl-std=") and word[8:] in _STANDARDS:
            standard = _STANDARDS[word[8:]]
    if extensions is not None:
        made += ["-Xclang", f"-cl-ext={','.join(['-all', *(f'+{one}' for one in extensions)])}"]
        made += [f"-D{one}=1" for one in extensions if not one.startswith(_KHRONOS)]
    return ("-cl-std=CL2.0", *standard, *made)


@lru_cache(maxsize=256)
def _read(name: str, text: str, headers: tuple[tuple[str, str], ...], options: tuple[str, ...], asked: bool) -> Reading:
    macros = macros_of(text, options)
    names = closure(macros, _declared(headers))
    is_hidden = _HIDDEN.search(text) is not None
    if not asked and not is_hidden and names.isdisjoint(words_in(text)):
        return Reading()
    if _is_long(text) or _CHAIN.search(text):
        return Reading(unread=(Unread(Place(name, 1), "an expression in the program is too long"),))
    files = {"opencl-c-base.h": BASE, **dict(headers)}
    try:
        tree = _tree(name, text, files, options, names)
    except UnparsedError as error:
        return Reading(unread=(Unread(Place(name, 1), str(error)),))
    try:
        analysis, loops, stores = Analysis(tree), Loops(tree), Stores(tree)
        more: list[Misuse] = []
        unread: list[Unread] = list(tree.missing)
        # Promises on memory may be broken in any function.
        reached = None if is_hidden else _reached(tree, macros, names)
        if reached is not None:
            tree.slice = Slices(tree, macros, definitions(text, options), reached).of
        for function in tree.whole:
            is_concerned = reached is None or tree.spelling(function) in reached
            if not is_concerned and "restrict" not in tree.source(function):
                continue
            broken = tree.unread_in(function)
            if broken:
                unread += broken[:1] if is_concerned else []
                continue
            try:
                if is_concerned:
                    analysis.analyse(function)
                    more += [failure(tree, one) for one in loops.of(function)]
                    more += [bound(tree, one) for one in cuts(tree, function)]
                more += [store(tree, one) for one in stores.of(function)]
            except Exception as error:  # noqa: BLE001 (a fault of the reader's must not stop what the driver takes)
                is_deep = "RecursionError" in repr(error)  # which ctypes may have wrapped
                reason = "it is nested too deeply" if is_deep else repr(error)
                unread.append(Unread(tree.place(function), reason))
                analysis = Analysis(tree, findings=analysis.findings)
        found = [described(tree, finding) for finding in analysis.findings.values()]
        facts = facts_of(tree, [one for one in tree.whole if reached is None or tree.spelling(one) in reached])
        return Reading(tuple(sorted((*found, *more), key=lambda one: one.place)), tuple(unread), facts)
    finally:
        tree.close()


def _is_long(text: str) -> bool:
    """Whether an expression is too long."""
    if len(text) <= _LONGEST:
        return False
    for end in _ENDS:
        text = text.replace(end, ";")
    return max(map(len, text.split(";"))) > _LONGEST


def _tree(
    name: str,
    text: str,
    files: Mapping[str, str],
    options: tuple[str, ...],
    names: AbstractSet[str],
) -> Tree:
    """A program as libclang parses it, without parts of a long one that cannot matter to calls of functions of some names.

    Names that the front end does not know count as a vendor's own.
    """
    if len(text) > SHORT and not _HIDDEN.search(text):
        reaching = frozenset(closure(macros_of(text, options), names))
        # Mostly, all devices compile the same declarations.
        for given in dict.fromkeys((_without_device(options), options)):
            outline = outline_of(name, text, tuple(files.items()), given, reaching)
            if outline is not None:
                tree = _guessed(name, text, files, options, outline=outline)
                if outline.is_of(tree):
                    return tree
                tree.close()
    return _guessed(name, text, files, options)


def _without_device(options: tuple[str, ...]) -> tuple[str, ...]:
    """Options of the front end without those that say what a device has."""
    of_device = {"-Xclang", *(option for standard in _STANDARDS.values() for option in standard)}
    return tuple(
        option
        for option in options
        if option not in of_device and not option.startswith("-cl-ext=") and not _EXTENSION.fullmatch(option)
    )


def _guessed(
    name: str, text: str, files: Mapping[str, str], options: Sequence[str], *, outline: Outline | None = None
) -> Tree:
    tree = Tree(name, text, files, options, outline=outline)
    if not tree.undeclared:
        return tree
    unknown = [
        f"-D{one}(...)=PORTBAR_UNKNOWN(__VA_ARGS__)" if is_called else f"-D{one}=0"
        for one, is_called in tree.undeclared.items()
    ]
    tree.close()
    tree = Tree(name, text, files, (*options, *unknown), outline=outline)
    tree.has_errors = True
    return tree


def _reached(tree: Tree, macros: Mapping[str, frozenset[str]], names: set[str]) -> AbstractSet[str]:
    """`names`, and those of functions and macros that may reach them, by the names in their text."""
    if tree.outline is not None:
        return tree.outline.reached
    bodies = dict(macros)
    for node in tree.functions.values():
        name = tree.spelling(node)
        # Several may have one name.
        bodies[name] = bodies.get(name, frozenset()) | words_in(tree.source(node))
    return closure(bodies, names)


@lru_cache(maxsize=32)
def _declared(headers: tuple[tuple[str, str], ...]) -> set[str]:
    """Names of the functions that a program can misuse, and of portbar's macros that call them."""
    found = {name for name, known in KNOWN.items() if known.caller is not None}
    for _, text in headers:
        for line in text.replace("\\\n", " ").split("\n"):
            if _MARKS.search(line) and not line.startswith("#"):
                found |= set(_FUNCTION.findall(line)) - {"__attribute__"}
    for _, text in headers:
        found = closure(macros_of(text, ()), found)
    return found
