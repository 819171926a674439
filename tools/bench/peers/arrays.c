/* Global Arrays as a peer: two processes, of which the first uses the memory of the second, or which
 * both write an array to the disk, and read it.
 *
 *   mpirun -n 2 arrays SOCKET DIRECTORY
 *
 * An order is (see turns.h)
 *
 *   WHAT BYTES CALLS
 *
 * with `put`, `get`, `accumulate` or `fetch-add`; the first process does it alone. The numbers
 * are doubles, and one long for fetch-and-add. A turn ends when everything is there. With `disk-write` or
 * `disk-read`, both processes write an array of BYTES bytes to a disk resident array in the
 * directory, or read it from there, and ignore CALLS. They compare the bytes after the turn.
 */
#include "turns.h"
#include <dra.h>
#include <ga.h>
#include <macdecls.h>

#define ELEMENTS (1 << 17)

static int is_first, array, counter;
static long expected;

static void do_turn(const char *what, int bytes, long calls, double *memory)
{
    int lo[1] = { ELEMENTS }, hi[1] = { ELEMENTS + bytes / 8 - 1 }, stride[1] = { 1 };
    int place[1] = { 1 };
    double one = 1.0;
    GA_Init_fence();
    if (strcmp(what, "put") == 0)
        for (long call = 0; call < calls; call++)
            NGA_Put(array, lo, hi, memory, stride);
    else if (strcmp(what, "get") == 0)
        for (long call = 0; call < calls; call++)
            NGA_Get(array, lo, hi, memory, stride);
    else if (strcmp(what, "accumulate") == 0)
        for (long call = 0; call < calls; call++)
            NGA_Acc(array, lo, hi, memory, stride, &one);
    else if (strcmp(what, "fetch-add") == 0)
        for (long call = 0; call < calls; call++, expected++)
            if (NGA_Read_inc(counter, place, 1) != expected)
                fail("fetch-add", "a number that no process has added");
    GA_Fence();
}

static int large, disk_array = -1;

/* Makes both arrays, unless they are there. */
static void make_disk_array(int bytes, const char *directory)
{
    static char path[1100];
    int dims[1] = { bytes / 8 }, chunk[1] = { bytes / 16 };
    dra_size_t disk_dims[1] = { bytes / 8 }, request[1] = { bytes / 8 };
    if (disk_array != -1)
        return;
    snprintf(path, sizeof path, "%.1000s/disk-array", directory);
    large = NGA_Create(C_DBL, 1, dims, "large", chunk);
    if (DRA_Init(2, -1, -1, -1) != 0)
        fail("disk", "DRA_Init");
    if (NDRA_Create(C_DBL, 1, disk_dims, "disk", path, DRA_RW, request, &disk_array) != 0)
        fail("disk", "NDRA_Create");
}

/* The numbers of this process: all become their places, or zero, or are compared with their places. */
static void own_numbers(int is_set, int is_zero)
{
    int lo[1], hi[1], stride[1];
    double *numbers;
    NGA_Distribution(large, GA_Nodeid(), lo, hi);
    NGA_Access(large, lo, hi, &numbers, stride);
    for (int place = lo[0]; place <= hi[0]; place++)
        if (is_set)
            numbers[place - lo[0]] = is_zero ? 0 : place;
        else if (numbers[place - lo[0]] != place)
            fail("disk-read", "a number that no process has written");
    NGA_Release_update(large, lo, hi);
}

static void use_disk(int is_write)
{
    int request;
    if ((is_write ? NDRA_Write : NDRA_Read)(large, disk_array, &request) != 0)
        fail("disk", is_write ? "NDRA_Write" : "NDRA_Read");
    if (DRA_Wait(request) != 0)
        fail("disk", "DRA_Wait");
}

int main(int count, char **words)
{
    char line[256], what[32];
    int bytes, dims[1] = { 2 * ELEMENTS }, chunk[1] = { ELEMENTS };
    int counters[1] = { 2 }, each[1] = { 1 }, lo[1], hi[1];
    long calls;
    end_with_parent();
    MPI_Init(&count, &words);
    GA_Initialize();
    if (count != 3) {
        fprintf(stderr, "usage: mpirun -n 2 arrays SOCKET DIRECTORY\n");
        return 2;
    }
    is_first = GA_Nodeid() == 0;
    connect_to(words[1]);
    array = NGA_Create(C_DBL, 1, dims, "numbers", chunk);
    counter = NGA_Create(C_LONG, 1, counters, "counter", each);
    GA_Zero(array);
    GA_Zero(counter);
    NGA_Distribution(array, 1, lo, hi);
    if (lo[0] != ELEMENTS)
        fail("arrays", "the second half is not at the second process");
    NGA_Distribution(counter, 1, lo, hi);
    if (lo[0] != 1)
        fail("arrays", "the second number is not at the second process");
    double *memory = aligned_alloc(4096, ELEMENTS * sizeof(double));
    for (int number = 0; number < ELEMENTS; number++)
        memory[number] = number;
    while (fgets(line, sizeof line, orders) != NULL) {
        if (sscanf(line, "%31s %d %ld", what, &bytes, &calls) != 3)
            fail("order", "it lacks a word");
        int is_disk = strncmp(what, "disk-", 5) == 0, is_write = strcmp(what, "disk-write") == 0;
        if (is_disk) {
            make_disk_array(bytes, words[2]);
            own_numbers(1, !is_write);
            GA_Sync();
        } else if (bytes > ELEMENTS * 8) {
            fail("order", "too many bytes");
        }
        if (!wait_to_begin())
            break;
        if (is_disk)
            use_disk(is_write);
        else if (is_first)
            do_turn(what, bytes, calls, memory);
        long long done = now_ns();
        if (is_disk && !is_write)
            own_numbers(0, 0);
        say_moment(done);
    }
    GA_Terminate();
    MPI_Finalize();
    return 0;
}
