/* The SQL schema of the tuned store, whole and in one place (docs/cache.md explains every column).
 *
 * Opening a file compares what it says with this text, verbatim: any change here needs a new
 * CACHE_SCHEMA_VERSION. The column `seal` of a row is the checksum of its other columns, id included
 * (cache_seal.c); kernels carry the SHA-256 of their contents instead. */
#ifndef ARKE_CACHE_SCHEMA_H
#define ARKE_CACHE_SCHEMA_H

#define CACHE_APPLICATION_ID 0x41524B45 /* "ARKE": what file(1) and other programs see at offset 68 */
#define CACHE_SCHEMA_VERSION 1

/* X(name of the table or index, its definition as SQLite keeps it) */
#define CACHE_SCHEMA(X)                                                                                      \
  X(environments, "CREATE TABLE environments (\n"                                                            \
                  "  id INTEGER PRIMARY KEY,\n"                                                              \
                  "  device TEXT NOT NULL,\n"                                                                \
                  "  driver TEXT NOT NULL,\n"                                                                \
                  "  llvm TEXT NOT NULL,\n"                                                                  \
                  "  generator TEXT NOT NULL,\n"                                                             \
                  "  sm_count INTEGER NOT NULL,\n"                                                           \
                  "  clock_khz INTEGER NOT NULL,\n"                                                          \
                  "  memory_clock_khz INTEGER NOT NULL,\n"                                                   \
                  "  seal INTEGER NOT NULL,\n"                                                               \
                  "  UNIQUE (device, driver, llvm, generator, sm_count, clock_khz, memory_clock_khz)\n"      \
                  ")")                                                                                       \
  X(signatures, "CREATE TABLE signatures (\n"                                                                \
                "  id INTEGER PRIMARY KEY,\n"                                                                \
                "  op_name TEXT NOT NULL,\n"                                                                 \
                "  op_text TEXT NOT NULL,\n"                                                                 \
                "  tensors TEXT NOT NULL,\n"                                                                 \
                "  seal INTEGER NOT NULL,\n"                                                                 \
                "  UNIQUE (op_name, op_text)\n"                                                              \
                ")")                                                                                         \
  X(problems, "CREATE TABLE problems (\n"                                                                    \
              "  id INTEGER PRIMARY KEY,\n"                                                                  \
              "  signature INTEGER NOT NULL REFERENCES signatures (id),\n"                                   \
              "  target TEXT NOT NULL,\n"                                                                    \
              "  bindings TEXT NOT NULL,\n"                                                                  \
              "  ptx TEXT NOT NULL,\n"                                                                       \
              "  bucket TEXT NOT NULL,\n"                                                                    \
              "  seal INTEGER NOT NULL,\n"                                                                   \
              "  UNIQUE (signature, target, bindings, ptx)\n"                                                \
              ")")                                                                                           \
  X(trials, "CREATE TABLE trials (\n"                                                                        \
            "  id INTEGER PRIMARY KEY,\n"                                                                    \
            "  problem INTEGER NOT NULL REFERENCES problems (id),\n"                                         \
            "  environment INTEGER NOT NULL REFERENCES environments (id),\n"                                 \
            "  template TEXT NOT NULL,\n"                                                                    \
            "  config TEXT NOT NULL,\n"                                                                      \
            "  outcome TEXT NOT NULL,\n"                                                                     \
            "  reason TEXT NOT NULL,\n"                                                                      \
            "  model_ns REAL NOT NULL,\n"                                                                    \
            "  median_ns REAL NOT NULL,\n"                                                                   \
            "  p10_ns REAL NOT NULL,\n"                                                                      \
            "  p90_ns REAL NOT NULL,\n"                                                                      \
            "  samples INTEGER NOT NULL,\n"                                                                  \
            "  ptx_sha256 TEXT NOT NULL,\n"                                                                  \
            "  lower_ms REAL NOT NULL,\n"                                                                    \
            "  assemble_ms REAL NOT NULL,\n"                                                                 \
            "  registers INTEGER NOT NULL,\n"                                                                \
            "  spill_bytes INTEGER NOT NULL,\n"                                                              \
            "  stored_s INTEGER NOT NULL,\n"                                                                 \
            "  seal INTEGER NOT NULL,\n"                                                                     \
            "  UNIQUE (problem, template, config, environment)\n"                                            \
            ")")                                                                                             \
  X(kernels, "CREATE TABLE kernels (\n"                                                                      \
             "  id INTEGER PRIMARY KEY,\n"                                                                   \
             "  sha256 TEXT NOT NULL UNIQUE,\n"                                                              \
             "  recipe TEXT NOT NULL,\n"                                                                     \
             "  ptx BLOB NOT NULL,\n"                                                                        \
             "  cubin BLOB\n"                                                                                \
             ")")                                                                                            \
  X(winners, "CREATE TABLE winners (\n"                                                                      \
             "  problem INTEGER PRIMARY KEY REFERENCES problems (id),\n"                                     \
             "  environment INTEGER NOT NULL REFERENCES environments (id),\n"                                \
             "  kernel TEXT NOT NULL REFERENCES kernels (sha256),\n"                                         \
             "  template TEXT NOT NULL,\n"                                                                   \
             "  config TEXT NOT NULL,\n"                                                                     \
             "  origin TEXT NOT NULL,\n"                                                                     \
             "  median_ns REAL NOT NULL,\n"                                                                  \
             "  p10_ns REAL NOT NULL,\n"                                                                     \
             "  p90_ns REAL NOT NULL,\n"                                                                     \
             "  samples INTEGER NOT NULL,\n"                                                                 \
             "  policy TEXT NOT NULL,\n"                                                                     \
             "  published_s INTEGER NOT NULL,\n"                                                             \
             "  seal INTEGER NOT NULL\n"                                                                     \
             ")")                                                                                            \
  X(winners_by_kernel, "CREATE INDEX winners_by_kernel ON winners (kernel)")

#endif
