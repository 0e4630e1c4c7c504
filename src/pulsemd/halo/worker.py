"""One rank of `pulsemd.halo.launch`: ``python -m pulsemd.halo.worker PROCESS TICKET [RANK]``."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import traceback
from types import FrameType
from typing import Any, Final

from pulsemd.base.errors import ConfigError
from pulsemd.halo.agreement import sendable

_PR_SET_PDEATHSIG: Final = 1


def main(arguments: list[str]) -> int:
    """Run the function of a ticket and leave its outcome with the launcher; the exit code."""
    process, ticket_handle = int(arguments[0]), int(arguments[1])
    if len(arguments) > 2:
        _die_with(process)
        rank = int(arguments[2])
    else:
        from pulsemd.halo.transports.mpi import world_rank

        rank = world_rank()
    signal.signal(signal.SIGTERM, _terminate)
    with open(f"/proc/{process}/fd/{ticket_handle}", "rb") as file:
        ticket = pickle.load(file)
    on_gpus = "ranks_per_gpu" in ticket
    code, outcome = (_run_on_gpu if on_gpus else _run)(ticket, rank)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the function has ended: there is nothing left to interrupt
    code = _hand_over(f"/proc/{process}/fd/{ticket['outcomes'][rank]}", code, outcome, ticket["target"])
    if code != 0 and ticket["mpi"]:
        from pulsemd.halo.transports.mpi import end_world

        end_world(code)
    if code != 0 and on_gpus:
        _leave(code)
    return code


def _hand_over(path: str, code: int, outcome: tuple[Any, ...], target: str) -> int:
    """Leave an outcome with the launcher; the exit code, another if the result cannot be sent."""
    with open(path, "wb") as file:
        try:
            pickle.dump(outcome, file, 5)
        except (pickle.PicklingError, AttributeError, TypeError) as reason:
            error = ConfigError(f"{target} returned what cannot be sent between processes: {reason}")
            file.seek(0)
            file.truncate()
            pickle.dump(("error", sendable(error), ""), file, 5)
            return 1
    return code


def _run(ticket: dict[str, Any], rank: int) -> tuple[int, tuple[Any, ...]]:
    from pulsemd.halo.target import find_function, load_payload
    from pulsemd.halo.transport import open_transport

    try:
        function = find_function(ticket["target"])
        payload = load_payload(ticket["payload"], ticket["target"])
        with open_transport(ticket["transport"], ticket["timeout"], ticket["faults"]) as transport:
            result = function(transport, payload)
    except BaseException as error:
        trace = f"rank {rank}, {''.join(traceback.format_exception(error)).rstrip()}"
        return 1, ("error", sendable(error), trace)
    return 0, ("result", result if rank == 0 else None)


def _run_on_gpu(ticket: dict[str, Any], process: int) -> tuple[int, tuple[Any, ...]]:
    from pulsemd.halo.rungs.ladder import open_rung
    from pulsemd.halo.rungs.world import open_gpu_world
    from pulsemd.halo.target import find_function, load_payload

    first = process * ticket["ranks_per_gpu"]
    try:
        function = find_function(ticket["target"])
        payload = load_payload(ticket["payload"], ticket["target"])
        with open_gpu_world(
            ticket["ranks_per_gpu"], ticket["timeout"], ticket["faults"], ticket["mpi_trial"]
        ) as world:
            if ticket["transport"] is None:
                result = function(world, payload)
            else:
                with open_rung(world, ticket["transport"]) as transport:
                    result = function(transport, payload)
    except BaseException as error:
        trace = f"rank {first}, {''.join(traceback.format_exception(error)).rstrip()}"
        return 1, ("error", sendable(error), trace)
    return 0, ("result", result if process == 0 else None)


def _leave(code: int) -> None:
    """End at once: what is launched on the GPU may wait for a peer that is gone, and libraries wait for the GPU."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _die_with(process: int) -> None:
    """Let the kernel kill this rank when its launcher dies."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != process:
        sys.exit(f"the launcher, process {process}, has died")


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
