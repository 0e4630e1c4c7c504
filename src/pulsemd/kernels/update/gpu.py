"""The update on a device: leap-frog with SETTLE, kinetic sums, thermostat and centre of mass, without the host.

What a step needs from an earlier one (thermostat factors, velocity of the centre of mass, error word) stays in one
record of device memory, see control.py. The number of a step is the record's ``step`` plus an offset given to the
kernel; `tick` adds the steps made, so that recorded steps can be launched again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pulsemd.base.errors import TopologyError
from pulsemd.device.cuda import CudaDevice
from pulsemd.device.overlap import Wait
from pulsemd.kernels.constraints.gpu_networks import GpuNetworks
from pulsemd.kernels.constraints.gpu_sites import GpuSites
from pulsemd.kernels.search.gpu_layout import Slots
from pulsemd.kernels.update.control import as_control, first_control
from pulsemd.kernels.update.cuda_programs import (
    GROUP_SIZES,
    GROUP_THREADS,
    MAX_STAR_ATOMS,
    MOVE_THREADS,
    clock_program,
    leapfrog_program,
    shake_program,
    slots_program,
)
from pulsemd.kernels.update.gpu_full_steps import GpuFullSteps
from pulsemd.kernels.update.gpu_kinetic import GpuKinetic
from pulsemd.kernels.update.gpu_noise import GpuNoise
from pulsemd.kernels.update.gpu_tables import (
    ConstrainedGroups,
    UpdateConstants,
    oversized_group,
    star_order,
    water_table,
)

_SLOT_THREADS = 256


class GpuUpdate:
    """Velocities of a run on a device and the kernels that move its atoms.

    Parameters
    ----------
    device : CudaDevice
    constants : UpdateConstants
    velocities : (n_atoms, 3) float32, nm/ps, by global id
    fixed : bool
        int64 fixed-point forces and sums (reproducible mode).
    water_field : device array, optional
        `GpuExclusions.water_field`: each move then starts the next forces of the waters.

    Raises
    ------
    TopologyError
        If a constrained group is too large.

    Attributes
    ----------
    velocities : (capacity, 4) float32, device
        In slots after `settle_in`; the fourth word is 0. Keeps its address until the capacity changes.
    step_constants : (2, 21) float64, device
        `UpdateConstants.step`.
    control, counts : (k,) int64 and (2,) int32, device
        The record of control.py; how many rigid waters and free atoms one rank of several has.
    networks : GpuNetworks or None
    kinetic : GpuKinetic
    noise : GpuNoise or None
    """

    def __init__(
        self,
        device: CudaDevice,
        constants: UpdateConstants,
        velocities: np.ndarray,
        fixed: bool,
        water_field: Any = None,
    ) -> None:
        self.device, self.fixed, self._field = device, fixed, water_field
        groups, sites, networks = constants.groups, constants.water_sites, constants.networks
        others = sites.others
        in_networks = [] if networks is None else [networks.atoms]
        together = np.concatenate([groups.atoms, constants.sites.sites, *in_networks])
        table = water_table(constants.waters, together, len(constants.mass))
        self.n_waters, self.n_free = len(table.atoms), int(np.count_nonzero(table.role == -1))
        self._role, self._water_atoms = device.to_device(table.role), device.to_device(table.atoms)
        self._geometry = device.to_device(table.geometry)
        self._mass_of = device.to_device(constants.mass, np.float64)
        self.step_constants = device.to_device(constants.step())
        self._step = self.step_constants[0]
        self.noise = None if constants.bath is None else GpuNoise(device, constants.bath, fixed)
        self.n_groups = len(groups.offset) - 1
        self._branch = device.new_stream() if self.n_groups or networks is not None else None
        self._groups = self._upload_groups(groups)
        self._waters = device.empty((max(self.n_waters, 1), 4), np.int32)
        self._n_sites, self._site_atoms = sites.atoms.shape[1], device.to_device(sites.atoms, np.int32)
        self._site_weights = device.to_device(sites.weights, np.float64)
        self._site_slots = device.empty(sites.atoms.shape, np.int32)
        self._free = device.empty(max(self.n_free, 1), np.int32)
        self.counts = device.zeros(2, np.int32)
        self.control = device.to_device(first_control(len(constants.thermostats), constants.kick))
        self.kinetic = GpuKinetic(device, constants, self.control, fixed)
        self._sites = GpuSites(device, others, self._step, self.control, fixed) if len(others) else None
        self.networks = None if networks is None else GpuNetworks(device, networks, self.control, fixed)
        self._full = GpuFullSteps(device, fixed) if constants.full_steps else None
        self.velocities = device.to_device(np.pad(velocities, ((0, 0), (0, 1))), np.float32)
        self._slots: Slots | None = None
        self._forces: Any = None
        self._halo: Any = None
        self._sums_full = False
        self._bound: dict[tuple[Any, ...], Callable[[], None]] = {}

    def _upload_groups(self, groups: ConstrainedGroups) -> tuple[Any, ...]:
        if problem := oversized_group(groups):
            raise TopologyError(f"--device cuda: {problem}; use --device cpu")
        largest = int(np.diff(groups.offset).max(initial=0))
        self._group_size = next(size for size in GROUP_SIZES if largest <= size)
        order = star_order(groups) if largest <= MAX_STAR_ATOMS and not self.fixed else None
        self._are_stars = order is not None
        pairs, lengths = (
            (groups.pairs, groups.lengths) if order is None else (groups.pairs[order], groups.lengths[order])
        )
        arrays = (groups.offset, groups.atoms, groups.pair_offset, pairs)
        integers = [self.device.to_device(array, np.int32) for array in arrays]
        return (*integers, self.device.to_device(lengths, np.float64))

    # ---- at a search --------------------------------------------------------------------------------------------

    def settle_in(self, slots: Slots, forces: Any, velocities: Any = None) -> None:
        """Follow the atoms into their new slots.

        Parameters
        ----------
        slots : Slots
            As the search left them; ``slots.source`` refers to the rows that `velocities` has.
        forces : (capacity, 4) float32 or int64, device
            What `move` reads from now on, and with a `water_field` writes. Nothing is allocated if slots and
            forces are those of the last call.
        velocities : (rows, 4) float32, device, optional
            Of the rows that ``slots.source`` refers to, where they are not those of `velocities`.
        """
        rows = self.velocities if velocities is None else velocities
        if slots is not self._slots or forces is not self._forces or len(rows) > len(self._old):
            self._make_room(slots, forces, len(rows))
        self._old.data.copy_from_device_async(rows.data, rows.nbytes, self.device.stream)
        self._reorder()
        self.device.clear(self.counts)
        self._list_groups()

    def _make_room(self, slots: Slots, forces: Any, n_rows: int) -> None:
        """Arrays for another capacity, and the launches that use them."""
        device, self._capacity = self.device, slots.capacity
        self._slots, self._forces = slots, forces
        self._old = device.empty((max(slots.capacity, n_rows), 4), np.float32)
        self.velocities = device.empty((slots.capacity, 4), np.float32)
        self._mass = device.empty(slots.capacity, np.float64)
        if self._full is not None:
            self._full.make_room(slots.capacity)
        if self.noise is not None:
            self.noise.make_room(slots.capacity, forces.dtype)
        self._bound.clear()
        n, blocks = np.int32(slots.capacity), -(-slots.capacity // _SLOT_THREADS)
        self._reorder = device.kernel(slots_program(), "reorder").bind(
            blocks, _SLOT_THREADS, slots.gid, slots.source, n, self._old, self._mass_of, self.velocities,
            self._mass, slots.counters,
        )  # fmt: skip
        self._list_groups = device.kernel(slots_program(), "list_groups").bind(
            blocks, _SLOT_THREADS, slots.gid, n, self._role, self._water_atoms, slots.slot_of_gid,
            self._waters, self._free, self.counts, slots.counters, self._site_atoms, np.int32(self._n_sites),
            self._site_slots,
        )  # fmt: skip

    def construct_sites(self) -> None:
        """Put the virtual sites that no rigid water carries along where their parents want them."""
        if self._sites is not None:
            self._launch(self._bind_construct, 0)

    def set_step(self, step: int) -> None:
        """The step that has offset 0 from now on; does not wait."""
        self.control[:1].set(np.array([step], np.int64), stream=self.device.stream)

    def set_start(self, step: int) -> None:
        """The step that the error word counts from; does not wait."""
        self.control[1:2].set(np.array([step], np.int64), stream=self.device.stream)

    @property
    def reported_velocities(self) -> Any:
        """What frames have as velocities: those of the full step that was completed last, with velocity Verlet."""
        return self.velocities if self._full is None else self._full.velocities

    @property
    def error_word(self) -> Any:
        """(1,) int64 on the device, with all bits set as long as every atom could be moved."""
        return self.control[2:3]

    def forget_error(self) -> None:
        """Let no atom have failed to move; does not wait."""
        self.control[2:3].set(np.array([-1], np.int64), stream=self.device.stream)

    def read(self) -> np.void:
        """The record of control.py; waits for the device."""
        return as_control(self.device.to_host(self.control))

    # ---- in a step ----------------------------------------------------------------------------------------------

    def complete(self, *arguments: Any) -> None:
        """`completing` of a rank that has all atoms of networks of constraints."""
        _alone(self.completing(*arguments))

    def completing(self, coupled: bool, virial: Any = None) -> Iterator[None]:
        """Find the velocities of the full step, once its forces are complete; `sum_kinetic` then takes these.

        Stops as `moving` does.

        Parameters
        ----------
        coupled : bool
            The move begins from them, else they are beside `velocities`, from which it begins.
        virial : (9,) float64 or int64, device, optional
            OUTPUT: what moving the forces of virtual sites changes is added; if not coupled, that of the first half of
            the constraint forces is taken off, as a move adds twice that of both.
        """
        assert self._full is not None
        if not coupled:
            self._full.begin(self.velocities)
        self._virial = virial
        if self._sites is not None:
            self._launch(self._bind_spread, virial is not None)
        shared = None if self.networks is None else self.networks.shared
        if shared is not None:
            self.device.fork(shared.stream)
            self._launch(self._bind_share_velocities, coupled)
            yield
        how = coupled, virial is not None and not coupled
        self._launch(self._bind_complete_atoms, *how)
        if self.n_groups:
            self._launch(self._bind_complete_groups, *how)
        if self.networks is not None:
            self._launch(self._bind_complete_networks, *how)
        if shared is not None:
            self.device.join(shared.stream)
        self._sums_full = not coupled

    def sum_kinetic(self, offset: int, thermostat: int, remove_com: int, overlap: Wait | None = None) -> None:
        """Kinetic energy before the move, and from it what a coupled `move` does to the old velocities.

        Several centres of mass are stopped at once.

        Parameters
        ----------
        offset : int, of the step
        thermostat, remove_com : int
            Steps between two of these actions; 0: none. The device knows the step and does what is due.
        overlap : Wait, optional
            Begin before the kernel ahead in the stream has ended; FIRST, or LAST if that changes no velocity.
        """
        self._launch(self._bind_kinetic, offset, False, thermostat, remove_com, overlap, self._sums_full)

    def sum_kinetic_after(self) -> None:
        """Kinetic energy after the move."""
        self._launch(self._bind_kinetic, 0, True, 0, 0, None, False)

    def share_kinetic(self, share: Any, stream: Any) -> None:
        """Of one rank of several: leave the sums in ``share``, (6 n_sums,) int64 or float64 on the device, from now
        on, and let them run on a stream of their own."""
        self.kinetic.share, self.kinetic.stream = share, stream
        self._bound.clear()

    def couple(self, totals: Any, offset: int, after: bool, thermostat: int, remove_com: int) -> None:
        """Use the sums over all ranks, (6 n_sums,) on the device, always the same array, as `sum_kinetic` or
        `sum_kinetic_after` uses its own."""
        key = ("couple", offset, after, thermostat, remove_com)
        if key not in self._bound:
            self._bound[key] = self.kinetic.bind_couple(
                totals, self.velocities, self._mass, self._slots, key[1:]
            )
        self._bound[key]()

    @property
    def clears_forces(self) -> bool:
        """Whether moves leave 0 as the force of every atom that is in no rigid water."""
        return self._field is not None and self._sites is None

    @property
    def is_one_kernel(self) -> bool:
        """Whether a move without the virial is one launch, but for what several thermostats do ahead of it."""
        stars_at_most = (self.n_groups == 0 or self._are_stars) and self.networks is None
        return stars_at_most and self._sites is None and self.noise is None

    @property
    def can_exchange(self) -> bool:
        """Whether `move` can be given a ``halo``."""
        only_waters = self.n_free == 0 and self.n_groups == 0
        return self.is_one_kernel and only_waters and self.kinetic.n_baths == 1 and self._full is None

    def load_exchanged(self) -> None:
        """Compile or load the kernels of moves with a ``halo``."""
        for energies in (False, True):
            self.device.kernel(leapfrog_program(self.fixed, energies, self._n_sites, halo=True), "leapfrog")

    def move(self, *arguments: Any, **more: Any) -> None:
        """`moving` of a rank that has all atoms of networks of constraints."""
        _alone(self.moving(*arguments, **more))

    def moving(
        self, offset: int, coupled: bool, virial: Any = None, overlap: bool = False, halo: Any = None
    ) -> Iterator[None]:
        """Kick, drift and constrain all atoms; virtual sites give their forces away first and follow last.

        Stops where `SharedMoves.exchange` is to follow, once all ranks of the process have come so far.

        Parameters
        ----------
        offset : int, of the step
        coupled : bool
            Apply what the last `sum_kinetic` left.
        virial : (9,) float64 or int64, device, optional
            OUTPUT, added to: of the constraint forces, kJ/mol or its fixed point, and what moving the forces of
            virtual sites changes.
        overlap : bool
            The kernel ahead in the stream began after the last move and changes forces only: begin while it ends.
            Of a move that is one kernel.
        halo : device array, optional
            `StepHalo.tables` of this rank: take back the forces on ghosts of these atoms, and send new positions there.
        """
        self._virial, self._halo = virial, halo
        if self._sites is not None:
            self._launch(self._bind_spread, virial is not None)
        if coupled and self.kinetic.n_baths > 1:
            self._launch(self._bind_couple_groups)
            coupled = False
        yield from self._move_all(offset, coupled, virial is not None, overlap)
        if self.noise is not None:
            self._launch(self._bind_noise, offset)
            yield from self._move_all(offset, False, False, False, noise=True)
            self._launch(self._bind_add)

    def _move_all(
        self, offset: int, coupled: bool, energies: bool, overlap: bool, noise: bool = False
    ) -> Iterator[None]:
        """Move all atoms, with their velocities, or for half a step with what noise added to these; see `moving`."""
        shared = None if self.networks is None else self.networks.shared
        if shared is not None:
            self.device.fork(shared.stream)
            self._launch(self._bind_share, offset, coupled, noise)
            yield
        with_groups = self.n_groups > 0 and (energies or not self._are_stars)
        beside = with_groups or self.networks is not None
        if beside:
            self.device.fork(self._branch)
        if self.networks is not None:
            self._launch(self._bind_networks, offset, coupled, energies, noise)
        if with_groups:
            self._launch(self._bind_groups, offset, coupled, energies, noise)
        halo = None if self._halo is None else self._halo.data.ptr
        self._launch(self._bind_move, offset, coupled, energies, overlap, noise, halo)
        if beside:
            self.device.join(self._branch)
        if shared is not None:
            self.device.join(shared.stream)
        if self._sites is not None:
            self._launch(self._bind_construct, offset)

    def tick(self, n: int) -> None:
        """Count the steps that were made since offset 0."""
        self._launch(self._bind_tick, n)

    def _launch(self, bind: Callable[..., Callable[[], None]], *arguments: Any) -> None:
        """Launch, prepared once for each set of arguments."""
        key = (bind.__name__, *arguments)
        launch = self._bound.get(key)
        if launch is None:
            launch = self._bound[key] = bind(*arguments)
        launch()

    def _bind_tick(self, n: int) -> Callable[[], None]:
        return self.device.kernel(clock_program(), "tick").bind(1, 1, self.control, np.int32(n))

    def _bind_kinetic(
        self, offset: int, after: bool, thermostat: int, remove_com: int, overlap: Wait | None, beside: bool
    ) -> Callable[[], None]:
        v, flags = self._completed(not beside), (offset, after, thermostat, remove_com)
        return self.kinetic.bind_sums(v, self._mass, self._slots, flags, overlap)

    def _bind_couple_groups(self) -> Callable[[], None]:
        return self.kinetic.bind_groups(self.velocities, self._forces, self._mass, self._slots)

    def _bind_noise(self, offset: int) -> Callable[[], None]:
        assert self.noise is not None
        return self.noise.bind(self.velocities, self._slots.gid, self._mass, self.control, offset)

    def _bind_add(self) -> Callable[[], None]:
        assert self.noise is not None
        return self.noise.bind_add(self.velocities)

    def _moved(self, noise: bool) -> tuple[Any, Any, Any]:
        """Velocities that move atoms, forces on them, and the constants of the step."""
        if noise:
            assert self.noise is not None
            return self.noise.added, self.noise.no_forces, self.step_constants[1]
        return self.velocities, self._forces, self._step

    def _numbers(self) -> tuple[int, int, Any]:
        """The most rigid waters and free atoms there can be, and where their numbers are if they change at searches."""
        if self._slots.counters is None:
            return self.n_waters, self.n_free, None
        return min(self.n_waters, self._capacity // 3), min(self.n_free, self._capacity), self.counts

    def _bind_move(
        self, offset: int, coupled: bool, energies: bool, overlap: bool, noise: bool, halo: int | None
    ) -> Callable[[], None]:
        v, f, step = self._moved(noise)
        with_stars = self._are_stars and not energies
        program = leapfrog_program(self.fixed, energies, self._n_sites, with_stars, halo is not None)
        kernel = self.device.kernel(program, "leapfrog")
        waters, free, counts = self._numbers()
        star_blocks = -(-self.n_groups // MOVE_THREADS) if with_stars else 0
        offsets, atoms, first_pairs, _, lengths = self._groups
        blocks = star_blocks - (-(waters + free) // MOVE_THREADS)
        return kernel.bind(
            blocks, MOVE_THREADS, self._slots.x, v, f, self._waters,
            np.int32(waters), self._geometry, self._free, np.int32(free), self._mass,
            self._slots.gid, step, self.control, np.int32(offset), np.int32(coupled), self._virial,
            self._field, counts, self._site_slots, self._site_weights, np.int32(star_blocks),
            np.int32(self.n_groups), offsets, atoms, first_pairs, lengths, self._slots.slot_of_gid,
            np.int32(self._capacity), self._slots.counters, np.int32(self.clears_forces), self._halo,
            overlap=overlap,
        )  # fmt: skip

    def _bind_spread(self, energies: bool) -> Callable[[], None]:
        assert self._sites is not None
        return self._sites.bind_spread(self._slots, self._forces, self._virial if energies else None)

    def _bind_construct(self, offset: int) -> Callable[[], None]:
        assert self._sites is not None
        return self._sites.bind_construct(self._slots, offset)

    def _bind_share(self, offset: int, coupled: bool, noise: bool) -> Callable[[], None]:
        assert self.networks is not None
        return self.networks.bind_share(self._slots, self._moved(noise), offset, coupled)

    def _bind_networks(self, offset: int, coupled: bool, energies: bool, noise: bool) -> Callable[[], None]:
        assert self.networks is not None
        virial, clear = self._virial if energies else None, self.clears_forces
        return self.networks.bind(
            self._slots, self._moved(noise), offset, coupled, virial, clear, self._branch
        )

    def _bind_groups(self, offset: int, coupled: bool, energies: bool, noise: bool) -> Callable[[], None]:
        v, f, step = self._moved(noise)
        program = shake_program(self.fixed, energies, self._group_size)
        kernel = self.device.kernel(program, "leapfrog_shake")
        first, *others = self._groups
        return kernel.bind(
            -(-self.n_groups // GROUP_THREADS), GROUP_THREADS, self._slots.x, v, f,
            first, np.int32(self.n_groups), *others, self._slots.slot_of_gid, self._mass, self._slots.gid,
            step, self.control, np.int32(offset), np.int32(coupled), self._virial,
            np.int32(self._capacity), self._slots.counters, np.int32(self.clears_forces), stream=self._branch,
        )  # fmt: skip

    def _completed(self, coupled: bool) -> Any:
        return self.velocities if coupled else self.reported_velocities

    def _bind_complete_atoms(self, coupled: bool, energies: bool) -> Callable[[], None]:
        assert self._full is not None
        waters, free, counts = self._numbers()
        of_waters = self._waters, np.int32(waters), self._geometry
        rows = (*of_waters, self._free, np.int32(free), self._mass, self._step)
        sites, virial = (counts, self._site_slots, self._site_weights), self._virial if energies else None
        arrays = self._completed(coupled), self._slots, self._forces
        return self._full.bind_atoms(*arrays, self._n_sites, (*rows, *sites), virial)

    def _velocities(self, coupled: bool) -> tuple[Any, ...]:
        """Slots, velocities to be completed, and what completes them."""
        return self._slots, self._completed(coupled), self._forces, self._mass, self._step

    def _bind_complete_groups(self, coupled: bool, energies: bool) -> Callable[[], None]:
        assert self._full is not None
        virial, groups = self._virial if energies else None, (self._group_size, self._groups[:4])
        return self._full.bind_groups(*self._velocities(coupled), virial, *groups)

    def _bind_complete_networks(self, coupled: bool, energies: bool) -> Callable[[], None]:
        assert self.networks is not None
        return self.networks.bind_complete(*self._velocities(coupled), self._virial if energies else None)

    def _bind_share_velocities(self, coupled: bool) -> Callable[[], None]:
        assert self.networks is not None
        return self.networks.bind_share_velocities(*self._velocities(coupled))


def _alone(steps: Iterator[None]) -> None:
    """Go through what a rank does without others."""
    for _ in steps:
        raise RuntimeError("networks of constraints are shared: the ranks of a process move together")
