/* Products of rows in ragged groups: a tile of rows lies in one group, whose number chooses its B. A kernel
 * lists the tiles, so that a role finds a unit's with one load: in the workspace the number of tiles, and
 * behind it, 16 bytes a tile, its first row, the end of its group, and its group. What a tile copies of A
 * past its group's end belongs to the next group; it is multiplied, and not stored. */
#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "generator/gen_tma.h"
#include "templates/gemm_emit.h"
#include "templates/group_tiles.h"
#include "templates/lanes_pointer.h"

#define STAGE "generate"

enum { ENTRY_BYTES = 16, LIST_THREADS = 256 };

/* --- the list --- */

typedef struct list_kernel {
  const gemm_plan *plan;
  arena *a;
  lanes_args slots;
  int rows, most, list;
} list_kernel;

const recipe_expr *gemm_group_tiles(const gemm_plan *plan, arena *a) {
  return group_tiles_most(&plan->match.c->form, &plan->match.c->groups, plan->block_m, a);
}

const recipe_expr *gemm_group_bytes(const gemm_plan *plan, arena *a) {
  const recipe_expr *entries = recipe_binary(a, RECIPE_ADD, gemm_group_tiles(plan, a), recipe_const(a, 1));
  return recipe_binary(a, RECIPE_MUL, entries, recipe_const(a, ENTRY_BYTES));
}

/* A warp for each tile that there may be, and one more, which finds how many there are. */
static arke_status emit_list(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  const list_kernel *k = user;
  const gemm_plan *plan = k->plan;
  group_tiles tiles = {.form = &plan->match.c->form,
                       .groups = &plan->match.c->groups,
                       .slots = &k->slots,
                       .options = plan->indices,
                       .block = plan->block_m,
                       .a = k->a};
  group_tile found;
  gen_branch inside, exists;
  gen_launches_release(b);
  gen_value tile = gen_add(b, gen_mul_imm(b, gen_ctaid_x(b), LIST_THREADS / 32), gen_warp_index(b));
  gen_value most = gen_param(b, k->most);
  gen_if(b, &inside, gen_compare(b, GEN_ULE, tile, most), NULL, 0);
  gen_launches_wait(b);
  TRY(group_tiles_find(b, &tiles, gen_param(b, k->rows), tile, &found, err));
  gen_value list = gen_param(b, k->list);
  /* Ends that decrease make more tiles than there are entries for: those behind the last are left out. */
  gen_value is_count = gen_compare(b, GEN_EQ, tile, most);
  gen_value total = gen_select(b, found.exists, most, found.total);
  gen_if(b, &exists, gen_and(b, found.exists, gen_compare(b, GEN_ULT, tile, most)), NULL, 0);
  gen_value entry[] = {found.row, found.end, found.group, gen_i32(b, 0)};
  gen_value at = gen_mul_imm(b, gen_zext(b, gen_add_imm(b, tile, 1), GEN_I64), ENTRY_BYTES);
  gen_store_global(b, gen_vector(b, entry, 4), gen_add(b, list, at)); /* all lanes the same */
  gen_else(b, &exists);
  gen_branch last;
  gen_if(b, &last, is_count, NULL, 0);
  gen_store_global(b, total, list);
  gen_if_end(b, &last);
  gen_if_end(b, &exists);
  gen_if_end(b, &inside);
  return ARKE_OK;
}

arke_status gemm_list_groups(const gemm_plan *plan, const char *name, arena *a, kernel_launch *l,
                             arke_error *err) {
  list_kernel *k = ARENA_NEW(a, list_kernel);
  if (!k) return error_memory(err, STAGE);
  *k = (list_kernel){.plan = plan, .a = a};
  *l = (kernel_launch){.name = name,
                       .threads = LIST_THREADS,
                       .early_start = true,
                       .args = {.a = a},
                       .emit = emit_list,
                       .user = k};
  const contraction *c = plan->match.c;
  lanes_declare(&c->form, &plan->indices, &l->args, &k->slots);
  k->rows = kernel_args_i32(&l->args, contraction_extent_recipe(c, &c->m, a));
  k->most = kernel_args_i32(&l->args, gemm_group_tiles(plan, a));
  k->list = kernel_args_workspace(&l->args, recipe_const(a, 0));
  const recipe_expr *warps = recipe_binary(a, RECIPE_ADD, gemm_group_tiles(plan, a), recipe_const(a, 1));
  l->grid[0] = recipe_binary(a, RECIPE_CEILDIV, warps, recipe_const(a, LIST_THREADS / 32));
  return l->grid[0] ? ARKE_OK : error_memory(err, STAGE);
}

/* --- units --- */

void gemm_groups_init(gemm_emitter *e) {
  gen_builder *b = e->b;
  e->units_m = gen_load_global(b, GEN_I32, 1, gen_param(b, e->kernel->group_tiles), false);
  e->units = e->units_each = gen_mul(b, e->units_m, e->units_n);
}

gemm_tile gemm_groups_tile(gemm_emitter *e, gen_value unit_m) {
  gen_builder *b = e->b;
  gen_value at = gen_mul_imm(b, gen_zext(b, gen_add_imm(b, unit_m, 1), GEN_I64), ENTRY_BYTES);
  gen_value entry =
      gen_load_global(b, GEN_I32, 4, gen_add(b, gen_param(b, e->kernel->group_tiles), at), false);
  return (gemm_tile){
      .row = gen_lane(b, entry, 0), .end = gen_lane(b, entry, 1), .group = gen_lane(b, entry, 2)};
}

arke_status gemm_group_value(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  gemm_emitter *e = ((gemm_kernel *)user)->current;
  const contraction *c = e->plan->match.c;
  if (x != c->groups.of)
    return error_set(err, ARKE_ERR_INTERNAL, STAGE, "a reduction that the gemm template did not match");
  gen_value group = e->group;
  if (ir_form_type(&c->form, x) == DTYPE_I64) group = gen_sext(e->b, group, GEN_I64);
  for (int i = 0; i < LANES_MAX; i++) values[i] = group;
  return ARKE_OK;
}

/* --- ends of groups --- */

gen_value gemm_groups_are_whole(gemm_emitter *e, gen_value row, gen_value end) {
  return gen_compare(e->b, GEN_ULE, gen_add_imm(e->b, row, e->plan->group_rows), end);
}

/* 16 bytes of row `row` of the panel, its chunk `chunk`. */
static arke_status store_chunk(gemm_emitter *e, gen_value buffer, gemm_tile tile, gen_value row,
                               gen_value chunk) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_value phase = plan->store_swizzle == GEN_SWIZZLE_128
                        ? gen_and(b, row, gen_i32(b, 7))
                        : gen_and(b, gen_lshr(b, row, gen_i32(b, 1)), gen_i32(b, 3));
  gen_value from =
      gen_add(b, gen_mul_imm(b, row, plan->panel_n * 2), gen_mul_imm(b, gen_xor(b, chunk, phase), 16));
  gen_value m = gen_add(b, tile.row, row), n = gen_add(b, tile.column, gen_mul_imm(b, chunk, 8));
  gen_value inside = gen_and(b, gen_compare(b, GEN_ULT, m, tile.end), gen_compare(b, GEN_ULT, n, e->n));
  gen_branch branch;
  gen_value to;
  lanes *l;
  TRY(lanes_create(b, &plan->match.c->form, &plan->indices, &e->kernel->index_slots, e->kernel->a, &l,
                   e->err));
  gen_if(b, &branch, inside, NULL, 0);
  gemm_set_loops(e, l, tile, m, n);
  TRY(lanes_pointer(l, plan->match.y.access, &to, e->err));
  gen_store_global(b, gen_load_shared(b, GEN_I32, 4, gen_add(b, buffer, from)), to);
  gen_if_end(b, &branch);
  return ARKE_OK;
}

/* In a loop, as a tile may be stored beside the accumulators of the next: few registers are free. */
void gemm_groups_store(gemm_emitter *e, gen_value thread, gen_value buffer, gemm_tile tile) {
  gen_builder *b = e->b;
  int across = e->plan->panel_n / 8;
  gen_value at[] = {thread};
  gen_loop loop;
  gen_loop_begin(b, &loop, at, 1);
  gen_value row = gen_lshr(b, at[0], gen_i32(b, __builtin_ctz((unsigned)across)));
  gemm_note(e, store_chunk(e, buffer, tile, row, gen_and(b, at[0], gen_i32(b, across - 1))));
  at[0] = gen_add_imm(b, at[0], 128);
  gen_loop_end_while(b, &loop, gen_compare_imm(b, GEN_ULT, at[0], e->plan->group_rows * across));
}
