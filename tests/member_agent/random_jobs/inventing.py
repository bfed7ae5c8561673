"""Random Jobs: drawn from the schema alone, sensible ones, and sensible ones with parts drawn from the schema or broken."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from apis import keys, kinds
from apis.batch import ACTIONS, EVENTS, PLUGINS
from machinery.errors import FieldCause
from simulator import rules, schemas, structural
from simulator.structural import definitions

Doc = dict[str, Any]
Path = tuple[str | int, ...]

LARGEST = 3
"""Replicas and lengths of lists stay this small; a Job is not more random for being large."""
TEXTS = ("default", "a", "b", "a.b", "0", "x" * 60, "/data", "/mnt/a b")
"""Texts for fields with a pattern; of each pattern some match."""

# --- from the schema -----------------------------------------------------------------------------------------------------


@functools.cache
def job_schema() -> Mapping[str, Any]:
    """The schema of `spec`."""
    version = definitions()[kinds.JOB]["spec"]["versions"][0]
    found: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def from_schema(schema: Mapping[str, Any], *, name: str = "") -> st.SearchStrategy[Any]:
    """Anything that the schema lets through, as far as types, enums, bounds and patterns say."""
    if name == "template":
        return templates()
    if name == "volumeClaim":
        return st.just({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}})
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object":
            return _objects(schema)
        case "array":
            return st.lists(from_schema(schema["items"]), max_size=LARGEST)
        case "integer":
            return st.integers(schema.get("minimum", -2), 2 * LARGEST)
        case "boolean":
            return st.booleans()
    if schema.get("pattern"):
        return st.sampled_from([text for text in TEXTS if re.fullmatch(schema["pattern"], text)])
    return st.sampled_from(("", "a", "b", "5s", "soon", *ACTIONS))


def _objects(schema: Mapping[str, Any]) -> st.SearchStrategy[Doc]:
    if isinstance(schema.get("additionalProperties"), dict):
        names = st.sampled_from((*PLUGINS, "nobody"))
        return st.dictionaries(names, from_schema(schema["additionalProperties"]), max_size=LARGEST)
    parts = {name: from_schema(part, name=name) for name, part in schema.get("properties", {}).items()}
    must = set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {name: parts[name] for name in sorted(must)},
        optional={name: part for name, part in sorted(parts.items()) if name not in must},
    )


# --- sensible ones -------------------------------------------------------------------------------------------------------

COMMANDS = ("true", "sleep 2", "sleep 1; exit 3", "sleep 3 && exit 1", "sleep infinity")
NAMES = ("a", "b", "c")


@functools.cache
def templates() -> st.SearchStrategy[Doc]:
    """Pod templates that a kubelet could run."""

    def container(name: str) -> st.SearchStrategy[Doc]:
        return st.builds(
            lambda command, cpu: {
                "name": name,
                "image": "busybox:1",
                "command": ["sh", "-c", command],
                "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
            },
            st.sampled_from(COMMANDS),
            st.sampled_from(("100m", "1", "64")),
        )

    one, two = (container(name) for name in ("main", "side"))
    spec = st.fixed_dictionaries(
        {
            "containers": st.one_of(st.tuples(one), st.tuples(one, two)).map(list),
            "restartPolicy": st.sampled_from(("Never", "Never", "OnFailure")),
        }
    )
    return st.fixed_dictionaries({"spec": spec}, optional={"metadata": st.just({"labels": {"team": "red"}})})


@functools.cache
def policies() -> st.SearchStrategy[list[Doc]]:
    """Rules of which most mean something."""
    when = st.one_of(
        st.fixed_dictionaries({"event": st.sampled_from(sorted({*EVENTS, "*"}))}),
        st.fixed_dictionaries({"exitCode": st.sampled_from((1, 3))}),
    )
    one = st.builds(
        lambda when, action, timeout: {**when, "action": action, **({"timeout": timeout} if timeout else {})},
        when,
        st.sampled_from(sorted(ACTIONS)),
        st.sampled_from((None, None, "2s", "1m")),
    )
    return st.lists(one, max_size=2)


@functools.cache
def extras(total: int) -> st.SearchStrategy[Doc]:
    """Fields of a Job of so many pods beside queue and tasks."""
    return st.fixed_dictionaries(
        {},
        optional={
            "minAvailable": st.integers(0, total),
            "minSuccess": st.integers(1, max(total, 1)),
            "maxRetry": st.integers(0, LARGEST),
            "ttlSecondsAfterFinished": st.just(100_000),
            "policies": policies(),
            "plugins": st.dictionaries(st.sampled_from(("env", "svc", "ssh", "pytorch")), st.just([]), max_size=2),
            "suspend": st.booleans(),
            "volumes": st.sampled_from(([{"mountPath": "/data", "volumeClaimName": "nowhere"}], [])),
        },
    )


@functools.cache
def tasks(name: str, others: tuple[str, ...]) -> st.SearchStrategy[Doc]:
    """A task that may wait for others."""

    def one(replicas: int) -> st.SearchStrategy[Doc]:
        waits = {"dependsOn": st.just({"name": list(others)})} if others else {}
        return st.fixed_dictionaries(
            {"name": st.just(name), "replicas": st.just(replicas), "template": templates()},
            optional={
                "minAvailable": st.integers(0, replicas),
                "maxRetry": st.integers(0, LARGEST),
                "policies": policies(),
                **waits,
            },
        )

    return st.one_of([one(replicas) for replicas in range(LARGEST + 1)])


@st.composite
def sensible(draw: st.DrawFn) -> Doc:
    """A Job that somebody could mean."""
    names = NAMES[: draw(st.integers(1, LARGEST))]
    found = [draw(tasks(name, names[:index])) for index, name in enumerate(names)]
    spec = {"queue": "default", "tasks": found, **draw(extras(sum(task["replicas"] for task in found)))}
    notes = draw(st.sampled_from(({}, {}, {keys.NO_RETRY: "true"}, {keys.ONLY_BELOW_MINIMUM: "true"})))
    return {**named("random"), "metadata": {**named("random")["metadata"], "annotations": notes}, "spec": spec}


def named(name: str) -> Doc:
    """Type and name of a Job."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, "metadata": metadata}


@functools.cache
def from_schema_alone() -> st.SearchStrategy[Doc]:
    """A Job that means nothing."""
    return from_schema(job_schema()).map(lambda spec: {**named("random"), "spec": spec})


# --- mutated ones --------------------------------------------------------------------------------------------------------


@st.composite
def mutated(draw: st.DrawFn) -> Doc:
    """A sensible Job with one to three parts that are whatever the schema allows in their places, there before or not."""
    found: Doc = copy.deepcopy(draw(sensible()))
    for _ in range(draw(st.integers(1, 3))):
        path, schema = draw(st.sampled_from(list(_allowed(found["spec"], job_schema(), ("spec",)))))
        holder: Any = found
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = draw(from_schema(schema, name=str(path[-1])))
    return found


def _allowed(value: Any, schema: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every place in a value where something is, or may be, and the schema of what may be there; templates are one place."""
    if path[-1] in ("template", "volumeClaim"):
        return
    if isinstance(value, list):
        parts = [(index, each, schema["items"]) for index, each in enumerate(value)]
    elif isinstance(value, dict):
        parts = [(name, value.get(name), part) for name, part in sorted(schema.get("properties", {}).items())]
        parts += [(name, each, schema["additionalProperties"]) for name, each in value.items() if "properties" not in schema]
    else:
        return
    for key, each, part in parts:
        yield (*path, key), part
        yield from _allowed(each, part, (*path, key))


# --- broken ones ---------------------------------------------------------------------------------------------------------

JUNK: tuple[Any, ...] = (None, -1, 0, 10**12, "", "x", "-bad-", "*", True, [], {}, [{}], {"a": {}}, "☃", "a" * 300, 1.5)


@st.composite
def broken(draw: st.DrawFn) -> Doc:
    """A sensible Job with one to three things replaced by junk, taken away or doubled."""
    found: Doc = copy.deepcopy(draw(sensible()))
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(found["spec"], ("spec",)))
        _break(found, path=draw(st.sampled_from(places)), how=draw(st.sampled_from(("junk", "gone", "twice"))), draw=draw)
    return found


def _places(value: Any, path: Path) -> Iterator[Path]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from _places(part, (*path, key))
    if len(path) == 1:
        yield (*path, "surplus")


def _break(found: Doc, *, path: Path, how: str, draw: st.DrawFn) -> None:
    holder: Any = found
    for key in path[:-1]:
        holder = holder[key]
    last: Any = path[-1]
    if how == "gone" and isinstance(holder, dict):
        holder.pop(last, None)
    elif how == "twice" and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[last]))
    else:
        holder[last] = copy.deepcopy(draw(st.sampled_from(JUNK)))


# --- what an API server says ---------------------------------------------------------------------------------------------


def as_served(manifest: Doc) -> Doc | None:
    """The Job as a member's API server stores it; None when schema or CEL refuse it."""
    found = copy.deepcopy(manifest)
    causes: list[FieldCause] = schemas.check_metadata(kinds.JOB, found["metadata"])
    for check in (structural.validators()[kinds.JOB], rules.RULES[kinds.JOB]):
        causes = causes or check(found, None)
    if causes:
        return None
    stamped = {"uid": "uid-random", "resourceVersion": "1", "generation": 1, "creationTimestamp": "2025-12-31T23:59:00Z"}
    return {**found, "metadata": {**found["metadata"], **stamped}}
