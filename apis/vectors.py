"""Resource vectors: amounts by resource name, in milli units, with the order "fits within".

Every resource counts in thousandths (one core, one byte and one pod are 1000 each), so that vectors add without knowing
what they count. A missing resource is zero and a zero is never stored, so equal amounts are equal vectors.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping
from typing import Any, Final

from apis.quantities import Format, InvalidQuantity, Quantity, parse

MILLI: Final = 1000
"""Units of a vector in one core, byte or pod."""

MOST: Final = 2**58
"""Milli units beyond which nobody has a node or asks for a pod: 256 TiB of memory; several of it still add up in 64 bits."""

_BYTES: Final = ("memory", "storage", "ephemeral-storage")
_NANO_PER_MILLI: Final = 10**6


def counts_bytes(resource: str) -> bool:
    """Whether amounts of this resource are written with binary suffixes (memory, storage, huge pages; quota names too)."""
    name = resource.removeprefix("requests.").removeprefix("limits.")
    return name in _BYTES or name.startswith("hugepages-")


class ResourceVector(Mapping[str, int]):
    """An immutable mapping from resource name to milli units; may hold negative amounts after a subtraction.

    `a <= b` means a fits within b: no resource of a exceeds that of b. It is a partial order, so `not a <= b` does not mean
    `b <= a`. Iteration is by name.
    """

    __slots__ = ("_amounts", "_hash")

    def __init__(self, amounts: Mapping[str, int] | Iterable[tuple[str, int]] = ()) -> None:
        self._amounts: dict[str, int] = {name: amount for name, amount in sorted(dict(amounts).items()) if amount}
        self._hash: int | None = None

    @classmethod
    def from_quantities(cls, quantities: Mapping[str, Any] | None) -> ResourceVector:
        """Read a Kubernetes resource list; finer than milli is rounded up.

        Raises InvalidQuantity naming resource and text.
        """
        amounts = {}
        for name, text in (quantities or {}).items():
            try:
                amounts[name] = parse(text).milli
            except InvalidQuantity as error:
                raise InvalidQuantity(text, reason=f"no amount of {name}: {error}") from error
        return cls(amounts)

    def bounded(self) -> ResourceVector:
        """Without what is negative, and nothing beyond `MOST`: amounts that somebody wrote may be any number, and tables of 64
        bits count them."""
        if all(0 <= amount <= MOST for amount in self._amounts.values()):
            return self
        return ResourceVector({name: min(max(amount, 0), MOST) for name, amount in self._amounts.items()})

    def to_quantities(self) -> dict[str, str]:
        """As a Kubernetes resource list, in canonical text."""
        return {name: str(quantity(name, milli=amount)) for name, amount in self._amounts.items()}

    def __getitem__(self, name: str) -> int:
        return self._amounts[name]

    def get(self, name: str, default: Any = 0) -> Any:
        """Milli units of `name`; zero when it is not named."""
        return self._amounts.get(name, default)

    def items(self) -> ItemsView[str, int]:
        """Names and amounts, by name; the inherited one looks every amount up again."""
        return self._amounts.items()

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __eq__(self, other: object) -> bool:
        return self._amounts == other._amounts if isinstance(other, ResourceVector) else NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._amounts.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"ResourceVector({self._amounts})"

    def __str__(self) -> str:
        return ", ".join(f"{name} {spoken(name, milli=amount)}" for name, amount in self._amounts.items()) or "nothing"

    def __add__(self, other: ResourceVector) -> ResourceVector:
        amounts = dict(self._amounts)
        for name, amount in other._amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
        return ResourceVector(amounts)

    def __sub__(self, other: ResourceVector) -> ResourceVector:
        amounts = dict(self._amounts)
        for name, amount in other._amounts.items():
            amounts[name] = amounts.get(name, 0) - amount
        return ResourceVector(amounts)

    def __mul__(self, times: int) -> ResourceVector:
        return ResourceVector({name: amount * times for name, amount in self._amounts.items()})

    __rmul__ = __mul__

    def __neg__(self) -> ResourceVector:
        return self * -1

    def __le__(self, other: ResourceVector) -> bool:
        mine, room = self._amounts, other._amounts
        return all(amount <= room.get(name, 0) for name, amount in mine.items()) and all(
            amount >= 0 or name in mine for name, amount in room.items()
        )

    def __ge__(self, other: ResourceVector) -> bool:
        return other <= self

    def at_least(self, other: ResourceVector) -> ResourceVector:
        """Per resource the larger of the two (the least upper bound of the order)."""
        names = self._amounts.keys() | other._amounts.keys()
        return ResourceVector({name: max(self.get(name), other.get(name)) for name in names})

    def at_most(self, other: ResourceVector) -> ResourceVector:
        """Per resource the smaller of the two (the greatest lower bound of the order)."""
        names = self._amounts.keys() | other._amounts.keys()
        return ResourceVector({name: min(self.get(name), other.get(name)) for name in names})

    def positive(self) -> ResourceVector:
        """Without what is below zero."""
        return ResourceVector({name: amount for name, amount in self._amounts.items() if amount > 0})

    def shortfall(self, room: ResourceVector) -> ResourceVector:
        """What `room` lacks to hold this: empty exactly when this fits within it."""
        return (self - room).positive()

    def copies_within(self, room: ResourceVector, *, limit: int) -> int:
        """How many times this fits into `room`, at most `limit`. A vector that asks for nothing fits `limit` times."""
        best = limit
        for name, amount in self._amounts.items():
            if amount > 0:
                best = min(best, max(room.get(name), 0) // amount)
        return max(best, 0)


EMPTY: Final = ResourceVector()


def quantity(resource: str, *, milli: int) -> Quantity:
    """An amount of a vector as a quantity, in the suffixes people write that resource in."""
    return Quantity(milli * _NANO_PER_MILLI, Format.BINARY if counts_bytes(resource) else Format.DECIMAL)


_SUFFIXES: Final = (("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def spoken(resource: str, *, milli: int) -> str:
    """An amount of a vector for people: a plain number (97.6, not 97600m), odd bytes in the largest binary suffix (9.6Gi). Only
    cpu below one core stays in milli, as people write it. What has more than three digits behind the point is rounded."""
    if counts_bytes(resource):
        amount = abs(milli) // MILLI
        if milli % MILLI == 0 and amount % 2**20 == 0:
            return str(quantity(resource, milli=milli))
        suffix, unit = next((each for each in _SUFFIXES if amount >= each[1]), ("", 1))
        return ("-" if milli < 0 else "") + _plain(amount / unit) + suffix
    if resource.removeprefix("requests.").removeprefix("limits.") == "cpu" and 0 < abs(milli) < MILLI:
        return f"{milli}m"
    return _plain(milli / MILLI)


def _plain(number: float) -> str:
    """Without an exponent and without zeros at the end."""
    return f"{number:.3f}".rstrip("0").rstrip(".")


def total(vectors: Iterable[ResourceVector]) -> ResourceVector:
    """The sum; empty for none."""
    amounts: dict[str, int] = {}
    for vector in vectors:
        for name, amount in vector._amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
    return ResourceVector(amounts)
