/* The device interface: memory, modules, launches, tensor maps, and failing allocations. */
#include <stdlib.h>
#include <string.h>

#include "tests/emulator/emu_fixture.h"
#include "tests/emulator/emu_suites.h"
#include "tests/support/failing_alloc.h"

static const char copy_ptx[] =
    ".version 8.6\n.target sm_90a\n.address_size 64\n"
    ".visible .entry copy(.param .u64 from, .param .u64 to)\n.reqntid 64\n{\n"
    ".shared .align 8 .b64 bar;\n.reg .b32 r<4>; .reg .b64 d<8>; .reg .pred p;\n"
    "ld.param.u64 d0, [from]; ld.param.u64 d1, [to]; mov.u32 r0, %tid.x; mov.u32 r1, bar;\n"
    "setp.eq.u32 p, r0, 0; @p mbarrier.init.shared::cta.b64 [r1], 64; bar.sync 0;\n"
    "mbarrier.arrive.shared::cta.b64 _, [r1];\n"
    "mul.wide.u32 d2, r0, 4; add.u64 d3, d0, d2; add.u64 d4, d1, d2;\n"
    "ld.global.u32 r2, [d3]; st.global.u32 [d4], r2; ret;\n}\n";

static device *open_device(void) {
  device *d;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_msg(device_open_emulator("sm_90a", 0, &d, &err) == ARKE_OK, "%s", err.text);
  return d;
}

START_TEST(targets) {
  device *d;
  arke_error err = ARKE_ERROR_INIT;
  const char *bad[] = {"", "90", "sm_", "sm_9", "sm_xya", "sm_90aa", "compute_90", NULL};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    error_clear(&err);
    ck_assert_int_eq(device_open_emulator(bad[i], 0, &d, &err), ARKE_ERR_ARGUMENT);
    ck_assert(strstr(err.text, "sm_90a") != NULL && d == NULL);
  }
  device_info info;
  ck_assert(device_open_emulator("sm_100a", 0, &d, &err) == ARKE_OK);
  ck_assert(d->ops->info(d, &info, &err) == ARKE_OK);
  ck_assert_int_eq(info.cc_major, 10);
  ck_assert_int_eq(info.cc_minor, 0);
  d->ops->close(d);
  d = open_device();
  emu_set_sm_count(d, 7);
  ck_assert(d->ops->info(d, &info, &err) == ARKE_OK);
  ck_assert_int_eq(info.cc_major * 10 + info.cc_minor, 90);
  ck_assert_int_eq(info.sm_count, 7);
  ck_assert_int_eq(info.smem_per_block_bytes, 232448);
  ck_assert(!info.can_measure && info.kind == ARKE_DEVICE_EMULATOR);
  d->ops->close(d);
}
END_TEST

START_TEST(modules) {
  device *d = open_device();
  device_module *m;
  device_kernel *k;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(d->ops->module_load(d, "\177ELF....", 8, &m, &err), ARKE_ERR_UNSUPPORTED);
  error_clear(&err);
  char *other = edit_text(copy_ptx, "sm_90a", 0, "sm_100a");
  ck_assert_int_eq(d->ops->module_load(d, other, strlen(other), &m, &err), ARKE_ERR_DEVICE);
  ck_assert(strstr(err.text, "sm_100a") != NULL);
  free(other);
  error_clear(&err);
  char *plain = edit_text(copy_ptx, "sm_90a", 0, "sm_80");
  ck_assert_int_eq(d->ops->module_load(d, plain, strlen(plain), &m, &err), ARKE_OK);
  d->ops->module_unload(d, m);
  free(plain);
  ck_assert_int_eq(d->ops->module_load(d, copy_ptx, sizeof copy_ptx - 1, &m, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->kernel_get(d, m, "kopy", 0, &k, &err), ARKE_ERR_NOT_FOUND);
  error_clear(&err);
  ck_assert_int_eq(d->ops->kernel_get(d, m, "copy", 1 << 20, &k, &err), ARKE_ERR_ARGUMENT);
  error_clear(&err);
  ck_assert_int_eq(d->ops->kernel_get(d, m, "copy", 0, &k, &err), ARKE_OK);
  device_kernel_info info;
  ck_assert_int_eq(d->ops->kernel_info(d, k, &info, &err), ARKE_OK);
  ck_assert_int_eq(info.max_threads, 64);
  ck_assert_int_ge(info.static_smem_bytes, 8);
  d->ops->module_unload(d, m);
  d->ops->close(d);
}
END_TEST

static const struct {
  device_launch launch;
  const char *words;
} bad_launches[] = {
    {{.grid = {0, 1, 1}, .block = {64, 1, 1}, .n_args = 2}, "grid.x is 0"},
    {{.grid = {1, 70000, 1}, .block = {64, 1, 1}, .n_args = 2}, "grid.y is 70000"},
    {{.grid = {1, 1, 1}, .block = {32, 1, 1}, .n_args = 2}, ".reqntid asks for 64"},
    {{.grid = {1, 1, 1}, .block = {64, 1, 100}, .n_args = 2}, "block.z is 100"},
    {{.grid = {3, 1, 1}, .block = {64, 1, 1}, .cluster = {2, 1, 1}, .n_args = 2}, "multiple of the cluster"},
    {{.grid = {32, 1, 1}, .block = {64, 1, 1}, .cluster = {32, 1, 1}, .n_args = 2}, "cluster of 32"},
    {{.grid = {1, 1, 1}, .block = {64, 1, 1}, .smem_bytes = 16, .n_args = 2}, "prepared for 0"},
    {{.grid = {1, 1, 1}, .block = {64, 1, 1}, .n_args = 1}, "1 arguments for 2"},
};

START_TEST(launches) {
  device *d = open_device();
  device_module *m;
  device_kernel *k;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert(d->ops->module_load(d, copy_ptx, sizeof copy_ptx - 1, &m, &err) == ARKE_OK);
  ck_assert(d->ops->kernel_get(d, m, "copy", 0, &k, &err) == ARKE_OK);
  uint32_t host[64], back[64];
  for (uint32_t i = 0; i < 64; i++) host[i] = i * i;
  device_ptr to;
  ck_assert(d->ops->mem_alloc(d, sizeof host, "to", &to, &err) == ARKE_OK);
  device_ptr from = (device_ptr)(uintptr_t)host;
  void *args[] = {&from, &to};
  for (size_t i = 0; i < COUNT_OF(bad_launches); i++) {
    device_launch l = bad_launches[i].launch;
    l.args = args;
    error_clear(&err);
    ck_assert_int_eq(d->ops->launch(d, k, &l, &err), ARKE_ERR_FAULT);
    ck_assert_int_eq(emu_last_report(d)->fault, EMU_FAULT_LAUNCH);
    ck_assert_msg(strstr(err.text, bad_launches[i].words) != NULL, "%s", err.text);
  }
  /* memory that the caller owns must be made known */
  device_launch l = {.grid = {1, 1, 1}, .block = {64, 1, 1}, .args = args, .n_args = 2};
  error_clear(&err);
  ck_assert_int_eq(d->ops->launch(d, k, &l, &err), ARKE_ERR_FAULT);
  ck_assert_int_eq(emu_last_report(d)->fault, EMU_FAULT_OUT_OF_BOUNDS);
  error_clear(&err);
  ck_assert_int_eq(d->ops->mem_import(d, from, sizeof host, "from", DEVICE_MEMORY_POISONED, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->mem_import(d, from + 4, 16, "again", DEVICE_MEMORY_POISONED, &err),
                   ARKE_ERR_ARGUMENT);
  error_clear(&err);
  ck_assert_int_eq(d->ops->launch(d, k, &l, &err), ARKE_ERR_FAULT);
  ck_assert_int_eq(emu_last_report(d)->fault, EMU_FAULT_UNINITIALISED);
  d->ops->mem_release(d, from);
  ck_assert_int_eq(d->ops->mem_import(d, from, sizeof host, "from", DEVICE_MEMORY_INITIALISED, NULL),
                   ARKE_OK);
  error_clear(&err);
  ck_assert_msg(d->ops->launch(d, k, &l, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_gt((int)emu_last_report(d)->instructions, 10);
  ck_assert(d->ops->copy_out(d, back, to, sizeof back, &err) == ARKE_OK);
  ck_assert_mem_eq(host, back, sizeof host);
  ck_assert_int_eq(d->ops->copy_out(d, back, to + 4, sizeof back, &err), ARKE_ERR_ARGUMENT);
  error_clear(&err);
  ck_assert(d->ops->fill(d, to, 1, sizeof back, &err) == ARKE_OK);
  ck_assert_msg(d->ops->copy(d, to + 4, from, sizeof back - 4, &err) == ARKE_OK, "%s", err.text);
  ck_assert(d->ops->copy_out(d, back, to, sizeof back, &err) == ARKE_OK);
  ck_assert_int_eq(memcmp((char *)back + 4, host, sizeof back - 4), 0);
  ck_assert_int_eq(((char *)back)[3], 1);
  ck_assert_int_eq(d->ops->copy(d, to + 4, from, sizeof back, &err), ARKE_ERR_ARGUMENT);
  error_clear(&err);
  ck_assert_int_eq(d->ops->copy(d, to, from + 4, sizeof back, &err), ARKE_ERR_ARGUMENT);
  ck_assert_ptr_nonnull(strstr(err.text, "from"));
  d->ops->mem_free(d, to);
  d->ops->module_unload(d, m);
  d->ops->close(d);
}
END_TEST

START_TEST(tensor_map_rules) {
  device *d = open_device();
  const device_tensormap_desc good = {DTYPE_BF16, 2, 0x10000, {4096, 512}, {0, 8192}, {64, 128}, 3, 2};
  device_tensormap map;
  ck_assert(d->ops->tensormap_encode(d, &good, &map, NULL) == ARKE_OK);
  struct {
    device_tensormap_desc desc;
    const char *words;
  } bad[12];
  for (size_t i = 0; i < COUNT_OF(bad); i++) bad[i].desc = good;
  bad[0].desc.address = 0x10008, bad[0].words = "multiple of 16";
  bad[1].desc.address = 0, bad[1].words = "null";
  bad[2].desc.rank = 6, bad[2].words = "rank 6";
  bad[3].desc.rank = 0, bad[3].words = "rank 0";
  bad[4].desc.dim[1] = 0, bad[4].words = "dimension 1";
  bad[5].desc.dim[0] = 1ull << 33, bad[5].words = "dimension 0";
  bad[6].desc.stride_bytes[1] = 8200, bad[6].words = "stride 1";
  bad[7].desc.box[1] = 257, bad[7].words = "box dimension 1";
  bad[8].desc.box[0] = 4, bad[8].words = "multiple of 16";
  bad[9].desc.box[0] = 128, bad[9].words = "more than the swizzle's 128";
  bad[10].desc.swizzle = 4, bad[10].words = "swizzle 4";
  bad[11].desc.type = DTYPE_E2M1, bad[11].words = "elements";
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    arke_error err = ARKE_ERROR_INIT;
    ck_assert_int_eq(d->ops->tensormap_encode(d, &bad[i].desc, &map, &err), ARKE_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, bad[i].words) != NULL, "%zu: %s", i, err.text);
  }
  ck_assert(d->ops->tensormap_encode(d, &good, &map, NULL) == ARKE_OK);
  ck_assert(d->ops->tensormap_set_address(d, &map, 0x20000, NULL) == ARKE_OK);
  ck_assert_int_eq(d->ops->tensormap_set_address(d, &map, 0x20001, NULL), ARKE_ERR_ARGUMENT);
  map.opaque[20] ^= 1;
  ck_assert_int_eq(d->ops->tensormap_set_address(d, &map, 0x20000, NULL), ARKE_ERR_ARGUMENT);
  d->ops->close(d);
}
END_TEST

/* What GPUs before Hopper lack, and how much shared memory each has. */
START_TEST(older_devices) {
  static const struct {
    const char *target;
    int smem_bytes;
  } devices[] = {{"sm_80", 166912}, {"sm_86", 101376}, {"sm_89", 101376}, {"sm_120", 101376}};
  char *plain = edit_text(copy_ptx, "sm_90a", 0, "sm_80");
  for (size_t i = 0; i < COUNT_OF(devices); i++) {
    device *d;
    device_module *m;
    device_kernel *k;
    device_info info;
    arke_error err = ARKE_ERROR_INIT;
    int has = devices[i].smem_bytes;
    ck_assert(device_open_emulator(devices[i].target, 0, &d, &err) == ARKE_OK);
    ck_assert(d->ops->info(d, &info, &err) == ARKE_OK);
    ck_assert_int_eq(info.smem_per_block_bytes, has);
    ck_assert_msg(d->ops->module_load(d, plain, strlen(plain), &m, &err) == ARKE_OK, "%s", err.text);
    ck_assert_int_eq(d->ops->kernel_get(d, m, "copy", (uint32_t)has, &k, &err), ARKE_ERR_ARGUMENT);
    error_clear(&err);
    ck_assert(d->ops->kernel_get(d, m, "copy", (uint32_t)has - 1024, &k, &err) == ARKE_OK);
    const device_tensormap_desc desc = {DTYPE_BF16, 2, 0x10000, {4096, 512}, {0, 8192}, {64, 128}, 3, 2};
    device_tensormap map;
    device_ptr from, to;
    ck_assert(d->ops->mem_alloc(d, 256, "from", &from, &err) == ARKE_OK);
    ck_assert(d->ops->mem_alloc(d, 256, "to", &to, &err) == ARKE_OK);
    ck_assert(d->ops->fill(d, from, 1, 256, &err) == ARKE_OK);
    void *args[] = {&from, &to};
    device_launch l = {.grid = {2, 1, 1}, .block = {64, 1, 1}, .args = args, .n_args = 2};
    device_launch early = l, clusters = l;
    early.early_start = true;
    clusters.cluster[0] = 2;
    clusters.cluster[1] = clusters.cluster[2] = 1;
    bool newer = info.cc_major > 8;
    ck_assert(d->ops->launch(d, k, &clusters, &err) == (newer ? ARKE_OK : ARKE_ERR_FAULT));
    ck_assert_msg(newer || strstr(err.text, "has no clusters") != NULL, "%s", err.text);
    error_clear(&err);
    ck_assert(d->ops->tensormap_encode(d, &desc, &map, &err) == (newer ? ARKE_OK : ARKE_ERR_DEVICE));
    error_clear(&err);
    ck_assert(d->ops->launch(d, k, &early, &err) == ARKE_ERR_FAULT);
    ck_assert_int_eq(emu_last_report(d)->fault, newer ? EMU_FAULT_EARLY : EMU_FAULT_LAUNCH);
    d->ops->module_unload(d, m);
    d->ops->close(d);
  }
  free(plain);
}
END_TEST

/* Loads and runs; every allocation on the way fails once. */
static arke_status load_and_run(device *d, device_ptr from, device_ptr to, arke_error *err) {
  device_module *m = NULL;
  device_kernel *k;
  arke_status status = d->ops->module_load(d, copy_ptx, sizeof copy_ptx - 1, &m, err);
  if (status == ARKE_OK) status = d->ops->kernel_get(d, m, "copy", 0, &k, err);
  void *args[] = {&from, &to};
  device_launch l = {.grid = {2, 1, 1}, .block = {64, 1, 1}, .cluster = {2, 1, 1}, .args = args, .n_args = 2};
  if (status == ARKE_OK) status = d->ops->launch(d, k, &l, err);
  d->ops->module_unload(d, m);
  return status;
}

START_TEST(every_allocation_may_fail) {
  device *d = open_device();
  device_ptr from, to;
  uint32_t words[64] = {0};
  ck_assert(d->ops->mem_alloc(d, sizeof words, "from", &from, NULL) == ARKE_OK);
  ck_assert(d->ops->mem_alloc(d, sizeof words, "to", &to, NULL) == ARKE_OK);
  ck_assert(d->ops->copy_in(d, from, words, sizeof words, NULL) == ARKE_OK);
  int failures = 0;
  for (int n = 0;; n++) {
    arke_error err = ARKE_ERROR_INIT;
    failing_alloc_arm(n);
    arke_status status = load_and_run(d, from, to, &err);
    if (!failing_alloc_disarm()) {
      ck_assert_msg(status == ARKE_OK, "%s", err.text);
      break;
    }
    ck_assert_msg(status == ARKE_ERR_MEMORY, "allocation %d: %s %s", n, arke_status_name(status), err.text);
    ck_assert_int_eq(err.code, ARKE_ERR_MEMORY);
    failures++;
  }
  ck_assert_int_gt(failures, 30);
  d->ops->close(d);
}
END_TEST

TCase *emu_device_case(void) {
  TCase *c = tcase_create("device");
  tcase_add_test(c, targets);
  tcase_add_test(c, modules);
  tcase_add_test(c, launches);
  tcase_add_test(c, tensor_map_rules);
  tcase_add_test(c, older_devices);
  tcase_add_test(c, every_allocation_may_fail);
  return c;
}
