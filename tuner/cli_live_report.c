#include "tuner/cli_live_report.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tuner/cli_output.h"
#include "tuner/cli_report.h"

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void remember(cli_live_report *r, arke_status status, const arke_error *err) {
  if (status == ARKE_OK || r->status != ARKE_OK) return;
  r->status = error_set(&r->err, status, err->stage, "%s", err->text);
}

void cli_live_report_print(cli_live_report *r, const strbuf *text) {
  arke_error err = ARKE_ERROR_INIT;
  if (!r->json) remember(r, cli_print(text, &err), &err);
}

void cli_live_report_save(cli_live_report *r, double every_s) {
  arke_error err = ARKE_ERROR_INIT;
  if (r->path == NULL || now_s() - r->saved_s < every_s) return;
  char *text = json_dumps(r->root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  arke_status status =
      text == NULL ? error_memory(&err, "output") : cli_replace_file(r->path, text, strlen(text), &err);
  remember(r, status, &err);
  free(text);
  r->saved_s = now_s();
}

arke_status cli_live_report_end(cli_live_report *r, arke_error *err) {
  cli_live_report_save(r, 0);
  if (r->json) {
    arke_error printing = ARKE_ERROR_INIT;
    strbuf line = STRBUF_INIT;
    arke_status status = cli_json_line(json_incref(r->root), &line, &printing);
    if (status == ARKE_OK) status = cli_print(&line, &printing);
    remember(r, status, &printing);
    strbuf_free(&line);
  }
  return r->status == ARKE_OK ? ARKE_OK : error_set(err, r->status, r->err.stage, "%s", r->err.text);
}
