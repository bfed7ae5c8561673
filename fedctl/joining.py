"""What `fedctl cluster join` does: makes room for a member at the hub, and prints the one command that makes it one.

What leaves the hub is a token that is good for one name, one use and a short time, and the authority by which the hub's API
server is known. No credential of an administrator does.
"""

from __future__ import annotations

import base64
import datetime
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from apis import keys, kinds
from fedctl.flows import OK, REFUSED, Place
from machinery import errors
from machinery.clock import Chance
from machinery.port import Port
from policies import joining
from policies.joining import Token

CHART: Final = "charts/member-agent"
LIFE: Final = datetime.timedelta(hours=1)
"""How long a token is good."""
LONGEST: Final = datetime.timedelta(days=1)

Doc = dict[str, Any]


class CannotJoin(Exception):
    """The message says what stands in the way."""


@dataclass(frozen=True, slots=True)
class Hub:
    """Where a member reaches the hub: https://host:port, and PEM of who signs its certificate."""

    server: str
    authority: bytes


@dataclass(frozen=True, slots=True)
class Wish:
    """What is known of the member beforehand; all of it goes into the command as values of the chart."""

    cluster: str
    provider: str = ""
    region: str = ""
    zones: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    mode: str = ""
    prices: Mapping[str, Any] | None = None
    chart: str = CHART


@dataclass(frozen=True, slots=True)
class Address:
    """How the hub is known: a kubeconfig with its context, and what replaces what it says."""

    kubeconfig: Path | None = None
    context: str | None = None
    server: str = ""
    ca: Path | None = None


async def join(place: Place, wish: Wish, *, address: Address, prices: Path | None, life: float, helm: bool) -> int:
    """`fedctl cluster join`: what is printed on standard output is the command (or, without `helm`, the values) and nothing
    else."""
    try:
        hub = hub_of(address.kubeconfig, address.context, server=address.server, ca=address.ca)
        wish = replace(wish, prices=price_sheet(prices)) if prices is not None else wish
        token, expires = new_token(Chance()), place.now + datetime.timedelta(seconds=life)
        await prepare(place.port, wish, token=token, expires=expires)
    except CannotJoin as error:
        place.errors.print(f"{wish.cluster} cannot join: {error}", style="red", markup=False)
        return REFUSED
    text = helm_command(wish, hub, token=token) if helm else yaml.safe_dump(values(wish, hub, token=token), sort_keys=False)
    place.console.out(text.rstrip("\n"), highlight=False)
    place.errors.print(
        f"Run this against {wish.cluster} before {expires:%H:%M} UTC. The token in it is good for this name and one use: who "
        "has it may join in its stead until then.",
        markup=False,
        highlight=False,
    )
    return OK


def hub_of(path: Path | None, context: str | None, *, server: str = "", ca: Path | None = None) -> Hub:
    """The hub of a kubeconfig; `server` and `ca` replace what it says, where members reach the hub by another way. CannotJoin
    when it cannot be told."""
    try:
        config = yaml.safe_load((path or Path.home() / ".kube" / "config").read_text()) or {}
        chosen = context or config.get("current-context")
        name = next(each["context"]["cluster"] for each in config.get("contexts") or () if each["name"] == chosen)
        cluster = next(each["cluster"] for each in config.get("clusters") or () if each["name"] == name)
    except (OSError, yaml.YAMLError, StopIteration, KeyError, TypeError) as error:
        if server and ca is not None:
            return Hub(server, _read(ca))
        raise CannotJoin(f"the kubeconfig does not say where the hub is ({error!r}): give --hub-server and --hub-ca") from None
    if ca is not None:
        authority = _read(ca)
    elif "certificate-authority-data" in cluster:
        authority = base64.b64decode(cluster["certificate-authority-data"])
    elif "certificate-authority" in cluster:
        authority = _read(Path(cluster["certificate-authority"]))
    else:
        raise CannotJoin("the kubeconfig does not say who signs the hub's certificate: give --hub-ca")
    found = server or str(cluster["server"])
    if not found.startswith("https://"):
        raise CannotJoin(f"{found} is not https://host:port: a token would be sent in clear")
    return Hub(found, authority)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CannotJoin(f"{path}: {error.strerror}") from None


def new_token(chance: Chance) -> Token:
    """A token; its chance must be that of the system."""
    id, secret = ("".join(joining.ALPHABET[chance.below(len(joining.ALPHABET))] for _ in range(length)) for length in (6, 16))
    return Token(id, secret)


async def prepare(port: Port, wish: Wish, *, token: Token, expires: datetime.datetime) -> None:
    """Make the Cluster and the Secret of the token at the hub. A Cluster that is silent may be joined again; CannotJoin for one
    that is alive or is being unjoined. Raises ApiError."""
    labels = {"metadata": {"name": wish.cluster, "labels": dict(wish.labels)}, "spec": {"syncMode": "Pull"}}
    body = {"apiVersion": kinds.CLUSTER.api_version, "kind": kinds.CLUSTER.kind, **labels}
    try:
        await port.create(kinds.CLUSTER, body)
    except errors.AlreadyExists:
        _may_join_again(orjson.loads(await port.get(kinds.CLUSTER, wish.cluster)))
    secret = joining.token_secret(token, cluster=wish.cluster, expires=expires)
    await port.create(kinds.SECRET, secret, namespace=joining.TOKEN_NAMESPACE)


def _may_join_again(cluster: Mapping[str, Any]) -> None:
    name = cluster["metadata"]["name"]
    if cluster["metadata"].get("deletionTimestamp"):
        raise CannotJoin(f"cluster {name} is being unjoined: wait until it is gone")
    ready = joining.condition(cluster, "Ready")
    if ready is not None and ready.get("status") == "True":
        raise CannotJoin(f"cluster {name} is a member, and its agent is alive: unjoin it first, or choose another name")


def values(wish: Wish, hub: Hub, *, token: Token) -> Doc:
    """Values of the member's chart."""
    found: Doc = {
        "cluster": wish.cluster,
        "hub": {"server": hub.server, "caData": base64.b64encode(hub.authority).decode()},
        "join": {"token": str(token)},
    }
    for name, value in (("provider", wish.provider), ("region", wish.region), ("mode", wish.mode)):
        if value:
            found[name] = value
    if wish.zones:
        found["zones"] = list(wish.zones)
    if wish.labels:
        found["labels"] = dict(wish.labels)
    if wish.prices:
        found["priceSheet"] = dict(wish.prices)
    return found


def helm_command(wish: Wish, hub: Hub, *, token: Token) -> str:
    """The one command to run against the member."""
    words = ["helm", "install", "member-agent", wish.chart, "--namespace", keys.SYSTEM_NAMESPACE, "--create-namespace"]
    for path, value in _flat(values(wish, hub, token=token)):
        words += (
            ["--set-json", f"{path}={json.dumps(value)}"]
            if not isinstance(value, str)
            else ["--set", f"{path}={_escaped(value)}"]
        )
    return " ".join(map(shlex.quote, words))


def _flat(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Paths and values; labels and the price sheet, whose keys may hold dots, stay whole."""
    found: list[tuple[str, Any]] = []
    for name, value in tree.items():
        nested = isinstance(value, Mapping) and not prefix and name in ("hub", "join")
        found += _flat(value, f"{name}.") if nested else [(f"{prefix}{name}", value)]
    return found


def _escaped(value: str) -> str:
    """What helm takes apart in a value is escaped."""
    return value.replace("\\", "\\\\").replace(",", "\\,")


def price_sheet(path: Path) -> Doc:
    """What a price sheet says: the spec of a ClusterOffer, or a whole one. CannotJoin when it is none."""
    try:
        found = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise CannotJoin(f"{path}: {error}") from None
    spec = found.get("spec", found) if isinstance(found, dict) else None
    if not isinstance(spec, dict) or not spec:
        raise CannotJoin(f"{path} is no price sheet: it holds the spec of a ClusterOffer (docs/concepts/choosing.md)")
    return spec
