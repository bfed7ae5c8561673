"""ssh: keys, hosts and modes."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from member_agent.jobs.plugins import problems
from member_agent.jobs.plugins.keypairs import new_key_pair
from tests.member_agent.making import KEYS, Doc, container, job, mounts, objects, part, pods, task

TWO = (task("master", 1), task("worker", 2))


def with_ssh(*tasks: Doc, arguments: list[str] | None = None) -> Doc:
    return job(*(tasks or TWO), plugins={"ssh": arguments or []})


def files(manifest: Doc) -> dict[str, str]:
    data = objects(manifest)["Secret", "train-ssh"]["data"]
    return {name: base64.b64decode(text).decode() for name, text in data.items()}


def test_the_secret_holds_the_pair_and_a_config_that_names_every_host() -> None:
    secret = objects(with_ssh())["Secret", "train-ssh"]
    assert secret["type"] == "Opaque"
    assert secret["metadata"]["ownerReferences"][0]["controller"] is True
    assert files(with_ssh()) == {
        "id_rsa": KEYS.private,
        "id_rsa.pub": KEYS.public,
        "authorized_keys": KEYS.public,
        "config": (
            "StrictHostKeyChecking no\n"
            "UserKnownHostsFile /dev/null\n"
            "Host train-master-0\n  HostName train-master-0.train\n"
            "Host train-worker-0\n  HostName train-worker-0.train\n"
            "Host train-worker-1\n  HostName train-worker-1.train\n"
        ),
    }


def test_a_new_pair_is_one_that_openssh_reads() -> None:
    pair = new_key_pair()
    assert pair.private.startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    private = serialization.load_pem_private_key(pair.private.encode(), password=None)
    assert isinstance(private, rsa.RSAPrivateKey)
    assert private.key_size == 2048
    public = serialization.load_ssh_public_key(pair.public.encode())
    assert isinstance(public, rsa.RSAPublicKey)
    assert public.public_numbers() == private.public_key().public_numbers()
    assert new_key_pair() != pair


def test_keys_of_the_user_are_taken() -> None:
    given = files(with_ssh(arguments=["--ssh-private-key=MINE", "--ssh-public-key", "ssh-rsa MINE"]))
    assert (given["id_rsa"], given["id_rsa.pub"], given["authorized_keys"]) == ("MINE", "ssh-rsa MINE", "ssh-rsa MINE")


@pytest.mark.parametrize(
    ("given", "missing"), [("--ssh-private-key=MINE", "--ssh-public-key"), ("--ssh-public-key=MINE", "--ssh-private-key")]
)
def test_half_a_pair_is_a_problem(given: str, missing: str) -> None:
    assert problems(with_ssh(arguments=[given])) == [
        ("spec.plugins.ssh", f"plugin ssh: {missing}: is missing: keys are given both or not at all")
    ]


def test_the_files_are_mounted_in_all_containers_for_their_owner_alone() -> None:
    both: Doc = {"containers": [container(), container("side")], "pod": {"initContainers": [container("first")]}}
    made = pods(with_ssh(task("master", 1, **both)))["master-0"]
    names = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
    assert made["spec"]["volumes"] == [
        {
            "name": "train-ssh",
            "secret": {
                "secretName": "train-ssh",
                "items": [{"key": name, "path": f".ssh/{name}"} for name in names],
                "defaultMode": 0o600,
            },
        }
    ]
    for index, field in ((0, "containers"), (1, "containers"), (0, "initContainers")):
        assert mounts(made, index, field=field) == {"/root/.ssh": "train-ssh"}
        assert made["spec"][field][index]["volumeMounts"][0]["subPath"] == ".ssh"


@pytest.mark.parametrize(("security", "mode"), [(None, 0o644), ({"runAsUser": 1000}, 0o644), ({"runAsUser": 0}, 0o600)])
def test_another_user_reads_the_files_at_a_path_of_its_own(security: Doc | None, mode: int) -> None:
    manifest = with_ssh(
        task("master", 1, pod={"securityContext": security} if security else None),
        arguments=["--ssh-key-file-path=/home/me/.ssh"],
    )
    made = pods(manifest)["master-0"]
    assert mounts(made) == {"/home/me/.ssh": "train-ssh"}
    assert made["spec"]["volumes"][0]["secret"]["defaultMode"] == mode


def test_another_port_is_said_for_every_host() -> None:
    config = files(with_ssh(task("master", 1), arguments=["--ssh-port=2022"]))["config"]
    assert config.endswith("Host train-master-0\n  HostName train-master-0.train\n  Port 2022\n")


def test_hosts_of_all_clusters_are_known_in_each() -> None:
    east = part(with_ssh(), tasks={"master": (1, 0, 1), "worker": (1, 0, 2)})
    west = part(with_ssh(), tasks={"master": (0, 1, 1), "worker": (1, 1, 2)})
    assert files(east)["config"] == files(west)["config"] == files(with_ssh())["config"]
