/* Every SQL statement that works on rows. X(NAME, text); the parameters are bound in order by the one
 * function that uses the statement. Seals are computed and compared inside SQL by the function seal(), which
 * cache_seal.c adds. */
#ifndef ARKE_CACHE_STATEMENTS_H
#define ARKE_CACHE_STATEMENTS_H

/* SQL is laid out as SQL. */
/* clang-format off */

/* The columns of each table but its id and seal, in the order in which they are sealed; `t` qualifies them: "",
 * "t.", "excluded.". */
#define ENVIRONMENT_FIELDS(t) \
  t "device, " t "driver, " t "llvm, " t "generator, " t "sm_count, " t "clock_khz, " t "memory_clock_khz"
#define SIGNATURE_FIELDS(t) t "op_name, " t "op_text, " t "tensors"
#define PROBLEM_FIELDS(t)   t "signature, " t "target, " t "bindings, " t "ptx, " t "bucket"
#define TRIAL_FIELDS(t) \
  t "problem, " t "environment, " t "template, " t "config, " t "outcome, " t "reason, " t "model_ns, " \
  t "median_ns, " t "p10_ns, " t "p90_ns, " t "samples, " t "ptx_sha256, " t "lower_ms, " \
  t "assemble_ms, " t "registers, " t "spill_bytes, " t "stored_s"
#define WINNER_FIELDS(t) \
  t "problem, " t "environment, " t "kernel, " t "template, " t "config, " t "origin, " t "median_ns, " \
  t "p10_ns, " t "p90_ns, " t "samples, " t "policy, " t "published_s"

#define SEAL(id, fields)   "seal(" id ", " fields ")"
#define ENVIRONMENT_INTACT "e.seal = " SEAL("e.id", ENVIRONMENT_FIELDS("e."))
#define SIGNATURE_INTACT   "s.seal = " SEAL("s.id", SIGNATURE_FIELDS("s."))
#define PROBLEM_INTACT     "p.seal = " SEAL("p.id", PROBLEM_FIELDS("p."))
#define TRIAL_INTACT       "t.seal = " SEAL("t.id", TRIAL_FIELDS("t."))
#define WINNER_INTACT      "w.seal = seal(" WINNER_FIELDS("w.") ")"

/* A new row under the next id; `parameters` are named as the columns. */
#define INSERT_SEALED(verb, table, FIELDS, parameters) \
  verb " INTO " table " (id, " FIELDS("") ", seal) SELECT id, " FIELDS("") ", " SEAL("id", FIELDS("")) \
  " FROM (SELECT (SELECT coalesce(max(id), 0) + 1 FROM " table ") AS id, " parameters ")"

/* A row whose key the index already has keeps its id and is written anew: what differed was damage, or the bucket
 * of a problem. "WHERE true" keeps the parser from reading ON as part of a join. */
#define OR_REWRITE(table, key, FIELDS) \
  " WHERE true ON CONFLICT (" key ") DO UPDATE SET (" FIELDS("") ", seal) = (" FIELDS("excluded.") ", " \
  SEAL(table ".id", FIELDS("excluded.")) ")"

/* Groups of columns that one function reads (cache_get.c). */
#define SIGNATURE_COLUMNS   "s.id, " SIGNATURE_FIELDS("s.") ", " SIGNATURE_INTACT
#define PROBLEM_COLUMNS     "p.id, " PROBLEM_FIELDS("p.") ", " PROBLEM_INTACT
#define ENVIRONMENT_COLUMNS "e.id, " ENVIRONMENT_FIELDS("e.") ", " ENVIRONMENT_INTACT
#define TRIAL_COLUMNS       TRIAL_FIELDS("t.") ", " TRIAL_INTACT
#define WINNER_COLUMNS      WINNER_FIELDS("w.") ", " WINNER_INTACT

/* CROSS JOIN fixes the order: signatures by name, problems by (signature, target[, bindings]), the rest by id. */
#define SELECT_ENTRIES \
  "SELECT " SIGNATURE_COLUMNS ", " PROBLEM_COLUMNS ", " ENVIRONMENT_COLUMNS ", " WINNER_COLUMNS \
  " FROM signatures s CROSS JOIN problems p ON p.signature = s.id" \
  " CROSS JOIN winners w ON w.problem = p.id CROSS JOIN environments e ON e.id = w.environment "

#define CACHE_STATEMENTS(X) \
  X(BEGIN, "BEGIN IMMEDIATE") \
  X(COMMIT, "COMMIT") \
  X(ROLLBACK, "ROLLBACK") \
  X(ENVIRONMENT_FIND, \
    "SELECT e.id FROM environments e WHERE e.device = ?1 AND e.driver = ?2 AND e.llvm = ?3" \
    " AND e.generator = ?4 AND e.sm_count = ?5 AND e.clock_khz = ?6 AND e.memory_clock_khz = ?7" \
    " AND " ENVIRONMENT_INTACT) \
  X(ENVIRONMENT_PUT, \
    INSERT_SEALED("INSERT", "environments", ENVIRONMENT_FIELDS, \
                  "?1 AS device, ?2 AS driver, ?3 AS llvm, ?4 AS generator, ?5 AS sm_count, ?6 AS clock_khz," \
                  " ?7 AS memory_clock_khz") \
    OR_REWRITE("environments", ENVIRONMENT_FIELDS(""), ENVIRONMENT_FIELDS)) \
  X(SIGNATURE_FIND, \
    "SELECT s.id FROM signatures s WHERE s.op_name = ?1 AND s.op_text = ?2 AND s.tensors = ?3" \
    " AND " SIGNATURE_INTACT) \
  X(SIGNATURE_PUT, \
    INSERT_SEALED("INSERT", "signatures", SIGNATURE_FIELDS, "?1 AS op_name, ?2 AS op_text, ?3 AS tensors") \
    OR_REWRITE("signatures", "op_name, op_text", SIGNATURE_FIELDS)) \
  X(PROBLEM_FIND, \
    "SELECT p.id, p.bucket FROM problems p WHERE p.signature = ?1 AND p.target = ?2 AND p.bindings = ?3" \
    " AND p.ptx = ?4 AND " PROBLEM_INTACT) \
  X(PROBLEM_PUT, \
    INSERT_SEALED("INSERT", "problems", PROBLEM_FIELDS, \
                  "?1 AS signature, ?2 AS target, ?3 AS bindings, ?4 AS ptx, ?5 AS bucket") \
    OR_REWRITE("problems", "signature, target, bindings, ptx", PROBLEM_FIELDS)) \
  X(TRIAL_STORED, \
    "SELECT max(t.stored_s) FROM trials t, environments e, environments now WHERE t.problem = ?1" \
    " AND now.id = ?2 AND t.template = ?3 AND t.config = ?4 AND e.id = t.environment" \
    " AND e.device = now.device AND " TRIAL_INTACT) \
  X(TRIAL_DROP, \
    "DELETE FROM trials WHERE problem = ?1 AND template = ?3 AND config = ?4 AND environment IN" \
    " (SELECT e.id FROM environments e, environments now WHERE now.id = ?2 AND e.device = now.device)") \
  X(TRIAL_PUT, \
    INSERT_SEALED("INSERT OR REPLACE", "trials", TRIAL_FIELDS, \
                  "?1 AS problem, ?2 AS environment, ?3 AS template, ?4 AS config, ?5 AS outcome," \
                  " ?6 AS reason, ?7 AS model_ns, ?8 AS median_ns, ?9 AS p10_ns, ?10 AS p90_ns," \
                  " ?11 AS samples, ?12 AS ptx_sha256, ?13 AS lower_ms, ?14 AS assemble_ms," \
                  " ?15 AS registers, ?16 AS spill_bytes, ?17 AS stored_s")) \
  X(TRIALS_ON_DEVICE, \
    "SELECT " TRIAL_COLUMNS " FROM trials t JOIN environments e ON e.id = t.environment" \
    " WHERE t.problem = ?1 AND e.device = ?2 AND e.generator = ?3") \
  X(TRIALS_OF_PROBLEM, \
    "SELECT " TRIAL_COLUMNS ", " ENVIRONMENT_COLUMNS " FROM trials t JOIN environments e" \
    " ON e.id = t.environment WHERE t.problem = ?1") \
  X(KERNEL_PUT, \
    "INSERT INTO kernels (sha256, recipe, ptx, cubin) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (sha256) DO UPDATE" \
    " SET (sha256, recipe, ptx, cubin) = (excluded.sha256, excluded.recipe, excluded.ptx, excluded.cubin)") \
  X(KERNEL_DROP, \
    "DELETE FROM kernels WHERE sha256 = ?1 AND NOT EXISTS (SELECT 1 FROM winners WHERE kernel = ?1)") \
  X(KERNEL_GET, "SELECT sha256, recipe, ptx, cubin FROM kernels WHERE sha256 = ?1") \
  X(KERNELS, "SELECT sha256, recipe, ptx, cubin FROM kernels") \
  X(WINNER_GET, "SELECT " WINNER_COLUMNS " FROM winners w WHERE w.problem = ?1") \
  X(WINNER_PUT, \
    "INSERT OR REPLACE INTO winners (" WINNER_FIELDS("") ", seal) SELECT " WINNER_FIELDS("") ", seal(" \
    WINNER_FIELDS("") ") FROM (SELECT ?1 AS problem, ?2 AS environment, ?3 AS kernel, ?4 AS template," \
    " ?5 AS config, ?6 AS origin, ?7 AS median_ns, ?8 AS p10_ns, ?9 AS p90_ns, ?10 AS samples," \
    " ?11 AS policy, ?12 AS published_s)") \
  X(ENTRY_FIND, \
    SELECT_ENTRIES "WHERE s.op_name = ?1 AND p.target = ?2 AND p.bindings = ?3" \
    " AND (?4 OR w.origin = 'measured') ORDER BY w.origin = 'measured' DESC, w.median_ns") \
  X(ENTRIES, SELECT_ENTRIES "WHERE s.op_name BETWEEN ?1 AND ?2 AND p.target BETWEEN ?3 AND ?4") \
  /* The latest winner's comes first. Each plan asks this, nearly always of an operator with one signature,
     whose winners' dates decide nothing: CASE leaves them unread where there is no other. */ \
  X(SIGNATURES, \
    "SELECT " SIGNATURE_COLUMNS " FROM signatures s WHERE s.op_name BETWEEN ?1 AND ?2 AND EXISTS (SELECT 1" \
    " FROM problems p CROSS JOIN winners w ON w.problem = p.id WHERE p.signature = s.id" \
    " AND p.target BETWEEN ?3 AND ?4) ORDER BY CASE WHEN EXISTS (SELECT 1 FROM signatures o" \
    " WHERE o.op_name BETWEEN ?1 AND ?2 AND o.id <> s.id) THEN (SELECT max(w.published_s) FROM problems p" \
    " CROSS JOIN winners w ON w.problem = p.id WHERE p.signature = s.id) END DESC, s.id DESC") \
  X(PROBLEMS, \
    "SELECT " SIGNATURE_COLUMNS ", " PROBLEM_COLUMNS " FROM problems p JOIN signatures s" \
    " ON s.id = p.signature") \
  X(COUNTS, \
    "SELECT (SELECT count(*) FROM environments), (SELECT count(*) FROM problems)," \
    " (SELECT count(*) FROM trials), (SELECT count(*) FROM kernels), (SELECT count(*) FROM winners)") \
  X(UNSEALED, \
    "SELECT (SELECT count(*) FROM environments e WHERE (" ENVIRONMENT_INTACT ") IS NOT 1)" \
    " + (SELECT count(*) FROM signatures s WHERE (" SIGNATURE_INTACT ") IS NOT 1)" \
    " + (SELECT count(*) FROM problems p WHERE (" PROBLEM_INTACT ") IS NOT 1)" \
    " + (SELECT count(*) FROM trials t WHERE (" TRIAL_INTACT ") IS NOT 1)" \
    " + (SELECT count(*) FROM winners w WHERE (" WINNER_INTACT ") IS NOT 1)") \
  X(ORPHANS, \
    "SELECT count(*) FROM winners w WHERE NOT EXISTS (SELECT 1 FROM kernels k WHERE k.sha256 = w.kernel)" \
    " OR NOT EXISTS (SELECT 1 FROM problems p WHERE p.id = w.problem)")

/* clang-format on */

typedef enum cache_sql {
#define X(NAME, text) CACHE_SQL_##NAME,
  CACHE_STATEMENTS(X)
#undef X
      CACHE_SQL_COUNT,
} cache_sql;

#endif
