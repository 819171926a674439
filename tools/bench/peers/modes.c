/* MPI-IO as a peer: the processes of an MPI job that do what the modes of shared files do.
 *
 *   mpirun -n N modes SOCKET DIRECTORY
 *
 * An order is (see turns.h)
 *
 *   WHAT PIECE_BYTES CALLS BLOCKS IS_MOUNTED PATH
 *
 * CALLS calls of PIECE_BYTES bytes each, in a file of BLOCKS blocks of that size; PATH is relative to
 * the directory. A file exists before the first turn, stays open from turn to turn and is overwritten.
 * All settings are the defaults of the library.
 */
#include "turns.h"
#include <fcntl.h>
#include <sys/stat.h>

static int rank, size;

/* What is to be done. */
struct order {
    char what[16];
    int piece_bytes;
    long long calls, blocks;
    int is_mounted;
    char name[1024];
    char path[2048];
};

static int is(const struct order *order, const char *what)
{
    return strcmp(order->what, what) == 0;
}

static void open_file(const struct order *order, MPI_File *file)
{
    check(MPI_File_open(MPI_COMM_WORLD, order->path, MPI_MODE_RDWR, MPI_INFO_NULL, file), "open");
    if (is(order, "unix") || is(order, "same"))
        check(MPI_File_set_atomicity(*file, 1), "set_atomicity");
}

/* Before a turn, not measured: all pointers are at the beginning, and every mount has forgotten. */
static void go_to_start(const struct order *order, MPI_File file)
{
    if (is(order, "log") || is(order, "sync"))
        check(MPI_File_seek_shared(file, 0, MPI_SEEK_SET), "seek_shared");
    else
        check(MPI_File_seek(file, 0, MPI_SEEK_SET), "seek");
    if (order->is_mounted) {
        int plain = open(order->path, O_RDONLY);
        if (plain >= 0) {
            posix_fadvise(plain, 0, 0, POSIX_FADV_DONTNEED);
            close(plain);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void do_turn(const struct order *order, MPI_File file, char *memory)
{
    int bytes = order->piece_bytes;
    MPI_Status status;
    for (long long call = 0; call < order->calls; call++) {
        MPI_Offset place = (call * size + rank) * (MPI_Offset)bytes;
        if (is(order, "log")) {
            check(MPI_File_write_shared(file, memory, bytes, MPI_BYTE, &status), "write_shared");
        } else if (is(order, "sync")) {
            check(MPI_File_write_ordered(file, memory, bytes, MPI_BYTE, &status), "write_ordered");
        } else if (is(order, "record") || is(order, "unix") || is(order, "same")) {
            if (is(order, "same"))
                place = call % order->blocks * (MPI_Offset)bytes;
            check(MPI_File_write_at(file, place, memory, bytes, MPI_BYTE, &status), "write_at");
        } else if (is(order, "global")) {
            int count = 0;
            if (call > 0 && call % order->blocks == 0)
                check(MPI_File_seek(file, 0, MPI_SEEK_SET), "seek");
            check(MPI_File_read_all(file, memory, bytes, MPI_BYTE, &status), "read_all");
            MPI_Get_count(&status, MPI_BYTE, &count);
            check(count == bytes ? MPI_SUCCESS : MPI_ERR_IO, "read_all reads too little");
        } else {
            open_file(order, &file);
            check(MPI_File_close(&file), "close");
        }
    }
}

/* After a turn, not measured: a mount that writes behind answers this when it has sent everything. */
static void wait_for_mount(const struct order *order)
{
    struct stat status;
    if (stat(order->path, &status) != 0)
        check(MPI_ERR_FILE, "stat");
}

int main(int count, char **words)
{
    char line[2048];
    char open_what[16] = "", open_path[2048] = "";
    MPI_File file = MPI_FILE_NULL;
    char *memory = NULL;
    struct order order;
    end_with_parent();
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count != 3 || strlen(words[2]) > 1000) {
        fprintf(stderr, "usage: mpirun -n N modes SOCKET DIRECTORY\n");
        return 2;
    }
    connect_to(words[1]);
    while (fgets(line, sizeof line, orders) != NULL) {
        if (sscanf(line, "%15s %d %lld %lld %d %1023s", order.what, &order.piece_bytes, &order.calls,
                   &order.blocks, &order.is_mounted, order.name) != 6)
            check(MPI_ERR_ARG, "order");
        snprintf(order.path, sizeof order.path, "%.1000s/%.1023s", words[2], order.name);
        if (strcmp(open_what, order.what) != 0 || strcmp(open_path, order.path) != 0) {
            if (file != MPI_FILE_NULL)
                check(MPI_File_close(&file), "close");
            if (!is(&order, "open"))
                open_file(&order, &file);
            strcpy(open_what, order.what);
            strcpy(open_path, order.path);
        }
        memory = realloc(memory, order.piece_bytes);
        memset(memory, 'a' + rank % 26, order.piece_bytes);
        if (file != MPI_FILE_NULL)
            go_to_start(&order, file);
        if (!wait_to_begin())
            break;
        do_turn(&order, file, memory);
        long long done = now_ns();
        /* A process that is done makes progress for the others, if MPI needs that. */
        MPI_Barrier(MPI_COMM_WORLD);
        if (order.is_mounted)
            wait_for_mount(&order);
        say_moment(done);
    }
    if (file != MPI_FILE_NULL)
        MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
