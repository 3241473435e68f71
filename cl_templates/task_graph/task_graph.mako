## -*- coding: utf-8 -*-
## A static graph of tasks, in words that portbar.TaskGraph fills in. Tasks that wait for the same tasks share a
## counter, as the events of mega-kernels do (Cheng et al., "Mirage Persistent Kernel", 2025).
<%def name="types()">
${group()}
/* Words of a task graph in global memory, with the content that portbar.TaskGraph gives them: how many tasks there
   are, whether they are drawn by tickets, how many work-groups the order needs; the number of the run, that of the
   run which began last, and whether one began that must not; tickets; work-groups that are through. Counters
   follow, and a record for each task in the order of the tasks. */
${defines("portbar_tasks")}
typedef struct {
    uint word;
} portbar_tasks;
% for name, at in words.items():
${defines(f"PORTBAR_TASK_GRAPH_{name}")}
#define PORTBAR_TASK_GRAPH_${name} ${at}u
% endfor
${end()}

${defines("PORTBAR_TASK_GRAPH_RECORD", "PORTBAR_TASK_GRAPH_INLINE")}
/* A record: the task, its counter, how many tasks it waits for, how many counters it adds to, and these where they are
   no more than four; otherwise where they are listed. */
#define PORTBAR_TASK_GRAPH_RECORD 8u
#define PORTBAR_TASK_GRAPH_INLINE 4u

${defines("portbar_task_record")}
/* The place of a task in the order, and a copy of its record with the first counter, or where they are listed. */
typedef struct {
    uint place, task, counter, needed, count, first;
} portbar_task_record;

${defines("PORTBAR_TASK_GRAPH_NONE")}
/* No place in the order. */
#define PORTBAR_TASK_GRAPH_NONE ${none}u

${defines("PORTBAR_TASK_GRAPH_FOREIGN", "PORTBAR_TASK_GRAPH_STALE", "PORTBAR_TASK_GRAPH_MISUSED")}
/* The request in a report with PORTBAR_STATUS_TASK_GRAPH. */
#define PORTBAR_TASK_GRAPH_FOREIGN ${asked_foreign}u
#define PORTBAR_TASK_GRAPH_STALE ${asked_stale}u
#define PORTBAR_TASK_GRAPH_MISUSED ${asked_misused}u

${defines("portbar_task_graph")}
/* A task graph, as seen by one work-item; all work-items of a group hold the same. Fields are portbar's own. */
typedef struct {
    volatile global uint *words;
    global uint *plain;             /* the same words */
    global const uint *records;
    local uint *told;  /* by the leader: the next task's place and number, and whether a wait has held */
    portbar_task_record record; /* of the task that was taken last; known to the leader alone, but for its place */
    portbar_task_record ahead;  /* of the one that comes next where tasks are dealt; known to the leader alone */
    uint tasks;
    uint run;
    bool tickets;
    bool through;  /* there is no further task for the group */
    bool taken;    /* a task that the group has not waited for */
    bool working;  /* on a task that it has not finished */
    bool refused;  /* known to the leader alone */
} portbar_task_graph;
</%def>
<%def name="begin()">
${defines("portbar_task_graph_read")}
/* Reads the record of a task. Caller: the leader. Cost: five loads of one cache line, side by side. */
static inline void portbar_task_graph_read(const portbar_task_graph *graph, uint place, portbar_task_record *into)
{
    global const uint *record = graph->records + place * PORTBAR_TASK_GRAPH_RECORD;
    into->place = place;
    into->task = record[0];
    into->counter = record[1];
    into->needed = record[2];
    into->count = record[3];
    into->first = record[4];
}

${defines("portbar_task_graph_begin")}
/* Fills in a task graph; PORTBAR_TASKS says the rest. */
static inline void portbar_task_graph_begin(const portbar_grid *grid, portbar_task_graph *graph,
                                            global portbar_tasks *tasks, local uint *told)
{
    volatile global uint *words = &tasks->word;
    const uint needed = portbar_word_load(words + PORTBAR_TASK_GRAPH_GROUPS);
    const bool own = portbar_word_load(words + PORTBAR_TASK_GRAPH_KIND) == ${kind}u;
    uint asked = !own ? PORTBAR_TASK_GRAPH_FOREIGN : grid->num_groups < needed ? needed : 0u;
    graph->words = words;
    graph->plain = &tasks->word;
    graph->records = &tasks->word + (own ? portbar_word_load(words + PORTBAR_TASK_GRAPH_RECORDS) : 0u);
    graph->told = told;
    graph->tasks = asked == 0u ? portbar_word_load(words + PORTBAR_TASK_GRAPH_TASKS) : 0u;
    graph->tickets = portbar_word_load(words + PORTBAR_TASK_GRAPH_BY_TICKETS) != 0u;
    graph->run = portbar_word_load(words + PORTBAR_TASK_GRAPH_RUN);
    graph->record.place = grid->group_id - grid->num_groups;
    graph->ahead.place = PORTBAR_TASK_GRAPH_NONE;
    graph->through = asked != 0u;
    graph->taken = graph->working = graph->refused = false;
    if (PORTBAR_LEADER(grid) && grid->group_id == 0u) {
        if (asked == 0u) {
            /* The previous run is complete. If it is not, its counters are wrong until the host resets them. */
            const bool stale = portbar_word_load(words + PORTBAR_TASK_GRAPH_BEGUN) != graph->run;
            if (stale)
                portbar_word_store(words + PORTBAR_TASK_GRAPH_BROKEN, 1u);
            if (portbar_word_load(words + PORTBAR_TASK_GRAPH_BROKEN) != 0u)
                asked = PORTBAR_TASK_GRAPH_STALE;
            portbar_word_store(words + PORTBAR_TASK_GRAPH_BEGUN, graph->run + 1u);
        }
        graph->refused = asked != 0u;
        if (asked != 0u)
            portbar_report_signal(grid, PORTBAR_STATUS_TASK_GRAPH, grid->num_groups, asked);
    }
}

${defines("PORTBAR_TASKS")}
/* Declares `graph` for the launch, over the words of a portbar.TaskGraph, in the kernel's outermost block. Caller: all
   work-items of every participating work-group. Order: stores of the host or an earlier launch are visible. Cost: six
   loads. */
#define PORTBAR_TASKS(graph, grid, tasks) <%text>\</%text>
    local uint portbar_shared_of_##graph[3]; <%text>\</%text>
    portbar_task_graph graph; <%text>\</%text>
    portbar_task_graph_begin((grid), &graph, (tasks), portbar_shared_of_##graph)
</%def>
<%def name="finish()">
${defines("portbar_task_graph_finish")}
/* Marks the group's task as finished for those that wait for it. Release, device scope. Caller: the leader, after a
   work-group barrier for global memory. */
static inline void portbar_task_graph_finish(const portbar_task_graph *graph)
{
    const uint count = graph->record.count;
    if (count == 1u) {
        (void)portbar_word_add_release(graph->words + graph->record.first, 1u);
        return;
    }
    if (count == 0u)
        return;
    portbar_atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_release, memory_scope_device);
    global const uint *counters = graph->records + graph->record.place * PORTBAR_TASK_GRAPH_RECORD + 4;
    if (count > PORTBAR_TASK_GRAPH_INLINE)
        counters = graph->plain + graph->record.first;
    for (uint i = 0u; i < count; ++i)
        (void)portbar_word_add_relaxed(graph->words + counters[i], 1u);
}

${defines("portbar_work_group_task_graph_done")}
/* Finishes the group's task before it takes the next one: for work that no other task waits for. Order: release at
   device scope, of what any work-item of the group wrote or has seen. Caller: all work-items of the group, in
   uniform control flow, after they have waited. Cost: one work-group barrier; an atomic addition for each counter
   of tasks that wait for this one. */
static inline void portbar_work_group_task_graph_done(const portbar_grid *grid, portbar_task_graph *graph)
{
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid) && graph->working)
        portbar_task_graph_finish(graph);
    graph->working = false;
}
</%def>
<%def name="reached()">
${defines("portbar_task_graph_missing")}
/* Waits until a word has come to `target`, modulo 2^32. Acquire, device scope, when it has. Result: how much was
   missing at the spin limit or when the launch began to drain; 0 when nothing is. Caller: the leader. */
static inline uint portbar_task_graph_missing(const portbar_grid *grid, volatile global uint *word, uint target)
{
    uint missing = 0u;
    for (uint round = 0; round < grid->limit; ++round) {
        bool reached = false;
        for (uint i = PORTBAR_ROLLED(PORTBAR_POLLS, grid->limit); i != 0u && !reached; --i) {
            missing = target - ${poll}(word);
            reached = (int)missing <= 0;
        }
        if (reached) {
% if not acquire_polls:
            portbar_word_acquire(word);
% endif
            return 0u;
        }
        if (portbar_draining(grid))
            return missing;
        portbar_yield(round);
    }
    return max(missing, 1u);
}
</%def>
<%def name="take()">
${defines("portbar_task_graph_leave")}
/* Waits until all groups have come to their end; the last one prepares the next run. Order: acquire and release at
   device scope. Result: false at the spin limit or when the launch is draining. Caller: the leader. */
static inline bool portbar_task_graph_leave(const portbar_grid *grid, const portbar_task_graph *graph)
{
    volatile global uint *through = graph->words + PORTBAR_TASK_GRAPH_THROUGH;
    volatile global uint *run = graph->words + PORTBAR_TASK_GRAPH_RUN;
    if (portbar_word_add(through, 1u) + 1u == grid->num_groups) {
        portbar_word_store(graph->words + PORTBAR_TASK_GRAPH_TICKETS, 0u);
        portbar_word_store(through, 0u);
        portbar_word_store_release(run, graph->run + 1u);
        return true;
    }
    if (portbar_task_graph_missing(grid, run, graph->run + 1u) == 0u)
        return true;
    portbar_report_signal(grid, PORTBAR_STATUS_TASK_WAIT, PORTBAR_TASK_GRAPH_NONE,
                          grid->num_groups - portbar_word_load(through));
    return false;
}

${defines("portbar_work_group_task_graph_take")}
/* Finishes the group's task before, if any, and takes the next one of the order, without waiting for what it needs:
   for preparations that need no other task. Order: release at device scope, as of
   portbar_work_group_task_graph_done; acquire when no task is left: what all tasks of all groups wrote is visible.
   Caller: all work-items of the group, in uniform control flow; no other waiting function of portbar may be
   called between this and the wait. Result: true with the task in `*task`; false when all tasks of the graph are
   finished or the launch has failed; the same in every work-item. Cost: two work-group barriers, and an atomic addition
   where tasks are drawn by tickets; at the end an atomic addition, and polls until all groups are there. */
static inline bool portbar_work_group_task_graph_take(portbar_grid *grid, portbar_task_graph *graph, uint *task)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid)) {
        if (graph->working)
            portbar_task_graph_finish(graph);
        if (graph->taken) {
            portbar_report_signal(grid, PORTBAR_STATUS_TASK_GRAPH, grid->num_groups, PORTBAR_TASK_GRAPH_MISUSED);
            graph->refused = true;
        }
        if (graph->refused)
            PORTBAR_GIVE_UP(grid);
        uint next = PORTBAR_TASK_GRAPH_NONE;
        if (!graph->through && grid->shared[PORTBAR_SHARED_OK] != 0u)
            next = graph->tickets ? portbar_word_add_relaxed(graph->words + PORTBAR_TASK_GRAPH_TICKETS, 1u)
                                  : graph->record.place + grid->num_groups;
        if (next != PORTBAR_TASK_GRAPH_NONE && next >= graph->tasks) {
            if (!portbar_task_graph_leave(grid, graph))
                PORTBAR_GIVE_UP(grid);
            next = PORTBAR_TASK_GRAPH_NONE;
        }
        if (next != PORTBAR_TASK_GRAPH_NONE) {
            if (next == graph->ahead.place)
                graph->record = graph->ahead;
            else
                portbar_task_graph_read(graph, next, &graph->record);
            graph->told[1] = graph->record.task;
        }
        graph->told[0] = next;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    graph->record.place = graph->told[0];
    graph->working = false;
    graph->taken = graph->record.place != PORTBAR_TASK_GRAPH_NONE;
    graph->through = !graph->taken;
    if (graph->taken)
        *task = graph->told[1];
    return graph->taken;
}
</%def>
<%def name="wait()">
${defines("portbar_task_graph_wait_here")}
/* Waits until all tasks are finished that the taken one waits for; portbar_work_group_task_graph_wait says the rest.
   Caller: as there, directly after a barrier. */
static inline bool portbar_task_graph_wait_here(portbar_grid *grid, portbar_task_graph *graph)
{
    if (PORTBAR_LEADER(grid)) {
        bool held = graph->taken;
        if (held) {
            const uint next = graph->record.place + grid->num_groups;
            uint missing = 0u;
            /* The next record comes while this task waits. */
            if (!graph->tickets && next < graph->tasks)
                portbar_task_graph_read(graph, next, &graph->ahead);
            if (graph->record.needed != 0u)
                missing = portbar_task_graph_missing(grid, graph->words + graph->record.counter,
                                                     (graph->run + 1u) * graph->record.needed);
            held = missing == 0u;
            if (!held) {
                portbar_report_signal(grid, PORTBAR_STATUS_TASK_WAIT, graph->record.task, missing);
                PORTBAR_GIVE_UP(grid);
            }
        }
        graph->told[2] = held ? 1u : 0u;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    graph->working = graph->told[2] != 0u;
    graph->taken = false;
    return graph->working;
}

${defines("portbar_work_group_task_graph_wait")}
/* Waits until all tasks are finished that the taken one waits for. Order: acquire at device scope, for all
   work-items of the group: stores before these tasks were finished are visible. Caller: all work-items of
   the group, in uniform control flow, also where none was taken. Result: whether there is a task to work on; false
   at the grid's spin limit, which is reported to the host, and in a launch that is draining; the same in every
   work-item. Cost: two work-group barriers, and polls by one work-item, none for a task that waits for nothing. */
static inline bool portbar_work_group_task_graph_wait(portbar_grid *grid, portbar_task_graph *graph)
{
    /* Other work-items may still read the answer of an earlier barrier, which a fault overwrites. */
    barrier(CLK_LOCAL_MEM_FENCE);
    return portbar_task_graph_wait_here(grid, graph);
}

${defines("portbar_work_group_task_graph_next")}
/* Finishes the group's task before, if any, takes the next one, and waits until it may begin. Caller: all work-items
   of the group, in uniform control flow. Order: release and acquire at device scope, as for the two functions above.
   Result: true with the task in `*task`, otherwise false; the same in every work-item. Cost: three work-group
   barriers, and polls by one work-item. */
static inline bool portbar_work_group_task_graph_next(portbar_grid *grid, portbar_task_graph *graph, uint *task)
{
    (void)portbar_work_group_task_graph_take(grid, graph, task);
    return portbar_task_graph_wait_here(grid, graph);
}
</%def>
<%def name="again()">
${defines("portbar_work_group_task_graph_again")}
/* Begins the graph again in the same launch. Caller: all work-items of every participating work-group, in uniform
   control flow, after a take or next that returned false. Result: portbar_device_ok. Cost: six loads. */
static inline bool portbar_work_group_task_graph_again(const portbar_grid *grid, portbar_task_graph *graph)
{
    portbar_task_graph_begin(grid, graph, (global portbar_tasks *)graph->plain, graph->told);
    return portbar_device_ok(grid);
}
</%def>
