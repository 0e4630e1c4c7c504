"""What a GROMACS .mdp file asks for, as one frozen record."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from pulsemd.forcefield.annealing import Schedule, schedules

MINIMISERS = ("steep", "l-bfgs")
"""Values of ``integrator`` that lower the energy instead of moving in time."""


class HeatBath(NamedTuple):
    """``tau_t`` [ps] and ``ref_t`` [K] of one coupling group; -1: the group is not coupled."""

    tau_t: float
    ref_t: float


@dataclass(frozen=True)
class RunSettings:
    """Every .mdp option that is honoured, under its own name with ``_`` for ``-``; defaults of gmx 2022.

    Text values are lower case. Lengths are in nm, times in ps, temperatures in K.

    Parameters
    ----------
    include, define : tuple of str
        Folders searched for included files; macros as ``NAME`` or ``NAME=VALUE``.
    integrator : {'md', 'md-vv', 'sd', 'steep', 'l-bfgs'}
        Leap-frog, velocity Verlet, stochastic dynamics, or one of `MINIMISERS`.
    nsteps : int
        -1 means without end.
    emtol : float, kJ/mol/nm
        A minimisation ends when no atom feels a larger force.
    emstep : float, nm
        Its first step with 'steep', and the longest step of an atom with 'l-bfgs'.
    comm_grps : tuple of str
        Groups whose centres of mass are each stopped; none meaning that of all atoms.
    nbfgscorr : int
        Steps that 'l-bfgs' remembers.
    nstlist : int
        Steps between neighbor searches; at least 1.
    verlet_buffer_tolerance : float
        kJ/mol/ps per atom; negative: use ``rlist``.
    coulombtype : {'reaction-field', 'cut-off', 'pme'}
        'cut-off' has k_rf = 0 and a shift of 1/``rcoulomb`` if the modifier is
        'potential-shift', 0 if it is 'none'.
    epsilon_rf : float
        0 means infinite.
    fourierspacing : float, nm
        Largest distance of two points of the PME grid; dimensions with a ``fourier_n`` above 0 have that many points.
    pme_order : int, 4 to 6
    ewald_rtol : float
        Of the pair potential at ``rcoulomb``, relative to plain Coulomb.
    rvdw_switch : float
        Where the two switching values of ``vdw_modifier`` begin to act.
    compressed_x_grps, tc_grps : tuple of str
        Groups in the trajectory, none meaning all atoms; groups of the thermostat, see `baths`.
    tau_t, ref_t : float, or tuple of float
        One number for every group alike, or one for each; -1 and 0 without a thermostat.
    nh_chain_length : int
        Thermostats of each Nose-Hoover chain, with velocity Verlet; leap-frog has one.
    annealing : tuple of str
        'no', 'single' or 'periodic' for each of ``tc_grps``; none without annealing, see `schedules`.
    annealing_npoints, annealing_time, annealing_temp : tuples
        Number of points of each group, and time [ps] and temperature [K] of each point.
    nsttcouple, nstpcouple : int
        Resolved as gmx does when the file says -1.
    pcoupl : {'no', 'berendsen', 'c-rescale', 'parrinello-rahman'}
    tau_p : float, ps
    compressibility, ref_p : tuple of float, 1/bar and bar
        One number for all directions, with ``pcoupltype`` semiisotropic one for x and y and one for z, with anisotropic
        six, for xx, yy, zz, xy, xz and yz, of which the last three act on nothing.
    refcoord_scaling : {'no', 'com', 'all'}
        How reference positions of restraints follow the box of the run: not, their centre, or each.
    ld_seed, gen_seed : int
        -1 means: to be drawn, see `with_drawn_seeds`.
    freezegrps, freezedim : tuple of str
        Groups whose atoms stay where they are, and Y three times for each.
    disre, disre_fc, disre_tau
        Whether distance restraints act, their force constant [kJ/mol/nm^2], and 0: there is no mean over time.
    constraints : {'none', 'h-bonds', 'all-bonds'}
        Which bonds become constraints; rigid water is rigid whatever this says.
    constraint_algorithm : {'lincs', 'shake'}
        Of constraints that tie many atoms together; few are solved by SHAKE until they hold.
    lincs_order, lincs_iter, lincs_warnangle
        Terms of LINCS's series, its corrections for rotation, and the angle [degree] of a warning.
    shake_tol : float
        Relative deviation of a length at which 'shake' ends.
    ignored : tuple of str
        Options that were set but are without effect here, each with the reason.
    """

    include: tuple[str, ...] = ()
    define: tuple[str, ...] = ()
    integrator: Literal["md", "md-vv", "sd", "steep", "l-bfgs"] = "md"
    tinit: float = 0.0
    dt: float = 0.001
    nsteps: int = 0
    init_step: int = 0
    comm_mode: Literal["linear", "none"] = "linear"
    comm_grps: tuple[str, ...] = ()
    nstcomm: int = 100
    ld_seed: int = -1
    emtol: float = 10.0
    emstep: float = 0.01
    nbfgscorr: int = 10
    nstxout: int = 0
    nstvout: int = 0
    nstfout: int = 0
    nstlog: int = 1000
    nstcalcenergy: int = 100
    nstenergy: int = 1000
    nstxout_compressed: int = 0
    compressed_x_grps: tuple[str, ...] = ()
    cutoff_scheme: Literal["verlet"] = "verlet"
    nstlist: int = 10
    pbc: Literal["xyz"] = "xyz"
    verlet_buffer_tolerance: float = 0.005
    rlist: float = 1.0
    coulombtype: Literal["cut-off", "reaction-field", "pme"] = "cut-off"
    coulomb_modifier: Literal["potential-shift", "none"] = "potential-shift"
    rcoulomb: float = 1.0
    epsilon_r: float = 1.0
    epsilon_rf: float = 0.0
    fourierspacing: float = 0.12
    fourier_nx: int = 0
    fourier_ny: int = 0
    fourier_nz: int = 0
    pme_order: int = 4
    ewald_rtol: float = 1e-5
    ewald_geometry: Literal["3d"] = "3d"
    vdwtype: Literal["cut-off"] = "cut-off"
    vdw_modifier: Literal["potential-shift", "none", "force-switch", "potential-switch"] = "potential-shift"
    rvdw_switch: float = 0.0
    rvdw: float = 1.0
    dispcorr: Literal["no", "ener", "enerpres", "allener", "allenerpres"] = "no"
    tcoupl: Literal["no", "v-rescale", "berendsen", "nose-hoover"] = "no"
    nsttcouple: int = 10
    tc_grps: tuple[str, ...] = ()
    tau_t: float | tuple[float, ...] = -1.0
    ref_t: float | tuple[float, ...] = 0.0
    nh_chain_length: int = 10
    annealing: tuple[str, ...] = ()
    annealing_npoints: tuple[int, ...] = ()
    annealing_time: tuple[float, ...] = ()
    annealing_temp: tuple[float, ...] = ()
    pcoupl: Literal["no", "berendsen", "c-rescale", "parrinello-rahman"] = "no"
    pcoupltype: Literal["isotropic", "semiisotropic", "anisotropic"] = "isotropic"
    nstpcouple: int = 10
    tau_p: float = 1.0
    compressibility: tuple[float, ...] = ()
    ref_p: tuple[float, ...] = ()
    refcoord_scaling: Literal["no", "com", "all"] = "no"
    gen_vel: bool = False
    gen_temp: float = 300.0
    gen_seed: int = -1
    continuation: bool = False
    freezegrps: tuple[str, ...] = ()
    freezedim: tuple[str, ...] = ()
    disre: Literal["no", "simple"] = "no"
    disre_fc: float = 1000.0
    disre_tau: float = 0.0
    constraints: Literal["none", "h-bonds", "all-bonds"] = "none"
    constraint_algorithm: Literal["lincs", "shake"] = "lincs"
    lincs_order: int = 4
    lincs_iter: int = 1
    lincs_warnangle: float = 30.0
    shake_tol: float = 1e-4
    ignored: tuple[str, ...] = ()

    @property
    def minimises(self) -> bool:
        """Whether the run is a minimisation."""
        return self.integrator in MINIMISERS

    @property
    def full_steps(self) -> bool:
        """Whether velocities that are given and reported belong to the time of the positions."""
        return self.integrator == "md-vv"

    @property
    def has_chains(self) -> bool:
        """Whether the thermostats are Nose-Hoover chains."""
        return self.full_steps and self.tcoupl == "nose-hoover"

    @property
    def draws(self) -> bool:
        """Whether anything of a run is drawn at random."""
        kinds = {self.integrator, self.tcoupl, self.pcoupl}
        return self.gen_vel or not kinds.isdisjoint(("sd", "v-rescale", "c-rescale"))

    @property
    def has_temperature(self) -> bool:
        """Whether ``ref_t`` is that of a thermostat or of stochastic dynamics."""
        return self.tcoupl != "no" or self.integrator == "sd"

    @property
    def baths(self) -> tuple[HeatBath, ...]:
        """The baths of ``tc_grps``, one each; without a temperature one, of the whole system."""
        n = max(1, len(self.tc_grps)) if self.has_temperature else 1
        times, temperatures = (
            value if isinstance(value, tuple) else (value,) * n for value in (self.tau_t, self.ref_t)
        )
        return tuple(HeatBath(*pair) for pair in zip(times, temperatures, strict=True))

    @property
    def schedules(self) -> tuple[Schedule | None, ...]:
        """How the temperature of each bath changes; none without annealing."""
        return schedules(self.annealing, self.annealing_npoints, self.annealing_time, self.annealing_temp)

    @property
    def highest_temperature(self) -> float:
        """Of the baths at any time, K."""
        return max(*(bath.ref_t for bath in self.baths), *self.annealing_temp, 0.0)

    def time_of(self, step: int) -> float:
        """Time of a step, ps."""
        return self.tinit + step * self.dt

    def at_step(self, step: int) -> RunSettings:
        """The settings with the temperatures that baths have in a step."""
        if not self.annealing:
            return self
        time = self.time_of(step)
        now = [
            bath.ref_t if schedule is None else schedule.at(time)
            for bath, schedule in zip(self.baths, self.schedules, strict=True)
        ]
        return replace(self, ref_t=tuple(now) if len(now) > 1 else now[0])

    def with_drawn_seeds(self, drawn: int | None = None) -> RunSettings:
        """Replace the seeds that are -1 by random ones or by `drawn`, so that what is saved can be repeated."""
        ld_seed, gen_seed = (
            seed if seed != -1 else secrets.randbelow(2**31 - 1) if drawn is None else drawn
            for seed in (self.ld_seed, self.gen_seed)
        )
        return replace(self, ld_seed=ld_seed, gen_seed=gen_seed)
