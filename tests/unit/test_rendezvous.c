/* Where rank 0's store is looked for, in words: what nobody typed is said to be derived.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

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
        CU_ASSERT_EQUAL_FATAL(wi_env_read(&s, &env), WEFT_SUCCESS);
        wi_rendezvous_text(&env.rendezvous, text, sizeof(text));
        CU_ASSERT(strncmp(text, cases[i].begins, strlen(cases[i].begins)) == 0 && strstr(text, cases[i].has) != NULL);
        printf("# %s\n", text);
    }
}

static const struct wt_case cases[] = {
    {"where ports come from", ports},
};
WT_UNIT_MAIN("rendezvous", cases)
