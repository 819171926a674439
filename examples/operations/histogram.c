/* histogram: how often each byte occurs. One result for each node: 256 numbers of eight bytes, little
 * endian. */
#include "pario_operation.h"

static uint64_t counts[256];

PARIO_EXPORT(pario_process) {
  for (uint32_t i = 0; i < input->body.length; i++) counts[input->body.data[i]]++;
  return pario_nothing();
}

PARIO_EXPORT(pario_merge) {
  const uint64_t *other = (const uint64_t *)input->body.data;
  if (input->body.length != sizeof counts) return pario_failure("this is no histogram");
  for (uint32_t i = 0; i < 256; i++) counts[i] += other[i];
  return pario_nothing();
}

PARIO_EXPORT(pario_finish) { return pario_result(counts, sizeof counts); }
