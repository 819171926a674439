/* grep: the lines of an extent that contain the parameter `pattern`. One result for each extent that
 * has such lines. A line that crosses the end of an extent counts as two. */
#include "pario_operation.h"

static pario_buffer found;

static int contains(const uint8_t *line, uint32_t length, pario_bytes pattern) {
  for (uint32_t at = 0; at + pattern.length <= length; at++) {
    uint32_t same = 0;
    while (same < pattern.length && line[at + same] == pattern.data[same]) same++;
    if (same == pattern.length) return 1;
  }
  return 0;
}

PARIO_EXPORT(pario_process) {
  const pario_bytes pattern = pario_parameter(input, "pattern"), text = input->body;
  if (!pattern.length) return pario_failure("grep needs the parameter pattern, a text");
  uint8_t *lines = pario_reserve(&found, text.length + 1);
  if (!lines) return pario_failure("there is no memory for the lines; store smaller extents");
  uint32_t length = 0;
  for (uint32_t start = 0; start < text.length;) {
    uint32_t end = start;
    while (end < text.length && text.data[end] != '\n') end++;
    if (contains(text.data + start, end - start, pattern)) {
      for (uint32_t i = start; i < end; i++) lines[length++] = text.data[i];
      lines[length++] = '\n';
    }
    start = end + 1;
  }
  return length ? pario_result(lines, length) : pario_nothing();
}
