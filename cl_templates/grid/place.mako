## -*- coding: utf-8 -*-
## Where in a cache a counter lies decides how far each work-group's arrivals and polls travel.
<%def name="place_wait()">
${defines("portbar_place_wait")}
/* Waits until a word has come to `target`, acquire. False when that takes long: the first barrier will say so. */
static inline bool portbar_place_wait(volatile global uint *word, uint target)
{
    uint seen = portbar_word_load(word);
    for (uint poll = 0; poll < (${place_polls}) && (int)(seen - target) < 0; ++poll)
        seen = portbar_word_load(word);
    portbar_word_acquire(word);
    return (int)(seen - target) >= 0;
}
</%def>
<%def name="place()">
${defines("portbar_place")}
/* Finds the pair of slots at which barriers are fastest, once per state: caches have partitions, and an H200's barrier
   takes 5% less through some. Two counters that are both near are not always fast together. Caller: the leader of a
   participating group. Result: two slots, the same in all groups. Cost: one load; 0.1 ms the first time. */
static inline uint portbar_place(volatile global uint *state, uint id, uint count, uint limit)
{
    volatile global uint *place = state + PORTBAR_STATE_PLACE;
    const uint known = portbar_word_load(place);
    if ((known & PORTBAR_PLACE_MEASURED) != 0u)
        return known;
    /* Negligible with few groups, dominated by other costs with many. */
    if (count < ${placing[0]}u || count > ${placing[1]}u)
        return PORTBAR_PLACE_DEFAULT;
    uint best = PORTBAR_PLACE_DEFAULT, best_cycles = 0xffffffffu;
    const uint slots = PORTBAR_ROLLED(PORTBAR_SLOTS, limit), rounds = PORTBAR_ROLLED(${placing[2]}u, limit);
    for (uint slot = 0; slot < slots; slot += 2u) {
        volatile global uint *counter = state + PORTBAR_SLOT_AT(slot) + PORTBAR_SLOT_PLACING;
        uint begin = 0u;
        for (uint round = 1; round <= rounds; ++round) {
${place_lines}\
            if (round == 1u)
                begin = portbar_clock();
        }
        const uint cycles = portbar_clock() - begin;
        if (cycles < best_cycles) {
            best = slot | (slot + 1u) << 8;
            best_cycles = cycles;
        }
    }
    /* All groups take the choice of group 0. */
    if (id == 0u)
        portbar_word_store(place, PORTBAR_PLACE_MEASURED | best);
    return portbar_place_wait(place, PORTBAR_PLACE_MEASURED) ? portbar_word_load(place) : PORTBAR_PLACE_DEFAULT;
}
</%def>
