/* What the peers that are C programs share: each of their processes connects to a Unix socket, reads
 * orders from it, one per line, and answers:
 *
 *   WHAT ...        ready
 *   NANOSECONDS     NANOSECONDS
 *
 * The first line says what to do. The second line is when to begin, and its answer when that process
 * was done, on the clock that all processes share. Whatever goes wrong is answered with `failed: ` and
 * the reason. Between turns a process waits in `read`, where it uses no processor. It ends with the
 * connection, and with the process that has started it.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static FILE *orders, *answers;

static void say(const char *text)
{
    fprintf(answers, "%s\n", text);
    fflush(answers);
}

/* Says why it does not work, and takes the job along. */
static void fail(const char *what, const char *why)
{
    fprintf(answers, "failed: %s: %s\n", what, why);
    fflush(answers);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static inline void check(int error, const char *what)
{
    char why[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (error == MPI_SUCCESS)
        return;
    MPI_Error_string(error, why, &length);
    for (char *at = why; *at; at++)
        if (*at == '\n')
            *at = ' ';
    fail(what, why);
}

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Makes this process end with the one that started it; to be called first. */
static void end_with_parent(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void connect_to(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strlen(path) >= sizeof address.sun_path) {
        fprintf(stderr, "peer: the path of the socket is too long\n");
        exit(1);
    }
    strcpy(address.sun_path, path);
    if (made < 0 || connect(made, (struct sockaddr *)&address, sizeof address) != 0) {
        perror("peer: connect");
        exit(1);
    }
    answers = fdopen(dup(made), "w");
    orders = fdopen(made, "r");
}

/* Says that it is ready, and waits for the time to begin; zero if the measuring process is gone. */
static int wait_to_begin(void)
{
    char line[64];
    say("ready");
    if (fgets(line, sizeof line, orders) == NULL)
        return 0;
    long long begin_ns = atoll(line);
    struct timespec begin = { begin_ns / 1000000000, begin_ns % 1000000000 };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &begin, NULL) != 0)
        ;
    return 1;
}

static void say_moment(long long ns)
{
    char line[64];
    snprintf(line, sizeof line, "%lld", ns);
    say(line);
}
