## -*- coding: utf-8 -*-
## Words of 32 bits in global memory at device scope, each of one fixed order; the backend says how.
<%namespace name="own" file="${context['backend']}"/>\
<%def name="words()">
${group()}
/* Atomics on a word, device scope: relaxed, or of the order that the name ends with; `or` releases, `add`, `exchange`
   and `compare_exchange` acquire and release. Loads and read-modify-writes return the value that they found. */
% for name, (op, order) in atomic_words.items():
${defines(f"portbar_word_{name}")}
static inline ${"void" if op == "store" else "uint"} portbar_word_${name}(volatile global uint *p<%
    more = {"load": "", "compare_exchange": ", uint expected, uint desired"}.get(op, ", uint v")
%>${more})
{
${own.operation(op, "uint", "global", order)}\
}
% endfor
${end()}
</%def>
