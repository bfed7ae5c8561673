"""How a patch changes a template: each rule by an example."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from policies.flows.merging import merged

TEMPLATE = """
minAvailable: 2
queue: research
plugins: {svc: [], ssh: [--port=22]}
volumes: [{mountPath: /data, volumeClaimName: data}]
tasks:
- name: driver
  replicas: 1
  template:
    spec:
      tolerations: [{key: spot, operator: Exists}, {key: gpu, operator: Exists}]
      volumes: [{name: scratch, emptyDir: {}}]
      containers:
      - name: main
        image: app:1
        command: [run, --fast]
        env: [{name: MODE, value: test}, {name: LEVEL, value: "1"}]
        ports: [{containerPort: 80, name: web}]
        resources: {requests: {cpu: 1, memory: 1Gi}}
      - {name: side, image: side:1}
- {name: worker, replicas: 4, template: {spec: {containers: [{name: main, image: app:1}]}}}
"""


@pytest.mark.parametrize(
    ("patch", "path", "found"),
    [
        ("queue: prod", "queue", "prod"),
        ("minAvailable: 3", "minAvailable", 3),
        ("plugins: {ssh: [--port=2222], env: []}", "plugins", {"svc": [], "ssh": ["--port=2222"], "env": []}),
        (
            "volumes: [{mountPath: /data, volumeClaimName: other}, {mountPath: /logs, volumeClaimName: logs}]",
            "volumes",
            [{"mountPath": "/data", "volumeClaimName": "other"}, {"mountPath": "/logs", "volumeClaimName": "logs"}],
        ),
        ("tasks: [{name: worker, replicas: 8}]", "tasks.1.replicas", 8),
        ("tasks: [{name: worker, replicas: 8}]", "tasks.1.template.spec.containers.0.image", "app:1"),
        ("tasks: [{name: extra, replicas: 1}]", "tasks.2.name", "extra"),
        ("tasks: [{name: driver, template: {spec: {containers: [{name: main, image: app:2}]}}}]", f"{'{c}'}.0.image", "app:2"),
        ("tasks: [{name: driver, template: {spec: {containers: [{name: main, image: app:2}]}}}]", f"{'{c}'}.1.image", "side:1"),
        ("tasks: [{name: driver, template: {spec: {containers: [{name: main, command: [go]}]}}}]", "{c}.0.command", ["go"]),
        (
            "tasks: [{name: driver, template: {spec: {containers: [{name: main, env: [{name: MODE, value: prod}]}]}}}]",
            "{c}.0.env",
            [{"name": "MODE", "value": "prod"}, {"name": "LEVEL", "value": "1"}],
        ),
        (
            "tasks: [{name: driver, template: {spec: {containers:"
            " [{name: main, env: [{name: MODE, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]}}}]",
            "{c}.0.env.0",
            {"name": "MODE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ),
        (
            "tasks: [{name: driver, template: {spec: {containers: [{name: main, ports: [{containerPort: 80, name: http}]}]}}}]",
            "{c}.0.ports",
            [{"containerPort": 80, "name": "http"}],
        ),
        (
            "tasks: [{name: driver, template: {spec: {containers: [{name: main, resources: {requests: {cpu: 4}}}]}}}]",
            "{c}.0.resources.requests",
            {"cpu": 4, "memory": "1Gi"},
        ),
        (
            "tasks: [{name: driver, template: {spec: {tolerations: [{key: spot, operator: Equal, value: a}]}}}]",
            "tasks.0.template.spec.tolerations",
            [{"key": "spot", "operator": "Equal", "value": "a"}, {"key": "gpu", "operator": "Exists"}],
        ),
        (
            "tasks: [{name: driver, template: {spec: {volumes: [{name: scratch, configMap: {name: c}}]}}}]",
            "tasks.0.template.spec.volumes",
            [{"name": "scratch", "configMap": {"name": "c"}}],
        ),
        ("plugins: {ssh: null}", "plugins", {"svc": []}),
    ],
)
def test_a_patch_changes_this_and_leaves_the_rest(patch: str, path: str, found: Any) -> None:
    base = yaml.safe_load(TEMPLATE)
    before = copy.deepcopy(base)
    value: Any = merged(base, yaml.safe_load(patch))
    for part in path.replace("{c}", "tasks.0.template.spec.containers").split("."):
        value = value[int(part) if part.isdigit() else part]
    assert value == found
    assert base == before


leaves = st.none() | st.integers(0, 3) | st.text("ab", max_size=2)
documents = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=8
)


@given(st.dictionaries(st.sampled_from("abc"), documents), st.dictionaries(st.sampled_from("abc"), documents))
def test_law_a_patch_applied_twice_changes_no_more(base: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merged(base, patch)
    assert merged(once, patch) == once


@given(st.dictionaries(st.sampled_from("abc"), documents))
def test_law_nothing_patched_changes_nothing(base: dict[str, Any]) -> None:
    assert merged(base, {}) == base
