/* The ptxas program in a process of its own: found on PATH or in the toolkit's usual folder, given files in
 * memory, killed when it takes too long, and by the kernel when we die. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "generator/assemble_log.h"

enum { PATH_BYTES = 1024, TIMEOUT_MS = 120000 };

static bool find_program(char path[PATH_BYTES]) {
  const char *dirs = getenv("PATH");
  for (const char *d = dirs ? dirs : ""; *d;) {
    int length = (int)strcspn(d, ":");
    if (length > 0 && snprintf(path, PATH_BYTES, "%.*s/ptxas", length, d) < PATH_BYTES &&
        access(path, X_OK) == 0) {
      return true;
    }
    d += length + (d[length] == ':');
  }
  snprintf(path, PATH_BYTES, "/usr/local/cuda/bin/ptxas");
  return access(path, X_OK) == 0;
}

bool assemble_ptxas_found(void) {
  char path[PATH_BYTES];
  return find_program(path);
}

/* A file without a name that ptxas reaches as /proc/self/fd/N: nothing to leave behind, whatever ends us. */
typedef struct memory_file {
  int fd;
  char path[32];
} memory_file;

static arke_status memory_file_open(memory_file *m, const char *name, arke_error *err) {
  m->fd = memfd_create(name, MFD_CLOEXEC);
  if (m->fd < 0) return error_set(err, ARKE_ERR_IO, "assemble", "no memory file: %s", strerror(errno));
  snprintf(m->path, sizeof m->path, "/proc/self/fd/%d", m->fd);
  return ARKE_OK;
}

static void memory_file_close(const memory_file *m) {
  if (m->fd >= 0) close(m->fd);
}

static arke_status write_all(int fd, const char *text, arke_error *err) {
  for (size_t left = strlen(text); left > 0;) {
    ssize_t n = write(fd, text, left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return error_set(err, ARKE_ERR_IO, "assemble", "cannot hold the PTX in memory: %s", strerror(errno));
    text += n;
    left -= (size_t)n;
  }
  return ARKE_OK;
}

static arke_status read_all(int fd, void **data, size_t *bytes, arke_error *err) {
  struct stat st;
  if (fstat(fd, &st) != 0 || st.st_size <= 0)
    return error_set(err, ARKE_ERR_IO, "assemble", "ptxas ended well, but wrote no cubin");
  char *buffer = malloc((size_t)st.st_size);
  if (!buffer) return error_memory(err, "assemble");
  size_t have = 0;
  while (have < (size_t)st.st_size) {
    ssize_t n = pread(fd, buffer + have, (size_t)st.st_size - have, (off_t)have);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      free(buffer);
      return error_set(err, ARKE_ERR_IO, "assemble", "cannot read the cubin");
    }
    have += (size_t)n;
  }
  *data = buffer;
  *bytes = have;
  return ARKE_OK;
}

static long long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

/* Reads the child's output to its end; false when the time is over first. */
static bool collect_output(int fd, strbuf *log) {
  long long end = now_ms() + TIMEOUT_MS;
  for (;;) {
    long long left = end - now_ms();
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int ready = left > 0 ? poll(&p, 1, (int)left) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    char buffer[4096];
    ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    strbuf_add_bytes(log, buffer, (size_t)n);
  }
}

static int wait_for(pid_t pid) {
  int state = 0;
  while (waitpid(pid, &state, 0) < 0 && errno == EINTR) {
  }
  return state;
}

/* The child's side; only what is safe between fork and exec. */
static _Noreturn void become(char *const argv[], const int keep[2], int output, int failure, pid_t parent) {
  /* It must not outlive a worker that is killed, not even one killed before this line. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  bool ready = getppid() == parent && dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0;
  for (int i = 0; i < 2; i++) ready = ready && fcntl(keep[i], F_SETFD, 0) == 0;
  if (ready) execv(argv[0], argv);
  int code = errno;
  ssize_t told = write(failure, &code, sizeof code);
  _exit(told == sizeof code ? 127 : 126);
}

/* Starts the program; *output is the reading end of its stdout and stderr. */
static arke_status start_program(char *const argv[], const int keep[2], pid_t *pid, int *output,
                                 arke_error *err) {
  int out[2], failure[2], code = 0;
  if (pipe2(out, O_CLOEXEC)) return error_set(err, ARKE_ERR_IO, "assemble", "no pipe: %s", strerror(errno));
  if (pipe2(failure, O_CLOEXEC)) {
    close(out[0]);
    close(out[1]);
    return error_set(err, ARKE_ERR_IO, "assemble", "no pipe: %s", strerror(errno));
  }
  pid_t parent = getpid();
  *pid = fork();
  if (*pid == 0) become(argv, keep, out[1], failure[1], parent);
  if (*pid < 0) code = errno;
  close(out[1]);
  close(failure[1]);
  ssize_t n = 0;
  while (*pid > 0 && (n = read(failure[0], &code, sizeof code)) < 0 && errno == EINTR) {
  }
  close(failure[0]);
  if (*pid > 0 && n == 0) {
    *output = out[0];
    return ARKE_OK;
  }
  if (*pid > 0) wait_for(*pid);
  close(out[0]);
  return error_set(err, ARKE_ERR_IO, "assemble", "cannot run %s: %s", argv[0], strerror(code));
}

/* Runs the program, to which the descriptors `keep` stay open, with output and errors into `log`; *state is
 * waitpid's. */
static arke_status run_program(char *const argv[], const int keep[2], strbuf *log, int *state,
                               arke_error *err) {
  pid_t pid = -1;
  int output = -1;
  TRY(start_program(argv, keep, &pid, &output, err));
  bool in_time = collect_output(output, log);
  if (!in_time) kill(pid, SIGKILL);
  *state = wait_for(pid);
  close(output);
  if (in_time) return ARKE_OK;
  return error_set(err, ARKE_ERR_TIMEOUT, "assemble", "%s took more than %d s", argv[0], TIMEOUT_MS / 1000);
}

/* What its end says; a SIGKILL is not its own doing, but that of a machine without memory, or of a user. */
static arke_status judge(int state, const char *log, const char *ptx, arke_error *err) {
  if (WIFEXITED(state)) return WEXITSTATUS(state) == 0 ? ARKE_OK : assemble_log_error(log, ptx, err);
  int number = WTERMSIG(state);
  return error_set(err, number == SIGKILL ? ARKE_ERR_MEMORY : ARKE_ERR_ASSEMBLE, "assemble",
                   "ptxas died of signal %d%s", number, number == SIGKILL ? ", as when memory runs out" : "");
}

arke_status assemble_with_ptxas(const char *ptx, const char *target, assembled *out, arke_error *err) {
  char program[PATH_BYTES], arch[64];
  if (!find_program(program)) return error_set(err, ARKE_ERR_UNSUPPORTED, "assemble", "ptxas was not found");
  memory_file source = {.fd = -1}, cubin = {.fd = -1};
  strbuf log = STRBUF_INIT;
  int state = 0;
  snprintf(arch, sizeof arch, "-arch=%s", target);
  arke_status status = memory_file_open(&source, "kernel.ptx", err);
  if (status == ARKE_OK) status = memory_file_open(&cubin, "kernel.cubin", err);
  if (status == ARKE_OK) status = write_all(source.fd, ptx, err);
  if (status != ARKE_OK) goto done;
  char *argv[] = {program, arch, "-O3", "-v", source.path, "-o", cubin.path, NULL};
  status = run_program(argv, (const int[]){source.fd, cubin.fd}, &log, &state, err);
  if (status == ARKE_OK && strbuf_failed(&log)) status = error_memory(err, "assemble");
  if (status == ARKE_OK) status = judge(state, strbuf_text(&log), ptx, err);
  if (status != ARKE_OK) goto done;
  assemble_log_read(strbuf_text(&log), out);
  status = read_all(cubin.fd, &out->cubin, &out->cubin_bytes, err);
done:
  memory_file_close(&source);
  memory_file_close(&cubin);
  strbuf_free(&log);
  return status;
}
