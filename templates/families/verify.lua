-- verify: the judge. Both gates of the contract in double from A, H and tau, never forming Q.
--
-- A matrix has n + k columns to check: column c of A goes forward through all reflectors and must become column c of
-- [R; 0]; the unit vector e_c goes backward (which makes column c of Q) and forward again and must come back to e_c.
-- A team of `lanes` threads holds one column; the columns of a block share tiles of reflectors in shared memory.
-- Nothing is exchanged but a team's dot products, so the result does not depend on the order of threads or blocks.

local function k_of(shape) return math.min(shape.m, shape.n) end

-- Odd multiples of the team's width: columns side by side in a warp fall into different banks.
local function column_stride(shape, p)
  return p.lanes * (ceildiv(shape.m, p.lanes) | 1)
end

-- Rows of a tile of reflectors; the offset keeps the rows x columns piece that a warp stages free of bank conflicts.
local function tile_stride(shape, p)
  return shape.m <= 32 and shape.m | 1 or align(shape.m, 32) + 32 // p.tile % 32
end

local function bytes(shape, p, columns, matrices)
  local held = p.hold == "shared" and 8 * columns * column_stride(shape, p) or 0
  local tile = p.hold == "shared" and 4 * matrices * p.tile * tile_stride(shape, p) or 0
  return held + 8 * 3 * columns + align(tile, 8) + 4 * matrices * p.tile
end

-- Columns a block: as many as its threads have teams for, fewer where they do not fit. A block takes whole matrices
-- where several fit, else a group of one matrix's columns.
local function split(shape, device, p)
  local all, per_warp = shape.n + k_of(shape), 32 // p.lanes
  local columns = math.max(per_warp, p.threads // p.lanes)
  while true do
    local matrices = math.max(1, columns // all)
    local size = bytes(shape, p, columns, matrices)
    if size <= device.smem_optin then return columns, matrices, size end
    if columns <= per_warp then return nil, size end
    columns = columns - per_warp
  end
end

local function default_lanes(shape)
  local lanes = 1
  while lanes < 32 and lanes * 32 < shape.m do lanes = lanes * 2 end
  return lanes
end

local function default_tile(shape)
  local most, tile = shape.m <= 1024 and 8 or shape.m <= 4096 and 4 or 2, 1
  while tile < most and tile < k_of(shape) do tile = tile * 2 end
  return tile
end

return {
  name = "verify", op = "verify",
  summary = "factor and orthogonality residuals, tau and finiteness of a factorization, in double",
  params = {
    { name = "lanes", values = { 1, 2, 4, 8, 16, 32 }, doc = "threads that hold one column; about 32 rows each",
      default = function(shape) return default_lanes(shape) end },
    { name = "threads", values = { 32, 64, 128, 256 }, doc = "most threads a block; fewer where the columns do not fit",
      default = function(shape) return shape.m <= 2048 and 128 or 256 end },
    { name = "tile", values = { 1, 2, 4, 8 }, doc = "reflectors staged together in shared memory",
      default = function(shape) return default_tile(shape) end },
    { name = "hold", values = { "shared", "workspace" }, doc = "where the columns are while reflectors pass; workspace serves any height",
      default = function(shape, device)
        local p = { lanes = default_lanes(shape), threads = 64, tile = default_tile(shape), hold = "shared" }
        local columns = split(shape, device, p)
        return columns and columns * p.lanes >= 64 and "shared" or "workspace"
      end },
  },
  legal = function(shape, device, p)
    if shape.m < 1 or shape.n < 1 then return false, "an empty matrix has nothing to verify" end
    local columns, size = split(shape, device, p)
    if not columns then
      return false, "columns and reflectors take " .. size .. " bytes of shared memory, the device has " .. device.smem_optin ..
        ": use hold = workspace, or lower tile"
    end
    return true
  end,
  rank = function(shape, device) return 1 end,
  resources = function(shape, device, p)
    local columns, _, size = split(shape, device, p)
    return { threads = columns * p.lanes, smem = size, registers = 64, l2 = 0 }
  end,
  vars = function(shape, device, p)
    local columns, matrices, size = split(shape, device, p)
    local k = k_of(shape)
    local v = { M = shape.m, N = shape.n, K = k, W = shape.n + k, L = p.lanes, TILE = p.tile, HOLD = p.hold,
                COLUMNS = columns, MATRICES = matrices, GROUPS = ceildiv(shape.n + k, columns), THREADS = columns * p.lanes,
                XS = column_stride(shape, p), VS = tile_stride(shape, p), SMEM = size,
                A_ROW = shape.layout_in == "row", H_ROW = shape.layout_out == "row" }
    v.X_BYTES = p.hold == "shared" and 8 * columns * v.XS or 0
    v.V_BYTES = p.hold == "shared" and align(4 * matrices * p.tile * v.VS, 8) or 0
    return v
  end,
  program = function(shape, device, p, v)
    -- Blocks walk over the tasks, so that no batch exceeds a grid and workspace is a matter of resident blocks only.
    local tasks = v.MATRICES > 1 and "ceildiv(batch, " .. v.MATRICES .. ")" or "batch * " .. v.GROUPS
    local grid = v.HOLD == "shared" and "min(" .. tasks .. ", 1048576)" or "min(" .. tasks .. ", sms * 4)"
    local buffers = {}
    local args = { { pointer = "A" }, { call = "lda" }, { call = "stride_a" }, { pointer = "H" }, { call = "ldh" },
                   { call = "stride_h" }, { pointer = "tau" }, { call = "stride_tau" }, { call = "batch" } }
    if v.HOLD == "workspace" then
      buffers[#buffers + 1] = { name = "columns", bytes = grid .. " * " .. 8 * v.COLUMNS * v.XS }
      args[#args + 1] = { workspace = "columns" }
    end
    if v.GROUPS > 1 then buffers[#buffers + 1] = { name = "partial", bytes = "batch * " .. 40 * v.GROUPS } end
    args[#args + 1] = v.GROUPS > 1 and { workspace = "partial" } or { pointer = "gates" }
    local ops = { { op = "launch", kernel = "verify_columns", grid = { grid, 1, 1 }, block = v.THREADS, cluster = 1, smem = v.SMEM,
                    cooperative = false, args = args } }
    if v.GROUPS > 1 then
      ops[2] = { op = "launch", kernel = "verify_matrices", grid = { "min(ceildiv(batch, 4), 1048576)", 1, 1 }, block = 128, cluster = 1,
                 smem = 0, cooperative = false, args = { { workspace = "partial" }, { pointer = "gates" }, { call = "batch" } } }
    end
    return { products = "fp32", buffers = buffers, ops = ops }
  end,
}
--[==[ source
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"

using namespace qrs;

// ${M} x ${N}: ${W} columns a matrix to check, ${COLUMNS} a block, ${L} lanes a column.

static constexpr double eps = 1.1920928955078125e-7; // 2^-23

QRS_DEV i64 offset_a(i64 row, i64 column, i64 ld) { return ${A_ROW and "row * ld + column" or "row + column * ld"}; }
QRS_DEV i64 offset_h(i64 row, i64 column, i64 ld) { return ${H_ROW and "row * ld + column" or "row + column * ld"}; }

// The larger, and a NaN above all: a gate that is not a number must never look small.
QRS_DEV double worse(double a, double b) { return b > a || b != b ? b : a; }
QRS_DEV double infinite() { return as_f32(0x7f800000u); }
QRS_DEV bool is_number(double x) { return x - x == 0.0; }

// What a block or a matrix has found so far.
struct findings {
    double residual, norm; // largest column sums of |Q'A - [R; 0]| and |A|
    double orth;           // largest column sum of |Q'Q - I|
    double tau;            // largest error of a tau, eps
    double finite;         // 1: no NaN, no Inf
};

QRS_DEV void start(findings &f) {
    f.residual = f.norm = f.orth = f.tau = 0.0;
    f.finite = 1.0;
}

QRS_DEV void write_gates(double *gates, i64 matrix, const findings &f) {
    gates += 4 * matrix;
    gates[0] = f.residual == 0.0 ? 0.0 : f.norm == 0.0 ? infinite() : f.residual / (eps * f.norm);
    gates[1] = f.orth / eps;
    gates[2] = f.tau;
    gates[3] = f.finite;
}

// The sum over a team, the same bits in all its lanes.
QRS_DEV double team_sum(double value) {
% for _, mask in ipairs({ 16, 8, 4, 2, 1 }) do
% if mask < L then
    value += shfl_xor(value, ${mask});
% end
% end
    return value;
}

// |tau - 2 / (v'v)| in units of eps |tau|; H = I is tau = 0 with nothing below the diagonal.
QRS_DEV double tau_error(double tau, double square) {
    if (tau == 0.0)
        return square == 1.0 ? 0.0 : infinite();
    return fabs(tau - 2.0 / square) / (eps * fabs(tau));
}

% if HOLD == "shared" then
// Stages reflectors j0 .. j0+${TILE - 1} of the block's matrices, unit and zeros above it made explicit: a reflector is then a plain
// column from row j0, rounded down to whole teams, on.
QRS_DEV void stage(float *v, float *scalar, const float *H, i64 ldh, i64 stride_h, const float *tau, i64 stride_tau, i64 matrices,
                   int j0) {
    int first = j0 / ${L} * ${L}, rows = ${M} - first;
    int count = static_cast<int>(matrices) * ${TILE} * rows;
#pragma unroll 4
    for (int at = threadIdx.x; at < count; at += ${THREADS}) {
% if H_ROW then
        int b = at / (${TILE} * rows), rest = at - b * (${TILE} * rows), jj = rest % ${TILE}, row = first + rest / ${TILE};
% else
        int b = at / (${TILE} * rows), rest = at - b * (${TILE} * rows), jj = rest / rows, row = first + rest - jj * rows;
% end
        int j = j0 + jj;
        float value = row == j ? 1.0f : 0.0f;
        if (row > j && j < ${K})
            value = H[b * stride_h + offset_h(row, j, ldh)];
        v[(b * ${TILE} + jj) * ${VS} + row] = value;
    }
    for (int at = threadIdx.x; at < static_cast<int>(matrices) * ${TILE}; at += ${THREADS}) {
        int b = at / ${TILE}, j = j0 + at % ${TILE};
        scalar[at] = j < ${K} ? tau[b * stride_tau + j] : 0.0f;
    }
}
% end

// x -= tau (v'x) v; every lane of a warp calls it, `active` says whether to change x. A lane has rows row0, row0 + ${L}, ..
// where v[row * step] is the reflector, and row `pivot`, where v is 1, unless that is negative.
QRS_DEV void reflect(double *x, const float *v, i64 step, double tau, int row0, int pivot, bool active) {
% if L == 1 then
    if (!active)
        return;
% end
    double even = pivot < 0 ? 0.0 : x[pivot], odd = 0.0;
    int row = row0;
#pragma unroll 4
    for (; row + ${L} < ${M}; row += ${2 * L}) {
        even = fma(static_cast<double>(v[row * step]), x[row], even);
        odd = fma(static_cast<double>(v[(row + ${L}) * step]), x[row + ${L}], odd);
    }
    if (row < ${M})
        even = fma(static_cast<double>(v[row * step]), x[row], even);
    const double w = tau * team_sum(even + odd);
    if (!active)
        return;
    if (pivot >= 0)
        x[pivot] -= w;
    // Four loads, then four stores: the compiler cannot know that x and v never overlap.
    for (row = row0; row + ${3 * L} < ${M}; row += ${4 * L}) {
        double y[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            y[i] = fma(-w, static_cast<double>(v[(row + i * ${L}) * step]), x[row + i * ${L}]);
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[row + i * ${L}] = y[i];
    }
    for (; row < ${M}; row += ${L})
        x[row] = fma(-w, static_cast<double>(v[row * step]), x[row]);
}

// v'v, of the same rows.
QRS_DEV double square_sum(const float *v, i64 step, int row0, int pivot) {
    double sum = pivot < 0 ? 0.0 : 1.0;
#pragma unroll 4
    for (int row = row0; row < ${M}; row += ${L}) {
        const double value = v[row * step];
        sum = fma(value, value, sum);
    }
    return team_sum(sum);
}

QRS_KERNEL(verify_columns, ${THREADS}, 1)
(const float *A, i64 lda, i64 stride_a, const float *H, i64 ldh, i64 stride_h, const float *tau, i64 stride_tau, i64 batch,
% if HOLD == "workspace" then
 double *space,
% end
 double *out) {
    u8 *smem = dynamic_smem();
% if HOLD == "shared" then
    double *columns = reinterpret_cast<double *>(smem);
    float *tile = reinterpret_cast<float *>(smem + ${X_BYTES + 24 * COLUMNS});
    float *scalar = reinterpret_cast<float *>(smem + ${X_BYTES + 24 * COLUMNS + V_BYTES});
% else
    double *columns = space + static_cast<i64>(blockIdx.x) * ${COLUMNS * XS};
% end
    double *found = reinterpret_cast<double *>(smem + ${X_BYTES}); // 3 a column
    const int team = threadIdx.x / ${L}, member = threadIdx.x % ${L};
    double *x = columns + static_cast<i64>(team) * ${XS};
% if MATRICES > 1 then
    const i64 tasks = (batch + ${MATRICES - 1}) / ${MATRICES};
% else
    const i64 tasks = batch * ${GROUPS};
% end

    for (i64 task = blockIdx.x; task < tasks; task += gridDim.x) {
% if MATRICES > 1 then
        const i64 matrix = task * ${MATRICES}; // the block's first
        const i64 matrices = batch - matrix < ${MATRICES} ? batch - matrix : ${MATRICES};
        const int column0 = 0, b = team / ${W}, column = team % ${W};
        const bool mine = b < matrices;
% else
        const i64 matrix = task / ${GROUPS};
        const i64 matrices = 1;
        const int column0 = static_cast<int>(task % ${GROUPS}) * ${COLUMNS}, b = 0, column = column0 + team;
        const bool mine = column < ${W};
% end
        const float *a = A + matrix * stride_a, *h = H + matrix * stride_h, *t = tau + matrix * stride_tau;

        // All columns at once in the order of A's memory.
#pragma unroll 4
        for (int at = threadIdx.x; at < ${COLUMNS * M}; at += ${THREADS}) {
% if A_ROW then
            int slot = at % ${COLUMNS}, row = at / ${COLUMNS};
% else
            int row = at % ${M}, slot = at / ${M};
% end
% if MATRICES > 1 then
            int from = slot / ${W}, c = slot % ${W};
            bool exists = from < matrices;
% else
            int from = 0, c = column0 + slot;
            bool exists = c < ${W};
% end
            double value = exists && row == c - ${N} ? 1.0 : 0.0;
            if (exists && c < ${N})
                value = a[from * stride_a + offset_a(row, c, lda)];
            columns[static_cast<i64>(slot) * ${XS} + row] = value;
        }
        block_sync();

        const bool is_unit = column >= ${N};
        const int unit = column - ${N}; // the c of e_c
        double size = 0.0, tau_off = 0.0;
        for (int row = member; row < ${M}; row += ${L})
            size += fabs(x[row]);
        size = team_sum(size);

        // Backward, unit vectors only: reflectors after c leave e_c alone.
% if MATRICES > 1 then
        const int last = ${K - 1}, warp_first = 0, warp_last = ${K - 1};
% else
        const int last = (column0 + ${COLUMNS} < ${W} ? column0 + ${COLUMNS} : ${W}) - 1 - ${N};
        const int warp_first = column0 + static_cast<int>(warp()) * ${32 // L} - ${N}, warp_last = warp_first + ${32 // L} - 1;
% end
% if HOLD == "shared" then
        for (int j0 = last / ${TILE} * ${TILE}; last >= 0 && j0 >= 0; j0 -= ${TILE}) {
            stage(tile, scalar, h, ldh, stride_h, t, stride_tau, matrices, j0);
            block_sync();
            const int row0 = j0 / ${L} * ${L} + member;
            for (int j = j0 + ${TILE - 1}; j >= j0; j--) {
                if (j > warp_last || j > last)
                    continue;
                const int place = (mine ? b : 0) * ${TILE} + j - j0;
                const float *v = tile + place * ${VS};
                if (j >= warp_first) {
                    const double square = square_sum(v, 1, row0, -1);
                    if (mine && unit == j)
                        tau_off = tau_error(scalar[place], square);
                }
                reflect(x, v, 1, scalar[place], row0, -1, mine && unit >= j);
            }
            block_sync();
        }
        for (int j0 = 0; j0 < ${K}; j0 += ${TILE}) {
            stage(tile, scalar, h, ldh, stride_h, t, stride_tau, matrices, j0);
            block_sync();
            const int row0 = j0 / ${L} * ${L} + member;
            for (int j = j0; j < j0 + ${TILE} && j < ${K}; j++) {
                const int place = (mine ? b : 0) * ${TILE} + j - j0;
                reflect(x, tile + place * ${VS}, 1, scalar[place], row0, -1, mine);
            }
            block_sync();
        }
% else
        const i64 step = ${H_ROW and "ldh" or "1"};
        const float *own = h + (mine ? b : 0) * stride_h, *own_tau = t + (mine ? b : 0) * stride_tau;
        for (int j = warp_last < last ? warp_last : last; j >= 0; j--) {
            // The team's rows stay its lanes' own, so lanes need not wait for each other's stores.
            const int row0 = j + 1 + ((member - j - 1) & ${L - 1}), pivot = j % ${L} == member ? j : -1;
            const float *v = own + offset_h(0, j, ldh);
            if (j >= warp_first) {
                const double square = square_sum(v, step, row0, pivot);
                if (mine && unit == j)
                    tau_off = tau_error(own_tau[j], square);
            }
            reflect(x, v, step, own_tau[j], row0, pivot, mine && unit >= j);
        }
        for (int j = 0; j < ${K}; j++) {
            const int row0 = j + 1 + ((member - j - 1) & ${L - 1}), pivot = j % ${L} == member ? j : -1;
            reflect(x, own + offset_h(0, j, ldh), step, own_tau[j], row0, pivot, mine);
        }
% end

        double sum = 0.0, magnitude = 0.0;
        if (mine) {
            for (int row = member; row < ${M}; row += ${L}) {
                double expected = 0.0;
                if (!is_unit) {
                    double stored = h[b * stride_h + offset_h(row, column, ldh)];
                    magnitude += fabs(stored);
                    expected = row <= column ? stored : 0.0;
                } else if (row < ${K}) {
                    expected = row == unit ? 1.0 : 0.0;
                }
                if (!is_unit || row < ${K})
                    sum += fabs(x[row] - expected);
            }
        }
        sum = team_sum(sum);
        magnitude = team_sum(magnitude);
        if (member == 0) {
            const double output = is_unit && mine ? static_cast<double>(t[b * stride_tau + unit]) : magnitude;
            found[3 * team] = sum;
            found[3 * team + 1] = is_unit ? tau_off : size;
            found[3 * team + 2] = is_number(size) && is_number(output) ? 1.0 : 0.0;
        }
        block_sync();

        // One thread a matrix reads what its columns have found.
        if (threadIdx.x < matrices) {
            findings f;
            start(f);
            const int own = threadIdx.x * ${MATRICES > 1 and W or 0};
            for (int slot = 0; slot < ${math.min(COLUMNS, W)} && column0 + slot < ${W}; slot++) {
                const double *what = found + 3 * (own + slot);
                if (column0 + slot < ${N}) {
                    f.residual = worse(f.residual, what[0]);
                    f.norm = worse(f.norm, what[1]);
                } else {
                    f.orth = worse(f.orth, what[0]);
                    f.tau = worse(f.tau, what[1]);
                }
                f.finite = what[2] == 0.0 ? 0.0 : f.finite;
            }
% if GROUPS > 1 then
            reinterpret_cast<findings *>(out)[task] = f;
% else
            write_gates(out, matrix + threadIdx.x, f);
% end
        }
    }
}
QRS_ENTRY(verify_columns)
% if GROUPS > 1 then

// A warp a matrix joins what its groups of columns have found.
QRS_KERNEL(verify_matrices, 128, 1)(const double *partial, double *gates, i64 batch) {
    const findings *all = reinterpret_cast<const findings *>(partial);
    for (i64 matrix = static_cast<i64>(blockIdx.x) * 4 + warp(); matrix < batch; matrix += static_cast<i64>(gridDim.x) * 4) {
        findings f;
        start(f);
        for (int group = lane(); group < ${GROUPS}; group += 32) {
            const findings g = all[matrix * ${GROUPS} + group];
            f.residual = worse(f.residual, g.residual);
            f.norm = worse(f.norm, g.norm);
            f.orth = worse(f.orth, g.orth);
            f.tau = worse(f.tau, g.tau);
            f.finite = g.finite == 0.0 ? 0.0 : f.finite;
        }
#pragma unroll
        for (int mask = 16; mask > 0; mask >>= 1) {
            f.residual = worse(f.residual, shfl_xor(f.residual, mask));
            f.norm = worse(f.norm, shfl_xor(f.norm, mask));
            f.orth = worse(f.orth, shfl_xor(f.orth, mask));
            f.tau = worse(f.tau, shfl_xor(f.tau, mask));
            const double other = shfl_xor(f.finite, mask);
            f.finite = other == 0.0 ? 0.0 : f.finite;
        }
        if (lane() == 0)
            write_gates(gates, matrix, f);
    }
}
QRS_ENTRY(verify_matrices)
% end
]==]
