/* What an emulated GPU has, by its compute capability. */
#ifndef ARKE_EMULATOR_EMU_LIMITS_H
#define ARKE_EMULATOR_EMU_LIMITS_H

#include <stdbool.h>

/* The most shared memory a CTA may ask for, reserve not counted; of an unknown compute capability, what the
 * one below it has. */
int emu_smem_bytes(int cc_major, int cc_minor);
/* Whether launches may have clusters and tensor maps, and start early. */
bool emu_has_clusters(int cc_major, int cc_minor);

#endif
