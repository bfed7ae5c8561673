"""Kubernetes quantities as exact integers.

A quantity is a whole number of nano units and the family of suffixes it was written in. Reading, rounding and writing
follow the published definition of the Kubernetes `Quantity` type: finer than nano is rounded away from zero, larger than
2^63-1 is capped, the canonical text has no fraction and the largest suffix that loses nothing.
"""

from __future__ import annotations

import enum
import functools
import re
from dataclasses import dataclass, field
from typing import Final

NANO: Final = 10**9
"""Nano units in one."""
LIMIT: Final = (2**63 - 1) * NANO
"""The largest magnitude a text can stand for, in nano units; more is capped, as Kubernetes does."""
MAX_LENGTH: Final = 256
"""Longer texts are refused: no amount needs them, and reading them costs more than it is worth."""

PATTERN: Final = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"
"""What an API server may check a quantity's text against (schemas of CRDs)."""

_TEXT = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+)|(?P<decimal>[numkMGTPE]))?"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class InvalidQuantity(ValueError):
    """A text that is no quantity; the message names the text."""

    def __init__(
        self, text: object, *, reason: str = "not a quantity: want a number and a suffix, such as 500m, 2 or 4Gi"
    ) -> None:
        shown = repr(text)
        super().__init__(f"{shown if len(shown) <= 80 else shown[:77] + '...'} is {reason}")


class Format(enum.Enum):
    """Which family of suffixes a quantity is written in."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


def _up(amount: int, unit: int) -> int:
    """`amount / unit`, rounded away from zero."""
    return -(-amount // unit) if amount >= 0 else amount // unit


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact amount. Equality and order look at the amount only: `1000m` equals `1`."""

    nano: int
    """The amount in nano units."""
    format: Format = field(default=Format.DECIMAL, compare=False)

    @property
    def milli(self) -> int:
        """Thousandths, rounded away from zero."""
        return _up(self.nano, 10**6)

    @property
    def value(self) -> int:
        """Whole units, rounded away from zero."""
        return _up(self.nano, NANO)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    def __mul__(self, times: int) -> Quantity:
        return Quantity(self.nano * times, self.format)

    __rmul__ = __mul__

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __str__(self) -> str:
        """The canonical text: no fraction, the largest suffix that loses nothing."""
        if self.nano == 0:
            return "0"
        if self.format is Format.BINARY and abs(self.nano) >= 1024 * NANO and self.nano % NANO == 0:
            return _binary_text(self.nano // NANO)
        return _decimal_text(self.nano, exponent=self.format is Format.EXPONENT)


def _binary_text(value: int) -> str:
    power = 0
    while value % 1024 == 0 and power < len(_BINARY_SUFFIX) - 1:
        value //= 1024
        power += 1
    return f"{value}{_BINARY_SUFFIX[power]}"


def _decimal_text(nano: int, *, exponent: bool) -> str:
    power = -9
    while nano % 1000 == 0 and power < 18:
        nano //= 1000
        power += 3
    if exponent:
        return f"{nano}e{power}" if power else str(nano)
    return f"{nano}{_DECIMAL_SUFFIX[power]}"


def parse(text: str | int | float) -> Quantity:
    """Read what a manifest says: text, or a bare JSON number. Raises InvalidQuantity naming the text."""
    if isinstance(text, str):
        return _parse(text)
    if isinstance(text, bool) or not isinstance(text, int | float):
        raise InvalidQuantity(text)
    return _parse(str(text))


def is_quantity(text: object) -> bool:
    """Whether `parse` would accept it."""
    try:
        parse(text)  # type: ignore[arg-type]
    except InvalidQuantity:
        return False
    return True


@functools.lru_cache(maxsize=8192)
def _parse(text: str) -> Quantity:
    if len(text) > MAX_LENGTH:
        raise InvalidQuantity(text, reason=f"longer than {MAX_LENGTH} characters")
    match = _TEXT.fullmatch(text) if text.isascii() else None
    if match is None:
        raise InvalidQuantity(text)
    whole, part = match["whole"], match["part"] or ""
    if not whole and not part:
        raise InvalidQuantity(text)
    digits = int(whole + part or "0")
    power = 9 - len(part)
    if match["binary"]:
        shift, format = _BINARY[match["binary"]], Format.BINARY
    elif match["exponent"]:
        shift, format = 0, Format.EXPONENT
        power += _bounded(int(match["exponent"]))
    else:
        shift, format = 0, Format.DECIMAL
        power += _DECIMAL[match["decimal"] or ""]
    amount = _scale(digits << shift, power=power)
    if format is Format.BINARY and amount < NANO:
        format = Format.DECIMAL
    return Quantity(-amount if match["sign"] == "-" else amount, format)


def _bounded(exponent: int) -> int:
    """An exponent beyond what can matter (cap above, one nano below), so that no text makes us raise ten to a billion."""
    reach = MAX_LENGTH + 64
    return max(-reach, min(exponent, reach))


def _scale(amount: int, *, power: int) -> int:
    """`amount * 10**power` for a non-negative amount, rounded up to a whole and capped."""
    return min(amount * 10**power if power >= 0 else _up(amount, 10**-power), LIMIT)
