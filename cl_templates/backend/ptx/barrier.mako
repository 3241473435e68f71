## -*- coding: utf-8 -*-
## What barriers between work-groups need of NVIDIA's GPUs beside words.
<%def name="local_pointer()">
/* The same pointer, in a register. Written as a variable's name, each access would ask anew where the work-group's local memory
   begins, which takes as long as the access. */
static inline local uint *portbar_local_pointer(local uint *p)
{
    ulong address = (ulong)p;
    __asm__ volatile("mov.u64 %0, %0;" : "+l"(address));
    return (local uint *)address;
}
</%def>
