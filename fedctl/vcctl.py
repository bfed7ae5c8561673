"""The entry `vcctl`: upstream's commands and columns (reference: volcano cmd/cli) over the code of fedctl, for scripts that
know them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from fedctl.desk import Action, Desk

main = typer.Typer(name="vcctl", no_args_is_help=True, add_completion=False, help="Volcano's command line, at a federation.")
job_app = typer.Typer(name="job", no_args_is_help=True, help="Jobs.")
queue_app = typer.Typer(name="queue", no_args_is_help=True, help="Queues.")
flow_app = typer.Typer(name="jobflow", no_args_is_help=True, help="JobFlows.")
template_app = typer.Typer(name="jobtemplate", no_args_is_help=True, help="JobTemplates.")
for group in (job_app, queue_app, flow_app, template_app):
    main.add_typer(group)

Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", "-k", envvar="KUBECONFIG", help="Kubeconfig of the hub.")]
Master = Annotated[str, typer.Option("--master", "-s", help="Taken for upstream's sake; the kubeconfig says where the hub is.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace.")]
JobName = Annotated[str, typer.Option("--name", "-N", help="Name of the Job.")]
QueueName = Annotated[str, typer.Option("--name", "-n", help="Name of the queue.")]
Name = Annotated[str, typer.Option("--name", "-N", help="Name.")]
File = Annotated[str, typer.Option("--filename", "-f", help="A .yaml or .yml file.")]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", help="In all namespaces.")]
Whole = Annotated[str, typer.Option("--output", "-o", help="yaml or json.")]

TYPE = "volcano.sh/job-type"
JOB_COLUMNS = (
    "Creation",
    "Phase",
    "JobType",
    "Replicas",
    "Min",
    "Pending",
    "Running",
    "Succeeded",
    "Failed",
    "Unknown",
    "RetryCount",
)
QUEUE_COLUMNS = ("Name", "Weight", "State", "Parent", "Inqueue", "Pending", "Running", "Unknown", "Completed")


# --- jobs ------------------------------------------------------------------------------------------------------------
@job_app.command("run")
def job_run(
    name: JobName = "",
    namespace: Namespace = "default",
    image: Annotated[str, typer.Option("--image", "-i", help="Image of the containers.")] = "busybox",
    minimum: Annotated[int, typer.Option("--min", "-m", help="Pods without which it does not start.")] = 1,
    replicas: Annotated[int, typer.Option("--replicas", "-r", help="Pods.")] = 1,
    requests: Annotated[str, typer.Option("--requests", "-R", help="As cpu=1000m,memory=100Mi.")] = "cpu=1000m,memory=100Mi",
    limits: Annotated[str, typer.Option("--limits", "-L", help="As cpu=1000m,memory=100Mi.")] = "cpu=1000m,memory=100Mi",
    scheduler: Annotated[str, typer.Option("--scheduler", "-S", help="Scheduler.")] = "volcano",
    filename: File = "",
    kubeconfig: Kubeconfig = None,
    master: Master = "",
) -> None:
    """Make a Job, of a file or of flags."""
    from fedctl import manifests
    from fedctl.submitting import Short, job

    if filename and not filename.endswith((".yaml", ".yml")):
        _fail("only support yaml file")
    if not filename and not name:
        _fail("job name cannot be left blank")

    async def action(desk: Desk) -> int:
        if filename:
            documents = manifests.read(filename)
        else:
            doc = job(Short(name=name, image=image, replicas=replicas, minimum=minimum))
            container = doc["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
            container["resources"] = {"requests": _amounts(requests), "limits": _amounts(limits)}
            doc["spec"]["schedulerName"] = scheduler
            documents = [doc]
        said = [f"run job {each['metadata']['name']} successfully" for each in documents]
        return await _make(desk, documents, said="\n".join(said))

    _run(kubeconfig, namespace, action)


@job_app.command("list")
def job_list(
    namespace: Namespace = "default",
    everywhere: Everywhere = False,
    queue: Annotated[str, typer.Option("--queue", "-q", help="Only of this queue.")] = "",
    scheduler: Annotated[str, typer.Option("--scheduler", "-S", help="Only of this scheduler.")] = "",
    selector: Annotated[str, typer.Option("--selector", help="Only names with this in them.")] = "",
    kubeconfig: Kubeconfig = None,
    master: Master = "",
) -> None:
    """List Jobs."""
    from apis import kinds
    from fedctl import views
    from fedctl.desk import every

    async def action(desk: Desk) -> int:
        found = [
            views.read_job(each) for each in await every(desk.port, kinds.JOB, namespace=None if everywhere else namespace)
        ]
        chosen = [
            each
            for each in found
            if (not queue or each.spec.queue == queue)
            and (not scheduler or each.spec.scheduler_name == scheduler)
            and selector in each.metadata.name
        ]
        desk.out(job_table(chosen, everywhere=everywhere))
        return 0

    _run(kubeconfig, namespace, action)


def job_table(jobs: Sequence[Any], *, everywhere: bool) -> str:
    """Upstream's table of Jobs; the column of names is as wide as the longest and three more."""
    if not jobs:
        return "No resources found"
    width = max(len("Name"), *(len(each.metadata.name) for each in jobs)) + 3
    spaces = max(len("Namespace"), *(len(each.metadata.namespace) for each in jobs)) + 3
    lines = []
    for each in (None, *jobs):
        name = "Name" if each is None else each.metadata.name
        cells = JOB_COLUMNS if each is None else _job_cells(each)
        first = ("Namespace" if each is None else each.metadata.namespace).ljust(spaces) if everywhere else ""
        lines.append(first + name.ljust(width) + _aligned(cells))
    return "\n".join(lines)


def _job_cells(job: Any) -> tuple[str, ...]:
    status = job.status
    return (
        _day(job.metadata.creation_timestamp),
        status.state.phase,
        job.metadata.labels.get(TYPE, "Batch"),
        str(job.pods),
        str(status.min_available if status.min_available is not None else job.spec.min_available or 0),
        str(status.pending),
        str(status.running),
        str(status.succeeded),
        str(status.failed),
        str(status.unknown),
        str(status.retry_count),
    )


def _aligned(cells: Sequence[str]) -> str:
    widths = (15, 12, 12, 12, 6, 10, 10, 12, 10, 10, 10)
    return "".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _day(created: str) -> str:
    try:
        return datetime.datetime.fromisoformat(created).strftime("%Y-%m-%d")
    except ValueError:
        return ""


@job_app.command("view")
def job_view(name: JobName, namespace: Namespace = "default", kubeconfig: Kubeconfig = None, master: Master = "") -> None:
    """Show everything about a Job."""
    from apis import kinds
    from fedctl import describing
    from fedctl.refs import Ref

    _run(kubeconfig, namespace, lambda desk: describing.describe(desk, Ref(kinds.JOB, name)))


@job_app.command("suspend")
def job_suspend(name: JobName, namespace: Namespace = "default", kubeconfig: Kubeconfig = None, master: Master = "") -> None:
    """Abort a Job; it can be resumed."""
    _order(kubeconfig, namespace, name, "AbortJob")


@job_app.command("resume")
def job_resume(name: JobName, namespace: Namespace = "default", kubeconfig: Kubeconfig = None, master: Master = "") -> None:
    """Let an aborted Job go on."""
    _order(kubeconfig, namespace, name, "ResumeJob")


@job_app.command("delete")
def job_delete(name: JobName, namespace: Namespace = "default", kubeconfig: Kubeconfig = None, master: Master = "") -> None:
    """Delete a Job."""
    from apis import kinds

    _run(kubeconfig, namespace, lambda desk: _gone(desk, kinds.JOB, name, said=f"delete job {name} successfully"))


# --- queues ----------------------------------------------------------------------------------------------------------
@queue_app.command("create")
def queue_create(
    name: QueueName,
    weight: Annotated[int, typer.Option("--weight", "-w", help="Weight.")] = 1,
    state: Annotated[str, typer.Option("--state", "-S", help="State.")] = "Open",
    kubeconfig: Kubeconfig = None,
    master: Master = "",
) -> None:
    """Make a queue."""
    from fedctl import queueing

    async def action(desk: Desk) -> int:
        code = await queueing.make(desk, name, weight=weight)
        return max(code, await queueing.operate(desk, [name], action="CloseQueue")) if state == "Closed" else code

    _run(kubeconfig, "default", action)


@queue_app.command("list")
def queue_list(kubeconfig: Kubeconfig = None, master: Master = "") -> None:
    """List queues."""
    _run(kubeconfig, "default", lambda desk: _queues(desk, ""))


@queue_app.command("get")
def queue_get(name: QueueName, kubeconfig: Kubeconfig = None, master: Master = "") -> None:
    """Show a queue."""
    _run(kubeconfig, "default", lambda desk: _queues(desk, name))


async def _queues(desk: Desk, name: str) -> int:
    from apis import kinds
    from fedctl import views
    from fedctl.desk import every
    from fedctl.getting import one

    documents = [await one(desk, kinds.QUEUE, name)] if name else await every(desk.port, kinds.QUEUE, namespace=None)
    desk.out(queue_table([views.read_queue(each) for each in documents]))
    return 0


def queue_table(queues: Sequence[Any]) -> str:
    """Upstream's table of queues."""
    if not queues:
        return "No resources found"
    lines = []
    for each in (None, *queues):
        if each is None:
            cells: tuple[str, ...] = QUEUE_COLUMNS
        else:
            status = each.status
            counts = (status.inqueue, status.pending, status.running, status.unknown, status.completed)
            cells = (each.metadata.name, str(each.spec.weight), status.state, each.spec.parent, *map(str, counts))
        widths = (25, 8, 8, 25, 8, 8, 8, 8, 8)
        lines.append("".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())
    return "\n".join(lines)


@queue_app.command("operate")
def queue_operate(
    name: QueueName,
    action: Annotated[str, typer.Option("--action", "-a", help="open, close or update.")] = "",
    weight: Annotated[int, typer.Option("--weight", "-w", help="Weight, for update.")] = 0,
    kubeconfig: Kubeconfig = None,
    master: Master = "",
) -> None:
    """Open, close or change a queue."""
    from fedctl import queueing

    commands = {"open": "OpenQueue", "close": "CloseQueue"}
    if action == "update":
        if weight <= 0:
            _fail("weight must be specified when the action is update")
        _run(kubeconfig, "default", lambda desk: queueing.reweigh(desk, name, weight=weight))
    if action not in commands:
        _fail(f"invalid action {action}, valid actions are open, close and update")
    _run(kubeconfig, "default", lambda desk: queueing.operate(desk, [name], action=commands[action]))


@queue_app.command("delete")
def queue_delete(name: QueueName, kubeconfig: Kubeconfig = None, master: Master = "") -> None:
    """Delete a queue."""
    from apis import kinds

    _run(kubeconfig, "default", lambda desk: _gone(desk, kinds.QUEUE, name, said=f"delete queue {name} successfully"))


# --- flows and templates ---------------------------------------------------------------------------------------------
@flow_app.command("create")
def flow_create(filename: File, namespace: Namespace = "default", kubeconfig: Kubeconfig = None, master: Master = "") -> None:
    """Make JobFlows of a file."""
    _create(kubeconfig, namespace, filename)


@flow_app.command("list")
def flow_list(
    namespace: Namespace = "default", everywhere: Everywhere = False, kubeconfig: Kubeconfig = None, master: Master = ""
) -> None:
    """List JobFlows."""
    from apis import kinds
    from fedctl import tables, views
    from fedctl.desk import every

    async def action(desk: Desk) -> int:
        found = [
            views.read_flow(each)
            for each in await every(desk.port, kinds.JOB_FLOW, namespace=None if everywhere else namespace)
        ]
        rows = [
            (
                each.metadata.name,
                each.metadata.namespace,
                each.status.state.phase,
                views.age(each.metadata.creation_timestamp, now=desk.now),
            )
            for each in found
        ]
        desk.out(tables.text(("Name", "Namespace", "Phase", "Age"), rows) if rows else "No resources found")
        return 0

    _run(kubeconfig, namespace, action)


@flow_app.command("get")
def flow_get(name: Name, namespace: Namespace = "default", kubeconfig: Kubeconfig = None, master: Master = "") -> None:
    """Show a JobFlow."""
    from apis import kinds
    from fedctl import getting

    _run(kubeconfig, namespace, lambda desk: getting.get(desk, kinds.JOB_FLOW, [name]))


@flow_app.command("describe")
def flow_describe(
    name: Name, output: Whole = "yaml", namespace: Namespace = "default", kubeconfig: Kubeconfig = None, master: Master = ""
) -> None:
    """Show a JobFlow whole."""
    from apis import kinds
    from fedctl import getting

    _run(kubeconfig, namespace, lambda desk: getting.get(desk, kinds.JOB_FLOW, [name], output=output))


@flow_app.command("delete")
def flow_delete(
    name: Name = "", filename: File = "", namespace: Namespace = "default", kubeconfig: Kubeconfig = None, master: Master = ""
) -> None:
    """Delete a JobFlow, or those of a file."""
    _delete(kubeconfig, namespace, name=name, filename=filename, flows=True)


@template_app.command("create")
def template_create(
    filename: File, namespace: Namespace = "default", kubeconfig: Kubeconfig = None, master: Master = ""
) -> None:
    """Make JobTemplates of a file."""
    _create(kubeconfig, namespace, filename)


@template_app.command("list")
def template_list(
    namespace: Namespace = "default", everywhere: Everywhere = False, kubeconfig: Kubeconfig = None, master: Master = ""
) -> None:
    """List JobTemplates."""
    from apis import kinds
    from fedctl import getting

    _run(kubeconfig, namespace, lambda desk: getting.get(desk, kinds.JOB_TEMPLATE, everywhere=everywhere))


@template_app.command("get")
def template_get(name: Name, namespace: Namespace = "default", kubeconfig: Kubeconfig = None, master: Master = "") -> None:
    """Show a JobTemplate."""
    from apis import kinds
    from fedctl import getting

    _run(kubeconfig, namespace, lambda desk: getting.get(desk, kinds.JOB_TEMPLATE, [name]))


@template_app.command("describe")
def template_describe(
    name: Name, output: Whole = "yaml", namespace: Namespace = "default", kubeconfig: Kubeconfig = None, master: Master = ""
) -> None:
    """Show a JobTemplate whole."""
    from apis import kinds
    from fedctl import getting

    _run(kubeconfig, namespace, lambda desk: getting.get(desk, kinds.JOB_TEMPLATE, [name], output=output))


@template_app.command("delete")
def template_delete(
    name: Name = "", filename: File = "", namespace: Namespace = "default", kubeconfig: Kubeconfig = None, master: Master = ""
) -> None:
    """Delete a JobTemplate, or those of a file."""
    _delete(kubeconfig, namespace, name=name, filename=filename, flows=False)


@main.command("version")
def version() -> None:
    """Print the version."""
    import importlib.metadata

    typer.echo(f"vcctl of volcano-federation {importlib.metadata.version('volcano-federation')}")


# --- shared ----------------------------------------------------------------------------------------------------------
async def _make(desk: Desk, documents: Sequence[Mapping[str, Any]], *, said: str) -> int:
    from fedctl import submitting
    from fedctl.desk import Desk as Place

    quiet = Place(desk.port, desk.namespace, desk.clock, desk.options, out=lambda text: None, err=desk.err)
    code = await submitting.submit(quiet, [dict(each) for each in documents])
    if not code:
        desk.out(said)
    return code


def _create(kubeconfig: Path | None, namespace: str, filename: str) -> None:
    from fedctl import manifests

    async def action(desk: Desk) -> int:
        documents = manifests.read(filename)
        lines = [
            f"Created {each['kind']}: {each['metadata'].get('namespace', namespace)}/{each['metadata']['name']}"
            for each in documents
        ]
        return await _make(desk, documents, said="\n".join(lines))

    _run(kubeconfig, namespace, action)


def _delete(kubeconfig: Path | None, namespace: str, *, name: str, filename: str, flows: bool) -> None:
    from apis import kinds
    from fedctl import manifests

    kind = kinds.JOB_FLOW if flows else kinds.JOB_TEMPLATE
    if not name and not filename:
        _fail("a name (-N) or a file (-f)")

    async def action(desk: Desk) -> int:
        names = [name] if name else [each["metadata"]["name"] for each in manifests.read(filename) if each["kind"] == kind.kind]
        for each in names:
            await _gone(desk, kind, each, said=f"Deleted {kind.kind}: {namespace}/{each}")
        return 0

    _run(kubeconfig, namespace, action)


async def _gone(desk: Desk, kind: Any, name: str, *, said: str) -> int:
    from fedctl.getting import one
    from machinery.port import Propagation

    await one(desk, kind, name)
    namespace = desk.namespace if kind.namespaced else None
    await desk.port.delete(kind, name, namespace=namespace, propagation=Propagation.BACKGROUND)
    desk.out(said)
    return 0


def _order(kubeconfig: Path | None, namespace: str, name: str, action: str) -> None:
    from apis import kinds
    from fedctl import orders
    from fedctl.refs import Ref

    async def carried(desk: Desk) -> int:
        await orders.command(desk, Ref(kinds.JOB, name), action)
        return 0

    _run(kubeconfig, namespace, carried)


def _amounts(text: str) -> dict[str, str]:
    found = dict(pair.partition("=")[::2] for pair in text.split(",") if pair)
    if not all(found.values()):
        _fail(f"{text!r} is not as cpu=1000m,memory=100Mi")
    return found


def _fail(text: str) -> NoReturn:
    typer.echo(f"error: {text}", err=True)
    raise typer.Exit(2)


def _run(kubeconfig: Path | None, namespace: str, action: Action) -> None:
    from fedctl import desk

    raise typer.Exit(desk.run(desk.Options(kubeconfig, None, namespace), action))
