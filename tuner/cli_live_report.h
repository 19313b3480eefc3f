/* A report that grows while a long run goes on: lines on standard output as they come, and the JSON file
 * written anew now and then, so that whoever ends the program, in whatever way, keeps what was done. */
#ifndef ARKE_TUNER_CLI_LIVE_REPORT_H
#define ARKE_TUNER_CLI_LIVE_REPORT_H

#include <jansson.h>

#include "tuner/cli_options.h"

typedef struct cli_live_report {
  json_t *root;     /* the report's object; the owner fills it */
  const char *path; /* of the JSON file; NULL: none is written */
  bool json;        /* standard output gets the object as one line at the end, and no other line */
  double saved_s;   /* when the file was written last */
  arke_status status;
  arke_error err; /* the first line or file that could not be written */
} cli_live_report;

/* Prints the text at once, unless the report is for programs. */
void cli_live_report_print(cli_live_report *r, const strbuf *text);
/* Writes the file, unless it was written within the last `every_s` seconds. */
void cli_live_report_save(cli_live_report *r, double every_s);
/* Writes the file for the last time, and the line for programs. The first failure of all that was written. */
arke_status cli_live_report_end(cli_live_report *r, arke_error *err);

#endif
