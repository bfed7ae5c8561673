"""The part of Kubernetes' own pod template rules that decides whether pods can be made at all.

A template that passes may still be refused by a member's API server, which knows more; that refusal comes back as the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from apis.quantities import InvalidQuantity, Quantity, parse
from controllers.admission.documents import Manifest, listing, mapping, string
from controllers.admission.problems import Problem, among, is_label

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
DNS_POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_OVERCOMMITTED: Final = ("cpu", "memory", "ephemeral-storage")
_CPU_MILLI: Final = 1000


def template_problems(template: Manifest | None, *, field: str) -> list[Problem]:
    """What is wrong with a pod template."""
    spec = mapping((template or {}).get("spec"))
    path = f"{field}.spec"
    found = [
        *among(RESTART_POLICIES, string(spec.get("restartPolicy")), field=f"{path}.restartPolicy"),
        *among(DNS_POLICIES, string(spec.get("dnsPolicy")), field=f"{path}.dnsPolicy"),
    ]
    if not listing(spec.get("containers")):
        found.append(Problem(f"{path}.containers", "a pod has at least one container"))
    grace = spec.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace < 0:
        found.append(Problem(f"{path}.terminationGracePeriodSeconds", f"{grace} should be greater than or equal to 0"))
    volumes = [string(mapping(volume).get("name")) or "" for volume in listing(spec.get("volumes"))]
    found += _named(volumes, field=f"{path}.volumes")
    seen: set[str] = set()
    for place, container in containers(template, field=field):
        name = string(container.get("name")) or ""
        if not is_label(name):
            found.append(Problem(f"{place}.name", f"{name!r} should match a DNS-1123 label"))
        elif name in seen:
            found.append(Problem(f"{place}.name", f"duplicate container name {name!r}"))
        seen.add(name)
        found += _container_problems(container, field=place, volumes=frozenset(volumes))
    return found


def containers(template: Manifest | None, *, field: str) -> Iterator[tuple[str, Manifest]]:
    """Init containers and containers of a template, each with the path to it."""
    spec = mapping((template or {}).get("spec"))
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(listing(spec.get(kind))):
            yield f"{field}.spec.{kind}[{index}]", mapping(container)


def pins_whole_cores(container: Manifest) -> bool:
    """Whether a container requests CPUs by the whole, which exclusive cores need."""
    resources = mapping(container.get("resources"))
    asked = mapping(resources.get("requests")).get("cpu", mapping(resources.get("limits")).get("cpu"))
    try:
        milli = parse(asked).milli if asked is not None else 0
    except InvalidQuantity:
        return False
    return milli > 0 and milli % _CPU_MILLI == 0


def _container_problems(container: Manifest, *, field: str, volumes: frozenset[str]) -> list[Problem]:
    found = among(PULL_POLICIES, string(container.get("imagePullPolicy")), field=f"{field}.imagePullPolicy")
    image = string(container.get("image")) or ""
    if not image or image != image.strip():
        found.append(Problem(f"{field}.image", f"a container needs an image, {image!r} is none"))
    for index, mount in enumerate(listing(container.get("volumeMounts"))):
        name = string(mapping(mount).get("name")) or ""
        if name not in volumes:
            found.append(Problem(f"{field}.volumeMounts[{index}].name", f"{name!r} is not a volume of the pod"))
        if not mapping(mount).get("mountPath"):
            found.append(Problem(f"{field}.volumeMounts[{index}].mountPath", "should be at least 1 chars long"))
    for index, port in enumerate(listing(container.get("ports"))):
        number = mapping(port).get("containerPort")
        if not isinstance(number, int) or not 0 < number < 65536:
            found.append(Problem(f"{field}.ports[{index}].containerPort", f"{number!r} should be between 1 and 65535"))
    return found + _resource_problems(mapping(container.get("resources")), field=f"{field}.resources")


def _resource_problems(resources: Manifest, *, field: str) -> list[Problem]:
    found: list[Problem] = []
    requests = _amounts(resources.get("requests"), field=f"{field}.requests", found=found)
    limits = _amounts(resources.get("limits"), field=f"{field}.limits", found=found)
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is not None and amount > limit:
            found.append(Problem(f"{field}.requests.{name}", f"{amount} is more than its limit {limit}"))
        elif limit is not None and name not in _OVERCOMMITTED and amount != limit:
            found.append(Problem(f"{field}.requests.{name}", f"{amount} must equal its limit {limit}: {name} is not shared"))
    return found


def _amounts(given: object, *, field: str, found: list[Problem]) -> dict[str, Quantity]:
    amounts = {}
    for name, text in mapping(given).items():
        try:
            amounts[name] = parse(text)
        except InvalidQuantity as error:
            found.append(Problem(f"{field}.{name}", f"should match a quantity: {error}"))
            continue
        if amounts[name].nano < 0:
            found.append(Problem(f"{field}.{name}", f"{text!r} should be greater than or equal to 0"))
    return amounts


def _named(names: list[str], *, field: str) -> list[Problem]:
    found = []
    for index, name in enumerate(names):
        if not is_label(name):
            found.append(Problem(f"{field}[{index}].name", f"{name!r} should match a DNS-1123 label"))
        elif name in names[:index]:
            found.append(Problem(f"{field}[{index}].name", f"duplicate volume name {name!r}"))
    return found
