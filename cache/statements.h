/* Every SQL statement that works on rows. X(NAME, text); the parameters are bound in order by the one
 * function that uses the statement. Seals are computed and compared inside SQL by the function seal()
 * (cache_seal.c). */
#ifndef ARKE_CACHE_STATEMENTS_H
#define ARKE_CACHE_STATEMENTS_H

/* Checksums of one row; `t` qualifies its columns: "", "p." or "excluded.". The id is given apart, since an
 * update keeps the id of the row that is there. */
#define SEAL_ENVIRONMENT(id, t)                                                                              \
  "seal(" id "," t "device," t "driver," t "llvm," t "generator," t "sm_count," t "clock_khz," t             \
  "memory_clock_khz)"
#define SEAL_SIGNATURE(id, t) "seal(" id "," t "op_name," t "op_text," t "tensors)"
#define SEAL_PROBLEM(id, t)   "seal(" id "," t "signature," t "target," t "bindings," t "ptx," t "bucket)"
#define SEAL_TRIAL(id, t)                                                                                    \
  "seal(" id "," t "problem," t "environment," t "template," t "config," t "outcome," t "reason," t          \
  "model_ns," t "median_ns," t "p10_ns," t "p90_ns," t "samples," t "ptx_sha256," t "lower_ms," t            \
  "assemble_ms," t "registers," t "spill_bytes," t "stored_s)"
#define SEAL_WINNER(t)                                                                                       \
  "seal(" t "problem," t "environment," t "kernel," t "template," t "config," t "origin," t "median_ns," t   \
  "p10_ns," t "p90_ns," t "samples," t "policy," t "published_s)"

#define NEXT_ID(table) "(SELECT coalesce(max(id), 0) + 1 FROM " table ") AS id"

#define TRIAL_COLUMNS                                                                                        \
  "t.template, t.config, t.outcome, t.reason, t.model_ns, t.median_ns, t.p10_ns, t.p90_ns, t.samples, "      \
  "t.ptx_sha256, t.lower_ms, t.assemble_ms, t.registers, t.spill_bytes, t.stored_s, "                        \
  "t.seal = " SEAL_TRIAL("t.id", "t.")

#define ENVIRONMENT_COLUMNS                                                                                  \
  "e.device, e.driver, e.llvm, e.generator, e.sm_count, e.clock_khz, e.memory_clock_khz, "                   \
  "e.seal = " SEAL_ENVIRONMENT("e.id", "e.")

#define SIGNATURE_COLUMNS "s.id, s.op_name, s.op_text, s.tensors, s.seal = " SEAL_SIGNATURE("s.id", "s.")
#define PROBLEM_COLUMNS   "p.id, p.bindings, p.target, p.ptx, p.bucket, p.seal = " SEAL_PROBLEM("p.id", "p.")

/* CROSS JOIN fixes the order: signatures by name, problems by (signature, target[, bindings]), the rest by
 * id. */
#define SELECT_ENTRY                                                                                         \
  "SELECT " SIGNATURE_COLUMNS ", " PROBLEM_COLUMNS ", e.id, " ENVIRONMENT_COLUMNS                            \
  ", w.kernel, w.template, w.config, w.origin, w.median_ns, w.p10_ns, w.p90_ns, w.samples, w.policy, "       \
  "w.published_s, w.seal = " SEAL_WINNER("w.") " FROM signatures s CROSS JOIN problems p ON p.signature = "  \
                                               "s.id CROSS JOIN winners w ON w.problem = p.id "              \
                                               "CROSS JOIN environments e ON e.id = w.environment "

#define CACHE_STATEMENTS(X)                                                                                  \
  X(BEGIN, "BEGIN IMMEDIATE")                                                                                \
  X(COMMIT, "COMMIT")                                                                                        \
  X(ENVIRONMENT_FIND,                                                                                        \
    "SELECT id FROM environments WHERE device = ?1 AND driver = ?2 AND llvm = ?3 AND generator = ?4 AND "    \
    "sm_count = ?5 AND clock_khz = ?6 AND memory_clock_khz = ?7 AND seal = " SEAL_ENVIRONMENT("id", ""))     \
  X(ENVIRONMENT_PUT,                                                                                         \
    "INSERT INTO environments SELECT *, " SEAL_ENVIRONMENT("id", "") " FROM (SELECT " NEXT_ID(               \
        "environments") ", ?1 AS device, ?2 AS driver, ?3 AS llvm, ?4 AS generator, ?5 AS sm_count, "        \
                        "?6 AS clock_khz, ?7 AS memory_clock_khz) WHERE true "                               \
                        "ON CONFLICT (device, driver, llvm, generator, sm_count, clock_khz, "                \
                        "memory_clock_khz) DO UPDATE SET device = excluded.device, driver = "                \
                        "excluded.driver, llvm = excluded.llvm, generator = excluded.generator, sm_count = " \
                        "excluded.sm_count, clock_khz = excluded.clock_khz, memory_clock_khz = "             \
                        "excluded.memory_clock_khz, seal = " SEAL_ENVIRONMENT("environments.id",             \
                                                                              "excluded."))                  \
  X(SIGNATURE_FIND, "SELECT id FROM signatures WHERE op_name = ?1 AND op_text = ?2 AND tensors = ?3 AND "    \
                    "seal = " SEAL_SIGNATURE("id", ""))                                                      \
  X(SIGNATURE_PUT,                                                                                           \
    "INSERT INTO signatures SELECT *, " SEAL_SIGNATURE("id", "") " FROM (SELECT " NEXT_ID(                   \
        "signatures") ", ?1 AS op_name, ?2 AS op_text, ?3 AS tensors) WHERE true ON CONFLICT (op_name, "     \
                      "op_text) DO UPDATE SET op_name = excluded.op_name, op_text = excluded.op_text, "      \
                      "tensors = excluded.tensors, seal = " SEAL_SIGNATURE("signatures.id", "excluded."))    \
  X(PROBLEM_FIND, "SELECT id, bucket FROM problems WHERE signature = ?1 AND target = ?2 AND bindings = ?3 "  \
                  "AND ptx = ?4 AND seal = " SEAL_PROBLEM("id", ""))                                         \
  X(PROBLEM_PUT,                                                                                             \
    "INSERT INTO problems SELECT *, " SEAL_PROBLEM("id", "") " FROM (SELECT " NEXT_ID(                       \
        "problems") ", ?1 AS signature, ?2 AS target, ?3 AS bindings, ?4 AS ptx, ?5 AS bucket) WHERE true "  \
                    "ON CONFLICT (signature, target, bindings, ptx) DO UPDATE SET signature = "              \
                    "excluded.signature, target = excluded.target, bindings = excluded.bindings, ptx = "     \
                    "excluded.ptx, bucket = excluded.bucket, seal = " SEAL_PROBLEM("problems.id",            \
                                                                                   "excluded."))             \
  X(TRIAL_AGE, "SELECT max(t.stored_s) FROM trials t, environments e, environments now WHERE t.problem = "   \
               "?1 AND now.id = ?2 AND t.template = ?3 AND t.config = ?4 AND e.id = t.environment AND "      \
               "e.device = now.device AND t.seal = " SEAL_TRIAL("t.id", "t."))                               \
  X(TRIAL_DROP, "DELETE FROM trials WHERE problem = ?1 AND template = ?3 AND config = ?4 AND environment "   \
                "IN (SELECT e.id FROM environments e, environments now WHERE now.id = ?2 AND e.device = "    \
                "now.device)")                                                                               \
  X(TRIAL_PUT,                                                                                               \
    "INSERT OR REPLACE INTO trials SELECT *, " SEAL_TRIAL("id", "") " FROM (SELECT " NEXT_ID(                \
        "trials") ", ?1 AS problem, ?2 AS environment, ?3 AS template, ?4 AS config, ?5 AS outcome, "        \
                  "?6 AS reason, ?7 AS model_ns, ?8 AS median_ns, ?9 AS p10_ns, ?10 AS p90_ns, "             \
                  "?11 AS samples, ?12 AS ptx_sha256, ?13 AS lower_ms, ?14 AS assemble_ms, "                 \
                  "?15 AS registers, ?16 AS spill_bytes, ?17 AS stored_s)")                                  \
  X(TRIALS, "SELECT " TRIAL_COLUMNS " FROM trials t JOIN environments e ON e.id = t.environment WHERE "      \
            "t.problem = ?1 AND e.device = ?2 AND e.generator = ?3")                                         \
  X(TRIALS_OF, "SELECT " TRIAL_COLUMNS ", " ENVIRONMENT_COLUMNS " FROM trials t JOIN environments e ON "     \
               "e.id = t.environment WHERE t.problem = ?1")                                                  \
  X(KERNEL_PUT, "INSERT INTO kernels (sha256, recipe, ptx, cubin) VALUES (?1, ?2, ?3, ?4) ON CONFLICT "      \
                "(sha256) DO UPDATE SET recipe = excluded.recipe, ptx = excluded.ptx, cubin = "              \
                "excluded.cubin")                                                                            \
  X(KERNEL_DROP, "DELETE FROM kernels WHERE sha256 = ?1 AND NOT EXISTS (SELECT 1 FROM winners WHERE kernel " \
                 "= ?1)")                                                                                    \
  X(KERNEL_GET, "SELECT sha256, recipe, ptx, cubin FROM kernels WHERE sha256 = ?1")                          \
  X(KERNELS, "SELECT sha256, recipe, ptx, cubin FROM kernels")                                               \
  X(WINNER_GET,                                                                                              \
    "SELECT w.environment, w.kernel, w.origin, w.median_ns, w.published_s, w.seal = " SEAL_WINNER(           \
        "w.") " FROM winners w WHERE w.problem = ?1")                                                        \
  X(WINNER_PUT,                                                                                              \
    "INSERT OR REPLACE INTO winners SELECT *, " SEAL_WINNER(                                                 \
        "") " FROM (SELECT ?1 AS problem, "                                                                  \
            "?2 AS environment, ?3 AS kernel, ?4 AS template, ?5 AS config, ?6 AS origin, ?7 AS median_ns, " \
            "?8 AS p10_ns, ?9 AS p90_ns, ?10 AS samples, ?11 AS policy, ?12 AS published_s)")                \
  X(ENTRY_FIND, SELECT_ENTRY "WHERE s.op_name = ?1 AND p.target = ?2 AND p.bindings = ?3 AND (?4 OR "        \
                             "w.origin = 'measured') ORDER BY w.origin = 'measured' DESC, w.median_ns")      \
  X(ENTRIES, SELECT_ENTRY "WHERE s.op_name BETWEEN ?1 AND ?2 AND p.target BETWEEN ?3 AND ?4")                \
  X(SIGNATURES, "SELECT " SIGNATURE_COLUMNS " FROM signatures s WHERE s.op_name BETWEEN ?1 AND ?2 AND "      \
                "EXISTS (SELECT 1 FROM problems p CROSS JOIN winners w ON w.problem = p.id WHERE "           \
                "p.signature = s.id AND p.target BETWEEN ?3 AND ?4)")                                        \
  X(PROBLEMS, "SELECT " SIGNATURE_COLUMNS ", " PROBLEM_COLUMNS " FROM problems p JOIN signatures s ON "      \
              "s.id = p.signature")                                                                          \
  X(COUNTS, "SELECT (SELECT count(*) FROM environments), (SELECT count(*) FROM problems), (SELECT count(*) " \
            "FROM trials), (SELECT count(*) FROM kernels), (SELECT count(*) FROM winners)")                  \
  X(UNSEALED,                                                                                                \
    "SELECT (SELECT count(*) FROM environments e WHERE e.seal IS NOT " SEAL_ENVIRONMENT(                     \
        "e.id", "e.") ") + "                                                                                 \
                      "(SELECT count(*) FROM signatures s WHERE s.seal IS NOT " SEAL_SIGNATURE(              \
                          "s.id",                                                                            \
                          "s.") ") + "                                                                       \
                                "(SELECT count(*) FROM problems p WHERE p.seal IS NOT " SEAL_PROBLEM(        \
                                    "p.id",                                                                  \
                                    "p.") ") + "                                                             \
                                          "(SELECT count(*) FROM trials t WHERE t.seal IS NOT " SEAL_TRIAL(  \
                                              "t.id", "t.") ") + "                                           \
                                                            "(SELECT count(*) FROM winners w WHERE w.seal "  \
                                                            "IS NOT " SEAL_WINNER("w.") ")")                 \
  X(HOMELESS, "SELECT count(*) FROM winners w WHERE NOT EXISTS (SELECT 1 FROM kernels k WHERE k.sha256 = "   \
              "w.kernel) OR NOT EXISTS (SELECT 1 FROM problems p WHERE p.id = w.problem)")

typedef enum cache_sql {
#define X(NAME, text) CACHE_SQL_##NAME,
  CACHE_STATEMENTS(X)
#undef X
      CACHE_SQL_COUNT,
} cache_sql;

#endif
