"""Probes of steps at the hub: the members that run the targets ask their pods, and answer in a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from controllers.flows.plans import ProbeWanted
from federation.channel.reading import Missing, find
from federation.channel.switchboard import Switchboard
from machinery import errors
from machinery.port import Port


class ChannelProber:
    """Reaches pods wherever their Jobs run, over the connections of this replica; it is the leader's that is asked."""

    def __init__(self, port: Port, *, switchboard: Switchboard) -> None:
        self._port = port
        self._switchboard = switchboard

    async def ask(self, namespace: str, wanted: ProbeWanted) -> str:
        """ "" when every pod answers, else which does not and how; a member that cannot be asked is named."""
        for job in wanted.jobs:
            try:
                said = await self._job(namespace, job, wanted)
            except errors.ApiError as error:
                said = f"Job {job}: {error.message}"
            if said:
                return said
        return ""

    async def _job(self, namespace: str, job: str, wanted: ProbeWanted) -> str:
        found = await find(self._port, namespace=namespace, name=job)
        if isinstance(found, Missing):
            return found.text
        asked = False
        for cluster, shares in found.parts.items():
            gets = tuple(each for each in wanted.probe.http_get_list or () if _has(shares, each.task_name))
            sockets = tuple(each for each in wanted.probe.tcp_socket_list or () if _has(shares, each.task_name))
            if not gets and not sockets:
                continue
            asked = True
            said = await self._switchboard.probe(cluster, job=found.uid, namespace=namespace, gets=gets, sockets=sockets)
            if said:
                return f"cluster {cluster}: {said}"
        return "" if asked else f"Job {job} has no pod of the tasks that the probe names"


def _has(shares: Mapping[str, int] | None, task: str) -> bool:
    """Whether a part of a Job has pods of a task ("": of any)."""
    return shares is None or not task or shares.get(task, 0) > 0
