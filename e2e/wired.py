"""The shared federation with every program behind tripwires: each connection to an API server goes through a proxy."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from e2e import programs
from e2e.controlplane.fleet import Federation
from e2e.tripwire import Tripwires, Wire


class Wired:
    """Proxies in a thread of their own; a wire that trips kills the program behind it, which is started again at once."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self._proxies: list[Tripwires] = []
        self.hits: list[str] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Programs start behind proxies; afterwards they are started again as they were."""
        self._federation.programs.stop_all()  # in order, so that leaders give their Leases back
        stop, ready = threading.Event(), threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(self._serve(stop, ready)), name="tripwires")
        thread.start()
        try:
            if not ready.wait(30):
                raise RuntimeError("the proxies did not start within 30 s")
            yield
        finally:
            stop.set()
            self._federation.programs.stop_all()
            thread.join()
            programs.start_all(self._federation)

    def arm(self, wires: Sequence[Wire]) -> None:
        """From now on these wires count."""
        for proxy in self._proxies:
            proxy.wires = list(wires)

    async def _serve(self, stop: threading.Event, ready: threading.Event) -> None:
        async with contextlib.AsyncExitStack() as stack:
            hub = await stack.enter_async_context(self._proxy(programs.HUB, self._federation.hub.kubeconfig))
            programs.start_hub(self._federation, kubeconfig=hub)
            for name, member in self._federation.members.items():
                agent = programs.agent_name(name)
                there = await stack.enter_async_context(self._proxy(agent, self._federation.hub.kubeconfig, "hub"))
                here = await stack.enter_async_context(self._proxy(agent, member.kubeconfig, "local"))
                programs.start_agent(self._federation, name, hub_kubeconfig=there, kubeconfig=here)
                programs.start_fencer(self._federation, name)
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(0.1)

    @contextlib.asynccontextmanager
    async def _proxy(self, program: str, kubeconfig: Path, side: str = "hub") -> AsyncIterator[Path]:
        config = yaml.safe_load(kubeconfig.read_text())
        with tempfile.TemporaryDirectory() as folder:
            server, context = _upstream(config, Path(folder))

            def kill(wire: Wire) -> None:
                self._federation.programs.kill(program)
                self.hits.append(f"{program} killed {wire.hit}")
                self._federation.programs.restart(program)

            proxy = Tripwires(upstream=server, upstream_ssl=context, headers={}, kill=kill)
            self._proxies.append(proxy)
            async with proxy.serving() as url:
                path = Path(folder) / f"{program}-{side}.kubeconfig"
                path.write_text(_plain_kubeconfig(url))
                yield path


def _upstream(config: dict[str, Any], folder: Path) -> tuple[str, ssl.SSLContext]:
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    certificate, key = folder / "client.crt", folder / "client.key"
    certificate.write_bytes(base64.b64decode(user["client-certificate-data"]))
    key.write_bytes(base64.b64decode(user["client-key-data"]))
    context.load_cert_chain(certificate, key)
    return cluster["server"], context


def _plain_kubeconfig(url: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "wired", "cluster": {"server": url}}],
            "users": [{"name": "wired", "user": {}}],
            "contexts": [{"name": "wired", "context": {"cluster": "wired", "user": "wired"}}],
            "current-context": "wired",
        }
    )
