## -*- coding: utf-8 -*-
## Effects of quirks on what every kernel does: one def each, used wherever a compiler needs it.
## portbar/device/quirks says which do.
<%def name="work_of_all()">{ volatile size_t portbar_item = get_local_id(0); (void)portbar_item; }</%def>
<%def name="exchanged(other)">
/* Dimensions 0 and ${other} of this launch are exchanged; the kernel does not see it. */
#define PORTBAR_DIMENSION(d) ((d) == 0u ? ${other}u : (d) == ${other}u ? 0u : (uint)(d))
% for name in "global_id global_offset global_size group_id num_groups local_id local_size enqueued_local_size".split():
#define get_${name}(d) get_${name}(PORTBAR_DIMENSION(d))
% endfor
<%text>#define get_global_linear_id() \
    (((get_global_id(2) - get_global_offset(2)) * get_global_size(1) + get_global_id(1) - get_global_offset(1)) \
     * get_global_size(0) + get_global_id(0) - get_global_offset(0))
#define get_local_linear_id() \
    ((get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0))</%text>
#define reqd_work_group_size(x, y, z) reqd_work_group_size(${"y, x, z" if other == 1 else "z, y, x"})
</%def>
<%def name="leader()">
${defines("PORTBAR_LEADER", "PORTBAR_ITEM")}
/* Whether the caller communicates with the other groups, and its number in its group: queried once, because this
   compiler loses ids. */
#define PORTBAR_LEADER(grid) ((grid)->item == 0u)
#define PORTBAR_ITEM(grid) ((grid)->item)
</%def>
<%def name="grid_fields()">
    /* The work-item, asked for before the first barrier and kept in memory. */
    volatile uint item;
</%def>
<%def name="is_beyond(ending='')">get_local_id(0) >= get_local_size(0) || get_local_id(1) >= get_local_size(1)${ending}
        || get_local_id(2) >= get_local_size(2)</%def>
<%def name="enter_beyond()">
    /* Not a work-item, but what fills a vector up: it would go on in loops that the others leave. */
    if (${is_beyond()})
        return false;
</%def>
<%def name="word_fence()">
${defines("portbar_word_fence")}
/* This device makes a barrier of each fence, which loses work-items wherever not all of a group come to it. Its atomics
   are sequentially consistent by themselves. */
static inline void portbar_word_fence(void)
{
}
</%def>
<%def name="read_back(pointer, pointed, words)">\
    /* This compiler loses a pointer to local memory that it knows, and that is kept across barriers. One that comes from
       local memory it does not know, but it knows that all work-items have the same, and makes vectors of them. */
    ${words}[0] = (uint)(ulong)(size_t)${pointer};
    ${words}[1] = (uint)((ulong)(size_t)${pointer} >> 32);
    barrier(CLK_LOCAL_MEM_FENCE);
    ${pointer} = (local ${pointed} *)(size_t)((ulong)${words}[1] << 32 | ${words}[0]);
</%def>
<%def name="enter_shared()">\
    /* In words that hold nothing before the first claim. */
    local uint *const kept = shared + PORTBAR_SHARED_CLAIMED;
${read_back("shared", "uint", "kept")}\
</%def>
<%def name="enter_first()">
    grid->item = portbar_local_linear_id();
</%def>
