"""bus.volcano.sh/v1alpha1: Command, an order to a Job or a Queue, carried out at most once (reference/volcano.md 1.6)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from apis import kinds
from apis.meta import OwnerReference, Resource
from apis.schema import served


class Command(Resource):
    """An order: the action and whom it is for."""

    served_as: ClassVar[kinds.Kind] = kinds.COMMAND

    action: Annotated[str | None, served(maxLength=64)] = None
    target: OwnerReference | None = None
    reason: str | None = None
    message: str | None = None
