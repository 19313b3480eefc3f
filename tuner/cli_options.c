#include "tuner/cli_options.h"

#include <stdarg.h>
#include <string.h>

#include "base/text.h"

const cli_command_row cli_command_table[CLI_COMMAND_COUNT] = {
#define X(NAME, name, operands, text) {name, operands, text},
    CLI_COMMANDS(X)
#undef X
};

const cli_option_row cli_option_table[CLI_OPTION_COUNT] = {
#define X(NAME, name, letter, argument, value, commands, help)                                               \
  {name, letter, argument, value, commands, help},
    CLI_OPTIONS(X)
#undef X
};

/* In the order of cli_command. */
static const char command_letters[] = "tsbfc";
_Static_assert(sizeof command_letters == CLI_COMMAND_COUNT + 1, "one letter a command");

bool cli_option_accepts(cli_option option, cli_command command) {
  return strchr(cli_option_table[option].commands, command_letters[command]) != NULL;
}

static const char *masked(char *copy) {
  if (copy == NULL) return "";
  for (char *c = copy; *c != '\0'; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
  return copy;
}

const char *cli_sentence(arena *a, const char *text) {
  return masked(arena_strdup(a, text));
}

const char *cli_printable(arena *a, const char *text) {
  enum { LONGEST = 80 };
  if (text == NULL) return "";
  if (text[0] == '\0') return "''";
  size_t n = strlen(text), kept = n > LONGEST ? LONGEST : n;
  while (kept < n && kept > 0 && ((unsigned char)text[kept] & 0xc0) == 0x80)
    kept--; /* whole UTF-8 characters */
  return masked(kept < n ? arena_printf(a, "%.*s...", (int)kept, text) : arena_strdup(a, text));
}

const char *cli_quoted(arena *a, const char *text, size_t length) {
  const char *copy = arena_strndup(a, text, length);
  const char *quoted = length == 0 ? "''" : arena_printf(a, "'%s'", cli_printable(a, copy));
  return quoted == NULL ? "" : quoted;
}

arke_status cli_usage(arke_error *err, const char *format, ...) {
  va_list args;
  va_start(args, format);
  arke_status status = error_vset(err, ARKE_ERR_ARGUMENT, CLI_USAGE, format, args);
  va_end(args);
  return status;
}

int cli_exit_status(arke_status status, const arke_error *err) {
  if (status == ARKE_OK) return 0;
  if (status == ARKE_ERR_INTERRUPTED) return 130;
  return strcmp(err->stage, CLI_USAGE) == 0 ? 2 : 1;
}

static const char *command_title(cli_command command) {
  return command == CLI_TUNE ? "tuning one problem" : cli_command_table[command].name;
}

/* "tuning one problem, bench". */
static const char *commands_accepting(arena *a, cli_option option) {
  const char *list = "";
  for (int c = 0; c < CLI_COMMAND_COUNT; c++) {
    if (!cli_option_accepts(option, (cli_command)c)) continue;
    list = arena_printf(a, "%s%s%s", list, list[0] == '\0' ? "" : ", ", command_title((cli_command)c));
    if (list == NULL) return "";
  }
  return list;
}

static arke_status unknown_option(arena *a, cli_command command, const char *name, const char *found,
                                  arke_error *err) {
  const char *names[CLI_OPTION_COUNT];
  size_t n = 0;
  for (int i = 0; i < CLI_OPTION_COUNT; i++)
    if (cli_option_accepts((cli_option)i, command)) names[n++] = cli_option_table[i].name;
  const char *nearest = text_nearest(name, names, n);
  const char *space = command == CLI_TUNE ? "" : " ";
  if (nearest != NULL)
    return cli_usage(err, "unknown option %s; did you mean --%s? 'arke-tune%s%s --help' lists the options",
                     cli_printable(a, found), nearest, space, cli_command_table[command].name);
  return cli_usage(err, "unknown option %s; 'arke-tune%s%s --help' lists the options",
                   cli_printable(a, found), space, cli_command_table[command].name);
}

/* The option that `word` ("--x", "--x=v" or "-o") names; CLI_OPTION_COUNT if there is none. *value points at
 * what follows the '=', or is NULL. `name` gets the bare name. */
static cli_option find_option(const char *word, char name[64], const char **value) {
  *value = NULL;
  name[0] = '\0';
  if (word[1] != '-') {
    for (int i = 0; i < CLI_OPTION_COUNT; i++)
      if (cli_option_table[i].letter == word[1] && word[2] == '\0') return (cli_option)i;
    return CLI_OPTION_COUNT;
  }
  const char *equals = strchr(word, '=');
  size_t length = equals == NULL ? strlen(word + 2) : (size_t)(equals - word - 2);
  if (length >= 64) return CLI_OPTION_COUNT;
  memcpy(name, word + 2, length);
  name[length] = '\0';
  if (equals != NULL) *value = equals + 1;
  for (int i = 0; i < CLI_OPTION_COUNT; i++)
    if (strcmp(cli_option_table[i].name, name) == 0) return (cli_option)i;
  return CLI_OPTION_COUNT;
}

/* Whether a word names an option, so that it is hardly meant as the argument of the one before it;
 * --option=word takes any. */
static bool is_option(const char *word) {
  char name[64];
  const char *value;
  return word[0] == '-' && find_option(word, name, &value) != CLI_OPTION_COUNT;
}

static cli_command find_command(const char *word) {
  for (int c = CLI_TUNE + 1; c < CLI_COMMAND_COUNT; c++)
    if (strcmp(cli_command_table[c].name, word) == 0) return (cli_command)c;
  return CLI_COMMAND_COUNT;
}

static arke_status superfluous_operand(arena *a, const char *word, arke_error *err) {
  const char *names[CLI_COMMAND_COUNT];
  const char *list = "";
  size_t n = 0;
  for (int c = CLI_TUNE + 1; c < CLI_COMMAND_COUNT; c++) {
    names[n++] = cli_command_table[c].name;
    list = arena_printf(a, "%s%s%s", list, c == CLI_TUNE + 1 ? "" : ", ", cli_command_table[c].name);
    if (list == NULL) return error_memory(err, "usage");
  }
  const char *nearest = text_nearest(word, names, n);
  return cli_usage(err, "unknown sub-command %s;%s%s%s the sub-commands are: %s", cli_printable(a, word),
                   nearest == NULL ? "" : " did you mean ", nearest == NULL ? "" : nearest,
                   nearest == NULL ? "" : "?", list);
}

static arke_status take_option(int argc, char **argv, int *i, arena *a, cli_line *line, arke_error *err) {
  char name[64];
  const char *value;
  const char *word = argv[*i];
  cli_option option = find_option(word, name, &value);
  if (option == CLI_OPTION_COUNT) return unknown_option(a, line->command, name, word, err);
  const cli_option_row *row = &cli_option_table[option];
  if (!cli_option_accepts(option, line->command))
    return cli_usage(err, "--%s is not an option of %s; it is one of: %s", row->name,
                     command_title(line->command), commands_accepting(a, option));
  if (row->argument == NULL && value != NULL)
    return cli_usage(err, "--%s=%s: --%s takes no argument", row->name, cli_printable(a, value), row->name);
  if (row->argument != NULL && value == NULL) {
    if (*i + 1 >= argc || is_option(argv[*i + 1]))
      return cli_usage(err, "--%s needs an argument: --%s %s", row->name, row->name, row->argument);
    value = argv[++*i];
  }
  if (line->given[option]) return cli_usage(err, "--%s is given twice; it is accepted once", row->name);
  line->given[option] = true;
  line->texts[option] = value == NULL ? "" : value;
  return ARKE_OK;
}

arke_status cli_parse(int argc, char **argv, arena *a, cli_line *line, arke_error *err) {
  *line = (cli_line){.program = argc > 0 ? argv[0] : "arke-tune", .command = CLI_TUNE};
  for (int i = 0; i < CLI_OPTION_COUNT; i++) line->texts[i] = cli_option_table[i].value;
  const char **operands = arena_array(a, (size_t)argc + 1, sizeof *operands);
  if (operands == NULL) return error_memory(err, "usage");
  line->operands = operands;
  bool options_ended = false;
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i];
    if (!options_ended && strcmp(word, "--") == 0) {
      options_ended = true;
    } else if (!options_ended && word[0] == '-' && word[1] != '\0') {
      TRY(take_option(argc, argv, &i, a, line, err));
    } else if (i == 1 && find_command(word) != CLI_COMMAND_COUNT) {
      line->command = find_command(word);
    } else {
      operands[line->n_operands++] = word;
    }
  }
  if (line->command == CLI_TUNE && line->n_operands > 0 && !line->given[CLI_OPT_HELP])
    return superfluous_operand(a, operands[0], err);
  return ARKE_OK;
}
