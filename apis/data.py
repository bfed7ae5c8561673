"""datadependency.volcano.sh/v1alpha1: DataSource, data that Jobs read (reference/volcano.md 7.4), with how much it is."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from apis import kinds
from apis.meta import Model, Resource
from apis.schema import Amount, Object, one_of, served


class Locality(Model):
    """Where the data lies: all of it in each of these clusters."""

    cluster_names: Annotated[list[str] | None, served(maxItems=1000, items={"type": "string", "minLength": 1})] = None


class DataSourceSpec(Model):
    """Where data lies, and how much it is."""

    system: Annotated[str | None, served(maxLength=253)] = None
    type: Annotated[str | None, served(maxLength=253)] = None
    name: Annotated[str | None, served(maxLength=1024)] = None
    """What the system calls it."""
    attributes: Annotated[dict[str, str] | None, served(maxProperties=64)] = None
    locality: Locality | None = None
    reclaim_policy: Annotated[str | None, one_of("", "Retain", "Delete")] = None
    size: Amount | None = None
    """Bytes; beyond upstream. What a Job says it reads of it goes before."""


class DataSource(Resource):
    """Data that Jobs name in `volcano-federation.io/reads`."""

    served_as: ClassVar[kinds.Kind] = kinds.DATA_SOURCE

    spec: DataSourceSpec = DataSourceSpec()
    status: Annotated[Object | None, Field()] = None
