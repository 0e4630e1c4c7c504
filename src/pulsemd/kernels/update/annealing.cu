// Temperatures that follow points in time, of a step: whatever follows from them is rewritten where it is. The operations
// are those of forcefield/annealing.py.

#include "control.cuh"
#include "thermostat.cuh"

struct Point {
    double time, temperature;  // ps, K
};

__device__ double temperature_at(const Point* points, int n, bool periodic, double time) {
    const Point& last = points[n - 1];
    if (periodic) time = time - (long long)(time / last.time) * last.time;
    int j = 0;
    while (j < n - 1 && time > points[j + 1].time) j++;
    if (j == n - 1) return last.temperature;
    const double length = points[j + 1].time - points[j].time;
    if (length <= 0.0) return points[j + 1].temperature;
    const double part = (time - points[j].time) / length;
    return part * points[j + 1].temperature + (1.0 - part) * points[j].temperature;
}

// One thread for each coupling group.
// first : (groups + 1,) points of each; none: its temperature stays; periodic : (groups,)
// begin, dt : ps, time of step 0 and of a step; boltzmann : kJ/(mol K)
// noise, keep : of each group, of stochastic dynamics, or null; kt : of a barostat, that of the first group, or null
// bar : bar per kJ/mol/nm^3
extern "C" __global__ void anneal(const Control* control, int offset, const Point* points, const int* first,
                                  const int* periodic, int groups, double begin, double dt, double boltzmann,
                                  Thermostat* thermostats, double* noise, const double* keep, double* kt, double bar) {
    const int g = threadIdx.x;
    if (g >= groups || first[g] == first[g + 1]) return;
    const double time = begin + (control->step + offset) * dt;
    const double now = temperature_at(points + first[g], first[g + 1] - first[g], periodic[g], time);
    thermostats[g].target = 0.5 * thermostats[g].n_dof * boltzmann * now;
    thermostats[g].ref_t = now;
    if (noise) noise[g] = sqrt(boltzmann * now * (1.0 - keep[g] * keep[g]));
    if (kt && g == 0) *kt = boltzmann * now * bar;
}
