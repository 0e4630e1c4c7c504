"""One rank of a run: its rows, its channels, the search, and the phases of a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import DomainError, UnstableError
from pulsemd.base.units import BOLTZMANN
from pulsemd.domain.atoms import LocalAtoms, UpdateGroups, select_owned
from pulsemd.domain.grid import Grid
from pulsemd.domain.lattice import LATTICE
from pulsemd.domain.migrate import migrate
from pulsemd.domain.ownership import assign_terms, check_terms
from pulsemd.domain.plan import LocalDomain, build_halo
from pulsemd.engine.coupling import degrees_of_freedom, v_rescale_factor
from pulsemd.engine.energies import ENERGY_SCALE, FORCE_SCALE, MOMENTUM_SCALE, N_PAIR_SUMS, Kinetic
from pulsemd.engine.local import exclusion_pairs, local_exclusions
from pulsemd.engine.options import RunOptions
from pulsemd.engine.system import System, water_kinds
from pulsemd.halo import Channel, Transport
from pulsemd.kernels.nonbonded.exclusions import count_within, exclusion_forces, self_energy
from pulsemd.kernels.nonbonded.launch import PairForces
from pulsemd.kernels.update.leapfrog import kinetic_sums, leapfrog_free, leapfrog_settle, new_scratch
from pulsemd.schedule.phase import Phase, PhaseTimer

GROWTH = 1.2
"""Arrays grow to this multiple of the largest need of any rank, so that few searches reallocate."""


@dataclass
class StepFlags:
    """What the current step does besides moving atoms."""

    step: int = 0
    energies: bool = False
    thermostat: bool = False
    remove_com: bool = False


class Rank:
    """State and work of one rank.

    Parameters
    ----------
    transport : Transport
    system : System
        The same on every rank.
    options : RunOptions
    grid : Grid
    r_list : float, nm

    Attributes
    ----------
    domain : LocalDomain
        Rows and plan of the current list lifetime.
    positions, forces : Channel-backed arrays (capacity, 3)
    velocities : (n_owned, 3) float32
    """

    def __init__(
        self, transport: Transport, system: System, options: RunOptions, grid: Grid, r_list: float
    ) -> None:
        self.transport, self.system, self.options = transport, system, options
        self.grid, self.r_list = grid, r_list
        self.reproducible = options.precision == "reproducible"
        self.flags = StepFlags()
        self.thermostat_work = 0.0
        self.n_searches = 0
        self._force_type = np.int64 if self.reproducible else np.float32
        self._sum_type = np.int64 if self.reproducible else np.float64
        self._f_scale = 1.0 / FORCE_SCALE if self.reproducible else 1.0
        self._inverse_box = np.linalg.inv(system.box) * LATTICE
        topology, settings = system.topology, system.settings
        self.n_dof = degrees_of_freedom(topology, settings)
        self.total_mass = float(topology.mass.sum())
        self._water_kinds = water_kinds(topology)
        self._exclusions = exclusion_pairs(topology.exclusion_offset, topology.exclusion_atoms)
        self._groups = UpdateGroups(topology.group_offset, topology.group_atoms)
        self._pair_forces = PairForces(system.table, settings, options.precision)
        self._scratch = new_scratch()
        self._pair_sums = np.zeros(N_PAIR_SUMS, self._sum_type)
        self._constraint_virial = np.zeros(9, self._sum_type)
        self._kinetic_sums = np.zeros(4, self._sum_type)
        self._kinetic = transport.reduce(4, self._sum_type)
        self._energies = transport.reduce(N_PAIR_SUMS + 9, self._sum_type)
        self._kinetic_before = Kinetic(0.0, np.zeros(3))
        self.sums: NDArray[np.float64] = np.zeros(N_PAIR_SUMS + 9)
        self.kinetic = 0.0
        self.capacity = 0
        self._settle_in(select_owned(grid, transport.rank, self._groups, system.x, system.v))

    # ---- search -------------------------------------------------------------------------------------------------

    def search(self) -> None:
        """Migrate, plan the halo, build the pair list; collective.

        Raises
        ------
        DomainError
            If the counts of excluded pairs, summed over ranks, differ from the topology.
        """
        n = self.domain.n_owned
        atoms = LocalAtoms(self.domain.gid[:n], self.x[:n], self.velocities)
        self._settle_in(migrate(self.transport, self.grid, self._groups, atoms))

    def _settle_in(self, atoms: LocalAtoms) -> None:
        self.domain = build_halo(
            self.transport,
            self.grid,
            self._groups,
            atoms,
            self.system.box,
            self.r_list,
            kind=self.options.plan_kind,
        )
        self._bind(self.domain)
        self._localize(self.domain)
        self.channel_x.forward()
        self._search_pairs(self.domain)
        self.n_searches += 1

    def _bind(self, domain: LocalDomain) -> None:
        """Put the rows into symmetric arrays, growing them by a rule all ranks evaluate alike."""
        need = max(self.transport.allgather(domain.n_local))
        if need > self.capacity:
            self.capacity = int(need * GROWTH) + 64
            self.x = self.transport.allocate("positions", self.capacity, 3, np.int32)
            self.f = self.transport.allocate("forces", self.capacity, 3, self._force_type)
            self.channel_x: Channel = self.transport.channel(domain.plan, self.x)
            self.channel_f: Channel = self.transport.channel(domain.plan, self.f)
        else:
            self.channel_x.rebind(domain.plan)
            self.channel_f.rebind(domain.plan)
        self.x[: domain.n_owned] = domain.atoms.x
        self.velocities = domain.atoms.v

    def _localize(self, domain: LocalDomain) -> None:
        """Local rows of the topology: masses, waters, free atoms, exclusions."""
        topology, gid = self.system.topology, domain.gid
        self._mass = topology.mass[gid]
        self._waters = []
        free = np.ones(domain.n_owned, bool)
        for waters, geometry in self._water_kinds:
            first = domain.local_row[waters[:, 0]]
            rows = domain.local_row[waters[(first >= 0) & (first < domain.n_owned)]]
            rows = np.ascontiguousarray(rows[np.argsort(rows[:, 0])])
            free[rows.ravel()] = False
            self._waters.append((rows, geometry))
        self._free = np.flatnonzero(free).astype(np.int32)

    def _search_pairs(self, domain: LocalDomain) -> None:
        topology, gid = self.system.topology, domain.gid
        x = self.x[: domain.n_local]
        offset, rows = local_exclusions(
            gid, domain.local_row, topology.exclusion_offset, topology.exclusion_atoms
        )
        counts = self._pair_forces.search(
            x,
            self.system.box,
            domain.n_owned,
            topology.type_index[gid],
            topology.charge[gid],
            offset,
            rows,
            domain.leader_x,
            domain.home,
            [n > 1 for n in self.grid.shape],
            self.r_list,
        )
        mine, self.excluded = assign_terms(
            self._exclusions, domain.local_row, domain.leader_x, domain.home, self.grid.split_dims
        )
        check_terms(self.transport, {"exclusion": (self._exclusions, mine)}, topology.describe_atom)
        self._verify_masks(counts.excluded, x)

    def _verify_masks(self, masked: int, x: NDArray[np.int32]) -> None:
        """The excluded pairs masked in all pair lists must be the exclusion terms within the list cut-off."""
        near = count_within(x, self.excluded, self.system.box, self.r_list)
        listed, expected = np.sum(self.transport.allgather(np.array([masked, near])), axis=0)
        if listed != expected:
            raise DomainError(
                f"search {self.n_searches}: the pair lists of all ranks hold {listed} excluded pairs, "
                f"the terms {expected}; a pair is lost or listed twice; please report this"
            )

    # ---- a step -------------------------------------------------------------------------------------------------

    def begin_step(self, flags: StepFlags) -> None:
        """Set what this step does; clears the sums of energy steps."""
        self.flags = flags
        self._pair_sums[:] = 0
        self._constraint_virial[:] = 0

    def phases(self) -> tuple[Phase, ...]:
        """Phases of one leap-frog step, in order (Hockney & Eastwood 1988)."""
        return (*self.force_phases(), Phase("update", self.update))

    def force_phases(self) -> tuple[Phase, ...]:
        """Phases that bring ``forces`` of the owned rows up to date."""
        return (
            Phase("halo.forward.begin", lambda: self.channel_x.forward_begin()),
            Phase("forces.local", self.local_forces),  # reads no ghost row
            Phase("halo.forward.end", lambda: self.channel_x.forward_end()),
            Phase("forces.nonlocal", self.nonlocal_forces),
            Phase("halo.reverse.begin", lambda: self.channel_f.reverse_begin()),
            Phase("halo.reverse.end", lambda: self.channel_f.reverse_end()),
        )

    def local_forces(self) -> None:
        """Clear the forces and add the pairs of two owned rows."""
        n = self.domain.n_local
        self.f[:n] = 0
        self._pair_forces.local(self.x[:n], self.f[:n], self._sums_wanted())

    def nonlocal_forces(self) -> None:
        """Add the pairs with a ghost row, and the corrections of excluded pairs."""
        n = self.domain.n_local
        self._pair_forces.nonlocal_(self.x[:n], self.f[:n], self._sums_wanted())
        self._correct_exclusions(n)
        self.channel_x.release()

    def _correct_exclusions(self, n: int) -> None:
        exclusion_forces(
            self.x[:n],
            self.excluded,
            self.system.topology.charge[self.domain.gid],
            self.system.box,
            self._pair_forces.constants,
            self.f[:n],
            self._sums_wanted(),
        )
        if self.flags.energies:
            owned = self.system.topology.charge[self.domain.gid[: self.domain.n_owned]]
            self_energy(owned, self._pair_forces.constants, self._pair_sums)

    def _sums_wanted(self) -> NDArray[np.float64] | NDArray[np.int64] | None:
        return self._pair_sums if self.flags.energies else None

    def update(self) -> None:
        """Thermostat, kick, drift, constraints; on energy steps also the global sums."""
        flags = self.flags
        scale, com = 1.0, np.zeros(3)
        if flags.energies or flags.thermostat or flags.remove_com:
            before = self._sum_kinetic()
            kinetic = before.energy
            if flags.remove_com:
                com = before.momentum / self.total_mass
                kinetic -= 0.5 * float(before.momentum @ before.momentum) / self.total_mass
            if flags.thermostat:
                scale = self._thermostat(kinetic)
                self.thermostat_work += kinetic * (scale * scale - 1.0)
            self._kinetic_before = Kinetic(kinetic * scale * scale, before.momentum)
        self._move(scale, com)
        if flags.energies:
            self.kinetic = 0.5 * (self._kinetic_before.energy + self._sum_kinetic().energy)
            self.sums = self._sum_energies()

    def _thermostat(self, kinetic: float) -> float:
        s = self.system.settings
        target = 0.5 * self.n_dof * BOLTZMANN * s.ref_t
        return v_rescale_factor(
            kinetic, target, self.n_dof, s.tau_t, s.nsttcouple * s.dt, s.ld_seed, self.flags.step
        )

    def _move(self, scale: float, com: NDArray[np.float64]) -> None:
        x, v, f, dt = self.x, self.velocities, self.f, self.system.settings.dt
        virial = self._constraint_virial if self.flags.energies else self._constraint_virial[:0]
        virial_scale = ENERGY_SCALE if self.reproducible else 0.0
        bad = leapfrog_free(x, v, f, self._f_scale, self._free, self._mass, self._inverse_box, dt, scale, com)
        for rows, geometry in self._waters:
            row = leapfrog_settle(
                x, v, f, self._f_scale, rows, geometry, self.system.box, self._inverse_box, dt, scale, com,
                virial, virial_scale, self._scratch,
            )  # fmt: skip
            bad = row if bad < 0 else bad
        if bad >= 0:
            atom = self.system.topology.describe_atom(int(self.domain.gid[bad]))
            raise UnstableError(
                f"step {self.flags.step}: {atom} would move more than a quarter of the box or has no finite force "
                f"({self.f[bad] * self._f_scale} kJ/mol/nm); look for overlapping atoms near it, minimise, or lower dt"
            )

    def _sum_kinetic(self) -> Kinetic:
        n = self.domain.n_owned
        kinetic_sums(self.velocities, self._mass, n, self.reproducible, self._kinetic_sums)
        total = self._kinetic.sum(self._kinetic_sums)
        if self.reproducible:
            return Kinetic(float(total[0]) / ENERGY_SCALE, total[1:] / MOMENTUM_SCALE)
        return Kinetic(float(total[0]), np.array(total[1:]))

    def _sum_energies(self) -> NDArray[np.float64]:
        """Energies and virials of all ranks, kJ/mol."""
        self._pair_forces.check()
        mine = np.concatenate([self._pair_sums, self._constraint_virial])
        total = self._energies.sum(mine).astype(np.float64)
        if self.reproducible:
            total /= ENERGY_SCALE
        return total

    def evaluate(self, step: int, timer: PhaseTimer) -> None:
        """Energies of the current positions without moving: a whole step that is then taken back."""
        self.begin_step(StepFlags(step, energies=True))
        n = self.domain.n_owned
        timer.run(self.force_phases())
        x, v = self.x[:n].copy(), self.velocities[:n].copy()
        timer.timed("update", self.update)
        self.x[:n], self.velocities[:n] = x, v
