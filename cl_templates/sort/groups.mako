## -*- coding: utf-8 -*-
## portbar.sort by groups of work-items that share local memory and nothing else: any GPU.
<%namespace name="host" file="sort/host.mako"/>
<%namespace name="tiles" file="scan/look_back.mako"/>
<%def name="kernels()">
${tiles.next_tile(job.by)}\
/* The exclusive prefix sum in the caller's group; `room` may be reused after the next barrier. Caller: all work-items.
   Inlined always: some compilers take no barrier elsewhere. */
static inline __attribute__((always_inline)) uint portbar_sum_before(const uint number, local uint *room)
{
    const uint id = (uint)get_local_id(0);
    uint sum = number;
    room[id] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 1; step < ${job.local}u; step *= 2u) {
        const uint other = id >= step ? room[id - step] : 0u;
        barrier(CLK_LOCAL_MEM_FENCE);
        sum += other;
        room[id] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return sum - number;
}
/* Turns 256 counts into how much comes before each. Caller: all work-items, which meet afterwards. */
static inline __attribute__((always_inline)) void portbar_starts(local uint *counts, local uint *room)
{
    const uint id = (uint)get_local_id(0);
    uint own = 0u;
    for (uint d = id * ${job.bins_each}u; d < (id + 1u) * ${job.bins_each}u && d < PORTBAR_BINS; ++d)
        own += counts[d];
    uint before = portbar_sum_before(own, room);
    for (uint d = id * ${job.bins_each}u; d < (id + 1u) * ${job.bins_each}u && d < PORTBAR_BINS; ++d) {
        const uint count = counts[d];
        counts[d] = before;
        before += count;
    }
}
${host.count_by_groups()}\
${host.pass_head()}\
    /* Digit and place in the tile of each key, in two copies that take turns. */
    local uint order[2 * ${job.tile}], room[${job.local}], found[256], starts[256], base[256], again[256], shared[2];
    const uint id = (uint)get_local_id(0);
    if (id == 0u)
        shared[0] = portbar_next_tile(ticket, (uint)get_num_groups(0));
    for (uint d = id; d < PORTBAR_BINS; d += ${job.local}u) {
        found[d] = again[d] = 0u;
        starts[d] = bins[first_bin + d];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint tile = shared[0], begin = tile * ${job.tile}u, here = min(n - begin, ${job.tile}u);
    global const portbar_key *keys = in + in_offset;
    for (uint k = id; k < ${job.tile}u; k += ${job.local}u) {
        /* Beyond the end, places that are never written: the last of the last digit. */
        const uint digit = k < here ? PORTBAR_DIGIT(keys[begin + k], shift, mask) : mask;
        order[k] = digit << 16 | k;
        if (k < here)
            atomic_inc(found + digit);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    global uint *mine = counts + 2ul * PORTBAR_BINS * tile;
    for (uint d = id; d < PORTBAR_BINS; d += ${job.local}u)
        mine[d] = found[d];
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (id == 0u && tile != 0u)
        portbar_word_store_release(words + tile, 2u * epoch);
    /* By each bit of the digit: zeros first, in their order. */
    uint from = 0u;
    for (uint bit = 16u; bit < 24u; ++bit) {
        uint zeros = 0u;
        for (uint k = id * ${job.shape.items}u; k < (id + 1u) * ${job.shape.items}u; ++k)
            zeros += order[from + k] >> bit & 1u ? 0u : 1u;
        uint zero = portbar_sum_before(zeros, room);
        uint one = room[${job.local - 1}] + id * ${job.shape.items}u - zero;
        for (uint k = id * ${job.shape.items}u; k < (id + 1u) * ${job.shape.items}u; ++k) {
            const uint own = order[from + k];
            order[${job.tile}u - from + (own >> bit & 1u ? one++ : zero++)] = own;
        }
        from = ${job.tile}u - from;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint d = id; d < PORTBAR_BINS; d += ${job.local}u)
        base[d] = found[d];
    barrier(CLK_LOCAL_MEM_FENCE);
    portbar_starts(base, room);
    barrier(CLK_LOCAL_MEM_FENCE);
    portbar_starts(starts, room);
    barrier(CLK_LOCAL_MEM_FENCE);
    /* Where the digit's keys go, less their places in the tile. */
    for (uint d = id; d < PORTBAR_BINS; d += ${job.local}u)
        base[d] = starts[d] - base[d];
    /* Back to the nearest tile that tells the counts of all up to it. The first word says what there is: 0 for nothing that
       is known, 1 for the tile's counts, 2 for those of all up to it. */
    uint next = tile;
    for (bool done = tile == 0u; !done;) {
        if (id == 0u) {
            uint seen = portbar_word_load(words + next - 1u);
            for (uint poll = 0; poll < ${job.shape.polls}u && (seen & ~1u) != 2u * epoch; ++poll)
                seen = portbar_word_load(words + next - 1u);
            const bool known = (seen & ~1u) == 2u * epoch;
            if (known)
                (void)portbar_word_load_acquire(words + next - 1u);
            shared[1] = known ? 1u + (seen & 1u) : 0u;
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        const uint published = shared[1];
        if (published == 0u) {
            /* It is not known after some polls, and is counted here: no group waits for another to run. */
            for (uint k = id; k < ${job.tile}u; k += ${job.local}u)
                atomic_inc(again + PORTBAR_DIGIT(keys[(next - 1u) * ${job.tile}u + k], shift, mask));
        } else {
            global const uint *theirs = counts + 2ul * PORTBAR_BINS * (next - 1u)
                                       + (published == 2u ? PORTBAR_BINS : 0u);
            for (uint d = id; d < PORTBAR_BINS; d += ${job.local}u)
                again[d] += theirs[d];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        --next;
        done = published == 2u || next == 0u;
    }
    for (uint d = id; d < PORTBAR_BINS; d += ${job.local}u) {
        mine[PORTBAR_BINS + d] = again[d] + found[d];
        base[d] += again[d];
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (id == 0u)
        portbar_word_store_release(words + tile, 2u * epoch + 1u);
    for (uint k = id; k < here; k += ${job.local}u) {
        const uint own = order[from + k], source = begin + (own & 0xffffu), to = base[own >> 16] + k;
        out[out_offset + to] = keys[source];
% if job.value_type:
        ${host.move_value("source", "values_out_offset + to", "values_out")}
% endif
    }
}
</%def>
