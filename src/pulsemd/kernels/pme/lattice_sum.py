"""Smooth particle-mesh Ewald on CPUs: the long-range part of electrostatics by Fourier transforms."""

from __future__ import annotations

import numpy as np

from pulsemd.base.fixed_point import FORCE_SCALE
from pulsemd.kernels.pme.mesh import Mesh, signed_waves, wave_factors
from pulsemd.kernels.pme.splines import CHARGE_SCALE, mesh_forces, on_mesh, spread_charges


class LatticeSum:
    """Reciprocal-space energy, virial and forces of charges in a periodic box.

    E = f/(2 pi V) sum over waves m of exp(-pi^2 m^2/beta^2)/m^2 |S(m)|^2, with the structure factors S by B-spline
    interpolation on a mesh, and f the Coulomb factor.

    Parameters
    ----------
    mesh : Mesh
    beta : float, 1/nm
    coulomb_factor : float, kJ mol^-1 nm e^-2
    net_charge : float, e
        Of the whole system; a uniform background neutralises it.

    Attributes
    ----------
    charges : (n_a, n_b, n_c) int64, units of e / `CHARGE_SCALE`
        Every rank needs the sum over all ranks before `solve`.

    Notes
    -----
    Call `spread`, sum ``charges`` over the ranks, `solve`, `add_forces`. Ranks that solve the
    same mesh get the same bits.

    References
    ----------
    Essmann, Perera, Berkowitz, Darden, Lee & Pedersen, J. Chem. Phys. 103, 8577 (1995).
    """

    def __init__(
        self,
        mesh: Mesh,
        beta: float,
        coulomb_factor: float,
        net_charge: float = 0.0,
    ) -> None:
        self.charges, self._potential = np.zeros(mesh.shape, np.int64), np.zeros(mesh.shape)
        self._frame = mesh.frame.astype(np.int32)
        self._beta, self._coulomb_factor, self._net_charge = beta, coulomb_factor, net_charge
        self._factors = _spline_factors(mesh)
        self.set_mesh(mesh)

    def set_mesh(self, mesh: Mesh) -> None:
        """Take a mesh that differs in its box only."""
        shape, beta, coulomb_factor = mesh.shape, self._beta, self._coulomb_factor
        self.mesh, self._inverse = mesh, np.linalg.inv(mesh.box)
        volume = abs(float(np.linalg.det(mesh.box)))
        self._waves, self._weight = _half_of_waves(shape, self._inverse)
        square = (self._waves**2).sum(axis=0)
        square[0, 0, 0] = 1.0
        self._exponent = (np.pi / beta) ** 2 * square
        self._green = coulomb_factor / (np.pi * volume) * np.exp(-self._exponent) / square * self._factors
        self._green[0, 0, 0] = 0.0
        self._square = square
        self._background = background_energy(volume, beta, coulomb_factor, self._net_charge)

    def spread(self, x: np.ndarray, charge: np.ndarray) -> None:
        """Put charges [e] (n,) at lattice positions (n, 3) on the mesh, in place of what was there."""
        self.charges[...] = 0
        spread_charges(on_mesh(x, self._frame), charge, self.mesh.order, self.charges)

    def solve(self, wanted: bool) -> np.ndarray | None:
        """Find the potential of the charges on the mesh.

        Returns
        -------
        (10,) float64, kJ/mol, if wanted
            Energy and the nine elements of the virial sum of r (x) f, of all charges, with the background.
        """
        structure = np.fft.rfftn(self.charges / CHARGE_SCALE)
        sums = self._energy_and_virial(structure) if wanted else None
        structure *= self._green
        self._potential = np.fft.irfftn(structure, self.charges.shape, axes=(0, 1, 2), norm="forward")
        return sums

    def _energy_and_virial(self, structure: np.ndarray) -> np.ndarray:
        each = 0.5 * self._weight * self._green * (structure.real**2 + structure.imag**2)
        energy = each.sum() + self._background
        stretched = each * (-2.0 * (1.0 + self._exponent) / self._square)
        virial = np.einsum("axyz,bxyz,xyz->ab", self._waves, self._waves, stretched) + energy * np.eye(3)
        return np.concatenate(([energy], virial.ravel()))

    def add_forces(self, x: np.ndarray, charge: np.ndarray, forces: np.ndarray) -> None:
        """Add the forces on charges at lattice positions.

        Parameters
        ----------
        x : (n, 3) int32, lattice units
        charge : (n,) float64, e
        forces : (n, 3) float32 kJ/mol/nm, or int64 fixed point
            OUTPUT, added to.
        """
        found = np.empty((len(x), 3))
        mesh_forces(on_mesh(x, self._frame), charge, self.mesh.order, self._potential, self._inverse, found)
        if forces.dtype == np.int64:
            forces += np.rint(found * FORCE_SCALE).astype(np.int64)
        else:
            forces += found.astype(forces.dtype)


def background_energy(volume: float, beta: float, coulomb_factor: float, net_charge: float) -> float:
    """Energy [kJ/mol] of a net charge [e] with the uniform background that neutralises it, in nm^3, 1/nm.

    It goes with 1/volume, so each of the three diagonal elements of its virial is the energy itself.
    """
    return -coulomb_factor * np.pi * net_charge**2 / (2.0 * volume * beta**2)


def _spline_factors(mesh: Mesh) -> np.ndarray:
    """What splines do to each wave of a real transform, (n_a, n_b, n_c/2 + 1)."""
    b_a, b_b, b_c = (wave_factors(n, mesh.order) for n in mesh.shape)
    factors: np.ndarray = b_a[:, None, None] * b_b[:, None] * b_c[: mesh.shape[2] // 2 + 1]
    return factors


def _half_of_waves(shape: tuple[int, ...], inverse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Wave vectors [1/nm] (3, n_a, n_b, n_c/2 + 1) of a real transform, and how often each counts (1, 1, n_c/2 + 1)."""
    a, b, c = (signed_waves(n) for n in shape)
    c = c[: shape[2] // 2 + 1]
    waves = np.stack(np.meshgrid(a, b, np.abs(c), indexing="ij")).astype(np.float64)
    weight = np.full(len(c), 2.0)
    weight[0] = 1.0
    if shape[2] % 2 == 0:
        weight[-1] = 1.0
    return np.einsum("dm,mxyz->dxyz", inverse, waves), weight[None, None]
