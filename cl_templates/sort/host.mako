## -*- coding: utf-8 -*-
## What the kernels of portbar.sort share: types, the order of keys, and the counting of all digits.
<%def name="types()">
typedef ${job.key_type} portbar_key;
% if job.value_type:
typedef ${job.value_type} portbar_value;
% endif
/* How many values a digit has at most. */
#define PORTBAR_BINS 256u
/* The unsigned number whose order is that of keys. */
static inline portbar_key portbar_order(const portbar_key key)
{
% if job.kind == "f":
    /* Minus zero equals zero; what is no number comes after infinity, whatever its sign. */
    const portbar_key sign = ${job.sign};
    portbar_key order = (key & sign) != 0 ? ~key : key | sign;
    if (key == sign)
        order = sign;
    if ((key & (portbar_key)~sign) > (portbar_key)${job.infinity})
        order = ~(portbar_key)0;
    return ${"~" if job.descending else ""}order;
% elif job.kind == "i":
    return ${"~" if job.descending else ""}(key ^ (portbar_key)${job.sign});
% else:
    return ${"~" if job.descending else ""}key;
% endif
}
#define PORTBAR_DIGIT(key, shift, mask) ((uint)(portbar_order(key) >> (shift)) & (mask))
</%def>
<%def name="moved_parameters()">
    global const portbar_key *restrict in, const ulong in_offset, global portbar_key *restrict out,
    const ulong out_offset,
% if job.value_type:
    global const portbar_value *restrict values_in, const ulong values_in_offset,
    global portbar_value *restrict values_out, const ulong values_out_offset,
% endif
</%def>
<%def name="move_value(source, target, array)" filter="trim">
% if job.numbers:
${array}[${target}] = numbers != 0u ? (portbar_value)(${source}) : values_in[values_in_offset + ${source}];
% else:
${array}[${target}] = values_in[values_in_offset + ${source}];
% endif
</%def>
<%def name="bin(order, digit)" filter="trim">
${digit * 256}u + ((uint)(${order} >> ${8 * digit}) & ${mask(digit)})
</%def>
<%def name="mask(digit)" filter="trim">
${"last_mask" if digit == job.digits - 1 else "255u"}
</%def>
<%def name="tally(order, indent)">\
% for digit in range(job.digits):
${indent}atomic_inc(found + ${bin(order, digit)});
% endfor
</%def>
<%def name="pass_head()">
kernel __attribute__((reqd_work_group_size(${job.local}, 1, 1)))
void portbar_sort_pass(
${moved_parameters()}\
    const uint epoch, const uint first_bin, global const uint *bins, const uint numbers, const uint shift,
    const uint mask, const uint n, volatile global uint *ticket, volatile global ${"ulong" if job.shape.form == "warps" else "uint"} *words,
    global uint *counts)
{
</%def>
<%def name="count_head()">
/* Counts each digit's values over all keys, and clears the counts of the next sort. */
kernel __attribute__((reqd_work_group_size(${job.count_local}, 1, 1)))
void portbar_sort_count(global const portbar_key *in, const ulong in_offset, const uint first_bin,
                        const uint other_bin, volatile global uint *bins, const uint n, const uint begin_bit,
                        const uint last_mask)
{
    if (get_group_id(0) == 0)
        for (uint k = (uint)get_local_id(0); k < 8u * PORTBAR_BINS; k += ${job.count_local}u)
            portbar_word_store(bins + other_bin + k, 0u);
    global const portbar_key *keys = in + in_offset;
</%def>
<%def name="count_by_groups()">
${count_head()}\
    local uint found[${job.digits} * 256];
    for (uint k = (uint)get_local_id(0); k < ${job.digits}u * PORTBAR_BINS; k += ${job.count_local}u)
        found[k] = 0u;
    barrier(CLK_LOCAL_MEM_FENCE);
    const ulong step = get_global_size(0);
    ulong k = get_global_id(0);
% if job.count_loads > 1:
    for (; k + ${job.count_loads - 1}ul * step < n; k += ${job.count_loads}ul * step) {
% for load in range(job.count_loads):
        const portbar_key order${load} = portbar_order(keys[k + ${load}ul * step]) >> begin_bit;
% endfor
% for load in range(job.count_loads):
${tally(f"order{load}", "        ")}\
% endfor
    }
% endif
    for (; k < n; k += step) {
        const portbar_key order = portbar_order(keys[k]) >> begin_bit;
${tally("order", "        ")}\
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint b = (uint)get_local_id(0); b < ${job.digits}u * PORTBAR_BINS; b += ${job.count_local}u)
        if (found[b] != 0u)
            atomic_add(bins + first_bin + b, found[b]);
}
</%def>
