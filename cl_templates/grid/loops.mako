## -*- coding: utf-8 -*-
## Loops over ranges that the work-items of a grid share: fixed shares, and parts that free work-groups claim.
<%def name="fixed_loops()">
<%
    clause = ", ..." if reached("independent") else ""
    turns = "PORTBAR_TURNS_##__VA_ARGS__ \\\n    " if clause else ""
    turns_inside = turns + 4 * " " if clause else ""
    promise = clause and (
        "\n   A last argument `independent` promises that no iteration writes memory that another one of the same "
        "work-item\n   reads or writes: CPUs then execute several at once."
    )
%>\
% if clause:
${defines("PORTBAR_TURNS_")}
/* By the last argument of a loop: the compiler's directive for it. */
#define PORTBAR_TURNS_
    % if vectorises_turns:
#define PORTBAR_TURNS_independent _Pragma("clang loop vectorize(assume_safety) interleave(assume_safety)")
/* Compilers would warn of each loop that gains nothing by it. */
#pragma clang diagnostic ignored "-Wpass-failed"
    % else:
#define PORTBAR_TURNS_independent
    % endif

% endif
% if loops_in_pieces:
${defines("portbar_share")}
/* The first of `n` elements in a work-item's share; each share is one piece. Any work-item. */
static inline uint portbar_share(uint n, uint shares, uint at)
{
    const uint each = n / shares, more = n % shares;
    return at * each + min(at, more);
}

${defines("portbar_share_size")}
/* How many elements a share has. */
static inline uint portbar_share_size(uint n, uint shares, uint at)
{
    return n / shares + (at < n % shares ? 1u : 0u);
}

${defines("portbar_share_of_rows")}
/* A share of rows of elements: it begins in column x of row y and ends before column z of the row before w. */
static inline uint4 portbar_share_of_rows(const portbar_grid *grid, uint row, uint rows)
{
    const ulong n = (ulong)row * rows, shares = portbar_global_size(grid), at = portbar_global_id(grid);
    const ulong first = at * (n / shares) + min(at, n % shares), end = first + n / shares + (at < n % shares ? 1u : 0u);
    if (first == end)
        return (uint4)(0u);
    const uint last = (uint)((end - 1u) / row);
    return (uint4)((uint)(first % row), (uint)(first / row), (uint)(end - (ulong)last * row), last + 1u);
}

${defines("PORTBAR_FOR")}
/* A loop over `uint i` < n, shared by the work-items of the grid: each value is taken once, and each work-item takes
   neighbours, which is fast where threads have caches of their own. The body holds no barrier, since work-items take
   different numbers of turns.${promise} Caller: any work-item of the grid. Cost: two divisions per loop. */
#define PORTBAR_FOR(i, grid, n${clause}) ${"\\"}
    ${turns}for (uint portbar_n = (n), portbar_items = portbar_global_size(grid), ${"\\"}
              i = portbar_share(portbar_n, portbar_items, portbar_global_id(grid)), ${"\\"}
              portbar_end = i + portbar_share_size(portbar_n, portbar_items, portbar_global_id(grid)); ${"\\"}
         i < portbar_end; ++i)

${defines("PORTBAR_FOR_2D")}
/* PORTBAR_FOR over x < width and y < height, without a division in the body. The body does not change x and y, and
   does not `break`, which would leave one row. Sides are below 2^31. Caller: as for PORTBAR_FOR. Cost: a few divisions
   per loop. */
#define PORTBAR_FOR_2D(x, y, grid, width, height${clause}) ${"\\"}
    for (uint4 portbar_sides = (uint4)((width), (height), 0u, 0u), ${"\\"}
               portbar_rows = portbar_share_of_rows(grid, portbar_sides.s0, portbar_sides.s1); ${"\\"}
         portbar_rows.s1 < portbar_rows.s3; ++portbar_rows.s1, portbar_rows.s0 = 0u) ${"\\"}
        ${turns_inside}for (uint x = portbar_rows.s0, y = portbar_rows.s1, ${"\\"}
                  portbar_end = y + 1u == portbar_rows.s3 ? portbar_rows.s2 : portbar_sides.s0; ${"\\"}
             x < portbar_end; ++x)

${defines("PORTBAR_FOR_3D")}
/* PORTBAR_FOR_2D with a third side: x < width, y < height and z < depth; height * depth is below 2^32. Caller: as for
   PORTBAR_FOR. Cost: a few divisions per loop. */
#define PORTBAR_FOR_3D(x, y, z, grid, width, height, depth${clause}) ${"\\"}
    for (uint4 portbar_sides = (uint4)((width), (height), (depth), 0u), ${"\\"}
               portbar_rows = ${"\\"}
                   portbar_share_of_rows(grid, portbar_sides.s0, portbar_sides.s1 * portbar_sides.s2); ${"\\"}
         portbar_rows.s1 < portbar_rows.s3; ++portbar_rows.s1, portbar_rows.s0 = 0u) ${"\\"}
        ${turns_inside}for (uint x = portbar_rows.s0, ${"\\"}
                  y = portbar_rows.s1 % portbar_sides.s1, z = portbar_rows.s1 / portbar_sides.s1, ${"\\"}
                  portbar_end = portbar_rows.s1 + 1u == portbar_rows.s3 ? portbar_rows.s2 : portbar_sides.s0; ${"\\"}
             x < portbar_end; ++x)
% else:
${defines("PORTBAR_FOR")}
/* A loop over `uint i` < n, shared by the work-items of the grid: each value is taken once. Neighbouring work-items
   take neighbours, so that accesses to memory join. The body holds no barrier: work-items take different numbers of
   turns.${promise} Caller: any work-item of the grid. Cost: a division per loop. */
#define PORTBAR_FOR(i, grid, n${clause}) ${"\\"}
    ${turns}for (uint portbar_n = (n), portbar_stride = portbar_global_size(grid), i = portbar_global_id(grid), ${"\\"}
              portbar_turns = i < portbar_n ? (portbar_n - i - 1u) / portbar_stride + 1u : 0u; ${"\\"}
         portbar_turns != 0u; --portbar_turns, i += portbar_stride)

${defines("portbar_walk")}
/* A way through three dimensions. A tile is what a work-group covers at once: its local size where that has several
   dimensions; otherwise one element for each work-item, along the rows. */
typedef struct {
    uint3 sides;
    uint3 tile;
    uint3 tiled;  /* the sides, rounded up to whole tiles */
    uint3 step;
    uint3 at;
} portbar_walk;

${defines("portbar_walk_begin")}
/* The way of one work-item. Any work-item. */
static inline portbar_walk portbar_walk_begin(const portbar_grid *grid, uint3 sides)
{
    const bool by_tiles = get_local_size(1) * get_local_size(2) > 1u;
    const uint3 local_size = (uint3)((uint)get_local_size(0), (uint)get_local_size(1), (uint)get_local_size(2));
    const uint3 local_id = (uint3)((uint)get_local_id(0), (uint)get_local_id(1), (uint)get_local_id(2));
    portbar_walk walk;
    walk.sides = sides;
    walk.tile = by_tiles ? local_size : (uint3)(1u);
    const uint3 tiles = max((sides + walk.tile - 1u) / walk.tile, (uint3)(1u));
    walk.tiled = tiles * walk.tile;
    const uint2 strides = (uint2)(tiles.x, tiles.x * tiles.y);
    const uint at = by_tiles ? portbar_group_id(grid) : portbar_global_id(grid);
    const uint step = by_tiles ? portbar_num_groups(grid) : portbar_global_size(grid);
    walk.at = walk.tile * (uint3)(at % tiles.x, at / strides.x % tiles.y, at / strides.y);
    walk.at += by_tiles ? local_id : (uint3)(0u);
    walk.step = walk.tile * (uint3)(step % tiles.x, step / strides.x % tiles.y, step / strides.y);
    return walk;
}

${defines("portbar_walk_on")}
/* Goes one step on: what reaches beyond a side goes on in the next row or plane. */
static inline void portbar_walk_on(portbar_walk *walk)
{
    walk->at += walk->step;
    if (walk->at.x >= walk->tiled.x) {
        walk->at.x -= walk->tiled.x;
        walk->at.y += walk->tile.y;
    }
    if (walk->at.y >= walk->tiled.y) {
        walk->at.y -= walk->tiled.y;
        walk->at.z += walk->tile.z;
    }
}

${defines("PORTBAR_WALK")}
#define PORTBAR_WALK(grid, width, height, depth) ${"\\"}
    for (portbar_walk portbar_way = portbar_walk_begin(grid, (uint3)((width), (height), (depth))); ${"\\"}
         portbar_way.at.s2 < portbar_way.sides.s2; portbar_walk_on(&portbar_way))

${defines("PORTBAR_FOR_2D")}
/* PORTBAR_FOR over x < width and y < height, without a division in the body. The body does not change x and y, and
   does not `break`, which would leave one element. The product of the sides is below 2^32, each below 2^31. Caller: as
   for PORTBAR_FOR. Cost: a few divisions per loop. */
#define PORTBAR_FOR_2D(x, y, grid, width, height${clause}) ${"\\"}
    ${turns}PORTBAR_WALK(grid, width, height, 1u) ${"\\"}
        for (uint x = portbar_way.at.s0, y = portbar_way.at.s1, ${"\\"}
                  portbar_inside = x < portbar_way.sides.s0 && y < portbar_way.sides.s1; ${"\\"}
             portbar_inside != 0u; portbar_inside = 0u)

${defines("PORTBAR_FOR_3D")}
/* PORTBAR_FOR_2D with a third side: x < width, y < height and z < depth. Caller: as for PORTBAR_FOR. Cost: a few
   divisions per loop. */
#define PORTBAR_FOR_3D(x, y, z, grid, width, height, depth${clause}) ${"\\"}
    ${turns}PORTBAR_WALK(grid, width, height, depth) ${"\\"}
        for (uint x = portbar_way.at.s0, y = portbar_way.at.s1, z = portbar_way.at.s2, ${"\\"}
                  portbar_inside = x < portbar_way.sides.s0 && y < portbar_way.sides.s1; ${"\\"}
             portbar_inside != 0u; portbar_inside = 0u)
% endif
</%def>
<%def name="static_tiles()">
% if loops_in_pieces:
${defines("PORTBAR_ENTERED")}
/* A word of a kernel that has entered its grid; elsewhere the same by the grid. Compilers see that a word of local
   memory is alike in all work-items of a group, and make vectors of them; of what is in the private grid they do
   not. */
enum { portbar_entered_once = 0 };
#define PORTBAR_ENTERED(grid, word) ${"\\"}
    (sizeof(portbar_entered_once) > sizeof(int) ? ((local uint *)portbar_entered_once)[word] : (grid)->shared[word])

% endif
${defines("portbar_tiles_begin")}
% if loops_in_pieces:
/* Begins such a loop, in words that hold a claim in others: the first tile of the work-group, and the end of its share.
   Caller: all work-items of the group, which have ended what was before. */
static inline void portbar_tiles_begin(const portbar_grid *grid, uint count)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid)) {
        const uint groups = portbar_num_groups(grid), group = portbar_group_id(grid);
        const uint first = portbar_share(count, groups, group);
        grid->shared[PORTBAR_SHARED_CLAIMED] = first;
        grid->shared[PORTBAR_SHARED_CLAIMED + 1] = first + portbar_share_size(count, groups, group);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}
% else:
/* Begins such a loop. Caller: all work-items of the group, which have ended what was before. */
static inline uint portbar_tiles_begin(uint first)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return first;
}
% endif

${defines("portbar_tile_ends")}
/* Ends a tile: the next one begins when the work-group has ended this one. Caller: as there. */
## In the third part of a loop: with a barrier before its condition, PoCL makes no vectors of the body.
static inline void portbar_tile_ends(void)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}

<%def name="shared_tiles(tile, count)">\
% if loops_in_pieces:
portbar_end = (portbar_tiles_begin(grid, ${count}), PORTBAR_ENTERED(grid, PORTBAR_SHARED_CLAIMED + 1)), ${"\\"}
              ${tile} = PORTBAR_ENTERED(grid, PORTBAR_SHARED_CLAIMED)\
% else:
portbar_count = ${count}, portbar_groups = portbar_num_groups(grid), ${"\\"}
              ${tile} = portbar_tiles_begin(portbar_group_id(grid)), ${"\\"}
              portbar_turns = ${tile} < portbar_count ? (portbar_count - ${tile} - 1u) / portbar_groups + 1u : 0u\
% endif
</%def>\
<%def name="has_tile(tile)">\
${f"{tile} < portbar_end" if loops_in_pieces else "portbar_turns != 0u"}; portbar_tile_ends(), \
${f"++{tile}" if loops_in_pieces else f"--portbar_turns, {tile} += portbar_groups"}\
</%def>\
${defines("PORTBAR_FOR_TILES_STATIC")}
/* A loop over `uint tile` < count in which each work-group has the same number of tiles, or one more. All work-items
   of a group run the body with the same tile; it may hold barriers of the group, not of the grid, and begins after one.
   The body does not change the tile. Caller: all work-items of a work-group, in uniform control flow. Order: none
   between groups. Cost: a barrier of the group per tile, and at most two more. */
#define PORTBAR_FOR_TILES_STATIC(tile, grid, count) ${"\\"}
    for (uint ${shared_tiles("tile", "(count)")}; ${"\\"}
         ${has_tile("tile")})

${defines("PORTBAR_FOR_TILES_STATIC_2D")}
/* PORTBAR_FOR_TILES_STATIC over x < across and y < down, rows one after another. The product is below 2^32. Caller and
   order: as for PORTBAR_FOR_TILES_STATIC. Cost: a division per tile more. */
#define PORTBAR_FOR_TILES_STATIC_2D(x, y, grid, across, down) ${"\\"}
    for (uint portbar_across = (across), portbar_row = portbar_across + (portbar_across == 0u ? 1u : 0u), ${"\\"}
              ${shared_tiles("portbar_tile", "portbar_across * (down)")}, x = 0u, y = 0u; ${"\\"}
         x = portbar_tile % portbar_row, y = portbar_tile / portbar_row, ${"\\"}
         ${has_tile("portbar_tile")})

${defines("PORTBAR_FOR_TILES_STATIC_3D")}
/* PORTBAR_FOR_TILES_STATIC_2D with a third side, z < deep. Caller and order: as for PORTBAR_FOR_TILES_STATIC. Cost: two
   divisions per tile more. */
#define PORTBAR_FOR_TILES_STATIC_3D(x, y, z, grid, across, down, deep) ${"\\"}
    for (uint portbar_across = (across), portbar_down = (down), ${"\\"}
              portbar_row = portbar_across + (portbar_across == 0u ? 1u : 0u), ${"\\"}
              portbar_rows = portbar_down + (portbar_down == 0u ? 1u : 0u), ${"\\"}
              ${shared_tiles("portbar_tile", "portbar_across * portbar_down * (deep)")}, x = 0u, y = 0u, z = 0u; ${"\\"}
         x = portbar_tile % portbar_row, y = portbar_tile / portbar_row % portbar_rows, ${"\\"}
         z = portbar_tile / portbar_row / portbar_rows, ${"\\"}
         ${has_tile("portbar_tile")})
</%def>
<%def name="dynamic_loops()">
${defines("portbar_claim_ticket")}
/* Draws the ticket of a turn, and leaves its tile and 1 in `claimed`, 0 if none is left. Tickets of all loops of a
   launch are one sequence, so no loop needs a separate counter: a group that draws one beyond its loop's end keeps it
   for the next loop, to which it belongs. Caller: a leader. */
${leading} void portbar_claim_ticket(volatile global uint *tickets, local uint *shared, local uint *claimed,
                                   uint count, uint turn)
{
    uint end = shared[PORTBAR_SHARED_LOOP_END];
    if (turn == 0u)
        shared[PORTBAR_SHARED_LOOP_END] = end += count;
    const uint begin = end - count;
    uint ticket = shared[PORTBAR_SHARED_TICKET];
    if (shared[PORTBAR_SHARED_KEPT] == 0u) {
        ticket = portbar_word_add_relaxed(tickets, 1u);
        /* Skip tickets of earlier loops that no group used. */
        for (uint behind = begin - ticket; (int)behind > 0 && (int)(begin - ticket) > 0; --behind)
            ticket = portbar_word_add_relaxed(tickets, 1u);
    }
    const bool is_later = (int)(ticket - end) >= 0;
    shared[PORTBAR_SHARED_KEPT] = is_later ? 1u : 0u;
    shared[PORTBAR_SHARED_TICKET] = ticket;
## Not `count`: beyond a work-group's last item llvmpipe's vectors load zeros, and must not go on for ever with them.
    claimed[0] = is_later ? 0u : ticket - begin + 1u;
}

${defines("portbar_claim")}
/* The next tile of a loop that the work-groups claim from, 0xffffffff if none is left. Caller: all work-items of the
   group; `turn` counts the loop's calls from 0. */
static inline uint portbar_claim(const portbar_grid *grid, uint count, uint turn)
{
    local uint *shared = grid->shared, *claimed = shared + PORTBAR_SHARED_CLAIMED + (turn & 1u);
    if (PORTBAR_LEADER(grid))
        portbar_claim_ticket(grid->state + PORTBAR_STATE_TICKETS, shared, claimed, count, turn);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return claimed[0] - 1u;
}

${defines("portbar_claims_begin")}
/* Begins such a loop: its first turn is 0. Caller: all work-items of the group, which have read what they claimed in
   the loop before when they are here. */
static inline uint portbar_claims_begin(void)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return 0u;
}

${defines("PORTBAR_FOR_TILES")}
/* A loop over `uint tile` < count in which free work-groups claim the next tile, so that uneven work spreads. All
   work-items of a group run the body with the same tile; it may hold barriers of the group, not of the grid. If groups
   leave by `break`, each with all its work-items, the others take the rest, and a device barrier must precede the next
   such loop. Loops without a device barrier between them have fewer than 2^31 tiles together. Caller: all work-items
   of every group of the grid, each group the same loops with the same counts in the same order. Order: none between
   groups. Cost: an atomic and a barrier of the group per tile, and one of each at the end. */
## One claim, in the condition: PoCL copies all code after a loop whose condition is tested before it as well, and
## PoCL 3.0 ends the process at one in a loop that claims before and at the end of a turn.
#define PORTBAR_FOR_TILES(tile, grid, count) ${"\\"}
    for (uint portbar_turn = portbar_claims_begin(), portbar_count = (count), tile; ${"\\"}
         (tile = portbar_claim(grid, portbar_count, portbar_turn)) < portbar_count; ++portbar_turn)

${defines("PORTBAR_FOR_DYNAMIC")}
/* A loop over `uint i` < n in which free work-groups claim the next `chunk` values and share them among their
   work-items. The body holds no barrier, and `break` leaves a work-item's part of a chunk. n plus a local size is
   below 2^32. Caller and order: as for PORTBAR_FOR_TILES. Cost: an atomic and a barrier of the group per chunk, and
   one of each at the end. */
#define PORTBAR_FOR_DYNAMIC(i, grid, n, chunk) ${"\\"}
    for (uint portbar_n = (n), portbar_chunk = max((uint)(chunk), 1u), portbar_turn = portbar_claims_begin(), ${"\\"}
              portbar_count = portbar_n / portbar_chunk + (portbar_n % portbar_chunk != 0u ? 1u : 0u), ${"\\"}
              portbar_tile; ${"\\"}
         (portbar_tile = portbar_claim(grid, portbar_count, portbar_turn)) < portbar_count; ++portbar_turn) ${"\\"}
        for (uint portbar_first = portbar_tile * portbar_chunk, ${"\\"}
                  portbar_in_tile = min(portbar_chunk, portbar_n - portbar_first), ${"\\"}
% if loops_in_pieces:
                  portbar_items = portbar_local_linear_size(), ${"\\"}
                  i = portbar_first + portbar_share(portbar_in_tile, portbar_items, PORTBAR_ITEM(grid)), ${"\\"}
                  portbar_end = i + portbar_share_size(portbar_in_tile, portbar_items, PORTBAR_ITEM(grid)); ${"\\"}
             i < portbar_end; ++i)
% else:
                  i = portbar_first + PORTBAR_ITEM(grid), portbar_end = portbar_first + portbar_in_tile; ${"\\"}
             i < portbar_end; i += portbar_local_linear_size())
% endif
</%def>
