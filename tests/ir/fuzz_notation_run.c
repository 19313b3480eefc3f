/* fuzz_notation without libFuzzer: runs files as they are, or N mutations of the files of a directory; the
 * same ones every time. usage: fuzz_notation_run [--mutations N] [--seed S] FILE-OR-DIRECTORY… */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/random.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { MOST_FILES = 512, MOST_BYTES = 1 << 20 };

typedef struct corpus {
  char *text[MOST_FILES];
  size_t size[MOST_FILES];
  int n;
} corpus;

static void add_file(corpus *c, const char *path) {
  FILE *f = fopen(path, "rb");
  char *text = malloc(MOST_BYTES);
  if (f != NULL && text != NULL && c->n < MOST_FILES) {
    c->size[c->n] = fread(text, 1, MOST_BYTES, f);
    c->text[c->n++] = text;
    text = NULL;
  }
  free(text);
  if (f != NULL) fclose(f);
}

static void add_path(corpus *c, const char *path) {
  struct stat st;
  if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
    add_file(c, path);
    return;
  }
  struct dirent **entries;
  int n = scandir(path, &entries, NULL, alphasort);
  for (int i = 0; i < n; i++) {
    char inside[4096];
    snprintf(inside, sizeof inside, "%s/%s", path, entries[i]->d_name);
    if (entries[i]->d_name[0] != '.') add_file(c, inside);
    free(entries[i]);
  }
  if (n >= 0) free(entries);
}

typedef struct dice {
  uint64_t seed, counter;
} dice;

static size_t roll(dice *d, size_t n) {
  return n == 0 ? 0 : (size_t)(random_u64(d->seed, d->counter++) % n);
}

/* One to eight edits: a byte changed, removed or added, a piece copied from another text, a word put in. */
static size_t mutate(const corpus *c, dice *d, char *text, size_t size) {
  static const char *const WORDS[] = {
      "sum(", "max(", "else", "...",  "cast<", "topk(", "+=", "->", "{",   "}", "[", "]", "(", ")", " ? ",
      " : ",  "1e9",  "=",    "-inf", "2*",    "f32",   "&&", "||", "nan", "%", "/", "9", ",", ";", "i"};
  for (size_t edits = 1 + roll(d, 8); edits > 0; edits--) {
    size_t at = roll(d, size + 1), length = 0;
    const char *piece = NULL;
    char byte;
    switch (roll(d, 5)) {
    case 0:
      if (at < size) text[at] = (char)roll(d, 256);
      continue;
    case 1:
      length = 1 + roll(d, 8);
      if (at + length > size) continue;
      memmove(text + at, text + at + length, size - at - length);
      size -= length;
      continue;
    case 2:
      byte = (char)(' ' + roll(d, 95));
      piece = &byte;
      length = 1;
      break;
    case 3:
      piece = WORDS[roll(d, sizeof WORDS / sizeof WORDS[0])];
      length = strlen(piece);
      break;
    default: {
      size_t other = roll(d, (size_t)c->n), from = roll(d, c->size[other] + 1);
      length = roll(d, c->size[other] - from < 40 ? c->size[other] - from + 1 : 40);
      piece = c->text[other] + from;
      break;
    }
    }
    if (size + length > MOST_BYTES) continue;
    memmove(text + at + length, text + at, size - at);
    memcpy(text + at, piece, length);
    size += length;
  }
  return size;
}

int main(int argc, char **argv) {
  static corpus c;
  long mutations = 0;
  dice d = {.seed = 1};
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--mutations") == 0 && i + 1 < argc)
      mutations = strtol(argv[++i], NULL, 10);
    else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
      d.seed = strtoull(argv[++i], NULL, 10);
    else
      add_path(&c, argv[i]);
  }
  if (c.n == 0) {
    fprintf(stderr, "usage: fuzz_notation_run [--mutations N] [--seed S] FILE-OR-DIRECTORY…\n");
    return 2;
  }
  /* Case files end their operator where the expectations start. */
  for (int i = 0; i < c.n; i++)
    for (size_t at = 0; at + 4 <= c.size[i]; at++)
      if (memcmp(c.text[i] + at, "--- ", 4) == 0) c.size[i] = at;
  for (int i = 0; i < c.n; i++) LLVMFuzzerTestOneInput((const uint8_t *)c.text[i], c.size[i]);
  char *text = malloc(MOST_BYTES);
  for (long m = 0; text != NULL && m < mutations; m++) {
    size_t which = roll(&d, (size_t)c.n);
    memcpy(text, c.text[which], c.size[which]);
    LLVMFuzzerTestOneInput((const uint8_t *)text, mutate(&c, &d, text, c.size[which]));
  }
  free(text);
  for (int i = 0; i < c.n; i++) free(c.text[i]);
  printf("%d texts, %ld mutations\n", c.n, mutations);
  return 0;
}
