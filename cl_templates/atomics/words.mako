## -*- coding: utf-8 -*-
## Words of 32 bits in global memory at device scope, each of one fixed order; the backend says how.
<%namespace name="own" file="${context['backend']}"/>\
<%def name="word(name, op, order)">\
static inline ${"void" if op == "store" else "uint"} portbar_word_${name}(volatile global uint *p<%
    more = {"load": "", "compare_exchange": ", uint expected, uint desired"}.get(op, ", uint v")
%>${more})
{
${own.operation(op, "uint", "global", order)}\
}
</%def>
<%def name="word_load()">
/* Relaxed load, device scope. */
${word("load", "load", "relaxed")}
</%def>
<%def name="word_load_acquire()">
/* Acquire load, device scope: writes that the releasing work-item saw before its release are visible afterwards. */
${word("load_acquire", "load", "acquire")}
</%def>
<%def name="word_store()">
/* Relaxed store, device scope. */
${word("store", "store", "relaxed")}
</%def>
<%def name="word_store_release()">
/* Release store, device scope. */
${word("store_release", "store", "release")}
</%def>
<%def name="word_add()">
/* Acquire-release fetch-and-add, device scope; returns the old value. */
${word("add", "add", "acq_rel")}
</%def>
<%def name="word_add_release()">
/* Release fetch-and-add, device scope; returns the old value. The caller acquires before it relies on it. */
${word("add_release", "add", "release")}
</%def>
<%def name="word_add_relaxed()">
/* Relaxed fetch-and-add, device scope; returns the old value. */
${word("add_relaxed", "add", "relaxed")}
</%def>
<%def name="word_or()">
/* Release fetch-and-or, device scope; returns the old value. */
${word("or", "or", "release")}
</%def>
<%def name="word_exchange()">
/* Acquire-release exchange, device scope; returns the old value. */
${word("exchange", "exchange", "acq_rel")}
</%def>
<%def name="word_compare_exchange()">
/* Acquire-release compare-and-exchange, device scope; returns the value found, equal to `expected` on success. */
${word("compare_exchange", "compare_exchange", "acq_rel")}
</%def>
