## -*- coding: utf-8 -*-
## portbar.sort by groups of one work-item, as CPUs run best: each goes through its tile twice, to count and to move.
<%namespace name="host" file="sort/host.mako"/>
<%namespace name="tiles" file="scan/look_back.mako"/>
<%def name="kernels()">
${tiles.next_tile(job.by)}\
${host.count_head()}\
    uint found[${job.digits} * 256];
    for (uint k = 0; k < ${job.digits}u * PORTBAR_BINS; ++k)
        found[k] = 0u;
    const uint begin = (uint)get_group_id(0) * ${job.tile}u, end = n - begin > ${job.tile}u ? begin + ${job.tile}u : n;
    for (uint k = begin; k < end; ++k) {
        const portbar_key order = portbar_order(keys[k]) >> begin_bit;
% for digit in range(job.digits):
        ++found[${host.bin("order", digit)}];
% endfor
    }
    for (uint k = 0; k < ${job.digits}u * PORTBAR_BINS; ++k)
        if (found[k] != 0u)
            (void)portbar_word_add_relaxed(bins + first_bin + k, found[k]);
}
/* How often each value of a digit is in a tile. */
static inline void portbar_count_tile(global const portbar_key *keys, const uint n, const uint tile, const uint shift,
                                      const uint mask, uint *found)
{
    const uint begin = tile * ${job.tile}u, end = n - begin > ${job.tile}u ? begin + ${job.tile}u : n;
    /* Two counts of neighbours, which are often the same digit: one would wait for the other. */
    uint more[256];
    for (uint d = 0; d < PORTBAR_BINS; ++d)
        found[d] = more[d] = 0u;
    uint k = begin;
    for (; k + 1u < end; k += 2u) {
        ++found[PORTBAR_DIGIT(keys[k], shift, mask)];
        ++more[PORTBAR_DIGIT(keys[k + 1u], shift, mask)];
    }
    if (k < end)
        ++found[PORTBAR_DIGIT(keys[k], shift, mask)];
    for (uint d = 0; d < PORTBAR_BINS; ++d)
        found[d] += more[d];
}
${host.pass_head()}\
    const uint tile = portbar_next_tile(ticket, (uint)get_num_groups(0));
    global const portbar_key *restrict keys = in + in_offset;
    uint found[256], place[256], other[256];
    portbar_count_tile(keys, n, tile, shift, mask, found);
    global uint *mine = counts + 2u * PORTBAR_BINS * tile;
    if (tile != 0u) {
        for (uint d = 0; d < PORTBAR_BINS; ++d)
            mine[d] = found[d];
        portbar_word_store_release(words + tile, 2u * epoch);
    }
    for (uint d = 0; d < PORTBAR_BINS; ++d)
        place[d] = 0u;
    /* Back to the nearest tile that tells the counts of all up to it. */
    for (uint next = tile; next != 0u; --next) {
        uint seen = portbar_word_load(words + next - 1u);
        for (uint poll = 0; poll < ${job.shape.polls}u && (seen & ~1u) != 2u * epoch; ++poll)
            seen = portbar_word_load(words + next - 1u);
        if ((seen & ~1u) != 2u * epoch) {
            /* It is not known after some polls, and is counted here: no group waits for another to run. */
            portbar_count_tile(keys, n, next - 1u, shift, mask, other);
            for (uint d = 0; d < PORTBAR_BINS; ++d)
                place[d] += other[d];
            continue;
        }
        (void)portbar_word_load_acquire(words + next - 1u);
        const bool all = seen == 2u * epoch + 1u;
        global const uint *theirs = counts + 2u * PORTBAR_BINS * (next - 1u) + (all ? PORTBAR_BINS : 0u);
        for (uint d = 0; d < PORTBAR_BINS; ++d)
            place[d] += theirs[d];
        if (all)
            break;
    }
    for (uint d = 0; d < PORTBAR_BINS; ++d)
        mine[PORTBAR_BINS + d] = place[d] + found[d];
    portbar_word_store_release(words + tile, 2u * epoch + 1u);
    uint smaller = 0u;
    for (uint d = 0; d < PORTBAR_BINS; ++d) {
        place[d] += smaller;
        smaller += bins[first_bin + d];
    }
    const uint begin = tile * ${job.tile}u, end = n - begin > ${job.tile}u ? begin + ${job.tile}u : n;
    /* Results wait in lines of 64 bytes, which are written whole: memory would read each line before it takes a part. */
    portbar_key lines[${256 * job.line}];
    global portbar_key *restrict to = out + out_offset;
% if job.stages_values:
    portbar_value lines_of_values[${256 * job.line}];
    global portbar_value *restrict values_to = values_out + values_out_offset;
% endif
    for (uint d = 0; d < PORTBAR_BINS; ++d)
        other[d] = place[d];
    for (uint k = begin; k < end; ++k) {
        const portbar_key key = keys[k];
        const uint digit = PORTBAR_DIGIT(key, shift, mask), at = place[digit]++;
        lines[digit * ${job.line}u + at % ${job.line}u] = key;
% if job.stages_values:
        ${host.move_value("k", f"digit * {job.line}u + at % {job.line}u", "lines_of_values")}
% elif job.value_type:
        ${host.move_value("k", "values_out_offset + at", "values_out")}
% endif
        if (at % ${job.line}u == ${job.line - 1}u) {
            const uint line = at - ${job.line - 1}u;
            if (other[digit] <= line)
                for (uint j = 0; j < ${job.line}u; ++j) {
${write("line + j", "digit", "j")}\
                }
            else
                for (uint j = other[digit]; j <= at; ++j) {
${write("j", "digit", f"j % {job.line}u")}\
                }
        }
    }
    for (uint d = 0; d < PORTBAR_BINS; ++d)
        for (uint j = max(other[d], place[d] - place[d] % ${job.line}u); j < place[d]; ++j) {
${write("j", "d", f"j % {job.line}u")}\
        }
}
</%def>
<%def name="write(at, digit, place)">\
                    to[${at}] = lines[${digit} * ${job.line}u + ${place}];
% if job.stages_values:
                    values_to[${at}] = lines_of_values[${digit} * ${job.line}u + ${place}];
% endif
</%def>
<%def name="small()">
<% places = ["in", *(["spare", "out"] * job.digits)[job.digits % 2:][:job.digits]] %>\
/* Sorts few keys, digit after digit. */
kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void portbar_sort_small(
${host.moved_parameters()}\
    const uint numbers, const uint n, const uint begin_bit, const uint last_mask, global portbar_key *spare
% if job.value_type:
    , global portbar_value *values_spare
% endif
    )
{
    const ulong spare_offset = 0, values_spare_offset = 0;
    uint place[${job.digits} * 256];
    for (uint k = 0; k < ${job.digits}u * PORTBAR_BINS; ++k)
        place[k] = 0u;
    for (uint k = 0; k < n; ++k) {
        const portbar_key order = portbar_order(in[in_offset + k]) >> begin_bit;
% for digit in range(job.digits):
        ++place[${host.bin("order", digit)}];
% endfor
    }
    for (uint digit = 0; digit < ${job.digits}u; ++digit) {
        uint smaller = 0u;
        for (uint d = 0; d < PORTBAR_BINS; ++d) {
            const uint count = place[digit * PORTBAR_BINS + d];
            place[digit * PORTBAR_BINS + d] = smaller;
            smaller += count;
        }
    }
% for digit in range(job.digits):
<% source, target = places[digit], places[digit + 1] %>\
    for (uint k = 0; k < n; ++k) {
        const portbar_key key = ${source}[${source}_offset + k];
        const uint mask = ${host.mask(digit)};
        const uint to = place[${digit * 256}u + PORTBAR_DIGIT(key, begin_bit + ${8 * digit}u, mask)]++;
        ${target}[${target}_offset + to] = key;
% if job.value_type:
% if digit == 0 and job.numbers:
        values_${target}[values_${target}_offset + to] = numbers != 0u ? (portbar_value)k : values_in[values_in_offset + k];
% else:
        values_${target}[values_${target}_offset + to] = values_${source}[values_${source}_offset + k];
% endif
% endif
    }
% endfor
}
</%def>
