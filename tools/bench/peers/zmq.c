/* ZeroMQ as a peer: one process pushes messages of 64 bytes, another one pulls them.
 *
 *   zmq pull             binds any port of loopback and prints its address
 *   zmq push ADDRESS     connects to it
 *
 * Both read a number of messages per line of standard input. The pulling one prints the time when
 * the last of them has come, the pushing one the time before the first of them is sent, in
 * nanoseconds of the clock that all processes share. Both end with their standard input, and with
 * the process that has started them. Everything is as the library sets it, except for what stands
 * at `socket`.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum { MESSAGE_BYTES = 64 };

static void check(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "zmq peer: %s: %s\n", what, zmq_strerror(zmq_errno()));
        exit(1);
    }
}

/* The library makes its sockets with this one: they get the congestion control that ours have.
 * A socket that is accepted takes it over from the one that listens. */
int socket(int domain, int type, int protocol)
{
    int made = (int)syscall(SYS_socket, domain, type, protocol);
    if (made >= 0 && domain == AF_INET && (type & 0xf) == SOCK_STREAM
        && setsockopt(made, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) != 0)
        fprintf(stderr, "note: no cubic for ZeroMQ\n");
    return made;
}

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int count, char **words)
{
    int pushes = count == 3 && strcmp(words[1], "push") == 0;
    if (!pushes && !(count == 2 && strcmp(words[1], "pull") == 0)) {
        fprintf(stderr, "usage: zmq pull | zmq push ADDRESS\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    void *context = zmq_ctx_new();
    check(context != NULL, "context");
    void *end = zmq_socket(context, pushes ? ZMQ_PUSH : ZMQ_PULL);
    check(end != NULL, "socket");
    if (pushes) {
        check(zmq_connect(end, words[2]) == 0, "connect");
    } else {
        char address[256];
        size_t bytes = sizeof address;
        check(zmq_bind(end, "tcp://127.0.0.1:*") == 0, "bind");
        check(zmq_getsockopt(end, ZMQ_LAST_ENDPOINT, address, &bytes) == 0, "address");
        printf("%s\n", address);
        fflush(stdout);
    }
    char message[MESSAGE_BYTES];
    memset(message, 7, sizeof message);
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        long long messages = atoll(line);
        if (pushes) {
            printf("%lld\n", now_ns());
            fflush(stdout);
        }
        for (long long number = 0; number < messages; number++) {
            if (pushes)
                check(zmq_send(end, message, sizeof message, 0) == MESSAGE_BYTES, "send");
            else
                check(zmq_recv(end, message, sizeof message, 0) == MESSAGE_BYTES, "receive");
        }
        if (!pushes) {
            printf("%lld\n", now_ns());
            fflush(stdout);
        }
    }
    return 0;
}
