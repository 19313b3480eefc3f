/* Polynomials for gen_math_*.c, constant term first. Made by scripts/minimax.py; not edited. */
#ifndef ARKE_GENERATOR_GEN_MATH_TABLES_H
#define ARKE_GENERATOR_GEN_MATH_TABLES_H

/* (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2; error 2^-27.5 */
static const double exp_tail_f32[] = {0x1.fffffc0000000p-2, 0x1.55548a0000000p-3, 0x1.55590e0000000p-5,
                                      0x1.123f2e0000000p-7, 0x1.6a1ce80000000p-10};
/* (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2; error 2^-56.7 */
static const double exp_tail_f64[] = {0x1.000000000000ap-1,  0x1.55555555554f2p-3,  0x1.555555555057ap-5,
                                      0x1.111111112965ap-7,  0x1.6c16c1850cbacp-10, 0x1.a01a012333cb9p-13,
                                      0x1.a0199735df3ecp-16, 0x1.71df3060165a6p-19, 0x1.28b06125c8eccp-22,
                                      0x1.ad766d6c3b706p-26};
/* (2^r - 1) / r for |r| <= 1/2; error 2^-28.6 */
static const double exp2_tail_f32[] = {0x1.62e4300000000p-1, 0x1.ebfbe00000000p-3,  0x1.c6b08a0000000p-5,
                                       0x1.3b29ec0000000p-7, 0x1.5d8a9e0000000p-10, 0x1.4462ea0000000p-13,
                                       0x1.fddd5c0000000p-17};
/* (2^r - 1) / r for |r| <= 1/2; error 2^-55.5 */
static const double exp2_tail_f64[] = {0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0c0p-5,
                                       0x1.3b2ab6fba4e7ep-7,  0x1.5d87fe78a66edp-10, 0x1.430912f869d9bp-13,
                                       0x1.ffcbfc58a813ep-17, 0x1.62c02249cd406p-20, 0x1.b5253cdcda532p-24,
                                       0x1.e4cef58f30c46p-28, 0x1.e8cbcf7f5f1ecp-32, 0x1.c4c957fae8f14p-36,
                                       0x1.809163a97b138p-40};
/* (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2; error 2^-30.0 */
static const double log_tail_f32[] = {0x1.5555540000000p-1, 0x1.999a7a0000000p-2, 0x1.2438740000000p-2,
                                      0x1.e310ec0000000p-3};
/* (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2; error 2^-61.4 */
static const double log_tail_f64[] = {0x1.5555555555555p-1, 0x1.9999999999da0p-2, 0x1.249249242fb06p-2,
                                      0x1.c71c72560ea15p-3, 0x1.745cdea03ca7ap-3, 0x1.3b20a990a4243p-3,
                                      0x1.0f5bdc1bc8b74p-3, 0x1.0f73720082d14p-3};
/* (log_tail - 2 / 3) / s^2 in s^2; error 2^-34.6 */
static const double log_rest_f32[] = {0x1.9999dc0000000p-2, 0x1.245e340000000p-2, 0x1.ddc4360000000p-3};
/* (log_tail - 2 / 3) / s^2 in s^2; error 2^-63.9 */
static const double log_rest_f64[] = {0x1.99999999999bcp-2, 0x1.2492492481fe6p-2, 0x1.c71c71f564d90p-3,
                                      0x1.745cfc0009186p-3, 0x1.3b1bd8ba05827p-3, 0x1.0fc37196ed62ap-3,
                                      0x1.0bf37ee4ce798p-3};
/* (sin r - r) / r^3 in r^2 for |r| <= 0.9; error 2^-27.6 */
static const double sin_tail_f32[] = {-0x1.5555560000000p-3, 0x1.1110fe0000000p-7, -0x1.a0087c0000000p-13,
                                      0x1.6b56940000000p-19};
/* (sin r - r) / r^3 in r^2 for |r| <= 0.9; error 2^-56.9 */
static const double sin_tail_f64[] = {-0x1.5555555555555p-3,  0x1.1111111111111p-7,   -0x1.a01a01a01a003p-13,
                                      0x1.71de3a556a050p-19,  -0x1.ae64567ac0fa2p-26, 0x1.61245c3f500d2p-33,
                                      -0x1.ae78fb4826c1dp-41, 0x1.90f39ff2f348dp-49};
/* (cos r - 1 + r^2 / 2) / r^4 in r^2 for |r| <= 0.9; error 2^-30.1 */
static const double cos_tail_f32[] = {0x1.5555560000000p-5, -0x1.6c16b20000000p-10, 0x1.a00cda0000000p-16,
                                      -0x1.234d3c0000000p-22};
/* (cos r - 1 + r^2 / 2) / r^4 in r^2 for |r| <= 0.9; error 2^-59.1 */
static const double cos_tail_f64[] = {0x1.5555555555555p-5,   -0x1.6c16c16c16c17p-10, 0x1.a01a01a01a010p-16,
                                      -0x1.27e4fb7788deep-22, 0x1.1eed8efd87beap-29,  -0x1.9397463e5a9d1p-37,
                                      0x1.ae79f8c15c920p-45,  -0x1.64b0dd86990ffp-53};
/* erf(x) / x - 1 in x^2 for |x| <= 1; error 2^-27.1 */
static const double erf_small_f32[] = {0x1.06eba80000000p-3,  -0x1.8127460000000p-2, 0x1.ce2f080000000p-4,
                                       -0x1.b829a80000000p-6, 0x1.5628ee0000000p-8,  -0x1.bcbe9a0000000p-11,
                                       0x1.d826920000000p-14, -0x1.4384060000000p-17};
/* erf(x) / x - 1 in x^2 for |x| <= 1; error 2^-56.3 */
static const double erf_small_f64[] = {0x1.06eba8214db69p-3,   -0x1.812746b0379e7p-2,  0x1.ce2f21a042be2p-4,
                                       -0x1.b82ce31288b47p-6,  0x1.565bcd0e6a2c6p-8,   -0x1.c02db40035513p-11,
                                       0x1.f9a326f7928e4p-14,  -0x1.f4d25bf6debd9p-17, 0x1.b9e6c357989a6p-20,
                                       -0x1.5f73c0cfca6afp-23, 0x1.fcbaf8a683542p-27,  -0x1.517b6a522f8bdp-30,
                                       0x1.9a0327ddf2d7ep-34,  -0x1.b3ce0da814f42p-38, 0x1.3b6f539613541p-42};
/* P(X > y) e^(y^2 / 2) of a normal X, in t = (y - 4) / (y + 4); error 2^-25.0 */
static const double normal_tail_f32[] = {0x1.82b4bc0000000p-4,  -0x1.5cf97e0000000p-3, 0x1.fd75060000000p-4,
                                         -0x1.25b5ee0000000p-4, 0x1.f9b4580000000p-6,  -0x1.16773e0000000p-7,
                                         0x1.06e4580000000p-11, 0x1.58d37c0000000p-11, -0x1.5c6ed20000000p-13,
                                         -0x1.0da4100000000p-14};
/* P(X > y) e^(y^2 / 2) of a normal X, in t = (y - 4) / (y + 4); error 2^-51.3 */
static const double normal_tail_f64[] = {
    0x1.82b4bb8c94dcep-4,   -0x1.5cf97b0ae882cp-3,  0x1.fd751a1fba3e1p-4,   -0x1.25b6aa965822ep-4,
    0x1.f9b05f0efbb18p-6,   -0x1.1644dc2f70099p-7,  0x1.0a1bd41951f36p-11,  0x1.4eec24dcb02d5p-11,
    -0x1.888dc9e00bd98p-13, -0x1.7e246afb16e76p-15, 0x1.e0a3a5be73156p-16,  0x1.36d2b99b5ad1fp-18,
    -0x1.20cd51033b3b4p-18, -0x1.bd68d62d35097p-21, 0x1.6300888b22391p-21,  0x1.bb797529a0e4cp-23,
    -0x1.91bd91e120178p-24, -0x1.cbedf7cbb2d0cp-25, 0x1.1eeea7d09deabp-27,  0x1.b011a62412dc0p-27,
    0x1.5551b3e31e573p-30,  -0x1.469363ec80d4cp-29, -0x1.03fb4574b7bd1p-30, 0x1.1c455b2873098p-32,
    0x1.4b73148d20266p-32,  0x1.11b715c9d1e36p-35,  -0x1.0c9071b5aad9dp-34, -0x1.8a78517cf94e9p-36,
    0x1.dc6acc687aba7p-38,  0x1.4702159baf3e6p-38,  -0x1.4dbcbd654d31dp-43, -0x1.6dba8022c81b7p-42};
/* (log(1 + e) - e) / e^2 for 0 <= e <= 1; error 2^-26.0 */
static const double log1p_unit_f32[] = {-0x1.fffffa0000000p-2, 0x1.5554000000000p-2,  -0x1.ffcc8c0000000p-3,
                                        0x1.97b5500000000p-3,  -0x1.4b06200000000p-3, 0x1.00d2640000000p-3,
                                        -0x1.5848ac0000000p-4, 0x1.5e75e60000000p-5,  -0x1.ca934e0000000p-7,
                                        0x1.18eef20000000p-9};
/* --- for results of at most 11 digits --- */
/* tanh(x) / x in x^2 for |x| <= 5/8; error 2^-22.9 */
static const double narrow_tanh_f32[] = {0x1.fffffc0000000p-1, -0x1.5551da0000000p-2, 0x1.107d5a0000000p-3,
                                         -0x1.a8bc9c0000000p-5, 0x1.ee45e60000000p-7};
/* erf(x) / x in x^2 for |x| <= 5/8; error 2^-20.2 */
static const double narrow_erf_f32[] = {0x1.20dd680000000p+0, -0x1.8115920000000p-2, 0x1.ca92da0000000p-4,
                                        -0x1.7b0c880000000p-6};
/* (sin r - r) / r^3 in r^2 for |r| <= 0.9; error 2^-17.9 */
static const double narrow_sin_f32[] = {-0x1.5538e40000000p-3, 0x1.09de340000000p-7};
/* (cos r - 1) / r^2 in r^2 for |r| <= 0.9; error 2^-23.1 */
static const double narrow_cos_f32[] = {-0x1.ffff660000000p-2, 0x1.5530a60000000p-5, -0x1.622b200000000p-10};
/* log(1 + f) / f for |f| <= 1/4; error 2^-22.5 */
static const double narrow_log1p_f32[] = {0x1.fffffe0000000p-1,  -0x1.00007c0000000p-1, 0x1.55587a0000000p-2,
                                          -0x1.ff0b6a0000000p-3, 0x1.97fd340000000p-3,  -0x1.733f840000000p-3,
                                          0x1.474f160000000p-3};
/* log(1 + e) / e for 0 <= e <= 1; error 2^-16.9 */
static const double narrow_log1p_unit_f32[] = {0x1.fffee60000000p-1, -0x1.ff58960000000p-2,
                                               0x1.4d02fa0000000p-2, -0x1.ae2e020000000p-3,
                                               0x1.9e9b420000000p-4, -0x1.87127c0000000p-6};
/* as normal_tail; error 2^-15.9 */
static const double narrow_normal_tail_f32[] = {
    0x1.82b5aa0000000p-4, -0x1.5cf3ce0000000p-3, 0x1.fd38860000000p-4,  -0x1.26378c0000000p-4,
    0x1.0053560000000p-5, -0x1.07b83a0000000p-7, -0x1.2543620000000p-12};
/* --- constants in parts --- */
/* ln 2; the first part times an exponent is exact */
static const double ln2_f32[] = {0x1.62e4000000000p-1, 0x1.7f7d1c0000000p-20};
/* ln 2; the first part times an exponent is exact */
static const double ln2_f64[] = {0x1.62e42fefa3800p-1, 0x1.ef35793c76730p-45};
/* pi / 2; the first part has its last bit at 2^-22 */
static const double half_pi_f32[] = {0x1.921fb40000000p+0, 0x1.4442d00000000p-24, 0x1.84698a0000000p-48};
/* pi / 2; the first part has its last bit at 2^-51 */
static const double half_pi_f64[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c06p-54, 0x1.c1cd129024e09p-107};
/* log2 e */
static const double log2e_f32[] = {0x1.7154760000000p+0, 0x1.4ae0c00000000p-26};
/* log2 e */
static const double log2e_f64[] = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
/* 2 sqrt(2 / pi) */
static const double gelu_c_f32[] = {0x1.9884520000000p+0, 0x1.3d43660000000p-24};
/* 0.044715 times that */
static const double gelu_c3_f32[] = {0x1.2444f20000000p-4, 0x1.49b16a0000000p-29};
/* 2 / 3 */
static const double third_f32[] = {0x1.5555540000000p-1, 0x1.5555560000000p-25};
/* 2 sqrt(2 / pi) */
static const double gelu_c_f64[] = {0x1.9884533d43650p+0, 0x1.1a1f9678a0175p-53};
/* 0.044715 times that */
static const double gelu_c3_f64[] = {0x1.2444f2a4d8b4ap-4, 0x1.e937bc5d62e39p-57};
/* 2 / 3 */
static const double third_f64[] = {0x1.5555555555555p-1, 0x1.5555555555555p-55};
/* The binary digits of 2 / pi, 32 a word: a word before the point, then those after it. */
static const unsigned two_over_pi_words[] = {
    0x00000000, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041,
    0xFE5163AB, 0xDEBBC561, 0xB7246E3A, 0x424DD2E0, 0x06492EEA, 0x09D1921C, 0xFE1DEB1C,
    0xB129A73E, 0xE88235F5, 0x2EBB4484, 0xE99C7026, 0xB45F7E41, 0x3991D639, 0x835339F4,
    0x9C845F8B, 0xBDF9283B, 0x1FF897FF, 0xDE05980F, 0xEF2F118B, 0x5A0A6D1F, 0x6D367ECF,
    0x27CB09B7, 0x4F463F66, 0x9E5FEA2D, 0x7527BAC7, 0xEBE5F17B, 0x3D0739F7, 0x8A5292EA,
    0x6BFB5FB1, 0x1F8D5D08, 0x56033046, 0xFC7B6BAB, 0xF0CFBC20, 0x9AF4361D};

#endif
