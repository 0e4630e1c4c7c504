"""How a system would be cut for a number of ranks: the engine's own choices and halo plans, without forces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, get_args

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.box import widths_of
from pulsemd.domain.atoms import UpdateGroups, select_owned
from pulsemd.domain.grid import (
    Grid,
    choose_grid,
    factorizations,
    grids_by_cost,
    halo_cost,
    lattice_halo,
    pulse_counts,
)
from pulsemd.domain.lattice import check_cutoff
from pulsemd.domain.plan import LocalDomain, build_halo
from pulsemd.engine.barostat import check_barostat
from pulsemd.engine.options import RunOptions
from pulsemd.engine.setup import choose_list_cutoff, choose_nstlist, explain_list_cutoff, start_halo
from pulsemd.engine.system import System
from pulsemd.engine.terms import TermOwnership
from pulsemd.halo import HaloPlan, Transport
from pulsemd.halo.plan import Kind
from pulsemd.plan.meeting import on_all_ranks

NEXT_BEST: Final = 3
"""Grids that are named besides the one taken."""


@dataclass(frozen=True)
class GridCost:
    """A grid that fits, as the cost model of the domain code sees it.

    Parameters
    ----------
    grid : three ints
    cost : float, nm^3
        Halo volume, with that of each pulse.
    cell_nm : three floats, nm
        Perpendicular widths of a cell.
    pulses : three ints
        Of a staged plan, along each dimension.
    """

    grid: tuple[int, int, int]
    cost: float
    cell_nm: tuple[float, float, float]
    pulses: tuple[int, int, int]


@dataclass(frozen=True)
class Exchange:
    """One direction of a halo exchange.

    Parameters
    ----------
    pulses : int
        Of each rank.
    in_a_row : int
        The most pulses of which each waits for the one before.
    messages : int
        Pulses of all ranks that carry rows to another rank.
    rows : int
        Sent by all ranks.
    """

    pulses: int
    in_a_row: int
    messages: int
    rows: int


@dataclass(frozen=True, eq=False)
class Cut:
    """A system on a number of ranks, at its start and with equal cells.

    Parameters
    ----------
    ranks, atoms : int
    device, precision : str
    plan : {'staged', 'direct'}
        The one that a run takes.
    nstlist, nstlist_of_settings : int
    list_cutoff_nm : float
    list_cutoff_why : str
    halo_nm : float
    grids : tuple of GridCost
        The one taken, then the next best by cost.
    owned, ghosts : (ranks,) int64, atoms
    exchanges : dict of plan to Exchange
    row_bytes : two ints
        Of one ghost row, forward and reverse.
    """

    ranks: int
    atoms: int
    device: str
    precision: str
    plan: Kind
    nstlist: int
    nstlist_of_settings: int
    list_cutoff_nm: float
    list_cutoff_why: str
    halo_nm: float
    grids: tuple[GridCost, ...]
    owned: NDArray[np.int64]
    ghosts: NDArray[np.int64]
    exchanges: dict[Kind, Exchange]
    row_bytes: tuple[int, int]

    @property
    def bytes_per_step(self) -> tuple[int, int]:
        """Of all ranks: positions to ghost rows, and forces back."""
        n = int(self.ghosts.sum())
        return n * self.row_bytes[0], n * self.row_bytes[1]

    @property
    def ghost_share(self) -> float:
        """Ghost rows of all ranks over all their rows."""
        ghosts = int(self.ghosts.sum())
        return ghosts / (ghosts + self.atoms)


def cut_system(system: System, options: RunOptions) -> Cut:
    """Cut a system as a run with these options would at its start; nothing is computed or moved.

    Parameters
    ----------
    system : System
    options : RunOptions
        With the device settled.

    Raises
    ------
    DomainError
        As a run: if the cut-off does not fit the box, or no grid fits the ranks.
    """
    nstlist, r_list, extent, halo, grid = choose_cut(system, options)
    least = halo if options.several_on_gpus else extent
    domains = {kind: all_domains(system, grid, r_list, least, kind) for kind in get_args(Kind)}
    own = domains[options.plan_kind]
    return Cut(
        ranks=options.ranks,
        atoms=system.topology.n_atoms,
        device=options.device,
        precision=options.precision,
        plan=options.plan_kind,
        nstlist=nstlist,
        nstlist_of_settings=system.settings.nstlist,
        list_cutoff_nm=r_list,
        list_cutoff_why=explain_list_cutoff(system, nstlist),
        halo_nm=own[0].halo_width,
        grids=_grids(grid, system.box, halo),
        owned=np.array([domain.n_owned for domain in own]),
        ghosts=np.array([domain.n_local - domain.n_owned for domain in own]),
        exchanges={kind: _exchange([d.plan for d in found]) for kind, found in domains.items()},
        row_bytes=row_bytes(options),
    )


def choose_cut(system: System, options: RunOptions) -> tuple[int, float, float, float, Grid]:
    """What a run with these options would choose at its start, or why it would be refused.

    Returns
    -------
    nstlist : int
    r_list, extent, halo : float, nm
        List cut-off, largest distance between two leaders of a term, and width of the halo.
    grid : Grid

    Raises
    ------
    DomainError
        As `cut_system`.
    """
    nstlist, earlier = choose_nstlist(system, options), system.continuation
    r_list = choose_list_cutoff(system, nstlist) if earlier is None else earlier.list_cutoff
    check_cutoff(r_list, system.box)
    check_barostat(system.settings, system.topology, system.user_box)
    extent = TermOwnership(system).start_extent(system)
    halo = start_halo(system, r_list, extent, options.several_on_gpus)
    return nstlist, r_list, extent, halo, choose_grid(options.ranks, system.box, halo, options.grid)


def row_bytes(options: RunOptions) -> tuple[int, int]:
    """Bytes of a ghost row, of its position and of its force: three numbers on CPUs, four on GPUs."""
    width = 4 if options.device == "cuda" else 3
    return 4 * width, (8 if options.precision == "reproducible" else 4) * width


def _grids(taken: Grid, box: NDArray[np.float64], halo: float) -> tuple[GridCost, ...]:
    every = [Grid(shape) for shape in factorizations(taken.size)]
    others = [found for found in grids_by_cost(every, box, halo) if found[1].shape != taken.shape]
    w, halo_of = widths_of(box), lattice_halo(halo, box)

    def described(cost: float, grid: Grid) -> GridCost:
        a, b, c = (float(w[d]) / grid.shape[d] for d in range(3))
        return GridCost(grid.shape, cost, (a, b, c), pulse_counts(grid, halo_of))

    first = described(halo_cost(taken, box, halo), taken)
    return (first, *(described(*found) for found in others[:NEXT_BEST]))


def all_domains(system: System, grid: Grid, r_list: float, extent: float, kind: Kind) -> list[LocalDomain]:
    """What every rank of a grid holds, planned by all of them as threads of this process.

    Raises
    ------
    DomainError
        The first that a rank meets.
    """
    groups = UpdateGroups(system.topology.group_offset, system.topology.group_atoms)

    def plan(transport: Transport) -> LocalDomain:
        atoms = select_owned(grid, transport.rank, groups, system.x, system.v)
        return build_halo(transport, grid, groups, atoms, system.box, r_list, extent, kind)

    return on_all_ranks(grid.size, plan)


def _exchange(plans: list[HaloPlan]) -> Exchange:
    sent = [(plan.rank, pulse.send_rank, pulse.n_send) for plan in plans for pulse in plan.pulses]
    return Exchange(
        pulses=len(plans[0].pulses),
        in_a_row=max(_in_a_row(plan) for plan in plans),
        messages=sum(n > 0 and here != there for here, there, n in sent),
        rows=sum(n for _, _, n in sent),
    )


def _in_a_row(plan: HaloPlan) -> int:
    """Length of the longest chain of pulses in which each sends on rows that the one before brought."""
    lengths: list[int] = []
    for pulse in plan.pulses:
        before = (lengths[p] for p in np.unique(pulse.depends) if p >= 0)
        lengths.append(1 + max(before, default=0))
    return max(lengths, default=0)
