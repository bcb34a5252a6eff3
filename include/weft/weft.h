/* weft: collective communication for distributed training.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Start here: weft_context_create, weft_comm_create_env, weft_all_reduce, weft_comm_destroy,
 * weft_context_destroy. Everything else is refinement. `man 7 weft` is the overview. Constants and structs are in
 * weft_types.h, which this header includes.
 *
 * Conventions used by every function below
 *   Return     WEFT_SUCCESS (0), WEFT_INPROGRESS (> 0), or a failure (< 0). Outputs are written only on
 *              success. weft_thread_error() is the text of the calling thread's newest failure;
 *              weft_last_error(comm) holds the details of what broke a communicator.
 *   Units      counts are elements of the dtype; sizes named *_bytes are bytes; times named *_ns are
 *              nanoseconds on a monotonic clock.
 *   Threads    any thread may make any call. Calls of several threads on one communicator run one after
 *              another; one that blocks in its operation lets the others' in. Collectives must be issued in
 *              the same order on every rank: threads that share a communicator for them have to agree on it.
 *              Communicators are independent of each other.
 *   Blocking   a collective whose `req` argument is NULL blocks until the operation is complete on this
 *              rank, or fails; with a request it returns once the operation is queued.
 *   In place   allowed wherever MPI or NCCL allow it; each function says which pointers must be equal.
 *   Ownership  pointers are borrowed until the call returns, unless the function says otherwise. NULL is a
 *              valid argument of every destroy, free and deregister.
 *   Fork       a child of fork() may exec or exit; calls on what its parent made are refused (WEFT_EINVAL). It
 *              keeps none of the parent's connections: if the parent ends, the other ranks hear of it.
 *   Failures   after an operation failed with WEFT_EPEER or below, this rank's buffers are its caller's again,
 *              unless weft_last_error's advice says that a rank was stopped in the middle of a store to them:
 *              then that rank may still complete that one store until its process has ended.
 *
 * Each comment below has, in this order: what the function does; when to use it, Cost; In place; @param;
 * Ownership; Threads; Blocks; @return; Paper. What does not apply is left out. In costs P is the number of
 * ranks and n the bytes of a vector, or of one rank's share where every rank has its own.
 */
#ifndef WEFT_H
#define WEFT_H

#include <weft/weft_types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0
#define WEFT_VERSION_NUMBER (WEFT_VERSION_MAJOR * 10000 + WEFT_VERSION_MINOR * 100 + WEFT_VERSION_PATCH)

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

/* ---- Library ----------------------------------------------------------------------------------------- */

/* Tell the version of the library that is running.
 *
 * Compare with WEFT_VERSION_MAJOR, …_MINOR, …_PATCH, which are those of the header.
 * Threads: any thread.
 * @return "MAJOR.MINOR.PATCH", static */
WEFT_API const char *weft_version(void);

/* Tell the version of the library that is running as a number, to compare.
 *
 * Threads: any thread.
 * @return MAJOR * 10000 + MINOR * 100 + PATCH; WEFT_VERSION_NUMBER is that of the header */
WEFT_API unsigned weft_version_number(void);

/* Name a status, as the constant is spelled.
 *
 * @param status  any value
 * Threads: any thread.
 * @return "WEFT_EPEER", …, static; "unknown" for a value that is no status */
WEFT_API const char *weft_status_name(weft_status status);

/* Describe a status in a few words.
 *
 * @param status  any value
 * Threads: any thread.
 * @return "peer failed", …, static; "unknown status" for a value that is no status */
WEFT_API const char *weft_status_text(weft_status status);

/* Name a data type.
 *
 * @param dtype  any value
 * Threads: any thread.
 * @return "float", "int8", …, static; "unknown" for a value that is no data type */
WEFT_API const char *weft_dtype_name(weft_dtype dtype);

/* Give the size of an element.
 *
 * @param dtype  any value
 * Threads: any thread.
 * @return bytes of one element; 0 for a value that is no data type */
WEFT_API size_t weft_dtype_bytes(weft_dtype dtype);

/* Name an operator.
 *
 * @param op  any value
 * Threads: any thread.
 * @return "sum", "max", …, static; "user" for every operator that is not built in */
WEFT_API const char *weft_op_name(weft_op op);

/* ---- Context ----------------------------------------------------------------------------------------- */

/* Attach this process to weft: read the settings and open the transports.
 *
 * Once per process is the rule; several contexts with settings of their own may exist. The log level
 * (WEFT_LOG) and the instruction set (WEFT_ISA) are the process's: the newest context decides. Talks to
 * nobody.
 * @param config   NULL: the defaults of WEFT_CONTEXT_CONFIG_INIT
 * @param context  receives the context
 * Ownership: the caller ends it with weft_context_destroy. Nothing of config is kept.
 * Threads: any thread.
 * Blocks: no longer than opening plugins takes.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL   context is NULL, config->bytes is no size of it, or flags has unknown bits
 *         WEFT_ENOTSUP  config sets a field that this version does not know
 *         WEFT_ECONFIG  a setting or the configuration file is malformed, or WEFT_TRANSPORTS names a
 *                       transport that does not exist or cannot work here
 *         WEFT_EPLUGIN  WEFT_TRANSPORTS names a plugin that was built for another ABI, lacks a required entry or
 *                       is none; one that is not named is left out, with a warning in the log
 *         WEFT_ENOMEM, WEFT_ESYS, WEFT_ENOFILES  the system refused memory, a call or a descriptor */
WEFT_API weft_status weft_context_create(const weft_context_config *config, weft_context **context);

/* Detach: stop the progress thread and close the transports.
 *
 * Memory of weft_mem_alloc that was not freed is unmapped; registered memory becomes private again.
 * @param context  NULL does nothing; invalid after success
 * Threads: no other thread may use the context, nor memory allocated from it.
 * Blocks: until the progress thread has ended and the kernel has passed on what was sent, at most 2 s.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not a context
 *         WEFT_EBUSY   one of its communicators still exists; the context stays usable */
WEFT_API weft_status weft_context_destroy(weft_context *context);

/* Receive one setting from weft_context_settings. Strings are valid during the call.
 *
 * @param arg            what weft_context_settings was given
 * @param name           full name, "WEFT_COMM_TIMEOUT"
 * @param value          in effect, as text; NULL or "": not set
 * @param default_value  as text; NULL or "": none
 * @param origin         "default", "file", "environment" or "call"
 * @param help           one line, with the unit */
typedef void (*weft_setting_fn)(void *arg, const char *name, const char *value, const char *default_value,
                                const char *origin, const char *help);

/* Visit every setting with its value, its default and where the value came from.
 *
 * @param context  the context
 * @param fn       called for each setting, those of transports included
 * @param arg      passed to fn
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  context or fn is NULL, or context is not a context */
WEFT_API weft_status weft_context_settings(weft_context *context, weft_setting_fn fn, void *arg);

/* Receive one plugin from weft_context_plugins.
 *
 * @param arg     what weft_context_plugins was given
 * @param plugin  valid during the call */
typedef void (*weft_plugin_fn)(void *arg, const weft_plugin_info *plugin);

/* Visit every plugin that is open, built in or loaded; then transports that this host is without, and files and folders that were
 * refused, with the reason.
 *
 * @param context  the context
 * @param fn       called for each of them
 * @param arg      passed to fn
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  context or fn is NULL, or context is not a context */
WEFT_API weft_status weft_context_plugins(weft_context *context, weft_plugin_fn fn, void *arg);

/* Tell whether a context can be used by this process.
 *
 * For libraries that keep one over fork(): the child cannot use it, and makes its own.
 * @param context  the context
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS  it can
 *         WEFT_EINVAL   NULL, no context, or that of the process from which this one was forked; the text says which */
WEFT_API weft_status weft_context_check(const weft_context *context);

/* Tell how start-up on several hosts is protected: by which job key, if any.
 *
 * Looks without starting anything: no communicator is made, and a key that comes from a pipe is left in it.
 * @param context   the context
 * @param security  from WEFT_SECURITY_INIT; filled
 * Ownership: strings are the library's, valid until the thread's next weft_context_security or its end.
 * Threads: any thread, each gets its own copy.
 * Blocks: while a key file is read.
 * @return WEFT_SUCCESS  *security tells, also of a key that is refused
 *         WEFT_EINVAL   not a context, or security is NULL or its bytes are no size of it */
WEFT_API weft_status weft_context_security(weft_context *context, weft_security *security);

/* ---- Communicators ------------------------------------------------------------------------------------ */

/* Creating a communicator
 *
 * The five ways below differ in how the ranks find each other. All are collective: every rank of the new
 * communicator calls the same one, and gets it or a failure by the deadline.
 * Cost: O(log P) messages per rank; connections between ranks are made when they are first used.
 * @param context  the context to make it in; must outlive the communicator
 * @param rank     this process's place, 0 to nranks - 1, each once
 * @param nranks   size of the communicator, at least 1, the same on all ranks
 * @param config   NULL: the defaults of WEFT_COMM_CONFIG_INIT. May differ between ranks
 * @param comm     receives the communicator
 * Ownership: the caller ends it with weft_comm_destroy. Nothing of the arguments is kept.
 * Threads: any thread; a thread that makes several makes them in the same order on all ranks.
 * Blocks: until all ranks have joined, at most config->init_timeout_ns.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL     a NULL argument, config->bytes is no size of it, or rank is not below nranks
 *         WEFT_ECONFIG    settings that must agree between ranks do not, WEFT_ALGO is malformed, the job key
 *                         cannot be read, or WEFT_REQUIRE_KEY asks for one and there is none
 *         WEFT_ENOTSUP    two ranks have no transport in common; or config sets a field that this version does not
 *                         know
 *         WEFT_EPEER      another rank failed or left during creation; the text names it and says why
 *         WEFT_EAUTH      a rank has another job key, or none where others have one, or what ranks exchanged
 *                         was changed on its way
 *         WEFT_EMISMATCH  a rank runs another version of weft, has other values of the settings on which
 *                         the choice of algorithms depends, or is in another exchange
 *         WEFT_ETIMEDOUT  the deadline passed; the text names a rank that is missing
 *         WEFT_EPROTO     a rank sent malformed data
 *         WEFT_ENOMEM, WEFT_ESYS, WEFT_ENOFILES, WEFT_ENOSPC  the system refused memory, a call, a
 *                         descriptor or shared memory */

/* Make the id by which ranks find each other in weft_comm_create_id.
 *
 * One process calls it (usually the one that becomes rank 0) and sends the id to the others by its own
 * means. This process serves the exchange in the background: it must live until the communicator exists. An
 * id serves one communicator; one that nobody completes within five minutes is dropped.
 * @param context  the context
 * @param id       receives the id; it holds a secret, so hand it only to processes that may join
 * Ownership: the caller's; there is nothing to free.
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL   context or id is NULL
 *         WEFT_ECONFIG  WEFT_STORE_INTERFACES names no interface that is up
 *         WEFT_ENOMEM, WEFT_ESYS, WEFT_ENOFILES  the system refused memory, a call or a descriptor */
WEFT_API weft_status weft_unique_id_create(weft_context *context, weft_unique_id *id);

/* Make a communicator of all ranks that the launcher started.
 *
 * The usual way. Reads the first set of variables it finds: WEFT_RANK … (weft-run), RANK … MASTER_ADDR
 * (torchrun), OMPI_COMM_WORLD_RANK … (Open MPI's mpirun), PMI_FD … (MPICH's mpiexec), SLURM_PROCID …
 * (srun). Without any the result has one rank; half a set (RANK without WORLD_SIZE) is refused. Rank 0 serves
 * the exchange. Ranks of one host need nothing more; those of several need a job key (WEFT_JOB_KEY_FILE,
 * weft-run --make-key) unless weft-run or PMI carries one.
 * @param context, config, comm  as for every creation
 * Ownership, Threads, Blocks: as for every creation.
 * @return as every creation, and
 *         WEFT_ECONFIG  the launcher's variables or the job key are malformed or incomplete; there is no job key and the
 *                       ranks may be on several hosts (the text has the line to type); rank 0's address is not its host's */
WEFT_API weft_status weft_comm_create_env(weft_context *context, const weft_comm_config *config,
                                          weft_comm **comm);

/* Make a communicator of the ranks that hold the same id.
 *
 * When the program has its own way to pass 128 bytes around, as with NCCL.
 * @param context, rank, nranks, config, comm  as for every creation
 * @param id  from weft_unique_id_create, the same on all ranks
 * Ownership, Threads, Blocks: as for every creation.
 * @return as every creation, and
 *         WEFT_EINVAL   the id is damaged or of another version
 *         WEFT_ENOTSUP  the id was made on a host without a network and is used on another */
WEFT_API weft_status weft_comm_create_id(weft_context *context, const weft_unique_id *id, int rank,
                                         int nranks, const weft_comm_config *config, weft_comm **comm);

/* Make a communicator of ranks that meet through a file.
 *
 * When ranks share a file system and nothing else. Rank 0 replaces what is at `path` by a file of mode 600
 * with a fresh secret and removes it when all have joined; ranks may come in any order.
 * @param context, rank, nranks, config, comm  as for every creation
 * @param path  of the file, the same file on all ranks, in a folder that rank 0 may write to
 * Ownership, Threads, Blocks: as for every creation.
 * @return as every creation, and
 *         WEFT_EINVAL  path is NULL, empty or too long */
WEFT_API weft_status weft_comm_create_file(weft_context *context, const char *path, int rank, int nranks,
                                           const weft_comm_config *config, weft_comm **comm);

/* Make a communicator by an all-gather that the caller supplies.
 *
 * When another library already connects the ranks (MPI, a key-value store). all_gather is called a few
 * times, from this call and in this thread only. Without a configured job key the communicator's key
 * follows from what it carries: it must be as private as the job. With one (WEFT_JOB_KEY_FILE) the
 * communicator's key needs both, all that is exchanged is authenticated, and all_gather is called twice
 * as often.
 * @param context, config, comm  as for every creation
 * @param oob  rank, nranks and the function
 * Ownership, Threads, Blocks: as for every creation.
 * @return as every creation, and
 *         WEFT_EINVAL     oob is NULL, oob->bytes is wrong, or all_gather is NULL
 *         WEFT_EPEER      all_gather failed
 *         WEFT_ETIMEDOUT  all_gather failed at its deadline */
WEFT_API weft_status weft_comm_create_oob(weft_context *context, const weft_oob *oob,
                                          const weft_comm_config *config, weft_comm **comm);

#define WEFT_COLOR_NONE (-1) /* weft_comm_split: this rank joins none of the new communicators */

/* Split a communicator into one for each color.
 *
 * Collective over the parent. Ranks of one color form a communicator, ordered by key, then by rank in the
 * parent. The ranks exchange over the parent, apart from its operations. An exchange that fails in mid-way
 * breaks the parent.
 * @param parent  the communicator to split; stays as it is
 * @param color   which group to join, >= 0, or WEFT_COLOR_NONE
 * @param key     wish for a place in the group
 * @param config  as for every creation. The time-out of operations is not inherited
 * @param comm    receives the communicator; NULL is stored for WEFT_COLOR_NONE
 * Ownership: the caller ends it with weft_comm_destroy, before or after the parent.
 * Threads: any thread; others' calls on parent wait until this one returns.
 * Blocks: until all ranks of the parent have called, at most config->init_timeout_ns.
 * @return as every creation, and
 *         WEFT_EINVAL    parent or comm is NULL, or color is below WEFT_COLOR_NONE
 *         WEFT_EABORTED  a rank aborted the parent
 *         a failure of parent before  the parent is broken */
WEFT_API weft_status weft_comm_split(weft_comm *parent, int color, int key, const weft_comm_config *config,
                                     weft_comm **comm);

/* Make another communicator of the same ranks in the same order.
 *
 * For a library or a thread that wants operations of its own: those of two communicators never meet.
 * @param parent  the communicator to copy; stays as it is
 * @param config  as for weft_comm_split
 * @param comm    receives the communicator
 * Ownership, Threads, Blocks: as weft_comm_split.
 * @return as every creation, and
 *         WEFT_EINVAL    parent or comm is NULL
 *         WEFT_EABORTED  a rank aborted the parent
 *         a failure of parent before  the parent is broken */
WEFT_API weft_status weft_comm_dup(weft_comm *parent, const weft_comm_config *config, weft_comm **comm);

/* Leave a communicator and free it with all its requests.
 *
 * Local: it does not wait for other ranks. With operations in flight it is an abort. Ranks that call a
 * later operation which needs this one get WEFT_EPEER. Allowed in every state; the only thing left to do
 * with a broken communicator.
 * Other threads may be inside calls on it, in operations, weft_wait, weft_wait_for, weft_wait_any,
 * weft_wait_all, weft_test, weft_group_end or weft_comm_abort: they get WEFT_EABORTED, weft_wait_any also if
 * it waits for requests of other communicators, too, and this returns after they have left. A call that
 * begins later has no communicator, as any that begins after this has returned.
 * @param comm  NULL does nothing; invalid after success, and so are its requests
 * Threads: any thread, one.
 * Blocks: until other threads have left their calls, at most a second, and until threads of the library
 *         (WEFT_WORKERS) are through with what they copy or reduce, at most another.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not a communicator
 *         WEFT_EBUSY   a thread did not leave its call in time, or destroys comm just now, or one of the
 *                      library's still reads or writes memory of an operation; comm still exists, aborted:
 *                      call again */
WEFT_API weft_status weft_comm_destroy(weft_comm *comm);

/* Break a communicator now: all its operations, here and on the other ranks, end with a failure.
 *
 * For error handling: never waits for a peer. Operations of this rank end with WEFT_EABORTED; other ranks
 * get WEFT_EABORTED or WEFT_EPEER naming this rank. The communicator must still be destroyed. Further calls
 * do nothing.
 * @param comm    the communicator
 * @param reason  NULL, or a line for the log and weft_last_error; copied, cut after 127 bytes
 * Threads: any thread, also while another is inside a call on comm.
 * Blocks: at most a second, when another thread is inside a call.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not a communicator */
WEFT_API weft_status weft_comm_abort(weft_comm *comm, const char *reason);

/* Tell this process's rank.
 *
 * @param comm  the communicator
 * @param rank  receives 0 to size - 1
 * Threads: any thread.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  comm is not a communicator, or rank is NULL */
WEFT_API weft_status weft_comm_rank(const weft_comm *comm, int *rank);

/* Tell the number of ranks.
 *
 * @param comm    the communicator
 * @param nranks  receives it
 * Threads: any thread.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  comm is not a communicator, or nranks is NULL */
WEFT_API weft_status weft_comm_size(const weft_comm *comm, int *nranks);

/* Tell the communicator's label.
 *
 * @param comm  the communicator
 * @param name  receives weft_comm_config.name, or "communicator"; valid as long as comm
 * Threads: any thread.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  comm is not a communicator, or name is NULL */
WEFT_API weft_status weft_comm_name(const weft_comm *comm, const char **name);

/* Tell on which host a rank runs.
 *
 * @param comm  the communicator
 * @param rank  of comm
 * @param host  receives the host's name; valid as long as comm
 * Threads: any thread.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  comm is not a communicator, rank is not one of its ranks, or host is NULL */
WEFT_API weft_status weft_comm_host(const weft_comm *comm, int rank, const char **host);

/* Tell this rank's place among the communicator's ranks on the same node.
 *
 * @param comm          the communicator
 * @param local_rank    receives 0 to local_nranks - 1, in order of rank
 * @param local_nranks  receives the number of ranks on this node
 * Threads: any thread.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  comm is not a communicator, or a result pointer is NULL */
WEFT_API weft_status weft_comm_local(const weft_comm *comm, int *local_rank, int *local_nranks);

/* Tell how this rank reaches another one: its host, the transport, and why no faster one.
 *
 * All ranks have agreed on the transport of each pair when the communicator was made.
 * @param comm  the communicator
 * @param peer  a rank of comm
 * @param info  initialised with WEFT_PEER_INFO_INIT, receives it
 * Threads: any thread.
 * Blocks: no, but for another thread's call on comm.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  comm is not a communicator, peer is not one of its ranks, info is NULL, or info->bytes is
 *                      no size of it
 *         WEFT_EABORTED  the communicator is being destroyed */
WEFT_API weft_status weft_comm_peer(weft_comm *comm, int peer, weft_peer_info *info);

/* Receive one transport from weft_comm_routes.
 *
 * @param arg    what weft_comm_routes was given
 * @param route  valid during the call */
typedef void (*weft_route_fn)(void *arg, const weft_route_info *route);

/* Visit every transport that some rank of a communicator has: who of two ranks has it, and who is reached.
 *
 * For programs that show or judge it; weft_comm_peer says the same in words.
 * @param comm  the communicator
 * @param peer  a rank of comm; of this rank itself nothing reaches
 * @param fn    called for each transport, in order of their names
 * @param arg   passed to fn
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  comm is not a communicator, peer is not one of its ranks, or fn is NULL */
WEFT_API weft_status weft_comm_routes(const weft_comm *comm, int peer, weft_route_fn fn, void *arg);

/* Describe the machine that the ranks are on: hosts, memories, caches, cores, devices, and the links between them.
 *
 * The first call on a communicator is collective, and so is the first weft_comm_mesh: whichever comes first.
 * One rank of each node reads the node; the others get it from there. With WEFT_TOPO_FILE that file is the
 * answer. Later calls answer from memory. What could not be read is part of the description.
 * Cost: reading a node, some milliseconds; then O(log P) messages of all descriptions together.
 * @param comm    the communicator
 * @param format  NULL or "tree" to read, "json" or "xml" as WEFT_TOPO_FILE and weft-topo take it, "dot",
 *                "svg"; may differ between ranks
 * @param text    receives the description, the same on all ranks; valid until the next call of this
 *                function on comm, or its destruction
 * Threads: any thread.
 * Blocks: the first time until all ranks have called, at most the init_timeout_ns of comm; else no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL     not a communicator, format is none of these, text is NULL, or within a group
 *         WEFT_ENOTSUP    the descriptions together are longer than 1 GiB
 *         WEFT_ECONFIG    there are hosts that no network joins
 *         WEFT_ENOMEM, WEFT_ESYS  the system refused, here or on the rank that the text names: comm stays
 *                         usable
 *         WEFT_EPROTO, WEFT_EPEER, WEFT_ETIMEDOUT, WEFT_EABORTED  the exchange failed
 *         a failure of comm before  the communicator is broken */
WEFT_API weft_status weft_comm_topology(weft_comm *comm, const char *format, const char **text);

/* Find places for the ranks in a mesh of several axes, so that ranks that exchange most are near each other.
 *
 * For tensor, data, pipeline and other parallelism combined. Collective. Blocks of the axis with the most
 * traffic are put within caches, memories, packages, nodes or racks, whichever are the smallest that hold
 * them; then blocks of blocks for the next axis, and so on. The order of the ranks is kept unless another one
 * is better. Makes no communicators: weft_comm_split does.
 * Cost: as weft_comm_topology if it is the first call; and two exchanges of O(log P) messages.
 * @param comm     the communicator
 * @param axes     naxes axes whose extents multiply to the size of comm; the same on all ranks
 * @param naxes    1 to 16
 * @param order    receives the rank at each of the mesh's positions, the last axis running fastest: as many
 *                 as comm has ranks; the same on all ranks
 * @param reasons  NULL, or receives why, as lines of text: for each axis within what its groups are, and
 *                 their slowest link; valid until the next call of this function on comm, or its destruction
 * Threads: any thread.
 * Blocks: until all ranks have called, at most the init_timeout_ns of comm.
 * @return as weft_comm_topology, and
 *         WEFT_EINVAL  axes or order is NULL, naxes or a field of an axis is out of range, the extents do not
 *                      multiply to the number of ranks, or a rank, named in the text, has given other axes */
WEFT_API weft_status weft_comm_mesh(weft_comm *comm, const weft_mesh_axis *axes, size_t naxes, int *order,
                                    const char **reasons);

/* Tell whether a communicator is still usable.
 *
 * Looks at what is known here; does not ask the network.
 * @param comm  the communicator
 * Threads: the one that issues operations; others see a value that may be old.
 * Blocks: no.
 * @return WEFT_SUCCESS  usable
 *         WEFT_EINVAL   not a communicator
 *         any other failure  what broke it; weft_last_error has the details */
WEFT_API weft_status weft_comm_status(const weft_comm *comm);

/* Set the deadline of operations issued from now on.
 *
 * An operation's time runs from its issue. When it is over the operation fails with WEFT_ETIMEDOUT, naming
 * a rank that it waits for, and the communicator is broken. Local; other ranks hear of the failure.
 * @param comm        the communicator
 * @param timeout_ns  WEFT_TIMEOUT_DEFAULT: the setting WEFT_COMM_TIMEOUT; WEFT_TIMEOUT_NEVER: no deadline
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not a communicator */
WEFT_API weft_status weft_comm_set_timeout(weft_comm *comm, uint64_t timeout_ns);

/* Tell by which algorithm this rank's newest collective ran.
 *
 * For logs and for tests of tuning: what the planner, a rule or weft_issue has chosen.
 * @param comm       the communicator
 * @param algorithm  receives the name, as weft_algorithm_list or a rule has it; "" while the ranks have not agreed on
 *                   one. Valid until the thread's next call of this function, or its end
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL    not a communicator, or algorithm is NULL
 *         WEFT_ENOTFOUND  no collective was called yet that other ranks have a part in (on one rank, and of no elements,
 *                         no algorithm runs), or messages have pushed it out of the recorder */
WEFT_API weft_status weft_comm_newest_algorithm(weft_comm *comm, const char **algorithm);

/* Tell of this rank's newest collective: by which algorithm it ran, its codec, how much it sent.
 *
 * What the flight recorder (weft_comm_dump) has of it, for benchmarks and tests.
 * @param comm  the communicator
 * @param info  from WEFT_COLLECTIVE_INFO_INIT; filled
 * Ownership: strings are the library's, valid until the thread's next weft_comm_newest_collective or its end.
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL    not a communicator, info is NULL, or info->bytes is wrong
 *         WEFT_ENOTFOUND  as weft_comm_newest_algorithm */
WEFT_API weft_status weft_comm_newest_collective(weft_comm *comm, weft_collective_info *info);

/* Write the flight recorder: the newest operations of this rank with their states and times, as JSON.
 *
 * Local. The same file is written by itself when a communicator breaks, if WEFT_COMM_DUMP_ON_ERROR is set.
 * "bytes_sent" is what was given to transports; compressed operations have "codec", "tensor" and "codec_bypassed" too, those with
 * a label "label".
 * @param comm  the communicator, broken or not
 * @param path  of the file, replaced if it exists; %r stands for the rank, %p for the process
 * Threads: any thread.
 * Blocks: while the file is written.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not a communicator, or path is NULL
 *         WEFT_ESYS, WEFT_ENOFILES, WEFT_ENOSPC, WEFT_ENOMEM  the file cannot be written; the text says why
 */
WEFT_API weft_status weft_comm_dump(weft_comm *comm, const char *path);

/* Give the details of a communicator's newest failure: who, where, in which operation, what to do.
 *
 * Holds failures of operations that had begun. A call refused for its arguments leaves it as it is: see
 * weft_thread_error.
 * @param comm   the communicator
 * @param error  from WEFT_ERROR_INIT; filled. Its status is WEFT_SUCCESS when nothing has failed
 * Ownership: strings are the library's, valid until the thread's next weft_last_error or its end.
 * Threads: any thread, each gets its own copy.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not a communicator, error is NULL, or error->bytes is wrong */
WEFT_API weft_status weft_last_error(const weft_comm *comm, weft_error *error);

/* Give the text of the newest failure of any weft call made by this thread.
 *
 * The place to look after a failed creation, context or memory call and after a refused argument. Success
 * does not clear it.
 * Ownership: the library's; valid until the thread's next failing call or its end.
 * Threads: any thread, each has its own.
 * @return one line, never NULL; "" if nothing has failed */
WEFT_API const char *weft_thread_error(void);

/* ---- Collectives --------------------------------------------------------------------------------------- */

/* Every operation: collectives and point to point, in their blocking, request, persistent and grouped forms
 *
 * All ranks call the same collectives with matching arguments in the same order (send and recv: the two
 * ranks). A rank that disagrees about kind, count, dtype, operator or root fails, and so do all whose part
 * is not complete yet. Costs are for bytes sent or, on one node, passed through this rank's core; the
 * algorithm is chosen by size, ranks, nodes and memory: weft_algorithm_list names them all. Large results
 * bypass the caches (WEFT_COMM_NT_BYTES).
 * @param comm   the communicator
 * @param src    what this rank gives, only read; must stay unchanged until the operation completes. May be
 *               NULL where this rank gives nothing (count 0, or as the function says)
 * @param dst    where the result goes; must stay untouched until the operation completes. May be NULL where
 *               this rank gets nothing. Overlaps src only in the in-place form
 * @param count  elements; 0 is fine
 * @param counts  elements of each rank's share, nranks of them, in rank order; 0 is fine. Arrays must stay
 *                unchanged until the operation completes
 * @param displs  where each share begins, nranks of them, in elements from the start of the buffer; NULL:
 *                one after the other. Shares that are written must not overlap
 * @param dtype  type of the elements
 * @param op     a built-in operator, or one from weft_op_create*
 * @param root   a rank of comm, the same on all ranks
 * @param req    NULL: block until the operation is complete on this rank (in a group: complete by
 *               weft_group_end). Else receives a request to test or wait for
 * Ownership: the request is the caller's: weft_request_free, after completion. The blocking form leaves
 *     nothing.
 * Threads: any thread; the order of collectives must be the same on all ranks.
 * Blocks: without a request until completion, at most the deadline (weft_comm_set_timeout); else no.
 * @return WEFT_SUCCESS    complete; with a request: queued, the outcome comes from weft_wait
 *         WEFT_EINVAL     not a communicator; unknown dtype or op; root or peer is not a rank; a NULL
 *                         buffer that is needed; src and dst overlap otherwise than in place; counts beyond
 *                         the address space, or of which the two for a rank's share of its own differ; the
 *                         scalar of a pre-multiplied sum has another dtype
 *         WEFT_ENOTSUP    op is undefined for dtype, or the algorithm that a rule or weft_issue names cannot do this
 *                         operation
 *         WEFT_EMISMATCH  another rank called another operation, or this one with other arguments; both are
 *                         named. A rank that hears of it from others gets WEFT_EABORTED or WEFT_EPEER
 *         WEFT_EPEER      a rank died, left the communicator or failed; it is named
 *         WEFT_EABORTED   this rank or another one aborted, or left after a failure of its own
 *         WEFT_ETIMEDOUT  the deadline passed; the rank that is waited for is named
 *         WEFT_EAUTH      a rank answers with another job key
 *         WEFT_EPROTO     a peer sent malformed data
 *         WEFT_ENOMEM, WEFT_ESYS, WEFT_ENOFILES, WEFT_ENOSPC  the system refused memory, a call, a
 *                         descriptor or shared memory
 *         a failure of comm before  comm is broken: what broke it is returned again */

/* Reduce a vector over all ranks and give every rank the result.
 *
 * The sum of gradients. Rank order is kept for operators that are not commutative.
 * Cost: small messages (P-1)n in one step on a node, n log2 P in log2 P steps between nodes; large ones
 *       2n(P-1)/P; in memory from weft_mem_alloc on one node n read and n written, which is the lower
 *       bound.
 * In place: src == dst, on any of the ranks.
 * @param comm, dtype, op, req  as for every operation
 * @param src    count elements
 * @param dst    count elements
 * @param count  elements of the vector, the same on all ranks
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation
 * Paper: Patarasu, Yuan 2009 (ring); Thakur, Rabenseifner, Gropp 2005; Sanders, Speck, Träff 2009 (two
 *     trees) */
WEFT_API weft_status weft_all_reduce(weft_comm *comm, const void *src, void *dst, size_t count,
                                     weft_dtype dtype, weft_op op, weft_request **req);

/* Reduce a vector over all ranks and give the root the result.
 *
 * Rank order is kept for operators that are not commutative.
 * Cost: a tree n per rank and child in log2 P steps; large messages n per rank in a pipelined chain, or
 *       n(P-1)/P to reduce plus n/P to collect.
 * In place: on the root, src == dst.
 * @param comm, dtype, op, root, req  as for every operation
 * @param src    count elements
 * @param dst    on the root count elements; elsewhere ignored, may be NULL
 * @param count  elements of the vector, the same on all ranks
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation
 * Paper: Rabenseifner 2004 */
WEFT_API weft_status weft_reduce(weft_comm *comm, const void *src, void *dst, size_t count,
                                 weft_dtype dtype, weft_op op, int root, weft_request **req);

/* Copy a vector of the root to every rank.
 *
 * Cost: small messages n per child in a tree of log2 P steps; large ones n per rank in a pipelined chain,
 *       or at most 2n(P-1)/P by scatter and all-gather; on one node n written by the root, n read by each
 *       other rank.
 * In place: src == dst. Where src is another buffer the root's dst receives a copy too.
 * @param comm, dtype, root, req  as for every operation
 * @param src    on the root count elements; elsewhere ignored, may be NULL
 * @param dst    count elements, on the root too
 * @param count  elements of the vector, the same on all ranks
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation
 * Paper: van de Geijn et al. 2004 (scatter, all-gather) */
WEFT_API weft_status weft_broadcast(weft_comm *comm, const void *src, void *dst, size_t count,
                                    weft_dtype dtype, int root, weft_request **req);

/* Put the shares of all ranks one after the other, on every rank.
 *
 * Shares of equal size; n is one share.
 * Cost: (P-1)n; in log2 P steps for small shares, P-1 for large ones, P/2 between neighbours.
 * In place: src == dst + rank * count elements.
 * @param comm, dtype, req  as for every operation
 * @param src    count elements
 * @param dst    nranks * count elements, in rank order
 * @param count  elements of one share, the same on all ranks
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation
 * Paper: Bruck et al. 1997; Chen et al. 2005 (neighbour exchange) */
WEFT_API weft_status weft_all_gather(weft_comm *comm, const void *src, void *dst, size_t count,
                                     weft_dtype dtype, weft_request **req);

/* Put shares of different sizes of all ranks into place, on every rank.
 *
 * Cost: the sum of the other ranks' shares, in P-1 or log2 P steps.
 * In place: src is this rank's share within dst.
 * @param comm, displs, dtype, req  as for every operation
 * @param src     counts[rank] elements
 * @param dst     room for every share at its place
 * @param counts  elements of each share, the same on all ranks
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation */
WEFT_API weft_status weft_all_gather_v(weft_comm *comm, const void *src, void *dst, const size_t counts[],
                                       const size_t displs[], weft_dtype dtype, weft_request **req);

/* Reduce a vector over all ranks and give each rank one share of the result.
 *
 * Shares of equal size; n is one share. The first half of an all-reduce, for sharded optimizers.
 * Cost: (P-1)n sent and reduced; in P-1 steps, or log2 P for middle sizes.
 * In place: dst == src + rank * count elements. The rest of src is left as it is.
 * @param comm, dtype, op, req  as for every operation
 * @param src    nranks * count elements, the share of rank r at r * count
 * @param dst    count elements
 * @param count  elements of one share, the same on all ranks
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation
 * Paper: Thakur, Rabenseifner, Gropp 2005 */
WEFT_API weft_status weft_reduce_scatter(weft_comm *comm, const void *src, void *dst, size_t count,
                                         weft_dtype dtype, weft_op op, weft_request **req);

/* Reduce a vector over all ranks and give each rank a share of a size of its own.
 *
 * Cost: the other ranks' shares sent, P-1 times the own one reduced.
 * In place: dst is this rank's share within src.
 * @param comm, dtype, op, req  as for every operation
 * @param src     the shares of all ranks, one after the other
 * @param dst     counts[rank] elements
 * @param counts  elements of each share, the same on all ranks
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation */
WEFT_API weft_status weft_reduce_scatter_v(weft_comm *comm, const void *src, void *dst,
                                           const size_t counts[], weft_dtype dtype, weft_op op,
                                           weft_request **req);

/* Give every rank a share of its own from every rank: a transposition.
 *
 * Shares of equal size; n is one share. For expert and sequence parallelism.
 * Cost: (P-1)n in P-1 steps, or about P/2 n per step in log2 P steps for small shares.
 * In place: src == dst; takes a copy of src, nranks * count elements.
 * @param comm, dtype, req  as for every operation
 * @param src    nranks * count elements, the share for rank r at r * count
 * @param dst    nranks * count elements, the share from rank r at r * count
 * @param count  elements of one share, the same on all ranks
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation
 * Paper: Bruck et al. 1997 */
WEFT_API weft_status weft_all_to_all(weft_comm *comm, const void *src, void *dst, size_t count,
                                     weft_dtype dtype, weft_request **req);

/* Give every rank a share of a size of its own from every rank.
 *
 * recv_counts[r] here must be what rank r has as send_counts[this rank].
 * Cost: the shares for other ranks, in P-1 steps or all at once. Where several ranks share a host, shares shorter than 16 KiB
 * travel together ("node:linear/linear"): one message to each other host, sorted out inside the host.
 * In place: src == dst; takes a copy of src, and each buffer keeps its own counts and displacements.
 * @param comm, dtype, req  as for every operation
 * @param src          the shares to send
 * @param send_counts  elements for each rank, nranks of them
 * @param send_displs  where each begins in src, in elements; NULL: one after the other
 * @param dst          room for the shares to receive
 * @param recv_counts  elements from each rank, nranks of them
 * @param recv_displs  where each begins in dst, in elements; NULL: one after the other
 * Ownership: as every operation; arrays as `counts` and `displs` there.
 * Threads, Blocks: as every operation.
 * @return as every operation */
WEFT_API weft_status weft_all_to_all_v(weft_comm *comm, const void *src, const size_t send_counts[],
                                       const size_t send_displs[], void *dst, const size_t recv_counts[],
                                       const size_t recv_displs[], weft_dtype dtype, weft_request **req);

/* Put the shares of all ranks one after the other, on the root.
 *
 * Shares of equal size; n is one share.
 * Cost: n to the root directly, or in log2 P steps up a tree for small shares; the root receives (P-1)n.
 * In place: on the root, src == dst + root * count elements.
 * @param comm, dtype, root, req  as for every operation
 * @param src    count elements, on the root too
 * @param dst    on the root nranks * count elements, in rank order; elsewhere ignored, may be NULL
 * @param count  elements of one share, the same on all ranks
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation */
WEFT_API weft_status weft_gather(weft_comm *comm, const void *src, void *dst, size_t count,
                                 weft_dtype dtype, int root, weft_request **req);

/* Put shares of different sizes of all ranks into place, on the root.
 *
 * Cost: each share goes directly to the root.
 * In place: on the root, src is its share within dst.
 * @param comm, dtype, root, req  as for every operation
 * @param src         send_count elements, on the root too
 * @param send_count  elements of this rank's share; the root's counts must say the same
 * @param dst         on the root room for every share at its place; elsewhere ignored, may be NULL
 * @param counts      on the root elements of each share; elsewhere ignored, pass NULL
 * @param displs      on the root as for every operation; elsewhere ignored, pass NULL
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation */
WEFT_API weft_status weft_gather_v(weft_comm *comm, const void *src, size_t send_count, void *dst,
                                   const size_t counts[], const size_t displs[], weft_dtype dtype, int root,
                                   weft_request **req);

/* Give each rank a share of the root's vector.
 *
 * Shares of equal size; n is one share.
 * Cost: n from the root directly, or in log2 P steps down a tree for small shares; the root sends (P-1)n.
 * In place: on the root, dst == src + root * count elements.
 * @param comm, dtype, root, req  as for every operation
 * @param src    on the root nranks * count elements, in rank order; elsewhere ignored, may be NULL
 * @param dst    count elements, on the root too
 * @param count  elements of one share, the same on all ranks
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation */
WEFT_API weft_status weft_scatter(weft_comm *comm, const void *src, void *dst, size_t count,
                                  weft_dtype dtype, int root, weft_request **req);

/* Give each rank a share of a size of its own of the root's vector.
 *
 * Cost: each share comes directly from the root.
 * In place: on the root, dst is its share within src.
 * @param comm, dtype, root, req  as for every operation
 * @param src         on the root every share at its place; elsewhere ignored, may be NULL
 * @param counts      on the root elements of each share; elsewhere ignored, pass NULL
 * @param displs      on the root as for every operation; elsewhere ignored, pass NULL
 * @param dst         recv_count elements, on the root too
 * @param recv_count  elements of this rank's share; the root's counts must say the same
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation */
WEFT_API weft_status weft_scatter_v(weft_comm *comm, const void *src, const size_t counts[],
                                    const size_t displs[], void *dst, size_t recv_count, weft_dtype dtype,
                                    int root, weft_request **req);

/* Reduce over the ranks up to and including this one: the inclusive prefix.
 *
 * Rank order is kept.
 * Cost: n log2 P in log2 P steps, or n in a pipelined chain of P-1.
 * In place: src == dst.
 * @param comm, dtype, req  as for every operation
 * @param src    count elements
 * @param dst    count elements
 * @param count  elements of the vector, the same on all ranks
 * @param op     as for every operation, but not WEFT_AVG
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation, and
 *         WEFT_ENOTSUP  op is WEFT_AVG
 * Paper: Hillis, Steele 1986 */
WEFT_API weft_status weft_scan(weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype,
                               weft_op op, weft_request **req);

/* Reduce over the ranks below this one: the exclusive prefix.
 *
 * Rank order is kept. On rank 0, which has none below, dst is left as it is.
 * Cost: that of weft_scan.
 * In place: src == dst.
 * @param comm, dtype, req  as for every operation
 * @param src    count elements, on the last rank too
 * @param dst    count elements; not NULL on rank 0 either
 * @param count  elements of the vector, the same on all ranks
 * @param op     as for every operation, but not WEFT_AVG
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation, and
 *         WEFT_ENOTSUP  op is WEFT_AVG
 * Paper: Hillis, Steele 1986 */
WEFT_API weft_status weft_exscan(weft_comm *comm, const void *src, void *dst, size_t count,
                                 weft_dtype dtype, weft_op op, weft_request **req);

/* Wait until every rank has called.
 *
 * Operations issued before it complete in order, not by it: wait for their requests.
 * Cost: one signal on a node, log2 P empty messages between nodes.
 * @param comm, req  as for every operation
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation
 * Paper: Hensgen, Finkel, Manber 1988 (dissemination) */
WEFT_API weft_status weft_barrier(weft_comm *comm, weft_request **req);

/* ---- Point to point ------------------------------------------------------------------------------------- */

/* Send a vector to one rank.
 *
 * Messages of one tag between two ranks meet in the order of issue in each direction; those of other tags, and
 * collectives, do not matter. Tag 0 is the fastest. Complete when src may be used again:
 * for a short message perhaps before, for a long one only after the receiver has called weft_recv. Do not
 * rely on either: use weft_send_recv or a group for exchanges.
 * Cost: n.
 * @param comm, dtype, req  as for every operation
 * @param src    count elements
 * @param count  elements, as many as the receiver says
 * @param peer   the receiver
 * @param tag    0 or more
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation */
WEFT_API weft_status weft_send(weft_comm *comm, const void *src, size_t count, weft_dtype dtype, int peer,
                               int64_t tag, weft_request **req);

/* Receive a vector from one rank, or from any.
 *
 * Takes the sender's oldest message to this rank with the receive's tag that no earlier receive has taken.
 * Messages with other tags wait: long ones with their sender, short ones here, in WEFT_COMM_EARLY_BYTES of
 * memory for each sender; once that is full nothing more with a tag but 0 is accepted from that rank, until one
 * of them is received. With WEFT_ANY_TAG messages of tag 0 may be taken before older ones with another.
 * weft_request_message tells the source and the tag afterwards.
 * Cost: n; with a tag but 0 a copy of short messages that came early, and a round trip more of long ones.
 * @param comm, dtype, req  as for every operation
 * @param dst    count elements
 * @param count  elements, as many as the sender says; weft_probe tells before
 * @param peer   the sender, or WEFT_ANY_SOURCE
 * @param tag    the sender's, or WEFT_ANY_TAG
 * Ownership, Threads, Blocks: as every operation.
 * @return as every operation, and
 *         WEFT_EMISMATCH  the message has another count or dtype; comm is broken
 *         WEFT_ETRUNC     a message of this rank to itself is longer than the buffer; comm stays usable
 *         WEFT_EPEER      also: peer, or with WEFT_ANY_SOURCE every other rank, has left */
WEFT_API weft_status weft_recv(weft_comm *comm, void *dst, size_t count, weft_dtype dtype, int peer,
                               int64_t tag, weft_request **req);

/* Tell whether a message has come that a receive would take, and what it is.
 *
 * Before receiving messages whose length or sender is not known. A receive with the source and the tag that
 * were found, as this rank's next call, takes that message.
 * @param comm        the communicator
 * @param peer        the sender, or WEFT_ANY_SOURCE
 * @param tag         0 or more, or WEFT_ANY_TAG
 * @param timeout_ns  0 looks once; WEFT_TIMEOUT_NEVER: until there is one
 * @param message     from WEFT_MESSAGE_INIT; filled on success
 * Threads: any thread.
 * Blocks: at most timeout_ns, and a few milliseconds.
 * @return WEFT_SUCCESS     *message is the oldest such message
 *         WEFT_INPROGRESS  the time is over and none has come
 *         WEFT_EINVAL      not a communicator, peer is not one of its ranks, tag is below 0 and not
 *                          WEFT_ANY_TAG, or message is NULL or its bytes are wrong
 *         WEFT_ENOTSUP     the transport to peer cannot tell
 *         WEFT_EPEER       all ranks that could send it have left
 *         a failure of its communicator before  the communicator is broken */
WEFT_API weft_status weft_probe(weft_comm *comm, int peer, int64_t tag, uint64_t timeout_ns,
                                weft_message *message);

/* Tell which message a receive has taken.
 *
 * @param req      of weft_recv or, for its second half, of weft_send_recv; complete and successful
 * @param message  from WEFT_MESSAGE_INIT; filled on success
 * Threads: any thread, one at a time per request.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL      not a request of such an operation, or message is NULL or its bytes are wrong
 *         WEFT_INPROGRESS  the operation is not complete, or was not started
 *         any failure of an operation  how it failed */
WEFT_API weft_status weft_request_message(weft_request *req, weft_message *message);

/* Send to one rank and receive from one, at the same time.
 *
 * The exchange that cannot deadlock; both halves are ordinary messages, which meet weft_send, weft_recv and
 * weft_send_recv of the other ranks.
 * Cost: n each way.
 * @param comm, dtype, req  as for every operation
 * @param src         send_count elements; must not overlap dst
 * @param send_count  elements to send
 * @param dst_peer    the receiver of src, another rank of comm
 * @param send_tag    of src, 0 or more
 * @param dst         recv_count elements
 * @param recv_count  elements to receive
 * @param src_peer    the sender of what goes to dst, another rank of comm; may be dst_peer
 * @param recv_tag    its tag, or WEFT_ANY_TAG
 * Ownership, Threads, Blocks: as every operation.
 * @return as weft_send and weft_recv */
WEFT_API weft_status weft_send_recv(weft_comm *comm, const void *src, size_t send_count, int dst_peer,
                                    int64_t send_tag, void *dst, size_t recv_count, int src_peer,
                                    int64_t recv_tag, weft_dtype dtype, weft_request **req);

/* ---- Calls as data --------------------------------------------------------------------------------------- */

/* Name a kind of operation.
 *
 * @param kind  any value
 * Threads: any thread.
 * @return "all_reduce", "send", …, static; "unknown" for a value that is no kind */
WEFT_API const char *weft_kind_name(weft_kind kind);

/* Issue an operation that is described by a struct.
 *
 * For programs that choose the operation at run time, and for options: a deadline, an algorithm. Without options
 * it does what the function of that name does, weft_all_reduce for WEFT_KIND_ALL_REDUCE, and meets its calls on
 * other ranks. An algorithm must be named on all ranks alike: ranks that name different ones, or of which only
 * some name one, fail with WEFT_EMISMATCH, and the text has both names.
 * Cost: that of the operation, and some nanoseconds for reading the struct.
 * In place: as the operation.
 * @param comm  the communicator
 * @param call  from WEFT_CALL_INIT, with kind and what the operation of that name takes as arguments
 * @param req   as for every operation
 * Ownership: call and call->options are read before this returns. Buffers, counts and displacements are the
 *     operation's until it completes, as those of every operation.
 * Threads, Blocks: as every operation.
 * @return as every operation, and
 *         WEFT_EINVAL     call is NULL, its bytes or those of its options are wrong, its kind does not exist, it sets
 *                         a root, peer, tag or recv_count that its kind does not have, or its algorithm is ""
 *         WEFT_ENOTSUP    call or its options set a field that this version of the library does not know; or
 *                         they name an algorithm and the call is a message
 *         WEFT_ENOTFOUND  there is no such algorithm */
WEFT_API weft_status weft_issue(weft_comm *comm, const weft_call *call, weft_request **req);

/* Prepare an operation that is to be started many times with the same arguments.
 *
 * For the operation of a training step: arguments and the algorithm's name are checked once, then weft_start and
 * weft_wait in turn.
 * Buffers may change between completion and the next start. Local; but the starts must be alike on all
 * ranks. An operation started here meets ordinary calls of the same operation on other ranks. Allowed between
 * weft_group_start and weft_group_end, where it does what it does elsewhere; weft_start is what joins a group.
 * Cost: that of the operation.
 * In place: as the operation.
 * @param comm  the communicator
 * @param call  as for weft_issue. Its buffers must live until the request is freed; counts, displacements and options
 *              are copied. A user's operator must exist at each start
 * @param req   receives an idle request; must not be NULL
 * Ownership: the request is the caller's: weft_request_free, while it is idle.
 * Threads: any thread; the order of collectives must be the same on all ranks.
 * Blocks: no. Nothing is communicated.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL    as weft_issue, or req is NULL
 *         WEFT_ENOTSUP   as weft_issue, or op is undefined for dtype
 *         WEFT_ENOTFOUND  there is no such algorithm; of one rank, the levels of a hierarchical one are not checked
 *         WEFT_ENOMEM    out of memory */
WEFT_API weft_status weft_persistent(weft_comm *comm, const weft_call *call, weft_request **req);

/* Start a persistent operation.
 *
 * A start is the operation's place in the order that all ranks must keep. Within a group it is queued.
 * @param req  from weft_persistent, idle: never started, or waited for since
 * Threads: any thread; the order of collectives must be the same on all ranks.
 * Blocks: no.
 * @return WEFT_SUCCESS  queued; the outcome comes from weft_wait
 *         WEFT_EINVAL   not a request, or not a persistent one; its operator was destroyed
 *         WEFT_EBUSY    it was started and not waited for since
 *         WEFT_ENOTSUP  the algorithm it names cannot do the call here: memory that is not mapped, an operator that is
 *                       not commutative, and the like; or no algorithm can
 *         WEFT_ENOMEM   out of memory; the request is idle
 *         a failure of its communicator before  the communicator is broken */
WEFT_API weft_status weft_start(weft_request *req);

/* ---- Completion ------------------------------------------------------------------------------------------ */

/* Ask whether an operation is complete, after advancing it if it is not.
 *
 * @param req  the request. Completion does not free it: a persistent one becomes idle, others keep their
 *             outcome
 * Threads: any thread, one at a time per request.
 * Blocks: no.
 * @return WEFT_SUCCESS     complete, or a persistent request that is idle after success
 *         WEFT_INPROGRESS  not complete, or in a group that has not ended
 *         WEFT_EINVAL      not a request: NULL, or already freed
 *         any failure of an operation  how it failed */
WEFT_API weft_status weft_test(weft_request *req);

/* Wait until an operation is complete.
 *
 * @param req  the request. Completion does not free it: a persistent one becomes idle, others keep their
 *             outcome, so that a second wait returns it again
 * Threads: any thread, one at a time per request.
 * Blocks: until completion, at most the operation's deadline, which counts from its issue.
 * @return WEFT_SUCCESS  complete
 *         WEFT_EINVAL   not a request: NULL, or already freed; or in a group that has not ended
 *         any failure of an operation  how it failed */
WEFT_API weft_status weft_wait(weft_request *req);

/* Wait until an operation is complete, but not longer than a time.
 *
 * The end of that time is not a failure: the operation goes on. The operation's own deadline holds as well.
 * @param req         the request, as for weft_wait
 * @param timeout_ns  from now; 0 looks once; WEFT_TIMEOUT_NEVER: as weft_wait
 * Threads: any thread, one at a time per request.
 * Blocks: at most timeout_ns, and a few milliseconds.
 * @return WEFT_SUCCESS     complete
 *         WEFT_INPROGRESS  the time is over
 *         WEFT_EINVAL      not a request: NULL, or already freed; or in a group that has not ended
 *         any failure of an operation  how it failed */
WEFT_API weft_status weft_wait_for(weft_request *req, uint64_t timeout_ns);

/* Wait until one of several operations is complete.
 *
 * Requests that are NULL or not active are passed over. Requests stay active until they are waited for or
 * tested: an index that was returned is not returned again.
 * @param reqs   nreqs requests, of any communicators; may hold NULL
 * @param nreqs  at least 1
 * @param index  receives the place in reqs of the one that is complete, also when its operation failed
 * Threads: any thread, one at a time per request.
 * Blocks: until one is complete, at most its deadline.
 * @return WEFT_SUCCESS    *index is complete
 *         WEFT_EINVAL     reqs or index is NULL, nreqs is 0, an entry is not a request or is in a group
 *                         that has not ended
 *         WEFT_EABORTED   another thread destroys the communicator of an entry; *index is not set
 *         WEFT_ENOTFOUND  no request is active
 *         any failure of an operation  how *index failed */
WEFT_API weft_status weft_wait_any(weft_request *const reqs[], size_t nreqs, size_t *index);

/* Wait until all of several operations are complete, successful or not.
 *
 * @param reqs   nreqs requests, of any communicators; may hold NULL, and may be NULL when nreqs is 0
 * @param nreqs  any number
 * Threads: any thread, one at a time per request.
 * Blocks: until the last is complete, at most the latest deadline.
 * @return WEFT_SUCCESS  all are complete
 *         WEFT_EINVAL   reqs is NULL, or an entry is not a request: nothing was waited for; or an entry is
 *                       in a group that has not ended
 *         any failure of an operation  how the first in the list failed that did; weft_wait tells of each */
WEFT_API weft_status weft_wait_all(weft_request *const reqs[], size_t nreqs);

/* Be called when an operation completes.
 *
 * @param status  how it ended, as weft_wait returns it
 * @param arg     what weft_request_on_complete was given */
typedef void (*weft_complete_fn)(weft_status status, void *arg);

/* Have a function called once an operation is complete, successful or not.
 *
 * For event loops and futures: nobody has to wait or poll. The call comes from a thread of the library's,
 * outside of all locks and on no other operation's account: the function may issue operations, wait, and
 * block; calls of other operations are made by other threads meanwhile, at most 64. It may run before this
 * returns. It does not free the request, which it may do itself. Needs the progress thread, or somebody who
 * waits or tests. What never completes is called with WEFT_ECANCELED when its communicator is destroyed,
 * or with WEFT_EABORTED if threads waited for it then.
 * @param req  of an operation that was issued or, in a group, called; one call-back for each operation, for
 *             a persistent one after each start
 * @param fn   called exactly once after success of this function, never after a failure
 * @param arg  passed to fn
 * Threads: any thread, one at a time per request.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not a request: NULL, or already freed; or fn is NULL
 *         WEFT_EBUSY   the operation has a call-back already
 *         WEFT_ENOMEM, WEFT_ESYS  the system refused memory, or a thread */
WEFT_API weft_status weft_request_on_complete(weft_request *req, weft_complete_fn fn, void *arg);

/* Free a request.
 *
 * Every request that a call returned needs it, persistent or not; what is left is freed with the
 * communicator.
 * @param req  NULL does nothing; complete or idle; invalid after success
 * Threads: any thread, also while others are inside calls on its communicator.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not a request, or already freed
 *         WEFT_EBUSY   not complete (wait for it, or abort the communicator), or in a group that has not
 *                      ended */
WEFT_API weft_status weft_request_free(weft_request *req);

/* ---- Groups ------------------------------------------------------------------------------------------------ */

/* Begin a group: operations that this thread calls until weft_group_end are issued together there.
 *
 * So that sends and receives cannot wait for each other, in any order. A group may hold operations of
 * several communicators and starts of persistent ones. Arguments are checked at the call; a call that fails
 * is not part of the group and is what weft_group_end will return. Groups nest: the outermost one counts.
 * Threads: any thread, each has its own group.
 * Blocks: no.
 * @return WEFT_SUCCESS */
WEFT_API weft_status weft_group_start(void);

/* End a group: issue its operations in the order of the calls, and wait for those without a request.
 *
 * After a failure of one of the calls nothing is issued: a group is all or, up to the first that cannot be
 * issued, nothing. Requests of operations that were not issued report that failure, and must be freed like
 * others.
 * Threads: the one that began the group.
 * Blocks: while an operation without a request is not complete, at most its deadline; else no.
 * @return WEFT_SUCCESS   all are issued, those without a request are complete; or an inner group has ended
 *         WEFT_EINVAL    no group was begun
 *         any failure of an operation  of the first call that failed, else of the first operation */
WEFT_API weft_status weft_group_end(void);

/* ---- Operators ----------------------------------------------------------------------------------------------- */

/* Make a reduction operator from a function.
 *
 * It must be associative, at least nearly: how operands are bracketed depends on the algorithm, though not
 * on the run. An operator that is not commutative gets its operands in the order of ranks and restricts the
 * choice of algorithms. Each rank makes its own; ranks are trusted to mean the same.
 * @param fn           combines elements; see weft_op_fn
 * @param arg          passed to fn; must live until the last operation with op is complete
 * @param commutative  non-zero: operands may be exchanged
 * @param op           receives a value for any communicator and dtype of this process
 * Ownership: the caller ends it with weft_op_destroy.
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  fn or op is NULL
 *         WEFT_ENOMEM  out of memory */
WEFT_API weft_status weft_op_create(weft_op_fn fn, void *arg, int commutative, weft_op *op);

/* Make an operator that multiplies this rank's elements by a scalar and then sums.
 *
 * To average or unscale gradients on the way. Scalars may differ between ranks. The product is rounded to
 * dtype before the sum; avg is more exact.
 * Cost: a copy of src, made when the operation is issued.
 * @param scalar  one element of dtype; copied
 * @param dtype   of the scalar and of the data; not WEFT_BOOL
 * @param op      receives a value for any communicator of this process
 * Ownership: the caller ends it with weft_op_destroy.
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  scalar or op is NULL, dtype is unknown or WEFT_BOOL
 *         WEFT_ENOMEM  out of memory */
WEFT_API weft_status weft_op_create_premul_sum(const void *scalar, weft_dtype dtype, weft_op *op);

/* End an operator.
 *
 * Operations that are under way keep what they need of it; persistent ones cannot be started with it any
 * more.
 * @param op  from weft_op_create or weft_op_create_premul_sum; its value may be given out again
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  op is built in, or does not exist */
WEFT_API weft_status weft_op_destroy(weft_op op);

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

/* Allocate memory that the other ranks of this host reach without a copy.
 *
 * For buffers of large operations: on one node an all-reduce between such buffers moves the least bytes
 * possible. Takes effect when all ranks of the node use such memory. Counts against shared memory, not
 * against /dev/shm.
 * @param context  the context
 * @param bytes    > 0; rounded up to whole pages
 * @param ptr      receives zeroed memory, aligned to a page (2 MiB from 2 MiB on)
 * Ownership: weft_mem_free frees it; weft_context_destroy frees what is left. After fork a child's stores
 *     are seen by the parent and by other ranks.
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL   context or ptr is NULL, or bytes is 0
 *         WEFT_ENOTSUP  no transport with shareable memory is open (WEFT_TRANSPORTS)
 *         WEFT_ENOSPC   the file size limit (ulimit -f) is below bytes, or no shared memory is left
 *         WEFT_ENOMEM, WEFT_ESYS, WEFT_ENOFILES  the system refused memory, a call or a descriptor */
WEFT_API weft_status weft_mem_alloc(weft_context *context, size_t bytes, void **ptr);

/* Free memory of weft_mem_alloc.
 *
 * @param context  the context that it was allocated from
 * @param ptr      NULL does nothing; else exactly what weft_mem_alloc gave. No operation may be using it
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  context is not a context; ptr was not allocated here, or was freed before */
WEFT_API weft_status weft_mem_free(weft_context *context, void *ptr);

/* Allocate memory like weft_mem_alloc's from the context's pool.
 *
 * For allocators: new shared memory costs a page fault per page, which the pool saves by keeping what is
 * freed, at most WEFT_MEM_POOL_BYTES of it. At most a fifth of a block is wasted.
 * @param context  the context
 * @param bytes    > 0; rounded up to a multiple of a quarter of a power of two, and to whole pages
 * @param ptr      receives memory with any contents, aligned as weft_mem_alloc's
 * Ownership: weft_mem_pool_free returns it; weft_context_destroy frees all of the pool.
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL   context or ptr is NULL, or bytes is 0
 *         WEFT_ENOTSUP  no transport with shareable memory is open (WEFT_TRANSPORTS)
 *         WEFT_ENOSPC   the file size limit (ulimit -f) is below bytes, or no shared memory is left
 *         WEFT_ENOMEM, WEFT_ESYS, WEFT_ENOFILES  the system refused memory, a call or a descriptor */
WEFT_API weft_status weft_mem_pool_alloc(weft_context *context, size_t bytes, void **ptr);

/* Return memory to the context's pool.
 *
 * @param context  the context that it was allocated from
 * @param ptr      NULL does nothing; else exactly what weft_mem_pool_alloc gave. No operation may be using it
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  context is not a context; ptr was not allocated from this pool, or was freed before */
WEFT_API weft_status weft_mem_pool_free(weft_context *context, void *ptr);

/* Tell how much memory the context's pool holds: what is allocated from it, and what it keeps.
 *
 * @param context  the context
 * @param bytes    receives bytes
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  an argument is NULL */
WEFT_API weft_status weft_mem_pool_reserved(weft_context *context, size_t *bytes);

/* Make existing memory reachable for the other ranks of this host, in place.
 *
 * For buffers that another allocator owns. The whole pages within [ptr, ptr + bytes) are replaced by shared
 * pages with the same contents at the same address; operations on buffers wholly inside them have the
 * advantages of weft_mem_alloc. Whatever else lives on these pages becomes shared too.
 * Dangers: while the call runs no other thread may write to the pages: such stores are lost. After fork,
 *     parent and child share the pages instead of each having its own. The memory must not be freed,
 *     remapped or have its protection changed before it is deregistered.
 * Cost: a copy of the pages, and the memory twice while it runs.
 * @param context  the context
 * @param ptr      private anonymous memory, readable and writable (malloc, mmap): no stack, file or shared
 *                 memory
 * @param bytes    > 0; must hold at least one whole page
 * @param mem      receives the registration
 * Ownership: the caller ends it with weft_mem_deregister, before freeing the memory and before destroying
 *     the context.
 * Threads: any thread.
 * Blocks: while it copies.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL   an argument is NULL or 0
 *         WEFT_ENOTSUP  not private anonymous memory, no whole page, part of it is registered or allocated
 *                       already, or no transport with shareable memory is open
 *         WEFT_ENOMEM, WEFT_ESYS, WEFT_ENOFILES, WEFT_ENOSPC  the system refused; the memory is as it was */
WEFT_API weft_status weft_mem_register(weft_context *context, void *ptr, size_t bytes, weft_mem **mem);

/* Make registered memory private again, contents kept.
 *
 * The dangers are those of weft_mem_register: no other thread may write meanwhile, no operation may be
 * using it.
 * Cost: a copy of the pages.
 * @param mem  NULL does nothing; invalid after success
 * Threads: any thread.
 * Blocks: while it copies.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not a registration, or already ended
 *         WEFT_ENOMEM  no memory for the private copy: the memory stays registered, its contents are intact */
WEFT_API weft_status weft_mem_deregister(weft_mem *mem);

/* ---- Introspection --------------------------------------------------------------------------------------------- */

/* Receive one algorithm from weft_algorithm_list. Strings are static.
 *
 * @param arg         what weft_algorithm_list was given
 * @param collective  "all_reduce", …
 * @param algorithm   "ring", …: the name for weft_call_options and WEFT_ALGO
 * @param summary     one line */
typedef void (*weft_algorithm_fn)(void *arg, const char *collective, const char *algorithm,
                                  const char *summary);

/* Visit every algorithm of every collective.
 *
 * Forms with counts (all_gather_v, …) use those of the plain form, and are not listed.
 * @param fn   called for each algorithm
 * @param arg  passed to fn
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  fn is NULL */
WEFT_API weft_status weft_algorithm_list(weft_algorithm_fn fn, void *arg);

#ifdef __cplusplus
}
#endif
#endif /* WEFT_H */
