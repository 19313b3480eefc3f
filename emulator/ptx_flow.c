/* Where the lanes that a branch separated meet again: the branch's immediate post-dominator over basic blocks
 * (Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm", run on the reversed graph).
 *
 * A guarded ret or exit, and a trap, take lanes away and separate none, so they are no edges to the end.
 * Where some path from a branch leaves by a ret of its own, the end of the kernel is the only post-dominator,
 * yet the lanes that stay should meet at the first common block; that block is then looked for among the
 * blocks that both sides reach going forward. */
#include <string.h>

#include "emulator/ptx_parser.h"

typedef struct block {
  uint32_t first, last;     /* instructions, inclusive */
  uint32_t successors[2];   /* blocks; PTX_NOWHERE if there is none */
  const ptx_operand *table; /* brx.idx: its targets, else NULL */
  uint32_t order;           /* position in the reverse postorder of the reversed graph; NOWHERE: no way out */
  uint32_t post_dominator;  /* block */
  uint32_t forward; /* position in a depth-first postorder from the entry: edges to a higher one go back */
} block;

typedef struct graph {
  ptx_parser *p;
  ptx_instruction *instructions;
  uint32_t n_instructions;
  block *blocks; /* the last is the virtual end */
  uint32_t n_blocks, end;
  uint32_t *block_of;                         /* by instruction */
  uint32_t *predecessors, *first_predecessor; /* predecessors of block b: [first[b], first[b + 1]) */
  uint32_t *stack, *next;                     /* work space, one entry a block */
  uint8_t *marks;
} graph;

static bool leaves(const ptx_instruction *i) {
  return (i->opcode == PTX_RET || i->opcode == PTX_EXIT) && i->guard == PTX_NOWHERE;
}

static bool ends_block(const ptx_instruction *i) {
  return i->opcode == PTX_BRA || i->opcode == PTX_BRX || leaves(i) ||
         (i->opcode == PTX_TRAP && i->guard == PTX_NOWHERE);
}

static uint32_t successor_count(const block *b) {
  if (b->table != NULL) return b->table->n + (b->successors[0] != PTX_NOWHERE);
  return (uint32_t)(b->successors[0] != PTX_NOWHERE) + (b->successors[1] != PTX_NOWHERE);
}

static uint32_t successor(const graph *g, const block *b, uint32_t k) {
  if (b->table == NULL) return b->successors[b->successors[0] == PTX_NOWHERE ? 1 : k];
  return k < b->table->n ? g->block_of[b->table->elements[k].slot] : b->successors[0];
}

static bool build_blocks(graph *g) {
  uint32_t n = g->n_instructions;
  uint8_t *starts = ARENA_NEW_N(g->p->scratch, uint8_t, n + 1);
  if (starts == NULL) return false;
  starts[0] = 1;
  for (uint32_t k = 0; k < n; k++) {
    const ptx_instruction *i = &g->instructions[k];
    if (!ends_block(i)) continue;
    if (k + 1 < n) starts[k + 1] = 1;
    if (i->opcode == PTX_BRA) starts[i->target] = 1;
    if (i->opcode == PTX_BRX)
      for (uint32_t t = 0; t < i->operands[1].n; t++) starts[i->operands[1].elements[t].slot] = 1;
  }
  for (uint32_t k = 0; k < n; k++) g->n_blocks += starts[k];
  g->end = g->n_blocks++;
  g->blocks = ARENA_NEW_N(g->p->scratch, block, g->n_blocks);
  g->block_of = ARENA_NEW_N(g->p->scratch, uint32_t, n);
  g->stack = ARENA_NEW_N(g->p->scratch, uint32_t, g->n_blocks);
  g->next = ARENA_NEW_N(g->p->scratch, uint32_t, g->n_blocks);
  g->marks = ARENA_NEW_N(g->p->scratch, uint8_t, g->n_blocks);
  if (g->blocks == NULL || g->block_of == NULL || g->stack == NULL || g->next == NULL || g->marks == NULL)
    return false;
  uint32_t at = PTX_NOWHERE;
  for (uint32_t k = 0; k < n; k++) {
    if (starts[k]) g->blocks[++at].first = k;
    g->block_of[k] = at;
    g->blocks[at].last = k;
  }
  for (uint32_t b = 0; b < g->n_blocks; b++) {
    block *x = &g->blocks[b];
    x->successors[0] = x->successors[1] = x->order = x->post_dominator = x->forward = PTX_NOWHERE;
    if (b == g->end) continue;
    const ptx_instruction *last = &g->instructions[x->last];
    bool falls = !ends_block(last) || last->guard != PTX_NOWHERE;
    if (falls && x->last + 1 < n) x->successors[0] = b + 1;
    if (last->opcode == PTX_BRA) x->successors[1] = g->block_of[last->target];
    if (last->opcode == PTX_BRX) x->table = &last->operands[1];
    if (leaves(last)) x->successors[1] = g->end;
  }
  return true;
}

static bool build_predecessors(graph *g) {
  uint32_t n = g->n_blocks;
  g->first_predecessor = ARENA_NEW_N(g->p->scratch, uint32_t, n + 1);
  if (g->first_predecessor == NULL) return false;
  for (uint32_t b = 0; b < n; b++)
    for (uint32_t k = 0; k < successor_count(&g->blocks[b]); k++)
      g->first_predecessor[successor(g, &g->blocks[b], k) + 1]++;
  for (uint32_t b = 0; b < n; b++) g->first_predecessor[b + 1] += g->first_predecessor[b];
  g->predecessors = ARENA_NEW_N(g->p->scratch, uint32_t, g->first_predecessor[n]);
  uint32_t *fill = ARENA_NEW_N(g->p->scratch, uint32_t, n);
  if (g->predecessors == NULL || fill == NULL) return false;
  for (uint32_t b = 0; b < n; b++)
    for (uint32_t k = 0; k < successor_count(&g->blocks[b]); k++) {
      uint32_t s = successor(g, &g->blocks[b], k);
      g->predecessors[g->first_predecessor[s] + fill[s]++] = b;
    }
  return true;
}

/* Depth-first from the end along predecessors: numbers the blocks, and lists them in postorder in `list`. */
static uint32_t order_backwards(graph *g, uint32_t *list) {
  uint32_t depth = 0, n = 0;
  memset(g->marks, 0, g->n_blocks);
  g->stack[depth++] = g->end;
  g->marks[g->end] = 1;
  g->next[g->end] = g->first_predecessor[g->end];
  while (depth > 0) {
    uint32_t b = g->stack[depth - 1];
    if (g->next[b] < g->first_predecessor[b + 1]) {
      uint32_t to = g->predecessors[g->next[b]++];
      if (g->marks[to]) continue;
      g->marks[to] = 1;
      g->next[to] = g->first_predecessor[to];
      g->stack[depth++] = to;
    } else {
      list[n++] = b;
      depth--;
    }
  }
  for (uint32_t k = 0; k < n; k++) g->blocks[list[k]].order = n - 1 - k;
  return n;
}

static void order_forwards(graph *g) {
  uint32_t depth = 0, n = 0;
  memset(g->marks, 0, g->n_blocks);
  g->stack[depth++] = 0;
  g->marks[0] = 1;
  g->next[0] = 0;
  while (depth > 0) {
    uint32_t b = g->stack[depth - 1];
    if (g->next[b] < successor_count(&g->blocks[b])) {
      uint32_t to = successor(g, &g->blocks[b], g->next[b]++);
      if (g->marks[to]) continue;
      g->marks[to] = 1;
      g->next[to] = 0;
      g->stack[depth++] = to;
    } else {
      g->blocks[b].forward = n++;
      depth--;
    }
  }
}

static uint32_t meet(const graph *g, uint32_t a, uint32_t b) {
  while (a != b) {
    while (g->blocks[a].order > g->blocks[b].order) a = g->blocks[a].post_dominator;
    while (g->blocks[b].order > g->blocks[a].order) b = g->blocks[b].post_dominator;
  }
  return a;
}

static void post_dominate(graph *g, const uint32_t *list, uint32_t n) {
  g->blocks[g->end].post_dominator = g->end;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t k = n - 1; k-- > 0;) { /* reverse postorder, without the end itself */
      block *x = &g->blocks[list[k]];
      uint32_t found = PTX_NOWHERE;
      for (uint32_t s = 0; s < successor_count(x); s++) {
        uint32_t to = successor(g, x, s);
        if (g->blocks[to].order == PTX_NOWHERE || g->blocks[to].post_dominator == PTX_NOWHERE) continue;
        found = found == PTX_NOWHERE ? to : meet(g, found, to);
      }
      if (found == x->post_dominator) continue;
      x->post_dominator = found;
      changed = true;
    }
  }
}

/* Marks with `bit` what `from` reaches without going back in the depth-first order; returns the blocks
 * visited. */
static uint32_t reach(graph *g, uint32_t from, uint8_t bit) {
  uint32_t depth = 0, visited = 0;
  if (from == g->end) return 0;
  g->marks[from] |= bit;
  g->stack[depth++] = from;
  while (depth > 0) {
    uint32_t b = g->stack[--depth];
    visited++;
    for (uint32_t k = 0; k < successor_count(&g->blocks[b]); k++) {
      uint32_t to = successor(g, &g->blocks[b], k);
      if (to == g->end || (g->marks[to] & bit) != 0 || g->blocks[to].forward >= g->blocks[b].forward)
        continue;
      g->marks[to] |= bit;
      g->stack[depth++] = to;
    }
  }
  return visited;
}

/* The one block through which both sides of a branch enter what they share, or the end. */
static uint32_t first_common(graph *g, const block *branch, uint32_t *visited) {
  uint32_t sides = successor_count(branch), entry = PTX_NOWHERE;
  if (branch->table != NULL || sides != 2) return g->end;
  memset(g->marks, 0, g->n_blocks);
  *visited += g->n_blocks;
  *visited += reach(g, successor(g, branch, 0), 1) + reach(g, successor(g, branch, 1), 2);
  for (uint32_t b = 0; b < g->end; b++) {
    if (g->marks[b] != 3) continue;
    bool enters = b == successor(g, branch, 0) || b == successor(g, branch, 1);
    for (uint32_t k = g->first_predecessor[b]; k < g->first_predecessor[b + 1]; k++) {
      uint8_t from = g->marks[g->predecessors[k]];
      enters = enters || from == 1 || from == 2;
    }
    if (!enters) continue;
    if (entry != PTX_NOWHERE) return g->end;
    entry = b;
  }
  return entry == PTX_NOWHERE ? g->end : entry;
}

arke_status ptx_find_reconvergence(ptx_parser *p, ptx_instruction *instructions, uint32_t n) {
  /* The search for a common block is quadratic in the worst case; past this much work the end has to do. */
  enum { MOST_VISITS = 1 << 26 };
  graph g = {.p = p, .instructions = instructions, .n_instructions = n};
  if (!build_blocks(&g) || !build_predecessors(&g)) return ptx_out_of_memory(p);
  uint32_t *list = ARENA_NEW_N(p->scratch, uint32_t, g.n_blocks);
  if (list == NULL) return ptx_out_of_memory(p);
  uint32_t reached = order_backwards(&g, list), visited = 0;
  post_dominate(&g, list, reached);
  order_forwards(&g);
  for (uint32_t b = 0; b < g.end; b++) {
    ptx_instruction *last = &instructions[g.blocks[b].last];
    if (last->opcode != PTX_BRA && last->opcode != PTX_BRX) continue;
    uint32_t meets = g.blocks[b].post_dominator == PTX_NOWHERE ? g.end : g.blocks[b].post_dominator;
    if (meets == g.end && g.blocks[b].forward != PTX_NOWHERE && visited < MOST_VISITS)
      meets = first_common(&g, &g.blocks[b], &visited);
    last->reconverge = meets == g.end ? n : g.blocks[meets].first;
  }
  return ARKE_OK;
}
