/* The end of a handle, and whether its file is still where it was opened. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/store.h"

/* SQLite's name of the file: with links followed, as they were when it was opened. */
static const char *real_path(const cache *c) {
  return sqlite3_db_filename(c->db, "main");
}

arke_status store_note_place(cache *c, arke_error *err) {
  c->file = place_of(c->path);
  int moved = 0; /* between SQLite's opening it and now */
  sqlite3_file_control(c->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (moved) c->file = (place){0};
  return cache_check_place(c, err);
}

arke_status cache_check_place(const cache *c, arke_error *err) {
  return c->mode == CACHE_WRITE ? place_check(&c->file, c->path, err) : ARKE_OK;
}

/* The last writer leaves one self-contained file. While others have it open this fails at once, and the last
 * of them does it. */
static void leave_whole(cache *c) {
  sqlite3_exec(c->db, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
  sqlite3_close(c->db);
}

/* A file that was moved gets what is in its -wal, which stays behind under the old name. There it would be
 * taken for changes of a file that came in its place, so it goes, unless the name is another's by now. */
static void leave_moved(cache *c) {
  strbuf wal = STRBUF_INIT, shm = STRBUF_INIT;
  strbuf_add(&wal, sqlite3_filename_wal(real_path(c)));
  strbuf_addf(&shm, "%s-shm", real_path(c));
  sqlite3_exec(c->db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
  sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  bool ours = !strbuf_failed(&wal) && place_is(&c->wal, strbuf_text(&wal));
  sqlite3_close(c->db);
  if (ours) unlink(strbuf_text(&wal));
  if (ours && !strbuf_failed(&shm)) unlink(strbuf_text(&shm));
  strbuf_free(&wal);
  strbuf_free(&shm);
}

void cache_close(cache *c) {
  if (c == NULL) return;
  for (int i = 0; i < CACHE_SQL_COUNT; i++) sqlite3_finalize(c->statements[i]);
  if (c->leaves_wal) sqlite3_busy_timeout(c->db, 0);
  if (!c->leaves_wal)
    sqlite3_close(c->db);
  else if (place_is(&c->file, real_path(c)))
    leave_whole(c);
  else
    leave_moved(c);
  free(c->path);
  free(c);
}

void store_abandon(cache *c) {
  strbuf path = STRBUF_INIT;
  place file = c->file;
  if (file.known) strbuf_add(&path, real_path(c));
  cache_close(c);
  struct stat st;
  const char *name = strbuf_text(&path);
  if (!strbuf_failed(&path) && place_is(&file, name) && stat(name, &st) == 0 && st.st_size == 0) unlink(name);
  strbuf_free(&path);
}
