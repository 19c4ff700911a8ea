/* An agent that does at once what --strict wants: makes the file that the prompt wants, and prints its signal. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char prompt[1 << 20];

static char *within(const char *begins, const char *ends) {
  char *from = strstr(prompt, begins), *to = from ? strstr(from + strlen(begins), ends) : NULL;
  if (!to) return NULL;
  static char found[1 << 12];
  snprintf(found, sizeof found, "%.*s", (int)(to - from - strlen(begins)), from + strlen(begins));
  return found;
}

int main(void) {
  fread(prompt, 1, sizeof prompt - 1, stdin);
  char *file = within("File `", "` exists");
  if (!file) return 1;
  close(open(file, O_CREAT | O_WRONLY, 0644));
  char *signal = within("\n<task-done ", "\n");
  if (!signal) return 1;
  printf("Made it.\n<task-done %s\n", signal);
  return 0;
}
