/*
 * Arrays over the memory of all processes of a job. do_array_create, do_array_destroy and
 * do_barrier are collective; the other calls need no other process.
 *
 * Indices start at 0. The other processes see a put after do_barrier (or gsync). On failure a call
 * returns -1 and sets errno. The processes join with do_nio (donio.h), or at the first call here
 * with the rank and size that the launcher sets.
 */
#ifndef DOLIB_H
#define DOLIB_H

#include <stdint.h>

/* Number types of do_accumulate; the elements must have the same size. */
#define DO_INT32 1
#define DO_UINT32 2
#define DO_INT64 3
#define DO_UINT64 4
#define DO_FLOAT 5
#define DO_DOUBLE 6

#ifdef __cplusplus
extern "C" {
#endif

/* Creates an array of zeros. Parts that are never used take no memory. */
int do_array_create(int64_t Elements, int64_t ElementBytes);
int do_array_destroy(int Array);
int64_t do_array_length(int Array);
int do_array_owner(int Array, int64_t Index);

/* Consecutive elements. */
int do_get(int Array, int64_t First, int64_t Count, void *Values);
int do_put(int Array, int64_t First, int64_t Count, const void *Values);

/* Elements by index. If do_scatter gets an index twice, the last value stays. */
int do_gather(int Array, int64_t Count, const int64_t *Indices, void *Values);
int do_scatter(int Array, int64_t Count, const int64_t *Indices, const void *Values);

/* Adds to elements by index. Concurrent additions of several processes are all counted. */
int do_accumulate(int Array, int Type, int64_t Count, const int64_t *Indices, const void *Values);

int do_barrier(void);

#ifdef __cplusplus
}
#endif

#endif
