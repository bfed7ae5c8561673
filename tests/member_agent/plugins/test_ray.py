"""ray: commands, ports, and the way to the head."""

from __future__ import annotations

from typing import Any

from member_agent.jobs.plugins import problems
from tests.member_agent.making import Doc, container, job, objects, part, pods, ports, task

HEAD = task("head", 1, containers=[container("head", command=["old"], args=["--kept"]), container("side", command=["mine"])])
WORKER = task("worker", 2, containers=[container("worker"), container("side", command=["mine"])])


def with_ray(*tasks: Doc, arguments: list[str] | None = None) -> Doc:
    return job(*(tasks or (HEAD, WORKER)), plugins={"ray": arguments or []})


def command(pod: Doc, index: int = 0) -> Any:
    return pod["spec"]["containers"][index].get("command")


def test_head_and_workers_start_a_cluster() -> None:
    made = pods(with_ray())
    assert command(made["head-0"]) == [
        "sh",
        "-c",
        "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 --ray-client-server-port=10001",
    ]
    assert command(made["worker-1"]) == ["sh", "-c", "ray start --block --address=train-head-0.train:6379"]


def test_other_containers_are_left_as_they_are() -> None:
    made = pods(with_ray())
    assert (command(made["head-0"], 1), command(made["worker-0"], 1)) == (["mine"], ["mine"])
    assert ports(made["head-0"], 1) == ports(made["worker-0"], 0) == []
    assert made["head-0"]["spec"]["containers"][0]["args"] == ["--kept"]


def test_the_head_declares_its_ports() -> None:
    assert ports(pods(with_ray())["head-0"]) == [("gcs", 6379), ("dashboard", 8265), ("client-server", 10001)]


def test_the_service_leads_to_the_head() -> None:
    service = objects(with_ray())["Service", "train-head-svc"]["spec"]
    assert service["selector"] == {
        "volcano.sh/job-name": "train",
        "volcano.sh/job-namespace": "lab",
        "volcano.sh/task-spec": "head",
    }
    assert [(each["name"], each["port"], each["targetPort"], each["protocol"]) for each in service["ports"]] == [
        ("gcs", 6379, "gcs", "TCP"),
        ("dashboard", 8265, "dashboard", "TCP"),
        ("client-server", 10001, "client-server", "TCP"),
    ]


def test_a_port_that_the_head_declares_itself_is_reached_by_its_number() -> None:
    head = task("head", 1, containers=[container("head", ports=[{"name": "redis", "containerPort": 6379}])])
    manifest = with_ray(head)
    assert ports(pods(manifest)["head-0"]) == [("redis", 6379), ("dashboard", 8265), ("client-server", 10001)]
    targets = [each["targetPort"] for each in objects(manifest)["Service", "train-head-svc"]["spec"]["ports"]]
    assert targets == [6379, "dashboard", "client-server"]


def test_names_and_ports_may_be_others() -> None:
    arguments = ["--head=boss", "--headContainer=a", "--worker=hand", "--workerContainer=b", "--port=1", "--dashboardPort=2"]
    manifest = with_ray(
        task("boss", 1, containers=[container("a")]),
        task("hand", 1, containers=[container("b")]),
        arguments=[*arguments, "--clientPort", "3"],
    )
    made = pods(manifest)
    assert command(made["boss-0"])[2].endswith("--port=1 --dashboard-port=2 --ray-client-server-port=3")
    assert command(made["hand-0"])[2].endswith("--address=train-boss-0.train:1")
    service = objects(manifest)["Service", "train-head-svc"]["spec"]
    assert (service["selector"]["volcano.sh/task-spec"], [each["port"] for each in service["ports"]]) == ("boss", [1, 2, 3])


def test_the_head_must_be_a_task() -> None:
    assert problems(with_ray(WORKER)) == [("spec.plugins.ray", "plugin ray: --head: there is no task 'head'")]


def test_workers_elsewhere_look_for_the_one_head() -> None:
    west = pods(part(with_ray(), tasks={"head": (0, 1, 1), "worker": (2, 4, 6)}))
    assert set(west) == {"worker-4", "worker-5"}
    assert command(west["worker-4"])[2] == "ray start --block --address=train-head-0.train:6379"
