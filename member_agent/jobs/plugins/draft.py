"""A pod in the making, and the changes that plugins make to it.

Drafts share what they have in common: every change replaces a list or a map and edits none, so that a thousand pods of a
task are made from one draft and only what is their own is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Manifest = dict[str, Any]
Env = Mapping[str, Any]

CONTAINERS: Final = "containers"
INIT: Final = "initContainers"
EVERY: Final = (CONTAINERS, INIT)


class Draft:
    """`labels`, `annotations` and the first level of `spec` and of each container may be set; deeper trees are replaced."""

    __slots__ = ("annotations", "labels", "name", "spec")

    def __init__(
        self, name: str, *, labels: Mapping[str, str], annotations: Mapping[str, str], spec: Mapping[str, Any]
    ) -> None:
        self.name = name
        self.labels = dict(labels)
        self.annotations = dict(annotations)
        self.spec: Manifest = dict(spec)
        for field in EVERY:
            if self.spec.get(field):
                self.spec[field] = [dict(each) for each in self.spec[field]]

    def copy(self, name: str) -> Draft:
        """Another draft that can be changed without changing this one."""
        return Draft(name, labels=self.labels, annotations=self.annotations, spec=self.spec)

    def containers(self, *fields: str) -> list[Manifest]:
        """The containers of these fields; the ordinary ones when none is given."""
        return [each for field in fields or (CONTAINERS,) for each in self.spec.get(field) or []]

    def set_env(self, entries: Sequence[Env], *fields: str) -> None:
        """Variables at the end of the list, in place of those of the same name: a container sees each name once."""
        names = {each["name"] for each in entries}
        for container in self.containers(*fields):
            kept = [each for each in container.get("env") or [] if each.get("name") not in names]
            container["env"] = [*kept, *entries]

    def env(self, name: str) -> str:
        """The value of a variable in the first ordinary container that has one, or ""."""
        for container in self.containers():
            for each in container.get("env") or []:
                if each.get("name") == name and each.get("value"):
                    return str(each["value"])
        return ""

    def open_port(self, container: Manifest, *, name: str, number: int) -> None:
        """Declare a port of a container, unless it declares that number itself."""
        ports = container.get("ports") or []
        if all(each.get("containerPort") != number for each in ports):
            container["ports"] = [*ports, {"name": name, "containerPort": number}]

    def add_volume(self, volume: Manifest) -> None:
        """A volume, unless the pod has one of that name."""
        volumes = self.spec.get("volumes") or []
        if all(each.get("name") != volume["name"] for each in volumes):
            self.spec["volumes"] = [*volumes, volume]

    def mount(self, mount: Manifest, *fields: str) -> None:
        """A mount in every container of these fields that has nothing mounted at that path itself."""
        for container in self.containers(*fields):
            mounts = container.get("volumeMounts") or []
            if all(each.get("mountPath") != mount["mountPath"] for each in mounts):
                container["volumeMounts"] = [*mounts, mount]

    def add_init_container(self, container: Manifest) -> None:
        """An init container after those there are, unless there is one of that name."""
        there = self.spec.get(INIT) or []
        if all(each.get("name") != container["name"] for each in there):
            self.spec[INIT] = [*there, container]
