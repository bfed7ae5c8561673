"""The example flows are sound, and the pictures on their page are drawn from them: `python -m tests.examples.test_flows` draws
the page anew."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis.cron import CronJob
from apis.flow import JobFlow
from controllers.admission import validate_cron_job, validate_flow
from controllers.flows.snapshot import FlowView, project_flow
from fedctl.pictures import mermaid
from policies.offers import project_offer

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "examples" / "flows"
PAGE = ROOT / "docs" / "concepts" / "jobflow.md"
PICTURE = re.compile(r"<!-- picture: (\S+) (\w+)/(\S+) -->\n(?:```mermaid\n.*?```\n)?", re.DOTALL)


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def flow(name: str, kind: str, called: str) -> FlowView:
    """The flow of that kind and name in an example; of a CronJob the one that it makes."""
    found = next(each for each in documents(name) if (each["kind"], each["metadata"]["name"]) == (kind, called))
    spec = found["spec"]["flowTemplate"]["spec"] if kind == "CronJob" else found["spec"]
    return project_flow(json.dumps({"metadata": {"name": called}, "spec": spec}).encode())


def drawn(page: str) -> str:
    """The page with every picture as the examples say."""

    def picture(found: re.Match[str]) -> str:
        name, kind, called = found.groups()
        return f"<!-- picture: {name} {kind}/{called} -->\n```mermaid\n{mermaid(flow(name, kind, called))}```\n"

    return PICTURE.sub(picture, page)


def test_the_page_has_the_pictures_of_the_examples() -> None:
    page = PAGE.read_text()
    assert page == drawn(page)
    assert {found.group(1) for found in PICTURE.finditer(page)} == {"training.yaml", "report.yaml", "nested.yaml"}


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.yaml")))
def test_every_example_is_taken_at_the_door(name: str) -> None:
    for each in documents(name):
        text = json.dumps(each)
        if each["kind"] == "JobFlow":
            assert validate_flow(JobFlow.read(text)) == []
        elif each["kind"] == "CronJob":
            assert validate_cron_job(CronJob.read(text)) == []
        elif each["kind"] == "ClusterOffer":
            assert project_offer(text.encode()).problems == ()
        else:
            assert each["kind"] == "JobTemplate"


def test_gpus_cost_less_in_one_of_the_clusters_and_training_goes_by_money() -> None:
    offers = {each["metadata"]["name"]: each["spec"]["classes"][0]["prices"] for each in documents("offers.yaml")}
    assert float(offers["west"]["nvidia.com/gpu"]) < float(offers["east"]["nvidia.com/gpu"])
    train = next(each for each in documents("training.yaml") if each["metadata"]["name"] == "train")
    assert train["metadata"]["annotations"]["volcano-federation.io/profile"] == "cost-first"


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
