// Chains of Nose and Hoover's thermostats, as in chains.py.
#pragma once

struct ChainVariables {  // of a thermostat, 1 and 1/ps
    double xi, friction;
};

struct Chains {                  // of all coupling groups, see gpu_chains.py
    long long length;            // thermostats of each
    long long first_step;        // of a run that nothing came before, -1: something did
    double interval;             // of coupling, ps
    const double* inverse_mass;  // (groups, length), 1/(kJ/mol ps^2); 0: the group is not coupled
    const double* kt;            // (groups,), kJ/mol
    ChainVariables* variables;   // (groups, length)
};

// Of a coupling group with n_dof degrees of freedom.
struct Chain {
    int n;
    const double* inverse_mass;
    double kt, interval, n_dof;
    ChainVariables* at;

    __device__ Chain(const Chains& all, int group, double n_dof)
        : n(all.length), inverse_mass(all.inverse_mass + group * all.length), kt(all.kt[group]), interval(all.interval),
          n_dof(n_dof), at(all.variables + group * all.length) {}

    __device__ bool acts() const { return inverse_mass[0] > 0.0; }

    __device__ double push(int j, double excess) const {
        if (j == 0) return inverse_mass[0] * excess;
        return inverse_mass[j] * (at[j - 1].friction * at[j - 1].friction / inverse_mass[j - 1] - kt);
    }

    __device__ void advance_one(int j, double excess, double dt) {
        const double drag = j < n - 1 ? exp(-0.125 * dt * at[j + 1].friction) : 1.0;
        at[j].friction = drag * (at[j].friction * drag + 0.25 * dt * push(j, excess));
    }

    // Half of a coupling interval; the factor on velocities.
    __device__ double advance(double kinetic) {
        const double outer = 0.2967324292201065, weights[5] = {outer, outer, -0.186929716880426, outer, outer};
        double scale = 1.0, twice = 2.0 * kinetic;
        for (int k = 0; k < 25; k++) {
            const double dt = weights[k % 5] * interval / 5;
            for (int j = n - 1; j >= 0; j--) advance_one(j, twice - n_dof * kt, dt);
            const double factor = exp(-0.5 * dt * at[0].friction);
            scale *= factor;
            twice *= factor * factor;
            for (int j = 0; j < n; j++) at[j].xi += 0.5 * dt * at[j].friction;
            for (int j = 0; j < n; j++) advance_one(j, twice - n_dof * kt, dt);
        }
        return scale;
    }

    __device__ double energy() const {
        double sum = 0.0;
        for (int j = 0; j < n; j++)
            sum += 0.5 * at[j].friction * at[j].friction / inverse_mass[j] + (j == 0 ? n_dof : 1.0) * kt * at[j].xi;
        return sum;
    }
};
