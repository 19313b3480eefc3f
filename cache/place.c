#include "cache/place.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strbuf.h"

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
  return error_set(err, ARKE_ERR_IO, "cache",
                   "cache file %s was %s while it was in use: what was stored in it meanwhile is lost", path,
                   gone ? "removed" : "replaced by another file");
}

/* With links followed, as SQLite does; where there is no file yet, those of its directory. */
static bool full_path(const char *path, strbuf *full) {
  char real[PATH_MAX];
  if (realpath(path, real) != NULL) {
    strbuf_add(full, real);
    return !strbuf_failed(full);
  }
  const char *slash = strrchr(path, '/');
  strbuf directory = STRBUF_INIT;
  strbuf_addf(&directory, "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1, slash == NULL ? "." : path);
  bool found = !strbuf_failed(&directory) && realpath(strbuf_text(&directory), real) != NULL;
  if (found) strbuf_addf(full, "%s/%s", real, slash == NULL ? path : slash + 1);
  strbuf_free(&directory);
  return found && !strbuf_failed(full);
}

arke_status place_check_name(const char *path, bool write, arke_error *err) {
  strbuf full = STRBUF_INIT;
  arke_status status = ARKE_OK;
  if (full_path(path, &full)) { /* else there is no such directory, which others say */
    const char *text = strbuf_text(&full), *name = strrchr(text, '/') + 1;
    long most = pathconf(path, _PC_NAME_MAX), suffix = (long)strlen(LONGEST_SUFFIX);
    if (most <= 0) most = NAME_MAX;
    long most_path = sqlite3_vfs_find(NULL)->mxPathname;
    if (write && (long)strlen(name) + suffix > most)
      status = error_set(err, ARKE_ERR_IO, "cache",
                         "the name of cache file %s is too long: it has %zu bytes, and can have %ld with %s, "
                         "which SQLite puts behind it",
                         path, strlen(name), most - suffix, LONGEST_SUFFIX);
    else if ((long)full.length + suffix > most_path)
      status =
          error_set(err, ARKE_ERR_IO, "cache",
                    "the path of cache file %s is too long: from the root on it has %zu bytes, and SQLite "
                    "takes %ld",
                    path, full.length, most_path - suffix);
  }
  strbuf_free(&full);
  return status;
}
