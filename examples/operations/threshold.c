/* threshold: each byte of the body becomes 255 if it is above the parameter `level`, and 0
 * otherwise. One result for each extent. */
#include "pario_operation.h"

static pario_buffer pixels;

PARIO_EXPORT(pario_prepare) {
  if (pario_parameter_number(input, "level", 256) > 255)
    return pario_failure("threshold needs the parameter level, a number from 0 to 255");
  return pario_nothing();
}

PARIO_EXPORT(pario_process) {
  const uint8_t level = (uint8_t)pario_parameter_number(input, "level", 0);
  const uint8_t *restrict from = input->body.data;
  const uint32_t length = input->body.length;
  uint8_t *restrict to = pario_reserve(&pixels, length);
  if (!to) return pario_failure("there is no memory for the result; store smaller extents");
  for (uint32_t i = 0; i < length; i++) to[i] = from[i] > level ? 255 : 0;
  return pario_result(to, length);
}
