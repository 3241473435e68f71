## -*- coding: utf-8 -*-
## The kernels of portbar.sort along an axis, or with several arrays of values: they move elements between their places.
<%def name="places()">
typedef ${job.element_type} portbar_element;
/* Where element k of all lines lies in memory: neighbours in a line of `columns` elements lie `inner` apart. */
static inline ulong portbar_place(const uint k, const uint columns, const uint inner)
{
    const uint line = k / columns, along = k % columns;
    return ((ulong)(line / inner) * columns + along) * inner + line % inner;
}
</%def>
<%def name="gather()">
/* Elements in the order of their lines. */
kernel void portbar_lines_gather(global const portbar_element *from, const ulong from0, global portbar_element *to,
                                 const ulong to0, const uint n, const uint columns, const uint inner)
{
    const size_t k = get_global_id(0);
    if (k < n)
        to[to0 + k] = from[from0 + portbar_place((uint)k, columns, inner)];
}
</%def>
<%def name="number()">
/* The line of each element of an order. */
kernel void portbar_lines_number(global const uint *order, const ulong order0, global uint *lines, const ulong lines0,
                                 const uint n, const uint columns, const uint inner)
{
    const size_t k = get_global_id(0);
    if (k < n)
        lines[lines0 + k] = order[order0 + k] / columns;
}
</%def>
<%def name="move()">
/* Elements to where an order has them. */
kernel void portbar_lines_move(global const portbar_element *from, const ulong from0, global const uint *order,
                               const ulong order0, global portbar_element *to, const ulong to0, const uint n,
                               const uint columns, const uint inner)
{
    const size_t k = get_global_id(0);
    if (k < n)
        to[to0 + portbar_place((uint)k, columns, inner)] =
            from[from0 + portbar_place(order[order0 + k], columns, inner)];
}
</%def>
<%def name="along()">
/* An order's indices in their lines. */
kernel void portbar_lines_along(global const uint *order, const ulong order0, global portbar_element *to, const ulong to0,
                                const uint n, const uint columns, const uint inner)
{
    const size_t k = get_global_id(0);
    if (k < n)
        to[to0 + portbar_place((uint)k, columns, inner)] = order[order0 + k] % columns;
}
</%def>
