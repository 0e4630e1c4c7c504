"""Halo exchange between ranks, usable alone: plans, channels and a ladder of transports.

>>> from pulsemd.halo import cartesian_plan, launch, open_transport
"""

from pulsemd.halo.cartesian import cartesian_plan
from pulsemd.halo.launch import launch, launch_gpus
from pulsemd.halo.plan import HaloPlan, Pulse, dependencies
from pulsemd.halo.rows import plan_from_ids
from pulsemd.halo.transport import TRANSPORTS, Channel, Reduce, Transport, open_transport

__all__ = [
    "TRANSPORTS",
    "Channel",
    "HaloPlan",
    "Pulse",
    "Reduce",
    "Transport",
    "cartesian_plan",
    "dependencies",
    "launch",
    "launch_gpus",
    "open_transport",
    "plan_from_ids",
]
