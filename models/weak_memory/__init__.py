"""A search for executions in which portbar's protocols break their promises, under OpenCL's and PTX's memory models.

Method. The text that a program would compile is rendered for a backend, and clang reads it (`programs`, `llvm`). Each
work-group's work-items run it over symbolic values (`execute`), which gives all events that can be: reads, writes,
read-modify-writes and fences with their orders and scopes, work-groups' barriers with their flags, and marks where
the kernel accesses plain data. The models' axioms (`axioms`) and the negation of the promise go to a solver: where it
finds values, these are an execution that breaks the promise, described in words (`check`); otherwise the promise holds for this
number of groups and rounds. The axioms are first compared with published verdicts (`litmus`). Then
each order, fence, flag and scope of the text is taken away, one call at a time: either an execution shows its purpose, or
`report.REASONS` says why it is kept.

    python -m models.weak_memory            # what CI checks: three minutes on two processors
    python -m models.weak_memory --nightly  # all backends, and scopes, too: an hour or two

Assumptions.

- Polls end with a read that succeeds, the first one: those that fail could only order more. A
  group that reports a fault ends; no limit is reached. For local memory alone, waits that give up are run as well.
- 2 work-items in a group: the leader and one other. 2 or 3 groups, 2 barriers. A tree's nodes take 2 groups.
- Of look-back, reductions over a grid and the placing of counters, plain accesses of global memory are events as well: of
  each word, what is written comes before what reads it, and after what was read before. Tiles go to groups by their numbers,
  as a ticket orders nothing.
- Discovery is replaced by its result in the barriers' programs, and checked by itself.
- OpenCL 1.2 has no model: its atomics are taken for relaxed, and write_mem_fence, mem_fence and read_mem_fence
  together for one fence of both orders at device scope, as litmus tests on the device must have shown. Before sm_70,
  `membar.gl` is taken for fence.acq_rel, which promises less than NVIDIA's fence.sc, and plain `atom` for relaxed.
- Values do not come out of thin air. Compilers keep the order of what the text orders.

Limits: a poll word that no launch prepared, and the state after a limit was reached, are not checked here. No
proof for more groups or rounds; forward progress is not looked at (`models.spin` does); words do not wrap.
"""
