## -*- coding: utf-8 -*-
## What a header owns: its name, statuses and areas of the state; portbar/primitives/layout.py says where these lie.
<%def name="owned()">
${feature(f"PORTBAR_{header}")}

% if statuses:
${group()}
/* Statuses in a launch's report. */
% for name, status in statuses:
${defines(f"PORTBAR_STATUS_{name}")}
#define PORTBAR_STATUS_${name} ${status}u
% endfor
${end()}

% endif
% if areas:
${group()}
/* First words of areas of a hidden state, by its capacity. */
% for name, first in areas:
${defines(f"PORTBAR_STATE_{name}")}
#define PORTBAR_STATE_${name}(capacity) (${first})
% endfor
${end()}

% endif
</%def>
