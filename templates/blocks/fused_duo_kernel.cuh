// The whole left-looking walk with panels of 32 columns applied in pairs: two CTAs an SM, so that one computes while the other waits (fused.lua, update =
// duo).
//
// Parameters: M, N, K, NP, KP, USED, NT, layouts, LIMIT, shared memory places O_*.
// Asks L2 for block `first` of A, a 128-byte line a request: it arrives while a panel keeps memory idle.
QRS_DEV void duo_prefetch(const float *a, i64 lda, int first)
{
% local long, lines = IN == "col" and 32 or M, IN == "col" and ceildiv(M, 32) or 1
    #pragma unroll 1
    for (int e = threadIdx.x; e < ${long * lines}; e += 256) {
        const int major = e / ${lines}, line = e % ${lines} * 32;
% if IN == "col" then
        if (first + major < ${N})
            prefetch_l2(a + (first + major) * lda + line);
% else
        prefetch_l2(a + major * lda + first + line);
% end
    }
}

// Writes block k to H and, with `panel`, factors it before: keeps V and T when some block comes `later`. Returns true when the Gram recursion did not do.
// Synchronises before.
QRS_DEV bool duo_panel(duo_tile &c, duo_stage &stage, int k, bool panel, bool later, float *out, i64 ldh, duo_shared *s)
{
    const int first = 32 * k, l = lane();
    const power_of_two grow = make_power_of_two(s->exponent[l] - QRS_LIFT);
    float f[8], now = 0.0f;
    duo_spread(grow.first, f);
    if (warp_any(grow.second != 1.0f)) { // rare: it takes two powers of two
        float f2[8];
        duo_spread(grow.second, f2);
        #pragma unroll
        for (int j = 0; j < ${TW}; j++)
            #pragma unroll
            for (int i = 0; i < 16; i++)
                if (!panel || 128 * j + 64 * duo_group() + ((int)warp() & 3) * 16 < first)
                    c[j][i] *= f2[(i >> 2) * 2 + (i & 1)];
    }
    bool rows = false;
    // R above the panel, then the panel, by the same code.
    #pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        duo_store(c, out, ldh, first, pass ? first : 0, panel && pass == 0 ? first : ${M}, f);
        if (!panel || pass)
            break;
        duo_gram(c, k, s);
        if (warp() < 4) {
            if (threadIdx.x < 32)
                s->whole[l] += duo_at(DUO_GRAM)[l * 37];
            const bool good = gram_recursion(duo_at(DUO_TOP), duo_at(DUO_GRAM), s->whole, (gram_buffers *)duo_at(DUO_BUFFERS), duo_at(DUO_M), duo_at(DUO_RV),
                                             s->tau, ${K} - first, first + 32 >= ${M}, 128);
            if (threadIdx.x == 0)
                s->sound = good;
        }
        block_sync();
        rows = !shfl(s->sound, 0);
        #pragma unroll 1
        for (int attempt = 0; attempt < 2; attempt++) {
            if (rows)
                duo_rows(k, s);
            else
                duo_pack_m(s);
            duo_finish(c, k, rows, grow, s);
            block_sync();
            float square = 1.0f;
            #pragma unroll
            for (int w = 0; w < 8; w++)
                square += s->part[w][l];
            const float was = s->tau[l];
            const bool right = was == 0.0f || fabsf(fmaf(0.5f * was, square, -1.0f)) <= ${LIMIT};
            now = was == 0.0f ? 0.0f : div_rn(2.0f, square); // of the v that is stored
            if (rows || warp_all(right))
                break;
            rows = true;
            block_sync();
        }
        #pragma unroll
        for (int i = 0; i < 8; i++)
            f[i] = 1.0f;
    }
    if (!panel)
        return false;
    fence_async_shared();
    block_sync(); // the planes, R and tau are read
    if (warp() == 0)
        s->tau[l] = now;
    if (later)
        duo_keep(c, stage, k, !(stage.zero >> (k - 1 & 31) & 1), s);
    return rows;
}

QRS_KERNEL(fused, 256, 2)(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau, i64 stride_tau, int *info,
                          i64 batch, u8 *v_scratch, u8 *t_scratch)
{
    u8 *smem = dynamic_smem();
    duo_shared *s = (duo_shared *)(smem + ${O_SHARED});
    const int tid = (int)threadIdx.x;
    if (tid == 0) {
        mbar_init(to_saddr(smem + ${O_BAR}), 1);
        fence_mbar_init();
    }
    duo_stage stage = {v_scratch, t_scratch, 0, 0};
    #pragma unroll 1
    for (i64 b = blockIdx.x; b < batch; b += gridDim.x) {
        stage.zero = 0;
        if (tid == 0)
            s->bad = s->fell = 0;
        #pragma unroll 1
        for (int k = 0; k < ${NP}; k++) {
            const int first = 32 * k, done = k < ${KP} ? k : ${KP};
            const u32 there = ~stage.zero & (u32)((1ull << done) - 1); // panels to apply
            duo_tile c;
            duo_load(c, a + b * stride_a, lda, first);
            block_sync(); // T of the last panel is read, and whatever else was shared
            const bool filled = shfl((int)duo_scale(c, s), 0);
            if (filled && there) {
                if (tid == 0)
                    bulk_wait<0>(); // the last V and T are in scratch
                #pragma unroll 1
                for (int pair = 0; 2 * pair < done; pair++) {
                    const int has = shfl((int)(there >> 2 * pair & 3), 0);
                    if (!has)
                        continue;
                    duo_fetch(stage, pair, has);
                    duo_arrived(stage);
                    duo_apply(c, pair, has);
                    fence_async_shared();
                    block_sync();
                }
            } else {
                block_sync(); // exponents
            }
            {
                const bool same = k + 1 < ${NP};
                const i64 next = same ? b : b + gridDim.x;
                if (next < batch)
                    duo_prefetch(a + next * stride_a, lda, same ? first + 32 : 0);
            }
            float *out = h + b * stride_h;
            const bool panel = filled && k < ${KP};
            if (duo_panel(c, stage, k, panel, k < ${USED}, out, ldh, s) && tid == 0)
                s->fell = 2;
            if (k < ${KP} && !filled) {
                stage.zero |= 1u << k;
                if (tid < 32)
                    s->tau[tid] = 0.0f;
            }
            if (k < ${KP} && tid < 32 && first + tid < ${K})
                tau[b * stride_tau + first + tid] = s->tau[tid];
        }
        block_sync();
        if (info && tid == 0)
            info[b] = s->bad | s->fell;
    }
    if (tid == 0)
        bulk_wait<0>();
}
QRS_ENTRY(fused)
