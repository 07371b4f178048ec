/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Open MPI as the rest of the component sees it. This file and its .c are the only ones that know
 * versions of Open MPI: what 4.1, 5.0 and 6.0 spell differently has one name here. Also here is
 * what translates between Open MPI's types and the engine's, and the clock.
 *
 * configure compiles the .c by itself, so it includes nothing else of ours.
 */

#ifndef BTL_IB_OMPI_COMPAT_H
#define BTL_IB_OMPI_COMPAT_H

#include "opal_config.h"

#include <errno.h>

#include "opal/constants.h"
#include "opal/class/opal_bitmap.h"
#include "opal/class/opal_free_list.h"
#include "opal/class/opal_list.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_framework.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_vari.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/mca/hwloc/hwloc-internal.h"
#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"
#include "opal/runtime/opal.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"

#if OPAL_MAJOR_VERSION >= 5
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/mca/threads/thread_usage.h"
#else
#include "opal/mca/pmix/pmix.h"
#include "opal/threads/thread_usage.h"
#endif

#define BTL_IB_STRING_OF(x) #x
#define BTL_IB_STRING(x)    BTL_IB_STRING_OF(x)

/*
 * The series of Open MPI that we were compiled for, as "4.1". Structures that we share with Open
 * MPI differ from one series to the next, so a component of another series must not be used; the
 * type version of a BTL does not tell series apart. A test may define another value.
 */
#ifndef BTL_IB_BUILT_FOR_SERIES
#define BTL_IB_BUILT_FOR_SERIES                                                                    \
    BTL_IB_STRING(OPAL_MAJOR_VERSION) "." BTL_IB_STRING(OPAL_MINOR_VERSION)
#endif

/* The release, for the log only. */
#define BTL_IB_BUILT_FOR_VERSION                                                                   \
    BTL_IB_BUILT_FOR_SERIES "." BTL_IB_STRING(OPAL_RELEASE_VERSION) OPAL_GREEK_VERSION

/*
 * Symbols that one series of Open MPI has and another lacks are weak, so that the loader loads the
 * component in any series and btl_ib_ompi_check(), which is called before anything else, can say
 * what is wrong. Otherwise the component would be missing without a word, or, if bound lazily, end
 * the job later. Of PMIx only those are weak that the version beside Open MPI 4.1 lacks: some
 * symbol must be strong, or the linker drops the library.
 */
#if OPAL_MAJOR_VERSION >= 5
#pragma weak opal_cond_broadcast
#pragma weak opal_cond_destroy
#pragma weak opal_cond_init
#pragma weak opal_cond_wait
#pragma weak opal_output_check_verbosity
#pragma weak opal_pmix_convert_jobid
#pragma weak opal_pmix_convert_nspace
#pragma weak PMIx_Check_key
#pragma weak PMIx_Info_destruct
#pragma weak PMIx_Value_free
#else
#pragma weak opal_output_verbose
#pragma weak opal_pmix
#pragma weak opal_value_t_class
#pragma weak opal_value_unload
#endif
#if OPAL_MAJOR_VERSION < 6
#pragma weak opal_convertor_set_position_nocheck
#endif

/*
 * Checks that we were compiled for the Open MPI that loaded us. If not, returns false, and `why`
 * says in one line what is wrong: then nothing else of ours may be called.
 */
bool btl_ib_ompi_check(char *why, size_t size);

#if OPAL_MAJOR_VERSION >= 5

#define BTL_IB_MODEX_SCOPE             PMIX_GLOBAL
#define BTL_IB_FLAGS_REMOTE_COMPLETION MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION /* osc/rdma insists */
#define BTL_IB_SHARED_MEMORY           "sm" /* the BTL within a host */
#define BTL_IB_CONVERTOR_ON_DEVICE     (CONVERTOR_ACCELERATOR | CONVERTOR_ACCELERATOR_UNIFIED)

/* Hands a received message up, which lies in `count` segments. */
static inline void btl_ib_ompi_deliver(mca_btl_base_module_t *btl,
                                       struct mca_btl_base_endpoint_t *endpoint,
                                       mca_btl_base_tag_t tag, mca_btl_base_segment_t *segments,
                                       size_t count)
{
    const mca_btl_active_message_callback_t *reg = &mca_btl_base_active_message_trigger[tag];
    const mca_btl_base_receive_descriptor_t desc = {
        .endpoint = endpoint,
        .des_segments = segments,
        .des_segment_count = count,
        .tag = tag,
        .cbdata = reg->cbdata,
    };

    reg->cbfunc(btl, &desc);
}

#else

#define BTL_IB_MODEX_SCOPE             OPAL_PMIX_GLOBAL
#define BTL_IB_FLAGS_REMOTE_COMPLETION 0       /* there is no other */
#define BTL_IB_SHARED_MEMORY           "vader" /* the BTL within a host */
#define BTL_IB_CONVERTOR_ON_DEVICE     (CONVERTOR_CUDA | CONVERTOR_CUDA_UNIFIED)
#define BTL_IB_HAVE_FT_EVENT           1

/* Hands a received message up, which lies in `count` segments. */
static inline void btl_ib_ompi_deliver(mca_btl_base_module_t *btl,
                                       struct mca_btl_base_endpoint_t *endpoint,
                                       mca_btl_base_tag_t tag, mca_btl_base_segment_t *segments,
                                       size_t count)
{
    const mca_btl_active_message_callback_t *reg = &mca_btl_base_active_message_trigger[tag];
    mca_btl_base_descriptor_t desc; /* not cleared, which takes long: nothing else is read */

    (void) endpoint;
    desc.des_segments = segments;
    desc.des_segment_count = count;
    reg->cbfunc(btl, tag, &desc, reg->cbdata);
}

#endif

/* Returns microseconds of a monotonic clock. */
uint64_t btl_ib_now(void);

/* Returns nanoseconds of a monotonic clock. */
uint64_t btl_ib_now_ns(void);

/* Translates 0 or a negative errno of the engine into an OPAL status. Open MPI tries again only
 * after OUT_OF_RESOURCE. */
static inline int btl_ib_opal_status(int error)
{
    switch (error) {
    case 0:
        return OPAL_SUCCESS;
    case -EPIPE:
    case -ECANCELED:
        return OPAL_ERR_UNREACH;
    case -EMSGSIZE:
        return OPAL_ERR_BAD_PARAM;
    case -ENOMEM:
        return OPAL_ERR_OUT_OF_RESOURCE;
    case -EOPNOTSUPP:
        return OPAL_ERR_NOT_SUPPORTED;
    default:
        return OPAL_ERROR;
    }
}

/* Converts the name of a process between Open MPI's form and the engine's. */
static inline uint64_t btl_ib_name_pack(opal_process_name_t name)
{
    return (uint64_t) name.jobid << 32 | name.vpid;
}

static inline opal_process_name_t btl_ib_name_unpack(uint64_t name)
{
    return (opal_process_name_t){.jobid = (opal_jobid_t) (name >> 32), .vpid = (opal_vpid_t) name};
}

/* True if the user's data are in the memory of an accelerator (a GPU), so that only the convertor
 * may read or write them. opal_convertor_need_buffers() of 5.0 and later does not say so. */
static inline bool btl_ib_ompi_on_device(const opal_convertor_t *convertor)
{
    return (convertor->flags & BTL_IB_CONVERTOR_ON_DEVICE) != 0;
}

/*
 * Gets what a process published. With `wait` the call may block until the process has published
 * something; without, it asks no more than the runtime's server on this host. Returns an OPAL
 * status. On success the caller frees *data.
 */
int btl_ib_ompi_modex_recv(const opal_process_name_t *name, bool wait, void **data, size_t *size);

/* True if the osc/rdma of this release may wait for a lock that it has itself (btl_ib_osc.h): 4.1.1
 * to 4.1.4. */
bool btl_ib_ompi_osc_waits_for_itself(void);

/* True if the osc/rdma of this release mistakes ranks for others (btl_ib_osc.h): 4.1.0 to 4.1.4. */
bool btl_ib_ompi_osc_mistakes_ranks(void);

/* Returns how many processes the runtime has slots for, in this job and all that it may spawn; it
 * is the same in all of these jobs. 0 if the runtime does not say. */
uint32_t btl_ib_ompi_universe_size(void);

/* Returns how many processes this job has; 0 if the runtime does not say. */
uint32_t btl_ib_ompi_job_size(void);

/* Returns how many hosts this job runs on; 0 if the runtime does not say. */
uint32_t btl_ib_ompi_job_hosts(void);

/* Returns how many processes of this job are on this host, this one included. */
uint32_t btl_ib_ompi_local_processes(void);

/* Returns the topology that Open MPI has loaded, as the system's hwloc.h knows it
 * (hwloc_topology_t); NULL if it has none, or an hwloc of its own. */
void *btl_ib_ompi_topology(void);

/* True if processes leave their processors to each other while they wait (mpi_yield_when_idle):
 * mpirun sees to it where a host has more of them than processors. Until MPI_Init ends only the
 * parameter says so, not opal_progress_yield_when_idle. */
bool btl_ib_ompi_yields_when_idle(void);

/* Has `report` called before MPI_Abort ends this process; or, ignore, no longer. Works with 4.1
 * only, which leaves by _exit(): later series have no place for it. */
typedef void (*btl_ib_ompi_abort_fn_t)(void);
void btl_ib_ompi_abort_watch(btl_ib_ompi_abort_fn_t report);
void btl_ib_ompi_abort_ignore(void);

/* True if an abort waits first, for somebody with a debugger (mpi_abort_delay). Called in MPI_Init:
 * later Open MPI may have forgotten its parameters. */
bool btl_ib_ompi_abort_waits(void);

/*
 * Processes that failed, as the runtime reports them: mpirun of 5.0 and later notifies the other
 * processes of a job that is to go on (--with-ft ulfm, or --runtime-options
 * recoverable,notifyerrors). That of 4.1 notifies nobody.
 *
 * Start and stop listening. The runtime's thread only records what it hears. Both functions wait
 * for that thread, which takes no lock of ours. Each may be called twice.
 */
void btl_ib_ompi_failures_listen(void);
void btl_ib_ompi_failures_ignore(void);

/* Takes the next process of job `jobid` that failed: *name as the engine knows it. Returns whether
 * there is one. Called with the lock held, as the next two functions. */
bool btl_ib_ompi_failures_next(opal_jobid_t jobid, uint64_t *name);

/* Notes that `name` was added. If it has failed before, btl_ib_ompi_failures_next() returns it once
 * more. */
void btl_ib_ompi_failures_added(uint64_t name);

/* True if btl_ib_ompi_failures_next() may have one. Cheap enough for progress. */
bool btl_ib_ompi_failures_any(void);

/*
 * Returns the text that the user gave for the parameter `name` of `component`, as it was before
 * Open MPI made a value of it; NULL if none was given. The text belongs to Open MPI or to the
 * environment, and is valid until either changes. Writes to `where`, in words, where it was given.
 */
const char *btl_ib_ompi_param_text(const mca_base_component_t *component, const char *name,
                                   char *where, size_t size);

/*
 * Makes an enumeration for times, to keep Open MPI's own parser from them: it takes "3000ms" for
 * 3000 MiB, and refuses that. The enumeration takes any text for 0, so the value has to be set
 * after registration. MPI_T sees an enumeration without items. The caller releases it; NULL if
 * memory is short. It must not be part of the component, as Open MPI may keep it until after the
 * component is unloaded.
 */
mca_base_var_enum_t *btl_ib_ompi_time_enum(void);

/*
 * Makes an enumeration of words, which end with NULL, for ompi_info and MPI_T to show. It takes any
 * other text for the first word, so that Open MPI refuses none: btl_ib_params_check() says better
 * what is wrong. Ownership as for btl_ib_ompi_time_enum().
 */
mca_base_var_enum_t *btl_ib_ompi_choice_enum(const char *name, const char *const *words);

/* Publishes `data` for all processes. Returns an OPAL status. */
int btl_ib_ompi_modex_send(const void *data, size_t size);

#endif
