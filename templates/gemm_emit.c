/* The kernel around its two roles: parameters, barriers, dispatch, and the end. */
#include "templates/gemm_emit.h"

#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "generator/gen_tma.h"

enum { PARAMS = 6, STREAM_PARAMS = PARAMS + 2 };
static const gen_param_kind params[STREAM_PARAMS] = {
    GEN_PARAM_TENSORMAP, GEN_PARAM_TENSORMAP, GEN_PARAM_TENSORMAP, GEN_PARAM_I32,
    GEN_PARAM_I32,       GEN_PARAM_I32,       GEN_PARAM_POINTER,   GEN_PARAM_POINTER};

enum { WARPS_OF_A_GROUP = 4 };

/* What the register file gives each role when two consumer groups share it with the producer's: 128 threads
 * of the one and 256 of the other may hold no more than 65536 registers. */
typedef struct register_split {
  int producer, consumer;
} register_split;

static register_split split_registers(const gemm_plan *plan) {
  return plan->accumulators > 128 ? (register_split){24, 240} : (register_split){40, 232};
}

/* Makes the barriers, and what else is in shared memory from the start, ready before any role or copy uses
 * them. */
static void set_up_barriers(gemm_emitter *e, gen_value thread) {
  gen_builder *b = e->b;
  gen_branch first;
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, thread, 0), NULL, 0);
  gen_tma_prefetch_map(b, e->map_a);
  gen_tma_prefetch_map(b, e->map_b);
  gen_tma_prefetch_map(b, e->map_y);
  gen_pipeline_init(b, &e->pipeline);
  if (e->plan->pingpong) {
    gen_mbarrier_init(b, e->turns, WARPS_OF_A_GROUP);
    gen_mbarrier_init(b, gen_add_imm(b, e->turns, 8), WARPS_OF_A_GROUP);
  }
  gen_mbarrier_init_fence(b);
  if (e->plan->even) gemm_even_fill(e);
  gen_if_end(b, &first);
  if (e->plan->cluster > 1) {
    gen_cluster_sync(b);
  } else {
    gen_cta_sync(b);
  }
}

static void emit_roles(gemm_emitter *e, gen_value thread) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_value group = gen_warp_uniform(b, gen_lshr(b, thread, gen_i32(b, 7)));
  register_split split = split_registers(plan);
  bool move_registers = plan->consumers == 2;
  gen_branch producer, one_thread;
  gen_if(b, &producer, gen_compare_imm(b, GEN_EQ, group, plan->consumers), NULL, 0);
  if (move_registers) gen_registers_shrink(b, split.producer);
  gen_if(b, &one_thread, gen_compare_imm(b, GEN_EQ, thread, plan->consumers * 128), NULL, 0);
  gemm_emit_producer(e);
  gen_if_end(b, &one_thread);
  gen_else(b, &producer);
  if (move_registers) gen_registers_grow(b, split.consumer);
  gemm_emit_consumer(e, group, gen_and(b, thread, gen_i32(b, 127)));
  gen_if_end(b, &producer);
  /* A CTA must not end while its peer still copies into it or arrives on its barriers. */
  if (plan->cluster > 1) gen_cluster_sync(b);
}

static void emit_kernel(gemm_emitter *e) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  e->map_a = gen_param(b, 0);
  e->map_b = gen_param(b, 1);
  e->map_y = gen_param(b, 2);
  e->m = gen_param(b, 3);
  e->n = gen_param(b, 4);
  e->k = gen_param(b, 5);
  if (plan->stream) {
    e->stream.slots = gen_param(b, PARAMS);
    e->stream.flags = gen_param(b, PARAMS + 1);
  }
  e->smem = gen_shared_dynamic(b);
  /* Ping-pong: a stage belongs to the tile of one group. */
  gen_pipeline_create(b, &e->pipeline, "stage", plan->stages, plan->pingpong ? 1 : plan->consumers,
                      plan->cluster);
  if (plan->pingpong) e->turns = gen_shared_static(b, "turns", 16, 8);
  gen_value thread = gen_tid_x(b);
  gemm_tiles_init(e);
  set_up_barriers(e, thread);
  if (plan->even) e->units = gemm_even_units(e);
  /* All before this overlapped the end of the launch before; from here on memory is touched. */
  gen_launches_wait(b);
  gen_launches_release(b);
  emit_roles(e, thread);
}

/* A flag a thread. */
static void emit_clear(gen_builder *b) {
  gen_value index = gen_add(b, gen_mul_imm(b, gen_ctaid_x(b), GEMM_CLEAR_THREADS), gen_tid_x(b));
  gen_value address = gen_add(b, gen_param(b, 0), gen_mul_imm(b, gen_zext(b, index, GEN_I64), 4));
  gen_launches_release(b);
  gen_launches_wait(b);
  gen_store_global(b, gen_i32(b, 0), address);
}

arke_status gemm_emit(gen_context *ctx, const target *t, const gemm_plan *plan, bool keep_llvm_ir, arena *a,
                      gen_output *out, arke_error *err) {
  gen_kernel kernel = {.name = GEMM_KERNEL_NAME,
                       .threads = plan->threads,
                       .min_ctas_per_sm = 1,
                       .cluster = {plan->cluster, 1, 1},
                       .n_params = plan->stream ? STREAM_PARAMS : PARAMS,
                       .params = params};
  gemm_emitter e = {.plan = plan};
  TRY(gen_builder_create(ctx, t, &kernel, &e.b, err));
  emit_kernel(&e);
  arke_status status = ARKE_OK;
  if (plan->stream) {
    static const gen_param_kind flags[] = {GEN_PARAM_POINTER};
    const gen_kernel clear = {.name = GEMM_CLEAR_NAME,
                              .threads = GEMM_CLEAR_THREADS,
                              .min_ctas_per_sm = 1,
                              .cluster = {1, 1, 1},
                              .n_params = 1,
                              .params = flags};
    status = gen_builder_next_kernel(e.b, &clear, err);
    if (status == ARKE_OK) emit_clear(e.b);
  }
  if (status == ARKE_OK) status = gen_builder_finish(e.b, keep_llvm_ir, a, out, err);
  gen_builder_destroy(e.b);
  return status;
}

arke_status gemm_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                       arena *a, lowered *out, arke_error *err) {
  gemm_match match;
  gemm_plan plan;
  template_reason reason = gemm_fit(p, t, &match, NULL);
  if (reason == TEMPLATE_OK) reason = gemm_plan_make(&match, ir_tensor_dtype(p, match.a), t, c, &plan);
  if (reason != TEMPLATE_OK) {
    return error_set(err, ARKE_ERR_UNSUPPORTED, "generate", "configuration not feasible: %s",
                     template_reason_text(reason));
  }
  gen_context *own = NULL;
  gen_context *ctx = options ? options->context : NULL;
  if (!ctx) {
    TRY(gen_context_create(&own, err));
    ctx = own;
  }
  *out = (lowered){0};
  gen_output text;
  arke_status status = gemm_emit(ctx, t, &plan, options && options->keep_llvm_ir, a, &text, err);
  if (status == ARKE_OK) {
    out->ptx = text.ptx;
    out->ptx_bytes = text.ptx_bytes;
    out->llvm_ir = text.llvm_ir;
    status = gemm_recipe(p->op, &plan, a, &out->recipe, err);
  }
  gen_context_destroy(own);
  return status;
}
