"""Job plugins (reference/volcano.md 1.9): what `spec.plugins` adds to a Job's pods, and the objects beside them.

A plugin is pure: made from its argument strings, it changes drafts of pods and names objects; it reads no clock, sees no
client and draws no random number (keys come from a KeyMaker). Indices, ranks and host lists are those of the whole run over
all its clusters. Own plugins are installed as entry points of the group `volcano_federation.job_plugins`.
"""

from __future__ import annotations

from member_agent.jobs.plugins.arguments import BadArgument, flag, read
from member_agent.jobs.plugins.draft import Draft
from member_agent.jobs.plugins.protocol import Child, KeyMaker, KeyPair, Plugin
from member_agent.jobs.plugins.registry import BUILT_IN, GROUP, Registry, problems

__all__ = [
    "BUILT_IN",
    "BadArgument",
    "Child",
    "Draft",
    "GROUP",
    "KeyMaker",
    "KeyPair",
    "Plugin",
    "Registry",
    "flag",
    "problems",
    "read",
]
