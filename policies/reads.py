"""What a Job reads, from where (design.md 3, 7): the setting `reads`, DataSources, and what is told of it.

`reads` lists sources by commas: `images=2Gi`, or `images` alone where a DataSource of that name says how much it is. Where a
source lies is said by its DataSource, or with it: `prepare@east=50Gi`, which the flow controller writes for the targets of a
step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from apis.quantities import InvalidQuantity, parse
from policies.estimates import Option, Read
from policies.offers import GIB
from policies.views import Meta, Problem

MIB: Final = 1 << 20
TOLD: Final = 3
"""Sources that a sentence names before it only counts."""


@dataclass(frozen=True, slots=True)
class SourceView:
    """A DataSource: bytes (None: not said), and the clusters where all of it lies."""

    namespace: str
    name: str
    uid: str = ""
    version: str = ""
    size: int | None = None
    clusters: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    deleting: bool = False


def reads_of(
    text: str, *, sources: Mapping[str, SourceView] | None = None, regions: Mapping[str, str] | None = None
) -> tuple[tuple[Read, ...], tuple[Problem, ...]]:
    """What a Job reads, and what is wrong with what it says. `regions` are those of the clusters, by name."""
    found, wrong = [], []
    for pair in filter(None, (each.strip() for each in text.split(","))):
        try:
            found.append(_read(pair, sources=sources or {}, regions=regions or {}))
        except ValueError as error:
            wrong.append(Problem("reads", str(error)))
    return tuple(found), tuple(wrong)


def _read(pair: str, *, sources: Mapping[str, SourceView], regions: Mapping[str, str]) -> Read:
    named, equals, amount = pair.partition("=")
    name, at, cluster = named.partition("@")
    source = sources.get(name)
    if not name or (at and not cluster):
        raise ValueError(f"{pair!r} is not source=size")
    size = amount_of(amount, what=pair) if equals else source.size if source is not None else None
    if size is None:
        raise ValueError(f"{pair!r} does not say how much it is, nor does a DataSource of that name")
    homes = [cluster] if cluster else [*source.clusters] if source is not None else []
    places = [(home, regions.get(home, "")) for home in homes] or [("", "")]
    return Read(name, size, *places[0], copies=tuple(places[1:]))


def amount_of(text: str, *, what: str) -> int:
    """Whole bytes of a quantity, rounded up; raises ValueError."""
    try:
        size = parse(text).value
    except InvalidQuantity as error:
        raise ValueError(f"{what!r}: {error}") from error
    if size < 0:
        raise ValueError(f"{what!r} is less than nothing")
    return size


def told(reads: Sequence[Read], option: Option) -> str:
    """Why data spoke for (or against) where a Job goes, in a sentence; "" for one that reads nothing."""
    everything = sum(each.size for each in reads)
    if not everything:
        return ""
    here = [each for each in reads if any(home == option.cluster for home, _ in each.places)]
    away = [each for each in reads if each.size and each not in here]
    text = f"of {_amount(everything)} that it reads {_amount(sum(each.size for each in here))} are in {option.cluster}"
    if here and len({each.source for each in here}) <= TOLD:
        text += f" ({', '.join(dict.fromkeys(each.source for each in here))})"
    if not away:
        return text
    homes = sorted({home for each in away for home, _ in each.places if home})
    text += f"; the rest comes from {', '.join(homes[:TOLD]) or 'nobody knows where'}"
    unknown = [each for each in option.missing if each.startswith(("price to bring", "bandwidth to bring"))]
    if unknown:
        return f"{text}, and nobody said {unknown[0]}"
    return f"{text} for {option.egress:.4g} in {option.transfer:.4g} s"


def _amount(size: int) -> str:
    return f"{size / GIB:.4g}Gi" if size >= GIB or not size else f"{size / MIB:.4g}Mi"


# --- reading ---------------------------------------------------------------------------------------------------------
class _Locality(msgspec.Struct, frozen=True, rename="camel"):
    cluster_names: list[str] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    size: Any = None
    locality: _Locality | None = None


class _Source(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Meta = Meta()
    spec: _Spec = _Spec()


_decoder = msgspec.json.Decoder(_Source)


def project_source(document: bytes) -> SourceView:
    """A DataSource; a size that cannot be read is a problem and counts as not said."""
    read = _decoder.decode(document)
    meta, spec = read.metadata, read.spec
    size, problems = None, list[Problem]()
    if spec.size is not None:
        try:
            size = amount_of(str(spec.size), what=str(spec.size))
        except ValueError as error:
            problems.append(Problem("spec.size", str(error)))
    return SourceView(
        namespace="",
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        size=size,
        clusters=tuple(dict.fromkeys((spec.locality.cluster_names if spec.locality else None) or ())),
        problems=tuple(problems),
        deleting=meta.deletion_timestamp is not None,
    )


def by_name(sources: Iterable[SourceView]) -> dict[str, SourceView]:
    """Those that are there, by the name that Jobs use."""
    return {each.name: each for each in sources if not each.deleting}
