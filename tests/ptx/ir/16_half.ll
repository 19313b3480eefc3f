; f16 and bf16, scalar and vector: what LLVM selects on sm_90 for ordinary arithmetic, comparisons and conversions.
target triple = "nvptx64-nvidia-cuda"
declare <2 x half> @llvm.fma.v2f16(<2 x half>, <2 x half>, <2 x half>)
declare <2 x bfloat> @llvm.fma.v2bf16(<2 x bfloat>, <2 x bfloat>, <2 x bfloat>)
declare bfloat @llvm.maxnum.bf16(bfloat, bfloat)
declare half @llvm.minimum.f16(half, half)
declare half @llvm.fabs.f16(half)
declare <2 x half> @llvm.maxnum.v2f16(<2 x half>, <2 x half>)
declare <2 x bfloat> @llvm.fabs.v2bf16(<2 x bfloat>)

define ptx_kernel void @halves(ptr addrspace(1) %out, half %a, half %b, bfloat %c, bfloat %d, <2 x half> %x, <2 x half> %y, <2 x bfloat> %u, <2 x bfloat> %v, i32 %n) {
  %1 = fadd half %a, %b
  %2 = fmul half %1, %b
  %3 = fsub half %2, %a
  %4 = fdiv half %3, %b
  %5 = call half @llvm.minimum.f16(half %4, half %a)
  %6 = call half @llvm.fabs.f16(half %5)
  %7 = fcmp olt half %6, %a
  %8 = select i1 %7, half %6, half 0xH3C00
  %9 = fadd bfloat %c, %d
  %10 = fmul bfloat %9, %d
  %11 = fneg bfloat %10
  %12 = call bfloat @llvm.maxnum.bf16(bfloat %11, bfloat %c)
  %13 = fcmp ogt bfloat %12, %c
  %14 = select i1 %13, bfloat %12, bfloat 0xR3F80
  %15 = fadd <2 x half> %x, %y
  %16 = fmul <2 x half> %15, %y
  %17 = call <2 x half> @llvm.fma.v2f16(<2 x half> %16, <2 x half> %x, <2 x half> %y)
  %18 = call <2 x half> @llvm.maxnum.v2f16(<2 x half> %17, <2 x half> %x)
  %19 = fadd <2 x bfloat> %u, %v
  %20 = fmul <2 x bfloat> %19, %v
  %21 = call <2 x bfloat> @llvm.fma.v2bf16(<2 x bfloat> %20, <2 x bfloat> %u, <2 x bfloat> %v)
  %22 = call <2 x bfloat> @llvm.fabs.v2bf16(<2 x bfloat> %21)
  %23 = fpext half %8 to float
  %24 = fpext bfloat %14 to float
  %25 = fadd float %23, %24
  %26 = fptrunc float %25 to half
  %27 = fptrunc float %25 to bfloat
  %28 = sitofp i32 %n to half
  %29 = fptosi half %28 to i32
  %30 = sitofp i32 %29 to float
  %31 = fptrunc float %30 to bfloat
  %32 = fcmp olt <2 x half> %18, %y
  %33 = select <2 x i1> %32, <2 x half> %18, <2 x half> %y
  store half %26, ptr addrspace(1) %out
  %p1 = getelementptr i8, ptr addrspace(1) %out, i32 4
  store bfloat %27, ptr addrspace(1) %p1
  %p2 = getelementptr i8, ptr addrspace(1) %out, i32 8
  store <2 x half> %33, ptr addrspace(1) %p2
  %p3 = getelementptr i8, ptr addrspace(1) %out, i32 12
  store <2 x bfloat> %22, ptr addrspace(1) %p3
  %p4 = getelementptr i8, ptr addrspace(1) %out, i32 16
  store bfloat %31, ptr addrspace(1) %p4
  ret void
}
