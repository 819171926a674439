/*
 * Arrays over the memory of all processes of a job. do_array_create, do_array_destroy and do_barrier
 * are called by all processes together; everything else is each process' own, and needs nobody.
 *
 * Indices begin at 0. What a process has put the others see after do_barrier (or gsync). A call that
 * fails returns -1 and sets errno. The processes meet with do_nio (donio.h), or at the first call here,
 * as their launcher says.
 */
#ifndef DOLIB_H
#define DOLIB_H

#include <stdint.h>

/* What do_accumulate adds; the elements have just as many bytes. */
#define DO_INT32 1
#define DO_UINT32 2
#define DO_INT64 3
#define DO_UINT64 4
#define DO_FLOAT 5
#define DO_DOUBLE 6

#ifdef __cplusplus
extern "C" {
#endif

/* An array, all of it zero; what is never used of it costs nothing. */
int do_array_create(int64_t Elements, int64_t ElementBytes);
int do_array_destroy(int Array);
int64_t do_array_length(int Array);
int do_array_owner(int Array, int64_t Index);

/* Elements that follow each other. */
int do_get(int Array, int64_t First, int64_t Count, void *Values);
int do_put(int Array, int64_t First, int64_t Count, const void *Values);

/* Elements by their indices; with do_scatter, the last one of an index stays. */
int do_gather(int Array, int64_t Count, const int64_t *Indices, void *Values);
int do_scatter(int Array, int64_t Count, const int64_t *Indices, const void *Values);

/* Adds to elements by their indices; nothing is lost, whoever adds at the same time. */
int do_accumulate(int Array, int Type, int64_t Count, const int64_t *Indices, const void *Values);

int do_barrier(void);

#ifdef __cplusplus
}
#endif

#endif
