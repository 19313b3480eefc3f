/* Products of warps and warp groups in every pair of types, operands from shared memory and from registers.
 * Terms and sums are integers that every matrix unit adds exactly. */
#include <string.h>

#include "base/dtype.h"
#include "base/random.h"
#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "generator/gen_mma.h"
#include "generator/gen_wgmma.h"
#include "generator_suites.h"
#include "run_kernel.h"
#include "tests/support/thinned.h"

enum { STEPS = 2, ROWS = 128, COLUMNS = 48, ROW_BYTES = STEPS * 32, GROUP = 128 };

static const struct {
  dtype a, b;
  gen_mma_type mma_a, mma_b;
} pairs[] = {
    {DTYPE_F16, DTYPE_F16, GEN_MMA_F16, GEN_MMA_F16},
    {DTYPE_BF16, DTYPE_BF16, GEN_MMA_BF16, GEN_MMA_BF16},
    {DTYPE_F32, DTYPE_F32, GEN_MMA_TF32, GEN_MMA_TF32},
    {DTYPE_E4M3, DTYPE_E4M3, GEN_MMA_E4M3, GEN_MMA_E4M3},
    {DTYPE_E4M3, DTYPE_E5M2, GEN_MMA_E4M3, GEN_MMA_E5M2},
    {DTYPE_E5M2, DTYPE_E4M3, GEN_MMA_E5M2, GEN_MMA_E4M3},
    {DTYPE_E5M2, DTYPE_E5M2, GEN_MMA_E5M2, GEN_MMA_E5M2},
    {DTYPE_I8, DTYPE_I8, GEN_MMA_S8, GEN_MMA_S8},
    {DTYPE_I8, DTYPE_U8, GEN_MMA_S8, GEN_MMA_U8},
    {DTYPE_U8, DTYPE_I8, GEN_MMA_U8, GEN_MMA_S8},
    {DTYPE_U8, DTYPE_U8, GEN_MMA_U8, GEN_MMA_U8},
};

static bool is_integer(dtype t) {
  return dtype_class_of(t) != DTYPE_CLASS_FLOAT;
}

/* --- kernels: buffers A and B, rows of ROW_BYTES, then the sums, thread by thread --- */

typedef struct kernel_case {
  int pair, tiles;
  bool registers; /* A of a wgmma */
} kernel_case;

static gen_value at(gen_builder *b, int buffer, gen_value bytes) {
  return gen_add(b, gen_param(b, buffer), gen_zext(b, bytes, GEN_I64));
}

static gen_value shifted(gen_builder *b, gen_value x, int by, int mask) {
  return gen_and(b, gen_lshr(b, x, gen_i32(b, by)), gen_i32(b, mask));
}

/* Rows into core matrices of 8 rows by 16 bytes, those along K next to one another. */
static void copy_rows(gen_builder *b, int buffer, int rows, gen_value shared) {
  for (int i = 0; i < rows * ROW_BYTES / 4 / GROUP; i++) {
    gen_value byte = gen_mul_imm(b, gen_add_imm(b, gen_tid_x(b), i * GROUP), 4);
    gen_value row = gen_lshr(b, byte, gen_i32(b, 6)), in_row = gen_and(b, byte, gen_i32(b, ROW_BYTES - 1));
    gen_value to = gen_add(b, gen_mul_imm(b, gen_lshr(b, row, gen_i32(b, 3)), ROW_BYTES * 8),
                           gen_mul_imm(b, gen_lshr(b, in_row, gen_i32(b, 4)), 128));
    to = gen_add(b, to, gen_mul_imm(b, gen_and(b, row, gen_i32(b, 7)), 16));
    to = gen_add(b, to, gen_and(b, in_row, gen_i32(b, 15)));
    gen_store_shared(b, gen_load_global(b, GEN_I32, 1, at(b, buffer, byte), true), gen_add(b, shared, to));
  }
}

/* Fragment words of rows row + l / 4 + 8 (i % 2), steps one after the other. */
static void load_fragment(gen_builder *b, int buffer, gen_value row, int step, int words, bool rows_first,
                          gen_value *out) {
  gen_value lane = gen_and(b, gen_tid_x(b), gen_i32(b, 31));
  row = gen_add(b, row, shifted(b, lane, 2, 7));
  for (int i = 0; i < words; i++) {
    gen_value r = gen_add_imm(b, row, rows_first ? i % 2 * 8 : 0);
    int chunk = rows_first ? i / 2 : i;
    gen_value byte = gen_add(b, gen_mul_imm(b, r, ROW_BYTES), gen_mul_imm(b, shifted(b, lane, 0, 3), 4));
    out[i] =
        gen_load_global(b, GEN_I32, 1, at(b, buffer, gen_add_imm(b, byte, step * 32 + chunk * 16)), true);
  }
}

static void store_sums(gen_builder *b, const gen_value *acc, int n) {
  for (int i = 0; i < n; i++)
    gen_store_global(b, acc[i],
                     at(b, 2, gen_mul_imm(b, gen_add_imm(b, gen_mul_imm(b, gen_tid_x(b), n), i), 4)));
}

/* The product twice: the first time over what was there before, then on top. */
static void build_wgmma(gen_builder *b, void *user) {
  const kernel_case *c = user;
  gen_wgmma_operand view = {.step_offset = {0, 256}, .tile_offset = 64 * ROW_BYTES};
  gen_wgmma w = {.type = pairs[c->pair].a,
                 .b_type = pairs[c->pair].b,
                 .n = COLUMNS,
                 .tiles = c->tiles,
                 .k_steps = STEPS,
                 .a = view,
                 .b = view};
  gen_value a = gen_shared_static(b, "a", ROWS * ROW_BYTES, 128);
  gen_value weights = gen_shared_static(b, "b", COLUMNS * ROW_BYTES, 128);
  copy_rows(b, 0, c->tiles * 64, a);
  copy_rows(b, 1, COLUMNS, weights);
  gen_fence_async_shared(b);
  gen_cta_sync(b);
  int64_t bits = gen_wgmma_descriptor_bits(GEN_SWIZZLE_NONE, 128, ROW_BYTES * 8);
  gen_value a_descriptor = gen_wgmma_descriptor(b, a, bits),
            b_descriptor = gen_wgmma_descriptor(b, weights, bits);
  gen_value acc[2 * COLUMNS / 2], words[2 * STEPS * 4];
  int n = c->tiles * COLUMNS / 2;
  for (int i = 0; i < n; i++) acc[i] = is_integer(w.type) ? gen_i32(b, -7) : gen_f32(b, -1e9);
  gen_value first_row = gen_mul_imm(b, shifted(b, gen_tid_x(b), 5, 3), 16);
  for (int i = 0; c->registers && i < c->tiles * STEPS; i++)
    load_fragment(b, 0, gen_add_imm(b, first_row, i / STEPS * 64), i % STEPS, 4, true, words + i * 4);
  for (int times = 0; times < 2; times++) {
    if (c->registers) {
      gen_wgmma_issue_registers(b, &w, words, b_descriptor, gen_bool(b, times > 0), acc);
    } else {
      gen_wgmma_issue(b, &w, a_descriptor, b_descriptor, gen_bool(b, times > 0), acc);
    }
  }
  gen_wgmma_wait(b, 0, acc, n);
  store_sums(b, acc, n);
}

/* 16 rows, the first 8 columns; by one warp. */
static void build_mma(gen_builder *b, void *user) {
  const kernel_case *c = user;
  gen_value sums[4], a[4], weights[2];
  for (int i = 0; i < 4; i++) sums[i] = is_integer(pairs[c->pair].a) ? gen_i32(b, 0) : gen_f32(b, 0);
  for (int times = 0; times < 2; times++) {
    for (int step = 0; step < STEPS; step++) {
      load_fragment(b, 0, gen_i32(b, 0), step, 4, true, a);
      load_fragment(b, 1, gen_i32(b, 0), step, 2, false, weights);
      gen_mma(b, pairs[c->pair].mma_a, pairs[c->pair].mma_b, a, weights, sums);
    }
  }
  store_sums(b, sums, 4);
}

/* --- operands and results --- */

typedef struct operand {
  uint8_t bytes[ROWS * ROW_BYTES];
  double values[ROWS * ROW_BYTES];
} operand;

/* Integers that the type holds. In tf32's unread bits lies what would change sums. */
static void fill(operand *o, dtype t, int rows, uint64_t seed) {
  int k = ROW_BYTES * 8 / dtype_bits(t), least = t == DTYPE_U8 ? 0 : t == DTYPE_I8 ? -128 : -3;
  int most = t == DTYPE_U8 ? 255 : t == DTYPE_I8 ? 127 : 3;
  for (int i = 0; i < rows * k; i++) {
    o->values[i] = least + (int)(random_uniform(seed, (uint64_t)i) * (most - least + 1));
    dtype_store(t, o->bytes, i, o->values[i]);
    if (t != DTYPE_F32) continue;
    uint32_t word;
    memcpy(&word, o->bytes + 4 * i, 4);
    word |= (uint32_t)i * 77 & 0x1FFF;
    memcpy(o->bytes + 4 * i, &word, 4);
  }
}

static double result(const uint32_t *sums, int i, bool integer) {
  float f;
  memcpy(&f, &sums[i], 4);
  return integer ? (double)(int32_t)sums[i] : (double)f;
}

static void check(const kernel_case *c, kernel_body body, int threads, int per_thread, int columns) {
  static operand a, b;
  static uint32_t sums[GROUP * COLUMNS];
  dtype type = pairs[c->pair].a;
  fill(&a, type, ROWS, 1);
  fill(&b, pairs[c->pair].b, COLUMNS, 2);
  arena memory = ARENA_INIT;
  gen_output k = make_kernel(body, (void *)c, 3, threads, &memory);
  kernel_buffer buffers[] = {{a.bytes, sizeof a.bytes, false, false},
                             {b.bytes, COLUMNS * ROW_BYTES, false, false},
                             {sums, (size_t)(threads * per_thread) * 4, true, false}};
  run_kernel(&k, buffers, 3, 0, 1, threads);
  int depth = ROW_BYTES * 8 / dtype_bits(type);
  for (int i = 0; i < threads * per_thread; i++) {
    int thread = i / per_thread, r = i % per_thread, in_tile = r % (columns / 2), lane = thread % 32;
    int row = r / (columns / 2) * 64 + thread / 32 * 16 + lane / 4 + in_tile / 2 % 2 * 8;
    int column = in_tile / 4 * 8 + lane % 4 * 2 + in_tile % 2;
    double sum = 0;
    for (int j = 0; j < depth; j++) sum += a.values[row * depth + j] * b.values[column * depth + j];
    double got = result(sums, i, is_integer(type));
    ck_assert_msg(got == 2 * sum, "%s * %s row %d column %d: %g, not %g", dtype_name(type),
                  dtype_name(pairs[c->pair].b), row, column, got, 2 * sum);
  }
  arena_release(&memory);
}

START_TEST(warp_groups_multiply_every_pair) {
  RUN_EACH_WITH_SANITIZERS(8, _i);
  for (int tiles = 1; tiles <= 2; tiles++)
    check(&(kernel_case){_i, tiles, false}, build_wgmma, GROUP, tiles * COLUMNS / 2, COLUMNS);
}
END_TEST

START_TEST(warp_groups_multiply_from_registers) {
  RUN_EACH_WITH_SANITIZERS(8, _i);
  for (int tiles = 1; tiles <= 2; tiles++)
    check(&(kernel_case){_i, tiles, true}, build_wgmma, GROUP, tiles * COLUMNS / 2, COLUMNS);
}
END_TEST

START_TEST(warps_multiply_every_pair) {
  RUN_EACH_WITH_SANITIZERS(8, _i);
  check(&(kernel_case){_i, 1, false}, build_mma, 32, 4, 8);
}
END_TEST

TCase *wgmma_tests(void) {
  TCase *tests = tcase_create("products");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, warp_groups_multiply_every_pair, 0, COUNT_OF(pairs));
  tcase_add_loop_test(tests, warp_groups_multiply_from_registers, 0, COUNT_OF(pairs));
  tcase_add_loop_test(tests, warps_multiply_every_pair, 0, COUNT_OF(pairs));
  return tests;
}
