#include "tuner/tune_message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAGE "worker"
#define MAGIC 0x464B5241u /* "ARKF" */

enum { FRAME_JSON, FRAME_BLOB };

typedef struct frame_header {
  uint32_t magic, kind;
  uint64_t bytes;
} frame_header;

void tune_message_release(tune_message *m) {
  json_decref(m->body);
  for (int i = 0; i < m->n_blobs; i++) free(m->blobs[i].data);
  *m = (tune_message){0};
}

static bool blob_copy(tune_blob *blob, const void *data, size_t bytes) {
  char *copy = malloc(bytes + 1);
  if (!copy) return false;
  if (bytes) memcpy(copy, data, bytes);
  copy[bytes] = '\0';
  *blob = (tune_blob){copy, bytes};
  return true;
}

int tune_message_add_blob(tune_message *m, const void *data, size_t bytes) {
  if (m->n_blobs == TUNE_MESSAGE_BLOBS || !blob_copy(&m->blobs[m->n_blobs], data, bytes)) return -1;
  return m->n_blobs++;
}

tune_blob tune_message_take_blob(tune_message *m, int i) {
  if (i < 0 || i >= m->n_blobs) return (tune_blob){NULL, 0};
  tune_blob blob = m->blobs[i];
  m->blobs[i] = (tune_blob){NULL, 0};
  return blob;
}

static void add_frame(strbuf *out, uint32_t kind, const void *data, size_t bytes) {
  frame_header h = {MAGIC, kind, bytes};
  strbuf_add_bytes(out, &h, sizeof h);
  strbuf_add_bytes(out, data, bytes);
}

arke_status tune_message_encode(const tune_message *m, strbuf *out, arke_error *err) {
  if (!m->body || json_object_set_new(m->body, "blobs", json_integer(m->n_blobs)) != 0)
    return error_memory(err, STAGE);
  char *text = json_dumps(m->body, JSON_COMPACT);
  if (!text) return error_memory(err, STAGE);
  add_frame(out, FRAME_JSON, text, strlen(text));
  free(text);
  for (int i = 0; i < m->n_blobs; i++) add_frame(out, FRAME_BLOB, m->blobs[i].data, m->blobs[i].bytes);
  return strbuf_failed(out) ? error_memory(err, STAGE) : ARKE_OK;
}

const char *tune_message_text(const json_t *body, const char *name, const char *fallback) {
  const char *text = json_string_value(json_object_get(body, name));
  return text ? text : fallback;
}

double tune_message_number(const json_t *body, const char *name, double fallback) {
  const json_t *v = json_object_get(body, name);
  return json_is_number(v) ? json_number_value(v) : fallback;
}

int64_t tune_message_integer(const json_t *body, const char *name, int64_t fallback) {
  const json_t *v = json_object_get(body, name);
  return json_is_integer(v) ? json_integer_value(v) : fallback;
}

void tune_reader_feed(tune_reader *r, const void *bytes, size_t n) {
  if (r->used == r->bytes.length) {
    strbuf_clear(&r->bytes);
    r->used = 0;
  }
  strbuf_add_bytes(&r->bytes, bytes, n);
}

void tune_reader_release(tune_reader *r) {
  strbuf_free(&r->bytes);
  tune_message_release(&r->partial);
  *r = (tune_reader){0};
}

static arke_status broken(arke_error *err, const char *what) {
  return error_set(err, ARKE_ERR_CORRUPT, STAGE, "the stream from a worker is broken: %s", what);
}

static arke_status take_json(tune_reader *r, const char *text, size_t bytes, arke_error *err) {
  json_error_t parse;
  r->partial.body = json_loadb(text, bytes, 0, &parse);
  if (!json_is_object(r->partial.body)) return broken(err, "a message is not a JSON object");
  int64_t blobs = tune_message_integer(r->partial.body, "blobs", -1);
  if (blobs < 0 || blobs > TUNE_MESSAGE_BLOBS) return broken(err, "its number of blobs is out of range");
  r->awaited = (int)blobs;
  return ARKE_OK;
}

/* One frame, if it is there whole. */
static arke_status take_frame(tune_reader *r, bool *got, arke_error *err) {
  *got = false;
  size_t have = r->bytes.length - r->used;
  frame_header h;
  if (have < sizeof h) return ARKE_OK;
  memcpy(&h, r->bytes.data + r->used, sizeof h);
  uint32_t expected = r->partial.body ? FRAME_BLOB : FRAME_JSON;
  uint64_t limit = expected == FRAME_JSON ? TUNE_JSON_BYTES : LIMIT_KERNEL_BYTES;
  if (h.magic != MAGIC || h.kind != expected || h.bytes > limit)
    return broken(err, "a frame header is invalid");
  if (have - sizeof h < h.bytes) return ARKE_OK;
  const char *data = r->bytes.data + r->used + sizeof h;
  if (expected == FRAME_JSON) {
    TRY(take_json(r, data, h.bytes, err));
  } else {
    if (tune_message_add_blob(&r->partial, data, h.bytes) < 0) return error_memory(err, STAGE);
    r->awaited--;
  }
  r->used += sizeof h + h.bytes;
  *got = true;
  return ARKE_OK;
}

arke_status tune_reader_next(tune_reader *r, tune_message *m, bool *got, arke_error *err) {
  *got = false;
  if (strbuf_failed(&r->bytes)) return error_memory(err, STAGE);
  for (bool more = true; more;) {
    TRY(take_frame(r, &more, err));
    if (more && r->awaited == 0) {
      *m = r->partial;
      r->partial = (tune_message){0};
      *got = true;
      return ARKE_OK;
    }
  }
  return ARKE_OK;
}

arke_status tune_message_read(int fd, tune_reader *r, tune_message *m, bool *eof, arke_error *err) {
  *eof = false;
  for (;;) {
    bool got;
    TRY(tune_reader_next(r, m, &got, err));
    if (got) return ARKE_OK;
    char piece[65536];
    ssize_t n = read(fd, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error_set(err, ARKE_ERR_IO, STAGE, "reading a request failed: %s", strerror(errno));
    if (n == 0) {
      *eof = true;
      return ARKE_OK;
    }
    tune_reader_feed(r, piece, (size_t)n);
  }
}

arke_status tune_message_write(int fd, const tune_message *m, arke_error *err) {
  strbuf out = STRBUF_INIT;
  arke_status status = tune_message_encode(m, &out, err);
  for (size_t done = 0; status == ARKE_OK && done < out.length;) {
    ssize_t n = write(fd, out.data + done, out.length - done);
    if (n >= 0)
      done += (size_t)n;
    else if (errno != EINTR)
      status = error_set(err, ARKE_ERR_IO, STAGE, "writing a reply failed: %s", strerror(errno));
  }
  strbuf_free(&out);
  return status;
}
