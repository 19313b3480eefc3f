/* The catalogue's operators whose outputs are expressions at the same place: maps, gates, rotary embeddings,
 * dequantising. catalogue.c alone includes this, and says what the columns are. */
#ifndef ARKE_IR_CATALOGUE_ELEMENTS_H
#define ARKE_IR_CATALOGUE_ELEMENTS_H

#define CATALOGUE_ELEMENTS(X)                                                                                \
  X(relu, "map", "...", NUMBERS, "max(x, 0)", "relu(X: T[...]) -> (Y: T[...]) { Y[...] = max(X[...], 0) }")  \
  X(gelu, "map", "...", FLOATS64, "exact GELU", "gelu(X: T[...]) -> (Y: T[...]) { Y[...] = gelu(X[...]) }")  \
  X(silu, "map", "...", FLOATS64, "x * sigmoid(x)",                                                          \
    "silu(X: T[...]) -> (Y: T[...]) { Y[...] = silu(X[...]) }")                                              \
  X(tanh, "map", "...", FLOATS64, "hyperbolic tangent",                                                      \
    "tanh(X: T[...]) -> (Y: T[...]) { Y[...] = tanh(X[...]) }")                                              \
  X(sigmoid, "map", "...", FLOATS64, "1 / (1 + e^-x)",                                                       \
    "sigmoid(X: T[...]) -> (Y: T[...]) { Y[...] = sigmoid(X[...]) }")                                        \
  X(neg, "map", "...", NUMBERS, "negation", "neg(X: T[...]) -> (Y: T[...]) { Y[...] = -X[...] }")            \
  X(exp, "map", "...", FLOATS64, "e^x", "exp(X: T[...]) -> (Y: T[...]) { Y[...] = exp(X[...]) }")            \
  X(rsqrt, "map", "...", FLOATS64, "1 / sqrt(x)",                                                            \
    "rsqrt(X: T[...]) -> (Y: T[...]) { Y[...] = rsqrt(X[...]) }")                                            \
  X(add, "map", "...", NUMBERS, "sum of two tensors",                                                        \
    "add(A: T[...], B: T[...]) -> (Y: T[...]) { Y[...] = A[...] + B[...] }")                                 \
  X(mul, "map", "...", NUMBERS, "product of two tensors, element by element",                                \
    "mul(A: T[...], B: T[...]) -> (Y: T[...]) { Y[...] = A[...] * B[...] }")                                 \
  X(where_, "map", "...", ANY, "x where c is true, else y",                                                  \
    "where_(C: bool[...], X: T[...], Y: T[...]) -> (Z: T[...]) { Z[...] = where(C[...], X[...], "            \
    "Y[...]) }")                                                                                             \
  X(cast, "map", "...", ANY "|" ANY,                                                                         \
    "another dtype: rounded to nearest, saturating to integers and 8-bit floats",                            \
    "cast(X: T[...]) -> (Y: U[...]) { Y[...] = cast<U>(X[...]) }")                                           \
  X(copy_, "map", "...", ANY "|" ANY, "one tensor into another, of any dtype",                               \
    "copy_(D: U[...], X: T[...]) -> (D) { D[...] = cast<U>(X[...]) }")                                       \
  X(silu_and_mul, "map", "B,H", FLOATS64, "silu of the left half times the right half",                      \
    "silu_and_mul(X: T[B,2*H]) -> (Y: T[B,H]) { Y[b,h] = silu(X[b,h]) * X[b,h + H] }")                       \
  X(gelu_and_mul, "map", "B,H", FLOATS64, "gelu of the left half times the right half",                      \
    "gelu_and_mul(X: T[B,2*H]) -> (Y: T[B,H]) { Y[b,h] = gelu(X[b,h]) * X[b,h + H] }")                       \
  X(rope_halves, "rope", "B,H,G,S,E", FLOATS,                                                                \
    "rotary embedding of queries and keys: element d turns with d + E",                                      \
    "rope_halves(Q: T[B,H,S,2*E], K: T[B,G,S,2*E], pos: i32[S]) -> (Qr: T[B,H,S,2*E], Kr: "                  \
    "T[B,G,S,2*E]) base: float = 10000.0 { a[s,d] = pos[s] * pow(base, -1.0 * (d % E) / E); "                \
    "Qr[b,h,s,d] = d < E ? Q[b,h,s,d] * cos(a[s,d]) - Q[b,h,s,d + E] * sin(a[s,d]) : Q[b,h,s,d] * "          \
    "cos(a[s,d]) + Q[b,h,s,d - E] * sin(a[s,d]); Kr[b,h,s,d] = d < E ? K[b,h,s,d] * cos(a[s,d]) - "          \
    "K[b,h,s,d + E] * sin(a[s,d]) : K[b,h,s,d] * cos(a[s,d]) + K[b,h,s,d - E] * sin(a[s,d]) }")              \
  X(rope_interleaved, "rope", "B,H,G,S,E", FLOATS, "rotary embedding of queries and keys: neighbours turn",  \
    "rope_interleaved(Q: T[B,H,S,2*E], K: T[B,G,S,2*E], pos: i32[S]) -> (Qr: T[B,H,S,2*E], Kr: "             \
    "T[B,G,S,2*E]) base: float = 10000.0 { a[s,d] = pos[s] * pow(base, -1.0 * (d / 2) / E); "                \
    "Qr[b,h,s,d] = d % 2 == 0 ? Q[b,h,s,d] * cos(a[s,d]) - Q[b,h,s,d + 1] * sin(a[s,d]) : Q[b,h,s,d] "       \
    "* cos(a[s,d]) + Q[b,h,s,d - 1] * sin(a[s,d]); Kr[b,h,s,d] = d % 2 == 0 ? K[b,h,s,d] * "                 \
    "cos(a[s,d]) - K[b,h,s,d + 1] * sin(a[s,d]) : K[b,h,s,d] * cos(a[s,d]) + K[b,h,s,d - 1] * "              \
    "sin(a[s,d]) }")                                                                                         \
  X(rope_table_halves, "rope", "B,S,H,E", FLOATS,                                                            \
    "rotation by tables of cosines and sines: element e turns with e + E",                                   \
    "rope_table_halves(X: T[B,S,H,2*E], C: T[S,E], N: T[S,E]) -> (Y: T[B,S,H,2*E]) { Y[b,s,h,e + 0] "        \
    "= X[b,s,h,e + 0] * C[s,e] - X[b,s,h,e + E] * N[s,e]; Y[b,s,h,e + E] = X[b,s,h,e + E] * C[s,e] + "       \
    "X[b,s,h,e + 0] * N[s,e] }")                                                                             \
  X(rope_table_interleaved, "rope", "B,S,H,E", FLOATS,                                                       \
    "rotation by tables of cosines and sines: neighbours turn",                                              \
    "rope_table_interleaved(X: T[B,S,H,2*E], C: T[S,E], N: T[S,E]) -> (Y: T[B,S,H,2*E]) { Y[b,s,h,d] "       \
    "= d % 2 == 0 ? X[b,s,h,d] * C[s,d / 2] - X[b,s,h,d + 1] * N[s,d / 2] : X[b,s,h,d] * C[s,d / 2] "        \
    "+ X[b,s,h,d - 1] * N[s,d / 2] }")                                                                       \
  X(rope_positions_halves, "rope", "S,H,E,P", FLOATS,                                                        \
    "rotation by rows of tables that positions choose: element e turns with e + E",                          \
    "rope_positions_halves(X: T[S,H,2*E], C: T[P,E], N: T[P,E], pos: i32[S]) -> (Y: T[S,H,2*E]) { "          \
    "Y[s,h,e + 0] = X[s,h,e + 0] * C[pos[s],e] - X[s,h,e + E] * N[pos[s],e]; Y[s,h,e + E] = X[s,h,e "        \
    "+ E] * C[pos[s],e] + X[s,h,e + 0] * N[pos[s],e] }")                                                     \
  X(rope_positions_interleaved, "rope", "S,H,E,P", FLOATS,                                                   \
    "rotation by rows of tables that positions choose: neighbours turn",                                     \
    "rope_positions_interleaved(X: T[S,H,2*E], C: T[P,E], N: T[P,E], pos: i32[S]) -> (Y: T[S,H,2*E]) "       \
    "{ Y[s,h,d] = d % 2 == 0 ? X[s,h,d] * C[pos[s],d / 2] - X[s,h,d + 1] * N[pos[s],d / 2] : "               \
    "X[s,h,d] * C[pos[s],d / 2] + X[s,h,d - 1] * N[pos[s],d / 2] }")                                         \
  X(dequantize_per_channel, "quantize", "M,N", "i8 u8 i4|" FLOATS,                                           \
    "distance from the zero point, times the column's scale",                                                \
    "dequantize_per_channel(Q: U[M,N], s: f32[N], z: U[N]) -> (Y: T[M,N]) { Y[i,j] = (Q[i,j] - z[j]) "       \
    "* s[j] }")

#endif
