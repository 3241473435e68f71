"""A glance at a text that spares a start the reader says nothing else than the reader."""

from __future__ import annotations

import pytest

from portbar.launching import build, request
from portbar.launching.parameters import bytes_of, scalar_of
from portbar.reading import words
from portbar.reading.encoding import printable
from portbar.reading.own_headers import may_include_more

TEXTS = [
    "",
    "kernel void k() {}",
    '#include "portbar/atomics.h"',
    "#include <portbar/atomics.h>\n# include  <portbar/scan.h>",
    '#include "own.h"',
    '#include "portbar/atomics.h"\n#include "own.h"',
    '#include\t"portbar/atomics.h"',
    "#incl\\\nude OTHER",
    "#incl\\\r\nude OTHER",
    "%:import <a>",
    "#if __has_embed(<a>)",
    "/* include */ int embedded;",
    'constant char a[] = "include <portbar/";',
    "/* \u00e9\udcff */ int a;",
    "int \udcff;",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_glance_says_what_the_reader_says(text: str) -> None:
    assert request._may_include_more(text) is may_include_more(text)
    assert request._printable(text) == printable(text)
    for options in ((), ("-include", "own.h"), ("-DA=1",)):
        assert build._reads_files(text, options) is words.reads_files(text, options)
    assert build._FILE_WORDS == words._FILE_WORDS


@pytest.mark.parametrize(
    ("type_name", "scalar", "size"),
    [
        ("float", "float", 4),
        ("const float", "float", None),
        ("unsigned int", "unsigned int", 4),
        ("int3", "int", 16),
        ("double16", "double", 128),
        ("__global uchar4*", "uchar", None),
        ("volatile  unsigned   long*", "unsigned long", None),
        ("int5", None, None),
        ("int33", None, None),
        ("4", None, None),
        ("", None, None),
        ("image2d_t", None, None),
        ("float4x4", None, None),
    ],
)
def test_the_parts_of_a_type_s_name_are_known(type_name: str, scalar: str | None, size: int | None) -> None:
    assert scalar_of(type_name) == scalar
    assert bytes_of(type_name) == size
