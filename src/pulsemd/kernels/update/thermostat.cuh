// What is read of a coupling group's thermostat from device memory; gpu_tables.py has the same layout.
#pragma once

struct Thermostat {
    double target;   // n_dof kT / 2, kJ/mol
    double n_dof;
    double keep;     // exp(-interval / tau); 0: the canonical distribution at once; 1: not coupled
    double mass;     // of the group, amu
    double weak;     // interval / tau of Berendsen's thermostat; 0: another one
    double hoover;   // interval / Q of Nose and Hoover's, 1/(K ps); 0: another one
    double ref_t;    // K
    double interval; // ps
    double kick;     // what is to come of a step's kick when the velocities are summed: 1, or 1/2 at full steps
    long long seed;
};
