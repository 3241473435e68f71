## -*- coding: utf-8 -*-
## What a device barrier promises, whatever the algorithm; the algorithm's own comment follows it.
<%def name="contract()">
/* Barrier over the grid. Caller: all work-items of every participating work-group, in uniform control flow. Order: what
   any of them wrote to global or local memory before is visible to all of them after (release and acquire, device
   scope). Result: false when the spin limit was reached, from then on at once in the whole launch; valid in every
   work-item. */
</%def>
