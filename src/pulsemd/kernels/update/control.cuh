// What a run keeps in device memory so that no step needs the host; control.py has the same layout.
#pragma once

struct Control {
    long long step;            // step of offset 0; a step is step + offset, the offset a kernel argument
    long long start;           // step that errors are counted from
    unsigned long long error;  // smallest (step - start) << 32 | gid of an atom that could not be moved; all bits: none
    unsigned long long turned; // smallest (1 + cosine) 2^30 << 32 | number of a constraint of LINCS that turned by more
                               // than lincs-warnangle in a step; all bits: none
    double com[3];             // velocity of the centre of mass that a coupled step removes, nm/ps
    double work;               // given by the thermostats so far, kJ/mol
    double before, after;      // kinetic energy of the last half steps that were summed, kJ/mol
    double momentum[3];        // amu nm/ps, before
    unsigned blocks_done;      // of the running sum; wraps to 0
    unsigned n_baths;          // coupling groups; a `Bath` of each follows the record
    double before_yz[2], after_yz[2];  // parts of before and after along y and z
    double kinetic, kinetic_yz[2];  // of the energies of the last step that summed: means of these, or those of the full
                                    // step
    double work_then;          // given by the thermostats as those energies count it, kJ/mol
};

struct Bath {              // of a coupling group
    double scale, kick;    // factors of a coupled step: on old velocities, and on what forces do
    double loss;           // half the interval times the friction
    double xi, friction;   // of Nose and Hoover's thermostat, 1 and 1/ps
    double before, after;  // parts of the record's
    double kinetic;
};

__device__ __forceinline__ Bath* baths_of(Control* control) { return reinterpret_cast<Bath*>(control + 1); }
__device__ __forceinline__ const Bath* baths_of(const Control* control) {
    return reinterpret_cast<const Bath*>(control + 1);
}
