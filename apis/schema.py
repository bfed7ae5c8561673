"""What a served schema says beyond a field's type: bounds, defaults and CEL rules.

Python types state shape only, so that a controller can read an object that breaks a rule and say which; bounds live in the
served schema and, once more, in `controllers/admission`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple

from pydantic import AfterValidator, Field

from apis.quantities import MAX_LENGTH, PATTERN, parse

BARE: Final = "x-bare"
"""Marks a subtree served without defaults, required fields and rules (what is written there is completed elsewhere)."""
UNDEFAULTED: Final = "x-undefaulted"
"""Marks a subtree served without defaults."""
SERVED_DEFAULT: Final = "x-served-default"
OPAQUE: Final[Mapping[str, Any]] = {"x-kubernetes-preserve-unknown-fields": True}
SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


class Rule(NamedTuple):
    """A CEL rule. `path` names the field at fault, relative to where the rule stands. `optional_old`: `oldSelf` is an optional,
    which has no value on creation, so that one rule judges creations and changes."""

    expression: str
    message: str
    path: str = ""
    optional_old: bool = False


def rules(*given: Rule) -> dict[str, Any]:
    """Rules as a schema writes them."""
    return {
        "x-kubernetes-validations": [
            {
                "rule": " ".join(rule.expression.split()),
                "message": rule.message,
                **({"fieldPath": rule.path} if rule.path else {}),
                **({"optionalOldSelf": True} if rule.optional_old else {}),
            }
            for rule in given
        ]
    }


def served(*rule: Rule, default: Any = None, **keywords: Any) -> Any:
    """What the schema of a field says: JSON schema keywords, a default (not for the Python value) and rules."""
    extra: dict[str, Any] = dict(keywords)
    if default is not None:
        extra[SERVED_DEFAULT] = default
    if rule:
        extra |= rules(*rule)
    return Field(json_schema_extra=extra)


def opaque(**keywords: Any) -> Any:
    """A field whose content is kept as it is and not looked into."""
    return Field(json_schema_extra={**OPAQUE, **keywords})


def one_of(*values: str, **keywords: Any) -> Any:
    """A field with a closed set of values."""
    return served(enum=list(values), **keywords)


def _checked(value: str | int | float) -> str | int | float:
    parse(value)
    return value


Amount = Annotated[
    str | int | float,
    AfterValidator(_checked),
    Field(json_schema_extra={"x-quantity": True, "pattern": PATTERN, "maxLength": MAX_LENGTH}),
]
"""A quantity as it was written; reading refuses one that is malformed and names it."""

Int32 = Annotated[int, Field(json_schema_extra={"format": "int32"})]
Count = Annotated[int, Field(json_schema_extra={"format": "int32", "minimum": 0})]
Positive = Annotated[int, Field(json_schema_extra={"format": "int32", "minimum": 1})]
Port = Annotated[int, Field(json_schema_extra={"minimum": 0, "maximum": 65535})]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""RFC 3339, kept as text so that it is written back as it was read."""
Duration = str
"""As Go writes it: 1h30m."""
Object = Annotated[dict[str, Any], Field(json_schema_extra=dict(OPAQUE))]
"""An object kept as it is."""
