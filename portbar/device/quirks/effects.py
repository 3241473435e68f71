"""What faults of implementations do to portbar: code asks for these, never for a name or a version."""

NO_DEVICES = "lists no devices"
"""What a platform without devices is reported as; the log text of the quirks that explain such a platform."""

UNDERSTATED_WORK_GROUP_SIZE = "understated work-group size"
"""An effect: the kernel's own limit cannot be believed, so that the device's is checked instead."""

BRANCHES_ABORT = "branches abort"
"""An effect: what branches much must not stand between two barriers in a loop."""

LEADER_FORGOTTEN = "leader forgotten"
"""An effect: what stands between two barriers under an if for one work-item must have something beside it that all do."""

JOINS_LOST = "joins lost"
"""An effect: branches behind a barrier that some path avoids must meet at a barrier."""

COPIES_SHARED = "copies shared"
"""An effect: a private structure that is kept across a barrier must have its address taken."""

IDS_LOST = "ids lost"
"""An effect: what a work-item asks of its ids behind a barrier may be the leader's."""

FENCES_ARE_BARRIERS = "fences are barriers"
"""An effect: fences must not stand in loops that work-items leave at different times."""

ANOTHER_RUNTIME = "another runtime"
"""An effect: nothing helps but another runtime for the same processor."""

NOTHING_LOST = "nothing lost"
"""An effect: none; what looks like a fault costs nothing."""

ARGUMENT_INFO_BREAKS = "argument info breaks"
"""An effect: -cl-kernel-arg-info may break a program that compiles without it."""

LOCAL_ATOMICS_LOSE_STORES = "local atomics lose stores"
"""An effect: operations of 8 and 16 bits must not go by C11's atomics."""

FAILURES_HIDDEN = "failures hidden"
"""An effect: a failed event looks complete until somebody waits for it, and ends an out-of-order queue."""

QUEUES_SPLIT_THREADS = "queues split threads"
"""An effect: a launch beside one in another queue need not wait long for threads, which the other has."""

INLINED_STRUCTURES_UNKNOWN = "inlined structures unknown"
"""An effect: functions that return structures must not be inlined."""

FAILED_WAITS_NEVER_END = "failed waits never end"
"""An effect: nothing may wait for an event that has failed."""

FLUSHES_WAIT = "flushes wait"
"""An effect: a queue must not be flushed while its commands wait for what the same thread does later."""

CONTEXTS_LOST = "contexts lost"
"""An effect: something beside its queues must refer to a context."""

STAMPS_WRONG = "stamps wrong"
"""An effect: time stamps of events must be checked against the host's clock."""

ARGUMENTS_UNCHECKED = "arguments unchecked"
"""An effect: arguments must be checked before a driver gets them."""

LOGS_REWRITTEN = "logs rewritten"
"""An effect: a build log may lack the compiler's notes, and the place comes after the word "error"."""

LINES_IGNORED = "lines ignored"
"""An effect: places in a build log must be translated by the text's own #line."""

TRUTH_IS_255 = "truth is 255"
"""An effect: vectors must not be compared for the values of small integers."""

FENCE_FLAGS_FIXED = "fence flags fixed"
"""An effect: the flags of a fence must be literals."""

LONG_BODIES_SLOW = "long bodies slow"
"""An effect: bodies of loops must be short."""

GROUPS_START_TOGETHER = "groups start together"
"""An effect: discovery need not wait long for the next work-group."""

POINTERS_STAY = "pointers stay"
"""An effect: a kernel's argument that was a pointer to shared virtual memory must not become a buffer."""

CONDITIONS_NOT_ARGUMENTS = "conditions not arguments"
"""An effect: logical operators must not stand among the arguments of functions that have conditions."""

CONSTANTS_UNKNOWN = "constants unknown"
"""An effect: a function's conditions cannot ask whether an argument is a constant."""

LOCAL_MEMORY_UNTOLD = "local memory untold"
"""An effect: a kernel that reports no local memory may have some."""

ASSEMBLY_ABORTS = "assembly aborts"
"""An effect: inline assembly must be tried in groups of many work-items, and in loops, before it is used."""
