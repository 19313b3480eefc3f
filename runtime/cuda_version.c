#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cuda_api.h"

/* The first word of the form digits.digits… in a line like
 * "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (…)". */
static bool find_version(const char *line, char *text, size_t bytes) {
  for (const char *word = line; *word != '\0';) {
    size_t length = strcspn(word, " \t\n");
    size_t digits = strspn(word, "0123456789."), whole = strspn(word, "0123456789");
    if (length == digits && whole > 0 && whole < length && length < bytes) {
      memcpy(text, word, length);
      text[length] = '\0';
      return true;
    }
    word += length;
    word += strspn(word, " \t\n");
  }
  return false;
}

static bool from_proc(char *text, size_t bytes) {
  FILE *f = fopen("/proc/driver/nvidia/version", "re");
  if (f == NULL) return false;
  char line[256];
  bool found = fgets(line, sizeof line, f) != NULL && find_version(line, text, bytes);
  fclose(f);
  return found;
}

/* Containers may hide /proc/driver; NVML asks the kernel module itself. */
static bool from_nvml(char *text, size_t bytes) {
  void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (nvml == NULL) return false;
  int (*init)(void) = NULL, (*shutdown)(void) = NULL, (*version)(char *, unsigned) = NULL;
  *(void **)&init = dlsym(nvml, "nvmlInit_v2");
  *(void **)&shutdown = dlsym(nvml, "nvmlShutdown");
  *(void **)&version = dlsym(nvml, "nvmlSystemGetDriverVersion");
  bool found = false;
  if (init != NULL && shutdown != NULL && version != NULL && init() == 0) {
    found = version(text, (unsigned)bytes) == 0;
    shutdown();
  }
  dlclose(nvml);
  return found;
}

void cuda_driver_text(char *text, size_t bytes) {
  if (!from_proc(text, bytes) && !from_nvml(text, bytes)) text[0] = '\0';
}
