"""Simulations in Python: `pulsemd.Simulation`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from time import perf_counter
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import ConfigError
from pulsemd.engine.descent import Method
from pulsemd.engine.device import choose_device, fit_device
from pulsemd.engine.gromacs_system import Path, system_from_gromacs
from pulsemd.engine.interrupts import interrupt_held_back
from pulsemd.engine.minimise import Minimum, check_method
from pulsemd.engine.openmm_names import StepNumber, missing
from pulsemd.engine.openmm_system import system_from_openmm
from pulsemd.engine.options import Device, PlanKind, RunOptions
from pulsemd.engine.ranks import start_ranks
from pulsemd.engine.reporters import Frame
from pulsemd.engine.system import System
from pulsemd.engine.worker import Wanted
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.openmm import read_openmm
from pulsemd.kernels.nonbonded.potential import PairPotential
from pulsemd.kernels.nonbonded.spec import Precision
from pulsemd.topology.records import Topology

Float64 = NDArray[np.float64]

_SLICE = 0.25
"""Seconds after which a run looks whether it was interrupted."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What a reporter of frames is given.

    Parameters
    ----------
    step : int
    time : float, ps
    positions : (n, 3) float64, nm, molecules whole
    velocities : (n, 3) float32, nm/ps, half a step before; with md-vv of the same time
    box : (3, 3) float64, nm, rows a, b, c
    """

    step: int
    time: float
    positions: Float64
    velocities: NDArray[np.float32]
    box: Float64


EnergyReporter = Callable[[int, float, dict[str, float]], object]
FrameReporter = Callable[[Snapshot], object]


@dataclass
class _Reporter:
    interval: int
    energies: EnergyReporter | None
    frame: FrameReporter | None
    reported: dict[str, int]  # step last given, by kind


class Simulation:
    """A system and the ranks that run it. Use it in a ``with`` statement, or call `close`.

    With several ranks each is a process of its own behind this one; they stay from one call to the next.

    Parameters
    ----------
    system : System
        See `from_gromacs`.
    options : RunOptions

    Attributes
    ----------
    settings : RunSettings
    topology : Topology
    box : (3, 3) float64, nm
    """

    def __init__(self, system: System, options: RunOptions, *others: object) -> None:
        if others or not isinstance(system, System):
            raise ConfigError(
                "Simulation(...): use Simulation.from_openmm(system, positions, integrator, topology=topology), or "
                "Simulation.from_gromacs(conf, top, mdp)"
            )
        self._system, self._options = system, options
        self._step = system.step
        self._reporters: list[_Reporter] = []
        self._busy = self._closed = False
        self._failure: BaseException | None = None
        self._kept: dict[str, tuple[int, Any]] = {}
        self._ranks = start_ranks(system, options)

    @classmethod
    def from_gromacs(
        cls,
        conf: Path,
        top: Path,
        mdp: Path | None = None,
        *,
        ranks: int = 1,
        precision: Precision = "fast",
        transport: str | None = None,
        grid: tuple[int, int, int] | None = None,
        plan: PlanKind = "auto",
        device: Device = "auto",
        ranks_per_gpu: int = 1,
        timeout: float | None = None,
        include: Sequence[Path] = (),
        reference: Path | None = None,
        index: Path | None = None,
        pair_potential: PairPotential | FunctionType | None = None,
        **settings: Any,
    ) -> Simulation:
        """A simulation of a system in GROMACS files.

        Parameters
        ----------
        conf, top : paths of the .gro and the .top file
        mdp : path of a .mdp or .toml file, optional
            Without it every option has its default.
        ranks, precision, transport, grid, plan, device, ranks_per_gpu, timeout
            As the flags of ``pulsemd run``.
        include : sequence of paths
            Folders searched for included files.
        reference : path of a .gro file, optional
            Reference positions of position restraints.
        index : path of a .ndx file, optional
            Groups besides the default ones.
        pair_potential : PairPotential or function, optional
            In place of Lennard-Jones, see `PairPotential`.
        **settings
            .mdp options by name, with ``_`` for ``-``; they win over the file. ``nsteps`` is without meaning here.

        Raises
        ------
        InputError
            For files, settings or a pair potential that are refused.
        DomainError, TransportError
            If the request does not fit the system or this machine.
        """
        system = system_from_gromacs(conf, top, mdp, include, reference, index, pair_potential, settings)
        raised = "nstlist" not in settings
        options = RunOptions(
            ranks,
            grid,
            transport,
            plan,
            precision,
            timeout,
            device=device,
            raise_nstlist=raised,
            ranks_per_gpu=ranks_per_gpu,
        )
        return cls._start(system, options)

    @classmethod
    def from_openmm(
        cls,
        system: Any,
        positions: Any,
        integrator: Any = None,
        *,
        topology: Any = None,
        velocities: Any = None,
        box: Any = None,
        ranks: int = 1,
        precision: Precision = "fast",
        transport: str | None = None,
        grid: tuple[int, int, int] | None = None,
        plan: PlanKind = "auto",
        device: Device = "auto",
        ranks_per_gpu: int = 1,
        timeout: float | None = None,
        **settings: Any,
    ) -> Simulation:
        """A simulation of a System of OpenMM.

        Parameters
        ----------
        system : openmm.System, or path of its XML
        positions : (n, 3) array or Quantity, openmm.State, or path of a State's XML
            Numbers without unit are nm. A State also has velocities, the box, and what global parameters are.
        integrator : openmm.Integrator or path of its XML, optional
            Its step, and its temperature if ``tcoupl='v-rescale'`` replaces its thermostat.
        topology : openmm.app.Topology, optional
            Names of atoms and residues.
        velocities : (n, 3) array or Quantity, nm/ps, optional
        box : (3, 3) array or Quantity, nm, optional
            Default: that of the State, else of the System.
        ranks, precision, transport, grid, plan, device, ranks_per_gpu, timeout
            As the flags of ``pulsemd run``.
        **settings
            .mdp options by name, with ``_`` for ``-``; they win over what the System and the integrator say.

        Raises
        ------
        InputError
            For everything that is not supported: which force, what, why, and the remedy.
        DomainError, TransportError
            If the request does not fit the system or this machine.
        """
        found = read_openmm(
            system, positions, integrator, velocities=velocities, box=box, names=topology, options=settings
        )
        prepared = system_from_openmm(found, {**settings, "nsteps": -1})
        raised = "nstlist" not in settings
        options = RunOptions(
            ranks,
            grid,
            transport,
            plan,
            precision,
            timeout,
            device=device,
            raise_nstlist=raised,
            ranks_per_gpu=ranks_per_gpu,
        )
        return cls._start(prepared, options)

    @classmethod
    def _start(cls, system: System, options: RunOptions) -> Simulation:
        """Start the ranks of a system, on the device that fits it."""
        return cls(system, fit_device(choose_device(options), system.topology, system.settings))

    # ---- running ------------------------------------------------------------------------------------------------

    def add_reporter(
        self, interval: int, energies: EnergyReporter | None = None, frame: FrameReporter | None = None
    ) -> None:
        """Call functions at every step divisible by ``interval`` that `run` starts from, passes or ends at.

        Parameters
        ----------
        interval : int
        energies : function of (step, time [ps], energies by name)
        frame : function of a `Snapshot`

        Raises
        ------
        ConfigError
            For an interval that is no whole number of steps, or what is no function.
        """
        functions = [function for function in (energies, frame) if function is not None]
        whole = isinstance(interval, Integral) and interval >= 1
        if not whole or not functions or not all(callable(function) for function in functions):
            raise ConfigError(
                f"add_reporter({interval}, ...): an interval of at least 1 step and a function are needed; energies= "
                "is called with step, time and energies, frame= with a Snapshot"
            )
        self._reporters.append(_Reporter(interval, energies, frame, {}))

    def minimize(
        self,
        emtol: float | None = None,
        nsteps: int | None = None,
        integrator: str | None = None,
        emstep: float | None = None,
        nbfgscorr: int | None = None,
    ) -> Minimum:
        """Move the atoms to lower energy, from overlapping starts too; `step` and velocities stay.

        Parameters
        ----------
        emtol : float, kJ/mol/nm
            Stop when no atom feels a larger force. Default, as of the other options: that of the settings.
        nsteps : int
            Most steps, -1 without end. Default: without end.
        integrator : {'steep', 'l-bfgs'}
            Default: that of the settings, else 'steep'. L-BFGS takes no constraints and no rigid water.
        emstep : float, nm
        nbfgscorr : int

        Returns
        -------
        Minimum
            Whether it converged, the energies and the largest force.

        Raises
        ------
        ConfigError, InputError
            For options that make no sense, or that do not fit the system.
        UnstableError
            If the first positions have no finite forces.
        """
        s = self.settings
        method = Method(
            (s.integrator if s.minimises else "steep") if integrator is None else integrator,
            s.emtol if emtol is None else emtol,
            s.emstep if emstep is None else emstep,
            s.nbfgscorr if nbfgscorr is None else nbfgscorr,
            -1 if nsteps is None else nsteps,
        )
        check_method(self._system, method)
        with interrupt_held_back():
            minimum: Minimum = self._call("minimize", method)
        self._kept.clear()
        return minimum

    def run(self, steps: int) -> Self:
        """Make steps; the simulation itself, so that ``simulation.run(50).energies`` are those at the end.

        Parameters
        ----------
        steps : int
            At least 0.

        Raises
        ------
        ConfigError
            If it is no such number, or the settings ask for a minimisation: see `minimize`.
        KeyboardInterrupt
            Between two steps; `step` says how far it came, and another `run` goes on from there.
        UnstableError
            If the simulation blew up.
        """
        if not isinstance(steps, Integral) or steps < 0:
            raise ConfigError(f"run({steps}): a whole number of steps that is not negative is needed")
        if self.settings.minimises:
            raise ConfigError(
                f"run({steps}): the settings say integrator = {self.settings.integrator}; call minimize(), or make a "
                "simulation with integrator='md'"
            )
        lifetime = int(self._ranks.about["nstlist"])
        last, slice_ = self._step + steps, lifetime
        while self._step < last:
            n, start = min(_to_search(self._step, slice_, lifetime), last - self._step), perf_counter()
            with interrupt_held_back():
                self._step = self._call("run", n, self._wanted(range(len(self._reporters))))
            slice_ = max(1, int(n * min(2.0, _SLICE / max(perf_counter() - start, 1e-6))))
        due = [k for k, r in enumerate(self._reporters) if self._step % r.interval == 0]
        if due and steps:
            with interrupt_held_back():
                self._call("last", self._wanted(due))
        return self

    def _wanted(self, due: Sequence[int]) -> list[Wanted]:
        """For every reporter what it is to be given, if it is due."""
        return [
            Wanted(r.interval, r.energies is not None and k in due, r.frame is not None and k in due)
            for k, r in enumerate(self._reporters)
        ]

    def _call(self, command: str, *arguments: Any) -> Any:
        """A command to all ranks; errors of reporters are raised after it."""
        if self._busy:
            raise ConfigError("a reporter cannot use the simulation that calls it; use what it is given")
        if self._failure is not None:
            raise ConfigError(f"this simulation ended with {type(self._failure).__name__}; make a new one")
        if self._closed:
            raise ConfigError("this simulation is closed; make a new one")
        problems: list[BaseException] = []

        def report(number: int, value: Any) -> None:
            try:
                if not problems:
                    self._report(self._reporters[number], value)
            except BaseException as problem:
                problems.append(problem)

        self._busy = True
        try:
            result = self._ranks.call(command, *arguments, report=report)
        except BaseException as problem:
            self._failure = problem
            self._ranks.close()
            raise
        finally:
            self._busy = False
        if problems:
            if command == "run":
                self._step = result
            raise problems[0]
        return result

    def _report(self, reporter: _Reporter, value: Any) -> None:
        kind = "frame" if isinstance(value, Frame) else "energies"
        step = value.step if isinstance(value, Frame) else value[0]
        if reporter.reported.get(kind) == step:
            return
        reporter.reported[kind] = step
        if isinstance(value, Frame):
            assert reporter.frame is not None
            reporter.frame(self._snapshot(value))
        else:
            assert reporter.energies is not None
            reporter.energies(*value)

    # ---- what there is to see ---------------------------------------------------------------------------------------

    @property
    def settings(self) -> RunSettings:
        """Every .mdp option in use."""
        return self._system.settings

    @property
    def topology(self) -> Topology:
        """Atoms, molecules and terms."""
        return self._system.topology

    @property
    def box(self) -> Float64:
        """Box vectors (3, 3), nm, rows a, b, c."""
        return (self._system.user_box if self.settings.pcoupl == "no" else self.snapshot.box).copy()

    @property
    def step(self) -> int:
        """Steps made."""
        return StepNumber(self._step)

    @property
    def time(self) -> float:
        """Time of the current positions, ps."""
        return self.settings.time_of(self._step)

    @property
    def snapshot(self) -> Snapshot:
        """Positions, velocities, step and time now."""
        found: Snapshot = self._now("frame", self._snapshot)
        return found

    @property
    def positions(self) -> Float64:
        """Positions (n, 3) float64, nm; molecules whole, their first atoms in the box."""
        return self.snapshot.positions.copy()

    @property
    def velocities(self) -> NDArray[np.float32]:
        """Velocities (n, 3) float32, nm/ps, half a step before the positions; with md-vv at their time."""
        return self.snapshot.velocities.copy()

    @property
    def energies(self) -> dict[str, float]:
        """Energies [kJ/mol], temperature [K], pressure [bar], density [kg/m^3] of the current positions."""
        return dict(self._now("energies", dict))

    @property
    def forces(self) -> Float64:
        """Forces (n, 3) float64, kJ/mol/nm, at the current positions, without those of constraints; on CPUs.

        Raises
        ------
        ConfigError
            On GPUs, which keep them to themselves.
        """
        if self._ranks.about["device"] != "cpu":
            raise ConfigError(
                "forces: GPUs do not give them; make the simulation with device='cpu' to look at them"
            )
        found: Float64 = self._now("forces", np.copy)
        return found.copy()

    @property
    def trajectory_hash(self) -> str:
        """SHA-256 of step, box, positions and velocities; in reproducible mode the same on any number of ranks."""
        return str(self._now("hash", str))

    def _now(self, command: str, convert: Callable[[Any], Any]) -> Any:
        """What a command gives at the current step, asked for once."""
        step, value = self._kept.get(command, (-1, None))
        if step != self._step:
            with interrupt_held_back():
                value = convert(self._call(command))
            self._kept[command] = self._step, value
        return value

    def _snapshot(self, frame: Frame) -> Snapshot:
        positions = self._system.in_cell(frame.cell).whole_positions(frame.x)
        return Snapshot(frame.step, frame.time, positions, frame.v, frame.cell.user_box)

    def __repr__(self) -> str:
        about = self._ranks.about
        return (
            f"<Simulation of {self.topology.n_atoms} atoms at step {self._step}: {self._options.ranks} rank(s) as "
            f"{about['grid']}, transport {about['transport']}, precision {self._options.precision}, device "
            f"{about['device']}, list cut-off {about['r_list']} nm>"
        )

    if not TYPE_CHECKING:  # for it every name would exist

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(missing(name))

    # ---- end --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the ranks and give their memory back."""
        if not self._closed:
            self._closed = True
            if self._failure is None:
                self._ranks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _to_search(step: int, n: int, lifetime: int) -> int:
    """About `n` steps from `step` on, so many that a search is next; fewer than a lifetime stay as they are."""
    return n if n < lifetime else n - (step + n) % lifetime
