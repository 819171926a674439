/* Operations on extents as WebAssembly modules, in C: docs/operations.md.
 *
 *   clang --target=wasm32 -O3 -msimd128 -mbulk-memory -nostdlib -Wl,--no-entry \
 *         -I DIRECTORY_OF_THIS_HEADER -o threshold.wasm threshold.c
 *
 * One source file of a module includes this header. A module has no C library. */
#ifndef PARIO_OPERATION_H
#define PARIO_OPERATION_H

#include <stdint.h>

/* The version of the interface between nodes and modules. */
#define PARIO_ABI 1

/* Begins the definition of an exported function: PARIO_EXPORT(pario_process). */
#define PARIO_EXPORT(name) \
  __attribute__((export_name(#name))) const pario_output *name(const pario_input *input)

/* A run of bytes. */
typedef struct {
  const uint8_t *data;
  uint32_t length;
} pario_bytes;

/* What a function gets. It stays valid until the function returns. */
typedef struct {
  pario_bytes parameters; /* lines of the form name=value */
  pario_bytes header;
  pario_bytes body; /* of the extent; for pario_merge: a partial result */
  pario_bytes selection; /* for pario_cut */
  const pario_bytes *neighbours;
  uint32_t neighbour_count;
  uint32_t subfiles; /* of the file */
  uint32_t is_present; /* 0 for an extent that does not exist */
  uint32_t subfile;
  uint32_t reserved;
  uint64_t extent;
} pario_input;

/* What a function returns: a null pointer, or an output that stays valid until the next call. */
typedef struct {
  uint32_t kind; /* 0 nothing, 1 result, 2 extent, 3 failure */
  uint32_t subfile; /* of a new extent */
  uint64_t extent;
  pario_bytes header;
  pario_bytes body; /* or the result, or the text of the failure */
} pario_output;

/* One entry of the list that pario_neighbours returns; the bytes of the selection follow, and then
 * zeros up to a multiple of 8 bytes. */
typedef struct {
  uint32_t subfile;
  uint32_t selection_length;
  uint64_t extent;
} pario_neighbour;

_Static_assert(sizeof(pario_input) == 64, "the input record has 64 bytes");
_Static_assert(sizeof(pario_output) == 32, "the output record has 32 bytes");
_Static_assert(sizeof(pario_neighbour) == 16, "an entry of the list has 16 bytes");

/* A buffer that grows, and is never given back. */
typedef struct {
  uint8_t *data;
  uint32_t capacity;
} pario_buffer;

/* Returns memory of this length, aligned to 16 bytes; a null pointer if there is no more. Bytes that
 * were in the buffer are lost if it grows. */
static inline uint8_t *pario_reserve(pario_buffer *buffer, uint32_t length) {
  const uint32_t page = 65536;
  if (length <= buffer->capacity && buffer->data) return buffer->data;
  uint32_t pages = length / page + 1;
  if (pages < 2 * (buffer->capacity / page) && pages < 1024) pages = 2 * (buffer->capacity / page);
  uint32_t first = (uint32_t)__builtin_wasm_memory_grow(0, pages);
  if (first == UINT32_MAX) return 0;
  buffer->data = (uint8_t *)(first * page);
  buffer->capacity = pages * page;
  return buffer->data;
}

static pario_buffer pario_input_buffer;
static pario_output pario_last_output;

__attribute__((export_name("pario_abi"))) int32_t pario_abi(void) { return PARIO_ABI; }

__attribute__((export_name("pario_alloc"))) void *pario_alloc(uint32_t length) {
  return pario_reserve(&pario_input_buffer, length);
}

static inline const pario_output *pario_nothing(void) { return 0; }

static inline const pario_output *pario_result(const void *data, uint32_t length) {
  pario_last_output = (pario_output){.kind = 1, .body = {data, length}};
  return &pario_last_output;
}

static inline const pario_output *pario_extent(uint32_t subfile, uint64_t extent,
                                               pario_bytes header, pario_bytes body) {
  pario_last_output = (pario_output){2, subfile, extent, header, body};
  return &pario_last_output;
}

/* Fails the call with a text: what is wrong, and what to do. */
static inline const pario_output *pario_failure(const char *text) {
  uint32_t length = 0;
  while (text[length]) length++;
  pario_last_output = (pario_output){.kind = 3, .body = {(const uint8_t *)text, length}};
  return &pario_last_output;
}

/* Finds a parameter; the data of a missing one is a null pointer. */
static inline pario_bytes pario_parameter(const pario_input *input, const char *name) {
  const uint8_t *text = input->parameters.data;
  uint32_t end = input->parameters.length, at = 0;
  while (at < end) {
    uint32_t length = 0;
    while (name[length] && at + length < end && text[at + length] == (uint8_t)name[length]) length++;
    int is_found = !name[length] && at + length < end && text[at + length] == '=';
    uint32_t value = at + length + 1;
    while (at < end && text[at] != '\n') at++;
    if (is_found) return (pario_bytes){text + value, at - value};
    at++;
  }
  return (pario_bytes){0, 0};
}

/* Returns a parameter that is a decimal number, or `missing` if it is missing or no number. */
static inline uint64_t pario_parameter_number(const pario_input *input, const char *name,
                                              uint64_t missing) {
  pario_bytes text = pario_parameter(input, name);
  uint64_t number = 0;
  for (uint32_t i = 0; i < text.length; i++) {
    uint8_t digit = text.data[i] - '0';
    if (digit > 9) return missing;
    number = 10 * number + digit;
  }
  return text.length ? number : missing;
}

#endif
