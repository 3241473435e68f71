## -*- coding: utf-8 -*-
## Checks of a debug build: whether the work-items who must make a call together agree on the conditions before it.
<%def name="agreement()">
${group()}
/* How a work-item takes part in checks. The words of local memory are a value in two parts, whether a check has failed,
   and whether that was reported. */
${defines("PORTBAR_AGREEMENT_WORDS")}
#define PORTBAR_AGREEMENT_WORDS 4
${defines("portbar_agreement")}
typedef struct {
    local uint *words;
    /* Where a kernel without a grid leaves a fault. */
    volatile global uint *fault;
% if has_grid:
    portbar_grid *grid;
% endif
} portbar_agreement;
${end()}

${defines("portbar_agreement_leads")}
/* Whether the caller is the one work-item of its work-group that looks after the words. */
static inline bool portbar_agreement_leads(void)
{
% if work_of_all:
    ${work_of_all}
% endif
    return (get_local_id(0) | get_local_id(1) | get_local_id(2)) == 0;
}

${defines("portbar_agreement_begin")}
/* Called by the macros below. Caller: all work-items of a work-group. Cost: a work-group barrier. */
static inline void portbar_agreement_begin(private portbar_agreement *here, local uint *words,
                                           volatile global uint *fault)
{
    here->words = words;
    here->fault = fault;
% if has_grid:
    here->grid = 0;
% endif
    if (portbar_agreement_leads()) {
        for (uint word = 0u; word < PORTBAR_AGREEMENT_WORDS; ++word)
            words[word] = 0u;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

${defines("portbar_report_disagreement")}
/* Notes for the host that a condition differs, and in how many work-items, 0 if unknown. Caller: one work-item. */
static inline void portbar_report_disagreement(private portbar_agreement *here, uint condition, uint count)
{
% if has_grid:
    if (here->grid != 0) {
        portbar_report_fault(here->grid->state, here->grid->epoch, PORTBAR_STATUS_DISAGREED,
                             condition | min(count, 255u) << ${number_bits}, here->grid->group_id, 0u);
        PORTBAR_GIVE_UP(here->grid);
        return;
    }
% endif
    *here->fault = ${fault}u | condition << 8;
}

${defines("portbar_goes_on")}
/* Whether no check of the caller's work-group has failed. Caller: any work-item. Result: the same in all of the
   work-group between two checks. Cost: a load from local memory. */
static inline bool portbar_goes_on(private portbar_agreement *here)
{
    return here->words[2] == 0u;
}

${group()}
/* A value that is the same for all work-items of a work-group, or `otherwise` and a fault that names it. Caller: all
   work-items of a work-group. Order: none. Cost: two work-group barriers. */
${defines("portbar_agreement_on")}
static inline ulong portbar_agreement_on(private portbar_agreement *here, ulong value, uint condition, ulong otherwise)
{
    if (portbar_agreement_leads()) {
        here->words[0] = (uint)value;
        here->words[1] = (uint)(value >> 32);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    /* Only those who differ store. */
    if (here->words[0] != (uint)value || here->words[1] != (uint)(value >> 32))
        here->words[2] = 1u;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (here->words[2] == 0u)
        return value;
    if (portbar_agreement_leads() && here->words[3] == 0u) {
        here->words[3] = 1u;
        portbar_report_disagreement(here, condition, 0u);
    }
    return otherwise;
}
${defines("portbar_agreed_by_work_group")}
static inline bool portbar_agreed_by_work_group(private portbar_agreement *here, bool value, uint condition,
                                                bool otherwise)
{
    return portbar_agreement_on(here, value, condition, otherwise) != 0ul;
}
${defines("portbar_value_agreed_by_work_group")}
static inline ulong portbar_value_agreed_by_work_group(private portbar_agreement *here, ulong value, uint condition)
{
    return portbar_agreement_on(here, value, condition, 0ul);
}
${end()}
</%def>
<%def name="kernels()">
${defines("PORTBAR_AGREEMENT_PARAM")}
/* First parameter of a kernel that has checks and no other hidden parameter; the Python runtime fills both in. */
#define PORTBAR_AGREEMENT_PARAM volatile global uint *portbar_agreement_param, const uint4 portbar_agreement_launch

${defines("PORTBAR_AGREEMENT_BY", "PORTBAR_AGREEMENT_OF_KERNEL", "PORTBAR_AGREEMENT_OF_GANGS")}
/* The beginning of a kernel without a grid. Caller: all work-items. */
#define PORTBAR_AGREEMENT_BY(fault) <%text>\</%text>
    local uint portbar_agreement_words[PORTBAR_AGREEMENT_WORDS]; <%text>\</%text>
    private portbar_agreement portbar_here[1]; <%text>\</%text>
    portbar_agreement_begin(portbar_here, portbar_agreement_words, fault)
#define PORTBAR_AGREEMENT_OF_KERNEL PORTBAR_AGREEMENT_BY(portbar_agreement_param + portbar_agreement_launch.x)
#define PORTBAR_AGREEMENT_OF_GANGS PORTBAR_AGREEMENT_BY(portbar_reduction_param + portbar_reduction_launch.x)
</%def>
<%def name="grid()">
${defines("PORTBAR_AGREEMENT_OF_GRID")}
/* The beginning of a kernel with a grid, after PORTBAR_ENTER. Caller: all work-items. */
#define PORTBAR_AGREEMENT_OF_GRID(entered) <%text>\</%text>
    PORTBAR_AGREEMENT_BY(0); <%text>\</%text>
    portbar_here->grid = &entered

${defines("portbar_agreement_holds")}
/* Whether a check by all work-groups holds: `votes` work-items have its condition, which must be all, or none unless
   `all`. Caller: all work-items of the grid. Result: false from a failed check on. Cost: a work-group barrier. */
static inline bool portbar_agreement_holds(private portbar_agreement *here, uint votes, bool all, uint condition)
{
    if (portbar_agreement_leads()) {
        const uint size = portbar_global_size(here->grid);
        if (here->grid->shared[PORTBAR_SHARED_OK] == 0u) {
            /* The launch has failed otherwise. */
            here->words[2] = 1u;
            here->words[3] = 1u;
        }
        if (votes != size && (all || votes != 0u) && here->words[2] == 0u) {
            here->words[2] = 1u;
            here->words[3] = 1u;
            portbar_report_disagreement(here, condition, min(votes, size - votes));
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return here->words[2] == 0u;
}

${defines("portbar_agreed_by_grid")}
/* A condition that is the same for all work-items of all work-groups, or `otherwise` and a fault that names it. Caller:
   all work-items of the grid. Order: that of portbar_device_barrier. Cost: a device barrier and a work-group barrier.
   */
static inline bool portbar_agreed_by_grid(private portbar_agreement *here, bool value, uint condition, bool otherwise)
{
    const uint votes = portbar_device_barrier_count(here->grid, value);
    return portbar_agreement_holds(here, votes, false, condition) ? value : otherwise;
}

${defines("portbar_value_agreed_by_grid")}
/* A value as portbar_agreed_by_grid, or 0. Sums tell values apart but for one in millions. Cost: two device barriers
   and a work-group barrier. */
static inline ulong portbar_value_agreed_by_grid(private portbar_agreement *here, ulong value, uint condition)
{
    uint mixed = ((uint)value ^ (uint)(value >> 32) * 0x9e3779b9u) * 0x85ebca6bu;
    mixed = (mixed ^ mixed >> 13) * 0xc2b2ae35u | 1u;
    const uint sum = portbar_device_barrier_sum(here->grid, mixed);
    const bool same = sum == mixed * portbar_global_size(here->grid);
    const uint votes = portbar_device_barrier_count(here->grid, same);
    return portbar_agreement_holds(here, votes, true, condition) ? value : 0ul;
}
</%def>
