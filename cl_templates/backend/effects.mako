## -*- coding: utf-8 -*-
## Macros for the effects of quirks (portbar/device/quirks.py), each empty on devices that do not need it.
<%!
    from portbar.device import quirks
%>
<%namespace name="own" file="backend/workarounds.mako"/>
<%def name="all_work()">
${defines("PORTBAR_ALL_WORK")}
/* Before what one work-item does alone between two barriers: something that all do. */
% if quirks.LEADER_FORGOTTEN in workarounds:
#define PORTBAR_ALL_WORK() ${own.work_of_all()}
% else:
#define PORTBAR_ALL_WORK() do { } while (0)
% endif
</%def>
<%def name="ask_id()">
${defines("PORTBAR_ASK_ID")}
/* Before the first barrier of a kernel: asks for the id that is needed after it. */
% if quirks.IDS_LOST in workarounds:
#define PORTBAR_ASK_ID(id) do { volatile uint item = (id); (void)item; } while (0)
% else:
#define PORTBAR_ASK_ID(id) do { } while (0)
% endif
</%def>
<%def name="keep()">
${defines("PORTBAR_KEEP")}
/* Keeps a private structure across a barrier. */
% if quirks.COPIES_SHARED in workarounds:
#define PORTBAR_KEEP(x) __asm__ volatile("" : : "r"(&(x)))
% else:
#define PORTBAR_KEEP(x) do { } while (0)
% endif
</%def>
<%def name="join()">
${defines("PORTBAR_JOIN")}
/* Where branches meet that come after a barrier which some path avoids. */
% if quirks.JOINS_LOST in workarounds:
#define PORTBAR_JOIN() barrier(CLK_LOCAL_MEM_FENCE)
% else:
#define PORTBAR_JOIN() do { } while (0)
% endif
</%def>
<%def name="group_fence()">
${defines("PORTBAR_GROUP_FENCE")}
/* A fence of local and global memory within the work-group, beside waits that are barriers. */
% if quirks.FENCES_ARE_BARRIERS in workarounds:
#define PORTBAR_GROUP_FENCE(order) do { } while (0)
% else:
<%text>#define PORTBAR_GROUP_FENCE(order) \
    portbar_atomic_work_item_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE, order, memory_scope_work_group)</%text>
% endif
</%def>
