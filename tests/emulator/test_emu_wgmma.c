#include "tests/emulator/emu_fixture.h"
#include "tests/emulator/emu_suites.h"

TCase *emu_wgmma_case(void) {
  return tcase_create("wgmma");
}
