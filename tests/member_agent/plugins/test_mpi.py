"""mpi: the master's list of workers."""

from __future__ import annotations

from member_agent.jobs.plugins import problems
from tests.member_agent.making import Doc, container, env, job, mounts, objects, part, pods, ports, task

TWO = (
    task("master", 1, pod={"initContainers": [container("first")]}),
    task("worker", 2, pod={"initContainers": [container("first")]}),
)


def with_mpi(*tasks: Doc, arguments: list[str] | None = None) -> Doc:
    return job(*(tasks or TWO), plugins={"mpi": arguments or []})


def test_the_master_knows_the_hosts_of_all_workers() -> None:
    made = pods(with_mpi())
    hosts = "train-worker-0.train,train-worker-1.train"
    assert env(made["master-0"])["MPI_HOST"] == hosts
    assert env(made["master-0"], field="initContainers")["MPI_HOST"] == hosts
    assert "MPI_HOST" not in env(made["worker-0"])


def test_workers_declare_the_port_that_they_are_reached_at() -> None:
    made = pods(with_mpi())
    assert ports(made["worker-1"]) == ports(made["worker-1"], field="initContainers") == [("mpijob-port", 22)]
    assert ports(made["master-0"]) == []


def test_another_port_and_other_names() -> None:
    made = pods(with_mpi(task("boss", 1), task("hand", 1), arguments=["--master=boss", "--worker=hand", "--port=2222"]))
    assert env(made["boss-0"])["MPI_HOST"] == "train-hand-0.train"
    assert ports(made["hand-0"]) == [("mpijob-port", 2222)]


def test_a_port_that_is_declared_stays_as_it_is() -> None:
    own = container(ports=[{"name": "ssh", "containerPort": 22}])
    assert ports(pods(with_mpi(task("master", 1), task("worker", 1, containers=[own])))["worker-0"]) == [("ssh", 22)]


def test_it_brings_names_and_keys() -> None:
    assert set(objects(with_mpi())) == {
        ("ConfigMap", "train-svc"),
        ("Service", "train"),
        ("NetworkPolicy", "train"),
        ("Secret", "train-ssh"),
    }
    assert mounts(pods(with_mpi())["worker-0"]) == {"/etc/volcano": "train-svc", "/root/.ssh": "train-ssh"}


def test_arguments_of_the_plugins_it_needs_are_kept() -> None:
    manifest = job(*TWO, plugins={"mpi": [], "svc": ["--disable-network-policy"], "ssh": ["--ssh-key-file-path=/keys"]})
    assert ("NetworkPolicy", "train") not in objects(manifest)
    assert mounts(pods(manifest)["worker-0"]) == {"/etc/volcano": "train-svc", "/keys": "train-ssh"}


def test_the_master_must_be_a_task() -> None:
    assert problems(with_mpi(task("worker", 2))) == [("spec.plugins.mpi", "plugin mpi: --master: there is no task 'master'")]


def test_workers_of_all_clusters_are_listed() -> None:
    east = pods(part(with_mpi(), tasks={"master": (1, 0, 1), "worker": (1, 0, 4)}))
    assert env(east["master-0"])["MPI_HOST"].split(",") == [f"train-worker-{index}.train" for index in range(4)]
