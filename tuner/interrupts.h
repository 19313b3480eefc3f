/* The signals by which a person or a batch system asks to end: SIGINT and SIGTERM. One that was ignored when
 * the program began (a shell's background, a parent that wants it so) stays ignored. */
#ifndef ARKE_TUNER_INTERRUPTS_H
#define ARKE_TUNER_INTERRUPTS_H

#include <signal.h>
#include <stdbool.h>

#define INTERRUPTS_COUNT 2
extern const int interrupts_list[INTERRUPTS_COUNT];

bool interrupts_heeds(int number);
/* Those that are not ignored, for masks and for waiting. */
void interrupts_fill(sigset_t *signals);
/* From now on each of them ends the process with a sentence on standard error and status 130, wherever
 * nothing takes it otherwise: a session (tune_session_open) does, and puts this back when it is closed. */
void interrupts_end_process(void);

#endif
