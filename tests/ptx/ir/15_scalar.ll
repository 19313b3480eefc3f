; The ordinary code of LLVM: all integer widths, division, bit tricks, conversions, selects, switch, loops, local memory, f32 and f64.
target triple = "nvptx64-nvidia-cuda"
@lut = internal addrspace(4) constant [4 x i32] [i32 1, i32 -2, i32 3, i32 -4], align 4
@count = internal addrspace(1) global i64 0, align 8
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.laneid()
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.ctlz.i32(i32, i1)
declare i64 @llvm.cttz.i64(i64, i1)
declare i32 @llvm.bitreverse.i32(i32)
declare i32 @llvm.bswap.i32(i32)
declare i32 @llvm.fshl.i32(i32, i32, i32)
declare i64 @llvm.fshr.i64(i64, i64, i64)
declare i32 @llvm.smax.i32(i32, i32)
declare i64 @llvm.umin.i64(i64, i64)
declare i32 @llvm.abs.i32(i32, i1)
declare i32 @llvm.sadd.sat.i32(i32, i32)
declare float @llvm.floor.f32(float)
declare float @llvm.rint.f32(float)
declare float @llvm.trunc.f32(float)
declare float @llvm.ceil.f32(float)
declare float @llvm.round.f32(float)
declare float @llvm.copysign.f32(float, float)
declare float @llvm.fabs.f32(float)
declare float @llvm.sqrt.f32(float)
declare double @llvm.fma.f64(double, double, double)
declare double @llvm.sqrt.f64(double)
declare double @llvm.maxnum.f64(double, double)
declare i32 @llvm.fptosi.sat.i32.f32(float)
declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1)
declare i32 @llvm.nvvm.match.any.sync.i32(i32, i32)
declare i1 @llvm.nvvm.vote.all.sync(i32, i1)
declare i32 @llvm.nvvm.shfl.sync.up.i32(i32, i32, i32, i32)
declare { i32, i1 } @llvm.nvvm.shfl.sync.down.i32p(i32, i32, i32, i32)
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare void @llvm.trap()

define ptx_kernel void @ints(ptr addrspace(1) %out, i32 %a, i32 %b, i64 %c, i64 %d, i16 %e, i16 %f, i8 %g) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr i64, ptr addrspace(1) %out, i32 %t
  %x1 = sdiv i32 %a, %b
  %x2 = urem i32 %x1, 7
  %x3 = srem i32 %a, %b
  %x4 = udiv i64 %c, %d
  %x5 = srem i64 %c, %d
  %x6 = sdiv i16 %e, %f
  %y1 = call i32 @llvm.ctpop.i32(i32 %a)
  %y2 = call i32 @llvm.ctlz.i32(i32 %b, i1 false)
  %y3 = call i64 @llvm.cttz.i64(i64 %c, i1 false)
  %y4 = call i32 @llvm.bitreverse.i32(i32 %a)
  %y5 = call i32 @llvm.bswap.i32(i32 %a)
  %y6 = call i32 @llvm.fshl.i32(i32 %a, i32 %b, i32 %t)
  %y7 = call i64 @llvm.fshr.i64(i64 %c, i64 %d, i64 %c)
  %y8 = call i32 @llvm.smax.i32(i32 %a, i32 %b)
  %y9 = call i64 @llvm.umin.i64(i64 %c, i64 %d)
  %ya = call i32 @llvm.abs.i32(i32 %a, i1 false)
  %yb = call i32 @llvm.sadd.sat.i32(i32 %a, i32 %b)
  %z1 = ashr i32 %a, 3
  %z2 = lshr i64 %c, 17
  %z3 = and i32 %z1, 255
  %z4 = shl i16 %e, %f
  %g32 = sext i8 %g to i32
  %e64 = zext i16 %e to i64
  %m1 = mul i32 %a, %b
  %m2 = add i32 %m1, %t
  %w1 = sext i32 %a to i64
  %w2 = sext i32 %b to i64
  %w3 = mul i64 %w1, %w2
  %h1 = sext i64 %c to i128
  %h2 = sext i64 %d to i128
  %h3 = mul i128 %h1, %h2
  %h4 = lshr i128 %h3, 64
  %h5 = trunc i128 %h4 to i64
  %s1 = icmp slt i32 %a, %b
  %s2 = icmp ugt i64 %c, %d
  %s3 = and i1 %s1, %s2
  %s4 = select i1 %s3, i32 %x2, i32 %x3
  %s5 = xor i1 %s1, %s2
  %s6 = zext i1 %s5 to i64
  %i = and i32 %t, 3
  %lp = getelementptr [4 x i32], ptr addrspace(4) @lut, i32 0, i32 %i
  %lv = load i32, ptr addrspace(4) %lp
  %old = atomicrmw add ptr addrspace(1) @count, i64 %w3 syncscope("device") monotonic
  %r1 = add i32 %s4, %y1
  %r2 = add i32 %r1, %y2
  %r3 = add i32 %r2, %y4
  %r4 = add i32 %r3, %y5
  %r5 = add i32 %r4, %y6
  %r6 = add i32 %r5, %y8
  %r7 = add i32 %r6, %ya
  %r8 = add i32 %r7, %yb
  %r9 = add i32 %r8, %z3
  %ra = add i32 %r9, %g32
  %rb = add i32 %ra, %m2
  %rc = add i32 %rb, %lv
  %x6s = sext i16 %x6 to i64
  %z4s = sext i16 %z4 to i64
  %q = sext i32 %rc to i64
  %q1 = add i64 %q, %x4
  %q2 = add i64 %q1, %x5
  %q3 = add i64 %q2, %y3
  %q4 = add i64 %q3, %y7
  %q5 = add i64 %q4, %y9
  %q6 = add i64 %q5, %z2
  %q7 = add i64 %q6, %e64
  %q8 = add i64 %q7, %h5
  %q9 = add i64 %q8, %s6
  %qa = add i64 %q9, %old
  %qb = xor i64 %qa, %x6s
  %qc = or i64 %qb, %z4s
  store i64 %qc, ptr addrspace(1) %p
  ret void
}

define ptx_kernel void @floats(ptr addrspace(1) %out, float %a, float %b, double %c, double %d, i32 %n, i64 %m) {
  %f1 = call float @llvm.floor.f32(float %a)
  %f2 = call float @llvm.rint.f32(float %b)
  %f3 = call float @llvm.trunc.f32(float %a)
  %f4 = call float @llvm.ceil.f32(float %b)
  %f5 = call float @llvm.round.f32(float %a)
  %f6 = call float @llvm.copysign.f32(float %a, float %b)
  %f7 = call float @llvm.fabs.f32(float %b)
  %f8 = call float @llvm.sqrt.f32(float %a)
  %f9 = fneg float %a
  %fa = fdiv float %a, %b
  %fb = sitofp i32 %n to float
  %fc = uitofp i64 %m to float
  %fd = fptrunc double %c to float
  %i1 = fptosi float %a to i32
  %i2 = fptoui float %b to i64
  %i3 = call i32 @llvm.fptosi.sat.i32.f32(float %a)
  %d1 = call double @llvm.fma.f64(double %c, double %d, double %c)
  %d2 = call double @llvm.sqrt.f64(double %d)
  %d3 = fdiv double %c, %d
  %d4 = call double @llvm.maxnum.f64(double %c, double %d)
  %d5 = fpext float %a to double
  %d6 = fcmp olt double %c, %d
  %d7 = fcmp une float %a, %b
  %d8 = fcmp uno float %a, %b
  %e1 = select i1 %d6, float %a, float %b
  %e2 = select i1 %d7, float %f1, float %e1
  %e3 = select i1 %d8, float %f2, float %e2
  %s0 = fadd float %e3, %f3
  %s1 = fadd float %s0, %f4
  %s2 = fadd float %s1, %f5
  %s3 = fadd float %s2, %f6
  %s4 = fadd float %s3, %f7
  %s5 = fadd float %s4, %f8
  %s6 = fadd float %s5, %f9
  %s7 = fadd float %s6, %fa
  %s8 = fadd float %s7, %fb
  %s9 = fadd float %s8, %fc
  %sa = fadd float %s9, %fd
  %sb = fpext float %sa to double
  %sc = fadd double %sb, %d1
  %sd = fsub double %sc, %d2
  %se = fmul double %sd, %d3
  %sf = fadd double %se, %d4
  %sg = fadd double %sf, %d5
  %i4 = add i32 %i1, %i3
  %i5 = sext i32 %i4 to i64
  %i6 = add i64 %i5, %i2
  store double %sg, ptr addrspace(1) %out
  %o1 = getelementptr i64, ptr addrspace(1) %out, i32 1
  store i64 %i6, ptr addrspace(1) %o1
  %o2 = getelementptr i64, ptr addrspace(1) %out, i32 2
  store volatile i8 7, ptr addrspace(1) %o2
  ret void
}

define ptx_kernel void @control(ptr addrspace(1) %out, i32 %n, i32 %k) {
entry:
  %local = alloca [8 x i32], align 16
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.laneid()
  switch i32 %k, label %other [ i32 0, label %c0
    i32 1, label %c1
    i32 2, label %c2
    i32 3, label %c3
    i32 4, label %c4
    i32 5, label %c5
    i32 6, label %c6 ]
c0: br label %join
c1: call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %join
c2: %b2 = call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 true)
  br label %join
c3: %b3 = call i32 @llvm.nvvm.match.any.sync.i32(i32 -1, i32 %t)
  br label %join
c4: %b4 = call i32 @llvm.nvvm.shfl.sync.up.i32(i32 -1, i32 %t, i32 1, i32 0)
  br label %join
c5: %b5p = call { i32, i1 } @llvm.nvvm.shfl.sync.down.i32p(i32 -1, i32 %t, i32 1, i32 31)
  %b5v = extractvalue { i32, i1 } %b5p, 0
  %b5q = extractvalue { i32, i1 } %b5p, 1
  %b5 = select i1 %b5q, i32 %b5v, i32 -1
  br label %join
c6: %b6q = call i1 @llvm.nvvm.vote.all.sync(i32 -1, i1 false)
  %b6 = zext i1 %b6q to i32
  br label %join
other:
  %bad = icmp ugt i32 %k, 100
  br i1 %bad, label %fail, label %join
fail:
  call void @llvm.trap()
  unreachable
join:
  %v = phi i32 [ 5, %c0 ], [ 6, %c1 ], [ %b2, %c2 ], [ %b3, %c3 ], [ %b4, %c4 ], [ %b5, %c5 ], [ %b6, %c6 ], [ %k, %other ]
  br label %loop
loop:
  %i = phi i32 [ 0, %join ], [ %i1, %loop ]
  %acc = phi i32 [ %v, %join ], [ %acc1, %loop ]
  %slot = and i32 %i, 7
  %lp = getelementptr [8 x i32], ptr %local, i32 0, i32 %slot
  store volatile i32 %acc, ptr %lp
  %other.slot = xor i32 %slot, 0
  %lq = getelementptr [8 x i32], ptr %local, i32 0, i32 %other.slot
  %back = load volatile i32, ptr %lq
  %acc1 = add i32 %back, %i
  %i1 = add i32 %i, 1
  %more = icmp slt i32 %i1, %n
  br i1 %more, label %loop, label %done
done:
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %acc1, ptr addrspace(1) %p
  ret void
}
