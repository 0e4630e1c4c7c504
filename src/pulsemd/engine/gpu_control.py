"""The control plane of a process with several plan-ranks, as one: for code that is written for a rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from numpy.typing import NDArray

from pulsemd.base.errors import ConfigError
from pulsemd.halo import Transport

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

Array = NDArray[Any]


class ProcessControl:
    """Collective calls of a process on behalf of all its plan-ranks; what it gives counts for the first of them.

    Parameters
    ----------
    transport : GpuTransport

    Attributes
    ----------
    name, path : str
    rank, size : int
        First plan-rank of this process, and the number of all plan-ranks.
    reasons : tuple of str
        Why transports that are faster are not used.
    """

    def __init__(self, transport: GpuTransport) -> None:
        self.gpu = transport
        self.name, self.path = transport.name, transport.path
        self.rank, self.size = transport.ranks[0], transport.size
        self.reasons: tuple[str, ...] = getattr(transport, "reasons", ())

    def barrier(self, patient: bool = False) -> None:
        """Wait for all processes; see `Transport.barrier`."""
        self.gpu.each(lambda _, control: control.barrier(patient))

    def broadcast(self, value: Any, root: int = 0) -> Any:
        """The value of a plan-rank."""
        return self.gpu.each(lambda _, control: control.broadcast(value, root))[0]

    def allgather(self, value: Any) -> list[Any]:
        """One value for each plan-rank; None for all but the first of a process."""
        found: list[Any] = self.gpu.each(
            lambda local, control: control.allgather(value if local == 0 else None)
        )[0]
        return found

    def alltoall(self, parts: list[Array]) -> list[Array]:
        """Arrays to and from the first plan-rank of each process; the others send nothing."""
        nothing = [part[:0] for part in parts]
        found: list[Array] = self.gpu.each(
            lambda local, control: control.alltoall(nothing if local else parts)
        )[0]
        return found

    def agree(self, error: BaseException | None) -> None:
        """Raise the error of any process on all of them."""
        self.gpu.each(lambda local, control: control.agree(None if local else error))


def control_of(transport: GpuTransport) -> Transport:
    """The control plane of a process, where a rank's transport is expected whose data plane is not used."""
    return cast(Transport, ProcessControl(transport))


def take_fields(transport: Transport) -> Callable[[], None]:
    """Let a new simulation have the arrays of a transport; what is given is to be called before they are used.

    Between GPUs an array takes the place of the one that had its name, whose memory goes to others. Transports of
    ranks on CPUs keep what somebody holds, so there any number of simulations may step by turns.

    Raises
    ------
    ConfigError
        By what is given: once another simulation has been made on the transport.
    """
    if not isinstance(transport, ProcessControl):
        return _nothing
    gpu = transport.gpu
    mine = gpu.n_simulations = gpu.n_simulations + 1

    def require() -> None:
        if gpu.n_simulations != mine:
            raise ConfigError(
                f"transport {gpu.name}: another simulation was made on it, which has the memory of this one now; "
                "finish one before the next is made, or open a transport for each"
            )

    return require


def _nothing() -> None:
    """What a simulation does on CPUs before it uses its arrays."""
