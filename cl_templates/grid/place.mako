## -*- coding: utf-8 -*-
## Where in a cache a counter lies decides how far each work-group's arrivals and polls travel.
<%def name="place()">
/* Finds the slots at which barriers between the participating work-groups are fastest, once for each state, and remembers them
   there. An H200's cache is in parts, and a barrier through some of them takes a twentieth less; which ones, only a measurement
   tells. Caller: the leader of a participating group. Result: the two slots for PORTBAR_PLACE_FIRST and _SECOND; the same in all groups.
   Cost: one load; the first time ${"measuring" if placing else "as well"}, ${f"about {'a third' if shards > 1 else 'a fifth'} of a millisecond, more with a thousand groups and more" if placing else "since this device is not measured"}. */
static inline uint portbar_place(volatile global uint *state, uint id, uint count, uint limit)
{
% if placing:
    const uint known = portbar_word_load(state + PORTBAR_STATE_PLACE);
    if ((known & PORTBAR_PLACE_MEASURED) != 0u)
        return known;
    /* With few groups it hardly matters, and with many other things cost more. */
    if (count < ${placing[0]}u || count > ${placing[1]}u)
        return PORTBAR_PLACE_DEFAULT;
    uint best = 0u, best_cycles = 0xffffffffu, second = 1u, second_cycles = 0xffffffffu;
    const uint slots = PORTBAR_ROLLED(PORTBAR_SLOTS, limit), rounds = PORTBAR_ROLLED(${placing[2]}u, limit);
    for (uint slot = 0; slot < slots; ++slot) {
        volatile global uint *counter = portbar_slot(state, slot) + PORTBAR_SLOT_PLACING;
        uint begin = 0u;
        for (uint round = 1; round <= rounds; ++round) {
            if (!portbar_place_meet(counter, round * count))
                return PORTBAR_PLACE_DEFAULT;
            if (round == 1u)
                begin = portbar_clock();
        }
        const uint cycles = portbar_clock() - begin;
        if (cycles < best_cycles) {
            second = best;
            second_cycles = best_cycles;
            best = slot;
            best_cycles = cycles;
        } else if (cycles < second_cycles) {
            second = slot;
            second_cycles = cycles;
        }
    }
% if shards > 1:
    /* Two counters that are both near are not always fast together, so the best one is tried with each of the others. */
    best = PORTBAR_PLACE_FIRST(portbar_place_agree(state, id, best | second << 8, count));
    volatile global uint *first = portbar_slot(state, best) + PORTBAR_SLOT_PLACING;
    const bool odd = (id & 1u) != 0u;
    const uint first_each = ${"count" if replicated else "(count + 1u) / 2u"}, other_each = ${"count" if replicated else "count / 2u"};
    uint first_target = rounds * count;
    best_cycles = 0xffffffffu;
    for (uint slot = 0; slot < slots; ++slot) {
        if (slot == best)
            continue;
        volatile global uint *other = portbar_slot(state, slot) + PORTBAR_SLOT_PLACING;
        uint other_target = rounds * count, begin = 0u;
        for (uint round = 1; round <= rounds; ++round) {
            first_target += first_each;
            other_target += other_each;
% if replicated:
            portbar_word_arrive_twice(first, other);
            portbar_hold(count, count);
            if (!portbar_place_wait(odd ? other : first, odd ? other_target : first_target))
                return PORTBAR_PLACE_DEFAULT;
% else:
            const uint missing = (odd ? other_target : first_target) - portbar_word_arrive(odd ? other : first) - 1u;
            portbar_hold(missing * ${shards}u, count);
            if (!portbar_place_wait(first, first_target) || !portbar_place_wait(other, other_target))
                return PORTBAR_PLACE_DEFAULT;
% endif
            if (round == 1u)
                begin = portbar_clock();
        }
        const uint cycles = portbar_clock() - begin;
        if (cycles < best_cycles) {
            second = slot;
            best_cycles = cycles;
        }
    }
% endif
    return portbar_place_agree(state, id, PORTBAR_PLACE_MEASURED | second << 8 | best, count);
% else:
    (void)state;
    (void)id;
    (void)count;
    (void)limit;
    return PORTBAR_PLACE_DEFAULT;
% endif
}
</%def>
<%def name="place_meet()">
% if placing:
static inline volatile global uint *portbar_slot(volatile global uint *state, uint slot)
{
    return state + PORTBAR_STATE_SLOTS + slot * PORTBAR_SLOT_WORDS;
}

/* Waits until a counter has come to `target`, acquire. False when that takes a long time: the kernel's first barrier will then reach
   its limit and say so. */
static inline bool portbar_place_wait(volatile global uint *counter, uint target)
{
    uint seen = portbar_word_load(counter);
    for (uint poll = 0; poll < (1u << 22) && (int)(seen - target) < 0; ++poll)
        seen = portbar_word_load(counter);
    portbar_word_acquire(counter);
    return (int)(seen - target) >= 0;
}

/* One barrier between leaders that counts to `target`, release and acquire. False as portbar_place_wait. */
static inline bool portbar_place_meet(volatile global uint *counter, uint target)
{
    return portbar_word_arrive(counter) + 1u == target || portbar_place_wait(counter, target);
}

/* What group 0 says, in all groups; each call meets once more than the one before. The place by default when they do not meet. */
static inline uint portbar_place_agree(volatile global uint *state, uint id, uint place, uint count)
{
    volatile global uint *counter = portbar_slot(state, 0u) + PORTBAR_SLOT_AGREED;
    if (id == 0u)
        portbar_word_store(state + PORTBAR_STATE_PLACE, place);
    const uint before = portbar_word_arrive(counter);
    if (!portbar_place_wait(counter, (before / count + 1u) * count))
        return PORTBAR_PLACE_DEFAULT;
    return portbar_word_load(state + PORTBAR_STATE_PLACE);
}

static inline uint portbar_clock(void)
{
    uint now;
    __asm__ volatile("mov.u32 %0, %%clock;" : "=r"(now) :: "memory");
    return now;
}
% endif
</%def>
