"""CRDs: the files follow the models, and the schemas are structural and lean where nobody writes by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apis import batch, crdgen, flow, kinds
from apis.served import BY_KIND, SERVED, Served

ids = [each.kind.name for each in SERVED]


def walk(node: dict[str, Any], *, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    found = [(path, node)]
    for name, child in node.get("properties", {}).items():
        found += walk(child, path=f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(node.get(word), dict):
            found += walk(node[word], path=f"{path}[]")
    return found


def test_the_files_are_what_the_models_say() -> None:
    assert crdgen.drift() == []
    assert crdgen.main(["--check"]) == 0


def test_drift_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    crdgen.write(tmp_path)
    assert crdgen.drift(tmp_path) == []
    (tmp_path / "batch.volcano.sh_jobs.yaml").write_text("x")
    (tmp_path / "stray.yaml").write_text("x")
    assert crdgen.drift(tmp_path) == ["batch.volcano.sh_jobs.yaml", "stray.yaml"]
    crdgen.write(tmp_path)
    assert not (tmp_path / "stray.yaml").exists()


@pytest.mark.parametrize("served", SERVED, ids=ids)
def test_every_node_has_one_type_or_is_kept_as_it_is(served: Served) -> None:
    for path, node in walk(crdgen.schema(served)):
        typed = isinstance(node.get("type"), str) or node.get("x-kubernetes-int-or-string")
        assert typed or node.get("x-kubernetes-preserve-unknown-fields"), path
        assert not {"$ref", "title", "allOf", "oneOf"} & node.keys(), path
        assert not ({"properties"} <= node.keys() and "additionalProperties" in node), path
        assert not [word for word in node if word.startswith("x-") and not word.startswith("x-kubernetes-")], path


@pytest.mark.parametrize("kind", [kinds.WORK, kinds.RESOURCE_BINDING, kinds.CLUSTER_CAPACITY], ids=str)
def test_what_programs_write_in_thousands_carries_no_rules(kind: kinds.Kind) -> None:
    schema = crdgen.schema(BY_KIND[kind])
    assert not [path for path, node in walk(schema) if "x-kubernetes-validations" in node]
    assert len(walk(schema)) < 60


def test_a_patch_is_served_without_defaults_and_demands_nothing() -> None:
    schema = crdgen.schema(BY_KIND[kinds.JOB_FLOW])
    patch = schema["properties"]["spec"]["properties"]["flows"]["items"]["properties"]["patch"]
    assert not [path for path, node in walk(patch) if {"default", "required", "x-kubernetes-validations"} & node.keys()]


def test_a_job_gets_the_defaults_a_schema_can_say() -> None:
    spec = crdgen.schema(BY_KIND[kinds.JOB])["properties"]["spec"]["properties"]
    assert (spec["queue"]["default"], spec["maxRetry"]["default"]) == ("default", 3)


def test_pod_groups_have_no_status_subresource() -> None:
    without = {each.kind.kind for each in SERVED if not each.status}
    assert "PodGroup" in without
    assert not without & {"Job", "JobFlow", "Queue", "Work", "ResourceBinding", "Cluster", "ClusterCapacity"}


def test_columns_of_a_job_are_those_people_know() -> None:
    version = crdgen.definition(BY_KIND[kinds.JOB])["spec"]["versions"][0]
    columns = version["additionalPrinterColumns"]
    assert [column["name"] for column in columns] == ["STATUS", "minAvailable", "RUNNINGS", "AGE", "QUEUE"]
    assert [column["name"] for column in columns if column.get("priority")] == ["QUEUE"]


def test_bounds_leave_room_for_a_thousand() -> None:
    assert min(batch.MAX_TASKS, flow.MAX_FLOWS) >= 1000
    assert flow.MAX_TARGETS >= 950  # with 10,000 steps, what an API server lets a rule over all of them cost
