-- A family whose program uses everything a launch program can say. Its kernels never run: tests/test_runtime.c
-- looks at what reaches the (stand-in) driver.
return {
  name = "toy", op = "geqrf", summary = "for tests of the runtime",
  params = {
    { name = "width", values = { 1, 2, 4 }, default = function() return 2 end, doc = "matrices a block" },
    { name = "cluster", values = { 1, 2, 8, 16 }, default = function() return 1 end, doc = "blocks a cluster" },
    { name = "cooperative", values = { 0, 1 }, default = function() return 0 end, doc = "1: launched cooperatively" },
    { name = "early", values = { 0, 1 }, default = function() return 0 end, doc = "1: launched before the last launch ends" },
    { name = "smem", values = { 1024, 65536, 1048576 }, default = function() return 1024 end, doc = "bytes" },
    { name = "defect", values = { "none", "BROKEN", "SPILLS", "EMPTY" }, default = function() return "none" end,
      doc = "what the stand-in compiler makes of it" },
  },
  legal = function(shape, device, p)
    if shape.n > 1000 then return false, "more than 1000 columns" end
    return true
  end,
  rank = function() return 1 end,
  resources = function(shape, device, p) return { threads = 128, smem = p.smem, registers = 40, l2 = 0 } end,
  vars = function(shape, device, p) return { DEFECT = p.defect } end,
  program = function(shape, device, p, v)
    return {
      products = "fp32",
      buffers = { { name = "flags", bytes = "4*batch" }, { name = "V", bytes = "batch*1000" } },
      ops = {
        { op = "clear", buffer = "flags", offset = 0, bytes = "4*batch" },
        { op = "launch", kernel = "first", grid = { "ceildiv(batch, " .. p.width .. ") * " .. p.cluster, 1, 1 },
          block = 128, cluster = p.cluster, smem = p.smem, cooperative = p.cooperative == 1, early = p.early == 1,
          args = {
            { pointer = "A" }, { pointer = "H" }, { pointer = "tau" }, { pointer = "info" },
            { call = "batch" }, { call = "lda" }, { call = "stride_a" }, { call = "ldh" }, { call = "stride_h" },
            { call = "stride_tau" }, { i32 = "batch - 7" }, { i64 = "sms * 1000000000" }, { f32 = 0.25 },
            { workspace = "flags" }, { workspace = "V", offset = "16" },
          } },
        { op = "launch", kernel = "never", grid = { 1, "batch - batch", 1 }, block = 32, cluster = 1, smem = 0,
          cooperative = false, args = { { pointer = "A" } } },
        { op = "launch", kernel = "second", grid = { 3, "min(batch, 5)", 2 }, block = 64, cluster = 1, smem = 0,
          cooperative = false,
          args = { { tensor_map = { workspace = "V", type = "f16", dims = { 64, "batch" }, strides = { 1008 },
                                    box = { 64, 1 }, swizzle = 128 } } } },
      },
    }
  end,
}
--[==[ source
#include "device/core.cuh"
// ${shape.m} x ${shape.n} ${DEFECT}
QRS_KERNEL(first, 128, 0)() {}
QRS_ENTRY(first)
QRS_KERNEL(never, 32, 0)() {}
QRS_ENTRY(never)
QRS_KERNEL(second, 64, 0)() {}
QRS_ENTRY(second)
]==]
