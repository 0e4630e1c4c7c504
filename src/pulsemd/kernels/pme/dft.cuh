// Discrete Fourier transforms of 1 to 16 numbers in the registers of one thread.
//
// A size with a factor is cut by it (Cooley & Tukey, Math. Comput. 19, 297 (1965)), an odd prime is summed directly with
// the terms j and n - j together. Everything is unrolled, so that the roots of unity are constants of instructions.
#pragma once

#if FIXED
struct alignas(16) Complex { Real x, y; };
#else
struct alignas(8) Complex { Real x, y; };
#endif

constexpr int FORWARD = -1, INVERSE = 1;  // signs of the exponent

__device__ __forceinline__ Complex operator+(Complex a, Complex b) { return {a.x + b.x, a.y + b.y}; }
__device__ __forceinline__ Complex operator-(Complex a, Complex b) { return {a.x - b.x, a.y - b.y}; }
__device__ __forceinline__ Complex operator*(Complex a, Complex b) {
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
__device__ __forceinline__ Complex operator*(Real s, Complex a) { return {s * a.x, s * a.y}; }
__device__ __forceinline__ Complex conjugate(Complex a) { return {a.x, -a.y}; }

// The root of a forward transform, or that of an inverse one.
template <int SIGN>
__device__ __forceinline__ Complex directed(Complex root) {
    return SIGN == FORWARD ? root : conjugate(root);
}

// exp(-2 pi i k/n) for k = 0 ... n - 1, by the series, at compile time.
template <int N>
struct Roots {
    double x[N], y[N];

    constexpr Roots() : x(), y() {
        for (int k = 0; k < N; k++) {
            const double angle = 6.283185307179586476925 * (2 * k > N ? k - N : k) / N;
            double term = 1;
            for (int i = 1; i < 40; i++) {
                (i % 2 ? x[k] : y[k]) += i % 4 == 1 || i % 4 == 0 ? term : -term;
                term *= angle / i;
            }
        }
    }
};

template <int N>
constexpr int factor_of() {
    for (int p = 2; p < N; p++)
        if (N % p == 0) return p;
    return N;
}

template <int N, int SIGN>
__device__ __forceinline__ void dft(Complex (&v)[N]);

// An odd prime.
template <int N, int SIGN>
__device__ __forceinline__ void sum_directly(Complex (&v)[N]) {
    constexpr Roots<N> roots;
    constexpr int HALF = (N - 1) / 2;
    Complex sum[HALF + 1], difference[HALF + 1];
    const Complex first = v[0];
#pragma unroll
    for (int j = 1; j <= HALF; j++)
        sum[j] = v[j] + v[N - j], difference[j] = v[j] - v[N - j], v[0] = v[0] + sum[j];
#pragma unroll
    for (int k = 1; k <= HALF; k++) {
        Complex even = first, odd = {0, 0};
#pragma unroll
        for (int j = 1; j <= HALF; j++)
            even = even + Real(roots.x[j * k % N]) * sum[j], odd = odd + Real(-SIGN * roots.y[j * k % N]) * difference[j];
        v[k] = {even.x - odd.y, even.y + odd.x};
        v[N - k] = {even.x + odd.y, even.y - odd.x};
    }
}

template <int P, int Q, int SIGN>
__device__ __forceinline__ void cut(Complex (&v)[P * Q]) {
    constexpr Roots<P * Q> roots;
#pragma unroll
    for (int q = 0; q < Q; q++) {
        Complex part[P];
#pragma unroll
        for (int p = 0; p < P; p++) part[p] = v[p * Q + q];
        dft<P, SIGN>(part);
#pragma unroll
        for (int k = 0; k < P; k++) {
            const int turn = q * k;
            const Complex root = {Real(roots.x[turn]), Real(-SIGN * roots.y[turn])};
            if (turn == 0) v[k * Q + q] = part[k];
            else if (4 * turn == P * Q) v[k * Q + q] = {-SIGN * part[k].y, SIGN * part[k].x};
            else v[k * Q + q] = root * part[k];
        }
    }
    Complex out[P * Q];
#pragma unroll
    for (int k = 0; k < P; k++) {
        Complex part[Q];
#pragma unroll
        for (int q = 0; q < Q; q++) part[q] = v[k * Q + q];
        dft<Q, SIGN>(part);
#pragma unroll
        for (int q = 0; q < Q; q++) out[k + P * q] = part[q];
    }
#pragma unroll
    for (int k = 0; k < P * Q; k++) v[k] = out[k];
}

// v[k] becomes the sum over j of v[j] exp(SIGN 2 pi i j k/N).
template <int N, int SIGN>
__device__ __forceinline__ void dft(Complex (&v)[N]) {
    if constexpr (N == 2) {
        const Complex first = v[0];
        v[0] = first + v[1], v[1] = first - v[1];
    } else if constexpr (N > 2 && factor_of<N>() == N) {
        sum_directly<N, SIGN>(v);
    } else if constexpr (N > 2) {
        cut<factor_of<N>(), N / factor_of<N>(), SIGN>(v);
    }
}
