/* fidelity cuda|emulator [FILE]: runs every case on one device, prints a digest each, and writes all results
 * to FILE. fidelity compare FILE: runs them on the emulator and says where they differ from the results in
 * FILE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "tests/emulator/fidelity_cases.h"

static void compare(const uint32_t *ours, const uint32_t *theirs, const char *name, const char *mode) {
  long wrong = 0, first = -1;
  for (long i = 0; i < FIDELITY_OUT_BYTES / 4; i++) {
    if (ours[i] == theirs[i]) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0)
    printf("%-44s %-8s equal\n", name, mode);
  else
    printf("%-44s %-8s %ld of %d differ; word %ld is %08x, not %08x\n", name, mode, wrong,
           FIDELITY_OUT_BYTES / 4, first, ours[first], theirs[first]);
}

int main(int argc, char **argv) {
  bool comparing = argc == 3 && strcmp(argv[1], "compare") == 0,
       cuda = argc >= 2 && strcmp(argv[1], "cuda") == 0;
  if (argc < 2 || argc > 3 || (!comparing && !cuda && strcmp(argv[1], "emulator") != 0)) {
    fprintf(stderr, "usage: fidelity cuda|emulator [FILE], or fidelity compare FILE\n");
    return 2;
  }
  arke_error err = ARKE_ERROR_INIT;
  device *d = NULL;
  arke_status status = cuda ? device_open_cuda(0, &d, &err) : device_open_emulator("sm_90a", 0, &d, &err);
  if (status != ARKE_OK) {
    fprintf(stderr, "%s\n", err.text);
    return 1;
  }
  FILE *file = argc == 3 ? fopen(argv[2], comparing ? "rb" : "wb") : NULL;
  static uint32_t out[FIDELITY_OUT_BYTES / 4], theirs[FIDELITY_OUT_BYTES / 4];
  for (int i = 0; i < fidelity_case_count(); i++) {
    for (int mode = 0; mode < FIDELITY_MODE_COUNT; mode++) {
      const char *name = fidelity_case_name(i), *mode_name = fidelity_mode_name((fidelity_mode)mode);
      memset(out, 0, sizeof out);
      error_clear(&err);
      if (fidelity_run(d, i, (fidelity_mode)mode, out, &err) != ARKE_OK)
        printf("%s %s: %s\n", name, mode_name, err.text);
      char digest[SHA256_HEX_SIZE];
      sha256_hex(out, sizeof out, digest);
      if (comparing && file != NULL && fread(theirs, sizeof theirs, 1, file) == 1)
        compare(out, theirs, name, mode_name);
      else if (!comparing)
        printf("%s %s %s\n", digest, mode_name, name);
      if (!comparing && file != NULL) fwrite(out, sizeof out, 1, file);
    }
  }
  if (file != NULL) fclose(file);
  d->ops->close(d);
  return 0;
}
