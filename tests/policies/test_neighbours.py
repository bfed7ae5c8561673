"""Reading what a pod asks of the pods around it, and who is meant."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from policies.neighbours import Crowd, HostPort, Neighbours, PodSelector, PodTerm, Spread
from policies.selectors import NEVER, NODE_NAME, Requirement
from policies.shapes import CLAIMS, Owner, PodShape, PodSpec, shape_of

Doc = dict[str, Any]
OWNER = Owner("shop", (("app", "web"), ("hash", "1")))
REQUIRED, PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"


def read(owner: Owner | None = OWNER, **spec: Any) -> PodShape:
    return shape_of(msgspec.convert(spec, type=PodSpec), owner=owner)


def neighbours(**spec: Any) -> Neighbours:
    found = read(**spec).neighbours
    assert found is not None
    return found


def term(app: str | None = "web", *, topology: str = "zone", **more: Any) -> Doc:
    selector = {} if app is None else {"labelSelector": {"matchLabels": {"app": app}}}
    return {"topologyKey": topology, **selector, **more}


def crowd(*labels: Requirement, spaces: tuple[str, ...] = ("shop",)) -> Crowd:
    return Crowd((PodSelector(spaces, None, tuple(labels)),))


WEB = Requirement("app", "In", ("web",))


def test_a_term_means_pods_of_the_own_namespace_unless_it_names_others() -> None:
    found = neighbours(affinity={"podAntiAffinity": {REQUIRED: [term(), term(namespaces=["b", "a"])]}})
    assert found.apart == (PodTerm(crowd(WEB), "zone"), PodTerm(crowd(WEB, spaces=("a", "b")), "zone"))
    (every,) = neighbours(affinity={"podAntiAffinity": {REQUIRED: [term(namespaceSelector={})]}}).apart
    (selector,) = every.crowd.selectors
    assert (selector.spaces, selector.of_spaces) == ((), ())
    assert every.crowd.reads_namespaces
    assert every.crowd.has("anywhere", {"app": "web"}, of_namespace={})


def test_namespaces_are_selected_by_their_labels() -> None:
    chosen = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["red"]}]}
    (one,) = neighbours(affinity={"podAffinity": {REQUIRED: [term(namespaces=["a"], namespaceSelector=chosen)]}}).beside
    assert one.crowd.has("a", {"app": "web"}, of_namespace={})
    assert one.crowd.has("x", {"app": "web"}, of_namespace={"team": "red"})
    assert not one.crowd.has("shop", {"app": "web"}, of_namespace={"team": "blue"})
    assert not one.crowd.has("x", {"app": "db"}, of_namespace={"team": "red"})


def test_keys_of_labels_are_filled_in_with_the_pods_own_values() -> None:
    found = neighbours(affinity={"podAffinity": {REQUIRED: [term(matchLabelKeys=["hash", "none"], mismatchLabelKeys=["app"])]}})
    (one,) = found.beside
    assert set(one.crowd.selectors[0].labels or ()) == {
        WEB,
        Requirement("hash", "In", ("1",)),
        Requirement("app", "NotIn", ("web",)),
    }


def test_pods_must_match_all_terms_of_required_affinity_to_count_for_any() -> None:
    found = neighbours(affinity={"podAffinity": {REQUIRED: [term("web"), term("db", topology="rack")]}})
    assert [each.topology for each in found.beside] == ["zone", "rack"]
    assert found.beside[0].crowd is found.beside[1].crowd
    assert not found.beside[0].crowd.has("shop", {"app": "web"}, of_namespace={})


def test_a_term_without_a_selector_means_nobody_and_an_empty_one_everybody() -> None:
    nobody, everybody = neighbours(affinity={"podAntiAffinity": {REQUIRED: [term(None), term(None, labelSelector={})]}}).apart
    assert not nobody.crowd.has("shop", {"app": "web"}, of_namespace={})
    assert everybody.crowd.has("shop", {}, of_namespace={})


def test_preferences_carry_weights_and_those_for_keeping_away_are_below_zero() -> None:
    near = {PREFERRED: [{"weight": 7, "podAffinityTerm": term()}]}
    far = {PREFERRED: [{"weight": 3, "podAffinityTerm": term()}, {"weight": 0, "podAffinityTerm": term("db")}]}
    found = neighbours(affinity={"podAffinity": near, "podAntiAffinity": far})
    assert [weight for _, weight in found.prefers] == [7, -3]
    assert found.crowds == (crowd(WEB),)


def test_spreading_is_read_with_its_defaults_and_its_policies() -> None:
    plain = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    other = {
        **plain,
        "maxSkew": 3,
        "whenUnsatisfiable": "ScheduleAnyway",
        "minDomains": 4,
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
    }
    assert neighbours(topologySpreadConstraints=[plain, other]).spreads == (
        Spread(crowd(WEB), "zone"),
        Spread(crowd(WEB), "zone", 3, hard=False, least_domains=4, honours_selector=False, honours_taints=True),
    )


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80), HostPort(80, "UDP"), False),
        (HostPort(80, address="10.0.0.1"), HostPort(80, address="10.0.0.2"), False),
        (HostPort(80, address="10.0.0.1"), HostPort(80), True),
    ],
)
def test_host_ports_clash_by_port_protocol_and_address(one: HostPort, other: HostPort, clash: bool) -> None:
    assert one.clashes(other) is clash
    assert other.clashes(one) is clash


def test_host_ports_are_read_exactly() -> None:
    ports = [{"hostPort": 80}, {"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}, {"containerPort": 9}]
    found = read(containers=[{"ports": ports}])
    assert found.ports == (HostPort(53, "UDP", "10.0.0.1"), HostPort(80))
    assert found.one_per_node


def test_a_member_reads_names_of_nodes_and_the_hub_leaves_them_open() -> None:
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [fields]}}}
    here, hub = read(affinity=affinity), read(None, affinity=affinity)
    assert here.unknown == ""
    assert here.selects({NODE_NAME: "n1"})
    assert not here.selects({NODE_NAME: "n2"})
    assert hub.unknown == "node field selectors"
    assert hub.selects({})


def test_a_node_term_that_says_nothing_selects_nothing() -> None:
    found = read(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}})
    assert found.node_affinity == ((Requirement("", NEVER),),)
    assert not found.selects({"zone": "a"})


def test_the_hub_names_what_it_cannot_answer_and_a_member_only_what_nobody_can() -> None:
    anti: dict[str, Any] = {"affinity": {"podAntiAffinity": {REQUIRED: [term()]}}}
    assert read(None, **anti).unknown == "inter-pod anti-affinity"
    assert read(None, **anti).neighbours is None
    assert read(**anti).unknown == ""
    assert read(**anti, resourceClaims=[{"name": "gpu"}]).undecided == CLAIMS


def test_nodes_that_a_pod_would_rather_have_and_its_images_are_read_at_members() -> None:
    liked = {"weight": 5, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}
    spec: dict[str, Any] = {"affinity": {"nodeAffinity": {PREFERRED: [liked]}}, "containers": [{"image": "b"}, {"image": "a"}]}
    assert read(**spec).prefers == (((Requirement("disk", "In", ("ssd",)),), 5),)
    assert read(**spec).images == ("a", "b")
    assert (read(None, **spec).prefers, read(None, **spec).images) == ((), ())
