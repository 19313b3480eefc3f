/* Which tile of rows is whose, where rows are in ragged groups (contraction_groups.h): tiles are counted
 * group by group, the rows past the last end as a group of their own, and a warp looks for one by its number.
 */
#ifndef ARKE_TEMPLATES_GROUP_TILES_H
#define ARKE_TEMPLATES_GROUP_TILES_H

#include "templates/contraction_groups.h"
#include "templates/kernel_lower.h"
#include "templates/lanes.h"

/* What group_tiles_find looks at: the operator's ends, by an evaluator's parameters. */
typedef struct group_tiles {
  const ir_form *form;
  const contraction_groups *groups;
  const lanes_args *slots; /* declared with `options` */
  lanes_options options;   /* `dense`, `wide_offsets` and the checks are taken from there */
  int block;               /* rows of a tile */
  arena *a;
} group_tiles;

typedef struct group_tile {
  gen_value exists;     /* i1: there are so many tiles */
  gen_value group;      /* i32: the number of groups, of rows past the last end */
  gen_value row, end;   /* i32: its first row, and the group's end, which may be further than a tile */
  gen_value is_of_none; /* i1: rows past the last end */
  gen_value total;      /* i32: of a tile that does not exist: how many there are */
} group_tile;

/* The tile of number `tile` (i32), the same for all lanes of a converged warp; so is the answer. `rows`: all
 * of them, i32 or i64. Reads the ends: after gen_launches_wait. */
arke_status group_tiles_find(gen_builder *b, const group_tiles *g, gen_value rows, gen_value tile,
                             group_tile *found, arke_error *err);
/* No operator has more tiles, whatever its ends are, unless they decrease: then there may be any number. */
const recipe_expr *group_tiles_most(const ir_form *form, const contraction_groups *groups, int block,
                                    arena *a);
/* What group_tiles_find takes for granted. */
void group_tiles_require(const ir_form *form, const contraction_groups *groups, recipe *rules, arena *a);

#endif
