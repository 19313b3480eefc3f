#include "tests/emulator/emu_fixture.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/strbuf.h"
#include "tests/support/failing_alloc.h"

char *read_case(const char *path) {
  FILE *f = fopen(path, "rb");
  ck_assert_msg(f != NULL, "cannot open %s", path);
  fseek(f, 0, SEEK_END);
  long n = ftell(f);
  rewind(f);
  char *text = malloc((size_t)n + 1);
  ck_assert(text != NULL);
  ck_assert_uint_eq(fread(text, 1, (size_t)n, f), (size_t)n);
  text[n] = '\0';
  fclose(f);
  return text;
}

char *edit_text(const char *text, const char *from, int nth, const char *to) {
  const char *at = text;
  for (int i = 0; at != NULL; i++) {
    at = strstr(at, from);
    if (at == NULL || i == nth) break;
    at += strlen(from);
  }
  ck_assert_msg(at != NULL, "no occurrence %d of \"%s\"", nth, from);
  size_t before = (size_t)(at - text), n = strlen(text) - strlen(from) + strlen(to) + 1;
  char *out = malloc(n);
  ck_assert(out != NULL);
  snprintf(out, n, "%.*s%s%s", (int)before, text, to, at + strlen(from));
  return out;
}

static device_tensormap map_2d(device *d, dtype type, device_ptr p, uint64_t columns, uint64_t rows,
                               uint32_t box_columns, uint32_t box_rows, int swizzle) {
  arke_error err = ARKE_ERROR_INIT;
  device_tensormap map;
  device_tensormap_desc desc = {
      type,    2, p, {columns, rows}, {0, columns * (uint64_t)dtype_bits(type) / 8}, {box_columns, box_rows},
      swizzle, 0};
  ck_assert_msg(d->ops->tensormap_encode(d, &desc, &map, &err) == ARKE_OK, "%s", err.text);
  return map;
}

static device_ptr new_buffer(device *d, size_t bytes, const char *name) {
  arke_error err = ARKE_ERROR_INIT;
  device_ptr p = 0;
  ck_assert_msg(d->ops->mem_alloc(d, bytes, name, &p, &err) == ARKE_OK, "%s", err.text);
  return p;
}

static uint16_t *random_bf16(int64_t n, uint64_t seed) {
  uint16_t *v = malloc((size_t)n * 2);
  ck_assert(v != NULL);
  for (int64_t i = 0; i < n; i++) dtype_store(DTYPE_BF16, v, i, random_normal(seed, (uint64_t)i));
  return v;
}

static void compare(gemm_result *r, const gemm_case *c, const uint16_t *a, const uint16_t *b,
                    const uint16_t *out) {
  double *row = malloc((size_t)c->n * sizeof *row), *weight = malloc((size_t)c->n * sizeof *weight);
  ck_assert(row != NULL && weight != NULL);
  for (int i = 0; i < c->m; i++) {
    for (int j = 0; j < c->n; j++) row[j] = weight[j] = 0;
    for (int k = 0; k < c->k; k++) {
      double x = dtype_load(DTYPE_BF16, a, (int64_t)i * c->k + k);
      for (int j = 0; j < c->n; j++) {
        uint32_t bits = (uint32_t)b[(int64_t)k * c->n + j] << 16;
        float y;
        memcpy(&y, &bits, 4);
        row[j] += x * (double)y;
        weight[j] += fabs(x * (double)y);
      }
    }
    for (int j = 0; j < c->n; j++) {
      /* half a unit of the bf16 result, and the accumulation's own error */
      double tolerance = fabs(row[j]) * 0x1p-8 + weight[j] * 0x1p-22 * c->k / 16 + 1e-30;
      double error = fabs(dtype_load(DTYPE_BF16, out, (int64_t)i * c->n + j) - row[j]) / tolerance;
      if (!(error <= 1)) r->wrong++;
      if (!(error <= r->worst)) r->worst = error;
    }
  }
  free(row);
  free(weight);
}

gemm_result run_gemm(const gemm_case *c) {
  gemm_result r;
  memset(&r, 0, sizeof r);
  device *d;
  device_module *m;
  device_kernel *kernel;
  enum { SMEM = 6 * 32768 + 2 * 16384 };
  ck_assert_msg(device_open_emulator("sm_90a", c->seed, &d, &r.err) == ARKE_OK, "%s", r.err.text);
  if (c->sm_count > 0) emu_set_sm_count(d, c->sm_count);
  if (c->limit > 0) emu_set_instruction_limit(d, c->limit);
  int64_t an = (int64_t)c->m * c->k, bn = (int64_t)c->k * c->n, cn = (int64_t)c->m * c->n;
  uint16_t *a = random_bf16(an, 1), *b = random_bf16(bn, 2), *out = malloc((size_t)cn * 2);
  ck_assert(out != NULL);
  device_ptr pa = new_buffer(d, (size_t)an * 2, "A"), pb = new_buffer(d, (size_t)bn * 2, "B");
  device_ptr pc = new_buffer(d, (size_t)cn * 2, "C");
  ck_assert(d->ops->copy_in(d, pa, a, (size_t)an * 2, &r.err) == ARKE_OK);
  ck_assert(d->ops->copy_in(d, pb, b, (size_t)bn * 2, &r.err) == ARKE_OK);
  device_tensormap ta = map_2d(d, DTYPE_BF16, pa + c->a_shift, (uint64_t)c->k, (uint64_t)c->m, 64, 128, 3);
  device_tensormap tb = map_2d(d, DTYPE_BF16, pb, (uint64_t)c->n, (uint64_t)c->k, 64, 64, 3);
  device_tensormap tc = map_2d(d, DTYPE_BF16, pc, (uint64_t)c->n, (uint64_t)c->m, 64, 64, 3);
  uint32_t size[3] = {(uint32_t)c->m, (uint32_t)c->n, (uint32_t)c->k};
  void *args[] = {&ta, &tb, &tc, &size[0], &size[1], &size[2]};
  uint32_t tiles = (size[0] + 127) / 128 * ((size[1] + 127) / 128);
  uint32_t sms = c->sm_count > 0 ? (uint32_t)c->sm_count : 4;
  device_launch launch = {.grid = {tiles < sms ? tiles : sms, 1, 1},
                          .block = {384, 1, 1},
                          .smem_bytes = SMEM,
                          .args = args,
                          .n_args = 6};
  /* Check allocates too: nothing is asserted while allocations fail. */
  if (c->fail > 0) failing_alloc_arm(c->fail - 1);
  r.status = d->ops->module_load(d, c->ptx, strlen(c->ptx), &m, &r.err);
  if (r.status == ARKE_OK) {
    r.status = d->ops->kernel_get(d, m, "gemm", SMEM, &kernel, &r.err);
    if (r.status == ARKE_OK) r.status = d->ops->launch(d, kernel, &launch, &r.err);
    if (c->fail > 0) r.failed_allocation = failing_alloc_disarm();
    r.report = *emu_last_report(d);
    ck_assert(d->ops->copy_out(d, out, pc, (size_t)cn * 2, NULL) == ARKE_OK);
    if (r.status == ARKE_OK) compare(&r, c, a, b, out);
    d->ops->module_unload(d, m);
  } else if (c->fail > 0) {
    r.failed_allocation = failing_alloc_disarm();
  }
  d->ops->close(d);
  free(a);
  free(b);
  free(out);
  return r;
}

static char *small_text(const small_case *c) {
  strbuf s = STRBUF_INIT;
  strbuf_addf(&s, ".version 8.6\n.target %s\n.address_size 64\n", c->target == NULL ? "sm_90a" : c->target);
  strbuf_add(&s, ".extern .shared .align 1024 .b8 smem[];\n");
  strbuf_add(&s, ".visible .entry k(.param .u64 arg0, .param .u64 arg1, .param .align 64 .b8 arg2[128], "
                 ".param .align 64 .b8 arg3[128])\n{\n");
  if (c->shared != NULL) strbuf_add(&s, c->shared);
  strbuf_add(&s, "\n.reg .pred p<8>; .reg .b16 h<16>; .reg .b32 r<64>; .reg .b64 d<32>; .reg .f32 f<320>;\n"
                 "ld.param.u64 d0, [arg0]; cvta.to.global.u64 d0, d0; ld.param.u64 d1, [arg1]; "
                 "cvta.to.global.u64 d1, d1;\n"
                 "mov.b64 d2, arg2; cvta.param.u64 d2, d2; mov.b64 d3, arg3; cvta.param.u64 d3, d3;\n"
                 "mov.u32 r0, %tid.x; mov.u32 r1, smem;\n");
  strbuf_add(&s, c->body);
  strbuf_add(&s, "\nret;\n}\n");
  ck_assert(!strbuf_failed(&s));
  return strbuf_take(&s);
}

small_result run_small(const small_case *c) {
  small_result r;
  memset(&r, 0, sizeof r);
  device *d;
  device_module *m;
  device_kernel *kernel;
  ck_assert_msg(device_open_emulator("sm_90a", c->seed, &d, &r.err) == ARKE_OK, "%s", r.err.text);
  if (c->limit > 0) emu_set_instruction_limit(d, c->limit);
  uint32_t words[1024], bytes = c->input_bytes == 0 ? (uint32_t)sizeof words : c->input_bytes;
  for (uint32_t i = 0; i < 1024; i++) words[i] = i;
  ck_assert_uint_le(bytes, sizeof r.out);
  device_ptr in = new_buffer(d, bytes, "in"), out = new_buffer(d, bytes, "out");
  ck_assert(d->ops->copy_in(d, in, c->input == NULL ? words : c->input, bytes, &r.err) == ARKE_OK);
  device_tensormap map_in = map_2d(d, DTYPE_I32, in, 64, 16, 8, 4, 0);
  device_tensormap map_out = map_2d(d, DTYPE_I32, out, 64, 16, 8, 4, 0);
  char *text = small_text(c);
  r.status = d->ops->module_load(d, text, strlen(text), &m, &r.err);
  if (r.status == ARKE_OK) {
    ck_assert_msg(d->ops->kernel_get(d, m, "k", c->smem_bytes, &kernel, &r.err) == ARKE_OK, "%s", r.err.text);
    void *args[] = {&in, &out, &map_in, &map_out};
    uint32_t cluster = c->cluster == 0 ? 1 : c->cluster;
    device_launch launch = {.grid = {c->grid == 0 ? cluster : c->grid, 1, 1},
                            .block = {c->threads == 0 ? 32 : c->threads, 1, 1},
                            .cluster = {cluster, 1, 1},
                            .smem_bytes = c->smem_bytes,
                            .args = args,
                            .n_args = 4};
    r.status = d->ops->launch(d, kernel, &launch, &r.err);
    r.report = *emu_last_report(d);
    ck_assert(d->ops->copy_out(d, r.out, out, bytes, NULL) == ARKE_OK);
    d->ops->module_unload(d, m);
  }
  free(text);
  d->ops->close(d);
  return r;
}

void expect_fault(const small_case *c, emu_fault fault, const char *words) {
  small_result r = run_small(c);
  ck_assert_msg(r.status == ARKE_ERR_FAULT, "expected a fault (%s), got %s: %s", emu_fault_text(fault),
                arke_status_name(r.status), r.err.text);
  ck_assert_msg(r.report.fault == fault, "expected \"%s\", got: %s", emu_fault_text(fault), r.report.text);
  ck_assert_msg(strstr(r.report.text, words) != NULL, "no \"%s\" in: %s", words, r.report.text);
  ck_assert_str_eq(r.err.text, r.report.text);
}

small_result expect_clean(const small_case *c) {
  small_result r = run_small(c);
  ck_assert_msg(r.status == ARKE_OK, "%s: %s", arke_status_name(r.status), r.err.text);
  ck_assert_int_eq(r.report.fault, EMU_FAULT_NONE);
  return r;
}
