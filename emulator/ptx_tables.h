/* Everything PTX names that the emulator knows: one X-macro table per list. Enumerators, the parser's
 * look-ups, messages and docs come from these. Meaning of each name: PTX ISA 9.1, sections 5.2 (types), 8
 * (memory model), 9.7 (instructions), 10 (special registers). */
#ifndef ARKE_EMULATOR_PTX_TABLES_H
#define ARKE_EMULATOR_PTX_TABLES_H

/* Who executes an opcode. ALU: alu_execute, from the warp's registers alone. The others are the machine's.
 * NONE: decoded so that the message can name it, but nothing here can run it; an error when the text is
 * loaded. */
#define PTX_UNITS(X)                                                                                         \
  X(NONE) X(ALU) X(CONTROL) X(MEMORY) X(BARRIER) X(COPY) X(MATRIX) X(TENSOR_MEMORY) X(SYSTEM)

/* X(NAME, text, unit). An instruction's opcode is the longest text that is a dotted prefix of its name; what
 * follows are modifiers (PTX_MODIFIERS), checked against the opcode's forms in ptx_forms.c. */
#define PTX_OPCODES(X)                                                                                       \
  /* integer */                                                                                              \
  X(ADD, "add", ALU)                                                                                         \
  X(SUB, "sub", ALU)                                                                                         \
  X(ADDC, "addc", NONE)                                                                                      \
  X(SUBC, "subc", NONE)                                                                                      \
  X(MUL, "mul", ALU)                                                                                         \
  X(MAD, "mad", ALU)                                                                                         \
  X(MUL24, "mul24", ALU)                                                                                     \
  X(MAD24, "mad24", ALU)                                                                                     \
  X(SAD, "sad", ALU)                                                                                         \
  X(DIV, "div", ALU)                                                                                         \
  X(REM, "rem", ALU)                                                                                         \
  X(ABS, "abs", ALU)                                                                                         \
  X(NEG, "neg", ALU)                                                                                         \
  X(MIN, "min", ALU)                                                                                         \
  X(MAX, "max", ALU)                                                                                         \
  X(POPC, "popc", ALU)                                                                                       \
  X(CLZ, "clz", ALU)                                                                                         \
  X(BFIND, "bfind", ALU)                                                                                     \
  X(FNS, "fns", ALU)                                                                                         \
  X(BREV, "brev", ALU)                                                                                       \
  X(BFE, "bfe", ALU)                                                                                         \
  X(BFI, "bfi", ALU)                                                                                         \
  X(BMSK, "bmsk", ALU)                                                                                       \
  X(SZEXT, "szext", ALU)                                                                                     \
  X(DP4A, "dp4a", ALU)                                                                                       \
  X(DP2A, "dp2a", ALU)                                                                                       \
  X(AND, "and", ALU)                                                                                         \
  X(OR, "or", ALU)                                                                                           \
  X(XOR, "xor", ALU)                                                                                         \
  X(NOT, "not", ALU)                                                                                         \
  X(CNOT, "cnot", ALU)                                                                                       \
  X(LOP3, "lop3", ALU)                                                                                       \
  X(SHF, "shf", ALU)                                                                                         \
  X(SHL, "shl", ALU)                                                                                         \
  X(SHR, "shr", ALU)                                                                                         \
  X(PRMT, "prmt", ALU)                                                                                       \
  /* floating point */                                                                                       \
  X(FMA, "fma", ALU)                                                                                         \
  X(RCP, "rcp", ALU)                                                                                         \
  X(SQRT, "sqrt", ALU)                                                                                       \
  X(RSQRT, "rsqrt", ALU)                                                                                     \
  X(SIN, "sin", ALU)                                                                                         \
  X(COS, "cos", ALU)                                                                                         \
  X(LG2, "lg2", ALU)                                                                                         \
  X(EX2, "ex2", ALU)                                                                                         \
  X(TANH, "tanh", ALU)                                                                                       \
  X(COPYSIGN, "copysign", ALU)                                                                               \
  X(TESTP, "testp", ALU)                                                                                     \
  /* comparison, selection, moves, conversion */                                                             \
  X(SETP, "setp", ALU)                                                                                       \
  X(SET, "set", ALU)                                                                                         \
  X(SELP, "selp", ALU)                                                                                       \
  X(SLCT, "slct", ALU)                                                                                       \
  X(MOV, "mov", ALU)                                                                                         \
  X(CVT, "cvt", ALU)                                                                                         \
  X(CVT_PACK, "cvt.pack", ALU)                                                                               \
  X(CVTA, "cvta", ALU)                                                                                       \
  X(ISSPACEP, "isspacep", ALU)                                                                               \
  /* between the lanes of a warp */                                                                          \
  X(SHFL, "shfl.sync", ALU)                                                                                  \
  X(VOTE, "vote.sync", ALU)                                                                                  \
  X(MATCH, "match", ALU)                                                                                     \
  X(REDUX, "redux.sync", ALU)                                                                                \
  X(ELECT, "elect.sync", ALU)                                                                                \
  X(ACTIVEMASK, "activemask", ALU)                                                                           \
  /* control */                                                                                              \
  X(BRA, "bra", CONTROL)                                                                                     \
  X(BRX, "brx.idx", CONTROL)                                                                                 \
  X(CALL, "call", NONE)                                                                                      \
  X(RET, "ret", CONTROL)                                                                                     \
  X(EXIT, "exit", CONTROL)                                                                                   \
  X(TRAP, "trap", CONTROL)                                                                                   \
  X(BRKPT, "brkpt", CONTROL)                                                                                 \
  X(NANOSLEEP, "nanosleep", CONTROL)                                                                         \
  X(PMEVENT, "pmevent", CONTROL)                                                                             \
  X(SETMAXNREG, "setmaxnreg", CONTROL)                                                                       \
  X(GRIDDEPCONTROL_WAIT, "griddepcontrol.wait", CONTROL)                                                     \
  X(GRIDDEPCONTROL_LAUNCH, "griddepcontrol.launch_dependents", CONTROL)                                      \
  /* memory */                                                                                               \
  X(LD, "ld", MEMORY)                                                                                        \
  X(LDU, "ldu", MEMORY)                                                                                      \
  X(ST, "st", MEMORY)                                                                                        \
  X(ATOM, "atom", MEMORY)                                                                                    \
  X(RED, "red", MEMORY)                                                                                      \
  X(ST_ASYNC, "st.async", COPY)                                                                              \
  X(RED_ASYNC, "red.async", COPY)                                                                            \
  X(ST_BULK, "st.bulk", MEMORY)                                                                              \
  X(PREFETCH, "prefetch", MEMORY)                                                                            \
  X(PREFETCHU, "prefetchu", MEMORY)                                                                          \
  X(APPLYPRIORITY, "applypriority", MEMORY)                                                                  \
  X(DISCARD, "discard", NONE)                                                                                \
  X(CREATEPOLICY, "createpolicy", MEMORY)                                                                    \
  X(MAPA, "mapa", MEMORY)                                                                                    \
  X(GETCTARANK, "getctarank", MEMORY)                                                                        \
  X(MULTIMEM_LD_REDUCE, "multimem.ld_reduce", NONE)                                                          \
  X(MULTIMEM_ST, "multimem.st", NONE)                                                                        \
  X(MULTIMEM_RED, "multimem.red", NONE)                                                                      \
  X(ALLOCA, "alloca", NONE)                                                                                  \
  X(STACKSAVE, "stacksave", NONE)                                                                            \
  X(STACKRESTORE, "stackrestore", NONE)                                                                      \
  X(TEX, "tex", NONE)                                                                                        \
  X(SULD, "suld", NONE)                                                                                      \
  X(SUST, "sust", NONE)                                                                                      \
  /* fences and barriers */                                                                                  \
  X(MEMBAR, "membar", BARRIER)                                                                               \
  X(FENCE, "fence", BARRIER)                                                                                 \
  X(FENCE_PROXY, "fence.proxy", BARRIER)                                                                     \
  X(FENCE_MBARRIER_INIT, "fence.mbarrier_init", BARRIER)                                                     \
  X(BAR_SYNC, "bar.sync", BARRIER)                                                                           \
  X(BAR_ARRIVE, "bar.arrive", BARRIER)                                                                       \
  X(BAR_RED, "bar.red", BARRIER)                                                                             \
  X(BAR_WARP_SYNC, "bar.warp.sync", BARRIER)                                                                 \
  X(CLUSTER_ARRIVE, "barrier.cluster.arrive", BARRIER)                                                       \
  X(CLUSTER_WAIT, "barrier.cluster.wait", BARRIER)                                                           \
  X(MBARRIER_INIT, "mbarrier.init", BARRIER)                                                                 \
  X(MBARRIER_INVAL, "mbarrier.inval", BARRIER)                                                               \
  X(MBARRIER_EXPECT_TX, "mbarrier.expect_tx", BARRIER)                                                       \
  X(MBARRIER_COMPLETE_TX, "mbarrier.complete_tx", BARRIER)                                                   \
  X(MBARRIER_ARRIVE, "mbarrier.arrive", BARRIER)                                                             \
  X(MBARRIER_ARRIVE_EXPECT_TX, "mbarrier.arrive.expect_tx", BARRIER)                                         \
  X(MBARRIER_ARRIVE_DROP, "mbarrier.arrive_drop", BARRIER)                                                   \
  X(MBARRIER_ARRIVE_DROP_EXPECT_TX, "mbarrier.arrive_drop.expect_tx", BARRIER)                               \
  X(MBARRIER_TEST_WAIT, "mbarrier.test_wait", BARRIER)                                                       \
  X(MBARRIER_TEST_WAIT_PARITY, "mbarrier.test_wait.parity", BARRIER)                                         \
  X(MBARRIER_TRY_WAIT, "mbarrier.try_wait", BARRIER)                                                         \
  X(MBARRIER_TRY_WAIT_PARITY, "mbarrier.try_wait.parity", BARRIER)                                           \
  X(MBARRIER_PENDING_COUNT, "mbarrier.pending_count", BARRIER)                                               \
  /* asynchronous copies */                                                                                  \
  X(CP_ASYNC, "cp.async", COPY)                                                                              \
  X(CP_ASYNC_COMMIT, "cp.async.commit_group", COPY)                                                          \
  X(CP_ASYNC_WAIT, "cp.async.wait_group", COPY)                                                              \
  X(CP_ASYNC_WAIT_ALL, "cp.async.wait_all", COPY)                                                            \
  X(CP_ASYNC_MBARRIER_ARRIVE, "cp.async.mbarrier.arrive", COPY)                                              \
  X(BULK, "cp.async.bulk", COPY)                                                                             \
  X(BULK_PREFETCH, "cp.async.bulk.prefetch", COPY)                                                           \
  X(BULK_REDUCE, "cp.reduce.async.bulk", COPY)                                                               \
  X(BULK_TENSOR, "cp.async.bulk.tensor", COPY)                                                               \
  X(BULK_TENSOR_PREFETCH, "cp.async.bulk.prefetch.tensor", COPY)                                             \
  X(BULK_TENSOR_REDUCE, "cp.reduce.async.bulk.tensor", COPY)                                                 \
  X(BULK_COMMIT, "cp.async.bulk.commit_group", COPY)                                                         \
  X(BULK_WAIT, "cp.async.bulk.wait_group", COPY)                                                             \
  X(TENSORMAP_REPLACE, "tensormap.replace", NONE)                                                            \
  X(TENSORMAP_CP_FENCEPROXY, "tensormap.cp_fenceproxy", NONE)                                                \
  X(CLC_TRY_CANCEL, "clusterlaunchcontrol.try_cancel.async", COPY)                                           \
  X(CLC_QUERY_CANCELED, "clusterlaunchcontrol.query_cancel.is_canceled", COPY)                               \
  X(CLC_QUERY_CTAID, "clusterlaunchcontrol.query_cancel.get_first_ctaid", COPY)                              \
  X(CLC_QUERY_CTAID_X, "clusterlaunchcontrol.query_cancel.get_first_ctaid::x", COPY)                         \
  X(CLC_QUERY_CTAID_Y, "clusterlaunchcontrol.query_cancel.get_first_ctaid::y", COPY)                         \
  X(CLC_QUERY_CTAID_Z, "clusterlaunchcontrol.query_cancel.get_first_ctaid::z", COPY)                         \
  /* matrix */                                                                                               \
  X(LDMATRIX, "ldmatrix.sync.aligned", MATRIX)                                                               \
  X(STMATRIX, "stmatrix.sync.aligned", MATRIX)                                                               \
  X(MOVMATRIX, "movmatrix.sync.aligned", MATRIX)                                                             \
  X(MMA, "mma.sync.aligned", MATRIX)                                                                         \
  X(WGMMA, "wgmma.mma_async.sync.aligned", MATRIX)                                                           \
  X(WGMMA_FENCE, "wgmma.fence.sync.aligned", MATRIX)                                                         \
  X(WGMMA_COMMIT, "wgmma.commit_group.sync.aligned", MATRIX)                                                 \
  X(WGMMA_WAIT, "wgmma.wait_group.sync.aligned", MATRIX)                                                     \
  X(TCGEN05_ALLOC, "tcgen05.alloc", TENSOR_MEMORY)                                                           \
  X(TCGEN05_DEALLOC, "tcgen05.dealloc", TENSOR_MEMORY)                                                       \
  X(TCGEN05_RELINQUISH, "tcgen05.relinquish_alloc_permit", TENSOR_MEMORY)                                    \
  X(TCGEN05_LD, "tcgen05.ld.sync.aligned", TENSOR_MEMORY)                                                    \
  X(TCGEN05_ST, "tcgen05.st.sync.aligned", TENSOR_MEMORY)                                                    \
  X(TCGEN05_WAIT_LD, "tcgen05.wait::ld.sync.aligned", TENSOR_MEMORY)                                         \
  X(TCGEN05_WAIT_ST, "tcgen05.wait::st.sync.aligned", TENSOR_MEMORY)                                         \
  X(TCGEN05_CP, "tcgen05.cp", TENSOR_MEMORY)                                                                 \
  X(TCGEN05_SHIFT, "tcgen05.shift", TENSOR_MEMORY)                                                           \
  X(TCGEN05_MMA, "tcgen05.mma", TENSOR_MEMORY)                                                               \
  X(TCGEN05_MMA_WS, "tcgen05.mma.ws", TENSOR_MEMORY)                                                         \
  X(TCGEN05_COMMIT, "tcgen05.commit", TENSOR_MEMORY)                                                         \
  X(TCGEN05_FENCE_BEFORE, "tcgen05.fence::before_thread_sync", TENSOR_MEMORY)                                \
  X(TCGEN05_FENCE_AFTER, "tcgen05.fence::after_thread_sync", TENSOR_MEMORY)

/* Second spellings: X(text, NAME). */
#define PTX_OPCODE_ALIASES(X)                                                                                \
  X("bar.cta.sync", BAR_SYNC)                                                                                \
  X("barrier.sync", BAR_SYNC)                                                                                \
  X("barrier.cta.sync", BAR_SYNC)                                                                            \
  X("bar.cta.arrive", BAR_ARRIVE)                                                                            \
  X("barrier.arrive", BAR_ARRIVE)                                                                            \
  X("barrier.cta.arrive", BAR_ARRIVE)                                                                        \
  X("bar.cta.red", BAR_RED)                                                                                  \
  X("barrier.red", BAR_RED)                                                                                  \
  X("barrier.cta.red", BAR_RED)                                                                              \
  X("discard.global", DISCARD)

/* X(NAME, text, bits, kind): kind is how one element is read; packed types say the whole register's bits. */
#define PTX_TYPES(X)                                                                                         \
  X(PRED, "pred", 1, BITS)                                                                                   \
  X(B1, "b1", 1, BITS)                                                                                       \
  X(B8, "b8", 8, BITS)                                                                                       \
  X(B16, "b16", 16, BITS)                                                                                    \
  X(B32, "b32", 32, BITS)                                                                                    \
  X(B64, "b64", 64, BITS)                                                                                    \
  X(B128, "b128", 128, BITS)                                                                                 \
  X(U8, "u8", 8, UNSIGNED)                                                                                   \
  X(U16, "u16", 16, UNSIGNED)                                                                                \
  X(U32, "u32", 32, UNSIGNED)                                                                                \
  X(U64, "u64", 64, UNSIGNED)                                                                                \
  X(S8, "s8", 8, SIGNED)                                                                                     \
  X(S16, "s16", 16, SIGNED)                                                                                  \
  X(S32, "s32", 32, SIGNED)                                                                                  \
  X(S64, "s64", 64, SIGNED)                                                                                  \
  X(U16X2, "u16x2", 32, UNSIGNED)                                                                            \
  X(S16X2, "s16x2", 32, SIGNED)                                                                              \
  X(F16, "f16", 16, FLOAT)                                                                                   \
  X(BF16, "bf16", 16, FLOAT)                                                                                 \
  X(F32, "f32", 32, FLOAT)                                                                                   \
  X(F64, "f64", 64, FLOAT)                                                                                   \
  X(TF32, "tf32", 32, FLOAT)                                                                                 \
  X(F16X2, "f16x2", 32, FLOAT)                                                                               \
  X(BF16X2, "bf16x2", 32, FLOAT)                                                                             \
  X(F32X2, "f32x2", 64, FLOAT)                                                                               \
  X(E4M3, "e4m3", 8, FLOAT)                                                                                  \
  X(E5M2, "e5m2", 8, FLOAT)                                                                                  \
  X(E2M3, "e2m3", 8, FLOAT)                                                                                  \
  X(E3M2, "e3m2", 8, FLOAT)                                                                                  \
  X(E2M1, "e2m1", 4, FLOAT)                                                                                  \
  X(UE8M0, "ue8m0", 8, FLOAT)                                                                                \
  X(UE4M3, "ue4m3", 8, FLOAT)                                                                                \
  X(E4M3X2, "e4m3x2", 16, FLOAT)                                                                             \
  X(E5M2X2, "e5m2x2", 16, FLOAT)                                                                             \
  X(E2M3X2, "e2m3x2", 16, FLOAT)                                                                             \
  X(E3M2X2, "e3m2x2", 16, FLOAT)                                                                             \
  X(E2M1X2, "e2m1x2", 8, FLOAT)                                                                              \
  X(UE8M0X2, "ue8m0x2", 16, FLOAT)

/* Registers the machine provides: X(NAME, text, bits, the least SM that has it). */
#define PTX_SPECIALS(X)                                                                                      \
  X(TID_X, "%tid.x", 32, 80)                                                                                 \
  X(TID_Y, "%tid.y", 32, 80)                                                                                 \
  X(TID_Z, "%tid.z", 32, 80)                                                                                 \
  X(NTID_X, "%ntid.x", 32, 80)                                                                               \
  X(NTID_Y, "%ntid.y", 32, 80)                                                                               \
  X(NTID_Z, "%ntid.z", 32, 80)                                                                               \
  X(CTAID_X, "%ctaid.x", 32, 80)                                                                             \
  X(CTAID_Y, "%ctaid.y", 32, 80)                                                                             \
  X(CTAID_Z, "%ctaid.z", 32, 80)                                                                             \
  X(NCTAID_X, "%nctaid.x", 32, 80)                                                                           \
  X(NCTAID_Y, "%nctaid.y", 32, 80)                                                                           \
  X(NCTAID_Z, "%nctaid.z", 32, 80)                                                                           \
  X(CLUSTERID_X, "%clusterid.x", 32, 90)                                                                     \
  X(CLUSTERID_Y, "%clusterid.y", 32, 90)                                                                     \
  X(CLUSTERID_Z, "%clusterid.z", 32, 90)                                                                     \
  X(NCLUSTERID_X, "%nclusterid.x", 32, 90)                                                                   \
  X(NCLUSTERID_Y, "%nclusterid.y", 32, 90)                                                                   \
  X(NCLUSTERID_Z, "%nclusterid.z", 32, 90)                                                                   \
  X(CLUSTER_CTAID_X, "%cluster_ctaid.x", 32, 90)                                                             \
  X(CLUSTER_CTAID_Y, "%cluster_ctaid.y", 32, 90)                                                             \
  X(CLUSTER_CTAID_Z, "%cluster_ctaid.z", 32, 90)                                                             \
  X(CLUSTER_NCTAID_X, "%cluster_nctaid.x", 32, 90)                                                           \
  X(CLUSTER_NCTAID_Y, "%cluster_nctaid.y", 32, 90)                                                           \
  X(CLUSTER_NCTAID_Z, "%cluster_nctaid.z", 32, 90)                                                           \
  X(CLUSTER_CTARANK, "%cluster_ctarank", 32, 90)                                                             \
  X(CLUSTER_NCTARANK, "%cluster_nctarank", 32, 90)                                                           \
  X(IS_EXPLICIT_CLUSTER, "%is_explicit_cluster", 1, 90)                                                      \
  X(LANEID, "%laneid", 32, 80)                                                                               \
  X(WARPID, "%warpid", 32, 80)                                                                               \
  X(NWARPID, "%nwarpid", 32, 80)                                                                             \
  X(SMID, "%smid", 32, 80)                                                                                   \
  X(NSMID, "%nsmid", 32, 80)                                                                                 \
  X(GRIDID, "%gridid", 64, 80)                                                                               \
  X(LANEMASK_EQ, "%lanemask_eq", 32, 80)                                                                     \
  X(LANEMASK_LE, "%lanemask_le", 32, 80)                                                                     \
  X(LANEMASK_LT, "%lanemask_lt", 32, 80)                                                                     \
  X(LANEMASK_GE, "%lanemask_ge", 32, 80)                                                                     \
  X(LANEMASK_GT, "%lanemask_gt", 32, 80)                                                                     \
  X(CLOCK, "%clock", 32, 80)                                                                                 \
  X(CLOCK_HI, "%clock_hi", 32, 80)                                                                           \
  X(CLOCK64, "%clock64", 64, 80)                                                                             \
  X(GLOBALTIMER, "%globaltimer", 64, 80)                                                                     \
  X(GLOBALTIMER_LO, "%globaltimer_lo", 32, 80)                                                               \
  X(GLOBALTIMER_HI, "%globaltimer_hi", 32, 80)                                                               \
  X(DYNAMIC_SMEM_SIZE, "%dynamic_smem_size", 32, 80)                                                         \
  X(TOTAL_SMEM_SIZE, "%total_smem_size", 32, 80)                                                             \
  X(AGGR_SMEM_SIZE, "%aggr_smem_size", 32, 90)

/* The enumerations that modifiers select from: X(NAME, text). The first of each means "not written". */
#define PTX_SPACES(X)                                                                                        \
  X(GENERIC, "generic")                                                                                      \
  X(CONST, "const")                                                                                          \
  X(GLOBAL, "global")                                                                                        \
  X(LOCAL, "local")                                                                                          \
  X(PARAM, "param")                                                                                          \
  X(SHARED, "shared")                                                                                        \
  X(SHARED_CLUSTER, "shared::cluster")
#define PTX_ROUNDINGS(X)                                                                                     \
  X(NONE, "")                                                                                                \
  X(RN, "rn")                                                                                                \
  X(RZ, "rz")                                                                                                \
  X(RM, "rm")                                                                                                \
  X(RP, "rp")                                                                                                \
  X(RNA, "rna")                                                                                              \
  X(RS, "rs")                                                                                                \
  X(RNI, "rni")                                                                                              \
  X(RZI, "rzi")                                                                                              \
  X(RMI, "rmi")                                                                                              \
  X(RPI, "rpi")                                                                                              \
  X(APPROX, "approx")                                                                                        \
  X(FULL, "full")
#define PTX_SEMANTICS(X)                                                                                     \
  X(NONE, "")                                                                                                \
  X(WEAK, "weak")                                                                                            \
  X(VOLATILE, "volatile")                                                                                    \
  X(RELAXED, "relaxed")                                                                                      \
  X(ACQUIRE, "acquire")                                                                                      \
  X(RELEASE, "release")                                                                                      \
  X(ACQ_REL, "acq_rel")                                                                                      \
  X(SC, "sc")                                                                                                \
  X(MMIO, "mmio")
#define PTX_SCOPES(X)                                                                                        \
  X(NONE, "")                                                                                                \
  X(CTA, "cta")                                                                                              \
  X(CLUSTER, "cluster")                                                                                      \
  X(GPU, "gpu")                                                                                              \
  X(SYS, "sys")
#define PTX_COMPARES(X)                                                                                      \
  X(NONE, "")                                                                                                \
  X(EQ, "eq")                                                                                                \
  X(NE, "ne")                                                                                                \
  X(LT, "lt")                                                                                                \
  X(LE, "le")                                                                                                \
  X(GT, "gt")                                                                                                \
  X(GE, "ge")                                                                                                \
  X(LO, "lo")                                                                                                \
  X(LS, "ls")                                                                                                \
  X(HI, "hi")                                                                                                \
  X(HS, "hs")                                                                                                \
  X(EQU, "equ")                                                                                              \
  X(NEU, "neu")                                                                                              \
  X(LTU, "ltu")                                                                                              \
  X(LEU, "leu")                                                                                              \
  X(GTU, "gtu")                                                                                              \
  X(GEU, "geu")                                                                                              \
  X(NUM, "num")                                                                                              \
  X(NAN, "nan")
/* What atom, red, redux, reducing copies, setp's combination, vote and bar.red do. */
#define PTX_OPERATIONS(X)                                                                                    \
  X(NONE, "")                                                                                                \
  X(ADD, "add")                                                                                              \
  X(MIN, "min")                                                                                              \
  X(MAX, "max")                                                                                              \
  X(INC, "inc")                                                                                              \
  X(DEC, "dec")                                                                                              \
  X(AND, "and")                                                                                              \
  X(OR, "or")                                                                                                \
  X(XOR, "xor")                                                                                              \
  X(EXCH, "exch")                                                                                            \
  X(CAS, "cas")                                                                                              \
  X(POPC, "popc")                                                                                            \
  X(ALL, "all")                                                                                              \
  X(ANY, "any")                                                                                              \
  X(UNI, "uni")                                                                                              \
  X(BALLOT, "ballot")
/* One of several variants of an instruction, where that is all there is to say: mul, mad; shf; shfl; prmt;
 * testp; setmaxnreg; createpolicy; prefetch. */
#define PTX_MODES(X)                                                                                         \
  X(NONE, "")                                                                                                \
  X(LO, "lo")                                                                                                \
  X(HI, "hi")                                                                                                \
  X(WIDE, "wide")                                                                                            \
  X(LEFT, "l")                                                                                               \
  X(RIGHT, "r")                                                                                              \
  X(UP, "up")                                                                                                \
  X(DOWN, "down")                                                                                            \
  X(BFLY, "bfly")                                                                                            \
  X(IDX, "idx")                                                                                              \
  X(F4E, "f4e")                                                                                              \
  X(B4E, "b4e")                                                                                              \
  X(RC8, "rc8")                                                                                              \
  X(ECL, "ecl")                                                                                              \
  X(ECR, "ecr")                                                                                              \
  X(RC16, "rc16")                                                                                            \
  X(FINITE, "finite")                                                                                        \
  X(INFINITE, "infinite")                                                                                    \
  X(NUMBER, "number")                                                                                        \
  X(NOTANUMBER, "notanumber")                                                                                \
  X(NORMAL, "normal")                                                                                        \
  X(SUBNORMAL, "subnormal")                                                                                  \
  X(DEC, "dec")                                                                                              \
  X(INC, "inc")                                                                                              \
  X(FRACTIONAL, "fractional")                                                                                \
  X(RANGE, "range")                                                                                          \
  X(CVT, "cvt")                                                                                              \
  X(TENSORMAP, "tensormap")                                                                                  \
  X(L1, "L1")                                                                                                \
  X(L2, "L2")
#define PTX_PROXIES(X)                                                                                       \
  X(NONE, "")                                                                                                \
  X(ALIAS, "alias")                                                                                          \
  X(ASYNC, "async")                                                                                          \
  X(TENSORMAP_GENERIC, "tensormap::generic")                                                                 \
  X(ASYNC_GENERIC, "async::generic")
/* How a tensor copy addresses its box. */
#define PTX_TILINGS(X)                                                                                       \
  X(NONE, "")                                                                                                \
  X(TILE, "tile")                                                                                            \
  X(GATHER4, "tile::gather4")                                                                                \
  X(SCATTER4, "tile::scatter4")                                                                              \
  X(IM2COL, "im2col")                                                                                        \
  X(IM2COL_W, "im2col::w")                                                                                   \
  X(IM2COL_W_128, "im2col::w::128")
/* tcgen05 and sm_120 matrix kinds. */
#define PTX_KINDS(X)                                                                                         \
  X(NONE, "")                                                                                                \
  X(F16, "kind::f16")                                                                                        \
  X(TF32, "kind::tf32")                                                                                      \
  X(F8F6F4, "kind::f8f6f4")                                                                                  \
  X(I8, "kind::i8")                                                                                          \
  X(MXF8F6F4, "kind::mxf8f6f4")                                                                              \
  X(MXF4, "kind::mxf4")                                                                                      \
  X(MXF4NVF4, "kind::mxf4nvf4")
/* Shapes of ldmatrix/stmatrix (m8n8 …) and of tcgen05.ld/st/cp. */
#define PTX_SHAPES(X)                                                                                        \
  X(NONE, "")                                                                                                \
  X(M8N8, "m8n8")                                                                                            \
  X(M16N16, "m16n16")                                                                                        \
  X(M16N8, "m16n8")                                                                                          \
  X(L32X32B, "32x32b")                                                                                       \
  X(L16X64B, "16x64b")                                                                                       \
  X(L16X128B, "16x128b")                                                                                     \
  X(L16X256B, "16x256b")                                                                                     \
  X(L16X32BX2, "16x32bx2")                                                                                   \
  X(C128X256B, "128x256b")                                                                                   \
  X(C4X256B, "4x256b")                                                                                       \
  X(C128X128B, "128x128b")                                                                                   \
  X(C64X128B, "64x128b")                                                                                     \
  X(C32X128B, "32x128b")
/* tcgen05.cp's replication. */
#define PTX_REPLICATIONS(X)                                                                                  \
  X(NONE, "")                                                                                                \
  X(WARPX2_02_13, "warpx2::02_13")                                                                           \
  X(WARPX2_01_23, "warpx2::01_23")                                                                           \
  X(WARPX4, "warpx4")
/* tcgen05.mma's collector buffer: X(NAME, text); the usage is a hint and changes no result. */
#define PTX_COLLECTORS(X)                                                                                    \
  X(NONE, "")                                                                                                \
  X(FILL, "fill")                                                                                            \
  X(USE, "use")                                                                                              \
  X(LASTUSE, "lastuse")                                                                                      \
  X(DISCARD, "discard")
/* Block scales of tcgen05.mma. */
#define PTX_SCALE_BLOCKS(X)                                                                                  \
  X(NONE, "")                                                                                                \
  X(VEC_1X, "scale_vec::1X")                                                                                 \
  X(VEC_2X, "scale_vec::2X")                                                                                 \
  X(VEC_4X, "scale_vec::4X")                                                                                 \
  X(BLOCK16, "block16")                                                                                      \
  X(BLOCK32, "block32")

/* Modifiers that are simply there or not: X(NAME, text). */
#define PTX_FLAGS(X)                                                                                         \
  X(FTZ, "ftz")                                                                                              \
  X(SAT, "sat")                                                                                              \
  X(SATFINITE, "satfinite")                                                                                  \
  X(RELU, "relu")                                                                                            \
  X(NAN, "NaN")                                                                                              \
  X(XORSIGN, "xorsign")                                                                                      \
  X(ABS, "abs")                                                                                              \
  X(CC, "cc")                                                                                                \
  X(NOFTZ, "noftz")                                                                                          \
  X(SYNC, "sync")                                                                                            \
  X(ALIGNED, "aligned")                                                                                      \
  X(UNI, "uni")                                                                                              \
  X(NC, "nc")                                                                                                \
  X(TO, "to")                                                                                                \
  X(SHIFTAMT, "shiftamt")                                                                                    \
  X(WRAP, "wrap")                                                                                            \
  X(CLAMP, "clamp")                                                                                          \
  X(TRANS, "trans")                                                                                          \
  X(READ, "read")                                                                                            \
  X(NO_COMPLETE, "noComplete")                                                                               \
  X(NO_INC, "noinc")                                                                                         \
  X(MULTICAST, "multicast::cluster")                                                                         \
  X(MULTICAST_ALL, "multicast::cluster::all")                                                                \
  X(CACHE_HINT, "L2::cache_hint")                                                                            \
  X(CP_MASK, "cp_mask")                                                                                      \
  X(BULK_GROUP, "bulk_group")                                                                                \
  X(COMPLETE_TX, "mbarrier::complete_tx::bytes")                                                             \
  X(ARRIVE_ONE, "mbarrier::arrive::one")                                                                     \
  X(PACK_16B, "pack::16b")                                                                                   \
  X(UNPACK_16B, "unpack::16b")                                                                               \
  X(BLOCK_SCALE, "block_scale")                                                                              \
  X(ASHIFT, "ashift")

/* Modifiers that only advise the hardware, and change no result: X(text). */
#define PTX_HINTS(X)                                                                                         \
  X("ca")                                                                                                    \
  X("cg")                                                                                                    \
  X("cs")                                                                                                    \
  X("lu")                                                                                                    \
  X("cv")                                                                                                    \
  X("wb")                                                                                                    \
  X("wt")                                                                                                    \
  X("L1::evict_normal")                                                                                      \
  X("L1::evict_unchanged")                                                                                   \
  X("L1::evict_first")                                                                                       \
  X("L1::evict_last")                                                                                        \
  X("L1::no_allocate")                                                                                       \
  X("L2::evict_normal")                                                                                      \
  X("L2::evict_unchanged")                                                                                   \
  X("L2::evict_first")                                                                                       \
  X("L2::evict_last")                                                                                        \
  X("L2::64B")                                                                                               \
  X("L2::128B")                                                                                              \
  X("L2::256B")

#endif
