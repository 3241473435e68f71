## -*- coding: utf-8 -*-
## Reductions, scans and broadcasts over a sub-group, by each strategy; and what work-items know of their sub-group.
<%!
    def steps(size):
        """1, 2, 4, ... below a size."""
        step = 1
        while step < size:
            yield step
            step *= 2
%>
<%def name="ids()">
/* Linear id of the work-item in its work-group, and their number, for 1-, 2- and 3-dimensional local sizes. Any work-item. */
PORTBAR_COLLECTIVE uint portbar_reduction_id(void)
{
    return (uint)((get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0));
}
PORTBAR_COLLECTIVE uint portbar_reduction_size(void)
{
#ifdef PORTBAR_REDUCTION_EXACT
    return PORTBAR_REDUCTION_LOCAL_SIZE;
#else
    return (uint)(get_local_size(0) * get_local_size(1) * get_local_size(2));
#endif
}
% if lanes == "sub_group":

/* The device's own sub-groups. Any work-item. */
PORTBAR_COLLECTIVE uint portbar_sub_group_size(void)
{
    return get_sub_group_size();
}
PORTBAR_COLLECTIVE uint portbar_sub_group_max_size(void)
{
    return min((uint)get_max_sub_group_size(), portbar_reduction_size());
}
PORTBAR_COLLECTIVE uint portbar_sub_group_local_id(void)
{
    return get_sub_group_local_id();
}
PORTBAR_COLLECTIVE uint portbar_sub_group_id(void)
{
    return get_sub_group_id();
}
PORTBAR_COLLECTIVE uint portbar_num_sub_groups(void)
{
    return get_num_sub_groups();
}
% else:

/* Sub-groups are PORTBAR_SUB_GROUP_SIZE work-items with consecutive linear local ids, fewer in the last one. Any work-item. */
PORTBAR_COLLECTIVE uint portbar_sub_group_id(void)
{
    return portbar_reduction_id() / PORTBAR_SUB_GROUP_SIZE;
}
PORTBAR_COLLECTIVE uint portbar_sub_group_local_id(void)
{
    return portbar_reduction_id() % PORTBAR_SUB_GROUP_SIZE;
}
PORTBAR_COLLECTIVE uint portbar_num_sub_groups(void)
{
    return (portbar_reduction_size() + PORTBAR_SUB_GROUP_SIZE - 1u) / PORTBAR_SUB_GROUP_SIZE;
}
PORTBAR_COLLECTIVE uint portbar_sub_group_size(void)
{
    return min(portbar_reduction_size() - portbar_sub_group_id() * PORTBAR_SUB_GROUP_SIZE, (uint)PORTBAR_SUB_GROUP_SIZE);
}
PORTBAR_COLLECTIVE uint portbar_sub_group_max_size(void)
{
    return min(portbar_reduction_size(), (uint)PORTBAR_SUB_GROUP_SIZE);
}
% endif
</%def>
<%def name="shuffles()">
% if lanes == "shuffle":
#define PORTBAR_WARP 0xffffffffu
/* How many work-items the warp has (the last one of a group may have fewer than 32), and the mask that names them, which is PORTBAR_WARP
   where there are 32. Every one of them must make the call that follows: a shuffle waits for all that its mask names. */
PORTBAR_COLLECTIVE uint portbar_warp_size(void)
{
#ifdef PORTBAR_REDUCTION_EXACT
    if (PORTBAR_REDUCTION_LOCAL_SIZE % 32u == 0u)
        return 32u;
#endif
    return min(portbar_reduction_size() - (portbar_reduction_id() & ~31u), 32u);
}
PORTBAR_COLLECTIVE uint portbar_warp_mask(uint size)
{
    return 0xffffffffu >> (32u - size);
}
/* Another lane's word: `by` lanes up or down from the caller's, the caller's lane with bits flipped, or a lane by its id in the warp.
   What comes from a lane that does not exist is not specified. Caller: all lanes of `mask`, together. */
% for mode, clamp in (("up", 0), ("down", 31), ("bfly", 31), ("idx", 31)):
PORTBAR_COLLECTIVE uint portbar_shuffle_${mode}(uint word, uint by, uint mask)
{
    uint found;
    __asm__ volatile("shfl.sync.${mode}.b32 %0, %1, %2, ${clamp}, %3;" : "=r"(found) : "r"(word), "r"(by), "r"(mask) : "memory");
    return found;
}
% for kind, size in kinds:
% if kind in ("int", "float"):
PORTBAR_COLLECTIVE ${kind} portbar_shuffle_${mode}(${kind} v, uint by, uint mask)
{
    return as_${kind}(portbar_shuffle_${mode}(as_uint(v), by, mask));
}
% elif kind in ("char", "uchar", "short", "ushort"):
PORTBAR_COLLECTIVE ${kind} portbar_shuffle_${mode}(${kind} v, uint by, uint mask)
{
    return (${kind})portbar_shuffle_${mode}((uint)v, by, mask);
}
% elif kind in ("long", "ulong", "double"):
PORTBAR_COLLECTIVE ${kind} portbar_shuffle_${mode}(${kind} v, uint by, uint mask)
{
    const uint2 words = as_uint2(v);
    const uint2 found = (uint2)(portbar_shuffle_${mode}(words.x, by, mask), portbar_shuffle_${mode}(words.y, by, mask));
    return as_${kind}(found);
}
% elif kind != "uint":
PORTBAR_COLLECTIVE ${kind} portbar_shuffle_${mode}(${kind} v, uint by, uint mask)
{
    union { ${kind} value; uint words[${-(-size // 4)}]; } all;
    all.value = v;
% for word in range(-(-size // 4)):
    all.words[${word}] = portbar_shuffle_${mode}(all.words[${word}], by, mask);
% endfor
    return all.value;
}
% endif
% endfor
% endfor
% endif
</%def>
<%def name="operators()">
% for form in forms:
/* One value of two, and the value that changes none. Any work-item. */
PORTBAR_COLLECTIVE ${form.kind} ${form.combine}(${form.kind} a, ${form.kind} b)
{
    ${form.body}
}
#define PORTBAR_NEUTRAL_${form.op}_${form.kind} ${form.neutral}
% endfor
</%def>
<%def name="broadcasts()">
% if ("sub_group", "broadcast", "") in wanted:
% for kind, size in kinds:
/* The value that lane `lane` of the sub-group has, in all of its lanes. `lane` is the same in all of them.
   Caller: ${lane_caller}. Cost: ${"a shuffle" if lanes == "shuffle" else "two barriers" if virtual else "one built-in, or local memory"}. */
PORTBAR_COLLECTIVE ${kind} portbar_sub_group_broadcast(private portbar_scratch *scratch, ${kind} x, uint lane)
{
% if lanes == "shuffle":
    (void)scratch;
    const uint first = portbar_reduction_id() & 31u & ~(PORTBAR_SUB_GROUP_SIZE - 1u);
    return portbar_shuffle_idx(x, first + lane, portbar_warp_mask(portbar_warp_size()));
% else:
    /* One lane writes what each of the others then finds in its own place, where nobody else looks. */
    const uint id = portbar_reduction_id(), at = portbar_sub_group_local_id();
    PORTBAR_LANE_BARRIER();
% if leader_forgotten:
    PORTBAR_ALL_WORK();
% endif
    if (at == lane)
        for (uint i = 0; i < portbar_sub_group_size(); ++i)
            *PORTBAR_OWN(${kind}, scratch, id - at + i) = x;
    PORTBAR_LANE_BARRIER();
    return *PORTBAR_OWN(${kind}, scratch, id);
% endif
}
% endfor
% endif
</%def>
<%def name="sub_groups()">
% for form in forms:
${reduce(form)}\
${scan(form)}\
% endfor
</%def>
<%def name="reduce(form)">
<%
    kind, combine = form.kind, form.combine
%>
% if ("sub_group", "reduce", form.op) in wanted:
/* All values of the sub-group combined by `${form.op}`, in the order of the lanes; valid in every lane.
   Caller: ${lane_caller}. Cost: ${"log2 of the size shuffles" if lanes == "shuffle" else "a built-in, or local memory" if lanes == "sub_group" else "two barriers" if folds else "log2 of the size barriers, and two"}. */
PORTBAR_COLLECTIVE ${kind} portbar_sub_group_reduce_${form.op}(private portbar_scratch *scratch, ${kind} x)
{
    ${form.prepare}
    if (PORTBAR_ALONE)
        return x;
% if lanes == "shuffle":
    (void)scratch;
    const uint id = portbar_reduction_id(), warp = portbar_warp_size();
    if (warp == 32u) {
        /* A whole warp, as nearly always; a mask that the compiler knows costs no looking for the lanes that it names. */
% if form.redux and redux:
        if (PORTBAR_SUB_GROUP_SIZE == 32u) {
            ${kind} all;
            __asm__ volatile("redux.sync.${form.redux} %0, %1, 0xffffffff;" : "=r"(all) : "r"(x) : "memory");
            return all;
        }
% endif
        /* After each step both of a pair have the same value. */
% for step in steps(32):
        if (${step}u < PORTBAR_SUB_GROUP_SIZE) {
            const ${kind} other = portbar_shuffle_bfly(x, ${step}u, PORTBAR_WARP);
% if form.symmetric:
            x = ${combine}(x, other);
% else:
            const bool after = (id & ${step}u) != 0u;
            x = ${combine}(after ? other : x, after ? x : other);
% endif
        }
% endfor
        return x;
    }
    const uint mask = portbar_warp_mask(warp);
% if form.redux and redux:
    if (PORTBAR_SUB_GROUP_SIZE == 32u) {
        ${kind} all;
        __asm__ volatile("redux.sync.${form.redux} %0, %1, %2;" : "=r"(all) : "r"(x), "r"(mask) : "memory");
        return all;
    }
% endif
    const uint lane = id & (PORTBAR_SUB_GROUP_SIZE - 1u), size = portbar_sub_group_size();
% for step in steps(32):
    if (${step}u < PORTBAR_SUB_GROUP_SIZE) {
        const ${kind} other = portbar_shuffle_down(x, ${step}u, mask);
        if (lane + ${step}u < size)
            x = ${combine}(x, other);
    }
% endfor
    return portbar_shuffle_idx(x, (id - lane) & 31u, mask);
% elif lanes == "sub_group" and form.native:
    (void)scratch;
    return (${kind})sub_group_reduce_${form.native}((${form.through})x);
% elif folds:
    const uint id = portbar_reduction_id();
    *PORTBAR_OWN(${kind}, scratch, id) = x;
    PORTBAR_LANE_BARRIER();
% if lanes == "sub_group":
    /* The lanes of a small sub-group are those of a vector, which does the same in all of them as fast as in one. */
    const uint first = sub_group_broadcast(id, 0u), size = portbar_sub_group_size();
    ${kind} sum = *PORTBAR_OWN(${kind}, scratch, first);
    const uint most = size <= 64u || id == first ? size : 1u;
    for (uint i = 1; i < most; ++i)
        sum = ${combine}(sum, *PORTBAR_OWN(${kind}, scratch, first + i));
    if (size > 64u && id == first)
        for (uint i = 0; i < size; ++i)
            *PORTBAR_OWN(${kind}, scratch, first + i) = sum;
    PORTBAR_LANE_BARRIER();
    return size <= 64u ? sum : *PORTBAR_OWN(${kind}, scratch, id);
% else:
% if leader_forgotten:
    PORTBAR_ALL_WORK();
% endif
    if (portbar_sub_group_local_id() == 0u) {
        const uint size = portbar_sub_group_size();
        ${kind} sum = *PORTBAR_OWN(${kind}, scratch, id);
        for (uint i = 1; i < size; ++i)
            sum = ${combine}(sum, *PORTBAR_OWN(${kind}, scratch, id + i));
        /* Each lane then looks at its own place only, so the next call may write at once. */
        for (uint i = 0; i < size; ++i)
            *PORTBAR_OWN(${kind}, scratch, id + i) = sum;
    }
    PORTBAR_LANE_BARRIER();
    return *PORTBAR_OWN(${kind}, scratch, id);
% endif
% else:
    const uint id = portbar_reduction_id();
    const uint lane = portbar_sub_group_local_id(), size = portbar_sub_group_size(), most = portbar_sub_group_max_size();
    *PORTBAR_OWN(${kind}, scratch, id) = x;
    PORTBAR_LANE_BARRIER();
    for (uint step = 1; step < most; step *= 2u) {
        if ((lane & (2u * step - 1u)) == 0u && lane + step < size) {
            x = ${combine}(x, *PORTBAR_OWN(${kind}, scratch, id + step));
            *PORTBAR_OWN(${kind}, scratch, id) = x;
        }
        PORTBAR_LANE_BARRIER();
    }
    x = *PORTBAR_OWN(${kind}, scratch, id - lane);
    PORTBAR_LANE_BARRIER();
    return x;
% endif
}
% endif
</%def>
<%def name="scan(form)">
<%
    kind, combine = form.kind, form.combine
    neutral = f"PORTBAR_NEUTRAL_{form.op}_{form.kind}"
%>
% for which in ("inclusive", "exclusive"):
% if ("sub_group", f"scan_{which}", form.op) in wanted:
/* ${"The values of all lanes up to and with the caller's" if which == "inclusive" else "The values of all lanes before the caller's (the neutral element in the first)"}, combined by
   `${form.op}` in their order. Caller: ${lane_caller}. Cost: ${"log2 of the size shuffles" if lanes == "shuffle" else "a built-in, or local memory" if lanes == "sub_group" else "two barriers" if folds else "twice log2 of the size barriers"}. */
PORTBAR_COLLECTIVE ${kind} portbar_sub_group_scan_${which}_${form.op}(private portbar_scratch *scratch, ${kind} x)
{
    ${form.prepare}
    if (PORTBAR_ALONE)
        return ${"x" if which == "inclusive" else neutral};
% if lanes == "shuffle":
    (void)scratch;
    const uint lane = portbar_reduction_id() & (PORTBAR_SUB_GROUP_SIZE - 1u), warp = portbar_warp_size();
% if which == "exclusive":
    ${kind} shifted;
% endif
% for known, mask in ((True, "PORTBAR_WARP"), (False, "mask")):
% if known:
    if (warp == 32u) {
% else:
    } else {
        const uint mask = portbar_warp_mask(warp);
% endif
% for step in steps(32):
        if (${step}u < PORTBAR_SUB_GROUP_SIZE) {
            const ${kind} before = portbar_shuffle_up(x, ${step}u, ${mask});
            if (lane >= ${step}u)
                x = ${combine}(before, x);
        }
% endfor
% if which == "exclusive":
        shifted = portbar_shuffle_up(x, 1u, ${mask});
% endif
% endfor
    }
% if which == "inclusive":
    return x;
% else:
    const ${kind} none = ${neutral};
    return lane == 0u ? none : shifted;
% endif
% elif lanes == "sub_group" and form.native:
    (void)scratch;
% if form.through == kind:
    return (${kind})sub_group_scan_${which}_${form.native}((${form.through})x);
% else:
    const ${kind} none = ${neutral};
    const ${form.through} before = sub_group_scan_${which}_${form.native}((${form.through})x);
% if which == "inclusive":
    (void)none;
    return (${kind})before;
% else:
    return get_sub_group_local_id() == 0u ? none : (${kind})before;
% endif
% endif
% elif folds:
    const uint id = portbar_reduction_id();
    *PORTBAR_OWN(${kind}, scratch, id) = x;
    PORTBAR_LANE_BARRIER();
% if leader_forgotten:
    PORTBAR_ALL_WORK();
% endif
    if (portbar_sub_group_local_id() == 0u) {
        const uint size = portbar_sub_group_size();
% if which == "inclusive":
        ${kind} sum = *PORTBAR_OWN(${kind}, scratch, id);
        for (uint i = 1; i < size; ++i) {
            sum = ${combine}(sum, *PORTBAR_OWN(${kind}, scratch, id + i));
            *PORTBAR_OWN(${kind}, scratch, id + i) = sum;
        }
% else:
        ${kind} before = ${neutral};
        for (uint i = 0; i < size; ++i) {
            const ${kind} mine = *PORTBAR_OWN(${kind}, scratch, id + i);
            const ${kind} next = i == 0u ? mine : ${combine}(before, mine);
            *PORTBAR_OWN(${kind}, scratch, id + i) = before;
            before = next;
        }
% endif
    }
    PORTBAR_LANE_BARRIER();
    return *PORTBAR_OWN(${kind}, scratch, id);
% else:
    const uint id = portbar_reduction_id();
    const uint lane = portbar_sub_group_local_id(), most = portbar_sub_group_max_size();
    *PORTBAR_OWN(${kind}, scratch, id) = x;
    PORTBAR_LANE_BARRIER();
    for (uint step = 1; step < most; step *= 2u) {
        if (lane >= step)
            x = ${combine}(*PORTBAR_OWN(${kind}, scratch, id - step), x);
        PORTBAR_LANE_BARRIER();
        *PORTBAR_OWN(${kind}, scratch, id) = x;
        PORTBAR_LANE_BARRIER();
    }
% if which == "exclusive":
    if (lane == 0u)
        x = ${neutral};
    else
        x = *PORTBAR_OWN(${kind}, scratch, id - 1u);
    PORTBAR_LANE_BARRIER();
% endif
    return x;
% endif
}
% endif
% endfor
</%def>
