"""Integrators, thermostats and the rest of what says how to run, as options of a run."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pulsemd.io.openmm.document import Document, Force, number, section_of
from pulsemd.io.openmm.draft import SystemDraft

log = logging.getLogger(__name__)

_LANGEVIN: Mapping[str, str] = {
    "LangevinIntegrator": "the same equation of motion",
    "LangevinMiddleIntegrator": "the same steps",
}
"""What integrator = sd has in common with integrators of Langevin dynamics."""

_BAROSTAT_REMEDY = (
    "a barostat with the same ensemble is C-rescale: add pcoupl='c-rescale', which then takes its pressure "
    "from here, and refcoord_scaling='com' if positions are restrained"
)

COMPRESSIBILITY = 4.5e-5
"""1/bar, of water: what decides how fast C-rescale is, unless another is given."""

_THERMOSTATS: Mapping[str, str] = {
    "LangevinIntegrator": "friction",
    "LangevinMiddleIntegrator": "friction",
    "NoseHooverIntegrator": "collisionFrequency",
}
"""Integrators with a thermostat, and the attribute with its rate [1/ps]."""

BAROSTATS = ("MonteCarloBarostat", "MonteCarloMembraneBarostat", "MonteCarloAnisotropicBarostat")
OF_RUNS = ("CMMotionRemover", "AndersenThermostat", *BAROSTATS)
"""Forces that only say how to run."""

_REMEDY = (
    "a thermostat with the same ensemble is v-rescale: add tcoupl='v-rescale', which then takes its temperature "
    "from here"
)


def remember_run_force(draft: SystemDraft, force: Force) -> None:
    """Keep a force that only says how to run."""
    if force.type in draft.run:
        raise force.error(f"{draft.run[force.type].name} is there already", "keep one")
    draft.run[force.type] = force


_OF_BATHS: Mapping[str, tuple[str, str]] = {
    "MonteCarloPressure": ("MonteCarloBarostat", "pressure"),
    "MembraneMonteCarloPressure": ("MonteCarloMembraneBarostat", "pressure"),
    "MembraneMonteCarloSurfaceTension": ("MonteCarloMembraneBarostat", "surfaceTension"),
    **{
        f"MonteCarloPressure{axis}": ("MonteCarloAnisotropicBarostat", f"pressure{axis.lower()}")
        for axis in "XYZ"
    },
    "AndersenTemperature": ("AndersenThermostat", "temperature"),
    "AndersenCollisionFrequency": ("AndersenThermostat", "frequency"),
}
"""Global parameters that no expression has: the class and the attribute they stand for."""


def with_parameters(document: Document, state: Document) -> Document:
    """A System whose global parameters are at the values of a State, where it has them, as OpenMM sets them."""
    for name, value in section_of(state.element, "Parameters").attrib.items():
        for force in section_of(document.element, "Forces"):
            for parameter in section_of(force, "GlobalParameters"):
                if parameter.get("name") == name:
                    parameter.set("default", value)
            kind, attribute = _OF_BATHS.get(name, ("", ""))
            if force.get("type") == kind:
                force.set(attribute, value)
    return document


def check_groups(document: Document, integrator: Document | None) -> None:
    """Refuse an integrator that leaves forces out by their groups.

    Raises
    ------
    TopologyError
        Naming the first force that is left out.
    """
    groups = -1 if integrator is None else int(integrator.element.get("integrationForceGroups", "-1"))
    for index, element in enumerate(section_of(document.element, "Forces")):
        if element.get("type") in OF_RUNS:
            continue
        own = int(element.get("forceGroup", "0"))
        mesh = int(element.get("recipForceGroup", "-1"))
        for group in (own, own if mesh < 0 else mesh):
            if not groups >> group & 1:
                raise Force(index, element, document.file).error(
                    f"its group {group} is not among those that the integrator takes forces from; here all forces act",
                    "remove the force from the System, or give the integrator its group by setIntegrationForceGroups",
                )


def run_options(draft: SystemDraft, integrator: Document | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a run by .mdp name, of an integrator and of forces.

    Parameters
    ----------
    draft : SystemDraft
    integrator : Document or None
        Without one, the integrator is leap-frog with the step given.
    given : mapping
        Options of the caller, which say whether thermostats of another kind may be replaced.

    Raises
    ------
    InputError, TopologyError
        If something has no equivalent, naming it and the remedy.
    """
    options = _centre_of_mass(draft.run.get("CMMotionRemover")) | _barostat(draft, given)
    tcoupl = str(given.get("tcoupl", "no")).lower().replace("_", "-")
    replaced = tcoupl != "no"
    if integrator is not None:
        options |= _integrator_options(integrator, replaced)
        if integrator.kind == "NoseHooverIntegrator" and tcoupl == "nose-hoover":
            options |= _period(number(integrator.element, _THERMOSTATS[integrator.kind]))
    thermostat = draft.run.get("AndersenThermostat")
    if thermostat is not None:
        if not replaced:
            raise thermostat.error("collisions with a heat bath are not supported", _REMEDY)
        options |= _coupling(thermostat.number("temperature"), thermostat.number("frequency"))
    return options


def _centre_of_mass(remover: Force | None) -> dict[str, Any]:
    if remover is None:
        return {"comm_mode": "none"}
    return {"comm_mode": "linear", "nstcomm": int(remover.number("frequency"))}


def _integrator_options(integrator: Document, replaced: bool) -> dict[str, Any]:
    if integrator.kind not in ("VerletIntegrator", *_THERMOSTATS):
        integrator.refuse(
            f"the integrator {integrator.kind} is not supported; use VerletIntegrator, or for a thermostat "
            "LangevinMiddleIntegrator"
        )
    options: dict[str, Any] = {"dt": number(integrator.element, "stepSize")}
    if integrator.kind == "VerletIntegrator":
        return options
    if (seed := int(integrator.element.get("randomSeed", "0"))) > 0:
        options["ld_seed"] = seed
    if integrator.element.get("hasSubsystemThermostats", "0") != "0":
        integrator.refuse("thermostats of parts of the system are not supported; use one for all particles")
    rate = number(integrator.element, _THERMOSTATS[integrator.kind])
    if not replaced and integrator.kind in _LANGEVIN:
        return options | _stochastic(integrator, rate)
    if not replaced:
        integrator.refuse(
            f"the integrator {integrator.kind} has a thermostat that is not supported; {_REMEDY}"
        )
    return options | _coupling(number(integrator.element, "temperature"), rate)


def _stochastic(integrator: Document, rate: float) -> dict[str, Any]:
    """Langevin dynamics, whose velocities decay at this rate [1/ps]."""
    if rate <= 0:
        return {}
    log.info("%s is integrator = sd: %s", integrator.kind, _LANGEVIN[integrator.kind])
    temperature = number(integrator.element, "temperature")
    return {"integrator": "sd", "tc_grps": "System", "ref_t": temperature, "tau_t": 1.0 / rate}


def _barostat(draft: SystemDraft, given: Mapping[str, Any]) -> dict[str, Any]:
    """C-rescale with the pressure of a Monte Carlo barostat, if it may take its place."""
    found = [draft.run[kind] for kind in BAROSTATS if kind in draft.run]
    acting = [barostat for barostat in found if barostat.number("frequency") != 0]  # as in OpenMM
    if not acting:
        return {}
    barostat, *others = acting
    for other in others:
        raise other.error(f"{barostat.name} changes the volume already", "keep one")
    if str(given.get("pcoupl", "no")).lower().replace("_", "-") != "c-rescale":
        raise barostat.error("changes of the volume by Monte Carlo are not supported", _BAROSTAT_REMEDY)
    if barostat.type == "MonteCarloBarostat":
        return {"ref_p": barostat.number("pressure"), "compressibility": COMPRESSIBILITY}
    return _of_membranes(barostat) if barostat.type == "MonteCarloMembraneBarostat" else _of_axes(barostat)


def _of_membranes(barostat: Force) -> dict[str, Any]:
    """x and y together, or each, and z by itself or not at all."""
    if barostat.number("surfaceTension") != 0:
        raise barostat.error("a surface tension is not supported", "set it to 0")
    z_mode, pressure = int(barostat.number("zmode")), barostat.number("pressure")
    if z_mode == 2:
        raise barostat.error("ConstantVolume is not supported", "use ZFree or ZFixed")
    z = 0.0 if z_mode == 1 else COMPRESSIBILITY
    if int(barostat.number("xymode")) == 0:
        return _pressures("semiisotropic", (pressure, pressure), (COMPRESSIBILITY, z))
    return _pressures("anisotropic", (pressure,) * 3, (COMPRESSIBILITY, COMPRESSIBILITY, z))


def _of_axes(barostat: Force) -> dict[str, Any]:
    """x, y and z by themselves, as far as they may change."""
    pressure = [barostat.number(f"pressure{axis}") for axis in "xyz"]
    return _pressures(
        "anisotropic", pressure, [COMPRESSIBILITY * barostat.flag(f"scale{axis}") for axis in "xyz"]
    )


def _pressures(kind: str, pressure: Sequence[float], compressibility: Sequence[float]) -> dict[str, Any]:
    shear = (0.0,) * 3 if kind == "anisotropic" else ()
    return {"pcoupltype": kind, "ref_p": (*pressure, *shear), "compressibility": (*compressibility, *shear)}


def _coupling(temperature: float, rate: float) -> dict[str, Any]:
    """v-rescale with the temperature of another thermostat, whose kinetic energy decays at twice its rate."""
    return {"tc_grps": "System", "ref_t": temperature, "tau_t": 0.5 / rate if rate > 0 else 1.0}


def _period(rate: float) -> dict[str, Any]:
    """The same mass of the thermostat: OpenMM has it from an angular frequency, ``tau_t`` is the period."""
    return {"tau_t": 2.0 * math.pi / rate} if rate > 0 else {}
