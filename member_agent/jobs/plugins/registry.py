"""Which plugins there are, which a Job asks for, and what is wrong with how it asks."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from apis.batch import PLUGIN_ENTRY_POINTS
from machinery.extensions import entry_points
from member_agent.jobs.facts import facts_without_view
from member_agent.jobs.plugins.arguments import BadArgument
from member_agent.jobs.plugins.env import Env
from member_agent.jobs.plugins.hcclrank import HcclRank
from member_agent.jobs.plugins.mpi import Mpi
from member_agent.jobs.plugins.protocol import Plugin
from member_agent.jobs.plugins.pytorch import Pytorch
from member_agent.jobs.plugins.ray import Ray
from member_agent.jobs.plugins.ssh import Ssh
from member_agent.jobs.plugins.svc import Svc
from member_agent.jobs.plugins.tensorflow import Tensorflow

GROUP: Final = PLUGIN_ENTRY_POINTS
"""Entry points of this group are plugin classes; the name of the entry point is the name in `spec.plugins`."""

ORDERED: Final[tuple[type[Plugin], ...]] = (Svc, Ssh, Env, Tensorflow, Pytorch, Mpi, Ray, HcclRank)
"""The order in which they are applied, whatever the manifest's: a rank is there before it is copied."""


class Registry:
    """Plugin classes by name, in the order of their application."""

    def __init__(self, own: Mapping[str, type[Plugin]] | None = None) -> None:
        """`own` are applied after the built-in ones, by name; one of a built-in name takes its place."""
        extra = dict(sorted((own or {}).items()))
        self.known: dict[str, type[Plugin]] = {each.name: extra.pop(each.name, each) for each in ORDERED} | extra

    @classmethod
    def installed(cls, entries: Iterable[importlib.metadata.EntryPoint] | None = None) -> Registry:
        """With the plugins that are installed. Raises what their modules raise, and TypeError for one that is no plugin."""
        found: dict[str, type[Plugin]] = {}
        for entry in entry_points(GROUP) if entries is None else entries:
            loaded = entry.load()
            if not (isinstance(loaded, type) and issubclass(loaded, Plugin)):
                raise TypeError(f"entry point {entry.name} of {GROUP} is no job plugin: {entry.value}")
            if loaded.name != entry.name:
                raise TypeError(f"entry point {entry.name} of {GROUP} names its plugin {loaded.name!r}: {entry.value}")
            found[entry.name] = loaded
        return cls(found)

    def chosen(self, manifest: Mapping[str, Any]) -> tuple[Plugin, ...]:
        """The plugins of a Job and those they need, in order of application. Raises BadArgument."""
        asked = self._asked(manifest)
        unknown = sorted(asked.keys() - self.known.keys())
        if unknown:
            raise self._unknown(unknown[0])
        return tuple(plugin(asked[name]) for name, plugin in self.known.items() if name in asked)

    def problems(self, manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Field and message of everything that is wrong with `spec.plugins`; empty when all of them can work."""
        given = (manifest.get("spec") or {}).get("plugins") or {}
        asked = self._asked(manifest)
        facts = facts_without_view(manifest)
        found: list[tuple[str, str]] = []
        for name in sorted(asked):
            field = f"spec.plugins.{name}" if name in given else "spec.plugins"
            try:
                plugin = self._made(name, asked[name])
            except BadArgument as error:
                found.append((field, str(error)))
            else:
                found += [(field, f"plugin {name}: {text}") for text in plugin.problems(facts)]
        return found

    def _made(self, name: str, arguments: list[str]) -> Plugin:
        if name not in self.known:
            raise self._unknown(name)
        return self.known[name](arguments)

    def _unknown(self, name: str) -> BadArgument:
        return BadArgument(f"unable to find job plugin, want one of {', '.join(self.known)}", plugin=name)

    def _asked(self, manifest: Mapping[str, Any]) -> dict[str, list[str]]:
        """Arguments by plugin, with what the named ones need: admission adds it too, where it was there."""
        given = (manifest.get("spec") or {}).get("plugins") or {}
        asked = {name: list(arguments or []) for name, arguments in given.items()}
        for name in self._closure(list(asked)):
            asked.setdefault(name, [])
        return asked

    def _closure(self, names: list[str]) -> Iterator[str]:
        seen = set(names)
        while names:
            plugin = self.known.get(names.pop())
            for needed in plugin.needs if plugin else ():
                if needed not in seen:
                    seen.add(needed)
                    names.append(needed)
                    yield needed


BUILT_IN: Final = Registry()


def problems(manifest: Mapping[str, Any], *, registry: Registry = BUILT_IN) -> list[tuple[str, str]]:
    """What is wrong with `spec.plugins` of a Job: field and message."""
    return registry.problems(manifest)
