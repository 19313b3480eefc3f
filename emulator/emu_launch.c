#include <stdlib.h>

#include "base/random.h"
#include "emulator/emu_machine.h"

uint64_t emu_draw(emu_launch *l) {
  return random_u64(l->seed, l->draws++);
}

/* Clusters that could run at the same time: a few, of which one drawn at random runs to its end. One that
 * spins on memory gives way, and more are started, as many at once as the SMs would hold. Clusters start in
 * order, as they do on hardware; what a CTA takes from one that started with it may not be there yet. */
enum { STARTED = 3 };
arke_status emu_run(emu_launch *l, arke_error *err) {
  uint32_t per_cluster = l->cluster_dim[0] * l->cluster_dim[1] * l->cluster_dim[2];
  uint64_t total = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2] / per_cluster, next = 0;
  uint32_t most = (uint32_t)l->sm_count / per_cluster, resident = 0, wanted = STARTED;
  uint64_t turns = 0;
  if (most == 0) most = 1;
  emu_cluster **clusters = calloc(most, sizeof(emu_cluster *));
  l->races = emu_races_open((uint32_t)total);
  if (clusters == NULL || l->races == NULL) {
    free(clusters);
    emu_races_close(l->races);
    return error_memory(err, "emulator");
  }
  while (l->status == ARKE_OK && (next < total || resident > 0)) {
    while (next < total && resident < most && resident < wanted && l->status == ARKE_OK) {
      l->status = emu_cluster_open(l, (uint32_t)next, &clusters[resident]);
      if (l->status != ARKE_OK) break;
      next++;
      resident++;
    }
    if (l->status != ARKE_OK) break;
    bool finished = false;
    uint32_t turn = (uint32_t)(random_u64(~l->seed, turns++) % resident);
    if (!emu_cluster_run(clusters[turn], &finished)) break;
    if (finished) {
      emu_cluster_close(clusters[turn]);
      clusters[turn] = clusters[--resident];
      clusters[resident] = NULL;
      wanted = STARTED;
    } else if (wanted <= resident) {
      wanted = resident + 1;
    }
  }
  for (uint32_t i = 0; i < resident; i++) emu_cluster_close(clusters[i]);
  free(clusters);
  emu_races_close(l->races);
  if (l->status == ARKE_ERR_MEMORY) return error_memory(err, "emulator");
  if (l->status == ARKE_ERR_FAULT) return error_set(err, ARKE_ERR_FAULT, "emulator", "%s", l->report->text);
  return l->status;
}
