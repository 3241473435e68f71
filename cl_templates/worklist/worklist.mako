## -*- coding: utf-8 -*-
## Worklists in the user's memory. A frontier has two halves, as the worklists of Lonestar (Burtscher, Nasre and Pingali,
## IISWC 2012) have; a task queue is that of Atos (Chen et al., ICPP 2022) with the slots of Vyukov's bounded queue.
<%def name="types()">
${defines("portbar_worklist")}
/* Words of a worklist in global memory, with the content that portbar.Frontier or portbar.TaskQueue gives them. */
typedef struct {
    uint word;
} portbar_worklist;

${defines("PORTBAR_WORKLIST_FULL")}
/* Result of a reservation that does not fit. */
#define PORTBAR_WORKLIST_FULL 0xffffffffu
</%def>
<%def name="places()">
${defines("portbar_work_group_wanted")}
/* Adds up the wants of a group's work-items of a counter. Result: the sum of those before the caller. Caller: all
   work-items of the group, in uniform control flow. Cost: a work-group barrier, and an atomic addition in local memory
   for each n that is not 0. */
static inline uint portbar_work_group_wanted(const portbar_grid *grid, uint n)
{
    uint before = 0u;
    if (n != 0u) {
        before = portbar_local_add(grid->shared + PORTBAR_SHARED_WANTED, n);
        if (before + n < n)
            portbar_local_store(grid->shared + PORTBAR_SHARED_WRAPPED, 1u);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return before;
}

${defines("portbar_work_group_sum")}
/* The sum of all of them; 0xffffffff where it is more. Caller: a leader, after portbar_work_group_wanted. */
static inline uint portbar_work_group_sum(const portbar_grid *grid)
{
    const uint wanted = grid->shared[PORTBAR_SHARED_WANTED];
    const bool wrapped = grid->shared[PORTBAR_SHARED_WRAPPED] != 0u;
    grid->shared[PORTBAR_SHARED_WANTED] = 0u;
    if (wrapped)
        grid->shared[PORTBAR_SHARED_WRAPPED] = 0u;
    return wrapped ? 0xffffffffu : wanted;
}
</%def>
<%def name="frontier()">
${defines("PORTBAR_FRONTIER_CAPACITY", "PORTBAR_FRONTIER_PHASE", "PORTBAR_FRONTIER_TAILS")}
/* Words of a frontier: how many elements each half has room for; the phase; how many elements the current, the next
   and the coming phase have, each phase's at its number modulo 3. */
#define PORTBAR_FRONTIER_CAPACITY ${frontier_words["CAPACITY"]}u
#define PORTBAR_FRONTIER_PHASE ${frontier_words["PHASE"]}u
#define PORTBAR_FRONTIER_TAILS ${frontier_words["TAILS"]}u

${defines("PORTBAR_FRONTIER_LOT", "PORTBAR_FRONTIER_STEPS")}
/* Number of elements from which on a tail grows no further: far more than a frontier has room for, and far enough below
   2^32 that it never wraps. Work-items stop to add once they have found that many. Until then each adds at most its
   share of PORTBAR_FRONTIER_STEPS at once, and a work-group as much as its work-items together; more is added with
   care. */
#define PORTBAR_FRONTIER_LOT 0x80000000u
#define PORTBAR_FRONTIER_STEPS 0x20000000u

${defines("portbar_frontier")}
/* A frontier, as seen by one work-item: elements of the current phase, and those that are pushed for the next.
   Fields are portbar's own. */
typedef struct {
    volatile global uint *words;
    uint capacity;
    uint phase;
    uint tail;     /* word that counts what is pushed */
    uint size;
    uint pushed;   /* by this work-item in this phase */
    uint most;     /* that it adds to the tail without care */
    bool counted;  /* whether the tail holds nothing of an earlier launch */
} portbar_frontier;

${defines("portbar_frontier_begin")}
/* Fills in a frontier; PORTBAR_FRONTIER says the rest. */
static inline void portbar_frontier_begin(const portbar_grid *grid, portbar_frontier *frontier,
                                          volatile global portbar_worklist *list)
{
    frontier->words = &list->word;
    frontier->capacity = portbar_word_load(frontier->words + PORTBAR_FRONTIER_CAPACITY);
    frontier->phase = portbar_word_load(frontier->words + PORTBAR_FRONTIER_PHASE);
    frontier->tail = PORTBAR_FRONTIER_TAILS + (frontier->phase + 1u) % 3u;
    frontier->pushed = 0u;
    const uint left = portbar_word_load(frontier->words + frontier->tail);
    frontier->most = left < PORTBAR_FRONTIER_LOT ? PORTBAR_FRONTIER_STEPS / portbar_global_size(grid) : 0u;
    frontier->counted = false;
    const uint size = portbar_word_load(frontier->words + PORTBAR_FRONTIER_TAILS + frontier->phase % 3u);
    const bool fits = size <= frontier->capacity && frontier->capacity != 0u;
    frontier->size = fits ? size : 0u;
    if (PORTBAR_LEADER(grid) && grid->group_id == 0u) {
        /* The word is not read before the next barrier. */
        portbar_word_store(frontier->words + PORTBAR_FRONTIER_TAILS + (frontier->phase + 2u) % 3u, 0u);
        if (!fits)
            portbar_report_signal(grid, PORTBAR_STATUS_WORKLIST_FULL, frontier->capacity, size);
    }
}

${defines("PORTBAR_FRONTIER")}
/* Declares `frontier` for the launch, over the words of a portbar.Frontier. Caller: all work-items of every
   participating work-group, before any of them pushes. Order: stores of the host or an earlier launch are visible.
   Cost: four loads. */
#define PORTBAR_FRONTIER(frontier, grid, list) <%text>\</%text>
    portbar_frontier frontier; <%text>\</%text>
    portbar_frontier_begin((grid), &frontier, (list))

${defines("portbar_frontier_size")}
/* Number of elements of the current phase, the same in all work-items. Caller: any work-item. Cost: none: a field of
   `frontier`. */
static inline uint portbar_frontier_size(const portbar_frontier *frontier)
{
    return frontier->size;
}

${defines("portbar_frontier_at")}
/* Index of element i of the current phase among the items. Caller: any work-item. Cost: a few integer operations. */
static inline uint portbar_frontier_at(const portbar_frontier *frontier, uint i)
{
    return (frontier->phase & 1u) * frontier->capacity + i;
}

${defines("portbar_frontier_place")}
/* Where n reserved places begin among the items, if they all fit. */
static inline uint portbar_frontier_place(const portbar_frontier *frontier, uint before, uint n)
{
    const bool fits = n <= frontier->capacity && before <= frontier->capacity - n;
    return fits ? (~frontier->phase & 1u) * frontier->capacity + before : PORTBAR_WORKLIST_FULL;
}
</%def>
<%def name="frontier_push()">
${defines("portbar_frontier_add_with_care")}
/* Adds n to the tail, but no further than PORTBAR_FRONTIER_LOT; returns what it was. Caller: any work-item. */
static inline uint portbar_frontier_add_with_care(portbar_frontier *frontier, uint n)
{
    volatile global uint *tail = frontier->words + frontier->tail;
    uint before = portbar_word_load(tail), added = 0u;
    /* Ends where all words read as zero, as they do in lanes without a work-item. */
    for (bool again = before < PORTBAR_FRONTIER_LOT; again;) {
        const uint more = min(n, PORTBAR_FRONTIER_LOT - before);
        const uint found = portbar_word_compare_exchange_relaxed(tail, before, before + more);
        again = found != before && found < PORTBAR_FRONTIER_LOT;
        added = found == before ? more : 0u;
        before = found;
    }
    frontier->pushed += added;
    return before;
}

${defines("portbar_frontier_add")}
/* Adds n, which is not 0, to the tail; returns what it was. Up to `most` by one atomic addition. Any work-item. */
static inline uint portbar_frontier_add(portbar_frontier *frontier, uint n, uint most)
{
    if (n > most)
        return portbar_frontier_add_with_care(frontier, n);
    const uint before = portbar_word_add_relaxed(frontier->words + frontier->tail, n);
    frontier->pushed += n;
    frontier->most = before < PORTBAR_FRONTIER_LOT ? frontier->most : 0u;
    return before;
}

${defines("portbar_frontier_reserve")}
/* Reserves n places of the next phase, one after another. Caller: any work-item. Order: relaxed, device scope; the
   swap orders what is written there. Result: the first place among the items; PORTBAR_WORKLIST_FULL where they do not
   all fit, which the next swap reports. Cost: an atomic addition, none for n = 0; for an n above 2^29 by work-item a
   load and a compare-and-exchange. */
static inline uint portbar_frontier_reserve(portbar_frontier *frontier, uint n)
{
    return portbar_frontier_place(frontier, n != 0u ? portbar_frontier_add(frontier, n, frontier->most) : 0u, n);
}

${defines("portbar_work_group_frontier_reserve")}
/* Reserves places of the next phase for a work-group: each work-item gets n places (n may be 0), by one atomic
   addition for all. Caller: all work-items of the group, in uniform control flow. Order and result: as for
   portbar_frontier_reserve. Cost: two work-group barriers, an atomic addition in local memory for each n that is not
   0, and one in global memory. */
static inline uint portbar_work_group_frontier_reserve(const portbar_grid *grid, portbar_frontier *frontier, uint n)
{
    const uint before = portbar_work_group_wanted(grid, n);
    if (PORTBAR_LEADER(grid)) {
        const uint wanted = portbar_work_group_sum(grid);
        uint first = 0u;
        if (wanted != 0u)
            first = portbar_frontier_add(frontier, wanted, frontier->most * portbar_local_linear_size());
        /* Work-items after the sum has wrapped do not know where they begin. */
        grid->shared[PORTBAR_SHARED_FIRST] = wanted != 0xffffffffu ? first : PORTBAR_FRONTIER_LOT;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint first = grid->shared[PORTBAR_SHARED_FIRST];
    return portbar_frontier_place(frontier, first + before < first ? PORTBAR_FRONTIER_LOT : first + before, n);
}

${defines("portbar_frontier_push")}
/* Pushes one element for the next phase. Caller and order: as for portbar_frontier_reserve. Cost: an atomic addition,
   and a store. */
#define portbar_frontier_push(frontier, items, value) <%text>\</%text>
    do { <%text>\</%text>
        const uint portbar_place = portbar_frontier_reserve((frontier), 1u); <%text>\</%text>
        if (portbar_place != PORTBAR_WORKLIST_FULL) <%text>\</%text>
            (items)[portbar_place] = (value); <%text>\</%text>
    } while (0)

${defines("portbar_work_group_frontier_push")}
/* Pushes the element of each work-item that wants it. Caller, order and cost: as for
   portbar_work_group_frontier_reserve. */
#define portbar_work_group_frontier_push(grid, frontier, items, value, wanted) <%text>\</%text>
    do { <%text>\</%text>
        const uint portbar_wanted = (wanted) ? 1u : 0u; <%text>\</%text>
        const uint portbar_place = portbar_work_group_frontier_reserve((grid), (frontier), portbar_wanted); <%text>\</%text>
        if (portbar_wanted != 0u && portbar_place != PORTBAR_WORKLIST_FULL) <%text>\</%text>
            (items)[portbar_place] = (value); <%text>\</%text>
    } while (0)
</%def>
<%def name="frontier_swap()">
${defines("portbar_device_frontier_swap")}
/* Ends a phase: the pushed elements become current. Caller: all work-items of every participating work-group, in
   uniform control flow. Order: that of portbar_device_barrier. Result: whether there are elements, the same in
   every work-item; false if more were pushed than fit or the spin limit was reached, which is reported to the host.
   Cost: one device barrier, with which the sizes travel; in a launch's first swap one load more. */
static inline bool portbar_device_frontier_swap(portbar_grid *grid, portbar_frontier *frontier)
{
    /* Elements that an earlier launch pushed and never swapped are only in the tail. */
    const uint size = portbar_sum_within(
        grid, frontier->pushed, frontier->counted ? 0 : frontier->words + frontier->tail, frontier->capacity);
    const bool fits = size <= frontier->capacity;
    frontier->pushed = 0u;
    frontier->size = 0u;
    if (fits && !portbar_device_ok(grid))
        return false;
    frontier->counted = true;
    /* Phases are counted modulo 2 and modulo 3. */
    frontier->phase = frontier->phase < 5u ? frontier->phase + 1u : 0u;
    frontier->tail = PORTBAR_FRONTIER_TAILS + (frontier->phase + 1u) % 3u;
    if (PORTBAR_LEADER(grid) && grid->group_id == 0u) {
        /* These words are not read before the next barrier. */
        portbar_word_store(frontier->words + PORTBAR_FRONTIER_TAILS + (frontier->phase + 2u) % 3u, 0u);
        portbar_word_store(frontier->words + PORTBAR_FRONTIER_PHASE, frontier->phase);
        if (!fits)
            portbar_report_signal(grid, PORTBAR_STATUS_WORKLIST_FULL, frontier->capacity, size);
    }
    frontier->size = fits ? size : 0u;
    return frontier->size != 0u;
}
</%def>
<%def name="task_queue()">
${defines("PORTBAR_TASKS_CAPACITY", "PORTBAR_TASKS_PUSHED", "PORTBAR_TASKS_DRAWN", "PORTBAR_TASKS_FINISHED",
          "PORTBAR_TASKS_SLOTS")}
/* Words of a task queue: a power of two for how many tasks it has room for; how many tasks were pushed, how many
   tickets were drawn for them, how many are finished; and a word for each slot. A slot of ticket t is free while
   its word is t, and full while it is t + 1. */
#define PORTBAR_TASKS_CAPACITY ${task_words["CAPACITY"]}u
#define PORTBAR_TASKS_PUSHED ${task_words["PUSHED"]}u
#define PORTBAR_TASKS_DRAWN ${task_words["DRAWN"]}u
#define PORTBAR_TASKS_FINISHED ${task_words["FINISHED"]}u
#define PORTBAR_TASKS_SLOTS ${task_words["SLOTS"]}u

${defines("PORTBAR_TASK_TAKEN", "PORTBAR_TASK_LATER", "PORTBAR_TASKS_DONE", "PORTBAR_TASKS_FAILED")}
/* Results of portbar_task_queue_try_pop: the caller has a task, there is none yet, all tasks are finished. */
#define PORTBAR_TASK_TAKEN 0u
#define PORTBAR_TASK_LATER 0xfffffffdu
#define PORTBAR_TASKS_DONE 0xfffffffeu
#define PORTBAR_TASKS_FAILED 0xffffffffu

${defines("portbar_task_queue")}
/* A task queue, as seen by one work-item. Fields are portbar's own. */
typedef struct {
    volatile global uint *words;
    uint mask;
    uint ticket;
    bool waiting;  /* for the task of its ticket */
    bool working;  /* on a task */
    uint polls;
    uint rounds;
    uint since;    /* round in which the counters last changed */
    uint seen;     /* sum of the counters then */
} portbar_task_queue;

${defines("portbar_task_queue_begin")}
/* Fills in a task queue; PORTBAR_TASK_QUEUE says the rest. */
static inline void portbar_task_queue_begin(const portbar_grid *grid, portbar_task_queue *queue,
                                            volatile global portbar_worklist *list)
{
    queue->words = &list->word;
    const uint capacity = portbar_word_load(queue->words + PORTBAR_TASKS_CAPACITY);
    queue->mask = max(capacity, 1u) - 1u;
    queue->waiting = queue->working = false;
    queue->ticket = queue->polls = queue->rounds = queue->since = queue->seen = 0u;
    if (capacity == 0u && PORTBAR_LEADER(grid) && grid->group_id == 0u)
        portbar_report_signal(grid, PORTBAR_STATUS_WORKLIST_FULL, 0u, 1u);
}

${defines("PORTBAR_TASK_QUEUE")}
/* Declares `queue` for the launch, over the words of a portbar.TaskQueue. Caller: each work-item that uses it.
   Order: stores of the host or an earlier launch are visible. Cost: a load. */
#define PORTBAR_TASK_QUEUE(queue, grid, list) <%text>\</%text>
    portbar_task_queue queue; <%text>\</%text>
    portbar_task_queue_begin((grid), &queue, (list))
</%def>
<%def name="task_queue_push()">
${defines("portbar_task_queue_room")}
/* Waits until the slot of a ticket is free, which it is at once unless the queue is full or a work-item is about to
   take the task before. Result: false when the queue is full, at the spin limit, or in a launch that is draining.
   Acquire, device scope, when true. Caller: the work-item that drew the ticket. */
static inline bool portbar_task_queue_room(const portbar_grid *grid, const portbar_task_queue *queue, uint ticket)
{
    volatile global uint *slot = queue->words + PORTBAR_TASKS_SLOTS + (ticket & queue->mask);
    if (portbar_word_load_acquire(slot) == ticket)
        return true;
    /* A read-modify-write sees the latest value. */
    const uint drawn = portbar_word_add_relaxed(queue->words + PORTBAR_TASKS_DRAWN, 0u);
    if ((int)(ticket - queue->mask - drawn) > 0) {
        portbar_report_signal(grid, PORTBAR_STATUS_WORKLIST_FULL, queue->mask + 1u, ticket - drawn + 1u);
        return false;
    }
    for (uint round = 0; round < grid->limit; ++round) {
        for (uint i = PORTBAR_ROLLED(PORTBAR_POLLS, grid->limit); i != 0u; --i)
            if (portbar_word_load_acquire(slot) == ticket)
                return true;
        if (portbar_draining(grid))
            return false;
        portbar_yield(round);
    }
    portbar_report_signal(grid, PORTBAR_STATUS_WORKLIST_SLOT, ticket & queue->mask, queue->mask + 1u);
    return false;
}

${defines("portbar_task_queue_publish")}
/* Lets others take the task of a ticket. Release, device scope. */
static inline void portbar_task_queue_publish(const portbar_task_queue *queue, uint ticket)
{
    portbar_word_store_release(queue->words + PORTBAR_TASKS_SLOTS + (ticket & queue->mask), ticket + 1u);
}

${defines("portbar_task_queue_push")}
/* Pushes a task. Order: release at device scope, of what the caller wrote or has seen: the work-item that takes the
   task sees it. Caller: any work-item of a group that works on a task, or of any group before a device barrier
   after which tasks are taken. Result: false if the queue is full or the spin limit was reached, which is reported to
   the host. Cost: an atomic addition, a load and a release store. */
#define portbar_task_queue_push(grid, queue, items, value) <%text>\</%text>
    __extension__({ <%text>\</%text>
        const uint portbar_ticket = portbar_word_add_relaxed((queue)->words + PORTBAR_TASKS_PUSHED, 1u); <%text>\</%text>
        const bool portbar_fits = portbar_task_queue_room((grid), (queue), portbar_ticket); <%text>\</%text>
        if (portbar_fits) { <%text>\</%text>
            (items)[portbar_ticket & (queue)->mask] = (value); <%text>\</%text>
            portbar_task_queue_publish((queue), portbar_ticket); <%text>\</%text>
        } <%text>\</%text>
        portbar_fits; <%text>\</%text>
    })

${defines("portbar_work_group_tickets")}
/* Draws the tickets of a work-group by one atomic addition for all; returns the caller's, if `n` is 1. Relaxed, device
   scope. Caller: all work-items of the group, in uniform control flow, with n of 0 or 1. */
static inline uint portbar_work_group_tickets(const portbar_grid *grid, const portbar_task_queue *queue, uint n)
{
    const uint before = portbar_work_group_wanted(grid, n);
    if (PORTBAR_LEADER(grid)) {
        const uint wanted = portbar_work_group_sum(grid);
        grid->shared[PORTBAR_SHARED_FIRST] =
            wanted != 0u ? portbar_word_add_relaxed(queue->words + PORTBAR_TASKS_PUSHED, wanted) : 0u;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_FIRST] + before;
}

${defines("portbar_work_group_task_queue_push")}
/* Pushes the task of each work-item that wants it, by one reservation for the work-group. Order and result: as for
   portbar_task_queue_push, each for its own. Caller: all work-items of the group, in uniform control flow. Cost: two
   work-group barriers, two atomic additions, and a load and a release store for each task. */
#define portbar_work_group_task_queue_push(grid, queue, items, value, wanted) <%text>\</%text>
    __extension__({ <%text>\</%text>
        const uint portbar_wanted = (wanted) ? 1u : 0u; <%text>\</%text>
        const uint portbar_ticket = portbar_work_group_tickets((grid), (queue), portbar_wanted); <%text>\</%text>
        const bool portbar_fits = <%text>\</%text>
            portbar_wanted == 0u || portbar_task_queue_room((grid), (queue), portbar_ticket); <%text>\</%text>
        if (portbar_wanted != 0u && portbar_fits) { <%text>\</%text>
            (items)[portbar_ticket & (queue)->mask] = (value); <%text>\</%text>
            portbar_task_queue_publish((queue), portbar_ticket); <%text>\</%text>
        } <%text>\</%text>
        portbar_fits; <%text>\</%text>
    })
</%def>
<%def name="task_queue_pop()">
${defines("portbar_task_queue_is_done")}
/* Whether all tasks that were pushed are finished. Acquire, device scope, when true. Caller: any work-item. */
static inline bool portbar_task_queue_is_done(const portbar_task_queue *queue, uint *pushed)
{
    volatile global uint *finished = queue->words + PORTBAR_TASKS_FINISHED;
    *pushed = ${relaxed_poll}(queue->words + PORTBAR_TASKS_PUSHED);
    if (${relaxed_poll}(finished) != *pushed)
        return false;
    /* In this order: a task pushes others before it is finished. A number of pushes that was read first might be out of
       date, while the pushed tasks are still in progress. */
    const uint found = portbar_word_load_acquire(finished);
    *pushed = portbar_word_load(queue->words + PORTBAR_TASKS_PUSHED);
    return found == *pushed;
}

${defines("portbar_task_queue_end_round")}
/* Ends a round, whose tasks are all finished: the tickets that work-items drew for more become tasks that are finished,
   so that the next task gets a ticket that a work-item draws after this. Others may push meanwhile, and then this does
   nothing. Release, device scope. Result: whether it ended the round. Caller: a work-item with such a ticket. Cost:
   three atomic operations, and a store for each ticket or slot, whichever are fewer. */
static inline bool portbar_task_queue_end_round(const portbar_task_queue *queue, uint pushed)
{
    /* A read-modify-write sees the latest value, so that the caller's own ticket is among them. */
    const uint drawn = portbar_word_add_relaxed(queue->words + PORTBAR_TASKS_DRAWN, 0u);
    if (portbar_word_compare_exchange(queue->words + PORTBAR_TASKS_PUSHED, pushed, drawn) != pushed)
        return false;
    portbar_atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_release, memory_scope_device);
    for (uint left = min(drawn - pushed, queue->mask + 1u); left != 0u; --left)
        portbar_word_store(queue->words + PORTBAR_TASKS_SLOTS + ((drawn - left) & queue->mask),
                           drawn - left + queue->mask + 1u);
    (void)portbar_word_add_release(queue->words + PORTBAR_TASKS_FINISHED, drawn - pushed);
    return true;
}

${defines("portbar_task_queue_goes_on")}
/* Whether to look again after a look in vain. The limit counts rounds in which no task was pushed or finished.
   Caller: as for portbar_task_queue_look. */
static inline bool portbar_task_queue_goes_on(const portbar_grid *grid, portbar_task_queue *queue)
{
    /* A look has loaded three words. */
    queue->polls += 3u;
    if (queue->polls < PORTBAR_POLLS)
        return true;
    queue->polls = 0u;
    if (portbar_draining(grid))
        return false;
    const uint pushed = portbar_word_load(queue->words + PORTBAR_TASKS_PUSHED);
    const uint finished = portbar_word_load(queue->words + PORTBAR_TASKS_FINISHED);
    const uint round = queue->rounds++;
    if (pushed + finished != queue->seen) {
        queue->seen = pushed + finished;
        queue->since = round;
    }
    const uint idle = round - queue->since;
    portbar_yield(idle < 16384u ? round & 63u : idle);
    if (idle < grid->limit)
        return true;
    if ((int)(pushed - queue->ticket) > 0)
        portbar_report_signal(grid, PORTBAR_STATUS_WORKLIST_SLOT, queue->ticket & queue->mask, queue->mask + 1u);
    else
        portbar_report_signal(grid, PORTBAR_STATUS_WORKLIST_IDLE, finished, pushed);
    return false;
}

${defines("portbar_task_queue_look")}
/* Finishes the task before, and looks once for the next one: draws a ticket, unless it has one, and looks into its
   slot. Acquire, device scope, when there is a task or when all are done. Result: the task's slot,
   PORTBAR_TASK_LATER, PORTBAR_TASKS_DONE, or PORTBAR_TASKS_FAILED. Caller: the work-item whose queue it is. */
static inline uint portbar_task_queue_look(const portbar_grid *grid, portbar_task_queue *queue)
{
    uint pushed = 0u;
    const bool comes = !queue->working && !queue->waiting;
    if (queue->working)
        (void)portbar_word_add_release(queue->words + PORTBAR_TASKS_FINISHED, 1u);
    queue->working = false;
    if (!queue->waiting) {
        if (portbar_draining(grid))
            return PORTBAR_TASKS_FAILED;
        /* Those who come when all is done need no ticket. */
        if (comes && portbar_task_queue_is_done(queue, &pushed))
            return PORTBAR_TASKS_DONE;
        queue->waiting = true;
        queue->ticket = portbar_word_add_relaxed(queue->words + PORTBAR_TASKS_DRAWN, 1u);
        queue->polls = queue->rounds = queue->since = 0u;
    }
    volatile global uint *slot = queue->words + PORTBAR_TASKS_SLOTS + (queue->ticket & queue->mask);
    const uint seen = ${poll}(slot);
    if (seen == queue->ticket + 1u) {
% if not acquire_polls:
        portbar_word_acquire(slot);
% endif
        queue->waiting = false;
        queue->working = true;
        return queue->ticket & queue->mask;
    }
    bool done = false;
    if ((int)(seen - queue->ticket) > 1)
        /* The round of the ticket has ended, once its last tasks count as finished. */
        done = (int)(portbar_word_load_acquire(queue->words + PORTBAR_TASKS_FINISHED) - queue->ticket) > 0;
    else if (portbar_task_queue_is_done(queue, &pushed))
        done = portbar_task_queue_end_round(queue, pushed);
    if (done) {
        queue->waiting = false;
        return PORTBAR_TASKS_DONE;
    }
    return portbar_task_queue_goes_on(grid, queue) ? PORTBAR_TASK_LATER : PORTBAR_TASKS_FAILED;
}

${defines("portbar_task_queue_free")}
/* Frees the slot of the task that was copied from it. Release, device scope. */
static inline void portbar_task_queue_free(const portbar_task_queue *queue)
{
    portbar_word_store_release(queue->words + PORTBAR_TASKS_SLOTS + (queue->ticket & queue->mask),
                               queue->ticket + queue->mask + 1u);
}

${defines("portbar_task_queue_wait")}
/* Looks until there is a task or an end. */
static inline uint portbar_task_queue_wait(const portbar_grid *grid, portbar_task_queue *queue)
{
    uint slot;
    do
        slot = portbar_task_queue_look(grid, queue);
    while (slot == PORTBAR_TASK_LATER);
    return slot;
}

${defines("portbar_task_queue_try_pop")}
/* Finishes the caller's task before, if any, and looks once for the next. Order: acquire at device scope, of what
   was written before the push, or by all tasks when they are done. Caller: any work-item, which calls it again
   until PORTBAR_TASKS_DONE. Result: PORTBAR_TASK_TAKEN with the task in `*task`, PORTBAR_TASK_LATER, or
   PORTBAR_TASKS_DONE, also at the spin limit and in a launch that is draining. Cost: three atomic operations for a
   task, a load for a look. */
#define portbar_task_queue_try_pop(grid, queue, items, task) <%text>\</%text>
    __extension__({ <%text>\</%text>
        uint portbar_slot = portbar_task_queue_look((grid), (queue)); <%text>\</%text>
        if (portbar_slot < PORTBAR_TASK_LATER) { <%text>\</%text>
            *(task) = (items)[portbar_slot]; <%text>\</%text>
            portbar_task_queue_free(queue); <%text>\</%text>
            portbar_slot = PORTBAR_TASK_TAKEN; <%text>\</%text>
        } <%text>\</%text>
        min(portbar_slot, PORTBAR_TASKS_DONE); <%text>\</%text>
    })

${defines("portbar_task_queue_pop")}
/* Finishes the caller's task before, if any, and waits for the next. Caller: one work-item of its group, while no
   other one of it works on a task. Order: as for portbar_task_queue_try_pop. Result: true with the task in `*task`;
   false when all are done, at the spin limit, and in a launch that is draining. Cost: three atomic operations for a
   task, and polls. */
#define portbar_task_queue_pop(grid, queue, items, task) <%text>\</%text>
    __extension__({ <%text>\</%text>
        const uint portbar_slot = portbar_task_queue_wait((grid), (queue)); <%text>\</%text>
        if (portbar_slot < PORTBAR_TASK_LATER) { <%text>\</%text>
            *(task) = (items)[portbar_slot]; <%text>\</%text>
            portbar_task_queue_free(queue); <%text>\</%text>
        } <%text>\</%text>
        portbar_slot < PORTBAR_TASK_LATER; <%text>\</%text>
    })

${defines("portbar_work_group_task_queue_pop")}
/* portbar_task_queue_pop for a work-group, whose work-items all finish the task before and get the next in `*task`, in
   local memory. Caller: all work-items of the group, in uniform control flow. Order: as for
   portbar_task_queue_try_pop, for all of them. Result: the same in every work-item. Cost: that of
   portbar_task_queue_pop, and two work-group barriers. */
#define portbar_work_group_task_queue_pop(grid, queue, items, task) <%text>\</%text>
    __extension__({ <%text>\</%text>
        portbar_grid *const portbar_popping = (grid); <%text>\</%text>
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); <%text>\</%text>
        if (PORTBAR_LEADER(portbar_popping)) { <%text>\</%text>
            const uint portbar_slot = portbar_task_queue_wait(portbar_popping, (queue)); <%text>\</%text>
            if (portbar_slot < PORTBAR_TASK_LATER) { <%text>\</%text>
                *(task) = (items)[portbar_slot]; <%text>\</%text>
                portbar_task_queue_free(queue); <%text>\</%text>
            } <%text>\</%text>
            if (portbar_slot == PORTBAR_TASKS_FAILED) <%text>\</%text>
                PORTBAR_GIVE_UP(portbar_popping); <%text>\</%text>
            portbar_popping->shared[PORTBAR_SHARED_FIRST] = portbar_slot < PORTBAR_TASK_LATER ? 1u : 0u; <%text>\</%text>
        } <%text>\</%text>
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); <%text>\</%text>
        portbar_popping->shared[PORTBAR_SHARED_FIRST] != 0u; <%text>\</%text>
    })
</%def>
