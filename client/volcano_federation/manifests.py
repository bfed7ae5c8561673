"""From what a caller gives - a Job in a few words, YAML, a file, dicts - to documents, and which of them is meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from volcano_federation.errors import BadManifest
from volcano_federation.nouns import CRON, FLOW, JOB, TEMPLATE, Doc, Job, Kind

Manifest = Job | Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | Path
"""A Job in a few words, an object, several, YAML text, or a file of YAML."""

_PLANNED: Final = (JOB, FLOW, CRON)


def documents(manifest: Manifest) -> list[Doc]:
    """Every object of it; a List is opened. BadManifest says which document is none, and why."""
    if isinstance(manifest, Job):
        return [manifest.manifest()]
    about, found = "the manifest", _raw(manifest)
    if isinstance(manifest, Path):
        about = str(manifest)
    listed = [each for number, one in enumerate(found, 1) for each in _objects(one, about=f"{about}, document {number}")]
    if not listed:
        raise BadManifest("nothing is in it", about=about)
    return listed


def _raw(manifest: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | Path) -> list[object]:
    if isinstance(manifest, Mapping):
        return [manifest]
    if not isinstance(manifest, str | Path):
        return list(manifest)
    about = str(manifest) if isinstance(manifest, Path) else "the manifest"
    try:
        text = manifest.read_text() if isinstance(manifest, Path) else manifest
        return [each for each in yaml.safe_load_all(text) if each is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadManifest(f"it cannot be read: {' '.join(str(error).split())}", about=about) from error


def _objects(found: object, *, about: str) -> Iterator[Doc]:
    if not isinstance(found, Mapping) or not isinstance(found.get("kind"), str) or not isinstance(found.get("apiVersion"), str):
        raise BadManifest("it is no object: apiVersion and kind are missing", about=about)
    if found["kind"] == "List":
        for number, each in enumerate(found.get("items") or (), 1):
            yield from _objects(each, about=f"{about}, item {number}")
        return
    meta = found.get("metadata")
    if not isinstance(meta, Mapping) or not (meta.get("name") or meta.get("generateName")):
        raise BadManifest("metadata.name is missing", about=about)
    yield dict(found)


def name_of(document: Mapping[str, Any]) -> str:
    """Its name, or what its name is made from."""
    return str(document["metadata"].get("name") or document["metadata"].get("generateName"))


def is_a(document: Mapping[str, Any], kind: Kind) -> bool:
    """Whether it is of this kind."""
    return (document["apiVersion"], document["kind"]) == (kind.api_version, kind.kind)


def main(found: Sequence[Doc]) -> int:
    """Where among the documents the one workload is that they are about: the JobFlow that is no step of another, or the Job.
    BadManifest when there is none, or more than one."""
    steps = _steps(found)
    flows = [at for at, each in enumerate(found) if is_a(each, FLOW) and name_of(each) not in steps]
    chosen = flows or [at for at, each in enumerate(found) if is_a(each, JOB)]
    if len(chosen) != 1:
        names = ", ".join(f"{found[at]['kind']} {name_of(found[at])}" for at in chosen)
        raise BadManifest(
            f"it holds {len(chosen)} Jobs or flows ({names}), and this takes one; see submit_all"
            if chosen
            else "it holds no Job and no JobFlow",
            about="the manifest",
        )
    return chosen[0]


@dataclass(frozen=True, slots=True)
class Question:
    """What can be planned: an object, and the templates and nested flows that it uses."""

    document: Doc
    templates: tuple[Doc, ...]


def question(found: Sequence[Doc]) -> Question:
    """The one thing that is asked about. BadManifest when there is none, or more than one."""
    steps = _steps(found)
    nested = [each for each in found if is_a(each, FLOW) and name_of(each) in steps]
    templates = (*(each for each in found if is_a(each, TEMPLATE)), *nested)
    asked = [each for each in found if any(is_a(each, kind) for kind in _PLANNED) and each not in nested]
    asked = asked or [each for each in templates if is_a(each, TEMPLATE)]
    if len(asked) != 1:
        raise BadManifest(
            f"one Job, JobFlow, CronJob or JobTemplate is planned at a time, not {len(asked)}", about="the manifest"
        )
    makes_flows = is_a(asked[0], FLOW) or "flowTemplate" in (asked[0].get("spec") or {})
    return Question(asked[0], templates if makes_flows else ())


def _steps(found: Sequence[Doc]) -> set[str]:
    """Names of flows that are steps of others."""
    steps = [step for each in found if is_a(each, FLOW) for step in (each.get("spec") or {}).get("flows") or ()]
    nested = [step.get("flow") for step in steps if isinstance(step, Mapping)]
    return {str(flow["name"]) for flow in nested if isinstance(flow, Mapping) and flow.get("name")}
