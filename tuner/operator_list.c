#include "tuner/operator_list.h"

#include <string.h>

/* Members of families. Every operator of the catalogue is tested besides. */
static const char *const MEMBERS[] = {"permute:1,0",  "permute:0,2,1,3", "permute:2,0,1", "permute:0,1",
                                      "concat:2,1,3", "concat:2,0,2",    "split:2,1,2",   "split:3,1,2"};

static const operator_shapes SHAPES[] = {
    /* More rows or batches than a grid has in its second dimension: those that could use it. */
    {"reduce_sum",
     NULL,
     NULL,
     "9x130",
     {"1x1", "3x7", "4x128", "2x5003", "300x8", "33x1", "0x4", "3x0", "66000x2"}},
    {"reduce_sum_columns",
     NULL,
     NULL,
     "9x130",
     {"1x1", "3x7", "4x128", "2x5003", "300x8", "33x1", "0x4", "3x0", "3x66000"}},
    {"cumsum", NULL, NULL, "9x130", {"1x1", "3x7", "4x128", "2x1501", "150x8", "33x1", "0x4", "66000x2"}},
    {"topk",
     NULL,
     NULL,
     "9x70x5",
     {"1x1x1", "3x7x7", "2x1000x8", "2x3001x64", "40x20x3", "2x5x8", "0x9x2", "3x9x0", "66000x2x1"}},
    {"transpose",
     NULL,
     NULL,
     "9x70",
     {"1x1", "3x7", "64x64", "33x130", "1x1000", "1000x1", "0x5", "66000x2"}},
    {NULL, "map", "...", "9x61", {"", "1", "7", "3x1001", "2x4x5", "8200", "0x5"}},
    {NULL, "map", "B,H", "9x40", {"1x1", "3x7", "5x128", "2x1003", "70x16", "0x8", "4x0"}},
    {NULL, "reduce", "M,N", "9x130", {"1x1", "3x7", "4x128", "2x5003", "300x8", "33x1", "0x4", "3x0"}},
    {NULL, "norm", "B,H", "9x130", {"1x1", "3x7", "4x128", "2x5003", "150x8", "33x1", "0x4"}},
    {NULL,
     "topk",
     "M,N,K",
     "9x70x5",
     {"1x1x1", "3x7x7", "2x1000x8", "2x3001x64", "40x20x3", "2x5x8", "0x9x2", "3x9x0"}},
    {NULL,
     "matmul",
     "M,N,K",
     "128x128x64",
     {"128x136x72", "1x1x1", "3x7x5", "33x70x66", "1x200x64", "65x1x33", "5x3x0", "0x4x3"}},
    {NULL,
     "matmul",
     "B,M,N,K",
     "3x20x24x40",
     {"1x1x1x1", "2x3x7x5", "2x17x33x66", "5x1x40x64", "2x5x3x0", "0x5x4x3"}},
    {NULL, "matmul", "B,M,N,K,E", "3x20x24x40x5", {"1x1x1x1x1", "4x3x7x5x2", "2x1x40x64x3", "2x5x3x0x2"}},
    {"grouped_linear",
     NULL,
     NULL,
     "60x24x40x5",
     {"1x1x1x1", "7x5x3x4", "70x33x66x9", "5x40x64x30", "5x3x0x2", "0x4x3x2"}},
    {"linear_fp8_block",
     NULL,
     NULL,
     "20x136x2x2",
     {"1x1x1x1", "3x7x1x1", "33x200x3x2", "5x260x1x3", "5x3x0x1", "0x4x1x1", "5x260x1x2"}},
    {NULL, "matmul", "B,O,H", "20x24x40", {"1x1x1", "3x7x5", "2x70x66", "5x3x0"}},
    {"embedding", NULL, NULL, "9x20x3x5", {"1x1x1x1", "7x5x2x3", "30x128x3x4", "11x1003x1x2", "5x8x0x3"}},
    {"cache_write", NULL, NULL, "9x2x16x5x7", {"1x1x8x1x1", "7x2x64x5x7", "33x3x20x9x16", "0x2x8x3x4"}},
    {"cache_gather",
     NULL,
     NULL,
     "20x48x9x4x3x5",
     {"1x1x1x1x1x1", "33x129x9x16x4x3", "7x64x20x1x5x7", "0x8x3x4x2x1"}},
    {NULL,
     "movement",
     "M,N,K",
     "9x70x31",
     {"1x1x1", "3x7x5", "4x128x64", "2x1001x333", "70x9x9", "0x4x3", "3x5x0"}},
    {NULL,
     "rope",
     "B,H,G,S,E",
     "2x3x1x5x8",
     {"1x1x1x1x1", "2x4x2x3x16", "1x3x1x5x7", "1x2x2x2x64", "1x2x1x0x4"}},
    {NULL, "rope", "B,S,H,E", "2x5x3x8", {"1x1x1x1", "2x4x2x16", "1x3x5x7", "1x70x1x32", "1x0x2x4"}},
    {NULL, "rope", "S,H,E,P", "9x3x8x20", {"1x1x1x1", "4x2x16x9", "3x5x7x30", "70x1x32x64", "0x2x4x3"}},
    /* Heads of one size, as a kernel is made for it: tests/templates/test_attention.c has others. */
    {NULL,
     "attention",
     "B,H,S,R,D",
     "1x2x9x20x16",
     {"1x1x1x1x16", "2x1x70x33x16", "1x3x5x70x16", "1x2x130x100x16", "1x1x0x4x16"}},
    {NULL,
     "attention",
     "B,H,G,S,R,D",
     "1x4x2x9x20x16",
     {"1x1x1x1x1x16", "2x2x1x70x33x16", "1x6x2x5x70x16", "1x2x1x0x4x16"}},
    {NULL,
     "attention",
     "B,H,G,S,R,D,E",
     "1x4x2x9x20x16x24",
     {"1x1x1x1x1x16x24", "1x2x1x70x33x16x24", "1x6x2x5x40x16x24", "0x2x1x3x4x16x24", "1x2x1x3x0x16x24"}},
    {"varlen_attention", NULL, NULL, "9x4x20x2x16x8x3", {"1x1x1x1x16x8x1", "33x2x40x1x16x8x5"}},
    {"varlen_attention_backward", NULL, NULL, "9x4x20x2x16x8x3", {"33x2x40x1x16x8x5", "5x2x0x1x16x8x2"}},
    {"paged_attention", NULL, NULL, "3x2x4x2x16x8x20x16x3", {"1x1x1x1x16x8x3x32x1", "2x3x2x1x16x8x9x16x4"}},
    {"paged_varlen_attention",
     NULL,
     NULL,
     "9x4x2x16x8x20x16x3x4", /* kernels are made for pages of one size */
     {"1x1x1x16x8x3x16x1x1", "7x2x1x16x8x9x16x2x4"}},
    {"multi_latent_attention", NULL, NULL, "2x1x4x20x32x16", {"1x1x1x1x32x16", "2x3x5x33x32x16"}},
    {"paged_latent_attention", NULL, NULL, "2x1x4x32x16x12x16x3", {"1x1x1x32x16x3x32x1"}},
    {"sparse_attention", NULL, NULL, "2x3x4x20x16x8x9", {"1x1x4x1x16x8x1", "2x5x4x40x16x8x70"}},
    {"sparse_shared_attention", NULL, NULL, "2x3x4x20x16x9", {"1x1x4x1x16x1", "2x5x4x40x16x70"}},
    {"sparse_latent_attention", NULL, NULL, "2x3x4x20x32x16x9", {"1x1x4x1x32x16x1", "1x5x4x40x32x16x70"}},
    {"varlen_sink_attention", NULL, NULL, "9x4x20x2x16x8x3", {"33x2x40x1x16x8x5", "7x4x0x2x16x8x2"}},
    {"paged_sink_attention", NULL, NULL, "3x2x4x2x16x8x20x16x3", {"2x3x2x1x16x8x9x16x4"}},
    {"varlen_rope_attention", NULL, NULL, "7x4x12x2x16x8x3x9x6", {"9x2x20x1x16x8x2x32x8"}},
    {"paged_rope_attention", NULL, NULL, "2x2x4x2x16x8x5x8x2x14x6", {NULL}},
    {"paged_varlen_rope_attention", NULL, NULL, "5x4x2x16x8x5x8x2x2x14x6", {NULL}},
    {"grouped_query_fp8_attention", NULL, NULL, "2x9x4x2x20x16x32", {"1x5x6x3x70x16x32", "1x3x2x1x0x16x32"}},
    {"varlen_fp8_attention", NULL, NULL, "9x4x20x2x16x16x3", {"33x2x40x1x16x16x5"}},
    {"paged_varlen_append_attention", NULL, NULL, "5x4x2x16x8x5x8x2x2", {"9x2x1x16x8x12x8x3x3"}},
    {"paged_varlen_append_fp8_attention", NULL, NULL, "5x4x2x16x8x5x8x2x2", {NULL}},
    {"paged_varlen_append_rope_attention", NULL, NULL, "5x4x2x16x8x5x8x2x2x14x6", {NULL}},
    {"sink_attention", NULL, NULL, "1x4x2x9x20x16x8", {"1x1x1x1x1x16x8", "2x2x1x70x33x16x8"}},
    {"fused_linear_cross_entropy",
     NULL,
     NULL,
     "9x40x70",
     {"1x1x1", "3x5x7", "70x24x200", "20x33x131", "5x0x3", "0x4x3"}},
    {"fused_linear_cross_entropy_gradients", NULL, NULL, "9x16x40", {"1x1x1", "3x5x7", "20x8x33"}},
    {"cross_entropy", NULL, NULL, "9x70", {"1x1", "3x7", "5x128", "2x5003", "150x8", "0x5"}},
    {NULL, "quantize", "M,N", "9x70", {"1x2", "3x8", "4x128", "2x1002", "150x8", "0x4"}},
    {"permute", NULL, "A", "33", {"1", "1000"}},
    {"permute", NULL, "A,B", "9x70", {"1x1", "3x7", "64x64", "33x130", "0x5"}},
    {"permute", NULL, "A,B,C", "3x9x20", {"1x1x1", "3x5x7", "2x33x65", "70x1x3", "2x0x3"}},
    {"permute", NULL, "A,B,C,D", "2x3x9x8", {"1x1x1x1", "2x3x5x7", "2x17x33x16", "1x40x1x3", "2x0x3x4"}},
    {"concat",
     NULL,
     "A,N0,N1,N2,N",
     "9x10x3x21x34",
     {"1x1x1x1x3", "3x8x16x8x32", "2x1001x0x5x1006", "0x1x2x3x6"}},
    {"concat", NULL, "A,N0,N1,N", "20x5x4x9", {"1x1x1x2", "8x3x16x19", "1001x2x0x2", "0x1x2x3"}},
    {"split", NULL, "A,N0,N1,N", "9x10x21x31", {"1x1x1x2", "3x8x16x24", "2x1001x5x1006", "0x1x2x3"}},
    {"split", NULL, "A,B,N0,N1,N", "3x7x4x5x9", {"1x1x1x1x2", "2x16x3x2x5", "5x33x0x2x2"}},
};

/* Inputs that are limited by more than what they index (trial_index.h); names of axes are added, NULL: 0. */
static const struct {
  const char *operator, * input;
  operator_range range;
  const char *from_axis, *below_axis;
} RANGES[] = {
    {"topk_selector", "first", {.from = -2, .below = 3}, NULL, NULL},
    {"topk_selector", "end", {.from = -3, .below = 2}, "N", "N"},
    {"rope_halves", "pos", {.from = 0, .below = 4096}, NULL, NULL},
    {"rope_interleaved", "pos", {.from = 0, .below = 4096}, NULL, NULL},
    {"fused_linear_cross_entropy_gradients", "t", {.from = 0, .has_other = true, .other = -100}, NULL, "V"},
    {"fused_linear_cross_entropy", "t", {.from = 0, .has_other = true, .other = -100}, NULL, "V"},
    {"cross_entropy", "t", {.from = 0, .has_other = true, .other = -100}, NULL, "V"},
    /* A scale of a block multiplies its sum: 0 times infinity is in the notation's terms alone. */
    {"linear_fp8_block", "sx", {.from = 1, .below = 9}, NULL, NULL},
    {"linear_fp8_block", "sw", {.from = 1, .below = 9}, NULL, NULL},
};

static const struct {
  const char *operator, * attributes;
} ATTRIBUTES[] = {
    {"layernorm", "eps=0.25"},
    {"rmsnorm", "eps=0"},
    {"rope_halves", "base=500000"},
    {"rope_interleaved", "base=500000"},
    {"scatter", "deterministic=true"},
    {"scatter_add", "deterministic=true"},
    {"cross_entropy", "label_smoothing=0.1"},
    {"flash_attention", "causal=true"},
    {"flash_attention", "left=3 right=2 softcap=2.5"},
    {"grouped_query_attention", "causal=true"},
    {"attention_backward", "causal=true base2=true"},
    {"attention_backward", "left=3 right=2 softcap=2.5"},
    {"varlen_attention_backward", "causal=true softcap=2.5"},
    {"varlen_attention", "causal=true"},
    {"paged_attention", "causal=true"},
    {"sparse_attention", "causal=true first=30"},
    {"sparse_latent_attention", "causal=true first=12"},
    {"paged_varlen_attention", "causal=true left=3"},
    {"varlen_rope_attention", "interleaved=true"},
    {"fused_linear_cross_entropy", "label_smoothing=0.1"},
};

int operator_case_count(void) {
  return ir_catalogue_count() + (int)COUNT_OF(MEMBERS);
}

const char *operator_case_name(int i) {
  return i < ir_catalogue_count() ? ir_catalogue_get(i)->name : MEMBERS[i - ir_catalogue_count()];
}

const operator_shapes *operator_case_shapes(const ir_catalogue_entry *entry) {
  size_t length = strcspn(entry->name, ":");
  for (size_t i = 0; i < COUNT_OF(SHAPES); i++) {
    const operator_shapes *s = &SHAPES[i];
    if (s->operator!= NULL ? strncmp(s->operator, entry->name, length) != 0 || s->operator[length] != '\0'
                           : strcmp(s->family, entry->family) != 0)
      continue;
    if (s->axes == NULL || strcmp(s->axes, entry->shape_axes) == 0) return s;
  }
  return NULL;
}

const char *operator_case_attributes(const ir_catalogue_entry *entry, int i) {
  for (size_t k = 0; k < COUNT_OF(ATTRIBUTES); k++)
    if (strcmp(ATTRIBUTES[k].operator, entry->name) == 0 && i-- == 0) return ATTRIBUTES[k].attributes;
  return NULL;
}

static int64_t size_of(const ir_problem *p, const char *axis) {
  for (int i = 0; axis != NULL && i < p->op->n_axes; i++)
    if (strcmp(p->op->axes[i], axis) == 0) return p->sizes[i];
  return 0;
}

operator_range operator_case_range(const ir_problem *p, const ir_catalogue_entry *entry, int input) {
  for (size_t i = 0; i < COUNT_OF(RANGES); i++) {
    if (strcmp(RANGES[i].operator, entry->name) != 0 ||
        strcmp(RANGES[i].input, p->op->tensors[input].name) != 0)
      continue;
    operator_range r = RANGES[i].range;
    r.from += size_of(p, RANGES[i].from_axis);
    r.below += size_of(p, RANGES[i].below_axis);
    return r;
  }
  return (operator_range){.from = 0};
}
