// Tables of bonded terms in memory of the device; gpu.py has the same layout.
#pragma once

constexpr int MAX_ATOMS = 5;

struct Kind {  // one row for each kind of term; the order of `kind` is that of gpu.py
    int kind, n_terms, first_block, slot;
    const int* atoms;     // (n_terms, atoms of a term), global ids
    const int* index;     // (n_terms,) row of the parameters
    const double* parameters;
    const int* reference;  // (n_terms, 3) int32, lattice units, of restraints; else null
    const double* rigid;   // (n_terms, 2, 3), what does not scale of it: in first box vectors and in nm; else null
    int n_parameters;      // of a row
    int n_atoms;           // of a term
    int n_grid;            // points of a correction map along each angle; else 0
    int first_term;        // terms of the kinds before
};

// The kind that a block works on.
__device__ __forceinline__ int kind_of_block(const Kind* kinds, int n_kinds) {
    int k = 0;
    while (k + 1 < n_kinds && kinds[k + 1].first_block <= blockIdx.x) k++;
    return k;
}
