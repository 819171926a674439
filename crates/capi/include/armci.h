/*
 * One-sided access to the memory of all processes of a job, as in ARMCI, and callbacks that run on
 * the machine of any process. On failure calls return -1 and set errno, and pfslib_perror(name)
 * prints the cause; otherwise they return 0 or a documented result. docs/c-interface.md has more.
 */
#ifndef PARIO_ARMCI_H
#define PARIO_ARMCI_H

#ifdef __cplusplus
extern "C" {
#endif

typedef long armci_size_t;

/* Memory blocks: ptr_array_len blocks of `bytes` bytes each. */
typedef struct {
  void **src_ptr_array;
  void **dst_ptr_array;
  int ptr_array_len;
  int bytes;
} armci_giov_t;

/* The handle of a non-blocking request; zeros (ARMCI_INIT_HANDLE) stand for no request. */
typedef struct {
  int id;
  int proc;
} armci_hdl_t;

#define ARMCI_INIT_HANDLE(handle) ((handle)->id = 0, (handle)->proc = 0)
#define ARMCI_MAX_STRIDE_LEVEL 8

/* Operations of ARMCI_Rmw. */
#define ARMCI_SWAP 10
#define ARMCI_SWAP_LONG 11
#define ARMCI_FETCH_AND_ADD 12
#define ARMCI_FETCH_AND_ADD_LONG 13

/* Number types of ARMCI_Acc; CPL and DCP are complex numbers of two floats or doubles. */
#define ARMCI_ACC_INT 37
#define ARMCI_ACC_DBL 38
#define ARMCI_ACC_FLT 39
#define ARMCI_ACC_CPL 40
#define ARMCI_ACC_DCP 41
#define ARMCI_ACC_LNG 42

int ARMCI_Init(void);
int ARMCI_Init_args(int *argc, char ***argv);
int ARMCI_Initialized(void);
void ARMCI_Finalize(void);
void ARMCI_Cleanup(void);
void ARMCI_Error(const char *message, int code);

int ARMCI_Malloc(void *ptr_arr[], armci_size_t bytes);
int ARMCI_Free(void *ptr);
void *ARMCI_Malloc_local(armci_size_t bytes);
int ARMCI_Free_local(void *ptr);

int ARMCI_Put(void *src, void *dst, int bytes, int proc);
int ARMCI_Get(void *src, void *dst, int bytes, int proc);
int ARMCI_Acc(int optype, void *scale, void *src, void *dst, int bytes, int proc);
int ARMCI_PutS(void *src, int src_strides[], void *dst, int dst_strides[], int count[],
               int stride_levels, int proc);
int ARMCI_GetS(void *src, int src_strides[], void *dst, int dst_strides[], int count[],
               int stride_levels, int proc);
int ARMCI_AccS(int optype, void *scale, void *src, int src_strides[], void *dst, int dst_strides[],
               int count[], int stride_levels, int proc);
int ARMCI_PutV(armci_giov_t *pieces, int len, int proc);
int ARMCI_GetV(armci_giov_t *pieces, int len, int proc);
int ARMCI_AccV(int optype, void *scale, armci_giov_t *pieces, int len, int proc);

int ARMCI_NbPut(void *src, void *dst, int bytes, int proc, armci_hdl_t *handle);
int ARMCI_NbGet(void *src, void *dst, int bytes, int proc, armci_hdl_t *handle);
int ARMCI_NbAcc(int optype, void *scale, void *src, void *dst, int bytes, int proc,
                armci_hdl_t *handle);
int ARMCI_NbPutS(void *src, int src_strides[], void *dst, int dst_strides[], int count[],
                 int stride_levels, int proc, armci_hdl_t *handle);
int ARMCI_NbGetS(void *src, int src_strides[], void *dst, int dst_strides[], int count[],
                 int stride_levels, int proc, armci_hdl_t *handle);
int ARMCI_NbAccS(int optype, void *scale, void *src, int src_strides[], void *dst,
                 int dst_strides[], int count[], int stride_levels, int proc, armci_hdl_t *handle);
int ARMCI_NbPutV(armci_giov_t *pieces, int len, int proc, armci_hdl_t *handle);
int ARMCI_NbGetV(armci_giov_t *pieces, int len, int proc, armci_hdl_t *handle);
int ARMCI_NbAccV(int optype, void *scale, armci_giov_t *pieces, int len, int proc,
                 armci_hdl_t *handle);
int ARMCI_Wait(armci_hdl_t *handle);
int ARMCI_Test(armci_hdl_t *handle);
int ARMCI_WaitAll(void);
int ARMCI_WaitProc(int proc);

void ARMCI_Fence(int proc);
void ARMCI_AllFence(void);
void ARMCI_Barrier(void);

int ARMCI_Rmw(int op, void *ploc, void *prem, int extra, int proc);
int ARMCI_Create_mutexes(int count);
int ARMCI_Destroy_mutexes(void);
void ARMCI_Lock(int mutex, int proc);
void ARMCI_Unlock(int mutex, int proc);

/*
 * A callback runs in the data server of a process' machine. It writes its result, at most
 * exp_res_size bytes, to result and the length to *res_size, and returns 0. Any other value fails
 * this request only.
 */
typedef int (*RUC_t)(int from, int proc, const void *header, int header_size, const void *data,
                     int data_size, void *result, int exp_res_size, int *res_size);
typedef int ARMCI_Callback_handle_t;
typedef ARMCI_Callback_handle_t Armci_Callback_handle_t;

ARMCI_Callback_handle_t ARMCI_Callback_register(RUC_t func);
int ARMCI_Callback_send(ARMCI_Callback_handle_t h, int proc, void *header, int header_size,
                        void *data, int data_size, void *result, int exp_res_size, int *res_size);
int ARMCI_Callback_wait(int rqid);

int armci_msg_me(void);
int armci_msg_nproc(void);
void armci_msg_barrier(void);
void armci_msg_brdcst(void *buffer, int len, int root);
void armci_msg_igop(int *x, int n, char *op);
void armci_msg_lgop(long *x, int n, char *op);
void armci_msg_fgop(float *x, int n, char *op);
void armci_msg_dgop(double *x, int n, char *op);

#ifdef __cplusplus
}
#endif

#endif
