/* The options of arke-tune as one table: parsing, help, docs/command.md's check and the sentences about bad
 * usage come from it. Parsing only splits the command line; cli_settings.h gives the texts their meaning. */
#ifndef ARKE_TUNER_CLI_OPTIONS_H
#define ARKE_TUNER_CLI_OPTIONS_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"

/* X(NAME, name, operands, one line). The first is what happens without a sub-command. */
#define CLI_COMMANDS(X)                                                                                      \
  X(TUNE, "", "", "tune one problem: find, verify and store the best kernel")                                \
  X(SWEEP, "sweep", "FILE", "tune every problem of a workload file; run it again to resume")                 \
  X(BENCH, "bench", "", "compare with cuBLAS, and measure launching, compiling and tuning")                  \
  X(SELFTEST, "selftest", "", "check a device against the emulator and the fp64 reference")                  \
  X(CACHE, "cache", "ls|verify|merge [FILE...]", "list, check or join tuned cache files")

typedef enum cli_command {
#define X(NAME, name, operands, text) CLI_##NAME,
  CLI_COMMANDS(X)
#undef X
      CLI_COMMAND_COUNT,
} cli_command;

typedef struct cli_command_row {
  const char *name, *operands, *text;
} cli_command_row;
extern const cli_command_row cli_command_table[CLI_COMMAND_COUNT];

/* X(NAME, long name, short letter or 0, argument or NULL, default or NULL, commands, help). `commands` is the
 * letters of those that accept it: t(une) s(weep) b(ench) f (selftest) c(ache). */
#define CLI_OPTIONS(X)                                                                                       \
  X(OP, "op", 0, "NAME", NULL, "tb", "operator; --list-ops shows them all")                                  \
  X(DEFINE, "define", 0, "TEXT", NULL, "tb", "an operator of your own, in the notation of docs/notation.md") \
  X(SHAPE, "shape", 0, "AxBx...", NULL, "tb",                                                                \
    "sizes, in the order that --list-ops shows (MxNxK for matmul; as the signature names them with "         \
    "--define), or by name: M=64,N=8")                                                                       \
  X(DTYPE, "dtype", 0, "NAME", "bf16", "tbf",                                                                \
    "element type of the tensors; where there are several, one each in order, or by name: T=bf16,U=e4m3; "   \
    "an operator that is not for bf16 has the first of its types as default")                                \
  X(ATTR, "attr", 0, "A=V,...", NULL, "tb", "attributes of the operator, such as eps=1e-5")                  \
  X(TARGET, "target", 0, "NAME", NULL, "tsbf", "GPU target; the device's own, or sm_90a without a GPU")      \
  X(DEVICE, "device", 0, "auto|cuda[:i]|emulator|model", "auto", "tsbf",                                     \
    "where to verify and measure; auto is the GPU if there is one, else model")                              \
  X(BUDGET, "budget", 0, "TIME", "60s", "tsbf",                                                              \
    "time for one problem: 500ms, 60s, 2m, 1h; no limit for --effort exhaustive unless given")               \
  X(TRIALS, "trials", 0, "N", NULL, "tsb", "compile at most N candidates of a problem")                      \
  X(EFFORT, "effort", 0, "quick|full|exhaustive", "full", "tsb", "how far to search")                        \
  X(CONFIG, "config", 0, "P=V,...", NULL, "t", "build this one configuration instead of searching")          \
  X(BUCKET, "bucket", 0, "A=LO..HI,...", NULL, "t", "sizes which the entry shall also serve")                \
  X(MATH, "math", 0, "exact|fast", "exact", "tsb",                                                           \
    "fast: the hardware's approximations, outside the accuracy that docs/tuning.md states")                  \
  X(CHECK_INDICES, "check-indices", 0, NULL, NULL, "tsb",                                                    \
    "kernels that read and write nothing where an index in a tensor is out of range")                        \
  X(CACHE, "cache", 0, "FILE", NULL, "tsb",                                                                  \
    "tuned cache; $XDG_CACHE_HOME/arke/tuned.arke or ~/.cache/arke/tuned.arke unless given")                 \
  X(WORKLOAD, "workload", 0, "FILE", NULL, "b", "compare every problem of a workload file")                  \
  X(BASELINE, "baseline", 0, "cublas", "cublas", "b", "library to compare with")                             \
  X(WHAT, "what", 0, "baseline|launch|compile|tuning|configs", "baseline", "b", "what to measure")           \
  X(CONFIGS, "configs", 0, "FILE", NULL, "b", "configurations to compare, one a line, for --what configs")   \
  X(BACK_TO_BACK, "back-to-back", 0, NULL, NULL, "b",                                                        \
    "time configurations run after run, in bursts, also where a search would flush the L2 before each run")  \
  X(ROUNDS, "rounds", 0, "N", "200", "b", "interleaved rounds of one comparison")                            \
  X(POWER, "power", 0, NULL, NULL, "b",                                                                      \
    "also the watts and joules of a run, a second more for each contestant of --what baseline")              \
  X(SEED, "seed", 0, "N", "0", "tsbf", "seed of the search, the inputs and the emulator")                    \
  X(JOBS, "jobs", 0, "N", NULL, "tsb", "compile workers; one per core unless given")                         \
  X(OUTPUT, "output", 'o', "FILE", NULL, "sbfc", "the file to write")                                        \
  X(DUMP, "dump", 0, "DIR", NULL, "t",                                                                       \
    "write operator, LLVM IR, PTX, cubin, recipe and trial of the winner")                                   \
  X(DRY_RUN, "dry-run", 0, NULL, NULL, "ts", "prune and rank only; nothing is compiled or stored")           \
  X(FORCE, "force", 0, NULL, NULL, "s", "tune also what the cache already holds")                            \
  X(JSON, "json", 0, NULL, NULL, "tsbfc", "print JSON, one object a line, instead of tables")                \
  X(LIST_OPS, "list-ops", 0, NULL, NULL, "t", "list the operators with their sizes and element types")       \
  X(LIST_CONFIGS, "list-configs", 0, NULL, NULL, "t", "list the tuning parameters of --op and --shape")      \
  X(HELP, "help", 'h', NULL, NULL, "tsbfc", "print this help")                                               \
  X(VERSION, "version", 0, NULL, NULL, "t", "print the versions of Arke and LLVM, and the targets")

/* X(option, command, help): instead of the help above, where an option is not the same to every command. */
#define CLI_COMMAND_HELPS(X)                                                                                 \
  X(BUDGET, SELFTEST, "time for the operators, which are many; each gets a like part of what is left")       \
  X(OUTPUT, SWEEP, "the cache file to write; the same as --cache")                                           \
  X(OUTPUT, BENCH, "JSON file to write the figures to")                                                      \
  X(OUTPUT, SELFTEST, "JSON file to write the report to, anew as it grows")                                  \
  X(OUTPUT, CACHE, "the cache file that merge writes")

typedef enum cli_option {
#define X(NAME, name, letter, argument, value, commands, help) CLI_OPT_##NAME,
  CLI_OPTIONS(X)
#undef X
      CLI_OPTION_COUNT,
} cli_option;

typedef struct cli_option_row {
  const char *name;
  char letter;
  const char *argument, *value, *commands, *help;
} cli_option_row;
extern const cli_option_row cli_option_table[CLI_OPTION_COUNT];

/* A command line, split. Texts are argv's. */
typedef struct cli_line {
  const char *program; /* argv[0] */
  cli_command command;
  const char *texts[CLI_OPTION_COUNT]; /* as given or by default; NULL: neither. A given flag has "" */
  bool given[CLI_OPTION_COUNT];
  int n_operands;
  const char *const *operands; /* arena */
} cli_line;

/* The stage of an error that is the user's: exit status 2. */
#define CLI_USAGE "usage"

/* Splits argv. "--x v" and "--x=v" are the same; "--" ends the options. A fault (unknown option or
 * sub-command, missing or superfluous argument, an option given twice) is ARKE_ERR_ARGUMENT of stage
 * CLI_USAGE. */
arke_status cli_parse(int argc, char **argv, arena *a, cli_line *line, arke_error *err);

bool cli_option_accepts(cli_option option, cli_command command);
void cli_help_print(cli_command command, strbuf *out);

/* `text` as it may stand in a sentence: control bytes as '?', at most 80 bytes; '' where it is empty. Arena
 * memory, "" when out. */
const char *cli_printable(arena *a, const char *text);
/* The same of a part of a text, between quotes. */
const char *cli_quoted(arena *a, const char *text, size_t length);
/* The same at its whole length: for a sentence that quotes what the user wrote. */
const char *cli_sentence(arena *a, const char *text);
/* Records a fault of the user's and returns ARKE_ERR_ARGUMENT. */
arke_status cli_usage(arke_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* 0, 1, 2 or 130, by what the issue of a run was. */
int cli_exit_status(arke_status status, const arke_error *err);

#endif
