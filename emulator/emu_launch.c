#include <stdlib.h>

#include "base/random.h"
#include "emulator/emu_machine.h"

uint64_t emu_draw(emu_launch *l) {
  return random_u64(l->seed, l->draws++);
}

/* Clusters run one after another. One that spins on memory gives way, so that those it may wait for can
 * start, as many at once as the SMs would hold. */
arke_status emu_run(emu_launch *l, arke_error *err) {
  uint32_t per_cluster = l->cluster_dim[0] * l->cluster_dim[1] * l->cluster_dim[2];
  uint64_t total = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2] / per_cluster, next = 0;
  uint32_t most = (uint32_t)l->sm_count / per_cluster, resident = 0, turn = 0;
  if (most == 0) most = 1;
  emu_cluster **clusters = calloc(most, sizeof(emu_cluster *));
  if (clusters == NULL) return error_memory(err, "emulator");
  while (l->status == ARKE_OK && (next < total || resident > 0)) {
    if (next < total && resident < most) {
      l->status = emu_cluster_open(l, (uint32_t)next, &clusters[resident]);
      if (l->status != ARKE_OK) break;
      next++;
      turn = resident++;
    }
    bool finished = false;
    if (!emu_cluster_run(clusters[turn], &finished)) break;
    if (finished) {
      emu_cluster_close(clusters[turn]);
      clusters[turn] = clusters[--resident];
      clusters[resident] = NULL;
      turn = 0;
    } else {
      turn = (turn + 1) % resident;
    }
  }
  for (uint32_t i = 0; i < resident; i++) emu_cluster_close(clusters[i]);
  free(clusters);
  if (l->status == ARKE_ERR_MEMORY) return error_memory(err, "emulator");
  if (l->status == ARKE_ERR_FAULT) return error_set(err, ARKE_ERR_FAULT, "emulator", "%s", l->report->text);
  return l->status;
}
