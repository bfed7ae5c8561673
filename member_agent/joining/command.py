"""`member-agent join`: gets the first credential, once, as helm's hook runs it."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer

from apis import keys
from machinery import errors
from machinery.clock import SystemClock
from machinery.port import Port
from member_agent.joining.credential import Hub
from member_agent.joining.joiner import Joiner, NotJoined, Place

SECRET = "member-agent-hub"
"""Name of the Secret with the credential, unless told otherwise."""


@contextlib.asynccontextmanager
async def opened(config: str) -> AsyncIterator[Port]:
    """The hub by a kubeconfig, which is in no file longer than it takes to read it."""
    from machinery.kube import KubePort  # the library behind it takes a second to import

    with tempfile.NamedTemporaryFile("w", suffix=".kubeconfig") as file:  # readable by us alone
        file.write(config)
        file.flush()
        port = await KubePort.from_kubeconfig(file.name)
    try:
        yield port
    finally:
        await port.close()


def join(
    cluster: Annotated[str, typer.Option("--cluster", help="Name of this member at the hub.")],
    server: Annotated[str, typer.Option("--server", help="https://host:port of the hub's API server.")],
    ca_file: Annotated[Path, typer.Option("--ca-file", help="PEM: who signs the certificate that the hub shows.")],
    token_file: Annotated[Path, typer.Option("--token-file", help="The token of `fedctl cluster join`, good for one use.")],
    kubeconfig: Annotated[Path | None, typer.Option(help="Kubeconfig of the member; none: in-cluster.")] = None,
    namespace: Annotated[str, typer.Option(help="Namespace of the agent in the member.")] = keys.SYSTEM_NAMESPACE,
    secret: Annotated[str, typer.Option(help="Name of the Secret that keeps the credential.")] = SECRET,
) -> None:
    """Join: ask the hub for a certificate by a token, and keep it in a Secret. A good one that is there is left as it is."""
    try:
        hub, token = Hub(server, ca_file.read_bytes()), token_file.read_text().strip()
        news = asyncio.run(_join(hub, token, cluster=cluster, kubeconfig=kubeconfig, place=Place(secret, namespace)))
    except OSError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except (NotJoined, errors.ApiError, ValueError) as error:
        said = error.message if isinstance(error, errors.ApiError) else str(error)
        typer.echo(f"error: cluster {cluster} has not joined: {said}", err=True)
        raise typer.Exit(1) from None
    typer.echo(
        f"cluster {cluster} has joined" if news else f"cluster {cluster} has a credential already; the token is not used"
    )


async def _join(hub: Hub, token: str, *, cluster: str, kubeconfig: Path | None, place: Place) -> bool:
    from machinery.kube import KubePort

    local = await (KubePort.from_kubeconfig(str(kubeconfig)) if kubeconfig is not None else KubePort.in_cluster())
    try:
        joiner = Joiner(local, clock=SystemClock(), cluster=cluster, place=place, opened=opened)
        return await joiner.join(hub, token=token)
    finally:
        await local.close()
