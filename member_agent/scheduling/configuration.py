"""The scheduler's configuration in Volcano's format (reference/volcano.md 4.1): text goes in, a frozen value or an error comes
out.

Plugins, actions and arguments of upstream that this scheduler does not have yet are noted and left out; every other unknown
name is an error that names it, because a misspelt name that does nothing would be worse than none. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from member_agent.scheduling.plugins.hooks import FLAGS, OFF, Hook

UPSTREAM_ACTIONS: Final = frozenset(
    {"enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle"}
)
UPSTREAM_PLUGINS: Final = frozenset(
    {
        "gang",
        "priority",
        "conformance",
        "drf",
        "proportion",
        "capacity",
        "overcommit",
        "resourcequota",
        "sla",
        "predicates",
        "nodeorder",
        "binpack",
        "resource-strategy-fit",
        "task-topology",
        "tdm",
        "numa-aware",
        "network-topology-aware",
        "deviceshare",
        "rescheduling",
        "usage",
        "nodegroup",
        "pdb",
        "cdp",
        "extender",
    }
)

UPSTREAM_ARGUMENTS: Final[Mapping[str, frozenset[str]]] = {
    "enqueue": frozenset(),
    "allocate": frozenset({"predicateErrorCacheEnable"}),
    "backfill": frozenset(),
    "preempt": frozenset(
        {
            "predicateErrorCacheEnable",
            "enableTopologyAwarePreemption",
            "topologyAwarePreemptWorkerNum",
            "minCandidateNodesPercentage",
            "minCandidateNodesAbsolute",
            "maxCandidateNodesAbsolute",
        }
    ),
    "reclaim": frozenset({"predicateErrorCacheEnable"}),
    "gangpreempt": frozenset({"maxDomains", "allowWholeBundle"}),
    "gangreclaim": frozenset({"maxDomains", "allowWholeBundle"}),
    "shuffle": frozenset(),
}
"""Arguments of actions."""

_ALL_NODES: Final = "all nodes are looked at in one pass, and no more of them are tried than it takes"
WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "predicateErrorCacheEnable": "what nodes say of a shape is always kept and asked again only where something changed",
    "enableTopologyAwarePreemption": "affinity, spread, ports and volumes are always looked at when room is cleared",
    "topologyAwarePreemptWorkerNum": _ALL_NODES,
    "minCandidateNodesPercentage": _ALL_NODES,
    "minCandidateNodesAbsolute": _ALL_NODES,
    "maxCandidateNodesAbsolute": _ALL_NODES,
}
"""Arguments about how upstream searches, and why they change nothing here: said in a note to whoever sets them."""

DEFAULT: Final = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
"""What holds where nobody says anything: upstream's own default."""


class BadConfiguration(ValueError):
    """A configuration that cannot be used. The message lists every place and what is wrong there."""


class PluginClass(Protocol):
    """What the configuration must know of a plugin."""

    name: str
    arguments: type[BaseModel]
    later: frozenset[str]


@dataclass(frozen=True, slots=True)
class Known:
    """What there is: plugin classes and actions by name."""

    plugins: Mapping[str, type[Any]]
    actions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Choice:
    """A plugin that is wanted: which of its answers count, and its arguments."""

    name: str
    enabled: frozenset[Hook]
    arguments: BaseModel

    def counts(self, hook: Hook) -> bool:
        """Whether its answer to this question counts."""
        return hook in self.enabled


@dataclass(frozen=True, slots=True)
class Configuration:
    """Actions in the order they run, plugins by tier, arguments of actions, and notes on what was left out."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[Choice, ...], ...]
    arguments: Mapping[str, Mapping[str, Any]]
    notes: tuple[str, ...] = ()

    def choice(self, name: str) -> Choice | None:
        """The plugin of this name, if it is wanted."""
        return next((each for tier in self.tiers for each in tier if each.name == name), None)


# --- the text --------------------------------------------------------------------------------------------------------


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Plugin(_Wire):
    model_config = ConfigDict(frozen=True, extra="allow")

    name: str = Field(min_length=1)
    arguments: dict[str, Any] | None = None


class _Tier(_Wire):
    plugins: list[_Plugin] = Field(default_factory=list)


class _Action(_Wire):
    name: str = Field(min_length=1)
    arguments: dict[str, Any] | None = None


class _Text(_Wire):
    actions: str
    tiers: list[_Tier] = Field(default_factory=list)
    configurations: list[_Action] = Field(default_factory=list)
    metrics: dict[str, Any] | None = None


_FLAG: Final = TypeAdapter(bool)


def parse(text: str, *, known: Known) -> Configuration:
    """Read a configuration; raises BadConfiguration naming every place that is wrong."""
    read = _read(text)
    reader = _Reader(known)
    found = Configuration(
        actions=reader.actions(read.actions),
        tiers=tuple(reader.tier(tier, number) for number, tier in enumerate(read.tiers)),
        arguments=reader.action_arguments(read.configurations),
    )
    if read.metrics is not None:
        reader.notes.append("metrics: measured usage is not used by this scheduler yet")
    _together(found, reader.problems)
    if reader.problems:
        raise BadConfiguration("; ".join(reader.problems))
    return Configuration(found.actions, found.tiers, found.arguments, tuple(reader.notes))


LONGEST: Final = 1 << 16
"""Characters of a configuration; a real one has a few thousand."""
BRACKETS: Final = 1000
"""Opening brackets of a configuration: the parser takes seconds over thousands that are nested."""


def _read(text: str) -> _Text:
    if len(text) > LONGEST:
        raise BadConfiguration(f"the text: {len(text)} characters are more than {LONGEST}")
    brackets = text.count("[") + text.count("{")
    if brackets > BRACKETS:
        raise BadConfiguration(f"the text: {brackets} brackets are more than {BRACKETS}")
    try:
        # RecursionError: a text may be nested deeper than the parser's stack; ValueError: dates and numbers that are none.
        return _Text.model_validate(yaml.safe_load(text))
    except ValidationError as error:
        raise BadConfiguration("; ".join(_places(error))) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadConfiguration(f"no YAML: {' '.join(str(error).split())}") from error


def _places(error: ValidationError, *, under: str = "") -> Iterator[str]:
    """Every complaint as `tiers[0].plugins[1].name: what is wrong`."""
    for each in error.errors(include_url=False, include_context=False):
        path = under
        for step in each["loc"]:
            path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
        yield f"{path or 'the text'}: {each['msg'][:1].lower()}{each['msg'][1:]}"


class _Reader:
    """Judges what was read; collects problems and notes."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self.problems: list[str] = []
        self.notes: list[str] = []

    def actions(self, text: str) -> tuple[str, ...]:
        """Actions that are there, in order."""
        names = [name.strip() for name in text.split(",") if name.strip()]
        if not names:
            self.problems.append("actions: names no action")
        for name in _repeated(names):
            self.problems.append(f"actions: {name} stands there twice")
        return tuple(name for name in names if self._there(name, where="actions", of="action"))

    def tier(self, tier: _Tier, number: int) -> tuple[Choice, ...]:
        """The plugins of a tier that are there."""
        choices = (self._choice(each, f"tiers[{number}].plugins[{index}]") for index, each in enumerate(tier.plugins))
        return tuple(choice for choice in choices if choice is not None)

    def action_arguments(self, listed: Iterable[_Action]) -> Mapping[str, Mapping[str, Any]]:
        """Arguments by action."""
        found: dict[str, Mapping[str, Any]] = {}
        for index, each in enumerate(listed):
            where = f"configurations[{index}]"
            if not self._there(each.name, where=f"{where}.name", of="action"):
                continue
            if each.name in found:
                self.problems.append(f"{where}.name: {each.name} stands there twice")
            # An own action says itself, when it runs, what it makes of its arguments.
            allowed = UPSTREAM_ARGUMENTS.get(each.name, (each.arguments or {}).keys())
            for name in sorted((each.arguments or {}).keys() - allowed):
                self.problems.append(f"{where}.arguments.{name}: action {each.name} has no such argument")
            for name in sorted((each.arguments or {}).keys() & allowed & WITHOUT_EFFECT.keys()):
                self.notes.append(f"{where}.arguments.{name}: changes nothing here: {WITHOUT_EFFECT[name]}")
            found[each.name] = dict(each.arguments or {})
        return found

    def _there(self, name: str, *, where: str, of: str) -> bool:
        there, upstream = {
            "action": (self._known.actions, UPSTREAM_ACTIONS),
            "plugin": (self._known.plugins.keys(), UPSTREAM_PLUGINS),
        }[of]
        if name in there:
            return True
        if name in upstream:
            self.notes.append(f"{where}: {of} {name} is not there yet and is left out")
        else:
            self.problems.append(f"{where}: there is no {of} {name}; known are {', '.join(sorted(there))}")
        return False

    def _choice(self, plugin: _Plugin, where: str) -> Choice | None:
        enabled = self._flags(plugin.model_extra or {}, where)
        if not self._there(plugin.name, where=f"{where}.name", of="plugin"):
            return None
        made: type[PluginClass] = self._known.plugins[plugin.name]
        given = dict(plugin.arguments or {})
        for name in sorted(given.keys() & made.later):
            del given[name]
            self.notes.append(f"{where}.arguments.{name}: plugin {plugin.name} does not do this yet")
        try:
            return Choice(plugin.name, enabled, made.arguments.model_validate(given))
        except ValidationError as error:
            self.problems += [f"{each} (plugin {plugin.name})" for each in _places(error, under=f"{where}.arguments")]
            return None

    def _flags(self, given: Mapping[str, Any], where: str) -> frozenset[Hook]:
        enabled = set(Hook) - OFF
        for name, value in given.items():
            hook = FLAGS.get(name)
            if hook is None:
                self.problems.append(f"{where}.{name}: there is no such flag")
                continue
            try:
                (enabled.add if _FLAG.validate_python(value) else enabled.discard)(hook)
            except ValidationError:
                self.problems.append(f"{where}.{name}: {value!r} is neither true nor false")
        return frozenset(enabled)


def _repeated(names: Iterable[str]) -> list[str]:
    listed = list(names)
    return sorted({name for name in listed if listed.count(name) > 1})


def _together(found: Configuration, problems: list[str]) -> None:
    """Rules about several plugins at once."""
    names = [choice.name for tier in found.tiers for choice in tier]
    for name in _repeated(names):
        problems.append(f"tiers: plugin {name} stands there twice")
    drf = found.choice("drf")
    if drf is not None and drf.counts(Hook.HIERARCHY) and "proportion" in names:
        problems.append("tiers: plugins proportion and drf with enableHierarchy both decide the shares of queues; take one")
