/* Moving a damaged or foreign file out of the way, once, whatever other processes do at the same time. */
#ifndef ARKE_CACHE_ASIDE_H
#define ARKE_CACHE_ASIDE_H

#include "base/arena.h"
#include "base/error.h"

/* Locks the directory of `path` against others who set files in it aside. -1 where that is not possible (some
 * network file systems); aside_unlock takes either. */
int aside_lock(const char *path);
void aside_unlock(int lock);

/* Renames PATH to PATH.damaged-N with the least N whose names are all free, and PATH-wal, -shm and -journal
 * alike. Nothing is ever overwritten. *name is the arena's. */
arke_status aside_rename(const char *path, arena *a, const char **name, arke_error *err);

#endif
