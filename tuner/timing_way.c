#include "tuner/timing_way.h"

#include "templates/contraction.h"
#include "tuner/speed_of_light.h"

/* Want of memory counts as no: it is reported by whoever needs the memory next. */
static bool is_product(const ir_problem *p) {
  arena memory = ARENA_INIT;
  contraction *c = ARENA_NEW(&memory, contraction);
  bool is = c && contraction_match(p, false, &memory, c, NULL, NULL) == TEMPLATE_OK;
  arena_release(&memory);
  return is;
}

bool tune_is_timed_cold(const ir_problem *p, const target_rates *rates) {
  return tune_is_memory_bound(p, rates) && !is_product(p);
}
