/* The ptxas program in a process of its own: found on PATH or in the toolkit's usual folder, given files in a
 * fresh temporary folder, and killed when it takes too long. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "generator/assemble_log.h"

enum { PATH_BYTES = 1024, TIMEOUT_MS = 120000 };

extern char **environ;

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

typedef struct work_folder {
  char path[256], ptx[300], cubin[300];
} work_folder;

static arke_status make_folder(work_folder *w, arke_error *err) {
  const char *base = getenv("TMPDIR");
  snprintf(w->path, sizeof w->path, "%.200s/arke-ptxas-XXXXXX", base && *base ? base : "/tmp");
  if (!mkdtemp(w->path)) {
    return error_set(err, ARKE_ERR_IO, "assemble", "cannot make a folder %s: %s", w->path, strerror(errno));
  }
  snprintf(w->ptx, sizeof w->ptx, "%s/kernel.ptx", w->path);
  snprintf(w->cubin, sizeof w->cubin, "%s/kernel.cubin", w->path);
  return ARKE_OK;
}

static void remove_folder(const work_folder *w) {
  unlink(w->ptx);
  unlink(w->cubin);
  rmdir(w->path);
}

static arke_status write_file(const char *path, const char *text, arke_error *err) {
  FILE *f = fopen(path, "wb");
  bool ok = f && fwrite(text, 1, strlen(text), f) == strlen(text);
  if (f && fclose(f)) ok = false;
  return ok ? ARKE_OK : error_set(err, ARKE_ERR_IO, "assemble", "cannot write %s: %s", path, strerror(errno));
}

static arke_status read_file(const char *path, void **data, size_t *bytes, arke_error *err) {
  arke_status status = ARKE_OK;
  FILE *f = fopen(path, "rb");
  if (!f || fseek(f, 0, SEEK_END) || ftell(f) < 0) {
    status = error_set(err, ARKE_ERR_IO, "assemble", "cannot read %s: %s", path, strerror(errno));
    goto done;
  }
  *bytes = (size_t)ftell(f);
  rewind(f);
  *data = malloc(*bytes ? *bytes : 1);
  if (!*data) {
    status = error_memory(err, "assemble");
  } else if (fread(*data, 1, *bytes, f) != *bytes) {
    free(*data);
    *data = NULL;
    status = error_set(err, ARKE_ERR_IO, "assemble", "cannot read %s", path);
  }
done:
  if (f) fclose(f);
  return status;
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

/* Runs the program with output and errors into `log`; *state is waitpid's. */
static arke_status run_program(char *const argv[], strbuf *log, int *state, arke_error *err) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return error_set(err, ARKE_ERR_IO, "assemble", "no pipe: %s", strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t pid;
  int code = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  arke_status status = ARKE_OK;
  if (code) {
    status = error_set(err, ARKE_ERR_ASSEMBLE, "assemble", "cannot run %s: %s", argv[0], strerror(code));
  } else {
    bool in_time = collect_output(ends[0], log);
    if (!in_time) kill(pid, SIGKILL);
    *state = wait_for(pid);
    if (!in_time) {
      status =
          error_set(err, ARKE_ERR_TIMEOUT, "assemble", "%s took more than %d s", argv[0], TIMEOUT_MS / 1000);
    }
  }
  close(ends[0]);
  return status;
}

arke_status assemble_with_ptxas(const char *ptx, const char *target, assembled *out, arke_error *err) {
  char program[PATH_BYTES], arch[64];
  if (!find_program(program)) return error_set(err, ARKE_ERR_UNSUPPORTED, "assemble", "ptxas was not found");
  work_folder w;
  TRY(make_folder(&w, err));
  strbuf log = STRBUF_INIT;
  int state = 0;
  snprintf(arch, sizeof arch, "-arch=%s", target);
  char *argv[] = {program, arch, "-O3", "-v", w.ptx, "-o", w.cubin, NULL};
  arke_status status = write_file(w.ptx, ptx, err);
  if (status == ARKE_OK) status = run_program(argv, &log, &state, err);
  if (status != ARKE_OK) goto done;
  if (strbuf_failed(&log)) {
    status = error_memory(err, "assemble");
  } else if (!WIFEXITED(state)) {
    status = error_set(err, ARKE_ERR_ASSEMBLE, "assemble", "ptxas died of signal %d", WTERMSIG(state));
  } else if (WEXITSTATUS(state) != 0) {
    status = assemble_log_error(strbuf_text(&log), ptx, err);
  } else {
    assemble_log_read(strbuf_text(&log), out);
    status = read_file(w.cubin, &out->cubin, &out->cubin_bytes, err);
  }
done:
  remove_folder(&w);
  strbuf_free(&log);
  return status;
}
