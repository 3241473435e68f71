"""Kinds of cursors, and operators, as libclang's interface numbers them."""

from __future__ import annotations

from typing import Final

REFERENCE, MEMBER, CALL, PAREN, UNARY, SUBSCRIPT, BINARY, COMPOUND, TERNARY = (101, 102, 103, *range(111, 117))
#: Implicit conversions, and whatever else the interface does not tell apart.
CONVERSION: Final = 100
CAST, COMPOUND_LITERAL, LIST, STATEMENTS, SIZEOF = 117, 118, 119, 121, 136
LITERALS: Final = range(106, 111)
#: `true` and `false`.
TRUTH: Final = 130
LABEL, BLOCK, CASE, DEFAULT, IF, SWITCH, WHILE, DO, FOR, GOTO, _, CONTINUE, BREAK, RETURN = range(201, 215)
#: Statements, but not expressions.
STATEMENT: Final = range(200, 240)
DECLARATIONS, NOTHING, ASSEMBLY, LABEL_REFERENCE = 231, 230, 215, 48
ENUM_CONSTANT: Final = 7

MUL, DIV, REM, ADD, SUB, SHL, SHR = range(3, 10)
LT, GT, LE, GE, EQ, NE, AND = range(11, 18)
BOTH, EITHER, ASSIGN, COMMA = 20, 21, 22, 33
#: From `*=` to its operator.
FROM_COMPOUND: Final = 20
COMPOUND_BITS: Final = 13
CHANGES: Final = (UNARY, COMPOUND)
INCREMENTS, ADDRESS, DEREFERENCE, MINUS, NOT, LOGICAL_NOT = range(1, 5), 5, 6, 8, 9, 10
