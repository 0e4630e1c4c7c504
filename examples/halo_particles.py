"""Particles that move from rank to rank, through `pulsemd.halo` alone; owners, ghosts and plan change every few steps.

    python examples/halo_particles.py --particles 300 --ranks 3

A periodic box is cut into slabs. Every fifth step each particle goes to the rank of its slab, and each rank is told
which particles of others lie near its slab: those are its ghosts until then. In a step positions go out to ghosts, and
the forces on ghosts come back. All numbers are whole, so the result is that of one array to the last bit.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.halo import Channel, HaloPlan, Transport, launch, plan_from_ids

BOX, CUTOFF, SKIN, EVERY = 2**16, 6000, 6000, 5
PARTICLE = np.dtype([("id", "i8"), ("x", "i8", 2), ("v", "i8", 2)])
Particles = NDArray[Any]


def start(count: int) -> Particles:
    """Particles at random places, slow enough for lists that last `EVERY` steps."""
    random = np.random.default_rng(3)
    particles = np.zeros(count, PARTICLE)
    particles["id"] = np.arange(count)
    particles["x"] = random.integers(0, BOX, (count, 2))
    particles["v"] = random.integers(-200, 201, (count, 2))
    return particles


def forces(x: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n, m, 2) forces on each of ``x`` by each of ``others``: a push that ends at the cut-off."""
    d = (x[:, None] - others[None] + BOX // 2) % BOX - BOX // 2
    push = np.sign(d) * ((CUTOFF - np.abs(d)) // 2000)
    return np.where((np.abs(d) < CUTOFF).all(axis=2, keepdims=True), push, 0)


def near_slab(x: NDArray[np.int64], rank: int, size: int) -> NDArray[np.bool_]:
    """Whether particles lie in the slab of a rank or so near that one of its particles may come to feel them."""
    low, high = (-(-BOX * k // size) for k in (rank, rank + 1))
    beyond, reach = (x[:, 0] - low) % BOX, CUTOFF + SKIN
    return (beyond < high - low + reach) | (beyond > BOX - reach)


def migrate(transport: Transport, mine: Particles) -> Particles:
    """The particles of this rank's slab, from whoever had them."""
    owner = mine["x"][:, 0] * transport.size // BOX
    return np.concatenate(transport.alltoall([mine[owner == rank] for rank in range(transport.size)]))


def find_ghosts(transport: Transport, mine: Particles) -> NDArray[np.int64]:
    """Ids of what others have near this rank's slab; who has a particle knows whose slab it is near."""
    ids = [mine["id"][near_slab(mine["x"], rank, transport.size)] for rank in range(transport.size)]
    ids[transport.rank] = np.empty(0, np.int64)
    return np.concatenate(transport.alltoall(ids))


def all_forces(plan: HaloPlan, ids: Any, x: Any, f: Any, of_x: Channel, of_f: Channel) -> None:
    """Forces on owned particles; a pair across slabs is computed by the owner of the particle with the lower id."""
    owned, ghosts = slice(0, plan.n_owned), slice(plan.n_owned, plan.n_local)
    of_x.forward_begin()
    f[owned] = forces(x[owned], x[owned]).sum(axis=1)  # needs no ghost: overlaps the exchange
    of_x.forward_end()
    ours = ids[owned, None] < ids[None, ghosts]
    across = np.where(ours[..., None], forces(x[owned], x[ghosts]), 0)
    f[ghosts] = -across.sum(axis=0)
    of_f.reverse_begin()  # forces on ghosts go to their owners
    f[owned] += across.sum(axis=1)  # owned rows may be added to meanwhile
    of_f.reverse_end()


def simulate(transport: Transport, settings: dict[str, int]) -> Particles | None:
    """The whole run of one rank; all particles on rank 0."""
    everyone = start(settings["particles"])
    mine = everyone[everyone["x"][:, 0] * transport.size // BOX == transport.rank]
    x = transport.allocate("positions", len(everyone), 2, "int64")
    f = transport.allocate("forces", len(everyone), 2, "int64")
    channels = []
    for step in range(settings["steps"]):
        if step % EVERY == 0:
            mine = migrate(transport, mine)
            plan, ids = plan_from_ids(transport, mine["id"], find_ghosts(transport, mine))
            if channels:
                for channel in channels:
                    channel.rebind(plan)
            else:
                channels = [transport.channel(plan, array) for array in (x, f)]
        x[: plan.n_owned] = mine["x"]
        all_forces(plan, ids, x, f, *channels)
        mine["v"] += f[: plan.n_owned]
        mine["x"] = (mine["x"] + mine["v"]) % BOX
        if 2 * EVERY * np.abs(mine["v"]).max(initial=0) > SKIN:
            raise ValueError(
                f"step {step}: a particle is too fast for lists of {EVERY} steps; search more often"
            )
    found = np.concatenate(transport.allgather(mine))
    return found[np.argsort(found["id"])] if transport.rank == 0 else None


def serial(settings: dict[str, int]) -> Particles:
    """The same steps on one array."""
    particles = start(settings["particles"])
    for _ in range(settings["steps"]):
        particles["v"] += forces(particles["x"], particles["x"]).sum(axis=1)
        particles["x"] = (particles["x"] + particles["v"]) % BOX
    return particles


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--particles", type=int, default=300)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--transport", default="shmem")
    options = parser.parse_args()
    settings = {"particles": options.particles, "steps": options.steps}
    found = launch(options.ranks, "halo_particles:simulate", settings, transport=options.transport)
    same = np.array_equal(found, serial(settings))
    moved = int(
        (found["x"][:, 0] * options.ranks // BOX != start(len(found))["x"][:, 0] * options.ranks // BOX).sum()
    )
    print(
        f"{options.ranks} ranks, {options.transport}: {moved} of {len(found)} particles have changed their rank"
    )
    print("bitwise equal to one array" if same else "DIFFERS from one array")
    raise SystemExit(not same)


if __name__ == "__main__":
    main()
