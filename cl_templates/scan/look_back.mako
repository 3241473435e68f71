## -*- coding: utf-8 -*-
## Look-back with fallback, for portbar.scan and portbar/scan.h: one text for both. `by` says how they call things
## (portbar.primitives.scan.look_back.LookBack). Its loops are inlined always: PoCL 3.1 crashes where it inlines them late.
<%def name="tile_words()">
${defines("PORTBAR_TILE_KNOWN", "PORTBAR_ALL_KNOWN")}
/* Each tile has a word, 2 * epoch where it is known what the tile amounts to, and 1 more where it is known what all
   tiles up to it amount to; the values lie in `tiles`. */
#define PORTBAR_TILE_KNOWN(word) (((word) & ~1u) == 2u * epoch)
#define PORTBAR_ALL_KNOWN(word) ((word) == 2u * epoch + 1u)
</%def>
<%def name="look_back(by)">
${defines(f"{by.name}_look_back")}
/* Where to begin: after the nearest tile up to which all is known. `found` gets that. Caller: one work-item. Order:
   acquire at device scope from that tile's word. */
static inline __attribute__((always_inline)) uint ${by.name}_look_back(const uint tile, const uint epoch, volatile global uint *flags,
                                     global const ${by.value} *tiles, ${by.space}${by.value} *found)
{
    uint next = tile;
    while (next != 0u && !PORTBAR_ALL_KNOWN(${by.load("flags + next - 1u")}))
        --next;
    if (next != 0u) {
        (void)${by.load_acquire("flags + next - 1u")};
        *found = tiles[2u * next - 1u];
    }
    return next;
}
${defines(f"{by.name}_take_known")}
/* Combines tiles from `next` on, from left to right, so that timing changes no bits; ends at `tile`, or at one that is
   not known after some polls. Caller: one work-item. Order: acquire at device scope from the words of those that it
   takes. */
static inline __attribute__((always_inline)) uint ${by.name}_take_known(uint next, const uint tile, const uint epoch, volatile global uint *flags,
                                      global const ${by.value} *tiles, ${by.space}${by.value} *found)
{
    for (; next < tile; ++next) {
        uint seen = ${by.load("flags + next")};
        for (uint poll = 0; poll < ${by.polls} && !PORTBAR_TILE_KNOWN(seen); ++poll)
            seen = ${by.load("flags + next")};
        if (!PORTBAR_TILE_KNOWN(seen))
            break;
        (void)${by.load_acquire("flags + next")};
        *found = PORTBAR_ALL_KNOWN(seen) ? tiles[2u * next + 1u] : ${by.join}(*found, tiles[2u * next]);
    }
    return next;
}
</%def>
<%def name="next_tile(by)">
${defines("portbar_next_tile")}
/* A tile for the caller's group: they are numbered as groups begin, so that those before have begun. The last of
   `groups` leaves the counter as it was. Caller: one work-item. */
static inline __attribute__((always_inline)) uint portbar_next_tile(volatile global uint *ticket, const uint groups)
{
    const uint tile = ${by.add("ticket", "1u")};
    if (tile + 1u == groups)
        ${by.store("ticket", "0u")};
    return tile;
}
</%def>
<%def name="publish(by, own, indent)">
${indent}tiles[2u * tile] = ${own};
${indent}${by.store_release("flags + tile", "2u * epoch")};
</%def>
<%def name="publish_all(by, found, own)">
        tiles[2u * tile + 1u] = ${by.join}(${found}, ${own});
        ${by.store_release("flags + tile", "2u * epoch + 1u")};
</%def>
