"""The checks of debug builds as the reader of programs sees them."""

from __future__ import annotations

from typing import Final

DECLARED: Final = """\
typedef struct { uint words; } portbar_agreement;
#define PORTBAR_AGREEMENT_PARAM volatile global uint *portbar_agreement_param, const uint4 portbar_agreement_launch
PORTBAR_CALLED_BY_WORK_GROUP void portbar_agreement_begin(private portbar_agreement *here);
bool portbar_goes_on(private portbar_agreement *here);
PORTBAR_CALLED_BY_WORK_GROUP bool portbar_agreed_by_work_group(
    private portbar_agreement *here, bool value, uint condition, bool otherwise);
PORTBAR_CALLED_BY_WORK_GROUP ulong portbar_value_agreed_by_work_group(
    private portbar_agreement *here, ulong value, uint condition);
#define PORTBAR_AGREEMENT_OF_KERNEL private portbar_agreement portbar_here[1]; portbar_agreement_begin(portbar_here)
#define PORTBAR_AGREEMENT_OF_GANGS PORTBAR_AGREEMENT_OF_KERNEL
"""
GRID_DECLARED: Final = """\
PORTBAR_CALLED_BY_GRID bool portbar_agreed_by_grid(
    private portbar_agreement *here, bool value, uint condition, bool otherwise);
PORTBAR_CALLED_BY_GRID ulong portbar_value_agreed_by_grid(private portbar_agreement *here, ulong value, uint condition);
#define PORTBAR_AGREEMENT_OF_GRID(grid) PORTBAR_AGREEMENT_OF_KERNEL
"""
