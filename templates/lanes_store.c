/* Where results go. */
#include "generator/gen_atomic.h"
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_expression.h"
#include "templates/lanes_internal.h"

#define STAGE "generate"

typedef struct storing {
  int access;
  bool tested; /* stores outside do not happen */
  dtype type;
  ir_update update;
  int n;
  lanes_reference to[LANES_MAX];
} storing;

/* --- one by one --- */

static arke_status atomic(lanes *l, const storing *s, gen_value address, gen_value element, arke_error *err) {
  static const gen_update updates[] = {
      [IR_ADD] = GEN_UPDATE_ADD, [IR_MAX] = GEN_UPDATE_MAX, [IR_MIN] = GEN_UPDATE_MIN};
  switch (s->type) {
  case DTYPE_F64:
  case DTYPE_F32:
  case DTYPE_F16:
  case DTYPE_BF16:
  case DTYPE_I32:
  case DTYPE_I64: gen_update_global(l->b, updates[s->update], address, element); return ARKE_OK;
  default:
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "updates of %s, which no atomic instruction takes",
                     dtype_name(s->type));
  }
}

static void put(lanes *l, gen_value value, gen_value address) {
  if (l->o.stores_meet) {
    gen_store_global_relaxed(l->b, value, address);
  } else {
    gen_store_global_cached(l->b, value, address, l->o.stores);
  }
}

static arke_status store_one(lanes *l, const storing *s, int lane, gen_value value, arke_error *err) {
  gen_value element;
  if (dtype_bits(s->type) < 8)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "storing %s one by one: two share a byte",
                     dtype_name(s->type));
  TRY(gen_convert(l->b, value, s->type, &element, err));
  gen_value address = lanes_element_address(l, s->to[lane].line, s->to[lane].at);
  if (s->update != IR_ASSIGN) return atomic(l, s, address, element, err);
  put(l, element, address);
  return ARKE_OK;
}

/* --- several at once --- */

/* Lanes from `first` on that one aligned store takes. */
static int piece_size(lanes *l, const storing *s, int first) {
  const lanes_line *line = s->to[first].line;
  int n = 1;
  while (first + n < s->n && s->to[first + n].line == line && s->to[first + n].at == s->to[first].at + n) n++;
  int size = 1;
  while (2 * size <= n && 2 * size <= line->alignment && s->to[first].at % (2 * size) == 0) size *= 2;
  if (s->tested && size > 1) {
    lanes_place here, last;
    lanes_place_of(&l->scope, s->access, first, &here);
    lanes_place_of(&l->scope, s->access, first + size - 1, &last);
    if (!lanes_inside_together(&l->scope, s->access, &here, &last)) return 1;
  }
  if (s->update == IR_ASSIGN) return size;
  bool pairs = s->update == IR_ADD && (s->type == DTYPE_F16 || s->type == DTYPE_BF16);
  return pairs && size > 1 ? 2 : 1;
}

/* Two 16-bit floats by one instruction. */
static arke_status add_pair(lanes *l, const storing *s, int first, const gen_value *values, arke_error *err) {
  gen_value pair[2];
  for (int i = 0; i < 2; i++) TRY(gen_convert(l->b, values[i], s->type, &pair[i], err));
  gen_value address = lanes_element_address(l, s->to[first].line, s->to[first].at);
  gen_update_global(l->b, GEN_UPDATE_ADD, address, gen_vector(l->b, pair, 2));
  return ARKE_OK;
}

static void store_piece(lanes *l, const storing *s, int first, int n, const gen_value *values) {
  gen_builder *b = l->b;
  gen_value words[2 * LANES_MAX];
  int bits = n * dtype_bits(s->type);
  const lanes_line *line = s->to[first].line;
  int64_t at = s->to[first].at;
  gen_value address;
  if (dtype_bits(s->type) < 8) {
    gen_value offset = gen_ashr(b, gen_add_imm(b, line->offset, at), gen_i64(b, 1));
    address = gen_add(b, gen_param(b, l->slots->pointer[line->tensor]), offset);
  } else {
    address = lanes_element_address(l, line, at);
  }
  gen_pack(b, s->type, values, n, words);
  gen_value value = words[0];
  if (bits > 32) {
    value = gen_vector(b, words, bits / 32);
  } else if (bits < 32) {
    value = gen_trunc(b, words[0], bits == 16 ? GEN_I16 : GEN_I8);
  }
  put(l, value, address);
}

static arke_status store_all(lanes *l, const storing *s, const gen_value *values, arke_error *err) {
  for (int i = 0, size; i < s->n; i += size) {
    gen_branch branch;
    gen_value inside;
    size = piece_size(l, s, i);
    if (s->tested) {
      TRY(lanes_inside(l, s->access, i, &inside, err));
      gen_if(l->b, &branch, inside, NULL, 0);
    }
    if (size == 1) {
      TRY(store_one(l, s, i, values[i], err));
    } else if (s->update != IR_ASSIGN) {
      TRY(add_pair(l, s, i, &values[i], err));
    } else {
      store_piece(l, s, i, size, &values[i]);
    }
    if (s->tested) gen_if_end(l->b, &branch);
  }
  return ARKE_OK;
}

/* --- the whole --- */

arke_status lanes_store_access(lanes *l, int access, ir_update update, const gen_value *values, int n,
                               gen_value active, arke_error *err) {
  const ir_access *x = &l->form->accesses[access];
  storing s = {.access = access,
               .tested = lanes_is_tested(l->form, &l->o, access),
               .type = ir_tensor_dtype(l->form->problem, x->tensor),
               .update = update,
               .n = 1};
  gen_value all[LANES_MAX];
  for (int i = 0; i < x->n; i++) {
    if (lanes_moves(&l->scope, x->subscripts[i].e)) s.n = l->o.width;
  }
  if (s.n == 1 && n > 1)
    return error_set(err, ARKE_ERR_INTERNAL, STAGE, "%d values for one element of an output", n);
  for (int i = 0; i < s.n; i++) {
    all[i] = values[n == 1 ? 0 : i];
    TRY(lanes_find(l, access, i, &s.to[i], err));
  }
  for (int i = 0; i < s.n; i++) TRY(lanes_line_address(l, s.to[i].line, err));
  gen_branch branch;
  if (active) gen_if(l->b, &branch, active, NULL, 0);
  arke_status status = store_all(l, &s, all, err);
  if (active) gen_if_end(l->b, &branch);
  return status;
}

arke_status lanes_store(lanes *l, int output, const gen_value *values, int n, gen_value active,
                        arke_error *err) {
  const ir_form_output *out = &l->form->outputs[output];
  return lanes_store_access(l, out->access, out->update, values, n, active, err);
}
