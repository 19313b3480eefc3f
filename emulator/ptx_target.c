/* Which targets have which instruction: the least SM of each form, and what depends on one modifier or type
 * of it. Found by asking the assembler (ptxas 13.0) about every form for every target. */
#include <string.h>

#include "emulator/ptx_parser.h"

/* Features of one architecture ("sm_90a") or family ("sm_100f") are absent from the plain target. */
typedef struct requirement {
  int least, most; /* SMs; most 0: no limit */
  bool specific;   /* only with the suffix */
} requirement;

static bool has_type(const ptx_instruction *i, ptx_type type) {
  for (int k = 0; k < i->n_types; k++)
    if (i->type[k] == type) return true;
  return false;
}

static bool has_bf16(const ptx_instruction *i) {
  return has_type(i, PTX_TYPE_BF16) || has_type(i, PTX_TYPE_BF16X2);
}

static int least_of_cvt(const ptx_instruction *i, bool *specific) {
  static const ptx_type narrow[] = {PTX_TYPE_E2M3X2, PTX_TYPE_E3M2X2, PTX_TYPE_E2M1X2, PTX_TYPE_UE8M0X2};
  for (size_t k = 0; k < COUNT_OF(narrow); k++)
    if (has_type(i, narrow[k])) {
      *specific = true;
      return 100;
    }
  if (has_type(i, PTX_TYPE_E4M3X2) || has_type(i, PTX_TYPE_E5M2X2)) return 89;
  if (has_type(i, PTX_TYPE_TF32)) return i->rounding == PTX_ROUND_RNA ? 80 : 90;
  return has_bf16(i) && !has_type(i, PTX_TYPE_F32) ? 90 : 80;
}

static int least_of_mma(const ptx_instruction *i) {
  if (has_type(i, PTX_TYPE_F64)) return i->m == 16 ? 90 : 80;
  return has_type(i, PTX_TYPE_E4M3) || has_type(i, PTX_TYPE_E5M2) ? 89 : 80;
}

/* An access of 32 bytes, with its L2 eviction priorities, is new on sm_100. */
static bool is_wide(const ptx_instruction *i) {
  return ptx_type_bits((ptx_type)i->type[0]) * i->vector == 256;
}

static requirement requirement_of(const ptx_instruction *i, int least_sm) {
  requirement r = {.least = least_sm};
  int more = 0;
  switch (i->opcode) {
  case PTX_CVT: more = least_of_cvt(i, &r.specific); break;
  case PTX_MMA: more = least_of_mma(i); break;
  case PTX_SETP:
  case PTX_SET: more = has_bf16(i) ? 90 : 0; break;
  case PTX_LD:
  case PTX_ST: more = is_wide(i) ? 100 : 0; break;
  case PTX_ATOM:
  case PTX_RED: more = has_bf16(i) || has_type(i, PTX_TYPE_B128) ? 90 : 0; break;
  case PTX_MBARRIER_ARRIVE:
  case PTX_MBARRIER_ARRIVE_DROP:
    more = i->n_operands > 2 && (i->flags & PTX_FLAG_NO_COMPLETE) == 0 ? 90 : 0;
    break;
  case PTX_REDUX:
    if (i->type[0] == PTX_TYPE_F32) r = (requirement){100, 119, true};
    break;
  case PTX_BULK: more = (i->flags & PTX_FLAG_CP_MASK) != 0 ? 100 : 0; break;
  case PTX_BULK_TENSOR:
  case PTX_BULK_TENSOR_PREFETCH:
    if (i->tiling == PTX_TILING_GATHER4 || i->tiling == PTX_TILING_SCATTER4 ||
        i->tiling == PTX_TILING_IM2COL_W || i->tiling == PTX_TILING_IM2COL_W_128)
      more = 100;
    if (i->cta_group != 0) r = (requirement){100, 119, true};
    break;
  case PTX_SETMAXNREG: r.specific = true; break;
  case PTX_WGMMA:
  case PTX_WGMMA_FENCE:
  case PTX_WGMMA_COMMIT:
  case PTX_WGMMA_WAIT: r = (requirement){90, 90, true}; break;
  default:
    if (i->unit == PTX_UNIT_TENSOR_MEMORY) r = (requirement){100, 119, true};
    break;
  }
  bool mbarrier = i->unit == PTX_UNIT_BARRIER && i->semantics == PTX_SEM_RELAXED;
  if (i->scope == PTX_SCOPE_CLUSTER || i->space[0] == PTX_SPACE_SHARED_CLUSTER || mbarrier)
    more = more < 90 ? 90 : more;
  if (more > r.least) r.least = more;
  return r;
}

arke_status ptx_check_target(ptx_parser *p, const ptx_instruction *i, int least_sm, const ptx_token *name) {
  requirement r = requirement_of(i, least_sm);
  const ptx_module *m = p->module;
  char last = m->target[strlen(m->target) - 1];
  bool plain = last != 'a' && last != 'f';
  if (m->sm >= r.least && (r.most == 0 || m->sm <= r.most) && !(r.specific && plain)) return ARKE_OK;
  const char *suffix = r.specific ? "a" : "";
  if (r.most == r.least && r.most != 0)
    return ptx_fail(p, ARKE_ERR_UNSUPPORTED, name, "'%s' exists on sm_%d%s only, the target is %s", i->text,
                    r.least, suffix, m->target);
  return ptx_fail(p, ARKE_ERR_UNSUPPORTED, name, "'%s' exists from sm_%d%s on, the target is %s", i->text,
                  r.least, suffix, m->target);
}

static arke_status check_least(ptx_parser *p, int least, const ptx_token *name) {
  const ptx_module *m = p->module;
  if (m->sm >= least) return ARKE_OK;
  return ptx_fail(p, ARKE_ERR_UNSUPPORTED, name, "'%.*s' exists from sm_%d on, the target is %s",
                  (int)name->length, name->text, least, m->target);
}

arke_status ptx_check_special(ptx_parser *p, ptx_special special, const ptx_token *name) {
  static const uint8_t least[PTX_SPECIAL_COUNT] = {
#define X(NAME, text, bits, least_sm) [PTX_SPECIAL_##NAME] = least_sm,
      PTX_SPECIALS(X)
#undef X
  };
  return check_least(p, least[special], name);
}

arke_status ptx_check_cluster_directive(ptx_parser *p, const ptx_token *name) {
  enum { WITH_CLUSTERS = 90 };
  return check_least(p, WITH_CLUSTERS, name);
}
