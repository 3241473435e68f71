/* Loops whose tiles work-groups claim: tickets of all loops of a launch are one sequence, and a group that draws a
   ticket beyond its loop's end keeps it for the next loop. Without a barrier between loops each tile of each loop is
   taken once.
   Where a group leaves a loop before its end (LEAVES), a device barrier precedes the next loop: then each tile is taken
   at most once, and an untaken one was left by all. Tickets have five bits and begin below the wrap, so that
   comparisons of differences are searched, too.

   Mirrors: cl_templates/grid/loops.mako 90abaa362820
   Run: GROUPS=2
   Run: GROUPS=3
   Run: GROUPS=3 LEAVES
   Nightly: GROUPS=4
   Bug: KEEPS_NOT GROUPS=2
   Bug: BEGINS_AT_TICKETS GROUPS=2
   Bug: COMPARES_PLAINLY GROUPS=2
   Bug: TAKES_LEFT GROUPS=2 LEAVES
   Bug: NO_BARRIER GROUPS=2 LEAVES
*/
#define LOOPS 3
#define MOST 3
#define COUNT(l) ((l) == 0 -> 3 : ((l) == 1 -> 1 : 2))
#define WRAP(x) ((x) & 31)
#ifdef BUG_COMPARES_PLAINLY
#define BEHIND(a, b) ((a) >= (b))
#else
#define BEHIND(a, b) (WRAP((a) - (b)) < 16)          /* (int)(a - b) >= 0 */
#endif

byte TICKETS = 29;                       /* PORTBAR_STATE_TICKETS */
bit taken[LOOPS * MOST];
byte left[LOOPS], through[LOOPS], ended;

active [GROUPS] proctype group()
{
    byte loop, end = 29, begin, ticket;  /* PORTBAR_SHARED_LOOP_END, PORTBAR_SHARED_TICKET */
    bit kept, going;                     /* PORTBAR_SHARED_KEPT */

    do
    :: loop < LOOPS ->
#ifdef BUG_BEGINS_AT_TICKETS
        end = TICKETS;
#endif
        begin = end;
        end = WRAP(end + COUNT(loop));
        going = 1;
        do
        :: going ->
            /* portbar_claim */
            if
            :: kept -> skip
            :: else ->
                atomic { ticket = TICKETS; TICKETS = WRAP(TICKETS + 1) };
#ifndef BUG_TAKES_LEFT
                do
                :: !BEHIND(ticket, begin) -> atomic { ticket = TICKETS; TICKETS = WRAP(TICKETS + 1) }
                :: else -> break
                od
#endif
            fi;
            if
            :: BEHIND(ticket, end) ->
#ifdef BUG_KEEPS_NOT
                kept = 0;
#else
                kept = 1;
#endif
                going = 0
            :: else ->
                kept = 0;
                assert(WRAP(ticket - begin) < COUNT(loop) && !taken[loop * MOST + WRAP(ticket - begin)]);
                taken[loop * MOST + WRAP(ticket - begin)] = 1;
#ifdef LEAVES
                if
                :: going = 0; left[loop]++
                :: skip
                fi
#endif
            fi
        :: else -> break
        od;
#if defined(LEAVES) && !defined(BUG_NO_BARRIER)
        through[loop]++;
        through[loop] == GROUPS;             /* a device barrier */
#endif
        loop++
    :: else -> break
    od;
    atomic {
        ended++;
        loop = (ended == GROUPS -> 0 : LOOPS);
        do
        :: loop < LOOPS ->
            begin = 0;
            do
            :: begin < COUNT(loop) -> assert(taken[loop * MOST + begin] || left[loop] == GROUPS); begin++
            :: else -> break
            od;
            loop++
        :: else -> break
        od
    }
}
