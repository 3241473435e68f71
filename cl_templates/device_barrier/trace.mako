## -*- coding: utf-8 -*-
## When work-groups arrive at device barriers and leave them, for programs that are built to be traced.
<%def name="notes()">
${defines("PORTBAR_TRACE_OF")}
/* The trace of a launch, for each work-group ${trace_words} words: the launch's epoch; how many barriers it met; when
   it entered; for each of the first ${trace_events} barriers when it arrived, and when it left. Times take two words.
   */
#define PORTBAR_TRACE_OF(grid) <%text>\</%text>
    ((grid)->state + (grid)->state[PORTBAR_STATE_REPORTS + ${trace_word}u] + (grid)->group_id * ${trace_words}u)

${defines("portbar_trace_time")}
/* Writes the time. Caller: a leader. */
static inline void portbar_trace_time(volatile global uint *to)
{
    const ulong now = portbar_trace_clock();
    to[0] = (uint)now;
    to[1] = (uint)(now >> 32);
}

${defines("portbar_trace_enter")}
/* Begins the trace of a work-group that takes part. Caller: a leader. */
static inline void portbar_trace_enter(const portbar_grid *grid)
{
    volatile global uint *own = PORTBAR_TRACE_OF(grid);
    own[0] = grid->epoch;
    own[1] = 0u;
    portbar_trace_time(own + 2);
}

${defines("portbar_trace_arrive")}
/* Notes an arrival. Caller: a leader, when all work-items of its group have arrived. */
static inline void portbar_trace_arrive(const portbar_grid *grid)
{
    volatile global uint *own = PORTBAR_TRACE_OF(grid);
    const uint met = own[1];
    if (met < ${trace_events}u)
        portbar_trace_time(own + 4u + 4u * met);
    own[1] = met + 1u;
}

${defines("portbar_trace_leave")}
/* Notes the end of the wait that the last arrival began. Caller: a leader. */
static inline void portbar_trace_leave(const portbar_grid *grid)
{
    volatile global uint *own = PORTBAR_TRACE_OF(grid);
    const uint last = own[1] - 1u;
    if (last < ${trace_events}u)
        portbar_trace_time(own + 6u + 4u * last);
}
</%def>
<%def name="entered()">
    if (PORTBAR_LEADER(grid) && grid->group_id != PORTBAR_SURPLUS && (launch.x & PORTBAR_DRY_RUN) == 0u)
        portbar_trace_enter(grid);
</%def>
<%def name="traced()">
${group()}
/* The device barrier, and those with votes, with notes of when the work-group arrived and left. As they are, with a
   work-group barrier more: work-items may run one after the other, and the last of them arrives with the group. */
<%
    traced = {
        "barrier": ("bool", "portbar_device_barrier", "", ""),
        "any": ("bool", "portbar_device_barrier_any", ", bool vote", ", vote"),
        "all": ("bool", "portbar_device_barrier_all", ", bool vote", ", vote"),
        "count": ("uint", "portbar_device_barrier_count", ", bool vote", ", vote"),
        "sum": ("uint", "portbar_device_barrier_sum", ", uint n", ", n"),
        "sum_within": ("uint", "portbar_sum_within", ", uint n, volatile global uint *instead, uint most",
                       ", n, instead, most"),
    }
%>\
% for name, (answer, of, parameters, arguments) in traced.items():
${defines(f"portbar_traced_{name}")}
static inline ${answer} portbar_traced_${name}(portbar_grid *grid${parameters})
{
    barrier(CLK_LOCAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid))
        portbar_trace_arrive(grid);
    const ${answer} found = ${of}(grid${arguments});
    if (PORTBAR_LEADER(grid))
        portbar_trace_leave(grid);
    return found;
}

% endfor
${end()}
${defines("portbar_traced_arrive")}
/* The halves of the same. */
static inline portbar_device_token portbar_traced_arrive(portbar_grid *grid)
{
    barrier(CLK_LOCAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid))
        portbar_trace_arrive(grid);
    return portbar_device_barrier_arrive(grid);
}

${defines("portbar_traced_wait")}
static inline bool portbar_traced_wait(portbar_grid *grid, portbar_device_token token)
{
    const bool held = portbar_device_barrier_wait(grid, token);
    if (PORTBAR_LEADER(grid))
        portbar_trace_leave(grid);
    return held;
}

${defines("portbar_traced_test_wait")}
static inline bool portbar_traced_test_wait(portbar_grid *grid, portbar_device_token token)
{
    const bool done = portbar_device_barrier_test_wait(grid, token);
    if (PORTBAR_LEADER(grid) && done)
        portbar_trace_leave(grid);
    return done;
}

${defines("portbar_device_barrier", "portbar_device_barrier_arrive", "portbar_device_barrier_wait",
          "portbar_device_barrier_test_wait", "portbar_device_barrier_any", "portbar_device_barrier_all",
          "portbar_device_barrier_count", "portbar_device_barrier_sum", "portbar_sum_within")}
/* From here on, calls of the barrier are traced. */
#define portbar_device_barrier(grid) (portbar_traced_barrier(grid))
#define portbar_device_barrier_arrive(grid) (portbar_traced_arrive(grid))
#define portbar_device_barrier_wait(grid, token) (portbar_traced_wait(grid, token))
#define portbar_device_barrier_test_wait(grid, token) (portbar_traced_test_wait(grid, token))
#define portbar_device_barrier_any(grid, vote) (portbar_traced_any(grid, vote))
#define portbar_device_barrier_all(grid, vote) (portbar_traced_all(grid, vote))
#define portbar_device_barrier_count(grid, vote) (portbar_traced_count(grid, vote))
#define portbar_device_barrier_sum(grid, n) (portbar_traced_sum(grid, n))
#define portbar_sum_within(grid, n, instead, most) (portbar_traced_sum_within(grid, n, instead, most))
</%def>
