"""Where Jobs are sent, for those who record it: what bindings say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from apis import naming
from controllers.flows.snapshot import Placed
from machinery.informer import Informer
from policies.views import BindingView


class BindingPlaces:
    """Answers from the program's own informer of bindings."""

    def __init__(self, bindings: Informer[BindingView]) -> None:
        self._bindings = bindings

    async def wait_synced(self) -> None:
        """Return once every binding is known."""
        await self._bindings.wait_synced()

    def of(self, namespace: str, jobs: Iterable[str]) -> Mapping[str, Placed]:
        """Of these Jobs those that have clusters, by name."""
        found = {}
        for job in jobs:
            binding = self._bindings.get(namespace, naming.binding_name(job))
            if binding is not None and binding.clusters:
                found[job] = Placed(binding.clusters, binding.decision.data if binding.decision is not None else "")
        return found
