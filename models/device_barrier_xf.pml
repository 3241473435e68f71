/* The master/slave barrier of Xiao and Feng (IPDPS 2010): a flag in and a flag out for each group, which the work-items
   of group 0 gather and release, here two of them. Promises as those of device_barrier_counter, whose split form it has,
   too. Flags are never cleared: they hold the epoch, which does not come again in a state, and the low bits of the
   barrier's number, here NUMBER_BITS of them, which wrap.

   Mirrors: cl_templates/device_barrier/xf.mako a8c0b77b8124
   Mirrors: cl_templates/device_barrier/wait.mako 37c89d0ec73a
   Mirrors: cl_templates/grid/state.mako 5c7ddf490e46
   Run: GROUPS=3 ROUNDS=5
   Run: GROUPS=4
   Run: GROUPS=3 ROUNDS=2 LIMITED=1 SKIPS LAUNCHES=1
   Nightly: GROUPS=3 ROUNDS=2 LIMITED=2
   Nightly: GROUPS=3 ROUNDS=5 LIMITED=1 SKIPS
   Nightly: GROUPS=4 ROUNDS=2 LAUNCHES=1 LIMITED=1
   Liveness: GROUPS=3 POLLS
   Bug: NO_SECOND_BARRIER GROUPS=3
   Bug: NO_EPOCH GROUPS=3 ROUNDS=5
   Bug: NO_NUMBER GROUPS=3
   Bug: SKIPS_OWN_FLAG GROUPS=3 LIMITED=1
   Bug: COUNTS_EXACTLY GROUPS=3 LIMITED=1
*/
#define NUMBER_BITS 2
/* A work-item of group 0 may give up before its leader has set the group's flag. */
#define LEAST_ARRIVED 0
#include "device_barrier.h"

byte arrived_flag[GROUPS]; /* behind PORTBAR_STATE_STAMPS */
byte released[GROUPS];
byte epoch;
chan to_item = [1] of { byte };  /* the three barrier() of group 0, each with what is left in local memory before it */
chan from_item = [1] of { bit };

/* xf.mako, PORTBAR_STAMP. */
#ifdef BUG_NO_EPOCH
#define STAMP(number) (1 << NUMBER_BITS | ((number) & ((1 << NUMBER_BITS) - 1)))
#elif defined(BUG_NO_NUMBER)
#define STAMP(number) (epoch << NUMBER_BITS)
#else
#define STAMP(number) (epoch << NUMBER_BITS | ((number) & ((1 << NUMBER_BITS) - 1)))
#endif

#ifdef BUG_COUNTS_EXACTLY
#define CAME(flag) ((flag) == stamp -> 1 : 0)
#else
#define CAME(flag) ((flag) == stamp || (flag) == STAMP(stamp + 1) -> 1 : 0)
#endif

#define OWN_VARIABLES byte stamp, peer; bit gathered, ahead;
#define OWN_END stamp = 0;
#define OWN_PROCESSES run item();

/* The host counts launches; flags stay. */
inline prepare()
{
    epoch++
}

/* xf.mako, portbar_wait_stamp. A work-item that sees a group ahead has seen all come, and says so. */
inline wait_stamp(flag)
{
    do
    :: flag == stamp -> break
    :: abort_flag -> draining(); gathered = 0; break
    :: atomic { AT_LIMIT(flag != stamp) };
       d_step {
           other = 0;
           do
           :: other < num_groups -> ahead = ahead || ((value[other] - round) & 3) == 1; other++
           :: else -> break
           od;
           other = 0
       };
       do
       :: other < num_groups -> atomic { lacking = lacking + CAME(arrived_flag[other]); other++ }
       :: else -> break
       od;
       other = 0;
       assert(!ahead || lacking == num_groups);
       report_timeout(lacking);
       lacking = 0;
       ahead = 0;
       gathered = 0;
       break
    POLL_AGAIN
    od
}

/* The loops of item `first` of group 0 over the other groups. */
inline gather(first)
{
    peer = first + 1;
    do
    :: gathered && peer < num_groups -> wait_stamp(arrived_flag[peer]); peer = peer + 2
    :: else -> break
    od;
    peer = 0
}

inline release(first)
{
    peer = first + 1;
    do
    :: peer < num_groups -> released[peer] = stamp; peer = peer + 2
    :: else -> break
    od;
    peer = 0
}

/* xf.mako, portbar_device_barrier, of the leaders. */
inline whole_barrier()
{
    if
    :: ok ->
        target = (target + 1) & ((1 << NUMBER_BITS) - 1);
        stamp = STAMP(target);
        gathered = 1;
        if :: me == 0 -> to_item!round :: else fi;
#ifdef BUG_SKIPS_OWN_FLAG
        if :: me == 0 :: else -> arrived_flag[me] = stamp fi;
#else
        arrived_flag[me] = stamp;
#endif
        if
        :: me == 0 ->
            gather(0);
#ifdef BUG_NO_SECOND_BARRIER
            if :: gathered -> release(0) :: else fi;
#endif
            ok = gathered;
            from_item?gathered;
            ok = ok && gathered;
            to_item!ok;
            if :: ok -> release(0) :: else fi;
            from_item?gathered
        :: else ->
            wait_stamp(released[me]);
            ok = gathered
        fi;
        gathered = 0
    :: else
    fi
}

#include "device_barrier_launches.h"

/* xf.mako, portbar_device_barrier, of the second work-item of group 0. */
proctype item()
{
    byte round, peer, stamp, other, seen, lacking, held;
    bit gathered, told, ahead;
end:
    do
    :: to_item?round ->
        stamp = STAMP(round);
        gathered = 1;
        gather(1);
        from_item!gathered;
        gathered = 0;
        to_item?held;
        if :: held -> release(1) :: else fi;
        from_item!1;
        d_step { round = 0; stamp = 0; held = 0 }
    od
}
