/* MPI-IO as a peer: the processes of an MPI job that write the element list of a grid to one file, and
 * read it again.
 *
 *   mpirun -n N grid SOCKET DIRECTORY
 *
 * An order is (see turns.h)
 *
 *   PHASE HOW X Y Z PATH
 *
 * with the phases `create`, `write`, `close` (its bytes and its name are durable), `open`, `read` and
 * `end` in this order, and with `independent` calls, one for each column of elements, or one
 * `collective` call for all of them. Columns go around the ranks; each writes its own, and reads those
 * of the next rank.
 */
#include "turns.h"

#include <fcntl.h>

#define VERTICES 8

static int rank, size;

/* A grid of elements, of which a column is consecutive in the file. */
struct grid {
    int x, y, z;
    long columns;
    int numbers; /* of a column */
    int *first;  /* the first column; others are the same, and a number added to each */
};

static struct grid grid;

static void lay_out(int points_x, int points_y, int points_z)
{
    static const int dx[VERTICES] = { 0, 1, 1, 0, 0, 1, 1, 0 };
    static const int dy[VERTICES] = { 0, 0, 1, 1, 0, 0, 1, 1 };
    static const int dz[VERTICES] = { 0, 0, 0, 0, 1, 1, 1, 1 };
    if (grid.x == points_x - 1 && grid.y == points_y - 1 && grid.z == points_z - 1)
        return;
    grid.x = points_x - 1, grid.y = points_y - 1, grid.z = points_z - 1;
    grid.columns = (long)grid.x * grid.y;
    grid.numbers = grid.z * VERTICES;
    grid.first = realloc(grid.first, grid.numbers * sizeof(int));
    for (int z = 0; z < grid.z; z++)
        for (int vertex = 0; vertex < VERTICES; vertex++)
            grid.first[z * VERTICES + vertex] =
                1 + z + dz[vertex] + (dx[vertex] + dy[vertex] * points_x) * points_z;
}

static int shift_of(long column)
{
    return (int)((column % grid.x + column / grid.x * (grid.x + 1)) * (grid.z + 1));
}

static void fill(long column, int *numbers)
{
    int shift = shift_of(column);
    for (int number = 0; number < grid.numbers; number++)
        numbers[number] = grid.first[number] + shift;
}

static void examine(long column, const int *numbers)
{
    int shift = shift_of(column), last = grid.numbers - 1;
    if (numbers[0] != grid.first[0] + shift || numbers[last] != grid.first[last] + shift)
        fail("read", "a column has wrong numbers");
}

/* One call for each column of a rank: x outside, y inside. */
static void visit(MPI_File file, int owner, int is_write, int *numbers)
{
    MPI_Status status;
    for (int x = 0; x < grid.x; x++)
        for (int y = 0; y < grid.y; y++) {
            long column = x + (long)y * grid.x;
            if (column % size != owner)
                continue;
            MPI_Offset place = column * grid.numbers * (MPI_Offset)sizeof(int);
            if (is_write) {
                fill(column, numbers);
                check(MPI_File_write_at(file, place, numbers, grid.numbers, MPI_INT, &status),
                      "write_at");
            } else {
                check(MPI_File_read_at(file, place, numbers, grid.numbers, MPI_INT, &status),
                      "read_at");
                examine(column, numbers);
            }
        }
}

/* One call for all columns of a rank, by a view that shows these only. */
static void visit_all(MPI_File file, int owner, int is_write, int *numbers)
{
    MPI_Datatype one, mine;
    MPI_Status status;
    int count = (int)((grid.columns - owner + size - 1) / size);
    MPI_Offset start = owner * (MPI_Offset)grid.numbers * sizeof(int);
    MPI_Type_contiguous(grid.numbers, MPI_INT, &one);
    MPI_Type_create_resized(one, 0, (MPI_Aint)size * grid.numbers * sizeof(int), &mine);
    MPI_Type_commit(&one);
    MPI_Type_commit(&mine);
    check(MPI_File_set_view(file, start, MPI_INT, mine, "native", MPI_INFO_NULL), "set_view");
    if (is_write) {
        for (long number = 0; number < count; number++)
            fill(owner + number * size, numbers + number * grid.numbers);
        check(MPI_File_write_all(file, numbers, count, one, &status), "write_all");
    } else {
        check(MPI_File_read_all(file, numbers, count, one, &status), "read_all");
        for (long number = 0; number < count; number++)
            examine(owner + number * size, numbers + number * grid.numbers);
    }
    MPI_Type_free(&one);
    MPI_Type_free(&mine);
}

/* MPI_File_sync does not promise that a new name is durable; the other sides do. */
static void sync_directory(const char *path)
{
    char directory[2048];
    snprintf(directory, sizeof directory, "%s", path);
    *strrchr(directory, '/') = 0;
    int descriptor = open(directory, O_RDONLY | O_DIRECTORY);
    if (descriptor < 0 || fsync(descriptor) != 0 || close(descriptor) != 0)
        fail("close", "the directory cannot be synced");
}

static void do_phase(const char *phase, int is_collective, char *path, MPI_File *file, int *numbers)
{
    int create = MPI_MODE_CREATE | MPI_MODE_WRONLY;
    int is_write = strcmp(phase, "write") == 0;
    if (strcmp(phase, "create") == 0) {
        /* ROMIO reads what is between the pieces of a collective write. */
        create = is_collective ? MPI_MODE_CREATE | MPI_MODE_RDWR : create;
        check(MPI_File_open(MPI_COMM_WORLD, path, create, MPI_INFO_NULL, file), "open");
    } else if (strcmp(phase, "open") == 0) {
        check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, file), "open");
    } else if (strcmp(phase, "close") == 0) {
        check(MPI_File_sync(*file), "sync");
        check(MPI_File_close(file), "close");
        if (rank == 0)
            sync_directory(path);
    } else if (strcmp(phase, "end") == 0) {
        check(MPI_File_close(file), "close");
    } else {
        int owner = is_write ? rank : (rank + 1) % size;
        (is_collective ? visit_all : visit)(*file, owner, is_write, numbers);
    }
}

int main(int count, char **words)
{
    char line[2048], phase[16], how[16], name[1024], path[2048];
    MPI_File file = MPI_FILE_NULL;
    int *numbers = NULL;
    int x, y, z;
    end_with_parent();
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count != 3 || strlen(words[2]) > 1000) {
        fprintf(stderr, "usage: mpirun -n N grid SOCKET DIRECTORY\n");
        return 2;
    }
    connect_to(words[1]);
    while (fgets(line, sizeof line, orders) != NULL) {
        if (sscanf(line, "%15s %15s %d %d %d %1023s", phase, how, &x, &y, &z, name) != 6)
            fail("order", "it lacks a word");
        snprintf(path, sizeof path, "%.1000s/%.1023s", words[2], name);
        int is_collective = strcmp(how, "collective") == 0;
        lay_out(x, y, z);
        if (strcmp(phase, "create") == 0) {
            long columns = is_collective ? grid.columns / size + 1 : 1;
            size_t bytes = columns * grid.numbers * sizeof(int);
            free(numbers);
            numbers = malloc(bytes);
            memset(numbers, 1, bytes);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (!wait_to_begin())
            break;
        do_phase(phase, is_collective, path, &file, numbers);
        long long done = now_ns();
        /* A process that is done makes progress for the others, if MPI needs that. */
        MPI_Barrier(MPI_COMM_WORLD);
        say_moment(done);
    }
    MPI_Finalize();
    return 0;
}
