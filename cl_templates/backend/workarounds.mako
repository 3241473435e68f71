## -*- coding: utf-8 -*-
## Effects of quirks on what every kernel does: one def each, used wherever a compiler needs it.
## portbar/device/quirks says which do.
<%def name="work_of_all()">{ volatile size_t portbar_item = get_local_id(0); (void)portbar_item; }</%def>
<%def name="leader()">
/* Whether the caller communicates with the other groups, and its number in its group: queried once, because this
   compiler loses ids. */
#define PORTBAR_LEADER(grid) ((grid)->item == 0u)
#define PORTBAR_ITEM(grid) ((grid)->item)
</%def>
<%def name="grid_fields()">
    /* The work-item, asked for before the first barrier and kept in memory. */
    volatile uint item;
</%def>
<%def name="enter_first()">
    grid->item = portbar_local_linear_id();
</%def>
