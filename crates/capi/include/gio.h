/*
 * Record files: numbered records over local files of all processes of a job. Each process reads,
 * writes and adds to them without the others' help. docs/c-interface.md describes the calls.
 *
 * On failure calls return -1 and set errno; GIO_Error returns the cause.
 */
#ifndef PARIO_GIO_H
#define PARIO_GIO_H

#include <stdint.h>

/* Number types. */
#define GIO_INT 1
#define GIO_UNSIGNED 2
#define GIO_INT64 3
#define GIO_UNSIGNED64 4
#define GIO_FLOAT 5
#define GIO_DOUBLE 6

#ifdef __cplusplus
extern "C" {
#endif

/* Rank, size and barrier. */
int GIO_Rank(void);
int GIO_Size(void);
int GIO_Barrier(void);

/* The text of this thread's last error, valid until the next one. */
const char *GIO_Error(void);

/* Collective: all processes call these in the same order, with the same arguments except paths. */
int GIO_Open(const char *path_name, int *file_handle);
int GIO_Open_cached(const char *path_name, int *file_handle, int64_t cache_bytes);
int GIO_Close(int file_handle);
int GIO_Sync(int file_handle);
int GIO_Delete_file(const char *path_name);
int GIO_Create_record(int file_handle, int *record_handle, int length);
int GIO_Create_record64(int file_handle, int *record_handle, int64_t length);
int GIO_Create_record_irreg(int file_handle, int *record_handle, const int *segs, int num_segs);
int GIO_Create_record_irreg64(int file_handle, int *record_handle, const int64_t *segs,
                              int num_segs);
int GIO_Delete_record(int file_handle, int record_handle);

/* Forgets what the cache of this process holds. */
int GIO_Invalidate(int file_handle);

/* Queries: parts, records, and where bytes are. */
int GIO_Inq_file(int file_handle, int *num_parts, int *num_records);
int GIO_List_records(int file_handle, int *record_handles, int max_records);
int GIO_Inq_record(int file_handle, int record_handle, int *length, int *num_segs,
                   int *is_irregular);
int GIO_Inq_record64(int file_handle, int record_handle, int64_t *length, int *num_segs,
                     int *is_irregular);
int GIO_Distribution(int file_handle, int record_handle, int seg, int *lo, int *hi);
int GIO_Distribution64(int file_handle, int record_handle, int seg, int64_t *lo, int64_t *hi);
int GIO_Locate(int file_handle, int record_handle, int position);
int GIO_Locate64(int file_handle, int record_handle, int64_t position);

/* Bytes lo to hi, both included; byte i of them is buf[stride * i]. */
int GIO_Read(int file_handle, int record_handle, int lo, int hi, char *buf, int stride);
int GIO_Read64(int file_handle, int record_handle, int64_t lo, int64_t hi, char *buf,
               int64_t stride);
int GIO_Write(int file_handle, int record_handle, int lo, int hi, const char *buf, int stride);
int GIO_Write64(int file_handle, int record_handle, int64_t lo, int64_t hi, const char *buf,
                int64_t stride);

/*
 * Adds numbers to those in bytes lo to hi; number i of them is buf[stride * i], times the factor.
 */
int GIO_Acc(int file_handle, int record_handle, int lo, int hi, const void *buf, int stride,
            int type, const void *factor);
int GIO_Acc64(int file_handle, int record_handle, int64_t lo, int64_t hi, const void *buf,
              int64_t stride, int type, const void *factor);

/*
 * Started accesses: each returns a number to wait for. The memory belongs to the access until then.
 */
int GIO_Read_asyn(int file_handle, int record_handle, int lo, int hi, char *buf, int stride);
int GIO_Read_asyn64(int file_handle, int record_handle, int64_t lo, int64_t hi, char *buf,
                    int64_t stride);
int GIO_Write_asyn(int file_handle, int record_handle, int lo, int hi, const char *buf, int stride);
int GIO_Write_asyn64(int file_handle, int record_handle, int64_t lo, int64_t hi, const char *buf,
                     int64_t stride);
int GIO_Acc_asyn(int file_handle, int record_handle, int lo, int hi, const void *buf, int stride,
                 int type, const void *factor);
int GIO_Acc_asyn64(int file_handle, int record_handle, int64_t lo, int64_t hi, const void *buf,
                   int64_t stride, int type, const void *factor);
int GIO_Wait(int request);
int GIO_Test(int request);
int GIO_Wait_all(int file_handle);

#ifdef __cplusplus
}
#endif

#endif
