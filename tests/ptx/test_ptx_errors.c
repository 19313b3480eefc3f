/* Texts that must be refused, each with its place and what is said about it. */
#include <stdio.h>
#include <string.h>

#include "emulator/ptx_program.h"
#include "tests/ptx/ptx_suites.h"

#define HEAD ".version 8.6\n.target sm_90a\n.address_size 64\n"

/* Whole texts. */
static const struct {
  const char *text, *message;
  arke_status status;
} TEXTS[] = {
    {"", "line 1:1: a PTX text starts with .version", ARKE_ERR_SYNTAX},
    {"int main", "line 1:1: a PTX text starts with .version", ARKE_ERR_SYNTAX},
    {".version 8\n", "line 1:10: a version such as 8.6", ARKE_ERR_SYNTAX},
    {".version 8.6\n.target gfx90\n", "line 2:9: a target such as sm_90a", ARKE_ERR_SYNTAX},
    {".version 8.6\n.target sm_90a\n.address_size 32\n", "line 3:15: .address_size from 64 to 64",
     ARKE_ERR_SYNTAX},
    {".version 8.6\n.target sm_90a\n.entry k", "line 3:1: .address_size 64 is expected", ARKE_ERR_SYNTAX},
    {HEAD "hello", "line 4:1: 'hello' is not expected at module level", ARKE_ERR_SYNTAX},
    {HEAD ".func f() { ret; }", "line 4:1: the emulator runs kernels only", ARKE_ERR_UNSUPPORTED},
    {HEAD ".shared .b8 x[];", "line 4:13: 'x' has no size", ARKE_ERR_INVALID},
    {HEAD ".shared .b8 x[4][];", "line 4:13: 'x' has no size", ARKE_ERR_INVALID},
    {HEAD ".extern .shared .b8 x[][4];", "line 4:24: only a single dimension can be open", ARKE_ERR_SYNTAX},
    {HEAD ".shared .b8 x[99999999999];", "line 4:15: a number of elements from 0", ARKE_ERR_SYNTAX},
    {HEAD ".shared .b64 x[4294967296][1024];", "line 4:14: 'x' is too large", ARKE_ERR_INVALID},
    {HEAD ".shared .align 3 .b8 x[4];", "line 4:18: an alignment must be a power of two", ARKE_ERR_INVALID},
    {HEAD ".shared .b8 x[4]; .shared .b8 x[4];", "line 4:31: 'x' is already declared", ARKE_ERR_INVALID},
    {HEAD ".global .b8 x[2] = {1, 2, 3};", "line 4:27: 'x' has more initial values", ARKE_ERR_INVALID},
    {HEAD ".shared .b8 x[2] = {1, 2};", "line 4:13: only .global and .const", ARKE_ERR_INVALID},
    {HEAD ".global .u64 p = x;", "line 4:18: only numbers of the variable's size", ARKE_ERR_UNSUPPORTED},
    {HEAD ".global .q8 x;", "line 4:9: a type such as .b32", ARKE_ERR_SYNTAX},
    {HEAD "/* never closed", "line 4:1: '/*' is not expected", ARKE_ERR_SYNTAX},
    {HEAD ".entry k() { ret; }\n.entry k() { ret; }", "line 5:8: kernel 'k' is defined twice",
     ARKE_ERR_INVALID},
    {HEAD ".entry k(.param .u32 a, .param .u32 a) { ret; }", "line 4:37: parameter 'a' is declared twice",
     ARKE_ERR_INVALID},
    {HEAD ".entry k(.reg .u32 a) { ret; }", "line 4:10: '.reg' is not expected among parameters",
     ARKE_ERR_SYNTAX},
    {HEAD ".entry k(.param .b8 a[40000]) { ret; }", "line 4:21: the parameters take more than",
     ARKE_ERR_INVALID},
    {HEAD ".entry k(.param .u32 a { ret; }", "line 4:24: ')' is expected after the parameters",
     ARKE_ERR_SYNTAX},
    {HEAD ".entry k() .reqntid 1, 2, 3, 4 { ret; }", "line 4:28: ',' is not expected after three dimensions",
     ARKE_ERR_SYNTAX},
    {HEAD ".entry k() .fast { ret; }", "line 4:12: unknown kernel directive '.fast'", ARKE_ERR_UNSUPPORTED},
    {HEAD ".entry k();", "line 4:11: the body '{' of kernel 'k' is expected", ARKE_ERR_SYNTAX},
    {HEAD ".entry k() {\n ret;", "line 4:12: this '{' is never closed", ARKE_ERR_SYNTAX},
    {HEAD ".entry k() {\n ret; } }", "line 5:9: '}' is not expected at module level", ARKE_ERR_SYNTAX},
};

/* Statements at line 10 of a kernel with the registers below. */
static const struct {
  const char *statement, *message;
  arke_status status;
} STATEMENTS[] = {
    {"foo.bar %r1, %r2;", "line 10:1: unknown instruction 'foo.bar'", ARKE_ERR_UNSUPPORTED},
    {"add.f99 %r1, %r2, %r3;", "line 10:1: unknown instruction 'add.f99': 'add' has no such form with '.f99'",
     ARKE_ERR_UNSUPPORTED},
    {"add %r1, %r2, %r3;", "line 10:1: unknown instruction 'add': 'add' needs more modifiers",
     ARKE_ERR_UNSUPPORTED},
    {"add.rn.s32 %r1, %r2, %r3;", "unknown instruction 'add.rn.s32': 'add' has no such form with '.s32'",
     ARKE_ERR_UNSUPPORTED},
    {"add.f32.rn %r1, %r2, %r3;", "'add' has no such form with '.rn'", ARKE_ERR_UNSUPPORTED},
    {"mul.u32 %r1, %r2, %r3;", "'mul' has no such form with '.u32'", ARKE_ERR_UNSUPPORTED},
    {"  call foo;", "line 10:3: the emulator cannot run instruction 'call'", ARKE_ERR_UNSUPPORTED},
    {"tex.2d.v4.f32.f32 {%r1}, [%d1];", "cannot run instruction 'tex.2d.v4.f32.f32'", ARKE_ERR_UNSUPPORTED},
    {"add.s32 %r1, %r2;", "line 10:1: in 'add.s32', 'add.s32' lacks an operand", ARKE_ERR_INVALID},
    {"add.s32 %r1, %r2, %r3, %r4;", "line 10:24: in 'add.s32', '%r4' is an operand too many",
     ARKE_ERR_INVALID},
    {"add.s32 %r1, %r2, %r99;", "line 10:19: in 'add.s32', '%r99' is not declared", ARKE_ERR_INVALID},
    {"add.s32 %r1, %r2, %r01;", "line 10:19: in 'add.s32', '%r01' is not declared", ARKE_ERR_INVALID},
    {"add.s32 %r1, %r2, x;", "line 10:19: in 'add.s32', 'x' is not declared", ARKE_ERR_INVALID},
    {"add.s32 %d1, %r2, %r3;", "line 10:9: in 'add.s32', '%d1' is wider than the instruction's type",
     ARKE_ERR_INVALID},
    {"add.s64 %d1, %d2, %r3;", "line 10:19: in 'add.s64', '%r3' is narrower than the instruction's type",
     ARKE_ERR_INVALID},
    {"add.s32 %p1, %r2, %r3;", "line 10:9: in 'add.s32', '%p1' is a predicate", ARKE_ERR_INVALID},
    {"add.s32 5, %r2, %r3;", "line 10:9: in 'add.s32', '5' is a constant and cannot be written",
     ARKE_ERR_INVALID},
    {"add.s32 %r1, _, %r3;", "line 10:14: in 'add.s32', '_' can only be written to", ARKE_ERR_INVALID},
    {"add.s32 %r1, %tid.x, 1;", "'%tid' is a special register, which only mov and cvt can read",
     ARKE_ERR_INVALID},
    {"add.s32 %r1, %tid.w, 1;", "line 10:14: unknown special register '%tid.w'", ARKE_ERR_INVALID},
    {"add.s32 %r1, %r2, smem;", "'smem' is an address, which must be moved", ARKE_ERR_INVALID},
    {"add.s32 %r1, %r2, 4294967296;", "line 10:19: in 'add.s32', '4294967296' does not fit",
     ARKE_ERR_INVALID},
    {"add.s32 %r1, %r2, -2147483649;", "line 10:19: in 'add.s32', '-' does not fit", ARKE_ERR_INVALID},
    {"add.s16 %h1, %h2, 65536;", "'65536' does not fit", ARKE_ERR_INVALID},
    {"mov.b64 %d1, 18446744073709551616;",
     "line 10:14: an operand is expected here, found '18446744073709551616'", ARKE_ERR_SYNTAX},
    {"add.f32 %r1, %r2, 1;", "'1' is an integer where an .f32 is expected", ARKE_ERR_INVALID},
    {"add.f64 %d1, %d2, 1;", "'1' is an integer where an .f64 is expected", ARKE_ERR_INVALID},
    {"add.f32 %r1, %r2, 0f3F80;", "an operand is expected here, found '0f3F80'", ARKE_ERR_SYNTAX},
    {"add.f32 %r1, %r2, -0f3F800000;", "line 10:19: a hexadecimal float carries its sign", ARKE_ERR_SYNTAX},
    {"add.f16 %h1, %h2, 0x3C00;", "is a constant of a type that has none", ARKE_ERR_INVALID},
    {"mov.b16 %h1, 0f3F800000;", "is a 32-bit constant where another size is expected", ARKE_ERR_INVALID},
    {"mov.b32 %r1, 0d3FF0000000000000;", "is a 64-bit constant where another size is expected",
     ARKE_ERR_INVALID},
    {"mov.b16 %h1, smem;", "'smem' is an address, which has 32 or 64 bits", ARKE_ERR_INVALID},
    {"mov.b32 %r1, {%h1, %r2};", "the elements do not add up", ARKE_ERR_INVALID},
    {"mov.b64 %d1, {%r1, %r2, %r3};", "a vector of 2 or 4 elements is expected", ARKE_ERR_INVALID},
    {"mov.b32 %r1, {%h1, 65536};", "a constant does not fit its share", ARKE_ERR_INVALID},
    {"add.s32 %r1, {%r2, %r3}, 1;", "'{' stands where a register or a constant is expected",
     ARKE_ERR_INVALID},
    {"add.s32 %r1, %r2, [%d1];", "'[' stands where a register or a constant is expected", ARKE_ERR_INVALID},
    {"add.s32 %r1, %r2, !%p1;", "'!' is a predicate where a data register is expected", ARKE_ERR_INVALID},
    {"add.s32 %r1, %r2, !%r1;", "line 10:19: '!' stands before predicates only", ARKE_ERR_SYNTAX},
    {"add.s32 %r1|%r2, %r3, %r4;", "stands after a '|' that this instruction does not take",
     ARKE_ERR_INVALID},
    {"add.s32 %r1, %r2, ;", "line 10:19: an operand is expected before ';'", ARKE_ERR_SYNTAX},
    {"add.s32 %r1 %r2, %r3;", "line 10:13: ';' is expected after the operands, found '%r2'", ARKE_ERR_SYNTAX},
    {"add.s32 %r1, %r2, %r3", "line 11:1: ';' is expected after the operands, found '}'", ARKE_ERR_SYNTAX},
    {"add.s32 %r1, %r2+4, %r3;", "has an offset, which only tcgen05 descriptors may have", ARKE_ERR_INVALID},
    {"setp.lo.s32 %p1, %r1, %r2;", "this comparison does not exist for this type", ARKE_ERR_UNSUPPORTED},
    {"setp.lt.b32 %p1, %r1, %r2;", "this comparison does not exist for this type", ARKE_ERR_UNSUPPORTED},
    {"setp.num.u32 %p1, %r1, %r2;", "this comparison does not exist for this type", ARKE_ERR_UNSUPPORTED},
    {"setp.eq.s32 %r1, %r1, %r2;", "'%r1' stands where a predicate is expected", ARKE_ERR_INVALID},
    {"setp.eq.s32 !%p1, %r1, %r2;", "is negated and cannot be written to", ARKE_ERR_INVALID},
    {"shfl.sync.bfly.b32 %r1|%r2, %r1, 1, 31, -1;", "'%r2' stands where a predicate is expected",
     ARKE_ERR_INVALID},
    {"elect.sync %r1, -1;", "stands where '|' and a second destination are expected", ARKE_ERR_INVALID},
    {"cvt.f32.f64 %r1, %d1;", "a narrowing conversion needs a rounding mode", ARKE_ERR_UNSUPPORTED},
    {"cvt.rn.f64.f32 %d1, %r1;", "a widening conversion takes no rounding mode", ARKE_ERR_UNSUPPORTED},
    {"cvt.s32.f32 %r1, %r2;", "unknown instruction 'cvt.s32.f32'", ARKE_ERR_UNSUPPORTED},
    {"cvt.rn.e4m3x2.f32 %h1, %r1, %r2;", "unknown instruction 'cvt.rn.e4m3x2.f32'", ARKE_ERR_UNSUPPORTED},
    {"lop3.b32 %r1, %r2, %r3, %r4, 256;", "the table is a byte", ARKE_ERR_INVALID},
    {"ld.global.b32 %r1, %d1;", "'%d1' stands where an address in [ ] is expected", ARKE_ERR_INVALID},
    {"ld.global.b32 %r1, [%h1];", "line 10:21: '%h1' has 16 bits: an address has 32 or 64", ARKE_ERR_INVALID},
    {"ld.global.b32 %r1, [%p1];", "line 10:21: '%p1' is not an address", ARKE_ERR_INVALID},
    {"ld.global.b32 %r1, [%d1-4];", "']' is expected after an address, found '-'", ARKE_ERR_SYNTAX},
    {"ld.global.b32 %r1, [nowhere];", "line 10:21: 'nowhere' is not declared", ARKE_ERR_INVALID},
    {"ld.global.b32 %r1, [smem];", "line 10:20: in 'ld.global.b32', the symbol lies in another state space",
     ARKE_ERR_INVALID},
    {"ld.param.b32 %r1, [n+4];", "the access reaches beyond the parameter", ARKE_ERR_INVALID},
    {"ld.param.b64 %d1, [n];", "the access reaches beyond the parameter", ARKE_ERR_INVALID},
    {"ld.shared.b32 %r1, [n];", "a parameter is read with ld.param", ARKE_ERR_INVALID},
    {"st.param.b32 [n], %r1;", "unknown instruction 'st.param.b32'", ARKE_ERR_UNSUPPORTED},
    {"ld.shared.v4.b64 {%d1, %d2, %d3, %d4}, [%r1];", "at most 16 bytes", ARKE_ERR_UNSUPPORTED},
    {"ld.global.v8.b32 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%d1];", "from sm_100 on", ARKE_ERR_UNSUPPORTED},
    {"ld.global.v2.b32 {%r1, %r2, %r3}, [%d1];", "does not list as many registers as", ARKE_ERR_INVALID},
    {"ld.global.v2.b32 %r1, [%d1];", "'%r1' stands where registers in { } are expected", ARKE_ERR_INVALID},
    {"ld.acquire.global.b32 %r1, [%d1];", "unknown instruction 'ld.acquire.global.b32'",
     ARKE_ERR_UNSUPPORTED},
    {"atom.global.add.b32 %r1, [%d1], 1;", "this operation does not exist for this type",
     ARKE_ERR_UNSUPPORTED},
    {"atom.global.inc.u64 %d1, [%d1], 1;", "this operation does not exist for this type",
     ARKE_ERR_UNSUPPORTED},
    {"atom.global.cas.b32 %r1, [%d1], 1;", "lacks an operand", ARKE_ERR_INVALID},
    {"cp.async.cg.shared.global [%r1], [%d1], 8;", "cp.async.cg copies 16 bytes", ARKE_ERR_INVALID},
    {"cp.async.ca.shared.global [%r1], [%d1], 3;", "the size is 4, 8 or 16 bytes", ARKE_ERR_INVALID},
    {"cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%d1, {%r1}], [%r2];",
     "2 coordinates are expected, there are 1", ARKE_ERR_INVALID},
    {"cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%d1], [%r2];",
     "'[' stands where [tensor map, {coordinates}] is expected", ARKE_ERR_INVALID},
    {"cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], "
     "[%d1, {%r1}], [%r2];",
     "lacks an operand", ARKE_ERR_INVALID},
    {"cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], "
     "[%d1, {%r1}], [%r2], %h1;",
     "multicast needs a destination in .shared::cluster", ARKE_ERR_UNSUPPORTED},
    {"cp.async.bulk.wait_group %r1;", "'%r1' stands where a constant is expected", ARKE_ERR_INVALID},
    {"bar.sync 16;", "barriers are numbered 0 to 15", ARKE_ERR_INVALID},
    {"bar.sync 1, 100;", "the number of threads is a multiple of 32", ARKE_ERR_INVALID},
    {"bar.arrive 1;", "lacks an operand", ARKE_ERR_INVALID},
    {"bar.sync.aligned 0;", "bar is always aligned", ARKE_ERR_UNSUPPORTED},
    {"setmaxnreg.inc.sync.aligned.u32 100;", "the number is a multiple of 8 from 24 to 256",
     ARKE_ERR_INVALID},
    {"mbarrier.arrive.release.cluster.shared::cluster.b64 %d1, [%r1];", "the destination is _",
     ARKE_ERR_INVALID},
    {"mbarrier.try_wait.parity.acquire.shared.b64 %p1, [%r1], 0;", "go together", ARKE_ERR_UNSUPPORTED},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r0,%r1,%r2}, %d1, %d2, 1, 1, 1, 0, 0;",
     "4 registers are expected in { }, there are 3", ARKE_ERR_INVALID},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r0,%r1,%r2,%r3}, %d1, %d2, 1, 2, 1, 0, 0;",
     "scale-a and scale-b are 1 or -1", ARKE_ERR_INVALID},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r0,%r1,%r2,%r3}, %d1, %d2, 1, 1, 1, 0, 2;",
     "trans-a and trans-b are 0 or 1", ARKE_ERR_INVALID},
    {"wgmma.mma_async.sync.aligned.m64n8k8.f32.bf16.bf16 {%r0,%r1,%r2,%r3}, %d1, %d2, 1, 1, 1, 0, 0;",
     "32 bytes of K", ARKE_ERR_UNSUPPORTED},
    {"wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {%r0,%r1,%r2,%r3}, %d1, %d2, 1, 1, 1, 0, 0;",
     "N must be a multiple of 8", ARKE_ERR_UNSUPPORTED},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.f16 {%r0,%r1,%r2,%r3}, %d1, %d2, 1, 1, 1, 0, 0;",
     "A and B must have the same type", ARKE_ERR_UNSUPPORTED},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16 {%r0,%r1}, %d1, %d2, 1, 1, 1, 0, 0;",
     "bf16 and tf32 accumulate in f32", ARKE_ERR_UNSUPPORTED},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r0,%r1,%r2,%r3}, {%r0,%r1}, {%r0,%r1}, "
     "{%r0,%r1,%r2,%r3};",
     "4 registers are expected in { }, there are 2", ARKE_ERR_INVALID},
    {"mma.sync.aligned.m16n8k16.col.col.f32.bf16.bf16.f32 {%r0,%r1,%r2,%r3}, {%r0,%r1,%r2,%r3}, {%r0,%r1}, "
     "{%r0,%r1,%r2,%r3};",
     "the layouts must be .row.col", ARKE_ERR_UNSUPPORTED},
    {"mma.sync.aligned.m16n16k16.row.col.f32.bf16.bf16.f32 {%r0}, {%r0}, {%r0}, {%r0};",
     "this shape does not exist", ARKE_ERR_UNSUPPORTED},
    {"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1}, [%r2];", "4 registers are expected",
     ARKE_ERR_INVALID},
    {"ldmatrix.sync.aligned.m8n8.x8.shared.b16 {%r0}, [%r2];", "x1, x2 or x4", ARKE_ERR_UNSUPPORTED},
    {"tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0}, [%r1];", "2 registers are expected", ARKE_ERR_INVALID},
    {"tcgen05.mma.cta_group::1.kind::mxf4.collector::a::discard [%r0], %d1, %d2, %r1, %p1;",
     "the mx kinds, and only they", ARKE_ERR_UNSUPPORTED},
    {"bra nowhere;", "line 10:5: label 'nowhere' is not defined", ARKE_ERR_INVALID},
    {"bra %r1;", "'%r1' stands where a label is expected", ARKE_ERR_INVALID},
    {"{ inner: } bra inner;", "line 10:16: label 'inner' is not defined", ARKE_ERR_INVALID},
    {"twice: twice:", "line 10:8: 'twice' is already declared", ARKE_ERR_INVALID},
    {"brx.idx %r1, here; here:", "brx.idx takes a .branchtargets list", ARKE_ERR_INVALID},
    {"list: .branchtargets here; here: bra list;", "which only brx.idx takes", ARKE_ERR_INVALID},
    {"list: .branchtargets gone; brx.idx %r1, list;", "label 'gone' is not defined", ARKE_ERR_INVALID},
    {"@%r1 ret;", "line 10:2: '%r1' is no predicate", ARKE_ERR_INVALID},
    {"@x ret;", "line 10:2: 'x' is not a declared register", ARKE_ERR_INVALID},
    {".reg .b32 %r<3>;", "line 10:11: '%r' is already declared", ARKE_ERR_INVALID},
    {"{ .reg .b32 a, a; }", "line 10:16: 'a' is already declared", ARKE_ERR_INVALID},
    {".reg .v2 .f32 v;", "line 10:6: '.v2' is no register type", ARKE_ERR_UNSUPPORTED},
    {".reg .b32 q<0>;", "line 10:13: a number of registers from 1", ARKE_ERR_SYNTAX},
    {".reg .b32 q<1048577>;", "line 10:13: a number of registers from 1", ARKE_ERR_SYNTAX},
    {".reg .b128 q<1048576>;", "line 10:12: the kernel declares more than", ARKE_ERR_INVALID},
    {"{ .reg .b32 q; } mov.b32 q, 1;", "line 10:26: in 'mov.b32', 'q' is not declared", ARKE_ERR_INVALID},
    {".param .b32 x;", "line 10:1: an instruction is expected here, found '.param'", ARKE_ERR_SYNTAX},
    {"\"text\";", "an instruction is expected here, found 'text'", ARKE_ERR_SYNTAX},
    {"add.s32 %r1, %r2, #;", "an operand is expected here, found '#'", ARKE_ERR_SYNTAX},
    {"st.global.v2.b32 [%d1], {{%r1}, {%r2}};", "'{' stands where a register or a constant is expected",
     ARKE_ERR_INVALID},
    {"st.global.v2.b32 [%d1], {{{%r1}}, %r2};", "operands are nested too deeply", ARKE_ERR_SYNTAX},
};

static void refuse(const char *text, const char *message, arke_status expected) {
  ptx_module *m = (ptx_module *)&m;
  arke_error err = ARKE_ERROR_INIT;
  arke_status status = ptx_parse(text, strlen(text), &m, &err);
  ck_assert_msg(status == expected, "%s: status %d, expected %d: %s", text, status, expected, err.text);
  ck_assert_msg(strstr(err.text, message) != NULL, "%s\nsays: %s\nexpected: %s", text, err.text, message);
  ck_assert_ptr_null(m);
  ck_assert_str_eq(err.stage, "ptx");
}

static void text_is_refused(int row) {
  refuse(TEXTS[row].text, TEXTS[row].message, TEXTS[row].status);
}

START_TEST(texts_are_refused) {
  for (int row = 0; row < (int)COUNT_OF(TEXTS); row++) text_is_refused(row);
}
END_TEST

static void statement_is_refused(int row) {
  char text[2048];
  int n = snprintf(text, sizeof text,
                   HEAD ".shared .align 8 .b8 smem[64];\n.entry k(\n.param .u32 n) {\n.reg .pred %%p<4>;\n"
                        ".reg .b16 %%h<4>; .reg .b32 %%r<8>;\n.reg .b64 %%d<8>;\n%s\n}\n",
                   STATEMENTS[row].statement);
  ck_assert_int_lt(n, (int)sizeof text);
  refuse(text, STATEMENTS[row].message, STATEMENTS[row].status);
}

START_TEST(statements_are_refused) {
  for (int row = 0; row < (int)COUNT_OF(STATEMENTS); row++) statement_is_refused(row);
}
END_TEST

/* Instructions and the targets that have them; NULL: accepted. */
static const struct {
  const char *target, *statement, *message;
} TARGETS[] = {
    {"sm_80", "fma.rn.bf16x2 %r1, %r2, %r3, %r4;", NULL},
    {"sm_80", "add.rn.bf16x2 %r1, %r2, %r3;", "'add.rn.bf16x2' exists from sm_90 on, the target is sm_80"},
    {"sm_90", "add.rn.bf16x2 %r1, %r2, %r3;", NULL},
    {"sm_80", "cvt.f32.bf16 %r1, %h1;", NULL},
    {"sm_80", "cvt.rn.bf16.s32 %h1, %r1;", "from sm_90 on"},
    {"sm_80", "cvt.rn.satfinite.e4m3x2.f32 %h1, %r1, %r2;", "from sm_89 on"},
    {"sm_89", "cvt.rn.satfinite.e4m3x2.f32 %h1, %r1, %r2;", NULL},
    {"sm_90a", "cvt.rn.satfinite.e2m3x2.f32 %h1, %r1, %r2;", "from sm_100a on"},
    {"sm_100", "cvt.rn.satfinite.e2m3x2.f32 %h1, %r1, %r2;", "from sm_100a on, the target is sm_100"},
    {"sm_100f", "cvt.rn.satfinite.e2m3x2.f32 %h1, %r1, %r2;", NULL},
    {"sm_80", "cp.async.cg.shared.global [%r1], [%d1], 16;", NULL},
    {"sm_80", "cp.async.bulk.commit_group;", "from sm_90 on"},
    {"sm_80", "fence.acq_rel.gpu;", NULL},
    {"sm_80", "fence.acq_rel.cluster;", "from sm_90 on"},
    {"sm_80", "ld.shared::cluster.b32 %r1, [%r2];", "from sm_90 on"},
    {"sm_80", "mbarrier.arrive.shared.b64 %d1, [%r1];", NULL},
    {"sm_80", "mbarrier.arrive.shared.b64 %d1, [%r1], 2;", "from sm_90 on"},
    {"sm_80", "mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;", "from sm_90 on"},
    {"sm_80", "elect.sync %r1|%p1, -1;", "from sm_90 on"},
    {"sm_80", "mov.u32 %r1, %cluster_ctarank;",
     "'%cluster_ctarank' exists from sm_90 on, the target is sm_80"},
    {"sm_80", "mov.u32 %r1, %clusterid.x;", "'%clusterid' exists from sm_90 on, the target is sm_80"},
    {"sm_90", "mov.u32 %r1, %clusterid.x;", NULL},
    {"sm_80", "mov.u32 %r1, %total_smem_size;", NULL},
    {"sm_90", "setmaxnreg.inc.sync.aligned.u32 232;", "from sm_90a on, the target is sm_90"},
    {"sm_90", "wgmma.fence.sync.aligned;", "exists on sm_90a only, the target is sm_90"},
    {"sm_100a", "wgmma.fence.sync.aligned;", "exists on sm_90a only, the target is sm_100a"},
    {"sm_90a", "tcgen05.wait::ld.sync.aligned;", "from sm_100a on"},
    {"sm_120a", "tcgen05.wait::ld.sync.aligned;", "the target is sm_120a"},
    {"sm_90a", "add.rn.f32x2 %d1, %d2, %d3;", "from sm_100 on"},
    {"sm_120", "add.rn.f32x2 %d1, %d2, %d3;", NULL},
    {"sm_90a", "redux.sync.max.f32 %r1, %r2, -1;", "from sm_100a on"},
    {"sm_90a", "max.f32 %r1, %r2, %r3, %r4;", "from sm_100 on"},
    {"sm_90a", "ld.global.v4.b64 {%d1, %d2, %d3, %d4}, [%d5];", "from sm_100 on"},
    {"sm_80",
     "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%r0,%r1,%r2,%r3}, {%r0,%r1,%r2,%r3}, "
     "{%r0,%r1}, {%r0,%r1,%r2,%r3};",
     "from sm_89 on"},
};

static void check_target(int row) {
  char text[2048];
  int n = snprintf(
      text, sizeof text,
      ".version 8.8\n.target %s\n.address_size 64\n.entry k() {\n.reg .pred %%p<4>; .reg .b16 %%h<4>;"
      " .reg .b32 %%r<8>; .reg .b64 %%d<8>;\n%s\n}\n",
      TARGETS[row].target, TARGETS[row].statement);
  ck_assert_int_lt(n, (int)sizeof text);
  if (TARGETS[row].message != NULL) {
    refuse(text, TARGETS[row].message, ARKE_ERR_UNSUPPORTED);
    return;
  }
  ptx_module *m = NULL;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_msg(ptx_parse(text, strlen(text), &m, &err) == ARKE_OK, "%s: %s", TARGETS[row].target, err.text);
  ptx_module_free(m);
}

START_TEST(targets_have_what_they_have) {
  for (int row = 0; row < (int)COUNT_OF(TARGETS); row++) check_target(row);
}
END_TEST

START_TEST(directives_of_clusters_need_a_target_with_them) {
  static const char *const directives[] = {".reqnctapercluster 2", ".maxclusterrank 8", ".explicitcluster"};
  for (size_t i = 0; i < COUNT_OF(directives); i++) {
    char text[256];
    static const char format[] = ".version 8.8\n.target %s\n.address_size 64\n.entry k() %s {\nret;\n}\n";
    snprintf(text, sizeof text, format, "sm_89", directives[i]);
    refuse(text, "exists from sm_90 on, the target is sm_89", ARKE_ERR_UNSUPPORTED);
    snprintf(text, sizeof text, format, "sm_90", directives[i]);
    ptx_module *m = NULL;
    arke_error err = ARKE_ERROR_INIT;
    ck_assert_msg(ptx_parse(text, strlen(text), &m, &err) == ARKE_OK, "%s", err.text);
    ptx_module_free(m);
  }
}
END_TEST

START_TEST(deep_nesting_is_refused) {
  char text[1024] = HEAD ".entry k() ";
  for (int k = 0; k < 70; k++) strcat(text, "{");
  refuse(text, "more than 64 nested { }", ARKE_ERR_INVALID);
}
END_TEST

START_TEST(long_lists_are_refused) {
  static char text[8192];
  strcpy(text, HEAD ".entry k() { .reg .b32 a; add.s32 ");
  for (int k = 0; k < 40; k++) strcat(text, "a, ");
  refuse(text, "more than 16 operands", ARKE_ERR_SYNTAX);
  strcpy(text, HEAD ".entry k() { .reg .b32 a; mov.b32 a, {");
  for (int k = 0; k < 300; k++) strcat(text, "a, ");
  refuse(text, "more than 256 elements in {…}", ARKE_ERR_INVALID);
  strcpy(text, HEAD ".entry k() { add");
  for (int k = 0; k < 100; k++) strcat(text, ".rn");
  refuse(text, "it has more than 24 parts", ARKE_ERR_SYNTAX);
}
END_TEST

Suite *ptx_errors_suite(void) {
  Suite *s = suite_create("ptx_errors");
  TCase *t = tcase_create("refused");
  tcase_add_test(t, texts_are_refused);
  tcase_add_test(t, statements_are_refused);
  tcase_add_test(t, targets_have_what_they_have);
  tcase_add_test(t, directives_of_clusters_need_a_target_with_them);
  tcase_add_test(t, deep_nesting_is_refused);
  tcase_add_test(t, long_lists_are_refused);
  suite_add_tcase(s, t);
  return s;
}
