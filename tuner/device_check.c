#include "tuner/device_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/compare.h"

#define STAGE     "verify"
#define ALIGNMENT 256
#define WORD      8
#define PIECES    64
#define PIECE     65536 /* elements */

static size_t align_up(size_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Room in the results. */
static size_t reserve(tune_device_check *d, size_t bytes) {
  size_t at = d->results_bytes;
  d->results_bytes = align_up(at + bytes);
  return at;
}

/* --- what is compared ----------------------------------------------------------------------------------- */

static void add_zone(tune_device_check *d, tune_zone_kind kind, int tensor, device_ptr at, device_ptr kept,
                     size_t row_bytes, size_t bytes) {
  tune_zone *z = &d->zones[d->n_zones++];
  *z = (tune_zone){kind, .tensor = tensor, .at = at, .kept = kept, .row_bytes = row_bytes};
  z->rows = (int64_t)((bytes + row_bytes - 1) / row_bytes);
  z->found = reserve(d, (size_t)z->rows);
}

/* The rows of an output's last elements reach into the guard behind it, which is poisoned on both sides. */
static void add_zones(tune_device_check *d, int i) {
  const tune_tensors *t = d->tensors;
  const tune_tensor *x = &t->list[i];
  size_t guard = t->guard_bytes, row = tune_comparer_row_bytes(DTYPE_I64);
  if (x->alias < 0 && !tune_tensors_is_written(t, i)) {
    add_zone(d, ZONE_INPUT, i, x->allocation, x->kept, row, x->allocation_bytes);
  } else if (x->alias < 0) {
    size_t behind = guard + align_up(x->bytes);
    add_zone(d, ZONE_BEFORE, i, x->allocation, x->kept, row, guard);
    add_zone(d, ZONE_AFTER, i, x->allocation + behind, x->kept + behind, row, guard);
  }
  if (x->output && x->bytes > 0)
    add_zone(d, ZONE_OUTPUT, i, x->first, x->kept + guard, tune_comparer_row_bytes(x->type), x->bytes);
}

static void add_picked(tune_device_check *d, const tune_expected *e, int i) {
  const tune_tensor *x = &d->tensors->list[i];
  tune_picked *p = &d->picked[d->n_picked++];
  *p = (tune_picked){.tensor = i, .n_behind = (int64_t)(align_up(x->bytes) / WORD - x->bytes / WORD)};
  for (int k = 0; k < e->n; k++) p->n += e->samples[k].output == i;
  p->words = reserve(d, (size_t)(p->n + p->n_behind) * WORD);
}

/* Which words of an output are picked, and where its samples come to lie. */
static void list_places(tune_device_check *d, const tune_expected *e, const tune_picked *p, int64_t *places) {
  const tune_tensor *x = &d->tensors->list[p->tensor];
  int64_t each = WORD * 8 / dtype_bits(x->type), n = 0; /* elements of a word */
  for (int k = 0; k < e->n; k++) {
    if (e->samples[k].output != p->tensor) continue;
    int64_t offset = e->samples[k].offset;
    d->sample[k] = (tune_element){d->host + p->words + (size_t)n * WORD, offset % each};
    places[n++] = offset / each;
  }
  for (int64_t i = 0; i < p->n_behind; i++) places[n++] = (int64_t)(x->bytes / WORD) + i;
}

/* --- making and binding --------------------------------------------------------------------------------- */

static arke_status bind_zone(tune_device_check *d, tune_zone *z, arke_error *err) {
  const tune_comparer *c = d->comparer;
  device_ptr found = d->results + z->found;
  z->launches = ARENA_NEW(&d->arena, tune_launches);
  if (!z->launches) return error_memory(err, STAGE);
  if (z->kind != ZONE_OUTPUT)
    return tune_comparer_words(c, z->at, z->kept, z->rows, found, &d->arena, z->launches, err);
  device_ptr limits = d->limits + (device_ptr)(z->tensor * ALIGNMENT);
  return tune_comparer_elements(c, d->tensors->list[z->tensor].type, z->at, z->kept, z->rows, limits, found,
                                &d->arena, z->launches, err);
}

static arke_status bind_picked(tune_device_check *d, const tune_expected *e, tune_picked *p,
                               arke_error *err) {
  const tune_tensor *x = &d->tensors->list[p->tensor];
  device *dev = d->tensors->dev;
  int64_t n = p->n + p->n_behind;
  int64_t *places = ARENA_NEW_N(&d->arena, int64_t, (size_t)n + 1);
  p->launches = ARENA_NEW(&d->arena, tune_launches);
  if (!places || !p->launches) return error_memory(err, STAGE);
  list_places(d, e, p, places);
  device_ptr at = d->places + p->words; /* laid out as the words */
  TRY(dev->ops->copy_in(dev, at, places, (size_t)n * WORD, err));
  return tune_comparer_pick(d->comparer, x->first, (int64_t)(align_up(x->bytes) / WORD), at, n,
                            d->results + p->words, &d->arena, p->launches, err);
}

static arke_status create(tune_device_check *d, const tune_expected *e, arke_error *err) {
  const tune_tensors *t = d->tensors;
  const device_ops *ops = t->dev->ops;
  for (int i = 0; i < t->n; i++)
    if (t->list[i].output && t->list[i].bytes > 0) add_picked(d, e, i);
  size_t picked_bytes = d->results_bytes;
  for (int i = 0; i < t->n; i++) add_zones(d, i);
  d->host = arena_alloc(&d->arena, d->results_bytes);
  d->row[0] = arena_alloc(&d->arena, tune_comparer_row_bytes(DTYPE_I64));
  d->row[1] = arena_alloc(&d->arena, tune_comparer_row_bytes(DTYPE_I64));
  d->sample = ARENA_NEW_N(&d->arena, tune_element, (size_t)e->n + 1);
  if (!d->host || !d->row[0] || !d->row[1] || !d->sample) return error_memory(err, STAGE);
  TRY(ops->mem_alloc(t->dev, d->results_bytes, "results", &d->results, err));
  TRY(ops->fill(t->dev, d->results, 0, d->results_bytes, err));
  TRY(ops->mem_alloc(t->dev, picked_bytes, "places", &d->places, err));
  TRY(ops->mem_alloc(t->dev, (size_t)t->n * ALIGNMENT, "limits", &d->limits, err));
  for (int i = 0; i < d->n_picked; i++) TRY(bind_picked(d, e, &d->picked[i], err));
  for (int i = 0; i < d->n_zones; i++) TRY(bind_zone(d, &d->zones[i], err));
  return ARKE_OK;
}

arke_status tune_device_check_create(const tune_comparer *c, const tune_tensors *t, const tune_expected *e,
                                     tune_device_check *d, arke_error *err) {
  *d = (tune_device_check){.comparer = c, .tensors = t};
  arke_status status = create(d, e, err);
  if (status != ARKE_OK) tune_device_check_release(d);
  return status;
}

void tune_device_check_release(tune_device_check *d) {
  if (!d->tensors) return;
  const device_ptr list[] = {d->results, d->places, d->limits};
  for (size_t i = 0; i < COUNT_OF(list); i++)
    if (list[i]) d->tensors->dev->ops->mem_free(d->tensors->dev, list[i]);
  arena_release(&d->arena);
  *d = (tune_device_check){0};
}

/* --- a run ---------------------------------------------------------------------------------------------- */

arke_status tune_device_check_enqueue(const tune_device_check *d, arke_error *err) {
  device *dev = d->tensors->dev;
  for (int i = 0; i < d->n_picked; i++) TRY(tune_launches_enqueue(dev, d->picked[i].launches, NULL, err));
  for (int i = 0; i < d->n_zones; i++)
    if (d->zones[i].kind != ZONE_OUTPUT || d->has_baseline)
      TRY(tune_launches_enqueue(dev, d->zones[i].launches, NULL, err));
  return ARKE_OK;
}

/* Brings a row and the kept one to the host. */
static arke_status fetch_row(const tune_device_check *d, const tune_zone *z, int64_t row, arke_error *err) {
  device *dev = d->tensors->dev;
  device_ptr offset = (device_ptr)row * z->row_bytes;
  TRY(dev->ops->copy_out(dev, d->row[0], z->at + offset, z->row_bytes, err));
  return dev->ops->copy_out(dev, d->row[1], z->kept + offset, z->row_bytes, err);
}

/* Words that were reported do differ. */
static arke_status check_zone(const tune_device_check *d, const tune_zone *z, arke_error *err) {
  for (int64_t row = 0; row < z->rows; row++) {
    if (d->host[z->found + (size_t)row] == 0) continue;
    TRY(fetch_row(d, z, row, err));
    size_t byte = 0;
    while (byte < z->row_bytes && d->row[0][byte] == d->row[1][byte]) byte++;
    if (byte == z->row_bytes)
      return error_set(err, ARKE_ERR_INTERNAL, STAGE,
                       "the kernel that compares words reports a row without a difference");
    device_ptr at = z->at + (device_ptr)row * z->row_bytes + byte;
    return tune_tensors_changed(d->tensors, z->tensor, (int64_t)(at - d->tensors->list[z->tensor].first),
                                err);
  }
  return ARKE_OK;
}

static arke_status check_behind(const tune_device_check *d, const tune_picked *p, arke_error *err) {
  size_t bytes = d->tensors->list[p->tensor].bytes, skipped = bytes % WORD;
  const unsigned char *words = (const unsigned char *)d->host + p->words + (size_t)p->n * WORD;
  for (size_t i = skipped; i < (size_t)p->n_behind * WORD; i++)
    if (words[i] != TUNE_POISON)
      return tune_tensors_changed(d->tensors, p->tensor, (int64_t)(bytes + i - skipped), err);
  return ARKE_OK;
}

arke_status tune_device_check_memory(const tune_device_check *d, arke_error *err) {
  device *dev = d->tensors->dev;
  TRY(dev->ops->copy_out(dev, d->host, d->results, d->results_bytes, err));
  for (int i = 0; i < d->n_picked; i++) TRY(check_behind(d, &d->picked[i], err));
  for (int i = 0; i < d->n_zones; i++)
    if (d->zones[i].kind != ZONE_OUTPUT) TRY(check_zone(d, &d->zones[i], err));
  return ARKE_OK;
}

/* Of the rows that were reported, whether one does have a difference. */
static arke_status check_output(const tune_device_check *d, const tune_expected *e, const tune_zone *z,
                                arke_error *err) {
  const tune_tensor *x = &d->tensors->list[z->tensor];
  int64_t each = (int64_t)z->row_bytes * 8 / dtype_bits(x->type);
  double relative, absolute;
  tune_expected_between(e, z->tensor, &relative, &absolute);
  for (int64_t row = 0; row < z->rows; row++) {
    if (d->host[z->found + (size_t)row] == 0) continue;
    int64_t begin = row * each, n = x->elements - begin < each ? x->elements - begin : each;
    TRY(fetch_row(d, z, row, err));
    int64_t at = tune_compare(x->type, d->row[0], d->row[1], n, relative, absolute);
    if (at >= 0)
      return tune_expected_differs(e, d->tensors, z->tensor, begin + at, (tune_element){d->row[0], at},
                                   (tune_element){d->row[1], at}, err);
  }
  return ARKE_OK;
}

/* Of an output: of all values where they are few, else of pieces all over it. A gigabyte would take seconds
 * to fetch and to look at. */
static arke_status find_largest(const tune_tensors *t, int tensor, double *most, arke_error *err) {
  const tune_tensor *x = &t->list[tensor];
  int64_t piece = x->elements <= PIECES * PIECE ? x->elements : PIECE;
  int64_t pieces = piece == x->elements ? 1 : PIECES;
  void *values = malloc((size_t)dtype_bytes(x->type, piece));
  if (!values) return error_memory(err, STAGE);
  arke_status status = ARKE_OK;
  *most = 0;
  for (int64_t i = 0; i < pieces && status == ARKE_OK; i++) {
    int64_t at =
        i * ((x->elements - piece) / (pieces > 1 ? pieces - 1 : 1)) / 2 * 2; /* whole bytes of all types */
    device_ptr from = x->first + (device_ptr)dtype_bytes(x->type, at);
    status = t->dev->ops->copy_out(t->dev, values, from, (size_t)dtype_bytes(x->type, piece), err);
    if (status == ARKE_OK) *most = fmax(*most, tune_largest(x->type, values, piece));
  }
  free(values);
  return status;
}

/* The outputs become those that later ones are compared with. */
static arke_status keep_baseline(tune_device_check *d, tune_expected *e, tune_tensors *t, arke_error *err) {
  const device_ops *ops = t->dev->ops;
  for (int i = 0; i < t->n; i++) {
    const tune_tensor *x = &t->list[i];
    double relative, absolute, largest = 0;
    float limits[2];
    if (!x->output || x->bytes == 0) continue;
    if (!tune_expected_knows_magnitude(e, t, i)) {
      TRY(find_largest(t, i, &largest, err));
      tune_expected_guess_magnitude(e, i, largest);
    }
    tune_expected_between(e, i, &relative, &absolute);
    tune_comparer_limits(x->type, relative, absolute, limits);
    TRY(ops->copy_in(t->dev, d->limits + (device_ptr)(i * ALIGNMENT), limits, sizeof limits, err));
    TRY(ops->copy(t->dev, x->kept + t->guard_bytes, x->first, x->bytes, err));
  }
  d->has_baseline = true;
  return ARKE_OK;
}

arke_status tune_device_check_outputs(tune_device_check *d, tune_expected *e, tune_tensors *t,
                                      tune_check *check, arke_error *err) {
  *check = (tune_check){0};
  TRY(tune_expected_check_samples(e, t, d->sample, check, err));
  if (!d->has_baseline) return keep_baseline(d, e, t, err);
  for (int i = 0; i < d->n_zones; i++)
    if (d->zones[i].kind == ZONE_OUTPUT) TRY(check_output(d, e, &d->zones[i], err));
  return ARKE_OK;
}
