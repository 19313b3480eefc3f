#include "tuner/interrupts.h"

#include <stddef.h>
#include <unistd.h>

const int interrupts_list[INTERRUPTS_COUNT] = {SIGINT, SIGTERM};

bool interrupts_heeds(int number) {
  struct sigaction now;
  return sigaction(number, NULL, &now) != 0 || now.sa_handler != SIG_IGN;
}

void interrupts_fill(sigset_t *signals) {
  sigemptyset(signals);
  for (int i = 0; i < INTERRUPTS_COUNT; i++)
    if (interrupts_heeds(interrupts_list[i])) sigaddset(signals, interrupts_list[i]);
}

/* Only what a signal handler may call. */
static void end_process(int number) {
  static const char sentence[] = "arke-tune: interrupted\n";
  enum { INTERRUPTED = 130 };
  (void)number;
  (void)!write(STDERR_FILENO, sentence, sizeof sentence - 1);
  _exit(INTERRUPTED);
}

void interrupts_end_process(void) {
  struct sigaction action = {.sa_handler = end_process};
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < INTERRUPTS_COUNT; i++)
    if (interrupts_heeds(interrupts_list[i])) sigaction(interrupts_list[i], &action, NULL);
}
