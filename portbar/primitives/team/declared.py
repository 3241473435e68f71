"""`portbar/team.h` as the reader of authors' programs sees it.

The work-groups of a team call together; other teams go on. Whether a condition is that of a team only the launch shows, so
what certainly differs within a work-group is misuse, and nothing beyond.
"""

from __future__ import annotations

from typing import Final

from portbar.primitives.reduction.operators import short_form_operators

_REDUCTIONS: Final = "".join(
    f"""\
PORTBAR_CALLED_BY_WORK_GROUP private void *portbar_team_reduce_{operator.name}(
    portbar_grid *grid, portbar_team *team, int evaluated);
#define portbar_team_reduce_{operator.name}(grid, team, x) \\
    (*(private __typeof__((0, (x))) *)portbar_team_reduce_{operator.name}(grid, team, ((void)(x), 0)))
"""
    for operator in short_form_operators()
)

DECLARED: Final = f"""\
#define PORTBAR_TEAM 1
#define PORTBAR_TEAM_SPLITS 4u
typedef struct {{ uint id, teams, rank, members, first, slot, phase, turn; }} portbar_team;
PORTBAR_CALLED_BY_GRID portbar_team portbar_team_split(portbar_grid *grid, uint k);
PORTBAR_CALLED_BY_GRID portbar_team portbar_team_by_colour(portbar_grid *grid, uint colour);
PORTBAR_DIFFERS_WORK_GROUP uint portbar_team_id(const portbar_team *team);
uint portbar_num_teams(const portbar_team *team);
PORTBAR_DIFFERS_WORK_GROUP uint portbar_team_rank(const portbar_team *team);
uint portbar_team_num_groups(const portbar_team *team);
PORTBAR_GLOBAL_ID uint portbar_team_global_id(const portbar_grid *grid, const portbar_team *team);
PORTBAR_SIZE uint portbar_team_global_size(const portbar_team *team);
PORTBAR_CALLED_BY_WORK_GROUP PORTBAR_FALSE_IS_FAILURE bool portbar_team_barrier(portbar_grid *grid, portbar_team *team);
PORTBAR_CALLED_BY_WORK_GROUP PORTBAR_FALSE_AFTER_FAULT uint portbar_team_barrier_count(
    portbar_grid *grid, portbar_team *team, bool vote);
PORTBAR_CALLED_BY_WORK_GROUP PORTBAR_FALSE_AFTER_FAULT bool portbar_team_barrier_any(
    portbar_grid *grid, portbar_team *team, bool vote);
PORTBAR_CALLED_BY_WORK_GROUP PORTBAR_TRUE_AFTER_FAULT bool portbar_team_barrier_all(
    portbar_grid *grid, portbar_team *team, bool vote);
PORTBAR_CALLED_BY_WORK_GROUP private void *portbar_team_broadcast(
    portbar_grid *grid, portbar_team *team, int evaluated, uint rank);
#define portbar_team_broadcast(grid, team, x, rank) \\
    (*(private __typeof__((0, (x))) *)portbar_team_broadcast(grid, team, ((void)(x), 0), rank))
{_REDUCTIONS}"""
