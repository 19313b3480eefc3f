/* Which file a path names. Somebody may remove, move or replace a cache while it is open: what is written
 * then goes to a file that nobody will find. */
#ifndef ARKE_CACHE_PLACE_H
#define ARKE_CACHE_PLACE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

typedef struct place {
  bool known;
  dev_t device;
  ino_t inode;
} place;

/* Follows links. Not known: no such file, or out of reach. */
place place_of(const char *path);
/* Whether the path names this file now; never for a place that is not known. */
bool place_is(const place *p, const char *path);
/* ARKE_ERR_IO with what became of the cache file `path`, unless it is still the file at `p`. */
arke_status place_check(const place *p, const char *path, arke_error *err);

/* ARKE_ERR_IO where the path of a cache file is longer than SQLite takes, or, to write it, its name than the
 * file system takes with what SQLite puts behind it for the files beside. */
arke_status place_check_name(const char *path, bool write, arke_error *err);

#endif
