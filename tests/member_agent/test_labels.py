"""Labels of pods are kept once, however many pods have them, and decide with the namespace what terms mean."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from apis import keys
from member_agent.views import Projector, labels
from member_agent.views.labels import LabelPool
from member_agent.views.namespaces import project_namespace

Doc = dict[str, Any]


def pod(name: str, *, namespace: str = "shop", spec: Doc | None = None, **given: str) -> bytes:
    meta = {
        "name": name,
        "namespace": namespace,
        "uid": name,
        "labels": {key.replace("_", "/"): value for key, value in given.items()},
    }
    return orjson.dumps({"metadata": meta, "spec": spec or {}})


def test_pods_of_one_task_share_their_labels_and_gangs_share_their_numbers() -> None:
    seen = Projector()
    first, second = (seen.pod(numbered("a", index)) for index in range(2))
    other = seen.pod(numbered("b", 1))
    assert first.labels == (("app", "a"),)
    assert first.labels is second.labels
    assert second.own_labels == ((keys.TASK_INDEX, "1"),)
    assert second.own_labels is other.own_labels


def numbered(app: str, index: int) -> bytes:
    meta = {"name": f"{app}-{index}", "uid": f"{app}-{index}", "labels": {keys.TASK_INDEX: str(index), "app": app}}
    return orjson.dumps({"metadata": meta})


def test_the_order_of_labels_does_not_matter() -> None:
    pool = LabelPool()
    assert pool.split({"a": "1", "b": "2"})[0] is pool.split({"b": "2", "a": "1"})[0]
    assert pool.split(None) == ((), ())


def test_labels_beyond_what_is_remembered_are_right_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "KEPT", 2)
    pool = LabelPool()
    for round_ in range(2):
        for index in range(5):
            assert pool.split({"app": str(index), keys.TASK_INDEX: str(round_)}) == (
                (("app", str(index)),),
                ((keys.TASK_INDEX, str(round_)),),
            )


def test_equal_specs_are_one_shape_unless_their_terms_mean_other_pods() -> None:
    selector = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    anti = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selector]}}}
    by_hash = {"topologySpreadConstraints": [{**selector, "matchLabelKeys": ["hash"]}]}
    seen = Projector()
    assert seen.pod(pod("a")).shape is seen.pod(pod("b", namespace="other", app="x")).shape
    assert seen.pod(pod("a", spec=anti)).shape is seen.pod(pod("b", spec=anti, hash="1")).shape
    assert seen.pod(pod("a", spec=anti)).shape != seen.pod(pod("b", spec=anti, namespace="other")).shape
    assert seen.pod(pod("a", spec=by_hash, hash="1")).shape != seen.pod(pod("b", spec=by_hash, hash="2")).shape


def test_pods_of_a_daemon_that_have_their_nodes_are_alike() -> None:
    def daemon(node: str, *, bound: bool) -> Doc:
        field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field]}}
        return {"affinity": {"nodeAffinity": required}, **({"nodeName": node} if bound else {})}

    seen = Projector()
    assert seen.pod(pod("a", spec=daemon("n1", bound=True))).shape is seen.pod(pod("b", spec=daemon("n2", bound=True))).shape
    assert seen.pod(pod("a", spec=daemon("n1", bound=False))).shape != seen.pod(pod("b", spec=daemon("n2", bound=False))).shape


def test_a_namespace_is_its_labels() -> None:
    found = project_namespace(orjson.dumps({"metadata": {"name": "shop", "uid": "u", "labels": {"team": "red"}}}))
    assert (found.name, found.labels) == ("shop", {"team": "red"})
