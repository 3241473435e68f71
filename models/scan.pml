/* Look-back with fallback in portbar.scan and portbar/scan.h: each work-group takes the next tile, publishes what it amounts to,
   combines what the tiles before amount to, and publishes that, too. A total that is unknown after some polls is
   computed by the group that needs it (Smith, Levien and Owens, "Decoupled Fallback"), so that a group ends although
   others stop for ever. UNORDERED: tiles are numbered as groups are, in whatever order these begin, and no ticket is taken.
   Every group gets the right prefix, in each of several launches whose numbers begin again, and the ticket is left at 0.

   Mirrors: cl_templates/scan/host.mako 0a4c0eb1d397
   Mirrors: cl_templates/scan/look_back.mako d486d9463a34
   Mirrors: cl_templates/scan/device.mako 8088325cea53
   Run: GROUPS=3 LAUNCHES=4
   Run: GROUPS=3 LAUNCHES=1 STALLS
   Run: GROUPS=3 LAUNCHES=4 UNORDERED
   Run: GROUPS=3 LAUNCHES=1 STALLS UNORDERED
   Nightly: GROUPS=4 LAUNCHES=1
   Nightly: GROUPS=4 LAUNCHES=1 STALLS
   Nightly: GROUPS=4 LAUNCHES=3
   Bug: WAITS GROUPS=3 LAUNCHES=1 STALLS
   Bug: TELLS_BEFORE_IT_STORES GROUPS=3 LAUNCHES=1
   Bug: NEVER_CLEARS GROUPS=3 LAUNCHES=4
   Bug: KEEPS_TICKET GROUPS=3 LAUNCHES=2
   Bug: TAKES_A_TILE_FOR_ALL GROUPS=3 LAUNCHES=1
*/
#define MOST_EPOCHS 2                     /* portbar/arrays/plan.py: State.next_epoch */

byte ticket;
byte word[GROUPS];                        /* 2 * epoch: the tile is known; 1 more: all up to it are */
byte own_total[GROUPS], all_total[GROUPS];
byte launch = 1, epoch = 1, ended;
bool closed;                              /* no launch follows */

/* Tile t amounts to 1, 4, 16, 64, in the next launches to twice and three times that, so that nothing is taken for
   something else. */
#define VALUE(t) ((launch % 3 + 1) << (2 * (t)))
/* Launches have arrays of different sizes, so that words of earlier ones stay. */
#define TILES (launch % 2 == 1 -> GROUPS : 1)
#define TILE_KNOWN(seen) ((seen) == 2 * epoch || (seen) == 2 * epoch + 1)
#define ALL_KNOWN(seen) ((seen) == 2 * epoch + 1)

/* portbar_look_back, portbar_take_known and what both kernels do between them. */
inline combine_before()
{
    next = tile;
    do
    :: next == 0 -> break
    :: next != 0 ->
       if
       :: ALL_KNOWN(word[next - 1]) -> found = all_total[next - 1]; break
       :: else -> next--
       fi
    od;
    do
    :: next == tile -> break
    :: next < tile ->
       seen = word[next];
       if
       :: ALL_KNOWN(seen) -> found = all_total[next]; next++
#ifdef BUG_TAKES_A_TILE_FOR_ALL
       :: seen == 2 * epoch -> found = own_total[next]; next++
#else
       :: seen == 2 * epoch -> found = found + own_total[next]; next++
#endif
       :: !TILE_KNOWN(seen) ->
#ifdef BUG_WAITS
          TILE_KNOWN(word[next])
#else
          if
          :: skip                         /* polls again */
          :: found = found + VALUE(next); next++
          fi
#endif
       fi
    od
}

#ifdef STALLS
#define MAY_STALL if :: skip :: goto stalled fi
#else
#define MAY_STALL skip
#endif

active [GROUPS] proctype group()
{
    byte tile, next, seen, found, mine;
begin:
    atomic {
        mine = launch;
        if
        :: _pid >= TILES -> goto next_launch
        :: else
        fi
    };
#ifdef UNORDERED
    tile = _pid;
#else
    /* portbar_next_tile */
    d_step { tile = ticket; ticket++ };
    if
    :: tile + 1 == TILES ->
#ifndef BUG_KEEPS_TICKET
       ticket = 0
#else
       skip
#endif
    :: else
    fi;
#endif
    assert(tile < GROUPS);
    MAY_STALL;
    found = 0;
    if
    :: tile != 0 ->
#ifdef BUG_TELLS_BEFORE_IT_STORES
       word[tile] = 2 * epoch;
       own_total[tile] = VALUE(tile);
#else
       own_total[tile] = VALUE(tile);
       MAY_STALL;
       word[tile] = 2 * epoch;
#endif
       MAY_STALL;
       combine_before()
    :: else
    fi;
    assert(found == ((1 << (2 * tile)) - 1) / 3 * (launch % 3 + 1));
    all_total[tile] = found + VALUE(tile);
    MAY_STALL;
    word[tile] = 2 * epoch + 1;
    d_step { ended++; tile = 0; next = 0; seen = 0; found = 0 };
next_launch:
    if
    :: launch != mine -> goto begin
    :: closed
    fi;
    goto out;
stalled:
end:
    false;
out:
    skip
}

/* The host: the next launch begins when all groups have ended. */
active proctype host()
{
    do
    :: launch < LAUNCHES && ended == TILES ->
       assert(ticket == 0);
       d_step {
           ended = 0;
           if
           :: epoch == MOST_EPOCHS ->
              epoch = 1;
#ifndef BUG_NEVER_CLEARS
              word[0] = 0; word[1] = 0; word[2] = 0;
#if GROUPS > 3
              word[3] = 0;
#endif
#endif
           :: else -> epoch++
           fi;
           launch++
       }
    :: launch == LAUNCHES -> break
    od;
    closed = true
}
