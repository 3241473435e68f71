## -*- coding: utf-8 -*-
## The contract of a device barrier, for all algorithms; the algorithm's own comment follows it.
<%def name="contract()">
${defines(barrier_name)}
/* Barrier over the grid. Caller: all work-items of every participating work-group, in uniform control flow. Order:
   release and acquire, device scope: stores to global or local memory before it are visible to all of them after it.
   Result: false if the spin limit was reached, from then on at once in the launch; valid in every work-item. */
</%def>
