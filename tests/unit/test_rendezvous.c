/* Where rank 0's store is looked for, in words: what no user typed is said to be derived.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/bootstrap.h"
#include "net/env.h"
#include "tests/unit/unit.h"

static void ports(void)
{
    static const struct {
        int store_port;
        const char *vars[6], *begins, *has;
    } cases[] = {
        {0, {"MASTER_PORT=29517"}, "192.0.2.1 ports 29517 (MASTER_PORT), ", " derived from the job's name"},
        {0,
         {"MASTER_PORT=29517", "TORCHELASTIC_RUN_ID=r"},
         "192.0.2.1 ports ",
         " derived from the job's name (WEFT_STORE_PORT names one)"},
        {4711, {"MASTER_PORT=29517"}, "192.0.2.1 port 4711 (WEFT_STORE_PORT)", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wi_bootstrap_settings s = {.job_key_fd = -1, .store_port = cases[i].store_port};
        struct wi_env env;
        char text[200];
        clearenv();
        putenv((char *)"RANK=1");
        putenv((char *)"WORLD_SIZE=2");
        putenv((char *)"MASTER_ADDR=192.0.2.1");
        for (int k = 0; k < 6 && cases[i].vars[k]; k++)
            putenv((char *)cases[i].vars[k]);
        CU_ASSERT_EQUAL_FATAL(wi_env_read(&s, wi_deadline_ns(1000000000), &env), WEFT_SUCCESS);
        wi_rendezvous_text(&env.rendezvous, text, sizeof(text));
        CU_ASSERT(strncmp(text, cases[i].begins, strlen(cases[i].begins)) == 0 && strstr(text, cases[i].has) != NULL);
        printf("# %s\n", text);
    }
}

/* Whoever connected to a local socket has no address to be known by. */
static void peers(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int pair[2], listens = socket(AF_INET, SOCK_STREAM, 0), connected = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t bytes = sizeof(any);
    char text[80], want[80];

    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    wi_socket_peer_text(pair[0], text, sizeof(text));
    snprintf(want, sizeof(want), "process %d of user %u on this host", (int)getpid(), (unsigned)geteuid());
    CU_ASSERT_STRING_EQUAL(text, want);
    CU_ASSERT_FATAL(!bind(listens, (struct sockaddr *)&any, bytes) && !listen(listens, 1) &&
                    !getsockname(listens, (struct sockaddr *)&any, &bytes));
    CU_ASSERT_EQUAL_FATAL(connect(connected, (struct sockaddr *)&any, bytes), 0);
    wi_socket_peer_text(connected, text, sizeof(text));
    snprintf(want, sizeof(want), "127.0.0.1:%d", ntohs(any.sin_port));
    CU_ASSERT_STRING_EQUAL(text, want);
    wi_socket_peer_text(listens, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "somewhere");
    close(pair[0]), close(pair[1]), close(listens), close(connected);
}

static const struct wt_case cases[] = {
    {"where ports come from", ports},
    {"who is at the other end", peers},
};
WT_UNIT_MAIN("rendezvous", cases)
