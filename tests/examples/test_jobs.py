"""Every manifest under examples/jobs is taken by the API server and by the rules, is listed, and is run end to end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis import kinds
from apis.batch import Job
from apis.cron import CronJob
from controllers.admission import validate_job
from controllers.admission.defaults import default_job
from machinery.clock import Chance, Ids
from simulator.api import ApiServer, MemoryPort
from simulator.loop import SimClock, run_virtual

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "jobs"
FILES = sorted(FOLDER.glob("*.yaml"))
KINDS = {(kind.api_version, kind.kind): kind for kind in vars(kinds).values() if isinstance(kind, kinds.Kind)}

Doc = dict[str, Any]


def documents(path: Path) -> list[Doc]:
    return list(yaml.safe_load_all(path.read_text()))


def jobs(path: Path) -> list[Job]:
    """The Jobs of a file, those that a CronJob would make included."""
    found = [Job.read(json.dumps(doc)) for doc in documents(path) if KINDS[doc["apiVersion"], doc["kind"]] == kinds.JOB]
    for doc in documents(path):
        if doc["kind"] == "CronJob":
            made = CronJob.read(json.dumps(doc)).spec.job_template
            if made is None:
                continue  # it makes flows
            template = made.spec
            assert template is not None
            found.append(Job.of(doc["metadata"]["name"], spec=template.to_json()))
    return found


def kept(given: Any, served: Any) -> bool:
    """Whether everything that was written is served; the server may have added defaults."""
    if isinstance(given, Mapping):
        return isinstance(served, Mapping) and all(kept(value, served.get(key)) for key, value in given.items())
    if isinstance(given, list):
        return len(given) == len(served) and all(kept(*pair) for pair in zip(given, served, strict=True))
    return bool(given == served)


def test_there_is_an_example_of_every_feature() -> None:
    assert len(FILES) >= 60


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_api_server_takes_it_as_it_is_written(path: Path) -> None:
    served: list[tuple[Doc, Doc]] = []

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        port = MemoryPort(ApiServer(clock, ids=ids, chance=chance))
        await port.create(kinds.NAMESPACE, {"metadata": {"name": "examples"}})
        for doc in documents(path):
            kind = KINDS[doc["apiVersion"], doc["kind"]]
            made = await port.create(kind, doc, namespace="examples" if kind.namespaced else None)
            served.append((doc, json.loads(made)))
        await port.close()

    run_virtual(main, seed=1)
    assert served
    for given, made in served:
        assert kept(given, made), given["metadata"]["name"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_rules_find_no_fault(path: Path) -> None:
    for job in jobs(path):
        assert validate_job(job) == []
        assert validate_job(default_job(job)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_says_what_it_shows_and_is_called_what_it_makes(path: Path) -> None:
    comment = re.match(r"(?:# .+\n)+", path.read_text())
    assert comment is not None
    assert re.match(r"# [A-Z]", comment[0])
    assert comment[0].endswith(".\n")
    names = [doc["metadata"]["name"] for doc in documents(path)]
    assert path.stem in names or path.stem.startswith("command-")
    assert not [doc for doc in documents(path) if "namespace" in doc["metadata"]]


def test_the_list_names_every_file_once() -> None:
    listed = re.findall(r"^\| \[([\w-]+\.yaml)\]\(\1\) \|", (FOLDER / "README.md").read_text(), flags=re.MULTILINE)
    assert listed == sorted(listed)
    assert listed == [path.name for path in FILES]


def test_every_file_is_run_end_to_end() -> None:
    told = "".join(path.read_text() for path in sorted((ROOT / "e2e").glob("test_*.py")))
    assert [path.stem for path in FILES if f'"{path.stem}"' not in told] == []
