"""One round of scheduling: which groups are let in, which pods get which node, and why the others wait.

The configured actions run one after the other on one session (`session`), asking the configured plugins. Pure; the same
snapshot and configuration give the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import cache
from typing import Final

from member_agent.scheduling import actions
from member_agent.scheduling.configuration import DEFAULT, Configuration, parse
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.plugins.built_in import PLUGINS
from member_agent.scheduling.plugins.registry import Registry
from member_agent.scheduling.plugins.registry import installed as installed_plugins
from member_agent.scheduling.preparing import prepare
from member_agent.scheduling.session import OpenSession
from member_agent.scheduling.snapshot import Snapshot

BUILT_IN: Final = Registry(built_in=PLUGINS, actions=actions.BUILT_IN, own={})
"""Plugins and actions that need no package beside this one."""


Decided = tuple[Plan, Mapping[str, float]]
"""A plan, and what each action took."""


def plan(snapshot: Snapshot, *, configuration: Configuration | None = None, registry: Registry = BUILT_IN) -> Plan:
    """Decide one round; without a configuration by the default one."""
    return decide(OpenSession(snapshot, configuration=configuration or default(), registry=registry), registry=registry)[0]


def decide(session: OpenSession, *, registry: Registry = BUILT_IN, timer: Callable[[], float] = lambda: 0.0) -> Decided:
    """Run the configured actions on a session; the plan, and what each action took by `timer`."""
    steps = deciding(session, registry=registry, timer=timer)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: Decided = done.value
            return found


def deciding(
    session: OpenSession, *, registry: Registry = BUILT_IN, timer: Callable[[], float] = lambda: 0.0
) -> Generator[None, None, Decided]:
    """The same step by step: whoever runs it may do something else between two gangs. The session looks at its snapshot alone,
    whatever happens meanwhile."""
    took: dict[str, float] = {}
    for name in session.configuration.actions:
        begun = timer()
        yield from actions.perform(registry.actions[name], session)
        took[name] = timer() - begun
        if session.cut_short:
            break  # what follows looks at gangs that were tried
    prepared = prepare(session, session.preparing)
    return replace(session.plan(), prepared=prepared), took


def installed() -> Registry:
    """With the plugins and actions of installed packages. Raises what these raise, and TypeError for one that is none."""
    return Registry(built_in=PLUGINS, actions={**actions.BUILT_IN, **actions.installed()}, own=installed_plugins())


@cache
def default() -> Configuration:
    """The configuration that holds where nobody says anything."""
    return parse(DEFAULT, known=BUILT_IN.known)
