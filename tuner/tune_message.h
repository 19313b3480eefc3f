/* Messages between the tuner and its workers: a JSON object, then binary blobs, each a frame of its own.
 *
 * A frame is a 16-byte header in the machine's byte order (both ends run on one machine, from one program):
 *   u32 magic, u32 kind (0 JSON, 1 blob), u64 bytes of what follows.
 * The object's field "blobs" says how many blob frames follow it. Requests name what to do in "do"; a worker
 * answers each with any number of events (field "event") and one reply (field "status", an arke_status). */
#ifndef ARKE_TUNER_TUNE_MESSAGE_H
#define ARKE_TUNER_TUNE_MESSAGE_H

#include <jansson.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/strbuf.h"

#define TUNE_MESSAGE_BLOBS 64          /* more than the finalists of one request */
#define TUNE_JSON_BYTES    (16u << 20) /* a recipe is a few kilobytes; more is a broken stream */

typedef struct tune_blob {
  void *data; /* malloc'ed; one NUL byte stands after the data, so that text can be used as it is */
  size_t bytes;
} tune_blob;

typedef struct tune_message {
  json_t *body; /* an object */
  int n_blobs;
  tune_blob blobs[TUNE_MESSAGE_BLOBS];
} tune_message;

void tune_message_release(tune_message *m);
/* Copies the bytes into the next blob and returns its number, or -1 (memory, too many). */
int tune_message_add_blob(tune_message *m, const void *data, size_t bytes);
/* Takes blob `i` out of the message; its memory is then the caller's. Empty when there is none. */
tune_blob tune_message_take_blob(tune_message *m, int i);
/* Appends the frames to `out`. */
arke_status tune_message_encode(const tune_message *m, strbuf *out, arke_error *err);

/* Reads fields; a missing or wrongly typed one gives the fallback. Text lives as long as the message. */
const char *tune_message_text(const json_t *body, const char *name, const char *fallback);
double tune_message_number(const json_t *body, const char *name, double fallback);
int64_t tune_message_integer(const json_t *body, const char *name, int64_t fallback);

/* Bytes as they arrive, in any pieces, into messages. */
typedef struct tune_reader {
  strbuf bytes;
  size_t used; /* of bytes, already taken */
  tune_message partial;
  int awaited; /* blob frames still to come for `partial` */
} tune_reader;

void tune_reader_feed(tune_reader *r, const void *bytes, size_t n);
/* *got: a whole message was there and is now the caller's. ARKE_ERR_CORRUPT for a stream that is not ours. */
arke_status tune_reader_next(tune_reader *r, tune_message *m, bool *got, arke_error *err);
void tune_reader_release(tune_reader *r);

/* The worker's side: blocking. *eof: the other end closed the pipe between two messages. */
arke_status tune_message_read(int fd, tune_reader *r, tune_message *m, bool *eof, arke_error *err);
arke_status tune_message_write(int fd, const tune_message *m, arke_error *err);

#endif
