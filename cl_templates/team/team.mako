## -*- coding: utf-8 -*-
## Teams: the work-groups of a grid cut into parts that meet among themselves, as MPI's communicators are split. A team
## has one counter that only grows, as that of `device_barrier/counter.mako`.
<%def name="types()">
${defines("portbar_team")}
/* A team, as seen by one work-item of it. Fields are portbar's own. */
typedef struct {
    uint id;       /* of the team */
    uint teams;
    uint rank;     /* of the work-group in it */
    uint members;
    uint first;    /* groups of the teams before */
    uint slot;     /* of the split, whose words it uses */
    uint phase;
    uint turn;     /* of the two areas of values */
} portbar_team;

${defines("PORTBAR_TEAM_SPLITS")}
/* Splits that have words of their own. The last of these is being made, so teams of one split less are usable. */
#define PORTBAR_TEAM_SPLITS ${splits}u
</%def>
<%def name="words()">
${defines("PORTBAR_TEAM_WORDS", "PORTBAR_TEAM_COUNTER", "PORTBAR_TEAM_NUMBERS", "PORTBAR_TEAM_VALUES")}
/* Words of teams: counters, in the line of every second group, one sector for each split; data that groups exchange
   when they are split; values that groups store. Two teams that count never share a line, since each has two groups at
   least. */
#define PORTBAR_TEAM_WORDS(grid) ((grid)->state + PORTBAR_STATE_TEAMS((size_t)(grid)->capacity))
#define PORTBAR_TEAM_COUNTER(grid, first, slot) <%text>\</%text>
    (PORTBAR_TEAM_WORDS(grid) + (size_t)((first) / 2u) * PORTBAR_LINE + (slot) * (PORTBAR_LINE / PORTBAR_TEAM_SPLITS))
#define PORTBAR_TEAM_NUMBERS(grid, slot) <%text>\</%text>
    (PORTBAR_TEAM_WORDS(grid) + (PORTBAR_LINE / 2u + 2u * ((slot) & 1u)) * (size_t)(grid)->capacity)
#define PORTBAR_TEAM_VALUES(grid, team) <%text>\</%text>
    ((global ulong *)(PORTBAR_TEAM_WORDS(grid) <%text>\</%text>
                      + (PORTBAR_LINE / 2u + 4u + 4u * (team)->slot + 2u * (team)->turn) <%text>\</%text>
                            * (size_t)(grid)->capacity) + (team)->first)
</%def>
<%def name="begin()">
${defines("portbar_team_begin")}
/* The first step of every split: publishes the group's number, which is the same in all its work-items, to all groups,
   and clears the counters. The words of the split before may still be read; those of earlier ones are not. Caller: all
   work-items of every participating work-group. Result: false when the numbers differ, when the caller says that its
   own is unfit, or when the device barrier failed. */
static inline bool portbar_team_begin(portbar_grid *grid, uint number, bool fits)
{
    local uint *shared = grid->shared;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid)) {
        shared[PORTBAR_SHARED_TEAM_NUMBER] = number;
        shared[PORTBAR_SHARED_TEAM_OTHERS] = 0u;
        shared[PORTBAR_SHARED_TEAM_SPLITS] += 1u;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (number != shared[PORTBAR_SHARED_TEAM_NUMBER])
        (void)portbar_local_add(shared + PORTBAR_SHARED_TEAM_OTHERS, 1u);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (PORTBAR_LEADS(grid)) {
        const uint slot = shared[PORTBAR_SHARED_TEAM_SPLITS] % PORTBAR_TEAM_SPLITS;
        const uint others = shared[PORTBAR_SHARED_TEAM_OTHERS], own = shared[PORTBAR_SHARED_TEAM_NUMBER];
        if (others != 0u)
            portbar_report_signal(grid, PORTBAR_STATUS_TEAM_SPLIT, 0u, others);
        else if (!fits)
            portbar_report_signal(grid, PORTBAR_STATUS_TEAM_SPLIT, grid->num_groups, own);
        if (others != 0u || !fits)
            PORTBAR_GIVE_UP(grid);
        portbar_word_store(PORTBAR_TEAM_COUNTER(grid, grid->group_id, slot), 0u);
        portbar_word_store(PORTBAR_TEAM_NUMBERS(grid, slot) + grid->group_id, own);
    }
    /* Some barriers begin with a load of the result of the one before, which a fault overwrites. */
    barrier(CLK_LOCAL_MEM_FENCE);
    return portbar_device_barrier(grid);
}

${defines("portbar_team_found")}
/* The team that a leader has found; one of each work-group alone where the split failed. Caller: all work-items. */
${inline} portbar_team portbar_team_found(const portbar_grid *grid)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const bool held = grid->shared[PORTBAR_SHARED_OK] != 0u;
    const local uint *found = grid->shared + PORTBAR_SHARED_TEAM;
    portbar_team team;
    team.id = held ? found[0] : grid->group_id;
    team.teams = held ? found[1] : grid->num_groups;
    team.rank = held ? found[2] : 0u;
    team.members = held ? found[3] : 1u;
    team.first = held ? found[4] : grid->group_id;
    team.slot = grid->shared[PORTBAR_SHARED_TEAM_SPLITS] % PORTBAR_TEAM_SPLITS;
    team.phase = team.turn = 0u;
    return team;
}
</%def>
<%def name="split()">
${defines("portbar_team_split")}
/* Cuts the grid into teams of `k` work-groups with neighbouring ids; the last team has what is left. Caller: all
   work-items of every participating work-group, in uniform control flow, with one `k`. Order: that of
   portbar_device_barrier. Result: the caller's team, usable until the third split after this one. A `k` of 0, above
   portbar_num_groups, or that differs is an error of the launch, after which portbar_device_ok is false. Cost: one
   device barrier, and a load per member. */
${inline} portbar_team portbar_team_split(portbar_grid *grid, uint k)
{
    (void)portbar_team_begin(grid, k, k - 1u < grid->num_groups);
    if (PORTBAR_LEADS(grid)) {
        local uint *found = grid->shared + PORTBAR_SHARED_TEAM;
        const uint size = grid->shared[PORTBAR_SHARED_TEAM_NUMBER], groups = grid->num_groups;
        const uint id = grid->group_id / size, first = id * size, members = min(size, groups - first);
        volatile global uint *sizes = PORTBAR_TEAM_NUMBERS(grid, grid->shared[PORTBAR_SHARED_TEAM_SPLITS]);
        uint others = 0u;
        /* And the group before, so that teams of different sizes do not go unseen next to each other. */
        for (uint i = max(first, 1u) - 1u; i < first + members; ++i)
            others += portbar_word_load(sizes + i) != size ? 1u : 0u;
        found[0] = id;
        found[1] = (groups + size - 1u) / size;
        found[2] = grid->group_id - first;
        found[3] = members;
        found[4] = first;
        if (others != 0u) {
            portbar_report_signal(grid, PORTBAR_STATUS_TEAM_SPLIT, 0u, others);
            PORTBAR_GIVE_UP(grid);
        }
    }
    return portbar_team_found(grid);
}
</%def>
<%def name="by_colour()">
${defines("portbar_team_by_colour")}
/* Cuts the grid into one team for each colour, in the order of the colours; ranks follow the ids of the work-groups.
   Caller: all work-items of every participating work-group, in uniform control flow, with one colour in each group.
   Order: that of portbar_device_barrier. Result: the caller's team, usable until the third split after this one.
   Colours that differ within a group are an error of the launch, after which portbar_device_ok is false. Cost: two
   device barriers, and three loads for each work-group of the grid. */
${inline} portbar_team portbar_team_by_colour(portbar_grid *grid, uint colour)
{
    (void)portbar_team_begin(grid, colour, true);
    if (PORTBAR_LEADS(grid)) {
        local uint *found = grid->shared + PORTBAR_SHARED_TEAM;
        const uint own = grid->shared[PORTBAR_SHARED_TEAM_NUMBER], me = grid->group_id;
        volatile global uint *colours = PORTBAR_TEAM_NUMBERS(grid, grid->shared[PORTBAR_SHARED_TEAM_SPLITS]);
        uint rank = 0u, members = 0u, first = 0u;
        for (uint i = 0u; i < grid->num_groups; ++i) {
            const uint other = portbar_word_load(colours + i);
            rank += other == own && i < me ? 1u : 0u;
            members += other == own ? 1u : 0u;
            first += other < own ? 1u : 0u;
        }
        found[2] = rank;
        found[3] = members;
        found[4] = first;
        portbar_word_store(colours + grid->capacity + me, rank == 0u ? 1u : 0u);
    }
    (void)portbar_device_barrier(grid);
    if (PORTBAR_LEADS(grid)) {
        local uint *found = grid->shared + PORTBAR_SHARED_TEAM;
        const uint own = grid->shared[PORTBAR_SHARED_TEAM_NUMBER];
        volatile global uint *colours = PORTBAR_TEAM_NUMBERS(grid, grid->shared[PORTBAR_SHARED_TEAM_SPLITS]);
        uint id = 0u, teams = 0u;
        for (uint i = 0u; i < grid->num_groups; ++i) {
            const uint leads = portbar_word_load(colours + grid->capacity + i);
            teams += leads;
            id += portbar_word_load(colours + i) < own ? leads : 0u;
        }
        found[0] = id;
        found[1] = teams;
    }
    return portbar_team_found(grid);
}
</%def>
<%def name="ids()">
${defines("portbar_team_id")}
/* Number of the team, from 0. Caller: any work-item. Cost: none: a field of `team`. */
static inline uint portbar_team_id(const portbar_team *team)
{
    return team->id;
}

${defines("portbar_num_teams")}
/* Number of teams that the grid was cut into, the same in all of them. Caller: any work-item. Cost: none: a field of
   `team`. */
static inline uint portbar_num_teams(const portbar_team *team)
{
    return team->teams;
}

${defines("portbar_team_rank")}
/* Rank of the work-group in its team, from 0. Caller: any work-item. Cost: none: a field of `team`. */
static inline uint portbar_team_rank(const portbar_team *team)
{
    return team->rank;
}

${defines("portbar_team_num_groups")}
/* Number of work-groups of the team. Caller: any work-item. Cost: none: a field of `team`. */
static inline uint portbar_team_num_groups(const portbar_team *team)
{
    return ${stride('team->members')};
}

${defines("portbar_team_global_id")}
/* Linear id of the work-item among those of its team, from 0. Caller: any work-item. Cost: a few integer operations. */
static inline uint portbar_team_global_id(const portbar_grid *grid, const portbar_team *team)
{
    (void)grid;
    return team->rank * portbar_local_linear_size() + PORTBAR_ITEM(grid);
}

${defines("portbar_team_global_size")}
/* Work-items of the team: the stride of a loop over what it shares. Caller: any work-item. Cost: a few integer
   operations. */
static inline uint portbar_team_global_size(const portbar_team *team)
{
    return ${stride('team->members * portbar_local_linear_size()')};
}
</%def>
<%def name="meet()">
${defines("portbar_team_meet")}
/* Arrives at the team's counter and waits for the others; release and acquire, device scope. Result: false at the spin
   limit, which is reported to the host, or in a launch that is draining. Caller: a leader. */
static inline bool portbar_team_meet(const portbar_grid *grid, const portbar_team *team)
{
    const uint members = team->members;
    if (members == 1u)
        return true;
    const uint target = (team->phase + 1u) * members;
    volatile global uint *counter = PORTBAR_TEAM_COUNTER(grid, team->first, team->slot);
% if arrives_unanswered:
    /* The answer would take as long as the first poll. */
    portbar_word_arrive_unanswered(counter);
% else:
    const uint lacking = target - portbar_word_arrive(counter) - 1u;
    portbar_check_arrival(grid, lacking, members);
    if (lacking == 0u) {
        portbar_word_acquire(counter);
        return true;
    }
% endif
    const uint ended = portbar_wait_word(grid, counter, target);
    if (ended == PORTBAR_WAIT_LIMIT) {
        /* Those that left since the last poll may have arrived again. */
        const uint beyond = portbar_word_load(counter) - target;
        const uint missing = beyond < members ? 0u : min(0u - beyond, members);
        portbar_report_signal(grid, PORTBAR_STATUS_TEAM, members - missing, members);
    }
    return ended == PORTBAR_WAIT_REACHED;
}

${defines("portbar_team_met")}
/* The end of a meeting, for all work-items: whether it held. */
static inline bool portbar_team_met(const portbar_grid *grid, portbar_team *team)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    team->phase += 1u;
    return grid->shared[PORTBAR_SHARED_OK] != 0u;
}
</%def>
<%def name="barrier()">
${defines("portbar_team_barrier")}
/* Barrier over a team. Caller: all work-items of all its work-groups, in uniform control flow; other teams go on.
   Order: release and acquire, device scope: stores to global or local memory before are visible to all of them after.
   Result: false when the spin limit was reached, from then on at once in the whole launch; valid in every
   work-item. Cost: two work-group barriers, one atomic per group, and polls of one word. */
static inline bool portbar_team_barrier(portbar_grid *grid, portbar_team *team)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADS(grid) && !portbar_team_meet(grid, team))
        PORTBAR_GIVE_UP(grid);
    return portbar_team_met(grid, team);
}
</%def>
<%def name="exchange()">
${defines("portbar_team_exchange")}
/* Leaves a value of the work-group for its team, and meets it: true when the values of all are there, by rank. Two
   areas take turns: no group writes to one again before all have been at the meeting of the other. Caller: a leader. */
static inline bool portbar_team_exchange(portbar_grid *grid, const portbar_team *team, ulong value)
{
    PORTBAR_TEAM_VALUES(grid, team)[team->rank] = value;
    const bool met = portbar_team_meet(grid, team);
    if (!met)
        PORTBAR_GIVE_UP(grid);
    return met;
}

${defines("portbar_team_leave")}
/* Leaves a result for the work-items of the group. Caller: a leader. */
static inline void portbar_team_leave(const portbar_grid *grid, ulong result)
{
    grid->shared[PORTBAR_SHARED_TEAM_RESULT] = (uint)result;
    grid->shared[PORTBAR_SHARED_TEAM_RESULT + 1] = (uint)(result >> 32);
}

${defines("portbar_team_result")}
/* The result for all work-items, when the meeting held. */
static inline bool portbar_team_result(const portbar_grid *grid, portbar_team *team, ulong *result)
{
    const bool held = portbar_team_met(grid, team);
    team->turn ^= 1u;
    *result = (ulong)grid->shared[PORTBAR_SHARED_TEAM_RESULT + 1] << 32 | grid->shared[PORTBAR_SHARED_TEAM_RESULT];
    return held;
}

${group()}
/* Values that a team has stored, in batches whose loads are all in flight at once. Caller: a leader. */
${defines("PORTBAR_TEAM_BATCH")}
#define PORTBAR_TEAM_BATCH 8u
${defines("portbar_team_load")}
static inline void portbar_team_load(global const ulong *values, uint from, uint count, ulong *batch)
{
    for (uint i = 0u; i < PORTBAR_TEAM_BATCH; ++i)
        batch[i] = values[min(from + i, count - 1u)];
}
${end()}
</%def>
<%def name="votes()">
${defines("portbar_team_barrier_count")}
/* A team barrier that counts votes: how many work-items of the team call it with true. Caller and order: as for
   portbar_team_barrier. Result: valid in every work-item of the team, the same in all; 0 when the spin limit was
   reached, now or before. Cost: a team barrier, and a load per member by one work-item. */
static inline uint portbar_team_barrier_count(portbar_grid *grid, portbar_team *team, bool vote)
{
    if (vote)
        (void)portbar_local_add(grid->shared + PORTBAR_SHARED_TEAM_VOTES, 1u);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADS(grid)) {
        const uint own = grid->shared[PORTBAR_SHARED_TEAM_VOTES];
        grid->shared[PORTBAR_SHARED_TEAM_VOTES] = 0u;
        if (portbar_team_exchange(grid, team, own)) {
            global const ulong *values = PORTBAR_TEAM_VALUES(grid, team);
            ulong batch[PORTBAR_TEAM_BATCH], sum = 0ul;
            for (uint from = 0u; from < team->members; from += PORTBAR_TEAM_BATCH) {
                portbar_team_load(values, from, team->members, batch);
                for (uint i = 0u; i < PORTBAR_TEAM_BATCH; ++i)
                    sum += from + i < team->members ? batch[i] : 0ul;
            }
            portbar_team_leave(grid, sum);
        }
    }
    ulong sum;
    return portbar_team_result(grid, team, &sum) ? (uint)sum : 0u;
}

${defines("portbar_team_barrier_any")}
/* Whether any work-item of the team calls it with true. Caller, order and cost: as for portbar_team_barrier_count.
   Result: valid in every work-item of the team, the same in all; false when the spin limit was reached, so that a loop
   on it ends. */
static inline bool portbar_team_barrier_any(portbar_grid *grid, portbar_team *team, bool vote)
{
    return portbar_team_barrier_count(grid, team, vote) != 0u;
}

${defines("portbar_team_barrier_all")}
/* Whether all work-items of the team call it with true. Caller, order and cost: as for portbar_team_barrier_count.
   Result: valid in every work-item of the team, the same in all; true when the spin limit was reached, so that a loop
   until then ends. */
static inline bool portbar_team_barrier_all(portbar_grid *grid, portbar_team *team, bool vote)
{
    return portbar_team_barrier_count(grid, team, !vote) == 0u;
}
</%def>
<%def name="reductions()">
${defines("PORTBAR_TEAM_COLLECTIVE")}
#define PORTBAR_TEAM_COLLECTIVE static inline __attribute__((overloadable))

% for op, of_op in forms:
${group()}
/* Reduces over a team, by ${op}: values of the work-groups' first work-items, combined in the order of the ranks, so
   that floats always have the same bits. portbar_work_group_reduce_${op} makes one value of a group's before. Caller
   and order: as for portbar_team_barrier. Result: valid in every work-item of the team, the same in all; the neutral
   element when the spin limit was reached, now or before. Cost: a team barrier, and a load per member by one
   work-item. */
% for form in of_op:
${defines(f"portbar_team_reduce_{form.op}", of=form.kind)}
PORTBAR_TEAM_COLLECTIVE ${form.kind} portbar_team_reduce_${form.op}(portbar_grid *grid, portbar_team *team, ${form.kind} x)
{
    ulong result;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADS(grid) && portbar_team_exchange(grid, team, ${into(form.kind, "x")})) {
        global const ulong *values = PORTBAR_TEAM_VALUES(grid, team);
        ${form.kind} a = ${back(form.kind, "values[0]")};
        ulong batch[PORTBAR_TEAM_BATCH];
        for (uint from = 1u; from < team->members; from += PORTBAR_TEAM_BATCH) {
            portbar_team_load(values, from, team->members, batch);
            for (uint i = 0u; i < PORTBAR_TEAM_BATCH; ++i) {
                const ${form.kind} b = ${back(form.kind, "batch[i]")};
                a = from + i < team->members ? ${form.combined} : a;
            }
        }
        portbar_team_leave(grid, ${into(form.kind, "a")});
    }
    return portbar_team_result(grid, team, &result) ? ${back(form.kind, "result")} : ${form.neutral};
}

% endfor
${end()}
% endfor
</%def>
<%def name="broadcasts()">
${group()}
/* The value of a work-group's first work-item for all of the team. A `rank` of portbar_team_num_groups or more means
   the last. Caller: as for portbar_team_barrier, with one `rank`. Order: as for portbar_team_barrier. Result: valid in
   every work-item of the team; 0 when the spin limit was reached, now or before. Cost: a team barrier, and a load. */
% for kind in kinds:
${defines("portbar_team_broadcast", of=kind)}
PORTBAR_TEAM_COLLECTIVE ${kind} portbar_team_broadcast(portbar_grid *grid, portbar_team *team, ${kind} x, uint rank)
{
    ulong result;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADS(grid) && portbar_team_exchange(grid, team, ${into(kind, "x")}))
        portbar_team_leave(grid, PORTBAR_TEAM_VALUES(grid, team)[min(rank, team->members - 1u)]);
    return portbar_team_result(grid, team, &result) ? ${back(kind, "result")} : 0;
}

% endfor
${end()}
</%def>
