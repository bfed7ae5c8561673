"""ssh: the pods of a Job log in to each other without a password."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apis import kinds
from member_agent.jobs.facts import JobFacts, TaskFacts
from member_agent.jobs.plugins.arguments import BadArgument, flag, read
from member_agent.jobs.plugins.draft import EVERY, Draft
from member_agent.jobs.plugins.protocol import Child, KeyMaker, KeyPair, Plugin, object_of

ROOTS_PATH: Final = "/root/.ssh"
FOLDER: Final = ".ssh"
PORT: Final = 22
PRIVATE: Final = "id_rsa"
PUBLIC: Final = "id_rsa.pub"
AUTHORIZED: Final = "authorized_keys"
CONFIG: Final = "config"
FILES: Final = (PRIVATE, PUBLIC, AUTHORIZED, CONFIG)
FOR_OWNER: Final = 0o600
FOR_ALL: Final = 0o644


@dataclass(frozen=True)
class _Arguments:
    path: str = flag("ssh-key-file-path", ROOTS_PATH)
    private: str = flag("ssh-private-key", "")
    public: str = flag("ssh-public-key", "")
    port: int = flag("ssh-port", PORT, port=True)


class Ssh(Plugin):
    """One pair of keys for all pods, in a Secret that is made once: a mounted file does not follow its Secret."""

    name = "ssh"

    def __init__(self, arguments: Sequence[str]) -> None:
        self._given = read(_Arguments, arguments, plugin=self.name)
        if bool(self._given.private) != bool(self._given.public):
            missing = "--ssh-public-key" if self._given.private else "--ssh-private-key"
            raise BadArgument("is missing: keys are given both or not at all", plugin=self.name, argument=missing)

    def objects(self, job: JobFacts, *, keys: KeyMaker) -> Iterator[Child]:
        yield Child(kinds.SECRET, _secret_name(job), lambda: self._secret(job, keys), plugin=self.name)

    def change_task(self, draft: Draft, *, job: JobFacts, task: TaskFacts) -> None:
        name = _secret_name(job)
        items = [{"key": file, "path": f"{FOLDER}/{file}"} for file in FILES]
        secret = {"secretName": name, "items": items, "defaultMode": self._mode(draft)}
        draft.add_volume({"name": name, "secret": secret})
        draft.mount({"name": name, "mountPath": self._given.path, "subPath": FOLDER}, *EVERY)

    def _mode(self, draft: Draft) -> int:
        """The files are root's. Another user must be able to read them, and ssh lets them be open to all only for another."""
        user = (draft.spec.get("securityContext") or {}).get("runAsUser")
        return FOR_OWNER if self._given.path == ROOTS_PATH or user == 0 else FOR_ALL

    def _secret(self, job: JobFacts, keys: KeyMaker) -> dict[str, Any]:
        pair = KeyPair(self._given.private, self._given.public) if self._given.private else keys()
        texts = {PRIVATE: pair.private, PUBLIC: pair.public, AUTHORIZED: pair.public, CONFIG: self._config(job)}
        data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        return object_of(kinds.SECRET, _secret_name(job), job=job, type="Opaque", data=data)

    def _config(self, job: JobFacts) -> str:
        """Host keys are new with every pod, so none is remembered; every pod is known by its bare name."""
        lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
        port = [] if self._given.port == PORT else [f"  Port {self._given.port}"]
        for task in job.tasks.values():
            for host in task.hosts():
                lines += [f"Host {host.partition('.')[0]}", f"  HostName {host}", *port]
        return "\n".join(lines) + "\n"


def _secret_name(job: JobFacts) -> str:
    return f"{job.name}-{Ssh.name}"
