/* The selftest's first part: the same kernels on a GPU and the emulator, or on that under two seeds. */
#include "tuner/cli_fidelity.h"
#include "tuner/cli_selftest_parts.h"

/* Ragged in every axis; the first two have more tiles than the largest GPU has SMs, for the persistent ones
 * and those that fill its last wave, the last more k-steps than stages. */
static const char *const full_shapes[] = {"2056x1544x72", "1032x3080x136", "520x776x640", "264x648x1032"};
static const char *const short_shapes[] = {"200x136x200"};

typedef struct fidelity_part {
  cli_selftest *test;
  cli_fidelity_count count;
  json_t *runs;
} fidelity_part;

static void keep_fidelity(fidelity_part *f, double every_s) {
  const cli_fidelity_count *n = &f->count;
  cli_selftest_keep(
      f->test, "fidelity",
      json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:O}", "compared",
                f->test->kind == ARKE_DEVICE_CUDA ? "GPU with emulator" : "emulator under two seeds", "runs",
                n->runs, "identical", n->identical, "differing", n->differing, "failed", n->failed,
                "elements", (json_int_t)n->elements, "differing_elements", (json_int_t)n->differing_elements,
                "list", f->runs),
      every_s);
}

static void one_compared(void *user) {
  keep_fidelity(user, CLI_SELFTEST_SAVE_S);
}

static arke_status compare_kernels(cli_selftest *t, fidelity_part *f, arke_error *err) {
  bool cuda = t->kind == ARKE_DEVICE_CUDA;
  const char *const *shapes = cuda ? full_shapes : short_shapes;
  int n_shapes = (int)(cuda ? COUNT_OF(full_shapes) : COUNT_OF(short_shapes));
  dtype type = t->settings->type, other = type == DTYPE_BF16 ? DTYPE_F16 : type;
  const char *products = cli_products_of(t->target);
  const cli_fidelity_plan plans[] = {{"matmul", products, type, n_shapes, shapes, cuda ? 20 : 2},
                                     {"linear", products, other, n_shapes, shapes, cuda ? 10 : 2}};
  const cli_fidelity_options options = {.target = t->target,
                                        .kind = t->kind,
                                        .index = t->settings->tune.device_index,
                                        .seed = t->settings->tune.seed,
                                        .each = one_compared,
                                        .user = f,
                                        .runs = f->runs,
                                        .count = &f->count};
  return cli_fidelity_run(plans, (int)COUNT_OF(plans), &options, err);
}

arke_status cli_selftest_fidelity(cli_selftest *t, arke_error *err) {
  fidelity_part f = {.test = t, .runs = json_array()};
  const cli_fidelity_count *n = &f.count;
  arke_status status = compare_kernels(t, &f, err);
  keep_fidelity(&f, 0);
  json_decref(f.runs);
  if (status != ARKE_OK && status != ARKE_ERR_INTERRUPTED) return status;
  bool whole = status == ARKE_OK;
  cli_selftest_tell(t, "fidelity", n->failed == 0 && n->differing == 0, "",
                    "%d kernels%s, %s: %d equal bit for bit, %d not (%lld of %lld elements), %d failed%s",
                    n->runs, whole ? "" : ", then interrupted",
                    t->kind == ARKE_DEVICE_CUDA ? "GPU and emulator" : "emulator under two seeds",
                    n->identical, n->differing, (long long)n->differing_elements, (long long)n->elements,
                    n->failed,
                    n->runs > n->failed ? "; all others within tolerance of the fp64 reference" : "");
  return status;
}
