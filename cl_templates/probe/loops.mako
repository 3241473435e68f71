## -*- coding: utf-8 -*-
## Whether loops run to their end.
<%def name="loops()">
/* Two loops of n iterations, one after the other; `ones` holds 1 in both words. The loads are volatile, so that the compiler
   can neither fold the loops nor know what they add up to. Run by one work-item. counted[i] is what loop i came to. */
kernel void portbar_probe_loops(volatile global const uint *ones, global uint *counted, uint n)
{
    uint first = 0u, second = 0u;
    for (uint i = 0; i < n; ++i)
        first += ones[0];
    for (uint i = 0; i < n; ++i)
        second += ones[1];
    counted[0] = first;
    counted[1] = second;
}
</%def>
