/* Products of one step along K: by multiply-add, or by matrix instructions.
 *
 * The fragments of mma.m16n8k16 want rows g and g + 8 of weights, token g, and elements 2t, 2t + 1, 2t + 8,
 * 2t + 9 along K of lane 4g + t. Any order of K is as good as long as both operands have the same one, so a
 * lane's four neighbours along K stand for those; and any order of rows, so a lane's slots 2i and 2i + 1 are
 * its two rows. Thus fragments are what wide loads bring, and nothing moves between lanes. */
#include "generator/gen_bits.h"
#include "generator/gen_math.h"
#include "generator/gen_memory.h"
#include "generator/gen_mma.h"
#include "generator/gen_warp.h"
#include "templates/skinny_emit.h"

enum { MOST_TOKENS = 16, MOST_SLOTS = 16 };

/* One step along K. */
typedef struct step {
  skinny_emitter *e;
  const skinny_batch *batch;
  int u;
  gen_value first, k, active; /* the lane's first element along K; clamped; i1: it is inside */
} step;

static gen_value zero_of(gen_builder *b, gen_type type) {
  if (type == GEN_I32) return gen_i32(b, 0);
  if (type == GEN_I64) return gen_i64(b, 0);
  return gen_float_cast(b, gen_f32(b, 0), type);
}

/* The words of a vector of an operand, zeros where it is not inside. */
static void words_of(const step *s, int operand, int position, gen_value *words) {
  int at = skinny_words_at(s->e, operand, s->u, position), n = skinny_words_of(s->e->m, s->e->p, operand);
  gen_value zero = gen_i32(s->e->b, 0);
  for (int i = 0; i < n; i++) words[i] = gen_select(s->e->b, s->active, s->batch->words[at + i], zero);
}

static unsigned fast_factors(const skinny_match *m, int operand) {
  return ~m->operands[operand].slow;
}

/* The values of some of its factors, `n` or one; what is computed of zeros need not be zero. */
static arke_status values_of(const step *s, int operand, unsigned factors, int position, gen_value *values,
                             int *n, arke_error *err) {
  skinny_emitter *e = s->e;
  gen_value words[SKINNY_READS * LANES_MAX * 2];
  words_of(s, operand, position, words);
  TRY(skinny_values(e, operand, factors, position, s->k, words, values, n, err));
  bool plain = e->m->operands[operand].plain >= 0 && factors == fast_factors(e->m, operand);
  if (plain || e->m->c.operands[operand].access >= 0) return ARKE_OK;
  gen_value zero = zero_of(e->b, skinny_sum_type(e->m));
  for (int i = 0; i < *n; i++) values[i] = gen_select(e->b, s->active, values[i], zero);
  return ARKE_OK;
}

/* --- by multiply-add --- */

typedef struct token_values {
  gen_value at[CONTRACTION_OPERANDS][MOST_TOKENS][LANES_MAX]; /* by operand, token, element along K */
} token_values;

static gen_value multiply_add(gen_builder *b, gen_value x, gen_value y, gen_value sum) {
  return gen_is_float(b, sum) ? gen_fma(b, x, y, sum) : gen_add(b, gen_mul(b, x, y), sum);
}

static int token_operand(const skinny_match *m, const contraction_sum *s) {
  return skinny_is_token(m, s->a) ? s->a : s->b;
}

static int weight_operand(const skinny_match *m, const contraction_sum *s) {
  return skinny_is_token(m, s->a) ? s->b : s->a;
}

static arke_status unpack_tokens(const step *s, token_values *t, arke_error *err) {
  const skinny_match *m = s->e->m;
  const skinny_plan *p = s->e->p;
  for (int i = 0; i < m->c.n_operands; i++) {
    for (int x = 0; skinny_is_token(m, i) && x < p->tokens; x++) {
      gen_value *at = t->at[i][x];
      int n;
      TRY(values_of(s, i, ~0u, x, at, &n, err));
      for (int k = n; k < p->step; k++) at[k] = at[0];
    }
  }
  return ARKE_OK;
}

/* A vector of weights, several elements along K of one slot or one of several slots, meets all tokens. */
static void add_products(const step *s, const token_values *t, int operand, int position,
                         const gen_value *weights, int n) {
  skinny_emitter *e = s->e;
  const skinny_plan *p = e->p;
  int groups = p->slots / p->group;
  for (int i = 0; i < e->m->c.n_sums; i++) {
    const contraction_sum *sum = &e->m->c.sums[i];
    if (weight_operand(e->m, sum) != operand) continue;
    for (int x = 0; x < p->tokens; x++) {
      const gen_value *tokens = t->at[token_operand(e->m, sum)][x];
      gen_value *sums = e->sums + (i * p->tokens + x) * p->slots;
      for (int v = 0; v < p->vector; v++) {
        int slot = e->m->along_rows ? position % groups * p->group + v : position;
        int k = e->m->along_rows ? position / groups : v;
        sums[slot] = multiply_add(e->b, weights[n == 1 ? 0 : v], tokens[k], sums[slot]);
      }
    }
  }
}

static arke_status multiply_add_step(const step *s, arke_error *err) {
  skinny_emitter *e = s->e;
  token_values *t = ARENA_NEW(e->k->a, token_values);
  if (!t) return error_memory(err, "generate");
  TRY(unpack_tokens(s, t, err));
  for (int i = 0; i < e->m->c.n_operands; i++) {
    for (int x = 0; !skinny_is_token(e->m, i) && x < e->p->weight_positions; x++) {
      gen_value weights[LANES_MAX];
      int n;
      TRY(values_of(s, i, ~0u, x, weights, &n, err));
      add_products(s, t, i, x, weights, n);
    }
  }
  return ARKE_OK;
}

/* --- by matrix instructions --- */

/* Two neighbours along K in a word, for each two of `step`. */
typedef struct fragments {
  gen_value at[CONTRACTION_OPERANDS][MOST_TOKENS / 2][LANES_MAX / 2]; /* tokens: by operand and position */
  gen_value weights[MOST_SLOTS][LANES_MAX / 2];                       /* of one operand: by slot */
} fragments;

/* Whether words as they are loaded hold what the instruction takes; *at: the first of them. */
static bool is_plain(const skinny_emitter *e, int operand, int *at) {
  const skinny_match *m = e->m;
  const skinny_operand *o = &m->operands[operand];
  *at = 0;
  if (o->plain < 0 || o->exact != m->matrix || o->reads[o->plain].period != 1) return false;
  for (int r = 0; r < o->plain; r++) {
    dtype type = ir_tensor_dtype(m->c.form.problem, m->c.form.accesses[o->reads[r].access].tensor);
    *at += gen_packed_words(type, skinny_elements(m, e->p, operand, &o->reads[r]));
  }
  return true;
}

static void plain_words(const step *s, int operand, int position, int at, int n, gen_value *words) {
  gen_value all[SKINNY_READS * LANES_MAX * 2];
  words_of(s, operand, position, all);
  for (int i = 0; i < n; i++) words[i] = all[at + i];
}

/* Of a vector along K. */
static arke_status pack_along_k(const step *s, int operand, int position, gen_value *pairs, arke_error *err) {
  skinny_emitter *e = s->e;
  gen_value values[LANES_MAX];
  int n, at;
  if (is_plain(e, operand, &at)) {
    plain_words(s, operand, position, at, e->p->step / 2, pairs);
    return ARKE_OK;
  }
  TRY(values_of(s, operand, fast_factors(e->m, operand), position, values, &n, err));
  for (int i = 0; i < e->p->step; i += 2)
    pairs[i / 2] = gen_pack_halves(e->b, e->m->matrix, values[n == 1 ? 0 : i], values[n == 1 ? 0 : i + 1]);
  return ARKE_OK;
}

/* Of vectors along rows, neighbours along K being different vectors. */
static arke_status pack_along_rows(const step *s, int operand, fragments *f, arke_error *err) {
  skinny_emitter *e = s->e;
  const skinny_plan *p = e->p;
  gen_builder *b = e->b;
  int groups = p->slots / p->group;
  for (int k = 0; k < p->step; k += 2) {
    for (int g = 0; g < groups; g++) {
      gen_value both[2][LANES_MAX];
      int n = 1, from;
      bool plain = is_plain(e, operand, &from) && p->group > 1;
      for (int i = 0; i < 2; i++) {
        int position = (k + i) * groups + g;
        if (plain) {
          plain_words(s, operand, position, from, p->group / 2, both[i]);
        } else {
          TRY(values_of(s, operand, fast_factors(e->m, operand), position, both[i], &n, err));
        }
      }
      for (int v = 0; v < p->group; v++) {
        gen_value *pair = &f->weights[g * p->group + v][k / 2];
        int at = n == 1 ? 0 : v;
        *pair =
            plain ? gen_permute_bytes(b, both[0][v / 2], both[1][v / 2], gen_i32(b, v % 2 ? 0x7632 : 0x5410))
                  : gen_pack_halves(b, e->m->matrix, both[0][at], both[1][at]);
      }
    }
  }
  return ARKE_OK;
}

/* Whether some lane of the warp takes an element inside along K. */
static gen_value some_inside(const step *s) {
  skinny_emitter *e = s->e;
  gen_value own = skinny_as_index(e, gen_mul_imm(e->b, e->deep, e->p->step));
  return gen_compare(e->b, GEN_ULT, gen_sub(e->b, s->first, own), e->k_end);
}

/* The scale of a group, at one vector of an operand: as many as it has lanes, or one. Where nothing is inside
 * it is 0; but a lane that is outside has sums of what lanes beside it multiply. */
static arke_status scales_at(const step *s, int operand, int position, gen_value *values, int *n,
                             arke_error *err) {
  skinny_emitter *e = s->e;
  const gen_value *words = s->batch->words + skinny_words_at(e, operand, s->u, position);
  TRY(skinny_values(e, operand, e->m->operands[operand].slow, position, s->k, words, values, n, err));
  gen_value some = some_inside(s);
  for (int i = 0; i < *n; i++) values[i] = gen_select(e->b, some, values[i], gen_f32(e->b, 0));
  return ARKE_OK;
}

/* By slot. */
static arke_status weight_scales(const step *s, int operand, gen_value *scales, arke_error *err) {
  const skinny_plan *p = s->e->p;
  for (int slot = 0; slot < p->slots; slot += p->group) {
    gen_value values[LANES_MAX];
    int n;
    TRY(scales_at(s, operand, slot / p->group, values, &n, err));
    for (int v = 0; v < p->group; v++) scales[slot + v] = values[n == 1 || !s->e->m->along_rows ? 0 : v];
  }
  return ARKE_OK;
}

/* By position, of the two tokens that a lane has sums of; each lane has loaded another one's. */
static arke_status token_scales(const step *s, int operand, gen_value (*scales)[2], arke_error *err) {
  skinny_emitter *e = s->e;
  gen_builder *b = e->b;
  for (int x = 0; x < e->p->token_positions; x++) {
    gen_value values[LANES_MAX];
    int n;
    TRY(scales_at(s, operand, x, values, &n, err));
    for (int i = 0; i < 2; i++) {
      gen_value token = gen_add_imm(b, gen_mul_imm(b, e->deep, 2), i);
      scales[x][i] = gen_shuffle_idx(b, values[0], gen_mul_imm(b, token, e->p->deep), 32);
    }
  }
  return ARKE_OK;
}

static void multiply_pair(const step *s, const fragments *f, int pair, const gen_value *tokens,
                          gen_value *sums) {
  gen_mma_type type = s->e->m->matrix == DTYPE_F16 ? GEN_MMA_F16 : GEN_MMA_BF16;
  const gen_value *low = f->weights[2 * pair], *high = f->weights[2 * pair + 1];
  for (int k = 0; k < s->e->p->step / 2; k += 2) {
    gen_value a[4] = {low[k], high[k], low[k + 1], high[k + 1]};
    gen_mma(s->e->b, type, type, a, tokens + k, sums);
  }
}

/* Adds products of the warp's step, by their scales. */
static arke_status multiply_scaled(const step *s, const fragments *f, int sum, int operand, int tokens,
                                   arke_error *err) {
  skinny_emitter *e = s->e;
  const skinny_plan *p = e->p;
  gen_builder *b = e->b;
  gen_value rows[MOST_SLOTS], columns[MOST_TOKENS][2], zero = gen_f32(b, 0);
  bool by_row = e->m->operands[operand].slow, by_column = e->m->operands[tokens].slow;
  if (by_row) TRY(weight_scales(s, operand, rows, err));
  if (by_column) TRY(token_scales(s, tokens, columns, err));
  for (int pair = 0; pair < p->slots / 2; pair++) {
    for (int x = 0; x < p->token_positions; x++) {
      gen_value *sums = e->sums + 4 * ((sum * p->slots / 2 + pair) * p->token_positions + x);
      gen_value own[4] = {zero, zero, zero, zero};
      multiply_pair(s, f, pair, f->at[tokens][x], own);
      for (int k = 0; k < 4; k++) {
        gen_value row = by_row ? rows[2 * pair + k / 2] : NULL, column = by_column ? columns[x][k % 2] : NULL;
        gen_value scale = row && column ? gen_fmul(b, row, column) : row ? row : column;
        sums[k] = gen_fma(b, scale, own[k], sums[k]);
      }
    }
  }
  return ARKE_OK;
}

static arke_status multiply_fragments(const step *s, const fragments *f, int operand, arke_error *err) {
  skinny_emitter *e = s->e;
  const skinny_plan *p = e->p;
  for (int i = 0; i < e->m->c.n_sums; i++) {
    const contraction_sum *sum = &e->m->c.sums[i];
    if (weight_operand(e->m, sum) != operand) continue;
    int tokens = token_operand(e->m, sum);
    if (e->m->operands[operand].slow || e->m->operands[tokens].slow) {
      TRY(multiply_scaled(s, f, i, operand, tokens, err));
      continue;
    }
    for (int pair = 0; pair < p->slots / 2; pair++) {
      for (int x = 0; x < p->token_positions; x++)
        multiply_pair(s, f, pair, f->at[tokens][x],
                      e->sums + 4 * ((i * p->slots / 2 + pair) * p->token_positions + x));
    }
  }
  return ARKE_OK;
}

static arke_status matrix_step(const step *s, arke_error *err) {
  skinny_emitter *e = s->e;
  const skinny_plan *p = e->p;
  fragments *f = ARENA_NEW(e->k->a, fragments);
  if (!f) return error_memory(err, "generate");
  for (int i = 0; i < e->m->c.n_operands; i++) {
    for (int x = 0; skinny_is_token(e->m, i) && x < p->token_positions; x++)
      TRY(pack_along_k(s, i, x, f->at[i][x], err));
  }
  for (int i = 0; i < e->m->c.n_operands; i++) {
    if (skinny_is_token(e->m, i)) continue;
    if (e->m->along_rows) TRY(pack_along_rows(s, i, f, err));
    for (int slot = 0; !e->m->along_rows && slot < p->slots; slot++)
      TRY(pack_along_k(s, i, slot, f->weights[slot], err));
    TRY(multiply_fragments(s, f, i, err));
  }
  return ARKE_OK;
}

/* --- the whole --- */

arke_status skinny_multiply(skinny_emitter *e, gen_value k, const skinny_batch *batch, arke_error *err) {
  gen_builder *b = e->b;
  gen_value last = gen_sub(b, e->k_end, skinny_index(e, e->p->step));
  for (int u = 0; u < e->p->unroll; u++) {
    gen_value first = skinny_k_of(e, k, u);
    step s = {.e = e,
              .batch = batch,
              .u = u,
              .first = first,
              .k = gen_umin(b, first, last),
              .active = gen_compare(b, GEN_ULT, first, e->k_end)};
    TRY(e->p->mma ? matrix_step(&s, err) : multiply_add_step(&s, err));
  }
  return ARKE_OK;
}
