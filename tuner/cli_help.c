#include <string.h>

#include "tuner/cli_options.h"

/* Adds `text` in lines of at most `width` columns, continuation lines indented by `indent`. */
static void add_wrapped(strbuf *out, const char *text, size_t indent, size_t width) {
  size_t column = indent;
  while (*text != '\0') {
    size_t word = strcspn(text, " ");
    if (column > indent && column + 1 + word > width) {
      strbuf_addf(out, "\n%*s", (int)indent, "");
      column = indent;
    } else if (column > indent) {
      strbuf_add(out, " ");
      column++;
    }
    strbuf_add_bytes(out, text, word);
    column += word;
    text += word;
    text += strspn(text, " ");
  }
  strbuf_add(out, "\n");
}

static const char *help_of(cli_option option, cli_command command) {
#define X(NAME, COMMAND, text)                                                                               \
  if (option == CLI_OPT_##NAME && command == CLI_##COMMAND) return text;
  CLI_COMMAND_HELPS(X)
#undef X
  return cli_option_table[option].help;
}

static void add_option(strbuf *out, cli_option option, cli_command command) {
  const cli_option_row *row = &cli_option_table[option];
  enum { INDENT = 28, WIDTH = 100 };
  size_t start = out->length;
  if (row->letter != 0)
    strbuf_addf(out, "  -%c, --%s", row->letter, row->name);
  else
    strbuf_addf(out, "  --%s", row->name);
  if (row->argument != NULL) strbuf_addf(out, " %s", row->argument);
  size_t column = out->length - start;
  if (column + 2 > INDENT)
    strbuf_addf(out, "\n%*s", INDENT, "");
  else
    strbuf_addf(out, "%*s", (int)(INDENT - column), "");
  strbuf help = STRBUF_INIT;
  strbuf_add(&help, help_of(option, command));
  if (row->value != NULL) strbuf_addf(&help, " (default: %s)", row->value);
  add_wrapped(out, strbuf_text(&help), INDENT, WIDTH);
  if (help.failed) out->failed = true;
  strbuf_free(&help);
}

void cli_help_print(cli_command command, strbuf *out) {
  const cli_command_row *row = &cli_command_table[command];
  if (command == CLI_TUNE) {
    strbuf_add(out, "Usage: arke-tune --op NAME --shape AxBx... [options]\n");
    for (int c = CLI_TUNE + 1; c < CLI_COMMAND_COUNT; c++) {
      const cli_command_row *r = &cli_command_table[c];
      strbuf_addf(out, "       arke-tune %s%s%s [options]\n", r->name, r->operands[0] == '\0' ? "" : " ",
                  r->operands);
    }
    strbuf_add(
        out, "\nArke tunes GPU kernels for one operator and one shape, and stores the winner in a cache file "
             "that\nlibarke loads at inference, without a compiler.\n\nSub-commands:\n");
    for (int c = CLI_TUNE + 1; c < CLI_COMMAND_COUNT; c++)
      strbuf_addf(out, "  %-10s %s\n", cli_command_table[c].name, cli_command_table[c].text);
    strbuf_add(out, "'arke-tune SUB-COMMAND --help' tells its options.\n");
  } else {
    strbuf_addf(out, "Usage: arke-tune %s%s%s [options]\n\n%s\n", row->name,
                row->operands[0] == '\0' ? "" : " ", row->operands, row->text);
  }
  strbuf_add(out, "\nOptions:\n");
  for (int i = 0; i < CLI_OPTION_COUNT; i++)
    if (cli_option_accepts((cli_option)i, command)) add_option(out, (cli_option)i, command);
  if (command == CLI_TUNE)
    strbuf_add(out,
               "\nExit status: 0 done, 1 nothing worked, 2 bad usage, 130 interrupted (the best so far is "
               "stored).\n\nExamples:\n"
               "  arke-tune --op matmul --shape 4096x4096x4096\n"
               "  arke-tune --op linear --shape 1024x4096x4096 --dtype f16 --budget 2m --json\n"
               "  arke-tune sweep workloads/gemm-smoke.json -o tuned.arke\n");
}
