/* The device barrier by a counter of arrivals and a release flag on a line of its own, which the last group raises.
   Promises as those of device_barrier_counter, whose split form it has, too.

   Mirrors: cl_templates/device_barrier/flag.mako 4b7249a1bd50
   Mirrors: cl_templates/device_barrier/wait.mako 37c89d0ec73a
   Mirrors: cl_templates/backend/barrier.mako 56397b84e653
   Mirrors: cl_templates/grid/state.mako 5c7ddf490e46
   Run: GROUPS=3
   Run: GROUPS=4
   Run: GROUPS=3 LIMITED=1 SKIPS
   Run: GROUPS=3 LIMITED=3 GOES_ON
   Nightly: GROUPS=4 ROUNDS=2 LAUNCHES=1 LIMITED=1 SKIPS
   Liveness: GROUPS=3 POLLS
   Bug: RAISED_FIRST GROUPS=3
   Bug: KEEPS_FLAG GROUPS=3
   Bug: COUNTS_NONE GROUPS=3 LIMITED=1
*/
#include "device_barrier.h"

byte counter;              /* PORTBAR_STATE_COUNTER */
byte flag;                 /* PORTBAR_STATE_FLAG */

#define OWN_VARIABLES
#define OWN_END
#define OWN_PROCESSES

/* flag.mako, prepare. */
inline prepare()
{
    counter = 0;
#ifndef BUG_KEEPS_FLAG
    flag = 0
#endif
}

/* flag.mako, portbar_device_barrier. */
inline whole_barrier()
{
    if
    :: ok ->
        target = WORD(target + num_groups);
#ifdef BUG_RAISED_FIRST
        if :: WORD(target - counter - 1) == 0 -> flag = target :: else fi;
#endif
        atomic { lacking = WORD(target - counter - 1); counter = WORD(counter + 1) };
        check_arrival(lacking, num_groups);
        if
        :: lacking == 0 ->
            flag = target
        :: else -> lacking = 0; wait_counted(flag, target, counter, target)
        fi
    :: else
    fi
}

#include "device_barrier_launches.h"
