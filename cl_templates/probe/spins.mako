## -*- coding: utf-8 -*-
## Bounded spins: who runs at the same time as whom, and whether what was written before a release is seen after an acquire.
<%def name="residents()">
/* Counts the work-groups that are in the kernel at the same time. A group adds itself, stays until `expected` groups are there
   or until no new one came for `patience` iterations of ${unroll + 1} polls, and takes itself away again, so the count never
   includes a group that has left. The first to give up closes the kernel for those that come later.
   `words`: lines for the count and for the closed flag, all 0. most[g] is the highest count that group g saw. */
kernel void portbar_probe_residents(volatile global uint *words, global uint *most, uint expected, uint patience)
{
    volatile global uint *present = words, *closed = words + ${line_words};
    if (get_local_id(0) == 0) {
        uint highest = 0u;
        if (portbar_word_load(closed) == 0u) {
            highest = portbar_word_add(present, 1u) + 1u;
            uint idle = 0u;
            while (highest < expected && idle < patience && portbar_word_load(closed) == 0u) {
                uint now = highest;
% for _ in range(unroll):
                now = max(now, portbar_word_load(present));
% endfor
                idle = now > highest ? 0u : idle + 1u;
                highest = now;
            }
            portbar_word_or(closed, 1u);
            portbar_word_add(present, 0xffffffffu);
        }
        most[get_group_id(0)] = highest;
    }
    /* The whole group stays as long as its first work-item does. */
    barrier(CLK_LOCAL_MEM_FENCE);
}
</%def>
<%def name="handshake()">
/* Work-item `a` waits for `b`, then `b` for `a`, by global id, at most `limit` polls each. It succeeds only where both make
   progress while the other one spins. `words`: two lines, all 0. met[0] and met[1] become 1 where a's and b's wait ended well. */
kernel void portbar_probe_handshake(volatile global uint *words, global uint *met, uint a, uint b, uint limit)
{
    const uint id = (uint)get_global_id(0);
    volatile global uint *from_b = words, *from_a = words + ${line_words};
    if (id == a) {
        uint seen = 0u;
        for (uint i = 0; i < limit && seen == 0u; ++i)
            seen = portbar_word_load(from_b);
        met[0] = seen;
        if (seen != 0u)
            portbar_word_store_release(from_a, 1u);
    } else if (id == b) {
        portbar_word_store_release(from_b, 1u);
        uint seen = 0u;
        for (uint i = 0; i < limit && seen == 0u; ++i)
            seen = portbar_word_load(from_a);
        met[1] = seen;
    }
}
</%def>
<%def name="messages()">
/* Message passing between pairs of work-groups, to and fro: one writes ${payload} plain words on lines of their own and
   releases a flag, the other polls the flag, acquires, checks the words and replies in the same way. Every round
   overwrites the words of the round before, so a stale line or a moved access shows. Groups of one work-item, an even
   number of them. `flags`: a line per group, all 0. `data`: ${payload} lines per group. report[4 g]: rounds that group
   g finished; then those of them in which it read stale data; then waits that reached `limit` polls, which end the
   launch: those for a message that was not there yet, and those for one that was, as an atomic addition says, which reads
   the newest value whatever the polls read. */
kernel void portbar_probe_messages(volatile global uint *flags, global uint *data, global uint *report, uint rounds, uint limit)
{
    const uint group = (uint)get_group_id(0), pairs = (uint)get_num_groups(0) / 2u;
    const bool opens = group < pairs;
    const uint peer = opens ? group + pairs : group - pairs;
    volatile global uint *mine = flags + group * ${line_words}, *theirs = flags + peer * ${line_words};
    global uint *sent = data + group * ${line_words * payload};
    global const uint *received = data + peer * ${line_words * payload};
    uint done = 0u, stale = 0u, absent = 0u, missed = 0u;
    for (uint round = 1; round <= rounds; ++round) {
        if (opens) {
            for (uint k = 0; k < ${payload}u; ++k)
                sent[k * ${line_words}] = round * ${payload}u + k;
            portbar_word_store_release(mine, round);
        }
        uint seen = 0u;
        for (uint i = 0; i < limit && (int)(seen - round) < 0; ++i)
            seen = ${message_poll};
        if ((int)(seen - round) < 0) {
            missed = (int)(portbar_word_add(theirs, 0u) - round) < 0 ? 0u : 1u;
            absent = 1u - missed;
            break;
        }
        (void)portbar_word_load_acquire(theirs);
        bool fresh = true;
        for (uint k = 0; k < ${payload}u; ++k)
            fresh = received[k * ${line_words}] == round * ${payload}u + k && fresh;
        stale += fresh ? 0u : 1u;
        ++done;
        if (!opens) {
            for (uint k = 0; k < ${payload}u; ++k)
                sent[k * ${line_words}] = round * ${payload}u + k;
            portbar_word_store_release(mine, round);
        }
    }
    report[4u * group] = done;
    report[4u * group + 1u] = stale;
    report[4u * group + 2u] = absent;
    report[4u * group + 3u] = missed;
}
</%def>
