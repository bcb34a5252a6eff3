/* Loading plugins: the example works, and what is wrong with a plugin is said with its path.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings.h"
#include "base/status.h"
#include "base/trusted_path.h"
#include "net/transports.h"
#include "tests/harness/harness.h"

static struct wi_settings *settings;
static struct wi_transports *transports;

static weft_status opened(const char *wanted, const char *path)
{
    transports = NULL;
    CU_ASSERT_EQUAL_FATAL(wi_settings_create(NULL, NULL, &settings), WEFT_SUCCESS);
    return wi_transports_open(settings, wanted, path, NULL, &transports);
}

static void finish(void)
{
    wi_transports_close(transports);
    wi_settings_destroy(settings);
    wi_fail_clear();
}

static void says(const char *text, const char *words)
{
    if (!strstr(text, words))
        printf("# \"%s\" is not in: %s\n", words, text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, words));
}

/* A module that is no plugin of this library's does not stop who has no use for it, and its file and the reason are kept; who names
 * its transport (NULL: that cannot be known, and the file's name stands for it) is told. */
static void refused(const char *module, const char *name, const char *words)
{
    const char *dir = wt_plugin_dir(module);

    CU_ASSERT_EQUAL_FATAL(opened("all", dir), WEFT_SUCCESS);
    CU_ASSERT(wi_transports_find(transports, "inproc") != NULL && transports->refused != NULL);
    if (transports->refused) {
        says(transports->refused->path, module);
        says(transports->refused->why, words);
        CU_ASSERT_PTR_NULL(transports->refused->next);
    }
    finish();
    CU_ASSERT_EQUAL(opened(name ? name : module, dir), WEFT_EPLUGIN);
    CU_ASSERT_PTR_NULL(transports);
    says(wi_fail_text(), module);
    says(wi_fail_text(), words);
    finish();
    CU_ASSERT_EQUAL(opened("inproc", dir), WEFT_SUCCESS);
    finish();
    CU_ASSERT_EQUAL(opened("inproc,nosuch", dir), WEFT_ECONFIG);
    says(wi_fail_text(), "\"nosuch\", which does not exist");
    finish();
}

static void refuses_another_abi(void)
{
    refused("wrong_abi", NULL, "ABI 43");
}

static void tells_the_old_abi_what_to_change(void)
{
    refused("old_abi", "Older", "ABI 1, this library has 2: build it again");
}

static void refuses_a_short_description(void)
{
    refused("wrong_bytes", NULL, "16 bytes");
}

static void refuses_what_is_no_plugin(void)
{
    refused("no_symbol", NULL, "no symbol weft_plugin");
}

static void refuses_a_transport_without_ops(void)
{
    refused("no_ops", "empty", "empty lacks a required entry");
}

static void refuses_a_name_that_ranks_cannot_exchange(void)
{
    refused("long_name", "sixteen_letters_", "more than 15 letters");
}

/* The first of a name counts, whichever file it is in, and the second is named with it. */
static void two_of_a_name(void)
{
    char dir[600], built[700], first[700], second[700], foreign[700], twice[1300];
    int seconds = 0, foreigners = 0;
    FILE *f;

    snprintf(dir, sizeof dir, "%s/both", wt_temp_dir());
    CU_ASSERT_EQUAL_FATAL(mkdir(dir, 0700), 0);
    snprintf(first, sizeof first, "%s/a.so", dir);
    snprintf(second, sizeof second, "%s/b.so", dir);
    snprintf(built, sizeof built, "%s/self.so", wt_plugin_dir("self"));
    CU_ASSERT_EQUAL_FATAL(rename(built, second), 0);
    snprintf(built, sizeof built, "%s/self.so", wt_plugin_dir("self"));
    CU_ASSERT_EQUAL_FATAL(rename(built, first), 0);
    snprintf(foreign, sizeof foreign, "%s/c.so", dir);
    f = fopen(foreign, "w");
    CU_ASSERT_FATAL(f && fputs("text", f) >= 0 && fclose(f) == 0 && chmod(foreign, 0600) == 0);
    snprintf(twice, sizeof twice, "%s:%s", dir, dir); /* a file that is found again is no second one */
    CU_ASSERT_EQUAL_FATAL(opened("self", twice), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(transports->count, 1);
    CU_ASSERT_STRING_EQUAL(wi_transports_find(transports, "self")->path, first);
    CU_ASSERT_PTR_NOT_NULL_FATAL(transports->refused);
    CU_ASSERT_STRING_EQUAL(transports->refused->path, second);
    says(transports->refused->why, "transport self was loaded from ");
    says(transports->refused->why, first);
    for (const struct wi_refused_plugin *r = transports->refused; r; r = r->next) {
        seconds += strcmp(r->path, second) == 0;
        foreigners += strcmp(r->path, foreign) == 0;
        CU_ASSERT_STRING_NOT_EQUAL(r->path, first);
    }
    CU_ASSERT(seconds && foreigners); /* none takes another one's place in the list */
    finish();
}

/* ---- The example at work ---- */

static struct wi_transport *self;
static void *group;

static void self_start(const char *const *calls)
{
    weft_status status = wi_settings_create(NULL, calls, &settings) < 0
                             ? WEFT_EINTERNAL
                             : wi_transports_open(settings, "self", wt_plugin_dir("self"), NULL, &transports);
    CU_ASSERT_EQUAL_FATAL(status, WEFT_SUCCESS);
    self = wi_transports_find(transports, "self");
    CU_ASSERT_PTR_NOT_NULL_FATAL(self);
    unsigned char address[WEFT_ADDRESS_MAX], member = 1;
    size_t bytes = 0;
    CU_ASSERT_EQUAL_FATAL(self->ops.address(self->endpoint, address, sizeof address, &bytes), WEFT_SUCCESS);
    const void *addresses[] = {address};
    struct weft_group_config config = {
        .bytes = sizeof config, .nranks = 1, .addresses = addresses, .address_bytes = &bytes, .member = &member};
    CU_ASSERT_EQUAL_FATAL(self->ops.group_create(self->endpoint, &config, &group), WEFT_SUCCESS);
}

static void self_stop(void)
{
    self->ops.group_destroy(group, 0);
    finish();
}

static struct weft_xfer transfer(void *buf, size_t bytes, uint32_t chan)
{
    return (struct weft_xfer){.buf = buf, .bytes = bytes, .chan = chan, .granule = 1};
}

static void loads_the_example(void)
{
    self_start(NULL);
    CU_ASSERT_STRING_EQUAL(self->plugin->name, "self");
    CU_ASSERT_PTR_NOT_NULL(strstr(self->path, "/self.so"));
    CU_ASSERT_EQUAL(self->ops.mem_alloc(self->endpoint, 1, NULL), WEFT_ENOTSUP); /* a gap, filled with a stub */
    self_stop();
}

static void knows_its_own_address_only(void)
{
    unsigned char address[WEFT_ADDRESS_MAX] = {0};
    size_t bytes = 0;

    self_start(NULL);
    CU_ASSERT_EQUAL(self->ops.address(self->endpoint, address, sizeof address, &bytes), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(self->ops.reachable(self->endpoint, address, bytes), 1);
    CU_ASSERT_EQUAL(self->ops.reachable(self->endpoint, address, bytes - 1), 0);
    CU_ASSERT_EQUAL(self->ops.reachable(self->endpoint, address, sizeof address), 0);
    CU_ASSERT_EQUAL(self->ops.reachable(self->endpoint, NULL, 0), 0);
    address[bytes - 1] ^= 1;
    CU_ASSERT_EQUAL(self->ops.reachable(self->endpoint, address, bytes), 0);
    CU_ASSERT_EQUAL(self->ops.address(self->endpoint, address, 3, &bytes), WEFT_EINVAL);
    self_stop();
}

static void delivers_in_order_per_channel(void)
{
    char in[3] = {0};
    struct weft_xfer s0 = transfer("a", 1, 0), s1 = transfer("b", 1, 0), s2 = transfer("c", 1, 5);
    struct weft_xfer r0 = transfer(&in[0], 1, 0), r1 = transfer(&in[1], 1, 0), r2 = transfer(&in[2], 1, 5);

    self_start(NULL);
    CU_ASSERT_EQUAL(self->ops.send(group, &s0), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(s0.state, WEFT_XFER_PENDING);
    CU_ASSERT_EQUAL(self->ops.send(group, &s1), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(self->ops.recv(group, &r2), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(r2.state, WEFT_XFER_PENDING);
    CU_ASSERT_EQUAL(self->ops.send(group, &s2), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(self->ops.recv(group, &r0), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(self->ops.recv(group, &r1), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(s0.state | s1.state | s2.state | r0.state | r1.state | r2.state, WEFT_SUCCESS);
    CU_ASSERT_NSTRING_EQUAL(in, "abc", 3);
    self_stop();
}

static size_t sunk;
static void count_bytes(struct weft_xfer *x, size_t offset, const void *data, size_t bytes)
{
    CU_ASSERT_EQUAL(offset, sunk);
    CU_ASSERT_EQUAL(memcmp(data, "abcd", bytes), 0);
    CU_ASSERT_PTR_EQUAL(x->sink_arg, &sunk);
    sunk += bytes;
}

static void feeds_a_sink(void)
{
    struct weft_xfer s = transfer("abcd", 4, 1), r = transfer(NULL, 4, 1);

    r.sink = count_bytes;
    r.sink_arg = &sunk;
    sunk = 0;
    self_start(NULL);
    CU_ASSERT_EQUAL(self->ops.recv(group, &r), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(self->ops.send(group, &s), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(r.state, WEFT_SUCCESS);
    CU_ASSERT_EQUAL(sunk, 4);
    self_stop();
}

static void receives_up_to(void)
{
    char in[9] = "........";
    struct weft_xfer s = transfer("abcd", 4, 0), none = transfer(NULL, 0, 0), r = transfer(in, 8, 0);

    self_start(NULL);
    r.up_to = 1;
    CU_ASSERT_EQUAL(self->ops.send(group, &s), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(self->ops.recv(group, &r), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(r.state, WEFT_SUCCESS);
    CU_ASSERT_EQUAL(r.actual, 4);
    CU_ASSERT_STRING_EQUAL(in, "abcd....");
    CU_ASSERT_EQUAL(self->ops.recv(group, &r), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(self->ops.send(group, &none), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(r.state, WEFT_SUCCESS);
    CU_ASSERT_EQUAL(r.actual, 0);
    self_stop();
}

static void notices_disagreement(void)
{
    char in[8] = "old";
    struct weft_xfer s = transfer("abcd", 4, 0), longer = transfer("abcdefgh", 8, 0), r = transfer(in, 4, 0);

    self_start(NULL);
    s.info.seq = 7;
    CU_ASSERT_EQUAL(self->ops.send(group, &s), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(self->ops.recv(group, &r), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(r.state, WEFT_EMISMATCH);
    CU_ASSERT_EQUAL(r.peer_info.seq, 7);
    CU_ASSERT_EQUAL(self->ops.send(group, &longer), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(self->ops.recv(group, &r), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(r.state, WEFT_ETRUNC);
    CU_ASSERT_STRING_EQUAL(in, "old");
    self_stop();
}

static void obeys_its_settings(void)
{
    const char *const calls[] = {"WEFT_SELF_MAX_QUEUED=1", NULL};
    struct weft_xfer s0 = transfer("a", 1, 0), s1 = transfer("b", 1, 0), far = transfer("c", 1, 0);

    self_start(calls);
    far.peer = 1;
    CU_ASSERT_EQUAL(self->ops.send(group, &far), WEFT_EINVAL);
    CU_ASSERT_EQUAL(self->ops.send(group, &s0), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(self->ops.send(group, &s1), WEFT_ENOMEM);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "WEFT_SELF_MAX_QUEUED"));
    self_stop();
    const char *const wrong[] = {"WEFT_SELF_MAX_QUEUED=none", NULL};
    CU_ASSERT_EQUAL(wi_settings_create(NULL, wrong, &settings), WEFT_SUCCESS);
    transports = NULL;
    CU_ASSERT_EQUAL(wi_transports_open(settings, "self", wt_plugin_dir("self"), NULL, &transports), WEFT_ECONFIG);
    finish();
}

/* ---- Users that could have put it there ---- */

static char folder[600], file[700];

/* TEMPORARY/plugins/self.so */
static void prepare(void)
{
    snprintf(folder, sizeof folder, "%s/plugins", wt_temp_dir());
    snprintf(file, sizeof file, "%s/self.so", folder);
    CU_ASSERT_EQUAL_FATAL(mkdir(folder, 0700), 0);
    char built[700];
    snprintf(built, sizeof built, "%s/self.so", wt_plugin_dir("self"));
    CU_ASSERT_EQUAL_FATAL(rename(built, file), 0);
}

static void loaded_from(const char *path)
{
    CU_ASSERT_EQUAL(opened("self", path), WEFT_SUCCESS);
    CU_ASSERT(transports && wi_transports_find(transports, "self") != NULL);
    if (*wi_fail_text())
        printf("# %s\n", wi_fail_text());
    finish();
}

/* Nothing is run; what was wrong, and with which part of the path, is said. */
static void not_loaded_from(const char *path, const char *part, const char *words)
{
    CU_ASSERT_EQUAL(opened("inproc", path), WEFT_SUCCESS);
    CU_ASSERT_PTR_NOT_NULL_FATAL(transports);
    CU_ASSERT_PTR_NULL(wi_transports_find(transports, "self"));
    CU_ASSERT_PTR_NOT_NULL_FATAL(transports->refused);
    const char *why = transports->refused->why;
    CU_ASSERT_PTR_NULL(transports->refused->next);
    CU_ASSERT(strncmp(why, part, strlen(part)) == 0 && why[strlen(part)] == ' ' && strstr(why, words));
    if (strncmp(why, part, strlen(part)) != 0 || !strstr(why, words))
        printf("# \"%s\" is not about %s, \"%s\"\n", why, part, words);
    finish();
    CU_ASSERT_EQUAL(opened("self", path), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), words));
    finish();
}

static void modes(void)
{
    char parent[600];

    prepare();
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(folder, '/') - folder), folder);
    loaded_from(folder);
    chmod(file, 0770);
    not_loaded_from(folder, file, "has mode 770; it must be root's, user ");
    chmod(file, 0702);
    not_loaded_from(folder, file, "has mode 702; it must be ");
    chmod(file, 0755);
    loaded_from(folder);
    chmod(folder, 0730);
    not_loaded_from(folder, folder, "has mode 730; it must be ");
    chmod(folder, 0700);
    chmod(parent, 0707);
    not_loaded_from(folder, parent, "has mode 707; it must be ");
    chmod(parent, 01777); /* as /tmp: others cannot replace what is in it */
    loaded_from(folder);
}

static void links(void)
{
    char link[700], to[800], dots[800];
    const char *open_dir = wt_temp_dir();

    prepare();
    snprintf(link, sizeof link, "%s.link", folder);
    CU_ASSERT_EQUAL_FATAL(symlink("plugins", link), 0);
    loaded_from(link);
    snprintf(dots, sizeof dots, "%s/.././plugins/", folder);
    loaded_from(dots);
    CU_ASSERT_EQUAL_FATAL(chdir(folder), 0);
    loaded_from("../plugins.link");
    CU_ASSERT_EQUAL_FATAL(chdir("/"), 0);
    chmod(open_dir, 0777); /* who can write here chooses where the link leads */
    snprintf(to, sizeof to, "%s/plugins", open_dir);
    CU_ASSERT_EQUAL_FATAL(symlink(folder, to), 0);
    not_loaded_from(to, open_dir, "has mode 777; it must be ");
}

static void owners(void)
{
    char link[800];

    if (geteuid() != 0) {
        wt_skip("only root can give a file to somebody else");
        return;
    }
    prepare();
    CU_ASSERT_EQUAL_FATAL(chown(file, 12345, (gid_t)-1), 0);
    not_loaded_from(folder, file, "user 12345");
    CU_ASSERT_EQUAL_FATAL(chown(file, 0, (gid_t)-1), 0);
    CU_ASSERT_EQUAL_FATAL(chown(folder, 12345, (gid_t)-1), 0);
    not_loaded_from(folder, folder, "user 12345");
    CU_ASSERT_EQUAL_FATAL(chown(folder, 0, (gid_t)-1), 0);
    snprintf(link, sizeof link, "%s.link", folder);
    CU_ASSERT_EQUAL_FATAL(symlink("plugins", link), 0);
    CU_ASSERT_EQUAL_FATAL(lchown(link, 12345, (gid_t)-1), 0);
    not_loaded_from(link, link, "user 12345");
}

/* In a root of its own that anybody may write to. */
static void the_root(void)
{
    char why[5000] = "";
    int status;

    if (geteuid() != 0) {
        wt_skip("only root can change its root");
        return;
    }
    if (getenv("WEFT_EMULATED")) {
        wt_skip("an emulator looks for paths below a root of its own");
        return;
    }
    const char *dir = wt_temp_dir();
    CU_ASSERT_EQUAL_FATAL(chmod(dir, 0777), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int others = chroot(dir) == 0 && chdir("/") == 0 && mkdir("plugins", 0700) == 0 &&
                     !wi_path_trusted("/plugins", why, sizeof why) && !strncmp(why, "/ ", 2);
        int own = chmod("/", 0755) == 0 && wi_path_trusted("/plugins", why, sizeof why);
        _exit(!others + 2 * !own);
    }
    CU_ASSERT_FATAL(child > 0 && waitpid(child, &status, 0) == child);
    CU_ASSERT_EQUAL(status, 0);
}

static void endless_links(void)
{
    char link[800], why[5000] = "";

    prepare();
    snprintf(link, sizeof link, "%s.link", folder);
    CU_ASSERT_EQUAL_FATAL(symlink(link, link), 0);
    CU_ASSERT_EQUAL(wi_path_trusted(link, why, sizeof why), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "ymbolic links"));
    snprintf(link, sizeof link, "%s/none.so", folder);
    CU_ASSERT_EQUAL(wi_path_trusted(link, why, sizeof why), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "none.so: No such file"));
}

/* Is a hello for that communicator answered? */
static int answers(uint64_t number)
{
    uint64_t claim[2] = {number, ~number};
    unsigned char hello[WEFT_AUTH_MESSAGE_MAX], reply[WEFT_AUTH_MESSAGE_MAX];
    size_t consumed, bytes, reply_bytes;
    struct wi_auth_key key;

    CU_ASSERT_EQUAL(wi_auth_derive((const unsigned char *)"key", 3, "job", "transport", &key), WEFT_SUCCESS);
    struct weft_auth *client = wi_auth_create(&key, 0, claim, sizeof claim);
    struct weft_auth *server = transports->host.auth_create(transports->host.impl, 1, claim, sizeof claim);
    CU_ASSERT_FATAL(client && server);
    CU_ASSERT_EQUAL(wi_auth_step(client, NULL, 0, &consumed, hello, sizeof hello, &bytes, NULL, NULL), WEFT_INPROGRESS);
    weft_status st = wi_auth_step(server, hello, bytes, &consumed, reply, sizeof reply, &reply_bytes, NULL, NULL);
    CU_ASSERT(st == WEFT_EAUTH || (st == WEFT_INPROGRESS && reply_bytes > 0));
    wi_auth_destroy(client);
    wi_auth_destroy(server);
    return st == WEFT_INPROGRESS;
}

/* A rank that is late with its connections still hears that its communicator is gone; and what is kept of those is bounded. */
static void keys_of_the_gone(void)
{
    CU_ASSERT_EQUAL_FATAL(wi_settings_create(NULL, NULL, &settings), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_transports_open(settings, "inproc", NULL, NULL, &transports), WEFT_SUCCESS);
    for (uint64_t i = 0; i <= 64; i++)
        CU_ASSERT_EQUAL(wi_transports_add_key(transports, (uint64_t[]){i, ~i}, (const unsigned char *)"key", 3, "job"),
                        WEFT_SUCCESS);
    CU_ASSERT(answers(0) && answers(64) && !answers(65));
    for (uint64_t i = 0; i <= 64; i++)
        wi_transports_drop_key(transports, (uint64_t[]){i, ~i});
    CU_ASSERT(answers(64) && answers(1));
    CU_ASSERT(!answers(0)); /* 64 are remembered */
    finish();
}

static const struct wt_case cases[] = {
    {"loads the example", loads_the_example},
    {"the example knows its own address only", knows_its_own_address_only},
    {"the example delivers in order per channel", delivers_in_order_per_channel},
    {"the example feeds a sink", feeds_a_sink},
    {"the example receives up to a capacity", receives_up_to},
    {"the example notices disagreement", notices_disagreement},
    {"the example obeys its settings", obeys_its_settings},
    {"refuses another ABI", refuses_another_abi},
    {"tells a plugin of ABI 1 what to change", tells_the_old_abi_what_to_change},
    {"refuses a short description", refuses_a_short_description},
    {"refuses what is no plugin", refuses_what_is_no_plugin},
    {"refuses a transport without ops", refuses_a_transport_without_ops},
    {"refuses a name that ranks cannot exchange", refuses_a_name_that_ranks_cannot_exchange},
    {"the first of two with one name", two_of_a_name},
    {"does not load what others can write to", modes},
    {"does not follow a link that others can change", links},
    {"does not load what belongs to others", owners},
    {"does not load what is below a root that others can write to", the_root},
    {"links that end nowhere", endless_links},
    {"the newest communicators that are gone have their keys", keys_of_the_gone},
};
WT_UNIT_MAIN("plugin", cases)
