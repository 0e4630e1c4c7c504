// Portions of coupling groups, see portions.py; gpu_portions.py has the same layout.
#pragma once

struct Portion {
    double mass;         // amu
    int bath, held;      // its coupling group, and the group whose centre of mass is stopped with it, -1: none
    double velocity[3];  // of that centre of mass, nm/ps, found by the last sums; 0: it is not stopped
};
