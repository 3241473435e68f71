## -*- coding: utf-8 -*-
## portbar.sort on NVIDIA's GPUs, after Adinets and Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs"
## (2022): each tile is read and written once for each digit, and looks back for the counts of those before.
<%namespace name="host" file="sort/host.mako"/>
<%namespace name="tiles" file="scan/look_back.mako"/>
<%namespace name="ptx" file="backend/ptx/warps.mako"/>
<%def name="common()">
${ptx.lanes()}\
${ptx.same_digit()}\
#define PORTBAR_ITEMS ${job.shape.items}u
/* How many keys of the caller's digit come before its own among those that its warp has ranked; `found` has the warp's
   counts. Caller: all lanes. */
static inline uint portbar_rank(const uint digit, local uint *found, const uint before)
{
    const uint same = portbar_same_digit(digit), known = found[digit], rank = popcount(same & before);
    portbar_warp_sync();
    if (rank == 0u)
        found[digit] = known + popcount(same);
    portbar_warp_sync();
    return known + rank;
}
/* Turns the warps' counts into how many come before in other warps, and returns how many the group has of digit `id`.
   Caller: the first 256 work-items. */
static inline uint portbar_total(const uint id, local uint *found)
{
    uint total = 0u;
#pragma unroll
    for (uint w = 0; w < ${job.local // 32}u; ++w) {
        const uint count = found[w * PORTBAR_BINS + id];
        found[w * PORTBAR_BINS + id] = total;
        total += count;
    }
    return total;
}
/* The inclusive prefix sum in the caller's warp. Caller: all lanes. */
static inline uint portbar_warp_sum(uint number)
{
    const uint lane = (uint)get_local_id(0) & 31u;
#pragma unroll
    for (uint step = 1; step < 32u; step *= 2u) {
        const uint other = portbar_word_before(number, step);
        number += lane >= step ? other : 0u;
    }
    return number;
}
</%def>
<%def name="kernels()">
${tiles.next_tile(job.by)}\
${common()}\
${host.count_by_groups()}\
${ptx.tagged_words()}\
#define PORTBAR_KNOWN(word) (((uint)((word) >> 32) & ~1u) == 2u * epoch)
#define PORTBAR_ALL_KNOWN(word) ((uint)((word) >> 32) == 2u * epoch + 1u)
${host.pass_head()}\
    local uint found[${job.local // 32} * 256], base[256], sums[16], shared[2], again[256];
    local ulong stage[${job.stage_words}];
    local portbar_key *staged = (local portbar_key *)stage;
    const uint id = (uint)get_local_id(0), warp = id / 32u;
    if (id == 0u)
        shared[0] = portbar_next_tile(ticket, (uint)get_num_groups(0));
    for (uint k = id; k < ${job.local // 32}u * PORTBAR_BINS; k += ${job.local}u)
        found[k] = 0u;
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint tile = shared[0], begin = tile * ${job.tile}u, here = min(n - begin, ${job.tile}u);
    /* Each warp has a piece of the tile, and goes through it in order. */
    const uint first = warp * (32u * PORTBAR_ITEMS) + (id & 31u);
    global const portbar_key *restrict keys = in + in_offset + begin;
    portbar_key key[${job.shape.items}];
    uint place[${job.shape.items}];
    /* Keys of the caller's: fewer where the tile is cut short. */
    const uint valid = here > first ? (here - first + 31u) / 32u : 0u;
    if (here == ${job.tile}u) {
#pragma unroll
        for (uint i = 0; i < PORTBAR_ITEMS; ++i)
            key[i] = keys[first + 32u * i];
    } else {
#pragma unroll
        for (uint i = 0; i < PORTBAR_ITEMS; ++i)
            key[i] = i < valid ? keys[first + 32u * i] : 0;
    }
    local uint *mine = found + warp * PORTBAR_BINS;
    const uint before = portbar_lanes_before();
    /* The digit stays beside the rank. Beyond the end are places that are never written: the last of the last digit. */
#pragma unroll
    for (uint i = 0; i < PORTBAR_ITEMS; ++i) {
        const uint digit = i < valid ? PORTBAR_DIGIT(key[i], shift, mask) : mask;
        place[i] = digit << 16 | portbar_rank(digit, mine, before);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint total = 0u, smaller = 0u, start = 0u;
    if (id < PORTBAR_BINS) {
        total = portbar_total(id, found);
        portbar_tagged_store(words + (ulong)tile * PORTBAR_BINS + id, 2u * epoch + (tile == 0u ? 1u : 0u), total);
        const uint all = bins[first_bin + id];
        smaller = portbar_warp_sum(total) - total;
        start = portbar_warp_sum(all) - all;
        if ((id & 31u) == 31u) {
            sums[warp] = smaller + total;
            sums[8u + warp] = start + all;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id < PORTBAR_BINS) {
        for (uint w = 0; w < warp; ++w) {
            smaller += sums[w];
            start += sums[8u + w];
        }
        base[id] = smaller;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint i = 0; i < PORTBAR_ITEMS; ++i) {
        const uint digit = place[i] >> 16;
        place[i] = (place[i] & 0xffffu) + base[digit] + mine[digit];
        staged[place[i]] = key[i];
    }
    /* Each of the first work-items goes back for a digit, to the nearest tile that tells the counts of all up to it. */
    uint earlier = 0u, next = tile;
    bool done = tile == 0u || id >= PORTBAR_BINS;
    for (;;) {
        if (id == 0u)
            shared[1] = 0u;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint polls = 0; !done;) {
            ulong word[${job.shape.back}];
#pragma unroll
            for (uint k = 0; k < ${job.shape.back}u; ++k)
                word[k] = next > k ? portbar_tagged_load(words + (ulong)(next - 1u - k) * PORTBAR_BINS + id) : 0ul;
            bool stuck = false;
#pragma unroll
            for (uint k = 0; k < ${job.shape.back}u; ++k)
                if (!done && !stuck) {
                    stuck = !PORTBAR_KNOWN(word[k]);
                    if (!stuck) {
                        earlier += (uint)word[k];
                        --next;
                        polls = 0u;
                        done = PORTBAR_ALL_KNOWN(word[k]);
                    }
                }
            if (stuck && ++polls > ${job.shape.polls}u) {
                atomic_max(shared + 1, next);
                break;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint missing = shared[1];
        if (missing == 0u)
            break;
        /* The group counts a tile that is not known after some polls: no group waits for another to run. */
        if (id < PORTBAR_BINS)
            again[id] = 0u;
        barrier(CLK_LOCAL_MEM_FENCE);
        global const portbar_key *theirs = in + in_offset + (ulong)(missing - 1u) * ${job.tile}u;
#pragma unroll
        for (uint i = 0; i < PORTBAR_ITEMS; ++i)
            atomic_inc(again + PORTBAR_DIGIT(theirs[id + i * ${job.local}u], shift, mask));
        barrier(CLK_LOCAL_MEM_FENCE);
        if (id < PORTBAR_BINS) {
            volatile global ulong *word = words + (ulong)(missing - 1u) * PORTBAR_BINS + id;
            const ulong seen = portbar_tagged_load(word);
            if (!PORTBAR_KNOWN(seen))
                portbar_tagged_insert(word, seen, 2u * epoch, again[id]);
            if (!done && next == missing) {
                earlier += again[id];
                --next;
                done = next == 0u;
            }
        }
    }
    if (id < PORTBAR_BINS) {
        if (tile != 0u)
            portbar_tagged_store(words + (ulong)tile * PORTBAR_BINS + id, 2u * epoch + 1u, earlier + total);
        base[id] = start + earlier - base[id];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    global portbar_key *restrict to = out + out_offset;
% if job.value_type:
    uint target[${job.shape.items}];
% endif
#pragma unroll
    for (uint i = 0; i < PORTBAR_ITEMS; ++i) {
        const uint k = id + i * ${job.local}u;
        const portbar_key own = staged[k];
        const uint at = base[PORTBAR_DIGIT(own, shift, mask)] + k;
        if (k < here)
            to[at] = own;
% if job.value_type:
        target[i] = at;
% endif
    }
% if job.value_type:
${values()}\
% endif
}
</%def>
<%def name="values()">\
    global portbar_value *restrict values_to = values_out + values_out_offset;
    global const portbar_value *restrict values = values_in + values_in_offset + begin;
% if job.stages_values:
    local portbar_value *staged_values = (local portbar_value *)stage;
    portbar_value value[${job.shape.items}];
% if job.numbers:
    if (numbers != 0u) {
#pragma unroll
        for (uint i = 0; i < PORTBAR_ITEMS; ++i)
            value[i] = (portbar_value)(begin + first + 32u * i);
    } else {
% else:
    {
% endif
#pragma unroll
        for (uint i = 0; i < PORTBAR_ITEMS; ++i)
            if (i < valid)
                value[i] = values[first + 32u * i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint i = 0; i < PORTBAR_ITEMS; ++i)
        staged_values[place[i]] = value[i];
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint i = 0; i < PORTBAR_ITEMS; ++i) {
        const uint k = id + i * ${job.local}u;
        if (k < here)
            values_to[target[i]] = staged_values[k];
    }
% else:
    /* Wide values move once, from where they are. */
    local uint *from = (local uint *)stage;
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint i = 0; i < PORTBAR_ITEMS; ++i)
        from[place[i]] = first + 32u * i;
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint i = 0; i < PORTBAR_ITEMS; ++i) {
        const uint k = id + i * ${job.local}u;
        if (k < here)
            values_to[target[i]] = values[from[k]];
    }
% endif
</%def>
<%def name="small()">
${common()}\
/* Sorts as many keys as one group holds, digit after digit. */
kernel __attribute__((reqd_work_group_size(${job.local}, 1, 1)))
void portbar_sort_small(
${host.moved_parameters()}\
    const uint numbers, const uint n, const uint begin_bit, const uint last_mask)
{
    local uint found[${job.local // 32} * 256], base[256], sums[8];
    local ulong stage[${job.stage_words}];
    local portbar_key *staged = (local portbar_key *)stage;
    const uint id = (uint)get_local_id(0), warp = id / 32u, first = warp * (32u * PORTBAR_ITEMS) + (id & 31u);
    local uint *mine = found + warp * PORTBAR_BINS;
    const uint before = portbar_lanes_before(), valid = n > first ? (n - first + 31u) / 32u : 0u;
    portbar_key key[${job.shape.items}];
    uint place[${job.shape.items}];
% if job.value_type:
    uint from[${job.shape.items}];
% endif
#pragma unroll
    for (uint i = 0; i < PORTBAR_ITEMS; ++i) {
        key[i] = i < valid ? in[in_offset + first + 32u * i] : 0;
% if job.value_type:
        from[i] = first + 32u * i;
% endif
    }
    for (uint digit = 0; digit < ${job.digits}u; ++digit) {
        const uint shift = begin_bit + 8u * digit, mask = digit == ${job.digits - 1}u ? last_mask : 255u;
        for (uint k = id; k < ${job.local // 32}u * PORTBAR_BINS; k += ${job.local}u)
            found[k] = 0u;
        barrier(CLK_LOCAL_MEM_FENCE);
        /* Places beyond the end stay there. */
#pragma unroll
        for (uint i = 0; i < PORTBAR_ITEMS; ++i) {
            const uint own = i < valid ? PORTBAR_DIGIT(key[i], shift, mask) : mask;
            place[i] = own << 16 | portbar_rank(own, mine, before);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        uint smaller = 0u;
        if (id < PORTBAR_BINS) {
            const uint total = portbar_total(id, found);
            smaller = portbar_warp_sum(total) - total;
            if ((id & 31u) == 31u)
                sums[warp] = smaller + total;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (id < PORTBAR_BINS) {
            for (uint w = 0; w < warp; ++w)
                smaller += sums[w];
            base[id] = smaller;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (uint i = 0; i < PORTBAR_ITEMS; ++i) {
            const uint own = place[i] >> 16;
            place[i] = (place[i] & 0xffffu) + base[own] + mine[own];
            staged[place[i]] = key[i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (uint i = 0; i < PORTBAR_ITEMS; ++i)
            key[i] = staged[first + 32u * i];
        barrier(CLK_LOCAL_MEM_FENCE);
% if job.value_type:
        local uint *moved = (local uint *)stage;
#pragma unroll
        for (uint i = 0; i < PORTBAR_ITEMS; ++i)
            moved[place[i]] = from[i];
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (uint i = 0; i < PORTBAR_ITEMS; ++i)
            from[i] = moved[first + 32u * i];
        barrier(CLK_LOCAL_MEM_FENCE);
% endif
    }
#pragma unroll
    for (uint i = 0; i < PORTBAR_ITEMS; ++i) {
        const uint k = first + 32u * i;
        if (k < n) {
            out[out_offset + k] = key[i];
% if job.value_type:
            ${host.move_value("from[i]", "values_out_offset + k", "values_out")}
% endif
        }
    }
}
</%def>
