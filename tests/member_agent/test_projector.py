"""Shapes of pods are worked out once for equal specs, and never taken for one another."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apis.quantities import InvalidQuantity
from member_agent.views import Projector, projector
from policies.shapes import PodTemplate, read_shape

Doc = dict[str, Any]


def pod(name: str, spec: Doc) -> bytes:
    return orjson.dumps({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec})


def spec_of(cpu: str = "1", **more: Any) -> Doc:
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}], **more}


AMOUNTS = st.dictionaries(st.sampled_from(("cpu", "memory", "gpu/a")), st.sampled_from(("1", "1000m", "2Gi", 3)), max_size=2)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("ab")},
        optional={
            "resources": st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS}),
            "ports": st.lists(st.fixed_dictionaries({}, optional={"hostPort": st.integers(0, 2)}), max_size=1),
            "restartPolicy": st.sampled_from(("Always", None)),
        },
    ),
    max_size=2,
)
TOLERATIONS = st.lists(
    st.fixed_dictionaries({}, optional={part: st.sampled_from(("", "x")) for part in ("key", "operator", "value", "effect")}),
    max_size=2,
)
SPECS = st.fixed_dictionaries(
    {"containers": CONTAINERS},
    optional={
        "initContainers": CONTAINERS,
        "overhead": AMOUNTS,
        "nodeSelector": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2),
        "tolerations": TOLERATIONS,
        "nodeName": st.sampled_from(("", "node-1")),
    },
)


@settings(max_examples=60)
@given(st.lists(SPECS, min_size=1, max_size=12))
def test_whatever_came_before_a_pod_has_the_shape_that_its_own_spec_says(specs: list[Doc]) -> None:
    seen = Projector()
    for number, spec in enumerate(specs):
        found = seen.pod(pod(f"pod-{number}", spec)).shape
        assert found == read_shape(msgspec.json.decode(orjson.dumps({"spec": spec}), type=PodTemplate))


def test_pods_of_one_template_share_a_shape_wherever_they_run_and_whatever_else_their_specs_have() -> None:
    seen = Projector()
    first = seen.pod(pod("a", spec_of()))
    token = {"name": "kube-api-access-x1", "projected": {"sources": []}}
    bound = seen.pod(pod("b", spec_of(nodeName="node-1", volumes=[token], hostname="b")))
    assert bound.node == "node-1"
    assert bound.shape is first.shape
    assert seen.pod(pod("c", spec_of("2"))).shape is not first.shape


def test_amounts_that_are_written_otherwise_are_the_same_shape() -> None:
    seen = Projector()
    assert seen.pod(pod("a", spec_of("1"))).shape is seen.pod(pod("b", spec_of("1000m"))).shape


def test_a_pod_with_unreadable_requests_is_refused_each_time_it_comes() -> None:
    seen = Projector()
    for _ in range(2):
        with pytest.raises(InvalidQuantity, match="much"):
            seen.pod(pod("a", spec_of("much")))


def test_shapes_beyond_what_is_remembered_are_right_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projector, "SHAPES_KEPT", 2)
    seen = Projector()
    for round_ in range(2):
        for cpu in range(1, 6):
            assert seen.pod(pod(f"{round_}-{cpu}", spec_of(str(cpu)))).shape.requests["cpu"] == cpu * 1000
