"""Who a person is, and whether they may read a Job's logs. The API server says both; nothing is decided here.

Behind an APIService the API server vouches: it shows a certificate of its front-proxy authority and names the user in headers
(`extension-apiserver-authentication` says which authority and which headers). Without, a bearer token is reviewed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import orjson
from multidict import CIMultiDictProxy

from apis import kinds
from controllers.channel.tls import Peer
from machinery import errors
from machinery.port import Port

log = logging.getLogger(__name__)

NAMESPACE: Final = "kube-system"
CONFIGURATION: Final = "extension-apiserver-authentication"
TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
LONGEST_TOKEN: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class User:
    """As the API server knows them."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """How an API server vouches for users: its authority (PEM), the names its certificate may have (none: any), the headers."""

    ca: str
    names: tuple[str, ...] = ()
    user: tuple[str, ...] = ("X-Remote-User",)
    uid: tuple[str, ...] = ()
    """None unless the API server says so: one that sets no such header lets through what clients send under its name."""
    group: tuple[str, ...] = ("X-Remote-Group",)
    extra: tuple[str, ...] = ("X-Remote-Extra-",)


def read_front_proxy(document: bytes) -> FrontProxy | None:
    """From the ConfigMap; None where the API server has no front proxy, or says something that is none."""
    data = orjson.loads(document).get("data") or {}
    ca = data.get("requestheader-client-ca-file") or ""
    if not ca:
        return None
    known = FrontProxy(ca)
    return FrontProxy(
        ca,
        names=_listed(data, "requestheader-allowed-names", ()),
        user=_listed(data, "requestheader-username-headers", known.user),
        uid=_listed(data, "requestheader-uid-headers", known.uid),
        group=_listed(data, "requestheader-group-headers", known.group),
        extra=_listed(data, "requestheader-extra-headers-prefix", known.extra),
    )


def _listed(data: Mapping[str, str], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    if key not in data:
        return default
    return tuple(str(each) for each in orjson.loads(data[key]))


def vouched(headers: CIMultiDictProxy[str], *, peer: Peer | None, proxy: FrontProxy | None) -> User | None:
    """The user that the front proxy names; None when whoever is connected is not the front proxy. `peer` is whom the verified
    certificate of the connection names."""
    if proxy is None or peer is None or (proxy.names and peer.name not in proxy.names):
        return None
    name = next((headers[each] for each in proxy.user if headers.get(each)), "")
    if not name:
        return None
    uid = next((headers[each] for each in proxy.uid if headers.get(each)), "")
    groups = tuple(group for each in proxy.group for group in headers.getall(each, []))
    extra: dict[str, tuple[str, ...]] = {}
    for key, value in headers.items():
        for prefix in proxy.extra:
            if key.lower().startswith(prefix.lower()):
                known = unquote(key[len(prefix) :]).lower()
                extra[known] = (*extra.get(known, ()), value)
    return User(name, uid, groups, extra)


def bearer(headers: CIMultiDictProxy[str]) -> str:
    """The token of an Authorization header; "" when there is none."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and 0 < len(token) <= LONGEST_TOKEN else ""


async def reviewed(port: Port, token: str) -> User | None:
    """Whose token it is; None when it is nobody's. ApiError when the API server does not say."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status = orjson.loads(await port.request("POST", TOKEN_REVIEWS, body=body)).get("status") or {}
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        return None
    extra = {str(key): tuple(map(str, values)) for key, values in (user.get("extra") or {}).items()}
    return User(str(user["username"]), str(user.get("uid") or ""), tuple(map(str, user.get("groups") or ())), extra)


async def refusal(port: Port, user: User, *, namespace: str, name: str) -> str:
    """Why the user may not read the logs of this Job; "" when they may. ApiError when the API server does not say."""
    spec: dict[str, Any] = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
        "resourceAttributes": {
            "namespace": namespace,
            "verb": "get",
            "group": kinds.JOB.group,
            "version": kinds.JOB.version,
            "resource": kinds.JOB.plural,
            "subresource": "log",
            "name": name,
        },
    }
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    status = orjson.loads(await port.request("POST", ACCESS_REVIEWS, body=body)).get("status") or {}
    if status.get("allowed") is True and status.get("denied") is not True:
        return ""
    why = f": {status['reason']}" if status.get("reason") else ""
    return f'user "{user.name}" cannot get {kinds.JOB.plural}/log "{name}" of {kinds.JOB.group} in namespace "{namespace}"{why}'


async def front_proxy(port: Port) -> FrontProxy | None:
    """What the API server says of its front proxy; None where it says nothing. ApiError when it does not answer."""
    try:
        return read_front_proxy(await port.get(kinds.CONFIGMAP, CONFIGURATION, namespace=NAMESPACE))
    except errors.NotFound:
        return None
    except (ValueError, TypeError, AttributeError) as error:
        log.warning("%s/%s cannot be read: %s", NAMESPACE, CONFIGURATION, error)
        return None
