"""Mistakes with portbar's names in a text that a driver refused, which its messages do not show."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Final

from portbar.reading.found import Mistakes
from portbar.reading.tree import Token, Tree

#: Macros that declare a name, and those that stand for parameters.
_NAMING: Final = frozenset({"PORTBAR_ENTER", "PORTBAR_REDUCTION_SCRATCH"})
_PARAMETERS: Final = frozenset(f"PORTBAR_{kind}_PARAM" for kind in ("GRID", "REDUCTION", "WAIT", "SCAN"))
_GRID, _SCRATCH = "portbar_grid *", "portbar_scratch *"


def mistakes_in(tree: Tree, given: Collection[str], unknown: Collection[str], called: Collection[str]) -> Mistakes:
    """The mistakes in a tree that was made with `uses`, and with the macros `given` by build options.

    The driver calls some names `unknown`, and functions that are `called` with other arguments than they take.
    """
    tokens = tree.tokens()
    macros = tree.defined_macros() | set(given)
    return Mistakes(
        tuple(dict.fromkeys(name for name in _addressed(tokens) if name in unknown)),
        tuple(dict.fromkeys(name for name in _declared(tokens) if name in macros)),
        tuple(dict.fromkeys(_without_comma(tree, tokens))),
        {name: arguments for name in called if (arguments := _hidden_arguments(tree, name))},
    )


def _addressed(tokens: list[Token]) -> Iterator[str]:
    """The names whose address is the first argument of a call of portbar's."""
    for function, opening, sign, name in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        if function.text.startswith("portbar_") and (opening.text, sign.text) == ("(", "&"):
            yield name.text


def _declared(tokens: list[Token]) -> Iterator[str]:
    """The names that macros of portbar's declare."""
    for macro, opening, name in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if macro.text in _NAMING and opening.text == "(":
            yield name.text


def _without_comma(tree: Tree, tokens: list[Token]) -> Iterator[str]:
    """The macros of parameters that another parameter follows at once."""
    uses = {use.begin for use in tree.macro_uses() if use.name in _PARAMETERS}
    for macro, following in pairwise(tokens):
        if macro.begin in uses and macro.text in _PARAMETERS and following.is_word:
            yield macro.text


def _hidden_arguments(tree: Tree, name: str) -> str:
    """The arguments that a function of that name takes before its values; empty if it takes none."""
    for function in tree.declared_functions(name):
        kinds = [tree.type_name(one).replace("*__private", "*") for one in tree.parameters(function)[:2]]
        if kinds[:1] == [_SCRATCH]:
            return "scratch"
        if kinds == [_GRID, _SCRATCH]:
            return "&grid, scratch"
    return ""
