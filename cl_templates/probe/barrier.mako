## -*- coding: utf-8 -*-
## Whether what any work-item wrote before a device barrier is seen by every other one after it.
<%def name="barrier()">
/* Each round every work-item writes a plain word of global memory and one of local memory, meets all others, and checks what
   work-items of the next group, of the opposite group and of its own group wrote. A second barrier keeps the next round's writes
   away from this round's checks. `data`: a word per work-item. report[2 i]: rounds whose barriers held for work-item i; then
   those of them in which it read stale data. The barrier is not under a condition: some compilers abort on that. */
kernel void portbar_probe_barrier(PORTBAR_GRID_PARAM, global uint *data, global uint *report, uint rounds, uint seed)
{
    local uint mirror[${local_size}];
    PORTBAR_ENTER(grid);
    const uint id = portbar_global_id(&grid), size = portbar_global_size(&grid);
    const uint own = (uint)get_local_id(0), group = portbar_group_id(&grid), groups = portbar_num_groups(&grid);
    const uint other = own ^ 21u;
    const uint next = (group + 1u) % groups * ${local_size}u + other;
    const uint opposite = (groups - 1u - group) * ${local_size}u + own;
    const uint within = group * ${local_size}u + other;
    uint held = 0u, stale = 0u;
    for (uint round = 0; round < rounds; ++round) {
        const uint stamp = seed + round * size;
        data[id] = stamp + id;
        mirror[own] = stamp - own;
        const bool arrived = portbar_device_barrier(&grid);
        const uint wrong = (data[next] ^ (stamp + next)) | (data[opposite] ^ (stamp + opposite))
            | (data[within] ^ (stamp + within)) | (mirror[other] ^ (stamp - other));
        const bool left = portbar_device_barrier(&grid);
        held += arrived && left ? 1u : 0u;
        stale += arrived && left && wrong != 0u ? 1u : 0u;
    }
    report[2u * id] = held;
    report[2u * id + 1u] = stale;
}
</%def>
