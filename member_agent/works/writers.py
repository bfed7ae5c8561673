"""In whose name the hub's wishes are written here (protocol.md 8)."""

from __future__ import annotations

from machinery.port import Impersonator, Port


class Writers:
    """The agent's own account, or a service account of the namespace that is written to: what that may not write, the hub
    cannot have written, whoever rules the hub. Taking away is done in the agent's own name: an order to stop is always carried
    out."""

    def __init__(self, local: Port, *, account: str) -> None:
        self._local = local
        self._account = account

    def of(self, namespace: str) -> Port:
        """The port for writes into a namespace."""
        if not self._account:
            return self._local
        if not isinstance(self._local, Impersonator):
            raise TypeError(f"{type(self._local).__name__} cannot ask in somebody else's name")
        return self._local.acting_as(f"system:serviceaccount:{namespace}:{self._account}")
