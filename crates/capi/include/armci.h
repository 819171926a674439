/*
 * One-sided access to the memory of all processes of a job, as in ARMCI 1.x, its message layer, and
 * callbacks that run on the machine of any process. On failure calls with a result return -1 and
 * set errno, and pfslib_perror(name) prints the cause; calls without one, and ARMCI_GetValue...,
 * print the error and end the process. docs/armci.md has more.
 *
 * Left out: ARMCI_Memget, ARMCI_Memat, ARMCI_Memdt and ARMCI_Memctl (memory that one process
 * allocates for others); armci_exchange_address, armci_exchange_address_grp, armci_grp_clus_brdcst,
 * armci_sameclusnode, armci_lockmem and armci_unlockmem (internal calls); armci_die, dassert and
 * their variants; ARMCI_Put1 and FAIL to FAIL8; checkpoints and the PARMCI_ names of profilers.
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

/*
 * The handle of non-blocking requests; zeros (ARMCI_INIT_HANDLE) stand for no request. A call that
 * gets a handle whose request is under way first waits for that request. After
 * ARMCI_SET_AGGREGATE_HANDLE a handle collects requests instead, and ARMCI_Wait waits for all.
 */
typedef struct {
  int id;
  int proc;
  int aggregate;
} armci_hdl_t;
typedef armci_hdl_t armci_req_t;

#define ARMCI_INIT_HANDLE(handle) ((handle)->id = 0, (handle)->proc = 0, (handle)->aggregate = 0)
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

/* Number types of the message layer. */
#define ARMCI_INT -99
#define ARMCI_LONG -101
#define ARMCI_LONG_LONG -102
#define ARMCI_FLOAT -306
#define ARMCI_DOUBLE -307

/* Scopes: all processes, those of this machine, the first one of each machine. */
#define SCOPE_ALL 333
#define SCOPE_NODE 337
#define SCOPE_MASTERS 339

/* Domains: the processes of a machine. Machines are numbered from 0. */
typedef int armci_domain_t;
#define ARMCI_DOMAIN_SMP 0

/* A group of processes. */
typedef int ARMCI_Group;

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

/* Memory of this process alone. */
void ARMCI_Copy(void *src, void *dst, int n);

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

/* The put, and then the value at *flag, which is memory of the process. */
int ARMCI_Put_flag(void *src, void *dst, int bytes, int *flag, int value, int proc);
int ARMCI_PutS_flag(void *src, int src_strides[], void *dst, int dst_strides[], int count[],
                    int stride_levels, int *flag, int value, int proc);
int ARMCI_PutS_flag_dir(void *src, int src_strides[], void *dst, int dst_strides[], int count[],
                        int stride_levels, int *flag, int value, int proc);

/* Single values. */
int ARMCI_PutValueInt(int src, void *dst, int proc);
int ARMCI_PutValueLong(long src, void *dst, int proc);
int ARMCI_PutValueFloat(float src, void *dst, int proc);
int ARMCI_PutValueDouble(double src, void *dst, int proc);
int ARMCI_NbPutValueInt(int src, void *dst, int proc, armci_hdl_t *handle);
int ARMCI_NbPutValueLong(long src, void *dst, int proc, armci_hdl_t *handle);
int ARMCI_NbPutValueFloat(float src, void *dst, int proc, armci_hdl_t *handle);
int ARMCI_NbPutValueDouble(double src, void *dst, int proc, armci_hdl_t *handle);
int ARMCI_GetValueInt(void *src, int proc);
long ARMCI_GetValueLong(void *src, int proc);
float ARMCI_GetValueFloat(void *src, int proc);
double ARMCI_GetValueDouble(void *src, int proc);

void ARMCI_SET_AGGREGATE_HANDLE(armci_hdl_t *handle);
void ARMCI_UNSET_AGGREGATE_HANDLE(armci_hdl_t *handle);
int ARMCI_Wait(armci_hdl_t *handle);
int ARMCI_Test(armci_hdl_t *handle);
int ARMCI_WaitAll(void);
int ARMCI_WaitProc(int proc);

void ARMCI_Fence(int proc);
void ARMCI_AllFence(void);
void ARMCI_Barrier(void);

/*
 * A notification follows the requests to the process. armci_notify returns the number of those
 * sent; armci_notify_wait waits for the next one, writes the number of waits to *waits, and returns
 * the number of those that have come.
 */
int armci_notify(int proc);
int armci_notify_wait(int proc, int *waits);

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

/* Machines. armci_domain_nprocs takes -1 for the machine of this process. */
int armci_domain_nprocs(armci_domain_t domain, int id);
int armci_domain_id(armci_domain_t domain, int proc);
int armci_domain_glob_proc_id(armci_domain_t domain, int id, int local_proc);
int armci_domain_my_id(armci_domain_t domain);
int armci_domain_count(armci_domain_t domain);
int armci_domain_same_id(armci_domain_t domain, int proc);
int ARMCI_Same_node(int proc);
int ARMCI_Uses_shm(void);
int ARMCI_Uses_shm_grp(ARMCI_Group *group);
void ARMCI_Set_shm_limit(unsigned long limit); /* ignored: the memory of the machine is the limit */

/*
 * Groups. The processes of a list create the group; others may call, and get a group in which they
 * have the rank -1. The list counts processes of the parent, or of the default group. Only the
 * processes of a group make its collective calls.
 */
void ARMCI_Group_create(int n, int *pid_list, ARMCI_Group *group_out);
void ARMCI_Group_create_child(int n, int *pid_list, ARMCI_Group *group_out,
                              ARMCI_Group *group_parent);
void ARMCI_Group_free(ARMCI_Group *group);
int ARMCI_Group_rank(ARMCI_Group *group, int *rank);
void ARMCI_Group_size(ARMCI_Group *group, int *size);
void ARMCI_Group_set_default(ARMCI_Group *group);
void ARMCI_Group_get_default(ARMCI_Group *group_out);
void ARMCI_Group_get_world(ARMCI_Group *group_out);
void ARMCI_GroupFence(ARMCI_Group *group);
int ARMCI_Absolute_id(ARMCI_Group *group, int group_rank);
int ARMCI_Malloc_group(void *ptr_arr[], armci_size_t bytes, ARMCI_Group *group);
int ARMCI_Free_group(void *ptr, ARMCI_Group *group);

/* The message layer. */
void armci_msg_init(int *argc, char ***argv);
void armci_msg_finalize(void);
void armci_msg_abort(int code);
int armci_msg_me(void);
int armci_msg_nproc(void);
double armci_timer(void);

void armci_msg_snd(int tag, void *buffer, int len, int to);
void armci_msg_rcv(int tag, void *buffer, int buflen, int *msglen, int from);
int armci_msg_rcvany(int tag, void *buffer, int buflen, int *msglen);

void armci_msg_barrier(void);
void armci_msg_bintree(int scope, int *root, int *up, int *left, int *right);
void armci_msg_brdcst(void *buffer, int len, int root);
void armci_msg_bcast(void *buffer, int len, int root);
void armci_msg_bcast_scope(int scope, void *buffer, int len, int root);
void armci_msg_clus_brdcst(void *buffer, int len);

/* Operations: + * max min absmax absmin, and or of whole numbers. All processes get the result. */
void armci_msg_igop(int *x, int n, char *op);
void armci_msg_lgop(long *x, int n, char *op);
void armci_msg_llgop(long long *x, int n, char *op);
void armci_msg_fgop(float *x, int n, char *op);
void armci_msg_dgop(double *x, int n, char *op);
void armci_msg_gop_scope(int scope, void *x, int n, char *op, int type);
void armci_msg_clus_igop(int *x, int n, char *op);
void armci_msg_clus_lgop(long *x, int n, char *op);
void armci_msg_clus_llgop(long long *x, int n, char *op);
void armci_msg_clus_fgop(float *x, int n, char *op);
void armci_msg_clus_dgop(double *x, int n, char *op);

/* The first process of the scope gets the result; the others keep their numbers. */
void armci_msg_reduce(void *x, int n, char *op, int type);
void armci_msg_reduce_scope(int scope, void *x, int n, char *op, int type);

/* The n bytes that begin with the smallest (min) or largest (max) number of the type. */
void armci_msg_sel(void *x, int n, char *op, int type, int contribute);
void armci_msg_sel_scope(int scope, void *x, int n, char *op, int type, int contribute);

/* The same over the processes of a group. The root is a rank of the group. */
void armci_msg_group_barrier(ARMCI_Group *group);
void armci_msg_group_bcast_scope(int scope, void *buffer, int len, int root, ARMCI_Group *group);
void armci_msg_group_igop(int *x, int n, char *op, ARMCI_Group *group);
void armci_msg_group_lgop(long *x, int n, char *op, ARMCI_Group *group);
void armci_msg_group_llgop(long long *x, int n, char *op, ARMCI_Group *group);
void armci_msg_group_fgop(float *x, int n, char *op, ARMCI_Group *group);
void armci_msg_group_dgop(double *x, int n, char *op, ARMCI_Group *group);
void armci_msg_group_gop_scope(int scope, void *x, int n, char *op, int type, ARMCI_Group *group);

#ifdef __cplusplus
}
#endif

#endif
