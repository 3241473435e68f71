## -*- coding: utf-8 -*-
## portbar.scan on NVIDIA's GPUs: lanes exchange values by shuffles, and a warp looks at many tiles before at once.
## Tiles publish their total with the launch's tag in one word, so no memory order is needed. Only the last of 32 tiles
## publishes the prefix up to it: every warp adds up 32 totals in one tree, so timing changes no bits.
<%namespace name="host" file="scan/host.mako"/>
<%namespace name="tiles" file="scan/look_back.mako"/>
<%namespace name="ptx" file="backend/ptx/warps.mako"/>
<%def name="warps()">
<% out = job.outputs[0] %>\
% if job.cut.ordered:
${tiles.next_tile(job.by)}\
% endif
${ptx.items()}\
${ptx.tagged_words()}\
${ptx.tagged_items()}\
#define PORTBAR_WARPS ${job.local // 32}u
#define PORTBAR_ROWS ${job.rows}u
/* Blocks of 32 tiles that a warp looks at together. */
#define PORTBAR_LOOK 2
/* The inclusive scan of a warp's elements of one row. Caller: all lanes. */
static inline portbar_item portbar_row(portbar_item own)
{
    const uint lane = (uint)get_local_id(0) & 31u;
#pragma unroll
    for (uint step = 1; step < 32u; step *= 2u) {
        const portbar_item other = portbar_item_before(own, step);
        if (lane >= step)
            own = portbar_join(other, own);
    }
    return own;
}
/* The values of 32 lanes as one, in the first. Caller: all lanes. */
static inline portbar_item portbar_tree(portbar_item own)
{
#pragma unroll
    for (uint step = 1; step < 32u; step *= 2u)
        own = portbar_join(own, portbar_item_behind(own, step));
    return own;
}
/* The place of a tile's total, and of the prefix that the last tile of a block of 32 publishes: separate, because a
   value of several words may be read while it is written. */
#define PORTBAR_PLACE(tile) (flags + (ulong)(tile) * PORTBAR_ITEM_WORDS)
#define PORTBAR_PLACE_OF_ALL(block) (flags + (ulong)((uint)get_num_groups(0) + (uint)(block)) * PORTBAR_ITEM_WORDS)
#define PORTBAR_IS_KNOWN(tag) (((tag) & ~1u) == 2u * epoch)
#define PORTBAR_IS_ALL(tag) ((tag) == 2u * epoch + 1u)
#define PORTBAR_NONE 0xffffffffu
/* Loads into the lanes the totals of the tiles of the blocks from `top` back, up to `tile`; returns the row of the
   nearest block with a published prefix, which its last lane receives, or PORTBAR_LOOK. The loads are independent.
   Caller: all lanes. */
static inline int portbar_look_at(volatile global ulong *flags, const int top, const uint tile, const uint epoch, uint *tag,
                                  portbar_item *totals)
{
    const int lane = (int)(get_local_id(0) & 31u), block = (int)(tile / 32u);
    ulong words[PORTBAR_LOOK][(sizeof(portbar_item) + 3) / 4], all[PORTBAR_LOOK][(sizeof(portbar_item) + 3) / 4];
    portbar_item up_to[PORTBAR_LOOK];
    int stop = PORTBAR_LOOK;
#pragma unroll
    for (int row = 0; row < PORTBAR_LOOK; ++row) {
        const uint other = (uint)max(top - row, 0) * 32u + (uint)lane;
        portbar_load_item(PORTBAR_PLACE(min(other, tile)), words[row]);
        portbar_load_item(PORTBAR_PLACE_OF_ALL(max(top - row, 0)), all[row]);
    }
#pragma unroll
    for (int row = 0; row < PORTBAR_LOOK; ++row) {
        const bool there = top >= row && (uint)(top - row) * 32u + (uint)lane < tile;
        tag[row] = portbar_item_tag(words[row], totals + row);
        if (!there) {
            tag[row] = 0u;
            totals[row] = portbar_neutral_item();
        }
        const bool knows_all = PORTBAR_IS_ALL(portbar_item_tag(all[row], up_to + row));
        if (lane == 31 && there && top - row < block && knows_all) {
            tag[row] = 2u * epoch + 1u;
            totals[row] = up_to[row];
        }
    }
#pragma unroll
    for (int row = PORTBAR_LOOK - 1; row >= 0; --row)
        if ((portbar_lanes_with(PORTBAR_IS_ALL(tag[row])) & 0x80000000u) != 0u || top < row)
            stop = row;
    return stop;
}
${host.head()}\
    local ${out.c} stage[${job.tile}] __attribute__((aligned(16)));
    local portbar_item sums[PORTBAR_WARPS], again[PORTBAR_WARPS], found_before[1];
    local uint shared[2];
    const uint id = (uint)get_local_id(0), lane = id & 31u, warp = id / 32u;
% if job.cut.ordered:
    if (id == 0u)
        shared[0] = portbar_next_tile(ticket, (uint)get_num_groups(0));
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint tile = shared[0];
% else:
    /* No group waits for another to run, whatever the order in which they begin. */
    const uint tile = (uint)get_group_id(0);
% endif
    const ulong begin = (ulong)tile * ${job.tile}u;
    const bool whole = begin + ${job.tile}u <= n;
    /* Each warp has a piece of the tile; each of its rows is read by all lanes together. */
    const uint start = warp * (PORTBAR_ROWS * ${32 * job.quad}u) + lane * ${job.quad}u;
    portbar_item row_sum[PORTBAR_ROWS];
% if job.quad > 1 and job.loads_quads:
    const bool quads = ((ulong)x0 & ${job.quad * job.inputs[0].kind.size - 1}ul) == 0ul;
% endif
    {
        ${out.c} v[${job.rows * job.quad}];
% if job.quad > 1 and job.loads_quads:
        if (whole && quads) {
#pragma unroll
            for (uint row = 0; row < PORTBAR_ROWS; ++row) {
                const ulong k = begin + start + row * ${32 * job.quad}u;
                const ${job.inputs[0].c}${job.quad} four = *(global const ${job.inputs[0].c}${job.quad} *)(x0 + k);
% for c in range(job.quad):
                v[row * ${job.quad}u + ${c}u] = ${out.mapped([f"four.s{c}"], f"k + {c}u")};
% endfor
            }
        } else
% endif
#pragma unroll
        for (uint row = 0; row < PORTBAR_ROWS; ++row)
#pragma unroll
            for (uint c = 0; c < ${job.quad}u; ++c) {
                const ulong k = begin + start + row * ${32 * job.quad}u + c;
                ${out.c} value = portbar_neutral_0();
                if (whole || k < n)
                    value = ${out.mapped_at("k")};
                v[row * ${job.quad}u + c] = value;
            }
#pragma unroll
        for (uint row = 0; row < PORTBAR_ROWS; ++row) {
#pragma unroll
            for (uint c = 1; c < ${job.quad}u; ++c)
                v[row * ${job.quad}u + c] = portbar_combine_0(v[row * ${job.quad}u + c - 1u], v[row * ${job.quad}u + c]);
            row_sum[row].o0 = v[row * ${job.quad}u + ${job.quad - 1}u];
${stage_row()}\
        }
    }
    /* The prefix of the lane in its warp, for each row. */
    portbar_item carry = portbar_neutral_item();
#pragma unroll
    for (uint row = 0; row < PORTBAR_ROWS; ++row) {
        const portbar_item up_to = portbar_row(row_sum[row]);
        const portbar_item earlier = portbar_item_before(up_to, 1u), last = portbar_item_of(up_to, 31u);
        row_sum[row] = lane == 0u ? carry : row == 0u ? earlier : portbar_join(carry, earlier);
        carry = row == 0u ? last : portbar_join(carry, last);
    }
    if (lane == 0u)
        sums[warp] = carry;
    barrier(CLK_LOCAL_MEM_FENCE);
    portbar_item before = portbar_neutral_item(), all = sums[0];
#pragma unroll
    for (uint w = 1; w < PORTBAR_WARPS; ++w) {
        if (w == warp)
            before = all;
        all = portbar_join(all, sums[w]);
    }
    const int block = (int)(tile / 32u);
    if (id == 0u)
        portbar_publish_item(PORTBAR_PLACE(tile), all, 2u * epoch);
    for (;;) {
        if (warp == 0u) {
            uint missing = PORTBAR_NONE, polls = 0u;
            int top = block, stop;
            uint tag[PORTBAR_LOOK];
            portbar_item totals[PORTBAR_LOOK];
            /* Back to the nearest block up to which all is known. */
            for (;;) {
                stop = portbar_look_at(flags, top, tile, epoch, tag, totals);
                uint lacking = 0u;
                int in_row = 0;
#pragma unroll
                for (int row = PORTBAR_LOOK - 1; row >= 0; --row) {
                    const uint lacks = portbar_lanes_with(row < stop && (top - row) * 32 + (int)lane < (int)tile
                                                          && !PORTBAR_IS_KNOWN(tag[row]));
                    if (lacks != 0u) {
                        lacking = lacks;
                        in_row = row;
                    }
                }
                if (lacking == 0u) {
                    if (stop < PORTBAR_LOOK || top < PORTBAR_LOOK)
                        break;
                    top -= PORTBAR_LOOK;
                    polls = 0u;
                } else if (++polls > ${job.cut.polls}u) {
                    /* The nearest one, so that groups that wait for many compute different ones. */
                    missing = (uint)(top - in_row) * 32u + 31u - clz(lacking);
                    break;
                }
            }
            if (missing == PORTBAR_NONE) {
                /* And on from there, block after block. */
                for (;;) {
                    if (stop < PORTBAR_LOOK && top >= stop)
#pragma unroll
                        for (int row = 0; row < PORTBAR_LOOK; ++row)
                            if (row == stop)
                                found = portbar_item_of(totals[row], 31u);
                    portbar_item total[PORTBAR_LOOK];
#pragma unroll
                    for (int row = 0; row < PORTBAR_LOOK; ++row)
                        total[row] = portbar_tree(totals[row]);
#pragma unroll
                    for (int row = PORTBAR_LOOK - 1; row > 0; --row)
                        if (row < stop)
                            found = portbar_join(found, portbar_item_of(total[row], 0u));
                    if (top == block) {
                        if ((tile & 31u) == 31u) {
                            const portbar_item whole_block = portbar_tree(lane == 31u ? all : totals[0]);
                            if (lane == 0u)
                                portbar_publish_item(PORTBAR_PLACE_OF_ALL(block), portbar_join(found, whole_block), 2u * epoch + 1u);
                        }
                        if ((tile & 31u) != 0u)
                            found = portbar_join(found, portbar_item_of(total[0], 0u));
                        break;
                    }
                    if (stop > 0)
                        found = portbar_join(found, portbar_item_of(total[0], 0u));
                    top += PORTBAR_LOOK;
                    stop = portbar_look_at(flags, top, tile, epoch, tag, totals);
                }
                if (lane == 0u)
                    found_before[0] = found;
            }
            if (lane == 0u)
                shared[1] = missing;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint missing = shared[1];
        if (missing == PORTBAR_NONE)
            break;
        /* The whole group computes totals that are unknown after some polls, exactly as their own group does: no group
           waits for another to run. Tiles before the last are whole. */
        portbar_item sum = portbar_neutral_item();
#pragma unroll
        for (uint row = 0; row < PORTBAR_ROWS; ++row) {
            const ulong k = (ulong)missing * ${job.tile}u + start + row * ${32 * job.quad}u;
            portbar_item own;
% if job.quad > 1 and job.loads_quads:
            if (quads) {
                const ${job.inputs[0].c}${job.quad} four = *(global const ${job.inputs[0].c}${job.quad} *)(x0 + k);
                own.o0 = ${out.mapped(["four.s0"], "k")};
% for c in range(1, job.quad):
                own.o0 = portbar_combine_0(own.o0, ${out.mapped([f"four.s{c}"], f"k + {c}u")});
% endfor
            } else
% endif
            {
                own.o0 = ${out.mapped_at("k")};
% for c in range(1, job.quad):
                own.o0 = portbar_combine_0(own.o0, ${out.mapped_at(f"k + {c}u")});
% endfor
            }
            const portbar_item last = portbar_item_of(portbar_row(own), 31u);
            sum = row == 0u ? last : portbar_join(sum, last);
        }
        if (lane == 0u)
            again[warp] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (id == 0u) {
            portbar_item total = again[0];
            for (uint w = 1; w < PORTBAR_WARPS; ++w)
                total = portbar_join(total, again[w]);
            portbar_publish_item_for(PORTBAR_PLACE(missing), total, 2u * epoch);
        }
    }
    before = warp == 0u ? found_before[0] : portbar_join(found_before[0], before);
#pragma unroll
    for (uint row = 0; row < PORTBAR_ROWS; ++row) {
        const uint k = start + row * ${32 * job.quad}u;
        const ${out.c} item_first = portbar_combine_0(before.o0, row_sum[row].o0);
        ${out.c} v[${job.quad}];
${unstage_row()}\
#pragma unroll
        for (uint c = 0; c < ${job.quad}u; ++c)
            v[c] = portbar_combine_0(item_first, v[c]);
% if job.is_plain:
% if job.exclusive:
#pragma unroll
        for (uint c = ${job.quad - 1}u; c > 0u; --c)
            v[c] = v[c - 1u];
        v[0] = item_first;
% endif
% if job.quad > 1:
        if (whole && ((ulong)(to + begin) & ${job.quad * out.output.kind.size - 1}ul) == 0ul) {
            const ${out.c}${job.quad} all_of_them = (${out.c}${job.quad})(${", ".join(f"v[{c}]" for c in range(job.quad))});
% if job.quad * out.output.kind.size == 16:
            portbar_store_past((global uint4 *)(to + begin + k), as_uint4(all_of_them));
% else:
            *(global ${out.c}${job.quad} *)(to + begin + k) = all_of_them;
% endif
            continue;
        }
% endif
#pragma unroll
        for (uint c = 0; c < ${job.quad}u; ++c)
            if (whole || begin + k + c < n)
                to[begin + k + c] = v[c];
% else:
        for (uint c = 0; c < ${job.quad}u; ++c)
            if (whole || begin + k + c < n) {
                const ${out.c} item = v[c];
                ${out.c} item_before = item_first;
                if (c != 0u)
                    item_before = v[c - 1u];
${host.put("begin + k + c", "item", "item_before")}\
            }
% endif
    }
}
</%def>
<%def name="stage_row()">
% if job.quad > 1:
            *(local ${job.outputs[0].c}${job.quad} *)(stage + start + row * ${32 * job.quad}u) =
                (${job.outputs[0].c}${job.quad})(${", ".join(f"v[row * {job.quad}u + {c}u]" for c in range(job.quad))});
% else:
            stage[start + row * 32u] = v[row];
% endif
</%def>
<%def name="unstage_row()">
% if job.quad > 1:
        const ${job.outputs[0].c}${job.quad} staged = *(local const ${job.outputs[0].c}${job.quad} *)(stage + k);
% for c in range(job.quad):
        v[${c}] = staged.s${c};
% endfor
% else:
        v[0] = stage[k];
% endif
</%def>
