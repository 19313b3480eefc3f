#include "tests/ir/operator_cases.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_case(const struct dirent *entry) {
  const char *dot = strrchr(entry->d_name, '.');
  return dot != NULL && strcmp(dot, ".op") == 0;
}

int operator_cases_list(char ***names) {
  struct dirent **entries;
  int n = scandir(CASES_DIRECTORY, &entries, is_case, alphasort);
  if (n < 0) return 0;
  *names = calloc((size_t)n + 1, sizeof **names);
  for (int i = 0; i < n; i++) {
    if (*names != NULL) (*names)[i] = strdup(entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
  return *names == NULL ? 0 : n;
}

char *file_read(const char *path, size_t *bytes) {
  FILE *f = fopen(path, "rb");
  if (f == NULL) return NULL;
  char *text = NULL;
  long size = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
  if (size >= 0 && fseek(f, 0, SEEK_SET) == 0) text = calloc((size_t)size + 1, 1);
  if (text != NULL && fread(text, 1, (size_t)size, f) != (size_t)size) {
    free(text);
    text = NULL;
  }
  fclose(f);
  if (bytes != NULL) *bytes = text == NULL ? 0 : (size_t)size;
  return text;
}

/* "--- kind argument" */
static bool begin_section(char *line, case_section *s) {
  char *kind = line + 4;
  char *space = strchr(kind, ' ');
  if (space != NULL) *space = '\0';
  *s = (case_section){.kind = kind, .argument = space == NULL ? kind + strlen(kind) : space + 1};
  return true;
}

bool operator_case_read(const char *name, operator_case *c) {
  memset(c, 0, sizeof *c);
  snprintf(c->path, sizeof c->path, "%s/%s", CASES_DIRECTORY, name);
  c->storage = file_read(c->path, NULL);
  size_t lines = 1;
  for (const char *at = c->storage; at != NULL && *at != '\0'; at++) lines += *at == '\n';
  c->sections = calloc(lines, sizeof *c->sections);
  char **all = calloc(lines, sizeof *all);
  if (c->storage == NULL || c->sections == NULL || all == NULL) {
    fprintf(stderr, "cannot read %s\n", c->path);
    free(all);
    operator_case_free(c);
    return false;
  }
  c->text = c->storage;
  case_section *section = NULL;
  for (char *line = c->storage, *next; line != NULL; line = next) {
    next = strchr(line, '\n');
    bool starts = strncmp(line, "--- ", 4) == 0;
    if (next != NULL && (starts || section != NULL)) *next = '\0';
    if (next != NULL) next++;
    if (starts) {
      *line = '\0'; /* ends the operator's text */
      section = &c->sections[c->n_sections++];
      begin_section(line, section);
      section->lines = all;
    } else if (section != NULL && *line != '\0') {
      *all++ = line;
      section->n_lines++;
    }
  }
  if (section == NULL) free(all);
  return true;
}

void operator_case_free(operator_case *c) {
  if (c->n_sections > 0) free(c->sections[0].lines);
  free(c->sections);
  free(c->storage);
  memset(c, 0, sizeof *c);
}
