"""config.karmada.io/v1alpha1: ResourceInterpreterCustomization, how objects of a kind are understood.

Karmada's shape (reference/karmada.md 5.3). Scripts are expressions (`cel`); one in Lua is kept and told, because nothing here
runs Lua.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from apis import kinds
from apis.meta import Model, Resource
from apis.schema import served

LONGEST_SCRIPT = 4096


class Script(Model):
    cel: Annotated[str | None, served(maxLength=LONGEST_SCRIPT)] = None
    """In the Common Expression Language."""
    lua_script: str | None = None


class CustomizationTarget(Model):
    api_version: Annotated[str, served(minLength=1)]
    kind: Annotated[str, served(minLength=1)]


class Customizations(Model):
    """What is asked of an object; what is not given goes by the rules that come along."""

    replica_resource: Script | None = None
    component_resource: Script | None = None
    replica_revision: Script | None = None
    retention: Script | None = None
    health_interpretation: Script | None = None
    status_reflection: Script | None = None
    status_aggregation: Script | None = None
    dependency_interpretation: Script | None = None


class CustomizationSpec(Model):
    target: CustomizationTarget
    customizations: Customizations


class ResourceInterpreterCustomization(Resource):
    """How objects of one kind are understood."""

    served_as: ClassVar[kinds.Kind] = kinds.INTERPRETER

    spec: CustomizationSpec
