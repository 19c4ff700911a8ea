/* Prints as many bytes as asked for, as the real agent would: a JSON line of about a kilobyte for each thing it says,
   each tool it calls and each result; at last its result. All are ASCII, and none is an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE "\"model\":\"claude-sonnet-5\",\"id\":\"msg_01\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[%s],"\
  "\"stop_reason\":null,\"usage\":{\"input_tokens\":12,\"cache_read_input_tokens\":41200,\"output_tokens\":1}"
#define AFTER "\"parent_tool_use_id\":null,\"session_id\":\"5d1c7a52\",\"uuid\":\"0f8f2a6e\"}\n"
#define SAID "{\"type\":\"assistant\",\"message\":{" MESSAGE "}," AFTER
#define TEXT "{\"type\":\"text\",\"text\":\"%s\"}"
#define CALL "{\"type\":\"tool_use\",\"id\":\"toolu_%07ld\",\"name\":\"Bash\",\"input\":{\"command\":\"pytest -q tests\",\"description\":\"%s\"}}"
#define RESULT "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"tool_use_id\":\"toolu_%07ld\",\"type\":\"tool_result\","\
  "\"content\":\"%s\",\"is_error\":false}]}," AFTER
#define START "{\"type\":\"system\",\"subtype\":\"init\",\"model\":\"claude-sonnet-5\",\"apiKeySource\":\"none\"}\n"
#define END "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"Done.\",\"total_cost_usd\":1.5}\n"

static void fill(char *text, const char *with, size_t size) {
  size_t length = strlen(with);
  for (size_t at = 0; at < size; at++) text[at] = with[at % length];
  text[size] = 0;
}

int main(int argc, char **argv) {
  static char prose[1024], about[1024], output[1024], block[2048], buffer[1 << 16];
  long long left = argc > 1 ? atoll(argv[1]) : 0;
  fill(prose, "I look at the parser of settings first. ", 700);
  fill(about, "Run the tests of the parser. ", 620);
  fill(output, "tests/test_settings.py ....................... [ 12%]\\n", 830);
  setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  fputs(START, stdout);
  for (long number = 0; left > 0; number++) {
    snprintf(block, sizeof block, TEXT, prose);
    left -= printf(SAID, block);
    snprintf(block, sizeof block, CALL, number, about);
    left -= printf(SAID, block);
    left -= printf(RESULT, number, output);
  }
  fputs(END, stdout);
  return 0;
}
