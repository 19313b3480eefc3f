/* Tiles of packed requests: which rows of which request a tile is. Looking for it takes a warp, and reading
 * the requests' ends takes a while; so the producer's warp does it, ahead of the consumers, and tells them by
 * what it writes beside the place of the tile's queries. */
#include "generator/gen_bits.h"
#include "generator/gen_memory.h"
#include "templates/attention_emit.h"
#include "templates/group_tiles.h"

enum { WORDS_BYTES = 16, REST_BYTES = 8 }; /* first and last query, head, request; then rests of bounds */

int attention_request_bytes(const attention_plan *p) {
  return WORDS_BYTES + REST_BYTES * ((p->match->bounds.n + 1) / 2 * 2);
}

static group_tiles tiles_of(const attention_emitter *e) {
  return (group_tiles){.form = &e->m->form,
                       .groups = &e->m->groups,
                       .slots = &e->k->score_slots,
                       .options = e->p->scores,
                       .block = e->p->block_q,
                       .a = e->k->a};
}

arke_status attention_count_tiles(attention_emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  group_tiles tiles = tiles_of(e);
  group_tile found;
  gen_value rows = attention_extent(e, e->m->query);
  TRY(group_tiles_find(b, &tiles, rows, gen_i32(b, INT32_MAX), &found, err));
  e->tiles = found.total;
  return ARKE_OK;
}

/* Nothing is read by the number of rows past the last request: there is no such request. */
static void set_group(attention_emitter *e, attention_place *at, gen_value number) {
  gen_builder *b = e->b;
  gen_value last = gen_add_imm(b, attention_extent(e, e->m->groups.loop), -1);
  at->none = gen_compare(b, GEN_SGT, number, last);
  e->group = gen_smin(b, number, last);
}

static arke_status find_tile(attention_emitter *e, gen_value tile, attention_found *found, arke_error *err) {
  group_tiles tiles = tiles_of(e);
  group_tile at;
  if (attention_is_ordered(e->p)) return attention_find_by_rank(e, tile, found, err);
  TRY(group_tiles_find(e->b, &tiles, attention_extent(e, e->m->query), tile, &at, err));
  *found = (attention_found){at.group, at.row, at.end, at.exists};
  return ARKE_OK;
}

arke_status attention_find_request(attention_emitter *e, gen_value item, attention_place *at,
                                   gen_value *exists, arke_error *err) {
  gen_builder *b = e->b;
  attention_found found;
  gen_value tile;
  *at = (attention_place){.none = NULL};
  attention_find_tile(e, item, &at->head, &tile);
  attention_set_head(e, at);
  TRY(find_tile(e, tile, &found, err));
  *exists = found.exists;
  set_group(e, at, found.group);
  at->first = found.row;
  at->last = gen_add_imm(b, gen_smin(b, gen_add_imm(b, found.row, e->p->block_q), found.end), -1);
  lanes_set(e->l, e->m->query, attention_index(e, at->first));
  TRY(attention_find_rests(e, err));
  attention_find_keys(e, at);
  return ARKE_OK;
}

static gen_value place_of(attention_emitter *e, gen_value stage) {
  return gen_add(e->b, e->requests, gen_mul_imm(e->b, stage, attention_request_bytes(e->p)));
}

void attention_tell_request(attention_emitter *e, gen_value stage, const attention_place *at) {
  gen_builder *b = e->b;
  gen_value to = place_of(e, stage);
  gen_value number = gen_select(b, at->none, attention_extent(e, e->m->groups.loop), e->group);
  gen_value words[] = {at->first, at->last, at->head, number};
  gen_store_shared(b, gen_vector(b, words, 4), to);
  for (int i = 0; i < e->m->bounds.n; i++)
    gen_store_shared(b, e->rests[i], gen_add_imm(b, to, WORDS_BYTES + (int64_t)i * REST_BYTES));
}

void attention_tell_end(attention_emitter *e, gen_value stage) {
  gen_builder *b = e->b;
  gen_value none = gen_i32(b, -1), words[] = {none, none, none, none};
  gen_store_shared(b, gen_vector(b, words, 4), place_of(e, stage));
}

gen_value attention_hear_request(attention_emitter *e, gen_value stage, attention_place *at) {
  gen_builder *b = e->b;
  gen_value from = place_of(e, stage), words = gen_load_shared(b, GEN_I32, 4, from);
  *at = (attention_place){
      .first = gen_lane(b, words, 0), .last = gen_lane(b, words, 1), .head = gen_lane(b, words, 2)};
  gen_value number = gen_lane(b, words, 3);
  set_group(e, at, number);
  for (int i = 0; i < e->m->bounds.n; i++)
    e->rests[i] = gen_load_shared(b, GEN_I64, 1, gen_add_imm(b, from, WORDS_BYTES + (int64_t)i * REST_BYTES));
  return gen_compare_imm(b, GEN_SGE, number, 0);
}
