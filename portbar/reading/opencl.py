"""OpenCL C's own part of what a reader knows: types and constants, ids of work-items, and functions that many must call."""

from __future__ import annotations

from typing import Final

from portbar.reading.values import GROUP, ITEM, SAME, SUB_GROUP, Declaration

_SCALARS: Final = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double", "half")

#: Macros that the front end's built-in functions need.
_FEATURES: Final = "".join(
    f"#define __opencl_c_{name} 1\n"
    for name in (
        *("generic_address_space", "work_group_collective_functions", "subgroups", "program_scope_global_variables"),
        *("atomic_order_acq_rel", "atomic_order_seq_cst", "atomic_scope_device", "atomic_scope_all_devices"),
        *("images", "read_write_images", "3d_image_writes", "int64", "fp64", "device_enqueue", "pipes"),
    )
)

_TYPES: Final = """\
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef uint cl_mem_fence_flags;
#pragma OPENCL EXTENSION all : enable
"""

_CONSTANTS: Final = """\
#define NULL ((void *)0)
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#define CLK_IMAGE_MEM_FENCE 4
typedef enum memory_scope {
    memory_scope_work_item, memory_scope_work_group, memory_scope_device, memory_scope_all_svm_devices,
    memory_scope_sub_group, memory_scope_all_devices = 3
} memory_scope;
typedef enum memory_order {
    memory_order_relaxed = 0, memory_order_acquire = 2, memory_order_release = 3, memory_order_acq_rel = 4,
    memory_order_seq_cst = 5
} memory_order;
#define ATOMIC_VAR_INIT(x) (x)
#define ATOMIC_FLAG_INIT 0
#define CHAR_BIT 8
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define CHAR_MAX SCHAR_MAX
#define CHAR_MIN SCHAR_MIN
#define USHRT_MAX 65535
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define UINT_MAX 0xffffffffu
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define ULONG_MAX 0xffffffffffffffffUL
#define LONG_MAX 0x7fffffffffffffffL
#define LONG_MIN (-0x7fffffffffffffffL - 1)
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MAX_10_EXP 38
#define FLT_MAX_EXP 128
#define FLT_MIN_10_EXP (-37)
#define FLT_MIN_EXP (-125)
#define FLT_RADIX 2
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1.0p-126f
#define FLT_EPSILON 0x1.0p-23f
#define DBL_DIG 15
#define DBL_MANT_DIG 53
#define DBL_MAX 0x1.fffffffffffffp1023
#define DBL_MIN 0x1.0p-1022
#define DBL_EPSILON 0x1.0p-52
#define MAXFLOAT 0x1.fffffep127f
#define HUGE_VALF (__builtin_huge_valf())
#define HUGE_VAL (__builtin_huge_val())
#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define FP_ILOGB0 INT_MIN
#define FP_ILOGBNAN INT_MAX
#define M_E_F 2.71828182845904523536f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LOG10E_F 0.43429448190325182765f
#define M_LN2_F 0.69314718055994530942f
#define M_LN10_F 2.30258509299404568402f
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_PI_4_F 0.78539816339744830962f
#define M_1_PI_F 0.31830988618379067154f
#define M_2_PI_F 0.63661977236758134308f
#define M_2_SQRTPI_F 1.12837916709551257390f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.70710678118654752440f
#define M_E 2.71828182845904523536
#define M_LOG2E 1.44269504088896340736
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define CLK_ADDRESS_NONE 0
#define CLK_ADDRESS_CLAMP_TO_EDGE 2
#define CLK_ADDRESS_CLAMP 4
#define CLK_ADDRESS_REPEAT 6
#define CLK_ADDRESS_MIRRORED_REPEAT 8
#define CLK_NORMALIZED_COORDS_FALSE 0
#define CLK_NORMALIZED_COORDS_TRUE 1
#define CLK_FILTER_NEAREST 0x10
#define CLK_FILTER_LINEAR 0x20
#define CLK_SNORM_INT8 0x10D0
#define CLK_R 0x10B0
#define CLK_RGBA 0x10B5
"""

#: How the declarations of headers for the reader describe functions: who must call them together, among whom their results
#: differ, their result once a launch has failed, and that they cut a number to 32 bits. Also the condition of an author
#: who knows better.
_WORDS: Final = """\
#define PORTBAR_CALLED_BY_GRID __attribute__((annotate("caller grid")))
#define PORTBAR_CALLED_BY_WORK_GROUP __attribute__((annotate("caller work-group")))
#define PORTBAR_CALLED_BY_SUB_GROUP __attribute__((annotate("caller sub-group")))
#define PORTBAR_CALLED_BY_SINGLE_SUB_GROUP __attribute__((annotate("caller sub-group"), annotate("single")))
#define PORTBAR_CALLED_BY_ALL_SUB_GROUPS __attribute__((annotate("caller work-group"), annotate("part")))
#define PORTBAR_DIFFERS_WORK_ITEM __attribute__((annotate("differs work-item")))
#define PORTBAR_DIFFERS_SUB_GROUP __attribute__((annotate("differs sub-group")))
#define PORTBAR_DIFFERS_WORK_GROUP __attribute__((annotate("differs work-group")))
#define PORTBAR_LOCAL_ID __attribute__((annotate("local id")))
#define PORTBAR_GLOBAL_ID __attribute__((annotate("global id")))
#define PORTBAR_SIZE __attribute__((annotate("size")))
#define PORTBAR_PART __attribute__((annotate("constant")))
#define PORTBAR_FALSE_IS_FAILURE __attribute__((annotate("failed 0"), annotate("false is failure")))
#define PORTBAR_FALSE_AFTER_FAULT __attribute__((annotate("failed 0")))
#define PORTBAR_TRUE_AFTER_FAULT __attribute__((annotate("failed 1")))
#define PORTBAR_CUTS __attribute__((annotate("cuts")))
bool portbar_agreed(bool condition);
private void *portbar_any(int evaluated);
#define PORTBAR_UNIFORM(condition) portbar_agreed((condition) ? 1 : 0)
#define PORTBAR_UNKNOWN(...) (*(private __typeof__((0 __VA_OPT__(,) __VA_ARGS__)) *)portbar_any(0))
"""


def _vectors() -> str:
    lines = []
    for scalar in _SCALARS:
        pragma = {"double": "cl_khr_fp64", "half": "cl_khr_fp16"}.get(scalar)
        made = [f"typedef {scalar} {scalar}{n} __attribute__((ext_vector_type({n})));" for n in (2, 3, 4, 8, 16)]
        made += [f"#define as_{scalar}{n}(x) __builtin_astype((x), {scalar}{n})" for n in ("", 2, 3, 4, 8, 16)]
        lines += [f"#ifdef {pragma}", *made, "#endif"] if pragma else made
    return "\n".join(lines) + "\n"


#: For readers that must know every function that is called.
PRINTF: Final = "int printf(constant const char *format, ...) __attribute__((format(printf, 1, 2)));\n"

#: In place of the header that a compiler of OpenCL C includes by itself.
BASE: Final = _FEATURES + _TYPES + _vectors() + _CONSTANTS + _WORDS

#: Combined values of work-groups and of sub-groups.
_COMBINED: Final = tuple(
    f"{form}_{op}" for form in ("reduce", "scan_inclusive", "scan_exclusive") for op in ("add", "min", "max")
)
_MORE_COMBINED: Final = tuple(
    f"{kind}{form}_{op}"
    for kind in ("non_uniform_", "clustered_", "")
    for form in ("reduce", "scan_inclusive", "scan_exclusive")
    for op in ("mul", "and", "or", "xor", "logical_and", "logical_or", "logical_xor")
    if not kind
)

_OF_WORK_GROUPS: Final = (
    "barrier",
    "work_group_barrier",
    "work_group_all",
    "work_group_any",
    "work_group_broadcast",
    "async_work_group_copy",
    "async_work_group_strided_copy",
    "wait_group_events",
    "intel_work_group_barrier_arrive",
    "intel_work_group_barrier_wait",
    *(f"work_group_{combined}" for combined in (*_COMBINED, *_MORE_COMBINED)),
)
_OF_SUB_GROUPS: Final = (
    "sub_group_barrier",
    "sub_group_all",
    "sub_group_any",
    "sub_group_broadcast",
    *(f"sub_group_{combined}" for combined in _COMBINED),
)

#: Name -> what OpenCL C says of one of its functions.
KNOWN: Final[dict[str, Declaration]] = {
    **{name: Declaration(caller=GROUP) for name in _OF_WORK_GROUPS},
    **{name: Declaration(caller=SUB_GROUP) for name in _OF_SUB_GROUPS},
    "get_global_id": Declaration(differs=ITEM, id_of="global"),
    "get_local_id": Declaration(differs=ITEM, id_of="local"),
    "get_global_linear_id": Declaration(differs=ITEM, id_of="global"),
    "get_local_linear_id": Declaration(differs=ITEM, id_of="local"),
    "get_group_id": Declaration(differs=GROUP),
    "get_sub_group_id": Declaration(differs=SUB_GROUP),
    "get_sub_group_local_id": Declaration(differs=ITEM),
    "get_local_size": Declaration(is_size=True),
    "get_enqueued_local_size": Declaration(is_size=True),
    "get_global_size": Declaration(is_size=True),
    "get_max_sub_group_size": Declaration(is_constant=True),
    "get_num_sub_groups": Declaration(is_constant=True),
    "get_num_groups": Declaration(is_constant=True),
}

_PURE_NAMES: Final = """
    abs abs_diff add_sat hadd rhadd clamp clz ctz mad_hi mad_sat max min mul_hi rotate sub_sat upsample popcount mad24 mul24
    degrees mix radians step smoothstep sign select bitselect any all isequal isnotequal isgreater isgreaterequal isless
    islessequal islessgreater isfinite isinf isnan isnormal signbit fabs floor ceil round rint trunc fmin fmax fmod fma mad
    sqrt rsqrt pow pown exp exp2 log log2 sin cos tan native_divide native_recip native_sqrt remainder
    __builtin_expect __builtin_assume_aligned
"""
#: Functions whose result follows from their arguments alone.
PURE: Final = frozenset(_PURE_NAMES.split())
PURE_PREFIXES: Final = ("convert_", "as_")
#: Those that round, whose multiples may be whole numbers of work-groups.
ROUNDING: Final = frozenset({"floor", "ceil", "round", "rint", "trunc"})


def knowledge_of(name: str, annotations: tuple[str, ...]) -> Declaration | None:
    """The knowledge of a function: by the annotations of its declaration, or as one of OpenCL C's own; None of others."""
    if not annotations:
        return KNOWN.get(name)
    levels = {"sub-group": SUB_GROUP, "work-group": GROUP, "grid": SAME}
    above = {"sub-group": SUB_GROUP, "work-group": GROUP, "work-item": ITEM}
    caller = next((levels.get(word[7:]) for word in annotations if word.startswith("caller ")), None)
    differs = next((above[word[8:]] for word in annotations if word.startswith("differs ")), SAME)
    kind = next((word[:-3] for word in annotations if word.endswith(" id")), "")
    return Declaration(
        caller,
        ITEM if kind else differs,
        kind,
        "size" in annotations,
        "constant" in annotations,
        "part" in annotations,
        "single" in annotations,
    )
