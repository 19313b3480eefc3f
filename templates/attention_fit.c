/* What the template can do with an operator. */
#include "generator/gen_tma.h"
#include "templates/attention.h"

enum { BLOCK_COLUMNS = 8, DEPTH_OF_COMPUTED = 16, ALIGNED_BYTES = 16 };
enum {
  MOST_DEPTH = 576,
  MOST_NARROW_DEPTH = ATTENTION_RUN_COLUMNS * ATTENTION_SCORE_RUNS,
  MOST_COLUMNS = 512
};

static bool is_narrow(dtype t) {
  return t == DTYPE_E4M3 || t == DTYPE_E5M2;
}

static dtype type_of(const attention_match *m, int access) {
  return ir_tensor_dtype(m->form.problem, m->form.accesses[access].tensor);
}

bool attention_has_narrow_queries(const attention_match *m) {
  return is_narrow(type_of(m, m->parts[0].q));
}

bool attention_has_narrow_keys(const attention_match *m) {
  return is_narrow(type_of(m, m->parts[0].k.access));
}

bool attention_has_narrow_values(const attention_match *m) {
  return is_narrow(type_of(m, m->v.access));
}

bool attention_values_are_keys(const attention_match *m, const attention_part *part) {
  return !attention_has_narrow_queries(m) && attention_has_values(m, part) &&
         ir_form_extent(&m->form, m->wide) <= ir_form_extent(&m->form, part->depth);
}

/* The first panels of a tile are those of values, if values are keys. */
const attention_part *attention_first_part(const attention_match *m) {
  bool second = m->n_parts > 1 && attention_values_are_keys(m, &m->parts[1]) &&
                !attention_values_are_keys(m, &m->parts[0]);
  return &m->parts[second];
}

/* What the match takes and this template does not. */
static template_reason fit_form(const attention_match *m, strbuf *detail) {
  const char *why = NULL;
  const attention_read *v = &m->v;
  bool gathered = v->keys == ATTENTION_KEYS_ANY;
  for (int i = 0; i < m->n_parts; i++)
    if ((m->parts[i].k.keys == ATTENTION_KEYS_ANY) != gathered || m->parts[i].k.page != v->page)
      why = "keys and values at gathered places where not both are, or in pages of unlike sizes";
  if (gathered && m->groups.of) why = "keys and values of packed requests at gathered places";
  if (m->n_parts > 1 && v->page && !attention_same_pages(m))
    why = "scores of two products with keys in pages of different tables";
  if (m->n_scales > 0) why = "values with factors";
  for (int i = 0; i < m->bounds.n_conditions; i++) {
    bool shared = !(ir_form_free(&m->form, m->bounds.conditions[i]) >> m->query & 1);
    if (!gathered || !shared) why = "keys that are seen by other conditions than bounds of their indices";
  }
  for (int i = 0; i < m->n_parts; i++)
    if (m->form.accesses[m->parts[i].q].n > GEN_TMA_MAX_RANK ||
        m->form.accesses[m->parts[i].k.access].n > GEN_TMA_MAX_RANK)
      why = "tensors of more than 5 axes";
  if (m->form.accesses[m->v.access].n > GEN_TMA_MAX_RANK) why = "tensors of more than 5 axes";
  if (attention_makes_queries(m) && (m->n_parts > 1 || gathered))
    why = "computed queries with two products, or keys at gathered places";
  if (gathered && (attention_has_narrow_keys(m) || attention_has_narrow_values(m)))
    why = "keys and values of 8 bits at gathered places";
  if (!why) return TEMPLATE_OK;
  template_say(detail, "the attention template does not take %s", why);
  return TEMPLATE_OPERATOR;
}

static template_reason fit_sizes(const attention_match *m, strbuf *detail) {
  const ir_problem *p = m->form.problem;
  for (int l = 0; l < m->form.n_loops; l++) {
    int64_t n = ir_form_extent(&m->form, l);
    if (n >= 1 && n <= ATTENTION_MOST_EXTENT) continue;
    template_say(detail, "an axis (%s) has %lld elements; the attention template takes 1 to %d",
                 m->form.loops[l].name, (long long)n, ATTENTION_MOST_EXTENT);
    return TEMPLATE_SIZE;
  }
  if (!attention_shares_divide(p, &m->bounds)) {
    template_say(detail, "the query heads are not a multiple of those of keys and values");
    return TEMPLATE_SIZE;
  }
  int64_t depth = 0, wide = ir_form_extent(&m->form, m->wide);
  for (int i = 0; i < m->n_parts; i++) depth += ir_form_extent(&m->form, m->parts[i].depth);
  int most = attention_has_narrow_queries(m) ? MOST_NARROW_DEPTH : MOST_DEPTH;
  int of_key = attention_has_narrow_keys(m) ? 1 : 2, of_value = attention_has_narrow_values(m) ? 1 : 2;
  int aligned = ALIGNED_BYTES / of_key, panel = ATTENTION_PANEL_BYTES / of_key;
  if (depth > most || wide > MOST_COLUMNS) {
    template_say(detail, "heads of %lld and %lld elements; the attention template takes up to %d and %d",
                 (long long)depth, (long long)wide, most, MOST_COLUMNS);
    return TEMPLATE_SIZE;
  }
  if (wide > ATTENTION_HALVES_FROM && wide % 128) {
    template_say(detail,
                 "values of %lld elements; of more than %d the attention template takes multiples of 128",
                 (long long)wide, ATTENTION_HALVES_FROM);
    return TEMPLATE_ALIGNMENT;
  }
  bool is_aligned = wide % (ALIGNED_BYTES / of_value) == 0;
  for (int i = 0; i < m->n_parts; i++)
    is_aligned = is_aligned && ir_form_extent(&m->form, m->parts[i].depth) % aligned == 0;
  if (!is_aligned) {
    template_say(detail,
                 "heads of %lld and %lld elements; the attention template takes multiples of %d and %d",
                 (long long)depth, (long long)wide, aligned, ALIGNED_BYTES / of_value);
    return TEMPLATE_ALIGNMENT;
  }
  int64_t first = ir_form_extent(&m->form, attention_first_part(m)->depth);
  if (m->n_parts > 1 && first % panel) {
    template_say(detail,
                 "scores of two products; the attention template takes the one whose keys are values, or the "
                 "first one, of multiples of %d elements, but here it has %lld",
                 panel, (long long)first);
    return TEMPLATE_ALIGNMENT;
  }
  return TEMPLATE_OK;
}

static template_reason fit_computed(const attention_match *m, strbuf *detail) {
  if (!attention_makes_queries(m)) return TEMPLATE_OK;
  if (ir_cast_dtype(m->form.problem, m->parts[0].made) != m->type) {
    template_say(detail, "queries are computed as another type than weights are");
    return TEMPLATE_DTYPE;
  }
  if (ir_form_extent(&m->form, m->wide) > ATTENTION_HALVES_FROM) {
    template_say(detail, "the attention template does not compute queries where values are wide");
    return TEMPLATE_SIZE;
  }
  if (attention_block_columns(m) % BLOCK_COLUMNS == 0 &&
      ir_form_extent(&m->form, m->parts[0].depth) % DEPTH_OF_COMPUTED == 0)
    return TEMPLATE_OK;
  template_say(detail, "the attention template computes queries of multiples of %d elements, by %d",
               DEPTH_OF_COMPUTED, BLOCK_COLUMNS);
  return TEMPLATE_ALIGNMENT;
}

/* Weights have 16 bits, and so have queries, but for those of 8 bits whose keys have as many. Keys and values
 * are of the same type as what they are multiplied with, or of 8 bits, which that holds exactly. */
static bool types_fit(const attention_match *m) {
  dtype q = type_of(m, m->parts[0].q), k = type_of(m, m->parts[0].k.access), v = type_of(m, m->v.access);
  bool wide = q == DTYPE_BF16 || q == DTYPE_F16;
  bool fits = (m->type == DTYPE_BF16 || m->type == DTYPE_F16) && (v == m->type || is_narrow(v));
  fits =
      fits && (wide ? k == q || is_narrow(k) : is_narrow(q) && is_narrow(k) && !attention_makes_queries(m));
  if (attention_values_are_keys(m, attention_first_part(m))) fits = fits && q == m->type;
  for (int i = 0; i < m->n_parts; i++)
    fits = fits && type_of(m, m->parts[i].q) == q && type_of(m, m->parts[i].k.access) == k;
  return fits;
}

/* Once: a search makes plans by the ten thousand. */
static void find_wide(attention_match *m) {
  m->wide_offsets = lanes_need_wide_offsets(&m->form);
  lanes_options o = {.loop = m->wide, .width = 2, .wide_offsets = m->wide_offsets};
  m->wide_pairs = lanes_wide(&m->form, &o);
  o.width = ATTENTION_COMBINE_WIDTH;
  m->wide_runs = lanes_wide(&m->form, &o);
}

template_reason attention_fit(const ir_problem *p, const target *t, arena *a, attention_match *m,
                              strbuf *detail, arke_status *status) {
  template_reason reason = attention_match_op(p, a, m, detail, status);
  if (reason != TEMPLATE_OK) return reason;
  if (!t->has.tma || !t->has.wgmma || !t->has.setmaxnreg) {
    template_say(detail, "%s has no warp-group matrix unit with tensor copies", t->name);
    return TEMPLATE_TARGET;
  }
  reason = fit_form(m, detail);
  if (reason != TEMPLATE_OK) return reason;
  if (!types_fit(m)) {
    template_say(
        detail,
        "the attention template takes bf16 or f16, the same for Q, K, V and what weights are cast to, "
        "or 8-bit floats and weights of f16");
    return TEMPLATE_DTYPE;
  }
  reason = fit_sizes(m, detail);
  if (reason == TEMPLATE_OK) reason = fit_computed(m, detail);
  if (reason == TEMPLATE_OK) find_wide(m);
  return reason;
}
