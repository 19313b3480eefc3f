/* The machine that runs a launch: clusters of CTAs, their warps, barriers and asynchronous operations.
 * Everything here is private to emulator/. Functions that can meet a fault return false once it is recorded
 * (emu_fail); their callers pass false on until the launch stops. */
#ifndef ARKE_EMULATOR_EMU_MACHINE_H
#define ARKE_EMULATOR_EMU_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/alu_execute.h"
#include "emulator/emu_limits.h"
#include "emulator/emu_memory.h"
#include "emulator/emu_order.h"
#include "emulator/emu_race.h"
#include "emulator/emu_shadow.h"
#include "emulator/emu_tensormap.h"
#include "emulator/emulator.h"
#include "emulator/ptx_program.h"

enum {
  EMU_SMEM_RESERVED = 0x400, /* start of user shared memory in a CTA's window */
  EMU_NAMED_BARRIERS = 16,
  EMU_MAX_CLUSTER = 16,
  EMU_WARPGROUP_WARPS = 4,
  EMU_REGISTERS_PER_SM = 65536,
};

enum { EMU_WGMMA_D = 1, EMU_WGMMA_A = 2 };

/* Windows of the generic address space: far above any host address. */
#define EMU_WINDOW_SHARED 0x0100000000000000ull /* rank << 24 | offset */
#define EMU_WINDOW_LOCAL  0x0200000000000000ull
#define EMU_WINDOW_PARAM  0x0300000000000000ull

typedef struct emu_launch emu_launch;
typedef struct emu_cluster emu_cluster;
typedef struct emu_cta emu_cta;
typedef struct emu_warp emu_warp;
typedef struct emu_copy emu_copy;

/* What a warp waits for. */
typedef enum emu_wait {
  EMU_WAIT_NONE,
  EMU_WAIT_MBARRIER,
  EMU_WAIT_BARRIER,   /* bar.sync, bar.red */
  EMU_WAIT_CLUSTER,   /* barrier.cluster.wait */
  EMU_WAIT_WARPGROUP, /* wgmma.wait_group: other warps of the group have not issued */
  EMU_WAIT_REGISTERS, /* setmaxnreg.inc */
  EMU_WAIT_DONE,      /* exited */
} emu_wait;

typedef struct emu_mbarrier {
  uint32_t offset; /* in the CTA's window */
  bool valid;
  uint32_t expected, pending;
  int64_t tx_bytes;
  uint64_t phase; /* completed phases */
  emu_epoch initialised;
  bool init_fenced;    /* its initialiser made it visible to the asynchronous proxy */
  emu_view *gathered;  /* of the arrivals so far */
  emu_view *completed; /* of the last phase that completed */
} emu_mbarrier;

typedef struct emu_named_barrier {
  uint32_t expected, arrived; /* threads; expected 0: all of the CTA that have not exited */
  bool in_use, all;
  int line;                              /* first arrival of this generation */
  uint32_t warps;                        /* bit per warp: arrived */
  uint32_t reduced_count, reduced_lanes; /* bar.red: lanes whose predicate holds, and all */
  emu_view *gathered;
} emu_named_barrier;

/* One wgmma of a warp group: executed once all four warps have issued it and one of them waits. */
typedef struct emu_wgmma {
  const ptx_instruction *instruction;
  uint32_t pc;
  uint64_t sequence; /* 1, 2, … within the group */
  uint32_t issued;   /* warps of the group that issued it */
  uint64_t a_descriptor, b_descriptor;
  bool accumulate;
  emu_epoch epoch;
  emu_view *known; /* what all four issuing warps knew */
} emu_wgmma;

typedef struct emu_warpgroup {
  emu_cta *cta;
  uint32_t index, agent;
  emu_wgmma *queue; /* n from sequence number `first` on: what some warp has not waited for yet */
  uint32_t n, capacity;
  uint64_t first, issued, executed;        /* sequence numbers */
  uint64_t issued_by[EMU_WARPGROUP_WARPS]; /* last sequence each warp issued */
  uint64_t groups_by[EMU_WARPGROUP_WARPS]; /* groups each warp committed */
  uint64_t *group_end;                     /* last sequence of each commit group, by group number - 1 */
  uint32_t n_groups, group_capacity;
  uint32_t setmaxnreg_pc[EMU_WARPGROUP_WARPS], setmaxnreg_count[EMU_WARPGROUP_WARPS];
} emu_warpgroup;

/* What is known at a word of shared memory used as a flag. */
typedef struct emu_flag {
  uint32_t word; /* offset / 4 */
  emu_view *view;
} emu_flag;

typedef struct emu_branch {
  uint32_t pc, mask, reconverge;
} emu_branch;

struct emu_warp {
  alu_warp alu;
  emu_cta *cta;
  emu_cluster *cluster;
  uint32_t index; /* within the CTA */
  uint32_t agent;
  uint32_t live, active, pc, reconverge;
  emu_branch *stack;
  uint32_t depth, stack_capacity;
  uint64_t executed;

  emu_wait wait;
  bool spin_again; /* a failing wait was reported once: the next one blocks */
  uint32_t spin_pc;
  bool timed_out; /* nothing else could run: the wait may return without success */
  uint64_t timeout_events;
  uint32_t wait_mbarrier; /* offset; always of the own CTA */
  uint32_t wait_barrier;
  uint32_t wait_registers;

  emu_view *view;
  uint32_t clock;
  uint32_t unfenced; /* lanes that wrote shared memory since their last fence.proxy.async */
  uint32_t lane_fence[PTX_LANES];

  uint8_t *local;                  /* local memory of all lanes */
  uint64_t bulk_groups[PTX_LANES]; /* committed by each thread */
  uint64_t cp_async_groups[PTX_LANES];

  bool cluster_arrived;
  uint64_t cluster_phase;

  uint32_t registers;         /* per thread, for setmaxnreg */
  uint64_t fence_count;       /* wgmma.fence executed */
  uint64_t *register_written; /* per slot: fence_count at its last ordinary write, + 1 */
  uint64_t *register_pending; /* per slot: sequence of the wgmma that will write it, 0 none */
  uint64_t *register_read;    /* per slot: sequence of the wgmma that reads it as A */
  uint64_t retired;           /* sequence of the last wgmma this warp waited for */
};

struct emu_cta {
  emu_cluster *cluster;
  uint32_t rank, id[3];
  uint8_t *smem; /* the whole window, reserve included */
  emu_shadow *shadow;
  emu_mbarrier *mbarriers;
  uint32_t n_mbarriers, mbarrier_capacity;
  uint16_t *mbarrier_at; /* per 8 bytes of the window: index + 1 */
  emu_flag *flags;
  uint32_t n_flags;
  emu_named_barrier barriers[EMU_NAMED_BARRIERS];
  emu_warp *warps;
  emu_warpgroup *groups;
  uint32_t n_groups;
  uint32_t live_warps;
  bool exited;
  bool launches_awaited;  /* some warp has executed griddepcontrol.wait */
  bool cluster_met;       /* some warp has waited at the cluster barrier: all CTAs have started */
  uint32_t register_pool; /* registers nobody holds */
  uint64_t *symbol_address;
};

/* X(NAME, text) */
#define EMU_COPY_KINDS(X)                                                                                    \
  X(TENSOR_LOAD, "tensor load")                                                                              \
  X(TENSOR_STORE, "tensor store")                                                                            \
  X(BULK_LOAD, "bulk load")                                                                                  \
  X(BULK_STORE, "bulk store")                                                                                \
  X(BULK_PUSH, "bulk copy to another CTA")                                                                   \
  X(STORE_ASYNC, "st.async")                                                                                 \
  X(CP_ASYNC, "cp.async")                                                                                    \
  X(CP_ASYNC_ARRIVE, "cp.async.mbarrier.arrive")

typedef enum emu_copy_kind {
#define X(NAME, text) EMU_COPY_##NAME,
  EMU_COPY_KINDS(X)
#undef X
} emu_copy_kind;

/* One asynchronous copy on its way. */
struct emu_copy {
  emu_copy_kind kind;
  emu_epoch epoch;
  const ptx_instruction *instruction;
  emu_warp *warp; /* issuer */
  uint32_t lane;
  uint64_t group;      /* bulk group of that thread, 0: not committed */
  bool read_done;      /* a store has read its source */
  bool waited;         /* its thread waited for it, or at least for its reads */
  bool done;           /* finished, but its thread has not waited for it yet */
  emu_cta *cta;        /* whose shared memory it writes (loads) or reads (stores) */
  uint32_t offset;     /* in that window */
  emu_cta *source_cta; /* BULK_PUSH */
  uint32_t source_offset;
  emu_cta *mbarrier_cta;
  uint32_t mbarrier_offset;
  uint64_t global;
  uint32_t bytes;
  uint32_t valid_bytes; /* cp.async: the rest is zeros */
  bool has_mbarrier, no_increment;
  ptx_operation operation;
  ptx_type type; /* element type of a reduction */
  emu_tensormap map;
  int64_t coordinate[5];
  uint8_t *data; /* what a store has read, or what st.async writes */
};

struct emu_cluster {
  emu_launch *launch;
  uint32_t n_ctas, n_warps, warps_per_cta;
  uint32_t id; /* linear */
  emu_cta *ctas;
  emu_warp **warps; /* all of them, by agent */
  emu_order order;
  emu_copy **copies; /* in issue order */
  uint32_t n_copies, n_pending, copy_capacity;
  uint64_t barrier_phase;
  uint32_t barrier_arrived; /* warps */
  emu_view *barrier_gathered, *barrier_completed;
  uint32_t live_warps;
  uint64_t events; /* synchronising steps so far: no progress without one */
  uint64_t polls;  /* of flags since it was last switched in */
};

struct emu_launch {
  const ptx_module *module;
  const ptx_kernel *kernel;
  emu_memory *memory;
  const uint64_t *symbol_address; /* by ptx_symbol.index; of shared ones the offset in the window */
  const uint8_t *params;
  uint32_t grid[3], block[3], cluster_dim[3];
  uint32_t threads, smem_dynamic, smem_window;
  uint32_t local_bytes;
  uint32_t registers_per_thread;
  bool early_start;             /* launches before it may still run until griddepcontrol.wait */
  const uint8_t *wgmma_slot;    /* per slot: EMU_WGMMA_D, EMU_WGMMA_A where some wgmma uses it so */
  const uint8_t *touches_wgmma; /* per instruction: has such a slot outside a wgmma */
  uint64_t instruction_limit;
  uint64_t seed, draws;
  int sm_count;
  emu_report *report;
  emu_races *races;
  arke_status status; /* ERR_FAULT once a rule is broken, ERR_MEMORY when memory is out */
};

/* Records the fault of a warp's current instruction; always false. The first fault wins. */
bool emu_fail(const emu_warp *w, emu_fault fault, int lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for an asynchronous operation, blamed on the instruction that issued it. */
bool emu_fail_copy(const emu_copy *c, emu_fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool emu_no_memory(emu_launch *l);
/* Sentence for a conflict, and the fault it is. */
bool emu_fail_conflict(const emu_warp *w, int lane, const emu_cta *cta, const char *what, bool write,
                       bool async, const emu_conflict *conflict);

void emu_describe_shared(const emu_cta *cta, uint32_t offset, char *out, size_t out_bytes);

/* emu_launch.c */
arke_status emu_run(emu_launch *l, arke_error *err);
uint64_t emu_draw(emu_launch *l); /* next pseudo-random number of the launch */

/* emu_cluster.c */
arke_status emu_cluster_open(emu_launch *l, uint32_t id, emu_cluster **cluster);
void emu_cluster_close(emu_cluster *c);
bool emu_cluster_cta_exit(emu_cta *cta, emu_warp *last);

/* emu_schedule.c: runs until the cluster ends (true, *finished), gives way to another one (true) or faults.
 */
bool emu_cluster_run(emu_cluster *c, bool *finished);

/* emu_warp.c: executes up to `quantum` instructions, until the warp waits or exits. */
bool emu_warp_run(emu_warp *w, uint32_t quantum);
void emu_special(void *machine, ptx_special which, uint64_t out[PTX_LANES]);
/* Ends the turn without moving on: the instruction is executed again when the wait is over. */
bool emu_block(emu_warp *w, emu_wait wait);

/* A release: hands the warp's view over and starts a new moment. */
void emu_release(emu_warp *w, emu_view *to);
void emu_acquire(emu_warp *w, const emu_view *from);
static inline emu_epoch emu_now(const emu_warp *w) {
  return emu_epoch_make(w->agent, w->clock, w->pc);
}

/* emu_access.c: where an address leads. */
typedef struct emu_place {
  ptx_space space;            /* GLOBAL, SHARED, LOCAL, PARAM or CONST */
  emu_cta *cta;               /* SHARED */
  uint32_t offset;            /* SHARED: within the window; PARAM, LOCAL */
  uint8_t *bytes;             /* host memory behind it */
  emu_allocation *allocation; /* GLOBAL, CONST */
} emu_place;

/* Whether a launch that starts early has waited for those before it, by any warp of the CTA so far: looser
 * than the rule, which is a thread's own wait or one it was synchronised with. */
bool emu_launches_awaited(emu_warp *w, int lane);

/* Resolves and checks [address, address + bytes) of a space for one lane; alignment too when align > 1. */
bool emu_resolve(emu_warp *w, int lane, ptx_space space, uint64_t address, uint32_t bytes, uint32_t align,
                 emu_place *place);
/* A shared address (own window or the cluster's) of one lane. */
bool emu_resolve_shared(emu_warp *w, int lane, ptx_space space, uint64_t address, uint32_t bytes,
                        uint32_t align, emu_place *place);
emu_actor emu_warp_actor(emu_warp *w, uint32_t lanes, bool strong);
/* One contiguous access of a warp to shared memory: order, initialisation, and the record of it. */
bool emu_smem_read(emu_warp *w, int lane, const emu_place *p, uint32_t bytes, const emu_actor *a);
bool emu_smem_write(emu_warp *w, int lane, const emu_place *p, uint32_t bytes, const emu_actor *a);
/* Notes an access of the warp to global memory, and reports a race with another cluster. */
bool emu_global_access(emu_warp *w, int lane, emu_allocation *a, uint64_t address, uint64_t bytes, bool write,
                       bool strong);
/* What a strong access at an address of global memory synchronises. */
void emu_global_sync(emu_warp *w, const ptx_instruction *i, uint64_t address, bool read, bool write);
/* emu_atomic.c */
bool emu_flag_sync(emu_warp *w, const emu_place *p, uint32_t bytes, bool write);
bool emu_atomic_execute(emu_warp *w, const ptx_instruction *i, uint32_t active);
/* old op operand, for one element of a type; false if the type does not have the operation. */
bool emu_reduce(ptx_operation op, ptx_type type, uint64_t old, uint64_t operand, uint64_t compare,
                uint64_t *result);
bool emu_memory_execute(emu_warp *w, const ptx_instruction *i, uint32_t active);

/* emu_barrier.c */
bool emu_barrier_execute(emu_warp *w, const ptx_instruction *i, uint32_t active);
void emu_barrier_warp_exit(emu_warp *w);
/* emu_mbarrier.c */
bool emu_mbarrier_execute(emu_warp *w, const ptx_instruction *i, uint32_t active);
emu_mbarrier *emu_mbarrier_find(const emu_cta *cta, uint32_t offset);
bool emu_mbarrier_overlaps(const emu_cta *cta, uint32_t offset, uint32_t bytes);
/* An asynchronous operation delivers bytes. */
bool emu_mbarrier_complete_tx(emu_cta *cta, uint32_t offset, int64_t bytes, const emu_copy *copy);
void emu_mbarrier_describe(const emu_cta *cta, const emu_mbarrier *b, char *out, size_t out_bytes);
void emu_mbarrier_release(emu_cta *cta);

/* emu_copy.c: issuing */
bool emu_copy_execute(emu_warp *w, const ptx_instruction *i, uint32_t active);
bool emu_copy_thread_exit(emu_warp *w, uint32_t lanes);
bool emu_copy_cta_exit(emu_cta *cta, emu_warp *last);
/* emu_transfer.c: what a copy moves, and its completion */
typedef struct emu_box_row {
  uint32_t offset;      /* of the row in the window, before the swizzle */
  uint32_t first, last; /* bytes of the row inside the tensor: first <= byte < last */
  uint64_t global;      /* address of byte `first` */
} emu_box_row;
emu_box_row emu_copy_row(const emu_copy *c, uint32_t row);
uint32_t emu_copy_rows(const emu_copy *c);
/* Where 16 bytes of shared memory really lie: the swizzle of TMA and of the matrix unit (1 128B, 2 64B, 3 32B
 * as in wgmma's descriptor are not these: 0 none, 1 32B, 2 64B, 3 128B). */
static inline uint32_t emu_swizzle(uint32_t offset, int swizzle) {
  return offset ^ (((offset >> 7) & ((1u << swizzle) - 1)) << 4);
}
/* Does what the copy is for. Copies that a thread may wait for stay listed until it does. */
bool emu_copy_finish(emu_cluster *c, uint32_t index);
void emu_copy_remove(emu_cluster *c, uint32_t index);
bool emu_copy_read_source(emu_copy *copy);
/* Completes some of what is pending, as the seed has it; `stuck` when nothing else can go on. */
bool emu_copies_progress(emu_cluster *c, bool stuck);
void emu_copy_free(emu_copy *c);
const char *emu_copy_kind_text(emu_copy_kind kind);

/* emu_wgmma.c */
bool emu_wgmma_execute(emu_warp *w, const ptx_instruction *i, uint32_t active);
bool emu_wgmma_check_registers(emu_warp *w, const ptx_instruction *i);
bool emu_wgmma_warp_exit(emu_warp *w);
void emu_warpgroup_release(emu_warpgroup *g);

/* emu_matrix.c */
bool emu_matrix_execute(emu_warp *w, const ptx_instruction *i, uint32_t active);
/* emu_mma_sync.c: mma.sync, by a converged warp */
bool emu_mma_sync_execute(emu_warp *w, const ptx_instruction *i);

/* All live lanes must take part; `full`: all 32 must. */
bool emu_require_converged(const emu_warp *w, const ptx_instruction *i, uint32_t active, bool full);

#endif
