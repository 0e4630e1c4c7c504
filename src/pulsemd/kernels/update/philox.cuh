// Counter-based random numbers, Philox 4x32-10, and the gamma distribution; the numbers are those of philox.py.
//
// J. K. Salmon et al., SC'11 (2011); G. Marsaglia, W. W. Tsang, ACM Trans. Math. Softw. 26, 363 (2000).
#pragma once

constexpr int STREAM_V_RESCALE = 2;
constexpr int STREAM_BAROSTAT = 3;
constexpr int STREAM_NOISE = 4;
constexpr double TWO_PI = 6.283185307179586;

struct Words {
    unsigned of[4];
};

struct Uniforms {
    double of[4];
};

// Four words that depend on (seed, stream, step, id) alone.
__device__ inline Words words(unsigned long long seed, unsigned stream, unsigned long long step,
                              unsigned long long id) {
    unsigned c[4] = {(unsigned)id, (unsigned)(id >> 32), (unsigned)step, (unsigned)(step >> 32)};
    unsigned k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32) ^ (stream << 24);
    for (int round = 0; round < 10; round++) {
        const unsigned high0 = __umulhi(0xD2511F53u, c[0]), low0 = 0xD2511F53u * c[0];
        const unsigned high1 = __umulhi(0xCD9E8D57u, c[2]), low1 = 0xCD9E8D57u * c[2];
        c[0] = high1 ^ c[1] ^ k0, c[1] = low1, c[2] = high0 ^ c[3] ^ k1, c[3] = low0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return {{c[0], c[1], c[2], c[3]}};
}

// The same as numbers of the open interval (0, 1).
__device__ inline Uniforms uniforms(unsigned long long seed, unsigned stream, unsigned long long step,
                                    unsigned long long id) {
    const Words w = words(seed, stream, step, id);
    Uniforms u;
    for (int i = 0; i < 4; i++) u.of[i] = (w.of[i] + 0.5) * (1.0 / 4294967296.0);
    return u;
}

__device__ inline double normal(const Uniforms& u) { return sqrt(-2.0 * log(u.of[0])) * cos(TWO_PI * u.of[1]); }

// One number of the gamma distribution of shape >= 1, scale 1; the draws of attempt k have id 2 + k after `first`. NaN
// after 1000 attempts: the atoms then get no finite velocity, which the error word reports.
__device__ inline double gamma_from(double shape, unsigned long long seed, unsigned stream, unsigned long long step,
                                    unsigned long long first) {
    const double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    for (int attempt = 0; attempt < 1000; attempt++) {
        const Uniforms u = uniforms(seed, stream, step, first + 2 + attempt);
        const double z = normal(u), w = 1.0 + c * z, w3 = w * w * w;
        if (w > 0.0 && log(u.of[2]) < 0.5 * z * z + d * (1.0 - w3 + 3.0 * log(w))) return d * w3;
    }
    return nan("");
}

// `gamma_from` for shape >= 1/2.
__device__ inline double gamma_number(double shape, unsigned long long seed, unsigned stream, unsigned long long step,
                                      unsigned long long first) {
    if (shape >= 1.0) return gamma_from(shape, seed, stream, step, first);
    const double u = uniforms(seed, stream, step, first + 1).of[0];
    return gamma_from(shape + 1.0, seed, stream, step, first) * pow(u, 1.0 / shape);
}
