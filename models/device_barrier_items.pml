/* The work-items of one group in the device barrier's calls: all get the same result of each call and the same token,
   and between two calls portbar_device_ok returns the same to all, although only the leader communicates with other
   groups and stores its results in local memory. The other groups are a choice: a wait may fail, once and for all, and
   a test may find
   groups missing. The kernel makes any CALLS calls, in an order that is allowed. With XF the whole barrier is that of
   `xf`, whose work-items gather (in group 0) or do not (GATHERS=0).

   Mirrors: cl_templates/device_barrier/counter.mako 1d93af157d99
   Mirrors: cl_templates/device_barrier/counters.mako 06d819065e50
   Mirrors: cl_templates/device_barrier/split.mako ffbd4d8ebb95
   Mirrors: cl_templates/device_barrier/xf.mako a8c0b77b8124
   Run: CALLS=6
   Run: CALLS=4 XF GATHERS=1
   Run: CALLS=4 XF GATHERS=0
   Liveness: CALLS=4 POLLS
   Bug: WAIT_WITHOUT_FIRST CALLS=4
   Bug: TEST_WITHOUT_FIRST CALLS=4
   Bug: TOKEN_AFTER_BARRIER CALLS=4
   Bug: ARRIVES_AGAIN CALLS=4
   Bug: WITHOUT_SECOND CALLS=4 XF GATHERS=1
   Bug: WITHOUT_LAST CALLS=4 XF GATHERS=0
*/
#define ITEMS 2
#ifndef GATHERS
#define GATHERS 0
#endif

mtype = { NONE, WHOLE, ARRIVE, WAIT, TEST };

/* Words of the group's local memory: PORTBAR_SHARED_OK and so on. */
bit ok = 1, done;
byte split, target;

mtype calls[CALLS] = NONE; /* the kernel's: the first work-item that comes to one chooses */
byte answers[CALLS];       /* what the first work-item got of each, plus one */
byte oks[CALLS];           /* and what portbar_device_ok said after it */
byte releases[CALLS];      /* and, with GATHERS, whether it released the other groups */
byte ended;

/* barrier() of the work-group. */
byte inside;
bit turn;
inline meet()
{
    atomic {
        inside++;
        if
        :: inside == ITEMS -> inside = 0; turn = 1 - turn; mine = turn
        :: else -> mine = 1 - turn
        fi
    };
    turn == mine
}

/* All work-items got the same. */
inline alike(said, what)
{
    d_step {
        assert(said == 0 || said == what + 1);
        said = what + 1
    }
}

/* A wait of the leader: it may fail. */
inline talk()
{
    if
    :: ok -> if :: true :: true -> ok = 0 fi
    :: else
    fi
}

#ifdef XF
/* xf.mako, portbar_device_barrier. */
inline whole()
{
    sound = ok;
    if :: leader -> target = 1 - target :: else fi;
    meet();
    /* The stamp is the same in all. */
    assert(target == whole_calls % 2);
    if :: GATHERS && sound -> if :: true :: true -> ok = 0 fi :: else fi;
#ifndef BUG_WITHOUT_SECOND
    meet();
#endif
    if
    :: GATHERS -> alike(releases[call], ok)
    :: !GATHERS && sound && leader -> talk()
    :: else
    fi;
#ifndef BUG_WITHOUT_LAST
    meet();
#endif
    got = ok
}
#else
/* counter.mako and counters.mako, portbar_device_barrier. */
inline whole()
{
    meet();
    if :: leader -> talk() :: else fi;
    meet();
    got = ok
}
#endif

/* split.mako, portbar_device_barrier_arrive. */
inline arrive()
{
#ifdef BUG_TOKEN_AFTER_BARRIER
    meet();
    token = (split + 1) & 3;
#else
    token = (split + 1) & 3;
    meet();
#endif
    if :: leader -> split = token :: else fi;
    got = token
}

/* split.mako, portbar_device_barrier_wait. */
inline wait()
{
#ifndef BUG_WAIT_WITHOUT_FIRST
    meet();
#endif
    if :: leader -> talk() :: else fi;
    meet();
    got = ok
}

/* split.mako, portbar_device_barrier_test_wait. */
inline test()
{
#ifndef BUG_TEST_WITHOUT_FIRST
    meet();
#endif
    if
    :: leader ->
        if
        :: ok -> if :: done = 1 :: done = 0 :: ok = 0; done = 1 fi
        :: else -> done = 1
        fi
    :: else
    fi;
    meet();
    got = done
}

proctype item(bit leader)
{
    byte call, got, token, whole_calls;
    bit mine, sound, arrived;
    do
    :: call < CALLS ->
        atomic {
            if
            :: calls[call] != NONE
            :: calls[call] == NONE -> calls[call] = WHOLE
#ifdef BUG_ARRIVES_AGAIN
            :: calls[call] == NONE -> calls[call] = ARRIVE
#else
            :: calls[call] == NONE && !arrived -> calls[call] = ARRIVE
#endif
            :: calls[call] == NONE && arrived -> calls[call] = WAIT
            :: calls[call] == NONE && arrived -> calls[call] = TEST
            fi
        };
        if
        :: calls[call] == WHOLE -> whole_calls++; whole(); alike(answers[call], got)
        :: calls[call] == ARRIVE -> arrive(); alike(answers[call], got); arrived = 1
        :: calls[call] == WAIT -> wait(); alike(answers[call], got); arrived = 0
        :: calls[call] == TEST -> test(); alike(answers[call], got); arrived = 1 - got
        fi;
        alike(oks[call], ok);
        d_step { call++; got = 0 }
    :: else -> break
    od;
    ended++
}

init {
    atomic { run item(1); run item(0) }
}

#ifdef POLLS
ltl ends { <> (ended == ITEMS) }
#endif
