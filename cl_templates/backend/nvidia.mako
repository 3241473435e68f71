## -*- coding: utf-8 -*-
## What NVIDIA's backends share: the instruction of each operation, which each completes by its orders and scopes.
<%!
    REGISTER = {"uint": "r", "int": "r", "ulong": "l", "long": "l", "float": "f", "double": "d", "uchar": "r", "ushort": "r"}
    TYPE = {"uint": "u32", "int": "s32", "ulong": "u64", "long": "s64", "float": "f32", "double": "f64", "uchar": "u8", "ushort": "u16"}
    BITS = {**TYPE, "uint": "b32", "ulong": "b64"}
    STATE = {"global": ".global", "local": ".shared", "generic": ""}

    def instruction(op, kind, space):
        """Return the text before orders and scopes, the text after them, and the operands."""
        register, state, bits = REGISTER[kind], STATE[space], BITS[kind]
        old, value = f'"={register}"(old) : "l"(p)', f'"{register}"(v)'
        if op == "load":
            return "ld", f"{state}.{bits} %0, [%1];", old
        if op == "store":
            return "st", f"{state}.{bits} [%0], %1;", f': "l"(p), {value}'
        if op == "compare_exchange":
            return "atom", f"{state}.cas.{bits} %0, [%1], %2, %3;", f'{old}, "{register}"(expected), "{register}"(desired)'
        name = "exch" if op == "exchange" else op
        of = bits if op in ("exchange", "and", "or", "xor") else TYPE[kind]
        return "atom", f"{state}.{name}.{of} %0, [%1], %2;", f"{old}, {value}"

    def break_before(text, operands):
        """Lines have at most 120 columns."""
        return "\n                     " if len(text.rpartition("\n")[2]) + len(operands) > 84 else " "
%>
<%def name="operation(op, kind, space, text)">\
## `text`: the instruction with one fixed order at device scope; without it order and scope are arguments.
<%
    small = kind in ("uchar", "ushort")
    before, after, operands = instruction(op, kind, space)
    macro = {"load": "PORTBAR_PTX_LOAD(", "store": "PORTBAR_PTX_STORE(",
             "compare_exchange": 'PORTBAR_PTX_RMW(success, "atom", '}.get(op, 'PORTBAR_PTX_RMW(order, "atom", ')
    if small:
        operands = operands.replace("(v)", "((uint)v)")
%>\
% if op != "store":
    ${"uint" if small else kind} old;
% endif
% if text:
    __asm__ volatile(${text}${break_before(text, operands)}: ${operands} : "memory");
% else:
% if op == "compare_exchange":
    (void)failure;  /* never stronger than success, and one instruction has one order */
% endif
    ${macro}"${after}", ${operands});
% endif
% if op != "store":
    return ${f"({kind})" if small else ""}old;
% endif
</%def>
<%def name="trace_clock()">
${defines("portbar_trace_clock")}
/* Nanoseconds of the device's clock, from any beginning; the same for all multiprocessors. */
static inline ulong portbar_trace_clock(void)
{
    ulong now;
    __asm__ volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) :: "memory");
    return now;
}
</%def>
