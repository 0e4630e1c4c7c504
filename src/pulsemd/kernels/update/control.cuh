// What a run keeps in device memory so that no step needs the host; gpu.py has the same layout.
#pragma once

struct Control {
    long long step;            // step of offset 0; a step is step + offset, the offset a kernel argument
    long long start;           // step that errors are counted from
    unsigned long long error;  // smallest (step - start) << 32 | gid of an atom that could not be moved; all bits: none
    double scale;              // thermostat factor on the old velocities of a coupled step
    double com[3];             // velocity of the centre of mass that a coupled step removes, nm/ps
    double work;               // given by the thermostat so far, kJ/mol
    double before, after;      // kinetic energy of the last half steps that were summed, kJ/mol
    double momentum[3];        // amu nm/ps, before
    unsigned blocks_done;      // of the running sum; wraps to 0
    unsigned unused;
    double before_z, after_z;  // parts of before and after along z
    double xi, friction;       // of Nose and Hoover's thermostat, 1 and 1/ps
    double kick, loss;         // factor on what forces do in a coupled step; half the interval times the friction
};
