## -*- coding: utf-8 -*-
## What the kernels of whole arrays need of NVIDIA's warps (PTX, sm_70): lanes with equal digits, shuffles of words, and
## words of 64 bits that carry a value together with the launch that it belongs to.
<%def name="lanes()">\
${defines("portbar_warp_sync")}
/* Waits for all lanes of the warp, whose local memory is as written then. Caller: all lanes. */
static inline void portbar_warp_sync(void)
{
    __asm__ volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}
${defines("portbar_lanes_before")}
/* The lanes before the caller's. */
static inline uint portbar_lanes_before(void)
{
    uint lanes;
    __asm__ volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(lanes));
    return lanes;
}
${defines("portbar_word_before")}
/* The word of the lane `lanes` lanes before; the caller's own if that lane does not exist. Caller: all lanes. */
static inline uint portbar_word_before(const uint word, const uint lanes)
{
    uint found;
    __asm__ volatile("shfl.sync.up.b32 %0, %1, %2, 0, 0xffffffff;" : "=r"(found) : "r"(word), "r"(lanes) : "memory");
    return found;
}
</%def>
<%def name="same_digit()">\
${defines("portbar_same_digit")}
/* The lanes whose digit of 8 bits is the caller's. Caller: all lanes. Cost: a vote for each bit. */
static inline uint portbar_same_digit(const uint digit)
{
    uint same = 0xffffffffu;
#pragma unroll
    for (uint bit = 1; bit < 256u; bit *= 2u) {
        uint lanes;
        __asm__ volatile("{\n\t.reg .pred set;\n\t.reg .u32 one;\n\tand.b32 one, %1, %2;\n\tsetp.ne.u32 set, one, 0;\n\t"
                         "vote.sync.ballot.b32 %0, set, 0xffffffff;\n\t@!set not.b32 %0, %0;\n\t}"
                         : "=r"(lanes) : "r"(digit), "r"(bit) : "memory");
        same &= lanes;
    }
    return same;
}
</%def>
<%def name="tagged_words()">\
${group()}
/* Words of 64 bits, relaxed, device scope: the lower half is a value, the upper one says what it is. Both are read
   together, so that no order is needed. */
${defines("portbar_tagged_load")}
static inline ulong portbar_tagged_load(volatile global ulong *p)
{
    ulong word;
    __asm__ volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(p) : "memory");
    return word;
}
${defines("portbar_tagged_store")}
static inline void portbar_tagged_store(volatile global ulong *p, const uint tag, const uint value)
{
    __asm__ volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(p), "l"(((ulong)tag << 32) | value) : "memory");
}
${end()}
${defines("portbar_tagged_insert")}
/* Stores unless another word than `seen` is there. */
static inline void portbar_tagged_insert(volatile global ulong *p, const ulong seen, const uint tag, const uint value)
{
    ulong before;
    __asm__ volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], %2, %3;"
                     : "=l"(before) : "l"(p), "l"(seen), "l"(((ulong)tag << 32) | value) : "memory");
}
</%def>
<%def name="items()">\
${defines("PORTBAR_ITEM_WORDS")}
#define PORTBAR_ITEM_WORDS ((uint)(sizeof(portbar_item) + 3) / 4u)
${defines("portbar_item_words")}
typedef union {
    portbar_item item;
    uint words[(sizeof(portbar_item) + 3) / 4];
} portbar_item_words;
${group()}
/* The value of another lane: `lanes` before the caller's, `lanes` after it, or by its number; undefined if that lane
   does not exist. Caller: all lanes. */
% for name, mode, clamp in (("before", "up", 0), ("behind", "down", 31), ("of", "idx", 31)):
${defines(f"portbar_item_{name}")}
static inline portbar_item portbar_item_${name}(const portbar_item own, const uint lanes)
{
    portbar_item_words all;
    all.item = own;
#pragma unroll
    for (uint w = 0; w < PORTBAR_ITEM_WORDS; ++w)
        __asm__ volatile("shfl.sync.${mode}.b32 %0, %1, %2, ${clamp}, 0xffffffff;"
                         : "=r"(all.words[w]) : "r"(all.words[w]), "r"(lanes) : "memory");
    return all.item;
}
% endfor
${end()}
${defines("portbar_store_past")}
/* Stores a value that is not read soon: caches need not keep it. */
static inline void portbar_store_past(global uint4 *p, const uint4 v)
{
    __asm__ volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};"
                     :: "l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
${defines("portbar_lanes_with")}
/* The lanes whose argument is true. Caller: all lanes. */
static inline uint portbar_lanes_with(const bool answer)
{
    uint lanes;
    const uint word = answer ? 1u : 0u;
    __asm__ volatile("{\n\t.reg .pred yes;\n\tsetp.ne.u32 yes, %1, 0;\n\tvote.sync.ballot.b32 %0, yes, 0xffffffff;\n\t}"
                     : "=r"(lanes) : "r"(word) : "memory");
    return lanes;
}
</%def>
<%def name="tagged_items()">\
${defines("portbar_publish_item")}
/* A value in global memory, each of its words with the tag of what it is. */
static inline void portbar_publish_item(volatile global ulong *place, const portbar_item item, const uint tag)
{
    portbar_item_words all;
    all.item = item;
#pragma unroll
    for (uint w = 0; w < PORTBAR_ITEM_WORDS; ++w)
        portbar_tagged_store(place + w, tag, all.words[w]);
}
${defines("portbar_load_item")}
/* Issues loads of the words of a value with their tags; they are in flight when this returns. */
static inline void portbar_load_item(volatile global ulong *place, ulong *words)
{
#pragma unroll
    for (uint w = 0; w < PORTBAR_ITEM_WORDS; ++w)
        words[w] = portbar_tagged_load(place + w);
}
${defines("portbar_item_tag")}
/* The tag of a value if all its words have it, and the value; 0 while it is being written. */
static inline uint portbar_item_tag(const ulong *words, portbar_item *item)
{
    portbar_item_words all;
    uint tag = (uint)(words[0] >> 32);
#pragma unroll
    for (uint w = 0; w < PORTBAR_ITEM_WORDS; ++w) {
        all.words[w] = (uint)words[w];
        tag = (uint)(words[w] >> 32) == tag ? tag : 0u;
    }
    *item = all.item;
    return tag;
}
${defines("portbar_publish_item_for")}
/* Publishes a value for another group, unless that group has. Words that it writes concurrently are the same, or more
   recent. */
static inline void portbar_publish_item_for(volatile global ulong *place, const portbar_item item, const uint tag)
{
    portbar_item_words all;
    all.item = item;
#pragma unroll
    for (uint w = 0; w < PORTBAR_ITEM_WORDS; ++w) {
        const ulong seen = portbar_tagged_load(place + w);
        if (((uint)(seen >> 32) & ~1u) != tag)
            portbar_tagged_insert(place + w, seen, tag, all.words[w]);
    }
}
</%def>
