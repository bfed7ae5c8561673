"""svc: names, hosts and the network of a Job."""

from __future__ import annotations

import pytest

from member_agent.jobs import children
from member_agent.jobs.plugins import problems
from tests.member_agent.making import KEYS, Doc, container, env, job, mounts, objects, part, pods, task, view

TWO = (task("ps", 1), task("work-er", 2))
SELECTOR = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "lab"}


def with_svc(*tasks: Doc, arguments: list[str] | None = None) -> Doc:
    return job(*(tasks or TWO), plugins={"svc": arguments or []})


def test_every_pod_has_a_name_in_the_dns_of_its_job() -> None:
    made = pods(with_svc())
    assert {key: (pod["spec"]["hostname"], pod["spec"]["subdomain"]) for key, pod in made.items()} == {
        "ps-0": ("train-ps-0", "train"),
        "work-er-0": ("train-work-er-0", "train"),
        "work-er-1": ("train-work-er-1", "train"),
    }


def test_a_hostname_of_the_template_is_kept_and_stands_in_the_lists_once() -> None:
    manifest = with_svc(task("ps", 2, pod={"hostname": "boss", "subdomain": "office"}))
    assert pods(manifest)["ps-1"]["spec"]["hostname"] == "boss"
    assert pods(manifest)["ps-1"]["spec"]["subdomain"] == "office"
    data = objects(manifest)["ConfigMap", "train-svc"]["data"]
    assert (data["ps.host"], data["VC_PS_NUM"]) == ("boss.office", "1")


def test_the_headless_service_selects_the_pods_of_the_job() -> None:
    service = objects(with_svc())["Service", "train"]
    assert service["spec"] == {
        "clusterIP": "None",
        "selector": SELECTOR,
        "publishNotReadyAddresses": False,
        "ports": [{"name": "placeholder-volcano", "port": 1, "protocol": "TCP", "targetPort": 1}],
    }
    assert service["metadata"]["ownerReferences"][0]["name"] == "train"
    labels = pods(with_svc())["ps-0"]["metadata"]["labels"]
    assert {name: labels[name] for name in SELECTOR} == SELECTOR


def test_addresses_that_are_not_ready_are_published_when_asked_for() -> None:
    service = objects(with_svc(arguments=["--publish-not-ready-addresses"]))["Service", "train"]
    assert service["spec"]["publishNotReadyAddresses"] is True


def test_the_config_map_lists_the_hosts_of_every_task() -> None:
    workers = ["train-work-er-0.train", "train-work-er-1.train"]
    assert objects(with_svc())["ConfigMap", "train-svc"]["data"] == {
        "ps.host": "train-ps-0.train",
        "VC_PS_HOSTS": "train-ps-0.train",
        "VC_PS_NUM": "1",
        "work_er.host": "\n".join(workers),
        "work-er.host": "\n".join(workers),
        "VC_WORK_ER_HOSTS": ",".join(workers),
        "VC_WORK_ER_NUM": "2",
    }


def test_the_files_are_mounted_and_the_variables_set_in_all_containers() -> None:
    both: Doc = {"containers": [container(), container("side")], "pod": {"initContainers": [container("first")]}}
    made = pods(with_svc(task("ps", 1, **both)))["ps-0"]
    volume = {"name": "train-svc", "configMap": {"name": "train-svc"}}
    assert made["spec"]["volumes"] == [volume]
    for index, field in ((0, "containers"), (1, "containers"), (0, "initContainers")):
        assert mounts(made, index, field=field) == {"/etc/volcano": "train-svc"}
        assert env(made, index, field=field) == {
            "VC_PS_HOSTS": "ConfigMap/train-svc/VC_PS_HOSTS",
            "VC_PS_NUM": "ConfigMap/train-svc/VC_PS_NUM",
        }


@pytest.mark.parametrize("argument", ["--inject-hosts-env=false", "-inject-hosts-env=F"])
def test_the_variables_can_be_left_out_and_the_files_stay(argument: str) -> None:
    made = pods(with_svc(arguments=[argument]))["ps-0"]
    assert env(made) == {}
    assert mounts(made) == {"/etc/volcano": "train-svc"}


def test_only_pods_of_the_job_reach_its_pods() -> None:
    policy = objects(with_svc())["NetworkPolicy", "train"]
    pods_of_job = {"matchLabels": SELECTOR}
    assert policy["apiVersion"] == "networking.k8s.io/v1"
    assert policy["spec"] == {
        "podSelector": pods_of_job,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": pods_of_job}]}],
    }


def test_the_network_policy_can_be_left_out() -> None:
    assert set(objects(with_svc(arguments=["--disable-network-policy=true"]))) == {
        ("ConfigMap", "train-svc"),
        ("Service", "train"),
    }


def test_the_config_map_follows_scaling_and_nothing_else_does() -> None:
    manifest = with_svc()
    made = children.objects(view(manifest), manifest, keys=lambda: KEYS)
    assert [(each.kind.kind, each.follows) for each in made] == [
        ("ConfigMap", True),
        ("Service", False),
        ("NetworkPolicy", False),
    ]


def test_hosts_of_all_clusters_are_listed_in_each() -> None:
    east = part(with_svc(), tasks={"work-er": (1, 0, 2)})
    west = part(with_svc(), tasks={"work-er": (1, 1, 2)})
    assert set(pods(east)) == {"ps-0", "work-er-0"}
    assert pods(west)["work-er-1"]["spec"]["hostname"] == "train-work-er-1"
    whole = objects(with_svc())["ConfigMap", "train-svc"]["data"]
    assert objects(east)["ConfigMap", "train-svc"]["data"] == whole
    assert objects(west)["ConfigMap", "train-svc"]["data"] == whole


def test_a_job_whose_name_is_no_host_name_is_a_problem() -> None:
    manifest = job(*TWO, name="v1.train", plugins={"svc": []})
    assert problems(manifest) == [
        ("spec.plugins.svc", "plugin svc: metadata.name 'v1.train' has a dot in it and can be no part of a host name")
    ]
