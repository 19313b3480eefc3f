#!/usr/bin/env python3
"""Coefficients of the generator's polynomials, by Remez' algorithm in 60 digits.

    scripts/minimax.py > generator/gen_math_tables.h

Each polynomial minimises the largest error relative to the function it helps to compute (the weight below), then
is rounded to its type, coefficient by coefficient; the error printed beside it is that of the rounded one.
"""
import struct
import sys

from mpmath import mp, mpf, cos, diff, erfc, exp, findroot, log, lu_solve, matrix, pi, sin, sqrt, tanh, erf, atanh, log1p

mp.dps = 60


def solve(f, weight, n, xs):
    """Polynomial of n coefficients whose weighted error alternates on n + 1 points; and that error."""
    rows = matrix(n + 1, n + 1)
    right = matrix(n + 1, 1)
    for i, x in enumerate(xs):
        for k in range(n):
            rows[i, k] = x**k
        rows[i, n] = (-1) ** i / weight(x)
        right[i] = f(x)
    solution = lu_solve(rows, right)
    return [solution[k] for k in range(n)], abs(solution[n])


def horner(c, x):
    r = mpf(0)
    for a in reversed(c):
        r = r * x + a
    return r


def largest(error, low, high, points):
    """Local maxima of |error|, one for each run of one sign, on a grid refined by parabolas."""
    grid = [low + (high - low) * (1 - cos(pi * i / points)) / 2 for i in range(points + 1)]
    values = [error(x) for x in grid]
    best = []
    start = 0
    for i in range(1, points + 2):
        if i <= points and (values[i] > 0) == (values[start] > 0):
            continue
        k = max(range(start, i), key=lambda j: abs(values[j]))
        x = grid[k]
        if 0 < k < points:
            a, b, c = (abs(values[j]) for j in (k - 1, k, k + 1))
            if a - 2 * b + c != 0:
                step = (a - c) / (2 * (a - 2 * b + c))
                h = (grid[k + 1] - grid[k - 1]) / 2
                if abs(error(x + step * h)) > abs(values[k]):
                    x = x + step * h
        best.append(x)
        start = i
    return best


def remez(f, weight, low, high, n):
    low, high = mpf(low), mpf(high)
    xs = [(low + high) / 2 - (high - low) / 2 * cos(pi * i / n) for i in range(n + 1)]
    for _ in range(30):
        c, level = solve(f, weight, n, xs)
        error = lambda x: (horner(c, x) - f(x)) * weight(x)
        extrema = largest(error, low, high, 60 * (n + 1))
        while len(extrema) > n + 1:
            extrema.pop(0 if abs(error(extrema[0])) < abs(error(extrema[-1])) else -1)
        if len(extrema) < n + 1:
            break
        most = max(abs(error(x)) for x in extrema)
        xs = extrema
        if most < level * mpf("1.0001"):
            break
    return c


def rounded(v, wide):
    d = float(v)
    return d if wide else struct.unpack("f", struct.pack("f", d))[0]


def table(name, meaning, f, weight, low, high, n32, n64):
    for wide, n in ((False, n32), (True, n64)):
        if not n:
            continue
        span = high if not isinstance(high, tuple) else high[wide]
        c = [rounded(v, wide) for v in remez(f, weight, low, span, n)]
        worst = max(abs((horner([mpf(v) for v in c], x) - f(x)) * weight(x))
                    for x in (mpf(low) + (mpf(span) - mpf(low)) * i / 997 for i in range(998)))
        print(f"/* {meaning}; error 2^{float(log(worst, 2)):.1f} */")
        print(f"static const double {name}_{'f64' if wide else 'f32'}[] = {{")
        print(",\n".join(f"    {v.hex()}" for v in c) + "};")
        sys.stdout.flush()


def series(f, at_zero):
    """f, with its limit where it is 0 / 0."""
    return lambda x: at_zero if abs(x) < mpf(10) ** -18 else f(x)


def words(name, value, bits, n, digits, meaning):
    """value as a sum of n parts, each of `bits` bits (the last of `digits`)."""
    print(f"/* {meaning} */\nstatic const double {name}[] = {{", end="")
    parts = []
    rest = value
    for i in range(n):
        size = digits if i == n - 1 else bits
        scale = mpf(2) ** (size - 1 - mp.floor(log(abs(rest), 2)))
        part = mp.nint(rest * scale) / scale if i == n - 1 else mp.floor(rest * scale) / scale
        parts.append(float(part))
        rest -= part
    print(", ".join(v.hex() for v in parts) + "};")


LN2 = log(mpf(2))
K = mpf(4)  # where t is 0


def tail(y):
    """The normal distribution's tail times e^(y^2 / 2)."""
    return erfc(y / sqrt(mpf(2))) / 2 * exp(y * y / 2)


def main():
    print("/* Polynomials for gen_math_*.c, constant term first. Made by scripts/minimax.py; not edited. */")
    print("#ifndef ARKE_GENERATOR_GEN_MATH_TABLES_H\n#define ARKE_GENERATOR_GEN_MATH_TABLES_H\n")
    half = LN2 / 2 * mpf("1.01")
    table("exp_tail", "(e^r - 1 - r) / r^2 for |r| <= ln 2 / 2", series(lambda r: (exp(r) - 1 - r) / r**2, mpf(1) / 2),
          lambda r: (r * r + mpf('1e-3')) / exp(r), -half, half, 5, 10)
    table("exp2_tail", "(2^r - 1) / r for |r| <= 1/2", series(lambda r: (exp(r * LN2) - 1) / r, LN2),
          lambda r: sqrt(r * r + mpf('1e-3')) / exp(r * LN2), mpf("-0.505"), mpf("0.505"), 7, 13)
    zmax = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1)) ** 2 * mpf("1.01")
    table("log_tail", "(log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2", series(lambda z: (2 * atanh(sqrt(z)) - 2 * sqrt(z)) / sqrt(z) ** 3, mpf(2) / 3),
          lambda z: z + mpf('3e-4'), 0, zmax, 4, 8)
    rmax = mpf("0.9") ** 2
    table("log_rest", "(log_tail - 2 / 3) / s^2 in s^2", series(lambda z: (2 * atanh(sqrt(z)) - 2 * sqrt(z) - mpf(2) / 3 * sqrt(z) ** 3) / sqrt(z) ** 5, mpf(2) / 5),
          lambda z: z * z + mpf("3e-5"), 0, zmax, 3, 7)
    table("sin_tail", "(sin r - r) / r^3 in r^2 for |r| <= 0.9", series(lambda z: (sin(sqrt(z)) - sqrt(z)) / sqrt(z) ** 3, -mpf(1) / 6),
          lambda z: z + mpf('1e-2'), 0, rmax, 4, 8)
    table("cos_tail", "(cos r - 1 + r^2 / 2) / r^4 in r^2 for |r| <= 0.9", series(lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, mpf(1) / 24),
          lambda z: z * z + mpf('1e-2'), 0, rmax, 4, 8)
    table("erf_small", "erf(x) / x - 1 in x^2 for |x| <= 1", series(lambda z: erf(sqrt(z)) / sqrt(z) - 1, 2 / sqrt(pi) - 1),
          lambda z: 1 / (erf(sqrt(z)) / sqrt(z) if z > mpf(10) ** -18 else 2 / sqrt(pi)), 0, 1, 8, 15)
    table("normal_tail", "P(X > y) e^(y^2 / 2) of a normal X, in t = (y - 4) / (y + 4)", lambda t: tail(K * (1 + t) / (1 - t)),
          lambda t: 1 / tail(K * (1 + t) / (1 - t)), -1, ((mpf(15) - K) / (mpf(15) + K), (mpf(39) - K) / (mpf(39) + K)), 10, 32)
    table("log1p_unit", "(log(1 + e) - e) / e^2 for 0 <= e <= 1", series(lambda e: (log1p(e) - e) / e**2, -mpf(1) / 2),
          lambda e: (e + mpf("1e-2")) / (log1p(e) / e if e > mpf(10) ** -18 else mpf(1)), 0, 1, 10, 0)
    print("/* --- for results of at most 11 digits --- */")
    table("narrow_tanh", "tanh(x) / x in x^2 for |x| <= 5/8", series(lambda z: tanh(sqrt(z)) / sqrt(z), mpf(1)),
          lambda z: mpf(1), 0, mpf("0.625") ** 2, 5, 0)
    table("narrow_erf", "erf(x) / x in x^2 for |x| <= 5/8", series(lambda z: erf(sqrt(z)) / sqrt(z), 2 / sqrt(pi)),
          lambda z: mpf(1), 0, mpf("0.625") ** 2, 4, 0)
    table("narrow_sin", "(sin r - r) / r^3 in r^2 for |r| <= 0.9", series(lambda z: (sin(sqrt(z)) - sqrt(z)) / sqrt(z) ** 3, -mpf(1) / 6),
          lambda z: z + mpf('1e-2'), 0, rmax, 2, 0)
    table("narrow_cos", "(cos r - 1) / r^2 in r^2 for |r| <= 0.9", series(lambda z: (cos(sqrt(z)) - 1) / z, -mpf(1) / 2),
          lambda z: z + mpf('1e-2'), 0, rmax, 3, 0)
    table("narrow_log1p", "log(1 + f) / f for |f| <= 1/4", series(lambda f: log1p(f) / f, mpf(1)),
          lambda f: mpf(1), mpf("-0.25"), mpf("0.25"), 7, 0)
    table("narrow_log1p_unit", "log(1 + e) / e for 0 <= e <= 1", series(lambda e: log1p(e) / e, mpf(1)),
          lambda e: 1 / (log1p(e) / e if e > mpf(10) ** -18 else mpf(1)), 0, 1, 6, 0)
    table("narrow_normal_tail", "as normal_tail", lambda t: tail(K * (1 + t) / (1 - t)),
          lambda t: 1 / tail(K * (1 + t) / (1 - t)), -1, (mpf(15) - K) / (mpf(15) + K), 7, 0)
    print("/* --- constants in parts --- */")
    words("ln2_f32", LN2, 15, 2, 24, "ln 2; the first part times an exponent is exact")
    words("ln2_f64", LN2, 42, 2, 53, "ln 2; the first part times an exponent is exact")
    words("half_pi_f32", pi / 2, 23, 3, 24, "pi / 2; the first part has its last bit at 2^-22")
    words("half_pi_f64", pi / 2, 52, 3, 53, "pi / 2; the first part has its last bit at 2^-51")
    words("log2e_f32", 1 / LN2, 24, 2, 24, "log2 e")
    words("log2e_f64", 1 / LN2, 53, 2, 53, "log2 e")
    for t, d in (("f32", 24), ("f64", 53)):
        words(f"gelu_c_{t}", 2 * sqrt(2 / pi), d, 2, d, "2 sqrt(2 / pi)")
        words(f"gelu_c3_{t}", 2 * sqrt(2 / pi) * mpf("0.044715"), d, 2, d, "0.044715 times that")
        words(f"third_{t}", mpf(2) / 3, d, 2, d, "2 / 3")
    mp.dps = 450
    bits = [0] + [int(mp.floor(2 / pi * mpf(2) ** (32 * (i + 1)))) & 0xFFFFFFFF for i in range(40)]
    print("/* The binary digits of 2 / pi, 32 a word: a word before the point, then those after it. */")
    print("static const unsigned two_over_pi_words[] = {" + ", ".join(f"0x{w:08X}" for w in bits) + "};")
    print("\n#endif")


main()
