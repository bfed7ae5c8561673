"""`fedctl plan`: what would become of the Jobs and flows in a file; nothing of them is made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from apis import kinds
from fedctl import exits
from fedctl.answers import told
from fedctl.flows import OK, REFUSED, Place
from fedctl.relaxations import BadRelaxation, relaxations
from fedctl.reviewing import NoAnswer, Status, ask
from machinery import errors
from machinery.clock import Clock

UNREADABLE: Final = exits.USAGE
NO_ANSWER: Final = exits.NO_ANSWER
"""Exit codes beside those of `flows`: the file or a flag cannot be read; the hub did not answer."""

ASKED: Final = (kinds.JOB, kinds.JOB_FLOW, kinds.CRON_JOB)
OUTPUTS: Final = ("text", "wide", "json", "yaml")


class BadFile(ValueError):
    """A file that cannot be planned; says why."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What is asked about one object of a file."""

    title: str
    manifest: Mapping[str, Any]
    templates: tuple[Mapping[str, Any], ...] = ()


def read(text: str) -> tuple[list[Planned], list[str]]:
    """What a file asks about, and what of it is left out; raises BadFile. A file of templates alone asks about each."""
    try:
        documents = [each for each in yaml.safe_load_all(text) if each is not None]
    except yaml.YAMLError as error:
        raise BadFile(f"it is no YAML: {error}") from error
    if not all(isinstance(each, dict) for each in documents):
        raise BadFile("it holds something that is no object")
    nested = _nested(documents)
    inner = [each for each in documents if _is(each, kinds.JOB_FLOW) and _name(each) in nested]
    templates = (*(each for each in documents if _is(each, kinds.JOB_TEMPLATE)), *inner)
    asked = [each for each in documents if any(_is(each, kind) for kind in ASKED) and each not in inner]
    left = [_title(each) for each in documents if each not in asked and each not in templates]
    if not asked:
        asked = list(templates)
    if not asked:
        raise BadFile(f"there is no {', '.join(kind.kind for kind in ASKED)} or {kinds.JOB_TEMPLATE.kind} in it")
    return [Planned(_title(each), each, templates if _makes_flows(each) else ()) for each in asked], left


def _makes_flows(document: Mapping[str, Any]) -> bool:
    spec = document.get("spec")
    return _is(document, kinds.JOB_FLOW) or (isinstance(spec, dict) and "flowTemplate" in spec)


def _nested(documents: Sequence[Any]) -> set[str]:
    """Names of flows that steps of others are: they are planned as parts of those."""
    found = set()
    for each in documents:
        spec = each.get("spec") if isinstance(each, dict) else None
        steps = spec.get("flows") if isinstance(spec, dict) and _is(each, kinds.JOB_FLOW) else None
        for step in steps if isinstance(steps, list) else ():
            flow = step.get("flow") if isinstance(step, dict) else None
            if isinstance(flow, dict) and flow.get("name"):
                found.add(str(flow["name"]))
    return found


def _name(document: Mapping[str, Any]) -> str:
    meta = document.get("metadata")
    return str(meta.get("name") or "") if isinstance(meta, dict) else ""


def _file(file: Path) -> tuple[list[Planned], list[str]]:
    try:
        return read(file.read_text())
    except (OSError, UnicodeDecodeError, BadFile) as error:
        raise BadFile(f"{file}: {error}") from error


def _is(document: Mapping[str, Any], kind: kinds.Kind) -> bool:
    return (document.get("apiVersion"), document.get("kind")) == (kind.api_version, kind.kind)


def _title(document: Mapping[str, Any]) -> str:
    return f"{document.get('kind', 'object')} {_name(document) or 'without a name'}"


async def plan(place: Place, file: Path, *, relax: Sequence[str], output: str, suggest: bool, clock: Clock) -> int:
    """Ask about everything in the file, one after the other."""
    try:
        asked, left = _file(file)
        changes = relaxations(relax)
    except (BadFile, BadRelaxation) as error:
        place.errors.print(str(error), style="red", markup=False)
        return UNREADABLE
    for title in left:
        place.errors.print(f"{title} is not planned", style="yellow", markup=False)
    answers: list[tuple[str, Status]] = []
    for each in asked:
        spec = {"manifest": each.manifest, "suggest": suggest}
        spec |= {"templates": list(each.templates)} if each.templates else {}
        spec |= {"relax": changes} if changes else {}
        status = await answer(place, spec, clock=clock)
        if isinstance(status, int):
            return status
        answers.append((each.title, status))
    show(place, answers, output=output)
    return REFUSED if any(status.get("outcome") == "Refused" for _, status in answers) else OK


async def answer(place: Place, spec: Mapping[str, Any], *, clock: Clock) -> Status | int:
    """The answer, or the exit code of what went wrong, which is said."""
    try:
        return await ask(place.port, spec, namespace=place.namespace, clock=clock)
    except NoAnswer as error:
        place.errors.print(str(error), style="red", markup=False)
        return NO_ANSWER
    except errors.Invalid as error:
        place.errors.print(error.message, style="red", markup=False)
        return REFUSED


def show(place: Place, answers: Sequence[tuple[str, Status]], *, output: str, there: bool = False) -> None:
    """Print answers as asked for."""
    if output in ("json", "yaml"):
        found = [{"about": title, **status} for title, status in answers]
        value = found[0] if len(found) == 1 else found
        text = json.dumps(value, indent=2) if output == "json" else yaml.safe_dump(value, sort_keys=False)
        place.console.print(text.rstrip(), markup=False, highlight=False, soft_wrap=True)
        return
    for at, (title, status) in enumerate(answers):
        if at:
            place.console.print()
        for part in told(title, status, now=place.now, wide=output == "wide", there=there):
            place.console.print(part, highlight=False)
