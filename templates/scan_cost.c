/* The cost model of scans: the time of memory, limited by how much a device has in flight, beside that of the
 * chunks that wait for one another. */
#include <math.h>

#include "templates/scan.h"

/* Fitted to trials on H200, timed after flushes of L2. From a load to its data; what a chunk's exchanges take
 * between warps, or within one. */
static const double load_ns = 168, exchange_ns = 67, warp_ns = 192;
/* What a ring of rows costs before the first one is there, beside its load, and its share of the time: a row
 * is asked for when another one is done with. */
static const double ring_ns = 530, ring_share = 1.08;
/* A CTA's look at the chunks before it; the kernel that clears what they publish in; one link of the chain
 * from segment to segment. */
static const double look_back_ns = 600, clear_ns = 900, link_ns = 700;
/* Bytes an SM must have under way to get its share of the memory's rate, and the most it can take at once. */
static const double bytes_in_flight = 8e3, most_share = 2.5;
/* Warp instructions for each element: conversion, addition, addresses; and for each vector: shuffles. */
static const double element_instructions = 5.4, vector_instructions = 22;
/* Of a wave's time: the rest is the next one's, too. */
static const double wave_share = 0.9;

double scan_plan_cost_ns(const scan_plan *p, const target *t, const target_rates *rates) {
  const scan_match *m = p->match;
  double bytes = m->form.min_bytes;
  double elements = 1;
  for (int l = 0; l < m->form.n_loops; l++) {
    if (!m->form.loops[l].reduced) elements *= (double)ir_form_extent(&m->form, l);
  }
  double element_bytes = bytes / elements;
  double chunks = (double)scan_chunks(p), owners = (double)scan_owners(p);
  double ctas = p->place == SCAN_LOOK_BACK ? owners * chunks
                : p->place == SCAN_BY_WARP ? ceil(owners / p->warps)
                : p->place == SCAN_AHEAD   ? fmin(owners, (double)rates->sm_count * p->resident)
                                           : owners;
  double steps = p->place == SCAN_LOOK_BACK ? 1 : chunks;
  int registers = 40 + scan_element_registers(p);
  double resident = fmin(floor((double)t->registers_per_sm / (registers * p->threads)),
                         floor((double)t->max_threads_per_sm / p->threads));
  resident = fmin(fmax(1, resident), t->max_ctas_per_sm);
  double each_sm = fmin(resident, ceil(ctas / rates->sm_count));
  double busy_sms = fmin(ctas, rates->sm_count);

  /* Memory: half of the bytes are loads, which a thread issues a chunk at a time. */
  double held = each_sm * p->threads * p->strips * p->vector * element_bytes / 2;
  if (p->place == SCAN_AHEAD) each_sm = fmin(p->resident, ceil(ctas / rates->sm_count));
  double per_chunk = p->strips * (p->vector * element_instructions + vector_instructions) * m->n_terms;
  double computing = per_chunk * p->threads / 32 * each_sm / 4 / rates->clock_hz * 1e9;
  double working = (p->scanners > 1 ? exchange_ns : warp_ns) + computing;
  /* Nothing is under way while a chunk is worked on, unless it was copied ahead. */
  double flight = held * load_ns / (load_ns + working);
  if (p->place == SCAN_AHEAD) flight = each_sm * (p->stages - 1) * (double)scan_stage_bytes(m);
  double share = rates->dram_bytes_per_s / rates->sm_count;
  double rate = busy_sms * share *
                fmin(most_share * rates->sm_count / busy_sms > 1 ? most_share : 1,
                     flight / bytes_in_flight * most_share);
  rate = fmin(rate, rates->dram_bytes_per_s);
  double memory = bytes / rate * (p->place == SCAN_AHEAD ? ring_share : 1) * 1e9;

  double per_thread = p->strips * (p->vector * element_instructions + vector_instructions) * m->n_terms;
  double lanes_used = elements / (owners * (m->columns ? (double)p->width * ceil(chunks) * (double)p->chunk
                                                       : chunks * (double)p->chunk));
  double issue = elements / fmin(1, lanes_used) / 32 / (p->strips * p->vector) * per_thread /
                 (busy_sms * 4 * rates->clock_hz) * 1e9;
  double waves = ceil(ctas / (rates->sm_count * resident));
  double step = load_ns + working;
  double latency = waves * steps * step * (waves > 1 ? wave_share : 1);
  if (p->place == SCAN_AHEAD) latency = load_ns + ring_ns + ceil(owners / ctas) * working * 0.6;
  /* Nearly the largest of them: what comes close to it still gets in its way. */
  double total = cbrt(pow(memory, 3) + pow(issue, 3) + pow(latency, 3));
  if (p->place == SCAN_LOOK_BACK)
    total = fmax(total, chunks / SCAN_SEGMENT * link_ns) + look_back_ns + clear_ns;
  return rates->launch_ns + total;
}
