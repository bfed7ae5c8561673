"""What people ask of a member on its Cluster object, so that kubectl can do it too, and whose word it was.

| Order | On the Cluster |
|---|---|
| cordon | the taint `cluster.karmada.io/unschedulable:NoSchedule` |
| drain | the annotation `volcano-federation.io/drain`, any value but "" and "false" |
| declare-lost | the annotation `volcano-federation.io/declare-lost`, its value says why |
| unjoin | the deletion of the object |

Who gave an order and when is stamped at admission into the annotation `volcano-federation.io/ordered-by`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from apis import keys

DRAIN: Final = f"{keys.GROUP}/drain"
DECLARE_LOST: Final = f"{keys.GROUP}/declare-lost"
ORDERED_BY: Final = f"{keys.GROUP}/ordered-by"
"""Annotation of a Cluster, JSON: order to `Stamp`."""
DECLARED: Final = f"{keys.GROUP}/declared"
"""Annotation of a member Lease, JSON (`Declaration`): the cluster was fenced on a person's word."""
HELD_BY_HUB: Final = "hub"
"""holderIdentity of a member Lease that the hub has fenced (protocol.md 2, H3 and H4)."""
NAME_LIMIT: Final = 128
"""Characters of a name that are kept: it is written into bindings, which are small (protocol.md 7)."""


class Order(enum.StrEnum):
    """What can be asked of a member."""

    CORDON = "cordon"
    DRAIN = "drain"
    DECLARE_LOST = "declare-lost"


class Stamp(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whose word it was, and when it was given (RFC 3339); empty where nobody stamped it."""

    by: str = ""
    at: str = ""


class Declaration(msgspec.Struct, frozen=True, omit_defaults=True):
    """H4: `fence` is the number that the Lease was given with it; every run granted with a smaller one is declared lost."""

    fence: int
    by: str = ""
    at: str = ""
    why: str = ""


_stamps = msgspec.json.Decoder(dict[str, Stamp])
_declaration = msgspec.json.Decoder(Declaration)
_encoder = msgspec.json.Encoder(order="deterministic")


def orders(cluster: Mapping[str, Any]) -> dict[Order, str]:
    """The orders in force on a Cluster, each with its reason, "" where none is given."""
    notes = (cluster.get("metadata") or {}).get("annotations") or {}
    found = {}
    if any(is_cordon(each) for each in (cluster.get("spec") or {}).get("taints") or []):
        found[Order.CORDON] = ""
    for order, key in ((Order.DRAIN, DRAIN), (Order.DECLARE_LOST, DECLARE_LOST)):
        if asked(notes.get(key)):
            found[order] = reason(notes[key])
    return found


def is_cordon(taint: Mapping[str, Any]) -> bool:
    """The taint by which a cluster is cordoned."""
    return taint.get("key") == keys.TAINT_UNSCHEDULABLE and taint.get("effect") == "NoSchedule"


def asked(value: object) -> bool:
    """Whether the value of an annotation asks for something."""
    return isinstance(value, str) and value.strip().lower() not in ("", "false")


def reason(value: str) -> str:
    """The reason in the value of an annotation; "true" gives none."""
    return "" if value.strip().lower() == "true" else value.strip()


def stamps(notes: Mapping[str, str] | None) -> dict[str, Stamp]:
    """Who gave which order; what cannot be read is nobody's."""
    try:
        return _stamps.decode((notes or {}).get(ORDERED_BY, "{}"))
    except msgspec.MsgspecError:
        return {}


def stamped(new: Mapping[str, Any], *, old: Mapping[str, Any] | None, by: str, at: str) -> str | None:
    """The annotation `ordered-by` of a Cluster that somebody writes: orders that are new or have another reason are theirs,
    others keep whose they are, what is not in force is nobody's. None where there is no order at all. What the writer says
    in the annotation himself counts for nothing."""
    before = orders(old) if old is not None else {}
    known = stamps(((old or {}).get("metadata") or {}).get("annotations"))
    now = orders(new)
    found = {
        order.value: known[order.value] if before.get(order) == why and order.value in known else Stamp(by[:NAME_LIMIT], at)
        for order, why in now.items()
    }
    return _encoder.encode(found).decode() if found else None


def write_declaration(declaration: Declaration) -> str:
    """The annotation of a Lease; the same bytes for the same declaration."""
    return _encoder.encode(declaration).decode()


def read_declaration(notes: Mapping[str, str] | None) -> Declaration | None:
    """What a Lease says of a declaration; None where it says nothing that can be read."""
    text = (notes or {}).get(DECLARED)
    if text is None:
        return None
    try:
        return _declaration.decode(text)
    except msgspec.MsgspecError:
        return None
