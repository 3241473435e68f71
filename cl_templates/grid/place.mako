## -*- coding: utf-8 -*-
## Where in a cache a counter lies decides how far each work-group's arrivals and polls travel.
<%def name="place()">
/* Finds the slots at which barriers between the participating work-groups are fastest, once for each state, and remembers them
   there. An H200's cache is in parts, and a barrier through some of them takes a twentieth less; which ones, only a measurement
   tells. Caller: the leader of a participating group. Result: the two slots for PORTBAR_PLACE_FIRST and _SECOND; the same in all groups. Cost: one load; the first time ${"measuring" if placing else "as well"}, ${"about a fifth of a millisecond" if placing else "since this device is not measured"}. */
static inline uint portbar_place(volatile global uint *state, uint id, uint count, uint limit)
{
% if placing:
    volatile global uint *word = state + PORTBAR_STATE_PLACE;
    const uint known = portbar_word_load(word);
    if ((known & PORTBAR_PLACE_MEASURED) != 0u)
        return known;
    /* With few groups it hardly matters, and with many other things cost more. */
    if (count < ${placing[0]}u || count > ${placing[1]}u)
        return PORTBAR_PLACE_DEFAULT;
    uint best = 0u, best_cycles = 0xffffffffu, second = 1u, second_cycles = 0xffffffffu;
    const uint slots = PORTBAR_ROLLED(PORTBAR_SLOTS, limit), rounds = PORTBAR_ROLLED(${placing[2]}u, limit);
    for (uint slot = 0; slot < slots; ++slot) {
        volatile global uint *counter = state + PORTBAR_STATE_SLOTS + slot * PORTBAR_SLOT_WORDS + PORTBAR_SLOT_PLACING;
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
    if (id == 0u)
        portbar_word_store(word, PORTBAR_PLACE_MEASURED | second << 8 | best);
    /* One more in the first slot, so that all count where group 0 says. */
    if (!portbar_place_meet(state + PORTBAR_STATE_SLOTS + PORTBAR_SLOT_PLACING, ${placing[2] + 1}u * count))
        return PORTBAR_PLACE_DEFAULT;
    return portbar_word_load(word);
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
/* One barrier between leaders that counts to `target`, release and acquire. False when somebody did not come for a long time: the
   kernel's first barrier will then reach its limit and say so. */
static inline bool portbar_place_meet(volatile global uint *counter, uint target)
{
    uint seen = portbar_word_arrive(counter) + 1u;
    for (uint poll = 0; poll < (1u << 22) && (int)(seen - target) < 0; ++poll)
        seen = portbar_word_load(counter);
    portbar_word_acquire(counter);
    return (int)(seen - target) >= 0;
}

static inline uint portbar_clock(void)
{
    uint now;
    __asm__ volatile("mov.u32 %0, %%clock;" : "=r"(now) :: "memory");
    return now;
}
% endif
</%def>
