"""Admission as one piece for a program: certificates and server in every replica, registration by the one that leads."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Iterable, Mapping

from apis.batch import PLUGIN_ENTRY_POINTS, PLUGINS
from controllers.admission import webhooks
from controllers.admission.door import Door, DoorRules
from controllers.admission.facts import InformedFacts
from controllers.admission.keyring import Keyring
from controllers.admission.registration import Registration
from controllers.admission.reviews import JobJudge, Rules
from controllers.admission.server import WebhookServer
from controllers.admission.settings import AdmissionSettings
from machinery.clock import Chance, Clock
from machinery.extensions import entry_points
from machinery.http import Check
from machinery.informer import InformerMetrics, Informers
from machinery.port import Port

FOR_RIGHTS = frozenset({"jobtemplates"})
"""Kinds that are looked at only for the rights that they take."""
FOR_NAMESPACES = frozenset({"podgroups", "placementreviews"})
"""Who serves one of them judges by namespaces: a member by the queue that one names, a hub by whom a queue is for."""


def job_plugins(more: Iterable[str] = ()) -> tuple[str, ...]:
    """Names of the job plugins that come with the programs, that are installed beside them, and of `more`."""
    return tuple(dict.fromkeys([*PLUGINS, *_installed(), *more]))


@functools.cache
def _installed() -> tuple[str, ...]:
    return tuple(sorted(each.name for each in entry_points(PLUGIN_ENTRY_POINTS)))


class Admission:
    """`run` in every replica, `register` in the leader. Neither does anything to objects of users.

    `plurals`: what this program serves unless settings say fewer; `judge`: what it has to say about Jobs beside the rules.
    """

    def __init__(
        self,
        port: Port,
        *,
        clock: Clock,
        chance: Chance,
        settings: AdmissionSettings,
        plurals: Iterable[str],
        judge: JobJudge | None = None,
        metrics: InformerMetrics | None = None,
    ) -> None:
        self._port = port
        self._clock = clock
        self._chance = chance
        self._settings = settings
        self._metrics = metrics
        plurals = set(plurals if settings.kinds is None else settings.kinds)
        self._namespaces = not plurals.isdisjoint(FOR_NAMESPACES)
        self._webhooks = webhooks.served(
            plurals if settings.check_use else plurals - FOR_RIGHTS,
            schedulers=(settings.scheduler, *settings.more_schedulers),
            groups=settings.resource_groups,
            gates=settings.queue_gates,
        )
        self._informers = self._informers_of_its_own()
        self._keyring: Keyring | None = None
        self._server: WebhookServer | None = None
        if settings.enabled:
            self._keyring = self._ring()
            self._server = self._made_server(self._keyring, judge=judge)

    @property
    def checks(self) -> Mapping[str, Check]:
        """For `/readyz`: a replica that does not answer webhooks is not ready."""
        server = self._server
        return {} if server is None else {"admission": lambda: server.started}

    @property
    def port(self) -> int:
        """The port served on; 0 when switched off."""
        return self._server.port if self._server is not None else 0

    async def wait_started(self) -> None:
        """Return once reviews are answered; never where it is switched off."""
        await (self._server.wait_started() if self._server is not None else asyncio.Event().wait())

    async def run(self) -> None:
        """Serve until cancelled, from when there are certificates and Queues have been read."""
        if self._keyring is None or self._server is None:
            await asyncio.Event().wait()
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run(), name="informers-admission")
            group.create_task(self._keyring.run(), name="certificates")
            await self._keyring.wait_ready()
            await self._informers.wait_synced()
            await self._server.run()

    async def register(self) -> None:
        """Keep the configurations of the API server until cancelled."""
        informers = self._informers_of_its_own()
        registration = Registration(
            self._port,
            informers=informers,
            clock=self._clock,
            settings=self._settings,
            webhooks=self._webhooks,
            keyring=self._keyring,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(informers.run(), name="informers-registration")
            if self._server is not None:
                await self._server.wait_started()
            await registration.run()

    @contextlib.asynccontextmanager
    async def registered(self) -> AsyncIterator[None]:
        """`register` while the block runs."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.register(), name="webhooks")
            try:
                yield
            finally:
                task.cancel()

    def _informers_of_its_own(self) -> Informers:
        return Informers(self._port, self._clock, self._chance, metrics=self._metrics)

    def _ring(self) -> Keyring:
        return Keyring(
            self._port,
            informers=self._informers,
            clock=self._clock,
            namespace=self._settings.namespace,
            name=self._settings.secret,
            names=self._settings.names(),
            lives=self._settings.lifetimes,
        )

    def _made_server(self, keyring: Keyring, *, judge: JobJudge | None) -> WebhookServer:
        settings = self._settings
        door = DoorRules(check_use=settings.check_use, trusted=frozenset(settings.trusted), limits=settings.limits)
        rules = Rules(
            scheduler=settings.scheduler,
            more_schedulers=settings.more_schedulers,
            plugins=job_plugins(settings.job_plugins),
            more=judge,
            groups=settings.resource_groups,
            gates=settings.queue_gates,
            largest_job=settings.limits.largest_job,
            max_depth=settings.max_queue_depth,
            fixed_root=settings.fixed_root,
            check_queue_pods=settings.check_queue_pods,
        )
        return WebhookServer(
            self._webhooks,
            source=InformedFacts(self._port, informers=self._informers, namespaces=self._namespaces),
            rules=rules,
            context=keyring.context,
            door=Door(self._port, clock=self._clock, rules=door, informers=self._informers),
            most_at_once=settings.most_at_once,
            host=settings.host,
            port=settings.port,
        )
