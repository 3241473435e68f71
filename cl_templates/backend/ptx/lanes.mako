## -*- coding: utf-8 -*-
## Communication between the lanes of a warp: shuffles and redux (PTX, sm_70 and sm_80), and values that carry a
## launch's tag.
<%def name="shuffles()">\
${group()}
/* Another lane's word: `by` lanes before the caller's, the caller's lane with bits flipped, or a lane by its id in the
   warp. Any word where there is no such lane. Caller: all lanes of the warp, together; the mask may name lanes that
   never were, since a shuffle waits for those that have not exited (PTX ISA, shfl.sync), and one that the compiler
   knows costs no looking for the lanes that it names. */
% for mode, clamp in (("up", 0), ("bfly", 31), ("idx", 31)):
${defines(f"portbar_shuffle_{mode}")}
PORTBAR_COLLECTIVE uint portbar_shuffle_${mode}(uint word, uint by)
{
    uint found;
    __asm__ volatile("shfl.sync.${mode}.b32 %0, %1, %2, ${clamp}, 0xffffffff;"
                     : "=r"(found) : "r"(word), "r"(by) : "memory");
    return found;
}
% endfor
${end()}
</%def>
<%def name="redux(redux)">\
__asm__ volatile("redux.sync.${redux} %0, %1, 0xffffffff;" : "=r"(all) : "r"(x) : "memory");
</%def>
<%def name="item_from()">\
${defines("portbar_from")}
/* The values of the lane `lanes` lanes further on. Caller: all lanes of the warp. */
static inline portbar_item portbar_from(const portbar_item own, const uint lanes)
{
    union { portbar_item item; uint words[(sizeof(portbar_item) + 3) / 4]; } all;
    all.item = own;
#pragma unroll
    for (uint w = 0; w < (sizeof(portbar_item) + 3) / 4; ++w)
        __asm__ volatile("shfl.sync.down.b32 %0, %1, %2, 0x1f, 0xffffffff;"
                         : "=r"(all.words[w]) : "r"(all.words[w]), "r"(lanes) : "memory");
    return all.item;
}
</%def>
<%def name="tagged()">\
${defines("PORTBAR_ITEM_WORDS")}
#define PORTBAR_ITEM_WORDS ((uint)(sizeof(portbar_item) + 3) / 4u)
${defines("portbar_item_words")}
typedef union {
    portbar_item item;
    uint words[(sizeof(portbar_item) + 3) / 4];
} portbar_item_words;
${defines("portbar_leave")}
/* A work-group leaves each word of what it found together with this launch's tag, in one store. So no fence is needed
   before the count: a group that reads the tag reads the word as well. */
static inline void portbar_leave(volatile global ulong *place, const portbar_item own, const uint tag)
{
    portbar_item_words all;
    all.item = own;
#pragma unroll
    for (uint w = 0; w < PORTBAR_ITEM_WORDS; ++w)
        __asm__ volatile("st.relaxed.gpu.global.u64 [%0], %1;"
                         :: "l"(place + w), "l"(((ulong)tag << 32) | all.words[w]) : "memory");
}
${defines("portbar_left")}
/* The value of a work-group that has already arrived: its stores are in flight, so this waits for memory, not for a
   group. */
static inline portbar_item portbar_left(volatile global ulong *place, const uint tag)
{
    portbar_item_words all;
#pragma unroll
    for (uint w = 0; w < PORTBAR_ITEM_WORDS; ++w) {
        ulong word = 0ul;
        for (uint polls = 0; polls < 0x1000000u && (uint)(word >> 32) != tag; ++polls)
            __asm__ volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(place + w) : "memory");
        all.words[w] = (uint)word;
    }
    return all.item;
}
${group()}
/* One more group that has left what it found, in any order with that; how many there were before. */
${defines("portbar_count_one")}
static inline uint portbar_count_one(volatile global uint *counter)
{
    uint before;
    __asm__ volatile("atom.add.relaxed.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}
${defines("PORTBAR_FOUND")}
#define PORTBAR_FOUND(k) portbar_left(found + 1u + (k) * PORTBAR_ITEM_WORDS, tag)
${end()}
</%def>
