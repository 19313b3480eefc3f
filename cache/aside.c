#include "cache/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char *const SUFFIXES[] = {"-wal", "-shm", "-journal", ""}; /* the database itself comes last */

int aside_lock(const char *path) {
  char directory[4096];
  const char *slash = strrchr(path, '/');
  snprintf(directory, sizeof directory, "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1,
           slash == NULL ? "." : path);
  int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  while (flock(fd, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    close(fd);
    return -1;
  }
  return fd;
}

void aside_unlock(int lock) {
  if (lock >= 0) close(lock);
}

/* Renames without ever replacing; 0 or an errno. File systems without RENAME_NOREPLACE have link(2), or
 * neither: then the name has just been seen free, under the lock. */
static int rename_new(const char *from, const char *to) {
  if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (link(from, to) == 0) return unlink(from) == 0 ? 0 : errno;
  if (errno == EEXIST) return EEXIST;
  return rename(from, to) == 0 ? 0 : errno;
}

static bool all_free(char *const names[]) {
  for (size_t i = 0; i < COUNT_OF(SUFFIXES); i++)
    if (faccessat(AT_FDCWD, names[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0) return false;
  return true;
}

arke_status aside_rename(const char *path, arena *a, const char **name, arke_error *err) {
  enum { MOST = 10000 };
  for (int n = 1; n <= MOST; n++) {
    char *names[COUNT_OF(SUFFIXES)];
    for (size_t i = 0; i < COUNT_OF(SUFFIXES); i++) {
      names[i] = arena_printf(a, "%s.damaged-%d%s", path, n, SUFFIXES[i]);
      if (names[i] == NULL) return error_memory(err, "cache");
    }
    if (!all_free(names)) continue;
    for (size_t i = 0; i < COUNT_OF(SUFFIXES); i++) {
      char *from = arena_printf(a, "%s%s", path, SUFFIXES[i]);
      if (from == NULL) return error_memory(err, "cache");
      int number = rename_new(from, names[i]);
      if (number == ENOENT && SUFFIXES[i][0] != '\0') continue;
      if (number != 0)
        return error_set(err, ARKE_ERR_IO, "cache", "cannot set damaged cache file %s aside as %s: %s", from,
                         names[i], strerror(number));
    }
    *name = names[COUNT_OF(SUFFIXES) - 1];
    return ARKE_OK;
  }
  return error_set(err, ARKE_ERR_IO, "cache",
                   "cannot set damaged cache file %s aside: %s.damaged-1 to -%d all exist", path, path, MOST);
}
