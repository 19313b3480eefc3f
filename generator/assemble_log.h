/* Reading what ptxas prints, whether as a program or inside nvJitLink. Private to assemble_*.c. */
#ifndef ARKE_GENERATOR_ASSEMBLE_LOG_H
#define ARKE_GENERATOR_ASSEMBLE_LOG_H

#include "base/strbuf.h"
#include "generator/assemble.h"

/* Fills registers, spill_bytes and the warnings from a verbose log. */
void assemble_log_read(const char *log, assembled *out);
/* ARKE_ERR_ASSEMBLE with the first error of the log and the text of the PTX line it names. */
arke_status assemble_log_error(const char *log, const char *ptx, arke_error *err);

arke_status assemble_with_nvjitlink(const char *ptx, const char *target, assembled *out, arke_error *err);
arke_status assemble_with_ptxas(const char *ptx, const char *target, assembled *out, arke_error *err);
bool assemble_nvjitlink_found(void);
bool assemble_ptxas_found(void);

#endif
