## -*- coding: utf-8 -*-
## One small kernel for each language level and feature: out[0] is 3 before it and must be 7 after it. Run by one work-item.
<%def name="language_level()">
/* Nothing but the language level asked for by -cl-std. */
kernel void portbar_probe_feature(global uint *out)
{
    out[0] += 4u;
}
</%def>
<%def name="fp64()">
/* Double precision. */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
kernel void portbar_probe_feature(global uint *out)
{
    out[0] = (uint)((double)out[0] * 2.5 - 0.5);
}
</%def>
<%def name="fp16()">
/* Half precision arithmetic, not only its storage. */
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
kernel void portbar_probe_feature(global uint *out)
{
    out[0] = (uint)((half)out[0] * (half)2.5f - (half)0.5f);
}
</%def>
<%def name="int64_atomics()">
/* 64-bit atomics of OpenCL 1.x: the base set and the extended one. The word after out[0] is 0. */
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
kernel void portbar_probe_feature(global uint *out)
{
    volatile global ulong *p = (volatile global ulong *)out;
    atom_add(p, (ulong)2);
    atom_max(p, (ulong)7);
}
</%def>
<%def name="sub_groups()">
/* A sub-group built-in that moves data between work-items. */
#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif
kernel void portbar_probe_feature(global uint *out)
{
    out[0] = sub_group_reduce_add(out[0]) + 4u;
}
</%def>
<%def name="work_group_collectives()">
/* A work-group built-in that moves data between work-items. */
kernel void portbar_probe_feature(global uint *out)
{
    out[0] = work_group_reduce_add(out[0]) + 4u;
}
</%def>
<%def name="generic_address_space()">
/* One function for pointers to global and to local memory. */
static uint portbar_probe_read(const uint *p)
{
    return *p;
}

kernel void portbar_probe_feature(global uint *out)
{
    local uint four;
    four = 4u;
    out[0] = portbar_probe_read(out) + portbar_probe_read(&four);
}
</%def>
<%def name="program_scope_variables()">
/* A variable that outlives the kernel. */
global uint portbar_probe_variable = 4u;

kernel void portbar_probe_feature(global uint *out)
{
    out[0] += portbar_probe_variable;
}
</%def>
<%def name="float_atomics()">
/* A native atomic addition of floats. The word after out[0] is 0. */
kernel void portbar_probe_feature(global uint *out)
{
    atomic_fetch_add_explicit((volatile global atomic_float *)(out + 1), 4.0f, memory_order_relaxed, memory_scope_device);
    out[0] += (uint)as_float(out[1]);
}
</%def>
<%def name="float_atomics_local()">
/* The same in local memory. */
kernel void portbar_probe_feature(global uint *out)
{
    local float sum;
    sum = 1.0f;
    atomic_fetch_add_explicit((volatile local atomic_float *)&sum, 3.0f, memory_order_relaxed, memory_scope_work_group);
    out[0] += (uint)sum;
}
</%def>
<%def name="double_atomics()">
/* A native atomic addition of doubles. The two words after out[1] are 0. */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
kernel void portbar_probe_feature(global uint *out)
{
    atomic_fetch_add_explicit((volatile global atomic_double *)(out + 2), 4.0, memory_order_relaxed, memory_scope_device);
    out[0] += (uint)*(global double *)(out + 2);
}
</%def>
<%def name="double_atomics_local()">
/* The same in local memory. */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
kernel void portbar_probe_feature(global uint *out)
{
    local double sum;
    sum = 1.0;
    atomic_fetch_add_explicit((volatile local atomic_double *)&sum, 3.0, memory_order_relaxed, memory_scope_work_group);
    out[0] += (uint)sum;
}
</%def>
<%def name="printf()">
/* Output from a kernel; this one has nothing to say. */
kernel void portbar_probe_feature(global uint *out)
{
    if (out[0] != 3u)
        printf("portbar: %u\n", out[0]);
    out[0] += 4u;
}
</%def>
<%def name="mbarrier()">
/* NVIDIA's barrier objects in local memory (sm_80), by one work-item. */
kernel void portbar_probe_feature(global uint *out)
{
    local ulong object;
    const uint expected = 1u;
    ulong token;
    uint complete;
    __asm__ volatile("mbarrier.init.shared.b64 [%0], %1;" :: "l"(&object), "r"(expected) : "memory");
    __asm__ volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "l"(&object) : "memory");
    __asm__ volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait.shared.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(complete) : "l"(&object), "l"(token) : "memory");
    out[0] += 4u * complete;
}
</%def>
<%def name="one_way_fences()">
/* Fences that only acquire or only release (PTX 8.6, sm_90). */
kernel void portbar_probe_feature(global uint *out)
{
    uint v;
    __asm__ volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(out + 1) : "memory");
    __asm__ volatile("fence.acquire.gpu;" ::: "memory");
    out[0] += 4u + (v & 0u);
    __asm__ volatile("fence.release.gpu;" ::: "memory");
    __asm__ volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(out + 1), "r"(v) : "memory");
}
</%def>
<%def name="pause()">
/* The pause of the host's processor, by which a spinning thread leaves its core's resources to the other one. */
kernel void portbar_probe_feature(global uint *out)
{
    local uint seen[64];
    seen[get_local_id(0)] = 1u;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        portbar_relax(1u);
        out[0] += 4u * seen[63];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
</%def>
<%def name="asm_anywhere()">
/* The same instructions in a kernel without barriers, in a loop that work-items leave at different times, which is another
   case of the effect ASSEMBLY_APART. */
kernel void portbar_probe_feature(global uint *out)
{
    for (uint round = 0; round < 64u + (uint)get_local_id(0); ++round) {
        portbar_relax(1u);
        portbar_yield(round);
    }
    if (get_local_id(0) == 0)
        out[0] += 4u;
}
</%def>
<%def name="yield_processor()">
/* portbar_yield, over rounds of which some do yield. */
kernel void portbar_probe_feature(global uint *out)
{
    local uint seen[64];
    seen[get_local_id(0)] = 1u;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        for (uint round = 0; round < 256u; ++round)
            portbar_yield(round);
        out[0] += 4u * seen[63];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
</%def>
