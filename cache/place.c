#include "cache/place.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONGEST_SUFFIX "-journal" /* of the files that SQLite keeps beside the cache */

place place_of(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0) return (place){0};
  return (place){.known = true, .device = st.st_dev, .inode = st.st_ino};
}

bool place_is(const place *p, const char *path) {
  place now = place_of(path);
  return p->known && now.known && now.device == p->device && now.inode == p->inode;
}

arke_status place_check(const place *p, const char *path, arke_error *err) {
  if (place_is(p, path)) return ARKE_OK;
  struct stat st;
  bool gone = stat(path, &st) != 0;
  if (gone && errno != ENOENT && errno != ENOTDIR)
    return error_set(err, ARKE_ERR_IO, "cache",
                     "cache file %s is out of reach since it was opened (%s): what was to be stored is lost",
                     path, strerror(errno));
  return error_set(
      err, ARKE_ERR_IO, "cache",
      "cache file %s was %s while it was in use: what was stored in it meanwhile is lost, unless "
      "the file was moved and holds it where it is now",
      path, gone ? "removed or moved" : "replaced by another file");
}

/* With links followed, as SQLite does; where there is no file yet, those of its directory. False: there is
 * none. */
static bool full_path(const char *path, char full[2 * PATH_MAX]) {
  if (realpath(path, full) != NULL) return true;
  const char *slash = strrchr(path, '/');
  char directory[PATH_MAX], real[PATH_MAX];
  int length = slash == NULL ? 1 : (int)(slash - path) + 1;
  snprintf(directory, sizeof directory, "%.*s", length, slash == NULL ? "." : path);
  if (realpath(directory, real) == NULL) return false;
  snprintf(full, 2 * PATH_MAX, "%s/%s", real, slash == NULL ? path : slash + 1);
  return true;
}

arke_status place_check_name(const char *path, bool write, arke_error *err) {
  char full[2 * PATH_MAX];
  if (!full_path(path, full)) return ARKE_OK; /* no such directory, which others say */
  const char *name = strrchr(full, '/') + 1;
  long most = write ? pathconf(path, _PC_NAME_MAX) : 0, suffix = (long)strlen(LONGEST_SUFFIX);
  long most_path = sqlite3_vfs_find(NULL)->mxPathname;
  if (most <= 0) most = NAME_MAX;
  if (write && (long)strlen(name) + suffix > most)
    return error_set(
        err, ARKE_ERR_IO, "cache",
        "the name of cache file %s is too long: it has %zu bytes, and can have %ld with %s, which "
        "SQLite puts behind it",
        path, strlen(name), most - suffix, LONGEST_SUFFIX);
  if ((long)strlen(full) + suffix > most_path)
    return error_set(
        err, ARKE_ERR_IO, "cache",
        "the path of cache file %s is too long: from the root on it has %zu bytes, and SQLite takes "
        "%ld",
        path, strlen(full), most_path - suffix);
  return ARKE_OK;
}
