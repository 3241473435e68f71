## -*- coding: utf-8 -*-
## Worklists in the user's memory. A frontier has two halves, as the worklists of Lonestar (Burtscher, Nasre and Pingali,
## IISWC 2012) have; a task queue is that of Atos (Chen et al., ICPP 2022) with the slots of Vyukov's bounded queue.
<%def name="types()">
/* Words of a worklist in global memory, with the content that portbar.Frontier or portbar.TaskQueue gives them. */
typedef struct {
    uint word;
} portbar_worklist;

/* Result of a reservation that does not fit. */
#define PORTBAR_WORKLIST_FULL 0xffffffffu

/* Further statuses in a launch's report. */
#define PORTBAR_STATUS_WORKLIST_FULL ${status_worklist_full}u
#define PORTBAR_STATUS_WORKLIST_IDLE ${status_worklist_idle}u
#define PORTBAR_STATUS_WORKLIST_SLOT ${status_worklist_slot}u
</%def>
<%def name="places()">
/* Adds up what the work-items of a group want of a counter, and adds the sum to it; returns what the counter was
   for the caller. Relaxed, device scope. Caller: all work-items of the group, in uniform control flow. Cost: two
   work-group barriers, an atomic addition in local memory for each n that is not 0, and one in global memory. */
static inline uint portbar_work_group_places(const portbar_grid *grid, volatile global uint *counter, uint n)
{
    const uint before = n != 0u ? portbar_local_add(grid->shared + PORTBAR_SHARED_WANTED, n) : 0u;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid)) {
        const uint wanted = grid->shared[PORTBAR_SHARED_WANTED];
        grid->shared[PORTBAR_SHARED_WANTED] = 0u;
        grid->shared[PORTBAR_SHARED_FIRST] = wanted != 0u ? portbar_word_add_relaxed(counter, wanted) : 0u;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_FIRST] + before;
}
</%def>
<%def name="frontier()">
/* Words of a frontier: how many elements each half has room for; the phase; how many elements the current, the next
   and the coming phase have, each phase's at its number modulo 3. */
#define PORTBAR_FRONTIER_CAPACITY ${frontier_words["CAPACITY"]}u
#define PORTBAR_FRONTIER_PHASE ${frontier_words["PHASE"]}u
#define PORTBAR_FRONTIER_TAILS ${frontier_words["TAILS"]}u

/* A frontier, as seen by one work-item: elements of the current phase, and those that are pushed for the next.
   Fields are portbar's own. */
typedef struct {
    volatile global uint *words;
    uint capacity;
    uint phase;
    uint tail;     /* word that counts what is pushed */
    uint size;
    uint pushed;   /* by this work-item in this phase */
    bool counted;  /* whether the tail holds nothing of an earlier launch */
} portbar_frontier;

/* Fills in a frontier; PORTBAR_FRONTIER says the rest. */
static inline void portbar_frontier_begin(const portbar_grid *grid, portbar_frontier *frontier,
                                          volatile global portbar_worklist *list)
{
    frontier->words = &list->word;
    frontier->capacity = portbar_word_load(frontier->words + PORTBAR_FRONTIER_CAPACITY);
    frontier->phase = portbar_word_load(frontier->words + PORTBAR_FRONTIER_PHASE);
    frontier->tail = PORTBAR_FRONTIER_TAILS + (frontier->phase + 1u) % 3u;
    frontier->pushed = 0u;
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

/* Declares `frontier` for the launch, over the words of a portbar.Frontier. Caller: all work-items of every
   participating work-group, before any of them pushes. Order: stores of the host or an earlier launch are visible.
   Cost: three loads. */
#define PORTBAR_FRONTIER(frontier, grid, list) <%text>\</%text>
    portbar_frontier frontier; <%text>\</%text>
    portbar_frontier_begin((grid), &frontier, (list))

/* Number of elements of the current phase, the same in all work-items. Caller: any work-item. Cost: none: a field of
   `frontier`. */
static inline uint portbar_frontier_size(const portbar_frontier *frontier)
{
    return frontier->size;
}

/* Index of element i of the current phase among the items. Caller: any work-item. Cost: a few integer operations. */
static inline uint portbar_frontier_at(const portbar_frontier *frontier, uint i)
{
    return (frontier->phase & 1u) * frontier->capacity + i;
}

/* Where n reserved places begin among the items, if they all fit. */
static inline uint portbar_frontier_place(const portbar_frontier *frontier, uint before, uint n)
{
    const bool fits = n <= frontier->capacity && before <= frontier->capacity - n;
    return fits ? (~frontier->phase & 1u) * frontier->capacity + before : PORTBAR_WORKLIST_FULL;
}
</%def>
<%def name="frontier_push()">
/* Reserves n places of the next phase, one after another. Caller: any work-item. Order: relaxed, device scope; the
   swap orders what is written there. Result: the first place among the items; PORTBAR_WORKLIST_FULL where they do not
   all fit, which the next swap reports. Cost: an atomic addition, none for n = 0. */
static inline uint portbar_frontier_reserve(portbar_frontier *frontier, uint n)
{
    const uint before = n != 0u ? portbar_word_add_relaxed(frontier->words + frontier->tail, n) : 0u;
    frontier->pushed += n;
    return portbar_frontier_place(frontier, before, n);
}

/* Reserves places of the next phase for a work-group: each work-item gets n places (n may be 0), by one atomic
   addition for all. Caller: all work-items of the group, in uniform control flow. Order and result: as for
   portbar_frontier_reserve. Cost: two work-group barriers, an atomic addition in local memory for each n that is not
   0, and one in global memory. */
static inline uint portbar_work_group_frontier_reserve(const portbar_grid *grid, portbar_frontier *frontier, uint n)
{
    const uint before = portbar_work_group_places(grid, frontier->words + frontier->tail, n);
    frontier->pushed += n;
    return portbar_frontier_place(frontier, before, n);
}

/* Pushes one element for the next phase. Caller and order: as for portbar_frontier_reserve. Cost: an atomic addition,
   and a store. */
#define portbar_frontier_push(frontier, items, value) <%text>\</%text>
    do { <%text>\</%text>
        const uint portbar_place = portbar_frontier_reserve((frontier), 1u); <%text>\</%text>
        if (portbar_place != PORTBAR_WORKLIST_FULL) <%text>\</%text>
            (items)[portbar_place] = (value); <%text>\</%text>
    } while (0)

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
/* Ends a phase: the pushed elements become current. Caller: all work-items of every participating work-group, in
   uniform control flow. Order: that of portbar_device_barrier. Result: whether there are elements, the same in
   every work-item; false if more were pushed than fit or the spin limit was reached, which is reported to the host.
   Cost: one device barrier, with which the sizes travel; in a launch's first swap one load more. */
static inline bool portbar_device_frontier_swap(portbar_grid *grid, portbar_frontier *frontier)
{
    const uint sum = portbar_device_barrier_sum(grid, frontier->pushed);
    frontier->pushed = 0u;
    frontier->size = 0u;
    if (!portbar_device_ok(grid))
        return false;
    /* Elements that an earlier launch pushed and never swapped are only in the tail. */
    const uint size = frontier->counted ? sum : portbar_word_load(frontier->words + frontier->tail);
    frontier->counted = true;
    /* Phases are counted modulo 2 and modulo 3. */
    frontier->phase = frontier->phase < 5u ? frontier->phase + 1u : 0u;
    frontier->tail = PORTBAR_FRONTIER_TAILS + (frontier->phase + 1u) % 3u;
    const bool fits = size <= frontier->capacity;
    if (PORTBAR_LEADS(grid)) {
        if (grid->group_id == 0u) {
            /* These words are not read before the next barrier. */
            portbar_word_store(frontier->words + PORTBAR_FRONTIER_TAILS + (frontier->phase + 2u) % 3u, 0u);
            portbar_word_store(frontier->words + PORTBAR_FRONTIER_PHASE, frontier->phase);
            if (!fits)
                portbar_report_signal(grid, PORTBAR_STATUS_WORKLIST_FULL, frontier->capacity, size);
        }
        if (!fits)
            PORTBAR_GIVE_UP(grid);
    }
    frontier->size = fits ? size : 0u;
    return frontier->size != 0u;
}
</%def>
<%def name="task_queue()">
/* Words of a task queue: a power of two for how many tasks it has room for; how many tasks were pushed, how many
   tickets were drawn for them, how many are finished; and a word for each slot. A slot of ticket t is free while
   its word is t, and full while it is t + 1. */
#define PORTBAR_TASKS_CAPACITY ${task_words["CAPACITY"]}u
#define PORTBAR_TASKS_PUSHED ${task_words["PUSHED"]}u
#define PORTBAR_TASKS_DRAWN ${task_words["DRAWN"]}u
#define PORTBAR_TASKS_FINISHED ${task_words["FINISHED"]}u
#define PORTBAR_TASKS_SLOTS ${task_words["SLOTS"]}u

/* Results of portbar_task_queue_try_pop: the caller has a task, there is none yet, all tasks are finished. */
#define PORTBAR_TASK_TAKEN 0u
#define PORTBAR_TASK_LATER 0xfffffffdu
#define PORTBAR_TASKS_DONE 0xfffffffeu
#define PORTBAR_TASKS_FAILED 0xffffffffu

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

/* Declares `queue` for the launch, over the words of a portbar.TaskQueue. Caller: each work-item that uses it.
   Order: stores of the host or an earlier launch are visible. Cost: a load. */
#define PORTBAR_TASK_QUEUE(queue, grid, list) <%text>\</%text>
    portbar_task_queue queue; <%text>\</%text>
    portbar_task_queue_begin((grid), &queue, (list))
</%def>
<%def name="task_queue_push()">
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

/* Lets others take the task of a ticket. Release, device scope. */
static inline void portbar_task_queue_publish(const portbar_task_queue *queue, uint ticket)
{
    portbar_word_store_release(queue->words + PORTBAR_TASKS_SLOTS + (ticket & queue->mask), ticket + 1u);
}

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

/* Pushes the task of each work-item that wants it, by one reservation for the work-group. Order and result: as for
   portbar_task_queue_push, each for its own. Caller: all work-items of the group, in uniform control flow. Cost: two
   work-group barriers, two atomic additions, and a load and a release store for each task. */
#define portbar_work_group_task_queue_push(grid, queue, items, value, wanted) <%text>\</%text>
    __extension__({ <%text>\</%text>
        const uint portbar_wanted = (wanted) ? 1u : 0u; <%text>\</%text>
        const uint portbar_ticket = <%text>\</%text>
            portbar_work_group_places((grid), (queue)->words + PORTBAR_TASKS_PUSHED, portbar_wanted); <%text>\</%text>
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
/* Whether all tasks that were pushed are finished. Acquire, device scope, when true. Caller: any work-item. */
static inline bool portbar_task_queue_is_done(const portbar_task_queue *queue)
{
    volatile global uint *pushed = queue->words + PORTBAR_TASKS_PUSHED;
    volatile global uint *finished = queue->words + PORTBAR_TASKS_FINISHED;
    if (${relaxed_poll}(finished) != ${relaxed_poll}(pushed))
        return false;
    /* In this order: a task pushes others before it is finished. A number of pushes that was read first might be out of
       date, while the pushed tasks are still in progress. */
    const uint found = portbar_word_load_acquire(finished);
    return found == portbar_word_load(pushed);
}

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

/* Finishes the task before, and looks once for the next one: draws a ticket, unless it has one, and looks into its
   slot. Acquire, device scope, when there is a task or when all are done. Result: the task's slot,
   PORTBAR_TASK_LATER, PORTBAR_TASKS_DONE, or PORTBAR_TASKS_FAILED. Caller: the work-item whose queue it is. */
static inline uint portbar_task_queue_look(const portbar_grid *grid, portbar_task_queue *queue)
{
    if (queue->working)
        (void)portbar_word_add_release(queue->words + PORTBAR_TASKS_FINISHED, 1u);
    queue->working = false;
    if (!queue->waiting) {
        if (portbar_draining(grid))
            return PORTBAR_TASKS_FAILED;
        queue->waiting = true;
        queue->ticket = portbar_word_add_relaxed(queue->words + PORTBAR_TASKS_DRAWN, 1u);
        queue->polls = queue->rounds = queue->since = 0u;
    }
    volatile global uint *slot = queue->words + PORTBAR_TASKS_SLOTS + (queue->ticket & queue->mask);
    if (${poll}(slot) == queue->ticket + 1u) {
% if not acquire_polls:
        portbar_word_acquire(slot);
% endif
        queue->waiting = false;
        queue->working = true;
        return queue->ticket & queue->mask;
    }
    if (portbar_task_queue_is_done(queue)) {
        /* The ticket goes back, so that the next launch finds as many drawn as pushed. */
        (void)portbar_word_add_relaxed(queue->words + PORTBAR_TASKS_DRAWN, 0xffffffffu);
        queue->waiting = false;
        return PORTBAR_TASKS_DONE;
    }
    return portbar_task_queue_goes_on(grid, queue) ? PORTBAR_TASK_LATER : PORTBAR_TASKS_FAILED;
}

/* Frees the slot of the task that was copied from it. Release, device scope. */
static inline void portbar_task_queue_free(const portbar_task_queue *queue)
{
    portbar_word_store_release(queue->words + PORTBAR_TASKS_SLOTS + (queue->ticket & queue->mask),
                               queue->ticket + queue->mask + 1u);
}

/* Looks until there is a task or an end. */
static inline uint portbar_task_queue_wait(const portbar_grid *grid, portbar_task_queue *queue)
{
    uint slot;
    do
        slot = portbar_task_queue_look(grid, queue);
    while (slot == PORTBAR_TASK_LATER);
    return slot;
}

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
