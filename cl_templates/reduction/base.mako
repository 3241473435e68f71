## -*- coding: utf-8 -*-
## What all of portbar/reduction.h rests on: the sizes, the scratch memory and who may touch which part of it when.
<%!
    from portbar.device import quirks
%>
<%namespace name="own" file="${context['template']}"/>
<%namespace name="effects" file="backend/workarounds.mako"/>
<%def name="sizes()">
${group()}
/* How lanes of a sub-group combine their values. */
${feature(f"PORTBAR_REDUCTION_{lanes.upper()}")}
${end()}

${defines("PORTBAR_REDUCTION_LOCAL_SIZE")}
/* Most work-items of a work-group whose kernel has reductions: portbar makes room in local memory for as many. Define
   it before the include to have more, or to take less local memory; with 1, everything in this header is a copy. */
#ifndef PORTBAR_REDUCTION_LOCAL_SIZE
#define PORTBAR_REDUCTION_LOCAL_SIZE ${limit}
#endif
% if exact:
${defines("PORTBAR_REDUCTION_EXACT")}
/* Every work-group of every kernel with reductions has exactly that many work-items, which the compiler knows here. */
#if PORTBAR_REDUCTION_LOCAL_SIZE == ${limit} && !defined(PORTBAR_REDUCTION_EXACT)
#define PORTBAR_REDUCTION_EXACT
#endif
% else:
## Belongs to PORTBAR_REDUCTION_LOCAL_SIZE.
/* Define PORTBAR_REDUCTION_EXACT as well where every work-group of every kernel with reductions has exactly that many
   work-items: the compiler then knows what it would else ask for at each call. */
% endif
% if virtual:
${defines("PORTBAR_SUB_GROUP_SIZE")}
/* Work-items of a sub-group: consecutive ones of a work-group. Each sub-group of one may call its functions alone. */
#ifndef PORTBAR_SUB_GROUP_SIZE
#define PORTBAR_SUB_GROUP_SIZE ${sub_group_size}
#endif
% endif
${defines("PORTBAR_REDUCTION_POLLS")}
/* Polls after which a lock, or a compare-exchange that others keep winning, gives up: some seconds. */
#ifndef PORTBAR_REDUCTION_POLLS
#define PORTBAR_REDUCTION_POLLS ${polls}u
#endif
${defines("PORTBAR_COLLECTIVE")}
/* Functions that all work-items of a group call together. */
% if inlines:
#define PORTBAR_COLLECTIVE static inline __attribute__((overloadable, always_inline))
% else:
#define PORTBAR_COLLECTIVE static __attribute__((overloadable, noinline))
% endif
% if collectives:
${defines("PORTBAR_COLLECTIVES")}
#if defined(__opencl_c_work_group_collective_functions) || (__OPENCL_C_VERSION__ >= 200 && __OPENCL_C_VERSION__ < 300)
#define PORTBAR_COLLECTIVES 1
#endif
% endif
${defines("PORTBAR_ALONE")}
/* Whether the work-group has one work-item, which needs no combining. */
% if own.attr.ASKS_ALONE and by_sub_groups:
#define PORTBAR_ALONE (PORTBAR_REDUCTION_LOCAL_SIZE == 1 || portbar_reduction_size() == 1u)
% else:
#define PORTBAR_ALONE (PORTBAR_REDUCTION_LOCAL_SIZE == 1)
% endif
% if virtual and not single:
${defines("PORTBAR_LANE_ALONE")}
#define PORTBAR_LANE_ALONE (PORTBAR_SUB_GROUP_SIZE == 1 || PORTBAR_ALONE)
% endif
${own.head()}\
</%def>
<%def name="scratch()">
${defines("portbar_scratch_unit")}
/* The scratch memory is an array of these, aligned for every type; a slot of ${slot_units} has room for one value of
   any type that this program reduces. */
typedef ${slot_unit} portbar_scratch_unit;
${group()}
/* The memory holds values of one type after another, so the types in it may stand for any other. */
% for kind, size in kinds:
${defines("PORTBAR_SLOT", f"portbar_slot_{kind}", of=kind)}
typedef ${kind} __attribute__((may_alias)) portbar_slot_${kind};
% endfor
${defines("PORTBAR_SLOT")}
#define PORTBAR_SLOT(kind) portbar_slot_##kind
${end()}
${defines("PORTBAR_AT")}
#define PORTBAR_AT(kind, scratch, slot) ((local PORTBAR_SLOT(kind) *)((scratch)->memory + (slot) * ${slot_units}u))

${group()}
/* The parts of the scratch memory. Between calls a work-item may still be reading `all`, or its own place; so a call
   may write its own place and the group's slots at once, and anything else after a barrier. */
${own.slots()}\
${end()}
${defines("portbar_scratch")}
/* A work-item's view of the memory that its work-group reduces in. Fields are portbar's own. */
typedef struct {
    local portbar_scratch_unit *memory;
    uint turn;
% if gangs:
    uint device_turn;
    /* The launch's own words of the state begin at `launch.x`; the state has values for `launch.y` work-groups. */
    volatile global uint *state;
    uint4 launch;
% if loops:
    uint used[${len(loops)}];
% endif
% endif
% if worker_locks:
    volatile local uint *locks;
% endif
} portbar_scratch;
</%def>
<%def name="entry()">
<% pointers_lost = quirks.LOCAL_POINTERS_LOST in workarounds %>\
${defines("PORTBAR_SCRATCH_PARAM")}
/* Type of the parameter through which a helper function gets the kernel's `scratch`: float norm(PORTBAR_SCRATCH_PARAM
   scratch, float x). */
#define PORTBAR_SCRATCH_PARAM private portbar_scratch *

% if gangs:
${defines("PORTBAR_REDUCTION_PARAM")}
/* First parameter of a kernel without a grid that reduces at gang level; the Python runtime fills both in. In other
   kernels the names stand for "none". */
#define PORTBAR_REDUCTION_PARAM volatile global uint *portbar_reduction_param, const uint4 portbar_reduction_launch
% endif

% if gangs:
${defines("portbar_scratch_bind")}
/* Called by PORTBAR_REDUCTION_SCRATCH; not for direct use. Macros of the author's may have the names of the fields. */
static inline void portbar_scratch_bind(private portbar_scratch *scratch, volatile global uint *state, uint4 launch)
{
    scratch->state = state;
    scratch->launch = launch;
}

% endif
% if worker_locks:
${defines("portbar_scratch_lock_by")}
/* Called by PORTBAR_REDUCTION_SCRATCH; not for direct use. */
static inline void portbar_scratch_lock_by(private portbar_scratch *scratch, volatile local uint *locks)
{
    scratch->locks = locks;
}

% endif
${defines("portbar_scratch_start")}
/* Called by PORTBAR_REDUCTION_SCRATCH; not for direct use. */
PORTBAR_COLLECTIVE void portbar_scratch_start(
    private portbar_scratch *scratch, local portbar_scratch_unit *memory${', local uint *kept' if pointers_lost else ''})
{
% for name, size in asserted.items():
    _Static_assert((${name}) == ${size},
                   "define ${name} once, as a decimal number");
% endfor
% if pointers_lost:
${effects.read_back("memory", "portbar_scratch_unit", "kept")}\
% endif
    scratch->memory = memory;
    scratch->turn = 0u;
    PORTBAR_ASK_ID(portbar_reduction_id());
% if gangs:
    scratch->device_turn = 0u;
% for number in range(len(loops)):
    scratch->used[${number}] = 0u;
% endfor
% endif
% if worker_locks:
    portbar_locks_start(scratch);
% endif
}

${defines("PORTBAR_REDUCTION_SCRATCH")}
/* Once in a kernel, in its outermost block (after PORTBAR_ENTER where it has a grid): declares the local memory that
   all reductions of the kernel share, and `scratch`, through which they find it. Caller: all work-items. Cost: at most
   a few stores to local memory, and a work-group barrier where sub-groups take locks. */
#define PORTBAR_REDUCTION_SCRATCH(scratch) <%text>\</%text>
% if quirks.ITEMS_BEYOND in workarounds:
    if (${effects.is_beyond(" \\")}) return; <%text>\</%text>
% endif
    local portbar_scratch_unit portbar_reduction_memory[PORTBAR_REDUCTION_SLOTS * ${slot_units}]; <%text>\</%text>
% if worker_locks:
    local uint portbar_reduction_locks[${worker_locks}]; <%text>\</%text>
% endif
    private portbar_scratch scratch[1]; <%text>\</%text>
% if gangs:
    portbar_scratch_bind(scratch, (volatile global uint *)portbar_reduction_param, (uint4)(portbar_reduction_launch)); <%text>\</%text>
% endif
% if worker_locks:
    portbar_scratch_lock_by(scratch, portbar_reduction_locks); <%text>\</%text>
% endif
% if pointers_lost:
    local uint portbar_reduction_kept[2]; <%text>\</%text>
    portbar_scratch_start(scratch, portbar_reduction_memory, portbar_reduction_kept)
% else:
    portbar_scratch_start(scratch, portbar_reduction_memory)
% endif
</%def>
