"""Every manifest in the documents and examples is one that API servers take, with no field that its schema does not know."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis import kinds
from apis.kinds import Kind
from fedctl import manifests
from federation.settings import HubSettings
from machinery.clock import Chance, Ids
from machinery.errors import Invalid
from machinery.port import Port
from member_agent.settings import AgentSettings
from simulator.api import ApiServer, MemoryPort
from simulator.loop import SimClock, run_virtual

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(ROOT.glob("examples/**/*.yaml"))
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
    if "```yaml" in page.read_text()
]
BLOCK = re.compile(r"^( *)```yaml\n(.*?)^ *```", flags=re.MULTILINE | re.DOTALL)
PARTS: Mapping[str, Kind] = {"cronjob.md": kinds.CRON_JOB, "queue.md": kinds.QUEUE}
"""Pages about one kind, whose blocks may show a part of it."""
CHART, MEMBER = "# values of charts/", "# member-agent run"
"""Comments by which a block says that it is something else than settings of the hub."""

Doc = dict[str, Any]


def blocks(page: Path) -> Iterator[tuple[str, Doc]]:
    """Text and content of every YAML document in a page."""
    for indent, text in BLOCK.findall(page.read_text()):
        for each in yaml.safe_load_all(textwrap.dedent(indent + text)):
            assert isinstance(each, dict), f"{page.name}: {text}"
            yield text, each


async def _refusals(port: Port, docs: list[Doc]) -> list[str]:
    found = [f"{doc['kind']}: {each}" for doc in docs for each in manifests.misspelt(doc)]
    for doc in docs:
        kind = manifests.kind_of(doc)
        if kind is None:
            continue
        try:
            await port.create(kind, doc, namespace=doc["metadata"].get("namespace", "default") if kind.namespaced else None)
        except Invalid as error:
            found.append(f"{doc['kind']} {doc['metadata'].get('name')}: {error}")
    return found


def refusals(docs: list[Doc]) -> list[str]:
    """What an API server with our CRDs says against these objects; kinds of others are left to theirs."""
    said: list[str] = []

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        port = MemoryPort(ApiServer(clock, ids=ids, chance=chance))
        for name in sorted({doc["metadata"].get("namespace", "default") for doc in docs} - {"default"}):
            await port.create(kinds.NAMESPACE, {"metadata": {"name": name}})
        said.extend(await _refusals(port, docs))
        await port.close()

    run_virtual(main, seed=1)
    return said


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_example_is_taken_with_every_field_spelt_right(path: Path) -> None:
    assert refusals(manifests.read(str(path))) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_manifest_of_a_page_is_taken_with_every_field_spelt_right(page: Path) -> None:
    docs = [doc for _, doc in blocks(page) if "kind" in doc]
    assert refusals(docs) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_no_manifest_is_a_part_of_one_or_settings_of_a_program(page: Path) -> None:
    for text, doc in blocks(page):
        if "kind" in doc or "actions" in doc:  # a scheduler's configuration
            continue
        if page.name in PARTS:
            kind = PARTS[page.name]
            assert manifests.misspelt({"apiVersion": kind.api_version, "kind": kind.kind, **doc}) == [], text
        elif text.startswith(CHART):
            chart = ROOT / text.splitlines()[0].removeprefix("# values of ").strip()
            assert doc.keys() <= yaml.safe_load((chart / "values.yaml").read_text()).keys(), text
        elif text.startswith(MEMBER):
            AgentSettings(cluster="east", **doc)
        else:
            HubSettings(**doc)


def test_a_field_that_is_misspelt_is_found() -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": {"weihgt": 1}}
    assert refusals([queue]) == ["Queue: spec.weihgt: no such field; did you mean weight?"]
    assert len(refusals([{**queue, "spec": {"weight": -1}}])) == 1
