#include "tuner/cli_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tuner/cli_report.h"

#define COLOR_GOOD "\033[32m"
#define COLOR_BAD  "\033[31m"
#define COLOR_OFF  "\033[0m"

/* 0, or the errno of the write that failed. */
static int write_all(int fd, const char *bytes, size_t n) {
  while (n > 0) {
    ssize_t written = write(fd, bytes, n);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes += written;
    n -= (size_t)written;
  }
  return 0;
}

arke_status cli_print(const strbuf *text, arke_error *err) {
  if (strbuf_failed(text)) return error_memory(err, "output");
  int failure = write_all(STDOUT_FILENO, strbuf_text(text), text->length);
  if (failure == 0) return ARKE_OK;
  return error_set(err, ARKE_ERR_IO, "output", "writing to standard output failed: %s", strerror(failure));
}

arke_status cli_write_file(const char *path, const void *bytes, size_t n, arke_error *err) {
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  bool made = file >= 0;
  if (!made) file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return error_set(err, ARKE_ERR_IO, "output", "cannot write %s: %s", path, strerror(errno));
  int failure = write_all(file, bytes, n);
  if (close(file) != 0 && failure == 0) failure = errno; /* network file systems report a full disk here */
  if (failure == 0) return ARKE_OK;
  if (made) unlink(path); /* half a file would pass for a whole one */
  return error_set(err, ARKE_ERR_IO, "output", "writing %s failed: %s", path, strerror(failure));
}

arke_status cli_replace_file(const char *path, const void *bytes, size_t n, arke_error *err) {
  struct stat old;
  strbuf text = STRBUF_INIT;
  strbuf_addf(&text, "%s.part", path);
  if (strbuf_failed(&text)) return error_memory(err, "output");
  const char *part = strbuf_text(&text);
  bool plain = lstat(path, &old) == 0 ? S_ISREG(old.st_mode) : errno == ENOENT;
  int file = plain ? open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
  arke_status status;
  if (file < 0) { /* a device or a link; or the directory takes no other file */
    status = cli_write_file(path, bytes, n, err);
  } else {
    int failure = write_all(file, bytes, n);
    if (close(file) != 0 && failure == 0) failure = errno;
    if (failure == 0 && rename(part, path) != 0) failure = errno;
    if (failure != 0) unlink(part);
    status = failure == 0
                 ? ARKE_OK
                 : error_set(err, ARKE_ERR_IO, "output", "writing %s failed: %s", path, strerror(failure));
  }
  strbuf_free(&text);
  return status;
}

void cli_complain(const char *format, ...) {
  strbuf line = STRBUF_INIT;
  va_list args;
  strbuf_add(&line, "arke-tune: ");
  va_start(args, format);
  strbuf_vaddf(&line, format, args);
  va_end(args);
  for (size_t i = 0; i < line.length;
       i++) /* of a file's name, say; newlines are those of a notation's faults */
    if (((unsigned char)line.data[i] < 0x20 && line.data[i] != '\n') || line.data[i] == 0x7f)
      line.data[i] = '?';
  strbuf_add(&line, "\n");
  write_all(STDERR_FILENO, strbuf_text(&line), line.length);
  strbuf_free(&line);
}

bool cli_wants_color(bool terminal) {
  const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
  return terminal && (no_color == NULL || no_color[0] == '\0') && term != NULL && strcmp(term, "dumb") != 0;
}

static const char *phase_name(tune_phase phase) {
  switch (phase) {
  case TUNE_RANKING: return "ranking";
  case TUNE_COMPILING: return "compiling";
  case TUNE_VERIFYING: return "verifying";
  case TUNE_MEASURING: return "measuring";
  case TUNE_FINALS: return "finals";
  case TUNE_DONE: return "done";
  }
  return "working";
}

void cli_progress_text(const tune_progress *now, bool color, strbuf *out) {
  strbuf_add(out, phase_name(now->phase));
  if (now->total > 0) strbuf_addf(out, " %d/%d", now->done, now->total); /* while ranking none is known */
  if (now->best_ns > 0) {
    strbuf_addf(out, "  best %s", color ? COLOR_GOOD : "");
    cli_time_print(now->best_ns, out);
    strbuf_add(out, color ? COLOR_OFF : "");
  }
  if (cli_failed_total(now->failed) > 0) {
    strbuf_addf(out, "  failed %s", color ? COLOR_BAD : "");
    cli_failed_print(now->failed, out);
    strbuf_add(out, color ? COLOR_OFF : "");
  }
  strbuf_addf(out, "  %.0f s", now->elapsed_s);
  if (now->left_s >= 0) strbuf_addf(out, ", %.0f s left", now->left_s);
}

void cli_progress_start(cli_progress *p, const char *label) {
  *p = (cli_progress){.label = label, .terminal = isatty(STDERR_FILENO) == 1};
  p->color = cli_wants_color(p->terminal);
}

static int terminal_width(void) {
  struct winsize size;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

/* Redraws with a carriage return and spaces alone: that works on every terminal, NO_COLOR or not. */
static void redraw(cli_progress *p, const tune_progress *now) {
  strbuf plain = STRBUF_INIT, line = STRBUF_INIT;
  strbuf_add(&plain, p->label);
  cli_progress_text(now, false, &plain);
  int width = (int)plain.length, room = terminal_width() - 1;
  strbuf_add(&line, "\r");
  if (width > room) {
    width = room;
    strbuf_add_bytes(&line, strbuf_text(&plain), (size_t)width);
  } else {
    strbuf_add(&line, p->label);
    cli_progress_text(now, p->color, &line);
  }
  if (p->shown_width > width) strbuf_addf(&line, "%*s", p->shown_width - width, "");
  write_all(STDERR_FILENO, strbuf_text(&line), line.length);
  p->shown_width = width;
  strbuf_free(&plain);
  strbuf_free(&line);
}

void cli_progress_show(const tune_progress *now, void *user) {
  enum { PLAIN_INTERVAL_S = 5 };
  cli_progress *p = user;
  if (now->interrupted && !p->interrupted) {
    p->interrupted = true;
    cli_progress_end(p);
    cli_complain(
        "interrupted; the best so far is completed, for at most 30 s: a second Ctrl-C ends that at once");
  }
  if (p->terminal) {
    redraw(p, now);
    return;
  }
  bool due = !p->started || now->phase != p->phase || now->elapsed_s - p->last_s >= PLAIN_INTERVAL_S;
  p->started = true;
  p->phase = now->phase;
  if (!due) return;
  strbuf line = STRBUF_INIT;
  strbuf_add(&line, p->label);
  cli_progress_text(now, false, &line);
  strbuf_add(&line, "\n");
  write_all(STDERR_FILENO, strbuf_text(&line), line.length);
  strbuf_free(&line);
  p->last_s = now->elapsed_s;
}

void cli_progress_end(cli_progress *p) {
  if (p->shown_width == 0) return;
  strbuf line = STRBUF_INIT;
  strbuf_addf(&line, "\r%*s\r", p->shown_width, "");
  write_all(STDERR_FILENO, strbuf_text(&line), line.length);
  strbuf_free(&line);
  p->shown_width = 0;
}
