"""Which plugins there are: the built-in ones and those that are installed beside them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from machinery.extensions import entry_points
from member_agent.scheduling.configuration import Configuration, Known
from member_agent.scheduling.plugins.protocol import Plugin, Session
from member_agent.scheduling.plugins.tiers import Tiers

GROUP: Final = "volcano_federation.scheduler_plugins"
"""Entry points of this group are plugin classes; the name of the entry point is the name in the configuration."""


class Registry:
    """Plugin classes by name."""

    def __init__(
        self,
        *,
        built_in: Iterable[type[Plugin]],
        actions: Mapping[str, Callable[[Any], Iterator[None] | None]],
        own: Mapping[str, type[Plugin]],
    ) -> None:
        """An own plugin of a built-in name takes its place."""
        self.actions = dict(actions)
        self.plugins: dict[str, type[Plugin]] = {each.name: each for each in built_in} | dict(own)
        self.known = Known(plugins=self.plugins, actions=frozenset(actions))

    def open(self, configuration: Configuration, *, session: Session, timer: Callable[[], float] = lambda: 0.0) -> Tiers:
        """The configured plugins, made for one session; what each took by `timer`."""
        took: dict[str, float] = {}
        made: list[list[Plugin]] = []
        for tier in configuration.tiers:
            made.append([])
            for choice in tier:
                if choice.name in self.plugins:
                    begun = timer()
                    made[-1].append(self.plugins[choice.name](choice.arguments, session=session, hooks=choice.enabled))
                    took[choice.name] = timer() - begun
        return Tiers(made, took=took)


def installed(entries: Iterable[importlib.metadata.EntryPoint] | None = None) -> dict[str, type[Plugin]]:
    """Plugins that are installed. Raises what their modules raise, and TypeError for one that is no plugin."""
    found: dict[str, type[Plugin]] = {}
    for entry in entry_points(GROUP) if entries is None else entries:
        loaded = entry.load()
        if not (isinstance(loaded, type) and issubclass(loaded, Plugin)):
            raise TypeError(f"entry point {entry.name} of {GROUP} is no scheduler plugin: {entry.value}")
        if loaded.name != entry.name:
            raise TypeError(f"entry point {entry.name} of {GROUP} names its plugin {loaded.name!r}: {entry.value}")
        found[entry.name] = loaded
    return found
