"""What the user asked of a run besides the physics of the .mdp file."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Final, Literal, get_args

from pulsemd.base.errors import ConfigError
from pulsemd.domain.grid import check_size
from pulsemd.halo import TRANSPORTS
from pulsemd.halo.rungs.ladder import GPU_RUNGS
from pulsemd.kernels.nonbonded.spec import Precision

PlanKind = Literal["staged", "direct", "auto"]
Device = Literal["cpu", "cuda", "auto"]

_KNOWN: Final[dict[str, tuple[Any, ...]]] = {
    "transport": (None, *dict.fromkeys((*TRANSPORTS, *GPU_RUNGS))),
    "plan": get_args(PlanKind),
    "precision": get_args(Precision),
    "device": get_args(Device),
}


@dataclass(frozen=True)
class RunOptions:
    """The common flags of the command line.

    Parameters
    ----------
    ranks : int
    grid : tuple of three int, or None
        Cells along a, b, c; None: chosen by the cost model.
    transport : str or None
        A rung; None: ``loopback`` for one rank, else ``shmem`` on CPUs and the fastest that works on GPUs.
    plan : {'staged', 'direct', 'auto'}
    precision : {'fast', 'reproducible'}
    timeout : float or None
        Bound of every host wait in seconds; None: PULSEMD_TIMEOUT, else 30.
    trace : bool
        Keep when each phase of the last steps began and ended, for a timeline.
    count_images : bool
        Count box crossings, for unwrapped output; on CPUs only.
    device : {'cpu', 'cuda', 'auto'}
        ``auto`` is resolved by `pulsemd.engine.device.choose_device` before a run.
    device_reason : str
        Why this device was taken, for the report.
    device_asked : bool
        Whether the device was asked for; 'cuda' by ``auto`` gives way to the CPU for systems it cannot compute.
    raise_nstlist : bool
        Whether a GPU may search less often than the settings say, with a larger list cut-off.
    graph : bool
        Whether a GPU runs its steps as CUDA graphs.
    ranks_per_gpu : int
        Ranks that share a GPU and its process.

    Raises
    ------
    ConfigError
        For a value that does not exist, or a number that is not positive.
    DomainError
        If the grid has more or fewer cells than there are ranks.
    """

    ranks: int = 1
    grid: tuple[int, int, int] | None = None
    transport: str | None = None
    plan: PlanKind = "auto"
    precision: Precision = "fast"
    timeout: float | None = None
    trace: bool = False
    count_images: bool = False
    device: Device = "cpu"
    device_reason: str = "as asked for"
    device_asked: bool = True
    raise_nstlist: bool = False
    graph: bool = True
    ranks_per_gpu: int = 1

    def __post_init__(self) -> None:
        for name, known in _KNOWN.items():
            if (value := getattr(self, name)) not in known:
                raise ConfigError(f"{name} = {value}: there are {', '.join(filter(None, known))}")
        for name in ("ranks", "ranks_per_gpu"):
            if not _positive(value := getattr(self, name), Integral):
                raise ConfigError(f"{name} = {value}: a whole number of at least 1 is needed")
        cells = (1, 1, 1) if self.grid is None else self.grid
        if len(cells) != 3 or not all(_positive(n, Integral) for n in cells):
            raise ConfigError(f"grid = {self.grid}: three whole numbers of at least 1 are needed, as 2, 1, 1")
        if self.grid is not None:
            check_size(self.grid, self.ranks)
        if self.timeout is not None and not _positive(self.timeout, Real):
            raise ConfigError(f"timeout = {self.timeout}: a positive number of seconds is needed")

    @property
    def rung(self) -> str:
        """The transport that will be used."""
        if self.several_on_gpus:
            return self.transport or "auto"
        return self.transport or ("loopback" if self.ranks == 1 else "shmem")

    @property
    def several_on_gpus(self) -> bool:
        """Whether this is a run of several ranks on GPUs."""
        return self.device == "cuda" and self.ranks > 1

    @property
    def plan_kind(self) -> Literal["staged", "direct"]:
        """The plan type that will be used; ``auto`` means staged on CPUs, and direct on GPUs."""
        direct = self.plan == "direct" or (self.plan == "auto" and self.device == "cuda")
        return "direct" if direct else "staged"

    @property
    def n_processes(self) -> int:
        """Processes of a run of several ranks."""
        return self.ranks // self.ranks_per_gpu if self.several_on_gpus else self.ranks


def _positive(value: Any, kind: type[Integral] | type[Real]) -> bool:
    return isinstance(value, kind) and float(value) > 0
