## -*- coding: utf-8 -*-
## Fills and copies as kernels of one element per work-item, which are steps like those of an author.
<%def name="kernels()">
% for name, type in types:
/* Set the elements from `first` on. Caller: one work-item for each. */
kernel void fill_${name}(global ${type} *to, ulong first, ${type} value)
{
    to[first + get_global_id(0)] = value;
}

/* Copy elements, from `first` of one buffer to `first_to` of another. Caller: one work-item for each. */
kernel void copy_${name}(const global ${type} *from, ulong first, global ${type} *to, ulong first_to)
{
    to[first_to + get_global_id(0)] = from[first + get_global_id(0)];
}

% endfor
</%def>
