#include "emulator/emu_limits.h"

#include "base/error.h"

/* CUDA programming guide, technical specifications by compute capability. */
static const struct {
  int cc, smem_bytes;
  bool clusters;
} LIMITS[] = {{80, 166912, false}, {86, 101376, false}, {87, 166912, false},
              {89, 101376, false}, {90, 232448, true},  {100, 232448, true},
              {103, 232448, true}, {110, 232448, true}, {120, 101376, true}};

static size_t row_of(int cc_major, int cc_minor) {
  size_t row = 0;
  while (row + 1 < COUNT_OF(LIMITS) && LIMITS[row + 1].cc <= cc_major * 10 + cc_minor) row++;
  return row;
}

int emu_smem_bytes(int cc_major, int cc_minor) {
  return LIMITS[row_of(cc_major, cc_minor)].smem_bytes;
}

bool emu_has_clusters(int cc_major, int cc_minor) {
  return LIMITS[row_of(cc_major, cc_minor)].clusters;
}
