#include "emulator/emu_tensormap.h"

#include <string.h>

#define MAP_MARK 0x70616d2e656b7261ull

typedef struct encoded {
  uint64_t mark, checksum;
  uint64_t address, dim[5], stride_bytes[4];
  uint16_t box[5];
  uint8_t type, rank, swizzle, l2_promotion, reserved[2]; /* no padding: the checksum reads every byte */
} encoded;
_Static_assert(sizeof(encoded) <= sizeof(device_tensormap), "a tensor map has 128 bytes");

static uint64_t checksum(const encoded *e) {
  encoded copy = *e;
  copy.checksum = 0;
  uint64_t words[sizeof copy / 8], sum = 0;
  memcpy(words, &copy, sizeof words);
  for (size_t i = 0; i < COUNT_OF(words); i++) sum = (sum ^ words[i]) * 0x9E3779B97F4A7C15ull + (sum >> 29);
  return sum;
}

static void seal(encoded *e, device_tensormap *map) {
  e->checksum = checksum(e);
  memset(map, 0, sizeof *map);
  memcpy(map, e, sizeof *e);
}

#define REFUSE(...) return error_set(err, ARKE_ERR_ARGUMENT, "tensor map", __VA_ARGS__)

static arke_status check_address(uint64_t address, arke_error *err) {
  if (address % 16 != 0)
    REFUSE("the tensor's address 0x%llx is not a multiple of 16", (unsigned long long)address);
  return ARKE_OK;
}

static arke_status check(const device_tensormap_desc *d, arke_error *err) {
  int bits = d->type < DTYPE_COUNT ? dtype_bits(d->type) : 0;
  if (bits < 8) REFUSE("elements must have 8, 16, 32 or 64 bits");
  uint64_t element = (uint64_t)bits / 8;
  if (d->rank < 1 || d->rank > 5) REFUSE("rank %d is not in 1..5", d->rank);
  if (d->address == 0) REFUSE("the tensor's address is null");
  TRY(check_address(d->address, err));
  for (int i = 0; i < d->rank; i++) {
    if (d->dim[i] < 1 || d->dim[i] > 1ull << 32)
      REFUSE("dimension %d has %llu elements, not 1..2^32", i, (unsigned long long)d->dim[i]);
    if (d->box[i] < 1 || d->box[i] > 256) REFUSE("box dimension %d is %u, not in 1..256", i, d->box[i]);
    if (i > 0 && (d->stride_bytes[i] % 16 != 0 || d->stride_bytes[i] >= 1ull << 40))
      REFUSE("stride %d of %llu bytes is not a multiple of 16 below 2^40", i,
             (unsigned long long)d->stride_bytes[i]);
  }
  if (d->box[0] * element % 16 != 0)
    REFUSE("the box's inner dimension has %llu bytes, not a multiple of 16",
           (unsigned long long)(d->box[0] * element));
  if (d->swizzle < 0 || d->swizzle > 3)
    REFUSE("swizzle %d is not 0 (none), 1 (32B), 2 (64B) or 3 (128B)", d->swizzle);
  if (d->swizzle > 0 && d->box[0] * element > 16ull << d->swizzle)
    REFUSE("the box's inner dimension has %llu bytes, more than the swizzle's %d",
           (unsigned long long)(d->box[0] * element), 16 << d->swizzle);
  if (d->l2_promotion < 0 || d->l2_promotion > 3) REFUSE("l2 promotion %d is not in 0..3", d->l2_promotion);
  return ARKE_OK;
}

arke_status emu_tensormap_encode(const device_tensormap_desc *d, device_tensormap *map, arke_error *err) {
  if (d == NULL || map == NULL) REFUSE("no description or no place for the map");
  TRY(check(d, err));
  encoded e;
  memset(&e, 0, sizeof e);
  e.mark = MAP_MARK;
  e.address = d->address;
  e.type = (uint8_t)d->type;
  e.rank = (uint8_t)d->rank;
  e.swizzle = (uint8_t)d->swizzle;
  e.l2_promotion = (uint8_t)d->l2_promotion;
  for (int i = 0; i < 5; i++) {
    e.dim[i] = i < d->rank ? d->dim[i] : 1;
    e.box[i] = i < d->rank ? (uint16_t)d->box[i] : 1;
    if (i > 0) e.stride_bytes[i - 1] = i < d->rank ? d->stride_bytes[i] : 0;
  }
  seal(&e, map);
  return ARKE_OK;
}

static bool open_map(const void *opaque, encoded *e) {
  memcpy(e, opaque, sizeof *e);
  return e->mark == MAP_MARK && e->checksum == checksum(e);
}

arke_status emu_tensormap_set_address(device_tensormap *map, uint64_t address, arke_error *err) {
  encoded e;
  if (map == NULL || !open_map(map, &e)) REFUSE("not a tensor map");
  if (address == 0) REFUSE("the tensor's address is null");
  TRY(check_address(address, err));
  e.address = address;
  seal(&e, map);
  return ARKE_OK;
}

bool emu_tensormap_decode(const void *opaque, emu_tensormap *t) {
  encoded e;
  if (!open_map(opaque, &e)) return false;
  memset(t, 0, sizeof *t);
  t->type = (dtype)e.type;
  t->rank = e.rank;
  t->element_bytes = (uint32_t)dtype_bits(t->type) / 8;
  t->address = e.address;
  t->swizzle = e.swizzle;
  t->rows = 1;
  for (int i = 0; i < 5; i++) {
    t->dim[i] = e.dim[i];
    t->box[i] = e.box[i];
    t->stride_bytes[i] = i == 0 ? t->element_bytes : e.stride_bytes[i - 1];
    if (i > 0) t->rows *= t->box[i];
  }
  t->row_bytes = t->box[0] * t->element_bytes;
  t->pitch_bytes = t->swizzle == 0 ? t->row_bytes : 16u << t->swizzle;
  t->box_bytes = t->row_bytes * t->rows;
  return true;
}
