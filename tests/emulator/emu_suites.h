#ifndef ARKE_TESTS_EMU_SUITES_H
#define ARKE_TESTS_EMU_SUITES_H

#include <check.h>

TCase *emu_gemm_case(void);
TCase *emu_memory_case(void);
TCase *emu_race_case(void);
TCase *emu_sync_case(void);
TCase *emu_copy_case(void);
TCase *emu_wgmma_case(void);
TCase *emu_mma_case(void);
TCase *emu_device_case(void);
TCase *emu_fidelity_case(void);

#endif
