#include "tuner/cli_scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

arke_status cli_scratch_open(cli_scratch *s, arke_error *err) {
  const char *base = getenv("TMPDIR");
  if (base == NULL || base[0] != '/') base = "/tmp";
  s->directory = NULL;
  if (asprintf(&s->directory, "%s/arke-XXXXXX", base) < 0) {
    s->directory = NULL;
    return error_memory(err, "scratch");
  }
  if (mkdtemp(s->directory) != NULL) return ARKE_OK;
  arke_status status =
      error_set(err, ARKE_ERR_IO, "scratch", "cannot make a directory in %s: %s", base, strerror(errno));
  free(s->directory);
  s->directory = NULL;
  return status;
}

const char *cli_scratch_path(const cli_scratch *s, arena *a, const char *name) {
  const char *path = arena_printf(a, "%s/%s", s->directory, name);
  return path == NULL ? "" : path;
}

void cli_scratch_remove(cli_scratch *s) {
  if (s->directory == NULL) return;
  DIR *list = opendir(s->directory);
  for (struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;)
    unlinkat(dirfd(list), entry->d_name, 0); /* "." and ".." refuse, being directories */
  if (list != NULL) closedir(list);
  rmdir(s->directory);
  free(s->directory);
  s->directory = NULL;
}
