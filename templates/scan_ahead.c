/* Rows copied into shared memory while earlier ones are scanned: a ring of stages, each with room for a row
 * of all tensors that are copied and an mbarrier that tells when they are there. One thread asks for copies.
 * The stage of the row before is filled again once the warps have met over the present row: all have read
 * what they need of the row before. */
#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_convert.h"
#include "generator/gen_memory.h"
#include "generator/gen_tma.h"
#include "templates/scan.h"

enum { BARRIER_BYTES = 8, COPY_BYTES = 16 };

/* --- what is copied --- */

static bool is_dimension(const scan_match *m, const ir_access *x, int s, int loop) {
  const ir_subscript *sub = &x->subscripts[s];
  const ir_loop *l = &m->form.loops[loop];
  if (sub->e->node != IR_INDEX || sub->leading != l->leading) return false;
  if (sub->leading) return l->n_dims == 0;
  const ir_dim *d = &m->form.problem->op->tensors[x->tensor].dims[sub->first];
  return sub->count == 1 && l->n_dims == 1 && ir_dim_equal(l->dims[0], *d);
}

/* Whether an access reads the tensor's rows as the scan's: row r begins r rows behind the tensor. */
static bool reads_rows(const scan_match *m, const ir_access *x) {
  const ir_problem *p = m->form.problem;
  if (p->op->tensors[x->tensor].role != IR_INPUT || x->other || x->conditional) return false;
  if (x->n != m->n_outer + 1 || dtype_bits(ir_tensor_dtype(p, x->tensor)) < 8) return false;
  for (int s = 0; s < m->n_outer; s++) {
    if (x->subscripts[s].e->node != IR_INDEX || x->subscripts[s].e->id != m->outer[s]) return false;
    if (!is_dimension(m, x, s, m->outer[s])) return false;
  }
  const ir_expr *last = x->subscripts[m->n_outer].e;
  bool along = last->node == IR_INDEX && last->id == m->along;
  for (int i = 0; i < m->n_terms; i++)
    along = along || (last->node == IR_INDEX && last->id == m->terms[i].loop);
  return along && is_dimension(m, x, m->n_outer, last->id);
}

uint64_t scan_ahead(const scan_match *m) {
  uint64_t set = 0;
  for (int i = 0; i < m->form.n_accesses && i < 64; i++) {
    if (reads_rows(m, &m->form.accesses[i])) set |= UINT64_C(1) << i;
  }
  return set;
}

static int64_t row_bytes(const scan_match *m, int tensor) {
  return ir_form_extent(&m->form, m->along) * (dtype_bits(ir_tensor_dtype(m->form.problem, tensor)) / 8);
}

static bool is_copied(const scan_match *m, int tensor) {
  uint64_t ahead = scan_ahead(m);
  for (int i = 0; i < m->form.n_accesses && i < 64; i++) {
    if (ahead >> i & 1 && m->form.accesses[i].tensor == tensor) return true;
  }
  return false;
}

/* Where a tensor's row lies in a stage. */
static int64_t place_of(const scan_match *m, int tensor) {
  int64_t place = 0;
  for (int i = 0; i < tensor; i++) place += is_copied(m, i) ? row_bytes(m, i) : 0;
  return place;
}

int64_t scan_stage_bytes(const scan_match *m) {
  return place_of(m, m->form.problem->op->n_inputs);
}

bool scan_can_copy(const scan_match *m) {
  bool any = false;
  for (int i = 0; i < m->form.problem->op->n_inputs; i++) {
    if (!is_copied(m, i)) continue;
    if (row_bytes(m, i) % COPY_BYTES) return false;
    any = true;
  }
  return any;
}

void scan_require_copies(const scan_match *m, recipe *rules, arena *a) {
  const recipe_expr *size = kernel_extent(&m->form, m->along, a);
  int64_t n = ir_form_extent(&m->form, m->along);
  for (int i = 0; i < m->form.problem->op->n_inputs; i++) {
    if (is_copied(m, i) && rules->tensors[i].alignment < COPY_BYTES) rules->tensors[i].alignment = COPY_BYTES;
  }
  kernel_require_dense(rules, m->form.problem, a);
  kernel_require(rules, a, size, n, 0, "rows are copied whole");
  kernel_require(rules, a, size, 0, n, "rows are copied whole");
}

/* --- the ring --- */

static gen_value barrier_of(const scan_ring *r, gen_value stage) {
  return gen_add(r->b, r->filled, gen_mul_imm(r->b, stage, BARRIER_BYTES));
}

static gen_value stage_of(const scan_ring *r, gen_value stage) {
  return gen_add(r->b, r->base, gen_mul_imm(r->b, stage, (int64_t)r->stage_bytes));
}

void scan_ring_open(scan_ring *r, gen_builder *b, const scan_emitter *e) {
  int stages = e->plan->stages;
  *r = (scan_ring){.b = b, .e = e, .m = e->plan->match, .stage_bytes = (int)scan_stage_bytes(e->plan->match)};
  r->base = gen_shared_dynamic(b);
  r->filled = gen_shared_static(b, "scan_filled", stages * BARRIER_BYTES, BARRIER_BYTES);
  gen_branch one;
  gen_if(b, &one, gen_compare_imm(b, GEN_EQ, gen_tid_x(b), 0), NULL, 0);
  for (int s = 0; s < stages; s++) gen_mbarrier_init(b, barrier_of(r, gen_i32(b, s)), 1);
  gen_mbarrier_init_fence(b);
  gen_if_end(b, &one);
  gen_cta_sync(b);
}

void scan_ring_copy(const scan_ring *r, gen_value row, gen_value stage) {
  gen_builder *b = r->b;
  gen_value asks = gen_compare_imm(b, GEN_EQ, gen_tid_x(b), 0);
  gen_value exists = gen_compare(b, GEN_ULT, row, gen_param(b, r->e->rows));
  gen_branch branch;
  gen_if(b, &branch, gen_and(b, asks, exists), NULL, 0);
  gen_value barrier = barrier_of(r, stage), to = stage_of(r, stage), wide = gen_zext(b, row, GEN_I64);
  gen_mbarrier_arrive_expect(b, barrier, r->stage_bytes);
  for (int i = 0; i < r->m->form.problem->op->n_inputs; i++) {
    if (!is_copied(r->m, i)) continue;
    int bytes = (int)row_bytes(r->m, i);
    gen_value from = gen_add(b, gen_param(b, r->e->row_pointer[i]), gen_mul_imm(b, wide, bytes));
    gen_bulk_load(b, gen_add_imm(b, to, place_of(r->m, i)), from, bytes, barrier);
  }
  gen_if_end(b, &branch);
}

void scan_ring_wait(const scan_ring *r, gen_value stage, gen_value parity) {
  gen_mbarrier_wait(r->b, barrier_of(r, stage), parity);
}

void scan_ring_read(const scan_ring *r, gen_value stage, int access, gen_value at, int n,
                    gen_value *elements) {
  gen_builder *b = r->b;
  int tensor = r->m->form.accesses[access].tensor;
  dtype type = ir_tensor_dtype(r->m->form.problem, tensor);
  gen_value place = gen_type_of(b, at) == GEN_I64 ? gen_trunc(b, at, GEN_I32) : at;
  place = gen_mul_imm(b, place, dtype_bits(type) / 8);
  place = gen_add(b, gen_add_imm(b, stage_of(r, stage), place_of(r->m, tensor)), place);
  gen_value all = gen_load_shared(b, gen_storage_type(type), n, place);
  for (int i = 0; i < n; i++) elements[i] = n == 1 ? all : gen_lane(b, all, i);
}
