"""Commands about what people submit: their flags; what they do is in the modules that they import."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fedctl.desk import Action, Desk, Options
    from fedctl.refs import Ref

    Order = Callable[[Desk, Ref], Coroutine[Any, Any, int]]

queue_app = typer.Typer(name="queue", help="Queues of the federation.", no_args_is_help=True)
top_app = typer.Typer(name="top", help="How full clusters and queues are, and which Jobs hold most.", no_args_is_help=True)

Kubeconfig = Annotated[Path | None, typer.Option(help="Kubeconfig of the hub.", envvar="KUBECONFIG")]
Context = Annotated[str | None, typer.Option(help="Context in the kubeconfig.")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Namespace; that of the context when not given.")]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")]
Output = Annotated[str, typer.Option("--output", "-o", help="wide, json, yaml or name; a table when not given.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="A line for whatever changes, until interrupted.")]
Labels = Annotated[str, typer.Option("--selector", "-l", help="Only those with these labels.")]
Reference = Annotated[str, typer.Argument(help="job/NAME, flow/NAME, or a name: a Job's.")]
References = Annotated[list[str], typer.Argument(help="job/NAME, flow/NAME, or names: of Jobs.")]
QueueNames = Annotated[list[str], typer.Argument(help="Names of queues.")]


def get(
    kind: Annotated[str, typer.Argument(help="jobs, flows, queues, clusters, templates or cronjobs; or job/NAME.")] = "jobs",
    names: Annotated[list[str] | None, typer.Argument(help="Names; all when not given.")] = None,
    output: Output = "",
    watch: Watch = False,
    labels: Labels = "",
    everywhere: Everywhere = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List what there is: phase, pods, where it runs or why it waits. Example: fedctl get jobs -o wide"""
    from fedctl import getting, refs

    async def action(desk: Desk) -> int:
        word, slash, name = kind.partition("/")
        chosen = refs.kind_of(word)
        return await getting.get(
            desk,
            chosen,
            [*([name] if slash else []), *(names or [])],
            everywhere=everywhere,
            labels=labels,
            output=output,
            watch=watch,
        )

    _run(kubeconfig, context, namespace, action)


def describe(
    reference: Annotated[str, typer.Argument(help="job/NAME, queue/NAME, or a name: a Job's.")],
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Tell everything about one: tasks, clusters, verdicts, conditions, events. Example: fedctl describe job/train"""
    from apis import kinds
    from fedctl import describing, refs

    only = (kinds.JOB, kinds.JOB_FLOW, kinds.QUEUE, kinds.CLUSTER, kinds.CRON_JOB, kinds.JOB_TEMPLATE)
    _run(kubeconfig, context, namespace, lambda desk: describing.describe(desk, refs.ref(reference, only=only)))


def submit(
    name: Annotated[str, typer.Argument(help="Name of a Job that is told in flags; none with -f.")] = "",
    command: Annotated[list[str] | None, typer.Argument(help="Command of its container, after --.")] = None,
    file: Annotated[str, typer.Option("--filename", "-f", help="Manifest of anything; - reads it.")] = "",
    image: Annotated[str, typer.Option(help="Image of the container.")] = "",
    replicas: Annotated[int, typer.Option(help="Pods.", min=1)] = 1,
    min_available: Annotated[int | None, typer.Option(help="Pods without which it does not start; all.", min=0)] = None,
    gpu: Annotated[int, typer.Option(help="GPUs of each pod.", min=0)] = 0,
    cpu: Annotated[str, typer.Option(help="CPU of each pod, as 500m or 2.")] = "",
    memory: Annotated[str, typer.Option(help="Memory of each pod, as 2Gi.")] = "",
    queue: Annotated[str, typer.Option(help="Queue.")] = "",
    profile: Annotated[str, typer.Option(help="cost-first, efficiency-first, balanced, or one of yours.")] = "",
    priority_class: Annotated[str, typer.Option(help="PriorityClass.")] = "",
    max_run_time: Annotated[str, typer.Option(help="It is stopped after so long, as 2h.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only try.")] = False,
    print_manifest: Annotated[bool, typer.Option("--print", help="Print what the flags mean, and make nothing.")] = False,
    wait: Annotated[float | None, typer.Option(help="Stay so many seconds until it has ended.")] = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Submit a manifest, or a Job told in flags. Example: fedctl submit train --image trainer --gpu 8 -- python train.py"""
    from fedctl import manifests, submitting
    from fedctl.desk import explained

    try:
        if file and (name or image):
            raise typer.BadParameter("a file, or a name with flags, not both", param_hint="-f")
        if not file and not (name and image):
            raise typer.BadParameter("a file (-f), or a name with --image", param_hint="submit")
        short = submitting.Short(
            name=name,
            image=image,
            command=tuple(command or ()),
            replicas=replicas,
            minimum=min_available,
            gpus=gpu,
            cpu=cpu,
            memory=memory,
            queue=queue,
            profile=profile,
            priority=priority_class,
            max_run_time=max_run_time,
        )
        documents = manifests.read(file) if file else [submitting.job(short)]
    except typer.BadParameter:
        raise
    except Exception as error:  # noqa: BLE001  what is no mistake of the user's is raised again
        text, code = explained(error)
        typer.echo(f"error: {text}", err=True)
        raise typer.Exit(code) from None
    if print_manifest:
        import yaml

        typer.echo(yaml.safe_dump_all(documents, sort_keys=False), nl=False)
        return
    _run(kubeconfig, context, namespace, lambda desk: submitting.submit(desk, documents, dry_run=dry_run, wait=wait))


def suspend(
    references: References, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Stop and hold: a Job's pods end and it waits, a flow begins no more steps. Example: fedctl suspend job/train"""
    from fedctl import orders

    _each(kubeconfig, context, namespace, references, orders.suspend)


def resume(references: References, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Let what was suspended or aborted go on. Example: fedctl resume job/train"""
    from fedctl import orders

    _each(kubeconfig, context, namespace, references, orders.resume)


def restart(
    references: References, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Begin Jobs anew. Example: fedctl restart job/train"""
    from fedctl import orders

    _each(kubeconfig, context, namespace, references, orders.restart)


def abort(references: References, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Stop Jobs; resume lets them go on. Example: fedctl abort job/train"""
    from fedctl import orders

    _each(kubeconfig, context, namespace, references, orders.abort)


def delete(
    references: References,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return when it is gone everywhere.")] = True,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Delete Jobs and flows; what runs of them ends first. Example: fedctl delete job/train"""
    from fedctl import orders

    _each(kubeconfig, context, namespace, references, lambda desk, ref: orders.delete(desk, ref, wait=wait))


def wait(
    reference: Reference,
    timeout: Annotated[float, typer.Option(help="Seconds to stay at most.")] = 86400.0,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Return when a Job or flow has ended: exit 0 only if well. Example: fedctl wait flow/nightly --timeout 3600"""
    from fedctl import orders, refs

    _run(kubeconfig, context, namespace, lambda desk: orders.wait(desk, refs.ref(reference), seconds=timeout))


def rebalance(
    references: References,
    timeout: Annotated[float, typer.Option(help="Seconds to stay at most.")] = 60.0,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Have Jobs placed again, as if they were new. Example: fedctl rebalance job/train"""
    from fedctl import rebalancing, refs

    chosen = references

    _run(
        kubeconfig,
        context,
        namespace,
        lambda desk: rebalancing.rebalance(desk, [refs.ref(each) for each in chosen], seconds=timeout),
    )


@queue_app.command("list")
def queue_list(output: Output = "", watch: Watch = False, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """List queues: what they may use, and what they use. Example: fedctl queue list -o wide"""
    from apis import kinds
    from fedctl import getting

    _run(kubeconfig, context, None, lambda desk: getting.get(desk, kinds.QUEUE, output=output, watch=watch))


@queue_app.command("describe")
def queue_describe(
    name: Annotated[str, typer.Argument(help="A queue.")], kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Tell everything about a queue. Example: fedctl queue describe research"""
    from apis import kinds
    from fedctl import describing
    from fedctl.refs import Ref

    _run(kubeconfig, context, None, lambda desk: describing.describe(desk, Ref(kinds.QUEUE, name)))


@queue_app.command("open")
def queue_open(names: QueueNames, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Let queues take Jobs. Example: fedctl queue open research"""
    from fedctl import queueing

    _run(kubeconfig, context, None, lambda desk: queueing.operate(desk, names, action="OpenQueue"))


@queue_app.command("close")
def queue_close(names: QueueNames, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Let queues take no more Jobs; what is in them goes on. Example: fedctl queue close research"""
    from fedctl import queueing

    _run(kubeconfig, context, None, lambda desk: queueing.operate(desk, names, action="CloseQueue"))


@top_app.command("clusters")
def top_clusters(kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Amounts in use and those that there are, per member. Example: fedctl top clusters"""
    from fedctl import topping

    _run(kubeconfig, context, None, topping.clusters)


@top_app.command("queues")
def top_queues(kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """The fullest queues first. Example: fedctl top queues"""
    from fedctl import topping

    _run(kubeconfig, context, None, topping.queues)


@top_app.command("jobs")
def top_jobs(
    everywhere: Everywhere = False, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """The largest Jobs that run first. Example: fedctl top jobs -A"""
    from fedctl import topping

    _run(kubeconfig, context, namespace, lambda desk: topping.jobs(desk, everywhere=everywhere))


def simulate(
    trace: Annotated[Path, typer.Option("--trace", help="CSV of Jobs: submit and duration (s), pods, cpu, gpu, queue.")],
    members: Annotated[Path, typer.Option("--members", help="YAML list of members: name, nodes, cpu, memory, gpus, prices.")],
    jobs: Annotated[int, typer.Option(help="Only the first so many Jobs.", min=1)] = 100,
    profile: Annotated[list[str] | None, typer.Option(help="Profile to try; several times.")] = None,
    seed: Annotated[int, typer.Option(help="Chance of the simulation.")] = 1,
) -> None:
    """Try Jobs of a trace on members that do not exist. Example: fedctl simulate --trace jobs.csv --members members.yaml"""
    from fedctl import simulating
    from fedctl.desk import Stop

    try:
        arrivals, sites = simulating.trace(trace, jobs=jobs), simulating.sites(members)
    except Stop as stop:
        typer.echo(f"error: {stop.text}", err=True)
        raise typer.Exit(stop.code) from None
    chosen = profile or simulating.PROFILES
    typer.echo(simulating.table(simulating.simulate(arrivals, sites, profiles=chosen, seed=seed)))


COMMANDS = (get, describe, submit, suspend, resume, restart, abort, delete, wait, rebalance, simulate)


def _each(kubeconfig: Path | None, context: str | None, namespace: str | None, references: list[str], order: Order) -> None:
    """The same for several, one after the other; the worst exit code."""
    from fedctl import refs

    async def action(desk: Desk) -> int:
        chosen: list[Ref] = [refs.ref(each) for each in references]
        return max([await order(desk, each) for each in chosen])

    _run(kubeconfig, context, namespace, action)


def _run(kubeconfig: Path | None, context: str | None, namespace: str | None, action: Action) -> None:
    from fedctl import desk

    options: Options = desk.Options(kubeconfig, context, namespace)
    raise typer.Exit(desk.run(options, action))
