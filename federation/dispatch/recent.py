"""What was just written, until the watch has brought it back: so that the next round does not plan on older views."""

from __future__ import annotations

from typing import Generic, TypeVar

from machinery.informer import Informer, Key, Projected, is_newer

P = TypeVar("P", bound=Projected)


class Recent(Generic[P]):
    """An informer's store with newer answers of writes laid over it."""

    def __init__(self, informer: Informer[P]) -> None:
        self._informer = informer
        self._written: dict[Key, P] = {}

    def note(self, view: P) -> None:
        """The API server answered a write with this."""
        if is_newer(view.version, self._informer.reached):
            self._written[(view.namespace, view.name)] = view

    def get(self, namespace: str, name: str) -> P | None:
        """The newest that is known."""
        known = self._informer.get(namespace, name)
        written = self._written.get((namespace, name))
        if written is None:
            return known
        if not is_newer(written.version, self._informer.reached):
            del self._written[(namespace, name)]
            return known
        return written if known is None or is_newer(written.version, known.version) else known
