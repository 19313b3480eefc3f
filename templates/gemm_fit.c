/* Which contractions the template computes: those whose operands tensor copies can bring. */
#include <stdarg.h>

#include "templates/copy_start.h"
#include "templates/gemm.h"

typedef struct fitting {
  gemm_match *match;
  strbuf *detail;
} fitting;

static template_reason refuse(const fitting *f, template_reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static template_reason refuse(const fitting *f, template_reason reason, const char *format, ...) {
  if (f->detail) {
    va_list args;
    va_start(args, format);
    strbuf_vaddf(f->detail, format, args);
    va_end(args);
  }
  return reason;
}

static const char *tensor_name(const gemm_match *match, int access) {
  const ir_form *form = &match->c->form;
  return form->problem->op->tensors[form->accesses[access].tensor].name;
}

int64_t gemm_extent(const gemm_match *match, int loop) {
  return ir_form_extent(&match->c->form, loop);
}

int64_t gemm_k_parts(const gemm_match *match) {
  return contraction_extent(match->c, &match->k_outer);
}

/* --- roles --- */

int gemm_read(const contraction *c, int operand) {
  const contraction_operand *o = &c->operands[operand];
  if (o->element >= 0) return o->element;
  int factor = gemm_element_factor(c, operand);
  const ir_expr *e = factor < 0 ? NULL : o->factors[factor];
  return !e || e->node != IR_READ || c->form.accesses[e->id].other ? -1 : e->id;
}

/* Of several loops of terms that along which an operand is contiguous. */
static int loop_of_terms(const contraction *c) {
  for (int i = 0; i < c->n_operands && c->k.n > 1; i++) {
    int read = gemm_read(c, i);
    if (read < 0 || c->form.accesses[read].n == 0) continue;
    const ir_expr *last = c->form.accesses[read].subscripts[c->form.accesses[read].n - 1].e;
    if (last->node == IR_INDEX && c->k.set >> last->id & 1) return last->id;
  }
  return c->k.loops[c->k.n - 1];
}

/* The innermost loop of each side runs along a tile; all others have one value in it. */
static bool take_loops(fitting *f) {
  gemm_match *match = f->match;
  const contraction *c = match->c;
  if (c->m.n == 0 || c->n.n == 0) return false;
  match->m = c->m.loops[c->m.n - 1];
  match->n = c->n.loops[c->n.n - 1];
  match->k = loop_of_terms(c);
  match->k_outer = (contraction_loops){.set = c->k.set & ~(1u << match->k)};
  for (int i = 0; i < c->k.n; i++)
    if (c->k.loops[i] != match->k) match->k_outer.loops[match->k_outer.n++] = c->k.loops[i];
  unsigned outer = (c->batch.set | c->m.set | c->n.set) & ~(1u << match->m | 1u << match->n);
  const ir_access *y = &c->form.accesses[c->form.outputs[0].access];
  match->outer = (contraction_loops){.set = outer};
  unsigned left = outer;
  for (int s = 0; s < y->n; s++) {
    const ir_expr *e = y->subscripts[s].e;
    if (e->node != IR_INDEX || !(left >> e->id & 1)) continue;
    match->outer.loops[match->outer.n++] = e->id;
    left &= ~(1u << e->id);
  }
  /* Those of gathered places. */
  for (int l = 0; l < c->form.n_loops; l++)
    if (left >> l & 1) match->outer.loops[match->outer.n++] = l;
  return true;
}

static void swap_roles(gemm_match *match) {
  int m = match->m;
  dtype a = match->type.a;
  match->m = match->n;
  match->n = m;
  match->type.a = match->type.b;
  match->type.b = a;
}

/* All sums share an operand, which is A; where that is the contraction's B, rows and columns change places.
 */
static bool take_operands(fitting *f, int *a, int b[CONTRACTION_SUMS]) {
  gemm_match *match = f->match;
  const contraction *c = match->c;
  bool same_a = true, same_b = true;
  match->n_sums = c->n_sums;
  for (int i = 0; i < c->n_sums; i++) {
    same_a = same_a && c->sums[i].a == c->sums[0].a;
    same_b = same_b && c->sums[i].b == c->sums[0].b;
  }
  if (!same_a && !same_b) return false;
  if (!same_a) swap_roles(match);
  match->operand_a = same_a ? c->sums[0].a : c->sums[0].b;
  *a = gemm_read(c, match->operand_a);
  for (int i = 0; i < c->n_sums; i++) {
    match->operand_b[i] = same_a ? c->sums[i].b : c->sums[i].a;
    b[i] = gemm_read(c, match->operand_b[i]);
  }
  return true;
}

/* --- views --- */

/* Whether e, which depends on the loop, is it plus what does not depend on `fixed`. */
static bool is_shifted(const ir_form *form, const ir_expr *e, int loop, unsigned fixed) {
  if (e->node == IR_INDEX) return e->id == loop;
  if (e->node != IR_OPERATOR || (e->id != IR_OP_ADD && e->id != IR_OP_SUB)) return false;
  bool first = ir_form_free(form, e->args[0]) >> loop & 1,
       second = ir_form_free(form, e->args[1]) >> loop & 1;
  if ((first && second) || (second && e->id == IR_OP_SUB)) return false;
  const ir_expr *moving = e->args[second ? 1 : 0], *other = e->args[second ? 0 : 1];
  return !(ir_form_free(form, other) & fixed) && is_shifted(form, moving, loop, fixed);
}

/* Dimensions of a map over an access with the two loops of a tile: `row`, which may be shifted, and `column`,
 * which lies as it is. *row_contiguous: which of them is contiguous. */
static bool make_view(const fitting *f, int access, int row, int column, bool row_plain, gemm_view *view,
                      bool *row_contiguous) {
  const ir_form *form = &f->match->c->form;
  const ir_access *x = &form->accesses[access];
  unsigned tile = gemm_tile_loops(f->match), terms = f->match->k_outer.set;
  int row_at = -1, column_at = -1;
  *view = (gemm_view){.access = access};
  if (x->n > GEMM_MAP_RANK) return false;
  for (int s = 0; s < x->n; s++) {
    const ir_expr *e = x->subscripts[s].e;
    unsigned loops = e == f->match->c->groups.of ? 0 : ir_form_free(form, e); /* one value in a tile */
    view->computed = view->computed || e->node != IR_INDEX;
    if (loops & terms && e->node != IR_INDEX) return false;
    if (!(loops & tile)) continue;
    bool is_row = loops >> row & 1;
    int loop = is_row ? row : column, *at = is_row ? &row_at : &column_at;
    if (*at >= 0 || !is_shifted(form, e, loop, tile)) return false;
    if (e->node != IR_INDEX && (!is_row || row_plain)) return false;
    *at = s;
  }
  if (row_at < 0 || column_at < 0) return false;
  int last = x->n - 1;
  if (last != row_at && last != column_at) return false;
  *row_contiguous = last == row_at;
  view->subscript[view->rank++] = last;
  view->subscript[view->rank++] = *row_contiguous ? column_at : row_at;
  for (int s = last; s >= 0; s--)
    if (s != row_at && s != column_at) view->subscript[view->rank++] = s;
  return true;
}

static bool has_several_dimensions(const ir_access *x) {
  for (int s = 0; s < x->n; s++)
    if (x->subscripts[s].count > 1 || x->subscripts[s].leading) return true;
  return false;
}

/* A's rows where an index tensor says: copied by threads, along contiguous terms. */
static bool make_gathered(const fitting *f, int access, gemm_view *view) {
  const gemm_match *match = f->match;
  const ir_form *form = &match->c->form;
  const ir_access *x = &form->accesses[access];
  int last = x->n - 1;
  *view = (gemm_view){.access = access, .computed = true};
  if (x->n < 2 || x->n > GEMM_MAP_RANK || x->other || match->k_outer.n > 0) return false;
  if (x->subscripts[last].e->node != IR_INDEX || x->subscripts[last].e->id != match->k) return false;
  for (int s = last; s >= 0; s--) {
    unsigned loops = ir_form_free(form, x->subscripts[s].e);
    if (s < last && loops >> match->k & 1) return false;
    if (x->subscripts[s].e != match->c->groups.of && loops >> match->n & 1) return false;
    view->subscript[view->rank++] = s;
  }
  return true;
}

static template_reason take_views(fitting *f) {
  gemm_match *match = f->match;
  int a = -1, b[CONTRACTION_SUMS];
  bool row_contiguous;
  if (!take_operands(f, &a, b))
    return refuse(f, TEMPLATE_OPERATOR, "sums of products share neither rows nor columns");
  bool mapped = make_view(f, a, match->m, match->k, false, &match->a, &row_contiguous);
  match->gathered = !mapped && make_gathered(f, a, &match->a);
  if (!mapped && !match->gathered)
    return refuse(f, TEMPLATE_OPERATOR, "tensor copies cannot address %s as it is read",
                  tensor_name(match, a));
  match->a_k_major = match->gathered || !row_contiguous;
  for (int i = 0; i < match->n_sums; i++) {
    if (!make_view(f, b[i], match->n, match->k, false, &match->b[i], &row_contiguous))
      return refuse(f, TEMPLATE_OPERATOR, "tensor copies cannot address %s as it is read",
                    tensor_name(match, b[i]));
    if (i > 0 && match->b_k_major == row_contiguous)
      return refuse(f, TEMPLATE_OPERATOR, "operands of two sums lie in different orders");
    match->b_k_major = !row_contiguous;
  }
  return TEMPLATE_OK;
}

/* --- alignment --- */

/* Bytes from one index to the next of a subscript, without gaps. */
static int64_t stride_bytes(const ir_form *form, const ir_access *x, int s) {
  int64_t shape[LIMIT_RANK], stride = 1;
  int rank = ir_tensor_shape(form->problem, x->tensor, shape);
  int behind = form->problem->op->tensors[x->tensor].rank - x->subscripts[s].first - x->subscripts[s].count;
  for (int d = rank - behind; d < rank; d++) stride *= shape[d];
  return dtype_bytes(ir_tensor_dtype(form->problem, x->tensor), stride);
}

/* The copy unit takes pitches that are multiples of 16 bytes, and begins at such. */
static bool is_aligned(const gemm_match *match, const gemm_view *view) {
  const ir_form *form = &match->c->form;
  for (int i = 1; i < view->rank; i++)
    if (stride_bytes(form, &form->accesses[view->access], view->subscript[i]) % 16) return false;
  return copy_start_fits(form, view->access, gemm_tile_loops(match));
}

static template_reason check_alignment(const fitting *f, const gemm_view *view) {
  const gemm_match *match = f->match;
  const ir_form *form = &match->c->form;
  if (is_aligned(match, view)) return TEMPLATE_OK;
  const ir_access *x = &form->accesses[view->access];
  if (!copy_start_fits(form, view->access, gemm_tile_loops(match)))
    return refuse(f, TEMPLATE_ALIGNMENT,
                  "columns of %s that are read first are not a multiple of 16 bytes from its own first",
                  tensor_name(match, view->access));
  return refuse(f, TEMPLATE_ALIGNMENT, "rows of %s are %lld bytes; the gemm template takes multiples of 16",
                tensor_name(match, view->access), (long long)stride_bytes(form, x, view->subscript[1]));
}

/* The first output, where copies can store it from fragments: 16-bit floats whose rows line up. */
static void take_output(fitting *f) {
  gemm_match *match = f->match;
  const ir_form *form = &match->c->form;
  int access = form->outputs[0].access;
  dtype type = ir_tensor_dtype(form->problem, form->accesses[access].tensor);
  gemm_view view;
  bool row_contiguous;
  match->y = (gemm_view){.access = access};
  if (match->c->rows.n > 0 && !match->c->rows.whole) return;
  if (type != DTYPE_BF16 && type != DTYPE_F16) return;
  if (!make_view(f, access, match->m, match->n, true, &view, &row_contiguous) || !is_aligned(match, &view))
    return;
  if (match->grouped && row_contiguous) return; /* ends of groups do not line up along rows */
  match->y = view;
  match->y_transposed = row_contiguous;
}

/* Whether copies through shared memory serve a read. Rows behind a group's end are copied with it: they must
 * not be another CTA's to write. */
static bool can_be_staged(const gemm_match *match, int access, dtype type) {
  const ir_form *form = &match->c->form;
  if (match->c->rows.n > 0 || (type != DTYPE_BF16 && type != DTYPE_F16 && type != DTYPE_F32)) return false;
  for (int i = 0; i < form->n_outputs && match->grouped; i++)
    if (form->accesses[form->outputs[i].access].tensor == form->accesses[access].tensor) return false;
  return true;
}

/* What is as large as the output is fetched into the L2 cache while the products run, or further. */
static void take_reads(fitting *f) {
  gemm_match *match = f->match;
  for (int i = 0; i < match->c->form.n_accesses && match->n_reads < GEMM_READS; i++) {
    gemm_view *view = &match->reads[match->n_reads];
    bool row_contiguous;
    dtype type = ir_tensor_dtype(match->c->form.problem, match->c->form.accesses[i].tensor);
    if (!(match->c->epilogue >> i & 1) || dtype_bits(type) < 16) continue; /* boxes are of whole 16 bytes */
    if (match->c->form.accesses[i].other) continue;                        /* it may lie outside its tensor */
    if (!make_view(f, i, match->m, match->n, true, view, &row_contiguous) || view->computed) continue;
    if (!is_aligned(match, view)) continue;
    match->reads_staged[match->n_reads] = can_be_staged(match, i, type);
    match->reads_transposed[match->n_reads++] = row_contiguous;
  }
}

/* --- all of it --- */

static template_reason check_sizes(const fitting *f) {
  const gemm_match *match = f->match;
  const ir_form *form = &match->c->form;
  int64_t batches = 1;
  for (int l = 0; l < form->n_loops; l++) {
    int64_t size = ir_form_extent(form, l);
    const ir_loop *loop = &form->loops[l];
    bool axis = loop->n_dims == 1 && !loop->leading && loop->dims[0].axis >= 0;
    /* Coordinates and sizes are 32-bit in the kernel, and are rounded up to tiles there. */
    if (size < 1 || size > INT32_MAX - 4096)
      return refuse(f, TEMPLATE_SIZE, "axis %s is %lld; the gemm template takes 1 to %d",
                    axis ? form->problem->op->axes[loop->dims[0].axis] : loop->name, (long long)size,
                    INT32_MAX - 4096);
    if (match->outer.set >> l & 1 && __builtin_mul_overflow(batches, size, &batches)) batches = INT64_MAX;
  }
  if (gemm_k_parts(match) > INT32_MAX / gemm_extent(match, match->k))
    return refuse(f, TEMPLATE_SIZE, "there are more terms than the kernel counts in 32 bits");
  if (batches > INT32_MAX - 4096)
    return refuse(f, TEMPLATE_SIZE, "there are %lld matrices", (long long)batches);
  if (match->c->rows.whole && gemm_extent(match, match->n) * match->n_sums > GEMM_MOST_COLUMNS)
    return refuse(f, TEMPLATE_SIZE, "a row of %lld columns is in no one tile",
                  (long long)gemm_extent(match, match->n));
  return TEMPLATE_OK;
}

/* Conditions on terms would have to look at each of them. */
static bool has_conditions(const contraction *c) {
  unsigned outer = c->batch.set | c->m.set | c->n.set;
  for (int i = 0; i < c->n_sums; i++)
    for (int k = 0; k < c->sums[i].n_conditions; k++)
      if (ir_form_free(&c->form, c->sums[i].conditions[k]) & ~outer) return true;
  return false;
}

static bool is_bare(const gemm_match *match) {
  const contraction *c = match->c;
  const ir_expr *value = c->form.outputs[0].value,
                *in_group = contraction_in_group(&c->form, &c->groups, value);
  return match->y.rank > 0 && c->form.n_outputs == 1 && c->n_sums == 1 &&
         (in_group ? in_group : value) == c->sums[0].e && c->sums[0].n_scales == 0 &&
         c->sums[0].n_conditions == 0;
}

template_reason gemm_fit_contraction(const target *t, const contraction *c, gemm_match *match,
                                     strbuf *detail) {
  fitting f = {.match = match, .detail = detail};
  *match = (gemm_match){.c = c};
  if (!t->has.tma || !t->has.wgmma || !t->has.stmatrix || !t->has.setmaxnreg)
    return refuse(&f, TEMPLATE_TARGET, "%s has no warp-group matrix unit with tensor copies", t->name);
  if (!take_loops(&f))
    return refuse(&f, TEMPLATE_OPERATOR, "the gemm template takes a loop of rows and one of columns");
  for (int i = 0; i < c->n_operands; i++)
    if (gemm_read(c, i) < 0)
      return refuse(&f, TEMPLATE_OPERATOR, "an operand is computed, and copies bring tensors as they are");
  if (has_conditions(c)) return refuse(&f, TEMPLATE_OPERATOR, "terms of a sum have conditions");
  template_reason reason = gemm_choose_type(c, &match->type, detail);
  if (reason == TEMPLATE_OK) reason = take_views(&f);
  if (reason == TEMPLATE_OK) reason = gemm_find_blocks(match, detail);
  if (reason == TEMPLATE_OK) reason = check_sizes(&f);
  if (reason == TEMPLATE_OK) reason = check_alignment(&f, &match->a);
  for (int i = 0; i < match->n_sums && reason == TEMPLATE_OK; i++) reason = check_alignment(&f, &match->b[i]);
  if (reason != TEMPLATE_OK) return reason;
  if (!match->type.transposes && !(match->a_k_major && match->b_k_major))
    return refuse(&f, TEMPLATE_DTYPE, "%s is multiplied along contiguous terms alone",
                  dtype_name(match->type.a));
  if (c->rows.n > 0 && match->n != c->rows.column)
    return refuse(&f, TEMPLATE_OPERATOR, "rows that are reduced share no operand");
  match->grouped = c->groups.of != NULL;
  if (match->grouped && (match->outer.n > 0 || match->m != c->groups.row))
    return refuse(&f, TEMPLATE_OPERATOR, "there are several matrices of rows in groups");
  if (match->grouped && !match->a_k_major)
    return refuse(&f, TEMPLATE_OPERATOR, "rows in groups are contiguous, and copies begin at every eighth");
  if (match->grouped && c->rows.n > 0 && !c->rows.whole)
    return refuse(&f, TEMPLATE_OPERATOR, "rows that are reduced have groups");
  take_output(&f);
  take_reads(&f);
  match->bare = is_bare(match);
  for (int i = 0; i < c->form.n_accesses; i++)
    match->merged = match->merged || has_several_dimensions(&c->form.accesses[i]);
  return TEMPLATE_OK;
}

template_reason gemm_fit(const ir_problem *p, const target *t, arena *a, contraction *c, gemm_match *match,
                         strbuf *detail) {
  template_reason reason = contraction_match_more(p, true, GEMM_CONTRACTIONS, a, c, detail, NULL);
  return reason == TEMPLATE_OK ? gemm_fit_contraction(t, c, match, detail) : reason;
}

gemm_match gemm_match_swapped(const gemm_match *match) {
  gemm_match swapped = *match;
  swap_roles(&swapped);
  swapped.a = match->b[0];
  swapped.b[0] = match->a;
  swapped.a_k_major = match->b_k_major;
  swapped.b_k_major = match->a_k_major;
  swapped.y_transposed = !match->y_transposed;
  for (int i = 0; i < match->n_reads; i++) swapped.reads_transposed[i] = !match->reads_transposed[i];
  return swapped;
}

template_reason gemm_fits(const ir_problem *p, const target *t, strbuf *detail) {
  arena a = ARENA_INIT;
  contraction c;
  gemm_match match;
  template_reason reason = gemm_fit(p, t, &a, &c, &match, detail);
  arena_release(&a);
  return reason;
}
