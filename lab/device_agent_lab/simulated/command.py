"""fake-kubelet: the simulated kubelet as a process. Events go out and commands come in, both as lines."""

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Sequence
from typing import Any

from agent.core.struct import asdict
from device_agent_lab.simulated.errors import AllocationError, KubeletCrashed, KubeletStopped, PodRefused
from device_agent_lab.simulated.events import KubeletEvent
from device_agent_lab.simulated.kubelet import Kubelet
from device_agent_lab.simulated.release import Release

COMMANDS = {
    "allocate": ("pod", "container", "resource", "count"),
    "container": ("pod", "container"),
    "remove": ("pod",),
    "start": (),
    "stop": (),
    "kill": (),
    "restart": (),
    "show": (),
    "refuse": ("text",),
}


def parse_command(line: str) -> dict[str, str]:
    """Return {"command": …, argument: …} from a line of words or a JSON object.

    Raises:
        ValueError: the line is not valid. The text shows the usage.
    """
    if line.startswith("{"):
        arguments = {str(key): str(value) for key, value in json.loads(line).items()}
        name = arguments.get("command", "")
    else:
        name, *words = line.split()
        names = COMMANDS.get(name, ())
        if len(words) > len(names) and names[-1:] == ("text",):
            words = [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])]
        if len(words) != len(names):
            raise ValueError(format_usage(name))
        arguments = {"command": name, **dict(zip(names, words, strict=True))}
    if name not in COMMANDS or set(arguments) != {"command", *COMMANDS[name]}:
        raise ValueError(format_usage(name))
    return arguments


def format_usage(name: str) -> str:
    if name in COMMANDS:
        return " ".join((name, *(word.upper() for word in COMMANDS[name])))
    return f"{name!r} is none of: {', '.join(COMMANDS)}"


def print_line(**line: Any) -> None:  # noqa: ANN401
    print(json.dumps(line, default=list), flush=True)


def print_event(event: KubeletEvent) -> None:
    resource = {"resource": event.resource} if event.resource else {}
    print_line(event=event.kind, number=event.number, at=round(event.at, 6), **resource, **event.detail)


async def run_command(kubelet: Kubelet, arguments: dict[str, str]) -> object:
    """Run a command and return its answer."""
    match arguments["command"]:
        case "allocate":
            limits = {arguments["resource"]: int(arguments["count"])}
            return asdict(await kubelet.allocate(arguments["pod"], arguments["container"], limits))
        case "container":
            return asdict(await kubelet.start_container(arguments["pod"], arguments["container"]))
        case "remove":
            kubelet.remove_pod(arguments["pod"])
        case "start":
            await kubelet.start()
        case "stop":
            await kubelet.stop("term")
        case "kill":
            await kubelet.stop("kill")
        case "restart":
            await kubelet.restart()
        case "refuse":
            kubelet.faults.refuse(arguments["text"])
    return build_state(kubelet)


def build_state(kubelet: Kubelet) -> dict[str, object]:
    status = kubelet.status()
    return {
        "running": kubelet.running,
        "resources": {
            resource: {
                "capacity": capacity,
                "allocatable": status.allocatable[resource],
                "streams": kubelet.streams(resource),
                "healthy": sorted(kubelet.healthy(resource)),
                "unhealthy": sorted(kubelet.unhealthy(resource)),
                "held": {i: "/".join(by) for i, by in sorted(kubelet.get_held_ids(resource).items())},
            }
            for resource, capacity in status.capacity.items()
        },
        "pods": {key: pod.message or pod.phase for key, pod in kubelet.pods.items()},
    }


async def handle_line(kubelet: Kubelet, line: str) -> None:
    """Run the command of a line and print one line as the answer."""
    try:
        arguments = parse_command(line)
        answer = await run_command(kubelet, arguments)
    except (ValueError, KeyError, RuntimeError, PodRefused, AllocationError, KubeletStopped, KubeletCrashed) as error:
        print_line(failed=line, error=str(error))
    else:
        print_line(done=line, answer=answer)


async def serve(options: argparse.Namespace) -> None:
    """Run commands until the input ends or SIGTERM comes."""
    kubelet = Kubelet(
        options.directory,
        release=options.release,
        watcher_directory=options.watcher,
        pod_resources_directory=options.pod_resources,
        listener=print_event,
    )
    lines = asyncio.StreamReader()
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None:
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    async with contextlib.AsyncExitStack() as stack:
        try:
            transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
            stack.callback(transport.close)
        except ValueError:
            # A regular file: read all of it.
            lines.feed_data(sys.stdin.buffer.read())
            lines.feed_eof()
        await stack.enter_async_context(kubelet)
        while line := (await lines.readline()).decode(errors="replace"):
            if line.strip():
                await handle_line(kubelet, line.strip())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fake-kubelet",
        description="A simulated kubelet in DIR: events on stdout, one JSON object a line; commands on stdin.",
        epilog="commands: " + "; ".join(format_usage(name) for name in COMMANDS),
    )
    parser.add_argument("directory", metavar="DIR", help="where kubelet.sock is made and plugins' sockets are expected")
    parser.add_argument("--watcher", metavar="DIR", help="plugins_registry, watched for sockets")
    parser.add_argument("--pod-resources", metavar="DIR", help="where the PodResources socket is made")
    parser.add_argument("--release", default="1.36", type=_release, help="1.30 to 1.37, default 1.36")
    options = parser.parse_args(arguments)
    # SIGTERM is the usual end, also while a command hangs in a plugin.
    with contextlib.suppress(asyncio.CancelledError, KeyboardInterrupt):
        asyncio.run(serve(options))
    return 0


def _release(text: str) -> str:
    try:
        return str(Release.parse(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
