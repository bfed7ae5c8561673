"""The plugins that come with the scheduler."""

from __future__ import annotations

from typing import Final

from member_agent.scheduling.plugins.binpack import Binpack
from member_agent.scheduling.plugins.capacity import Capacity
from member_agent.scheduling.plugins.cdp import Cdp
from member_agent.scheduling.plugins.conformance import Conformance
from member_agent.scheduling.plugins.drf import Drf
from member_agent.scheduling.plugins.gang import Gang
from member_agent.scheduling.plugins.nodegroup import NodeGroup
from member_agent.scheduling.plugins.nodeorder import NodeOrder
from member_agent.scheduling.plugins.overcommit import Overcommit
from member_agent.scheduling.plugins.pdb import Pdb
from member_agent.scheduling.plugins.predicates import Predicates
from member_agent.scheduling.plugins.priority import Priority
from member_agent.scheduling.plugins.proportion import Proportion
from member_agent.scheduling.plugins.protocol import Plugin
from member_agent.scheduling.plugins.resource_strategy_fit import ResourceStrategyFit
from member_agent.scheduling.plugins.resourcequota import ResourceQuota
from member_agent.scheduling.plugins.sla import Sla
from member_agent.scheduling.plugins.task_topology import TaskTopology

PLUGINS: Final[tuple[type[Plugin], ...]] = (
    Priority,
    Gang,
    Conformance,
    Sla,
    Overcommit,
    Drf,
    Predicates,
    Proportion,
    Capacity,
    NodeOrder,
    Binpack,
    Cdp,
    Pdb,
    NodeGroup,
    ResourceStrategyFit,
    TaskTopology,
    ResourceQuota,
)
