## -*- coding: utf-8 -*-
## C for hosts without Python: the state buffer, the hidden launch argument and the reports of grids.
<%def name="host()">
/* portbar/host.h: state buffers, launch arguments and reports of grids, for hosts in C or C++.
   Rendered by portbar ${version} for: ${device}.
   Needs C99 or C++11, and no OpenCL header. Belongs to the headers exported with it, and to that device. */
#ifndef PORTBAR_HOST_H
#define PORTBAR_HOST_H
#ifdef __OPENCL_VERSION__
#error "portbar/host.h is for the host; a kernel includes portbar/device_barrier.h"
#endif
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Build options that programs with the exported headers need. */
#define PORTBAR_HOST_BUILD_OPTIONS "${options}"

/* Most work-groups of one launch on this device. */
#define PORTBAR_HOST_MAX_GROUPS ${max_groups}u

/* Last epoch of a state buffer. The launch after it needs a new buffer, and epoch 1. */
#define PORTBAR_HOST_LAST_EPOCH ${last_epoch}u

/* Bytes of a report in the state buffer, and the number of launches after which it is overwritten. */
#define PORTBAR_HOST_REPORT_BYTES ${4 * report_words}u
#define PORTBAR_HOST_REPORTS ${reports}u

% if measured:
/* Limits are counted in rounds of polls. The rate is measured on this device. */
% else:
/* Limits are counted in rounds of polls. The rate is assumed: no probe has measured this device. */
% endif
#define PORTBAR_HOST_POLLS_PER_SECOND ${polls_per_second}
#define PORTBAR_HOST_POLLS_PER_ROUND ${polls_per_round}

/* Rounds without a new work-group after which discovery closes. */
#define PORTBAR_HOST_PATIENCE ${patience}u

/* Status of a launch. */
enum {
    PORTBAR_HOST_NOT_ENTERED = 0, /* the kernel did not run, or never executed PORTBAR_ENTER */
    PORTBAR_HOST_FINE = ${status_open},
% for fault in faults:
    PORTBAR_HOST_${fault.name} = ${fault.status}, /* ${fault.comment} */
% endfor
};

/* The hidden argument 1, with the size and bytes of a cl_uint4. */
typedef struct {
    uint32_t s[4];
} portbar_host_launch;

/* Report of a launch. */
typedef struct {
    uint32_t status;
    uint32_t groups;  /* work-groups that took part */
    uint32_t arrived; /* what it counts depends on the status:
% for fault in faults:
% if fault.arrived:
                         PORTBAR_HOST_${fault.name}: ${fault.arrived}
% endif
% endfor
                       */
    uint32_t group;   /* after a timeout, a lost group or a wait: work-group that reached the limit first */
} portbar_host_report;

/* Return the capacity of a state buffer for launches of at most `groups` work-groups; 0 if no launch may have that
   many. */
static inline uint32_t portbar_host_capacity(uint32_t groups)
{
    uint32_t capacity = ${least_capacity}u;
    if (groups == 0u || groups > PORTBAR_HOST_MAX_GROUPS)
        return 0u;
    while (capacity < groups)
        capacity *= 2u;
    return capacity;
}

/* Return the bytes of a state buffer; `reductions` is nonzero if a kernel with portbar/reduction.h uses it. */
static inline size_t portbar_host_state_bytes(uint32_t capacity, int reductions)
{
    const size_t shares = capacity / ${least_capacity}u;
    const size_t words = (size_t)${state_base}u + shares * ${state_share}u;
    return 4u * (words + (reductions ? (size_t)${reduction_base}u + shares * ${reduction_share}u : 0u));
}

/* Fill in the initial content of a state buffer, portbar_host_state_bytes(capacity, reductions) bytes at `state`. Once per
   buffer: the host never writes to it again. */
static inline void portbar_host_state_init(void *state, uint32_t capacity, int reductions)
{
    const uint32_t first_poll = 2u * capacity;
    memset(state, 0, portbar_host_state_bytes(capacity, reductions));
    memcpy((char *)state + ${4 * layout["POLL_ODD"]}, &first_poll, sizeof first_poll);
}

/* Return the rounds of polls that take about `seconds`. */
static inline uint32_t portbar_host_rounds(double seconds)
{
    const double rounds = seconds * PORTBAR_HOST_POLLS_PER_SECOND / PORTBAR_HOST_POLLS_PER_ROUND;
    if (!(rounds >= 1.0))
        return 1u;
    return rounds < ${float(most_rounds)} ? (uint32_t)rounds : ${most_rounds}u;
}

/* Return the first component of the hidden argument 1. `epoch` is 1 in the first launch on a state buffer and one more in each
   launch that follows, dry runs included. A dry run (`dry_run` nonzero) ends after discovery. */
static inline uint32_t portbar_host_launch_word(uint32_t capacity, uint32_t epoch, int dry_run)
{
    uint32_t log2_capacity = 0u;
    while ((1u << log2_capacity) < capacity)
        ++log2_capacity;
    return (dry_run ? ${dry_run}u : 0u) | log2_capacity << 24 | epoch;
}

/* Return the hidden argument 1. Discovery closes as soon as `expected` work-groups came. Barriers give up after about
   `spin_limit` seconds, or the patience of discovery if that is longer. */
static inline portbar_host_launch portbar_host_launch_of(uint32_t capacity, uint32_t epoch, uint32_t expected,
                                                         double spin_limit, int dry_run)
{
    const uint32_t asked = portbar_host_rounds(spin_limit), least = ${least_limit}u;
    portbar_host_launch launch;
    launch.s[0] = portbar_host_launch_word(capacity, epoch, dry_run);
    launch.s[1] = expected;
    launch.s[2] = PORTBAR_HOST_PATIENCE;
    launch.s[3] = asked < least ? least : asked;
    return launch;
}

/* Return the offset in bytes of a launch's report in the state buffer. */
static inline size_t portbar_host_report_offset(uint32_t epoch)
{
    return 4u * (${layout["REPORTS"]}u + (size_t)(epoch % PORTBAR_HOST_REPORTS) * ${report_words}u);
}

/* Decode a report, PORTBAR_HOST_REPORT_BYTES bytes read after the launch `epoch` was complete. */
static inline portbar_host_report portbar_host_report_of(const void *bytes, uint32_t epoch)
{
    portbar_host_report report = {PORTBAR_HOST_NOT_ENTERED, 0u, 0u, 0u};
    uint32_t words[${report_words}];
    memcpy(words, bytes, sizeof words);
    if (words[0] == epoch) {
        report.status = words[1];
        report.groups = words[2];
        report.arrived = words[3];
        report.group = words[4];
        if (report.status > ${faults[-1].status}u || (report.status == PORTBAR_HOST_FINE && report.groups == 0u))
            report.status = PORTBAR_HOST_OVERWRITTEN;
    }
    return report;
}

/* Return whether the next launch needs a new state buffer and starts again at epoch 1. */
static inline int portbar_host_needs_new_state(portbar_host_report report, uint32_t epoch)
{
    return report.status == PORTBAR_HOST_NOT_ENTERED
% for fault in faults:
% if not fault.keeps_state:
           || report.status == PORTBAR_HOST_${fault.name}
% endif
% endfor
           || epoch >= PORTBAR_HOST_LAST_EPOCH;
}
#endif /* PORTBAR_HOST_H */
</%def>
