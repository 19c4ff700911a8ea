/* Starts a command, waits, and writes "wall_s cpu_s peak_kib" to the file given first.

   A process begins with the peak memory of the one that started it, so a small launcher shows small peaks. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval t) { return t.tv_sec + t.tv_usec / 1e6; }

int main(int argc, char **argv) {
  struct timespec began, over;
  struct rusage used;
  int status;
  if (argc < 3) return 2;
  clock_gettime(CLOCK_MONOTONIC, &began);
  pid_t child = fork();
  if (child == 0) {
    execvp(argv[2], argv + 2);
    _exit(127);
  }
  wait4(child, &status, 0, &used);
  clock_gettime(CLOCK_MONOTONIC, &over);
  FILE *file = fopen(argv[1], "w");
  if (!file) return 2;
#ifdef __APPLE__
  used.ru_maxrss /= 1024;
#endif
  fprintf(file, "%.6f %.6f %ld\n", over.tv_sec - began.tv_sec + (over.tv_nsec - began.tv_nsec) / 1e9,
          seconds(used.ru_utime) + seconds(used.ru_stime), used.ru_maxrss);
  fclose(file);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
